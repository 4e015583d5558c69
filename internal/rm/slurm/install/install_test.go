package install

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rmreplay/internal/slurmspec"
)

// fakeHome is a prefix with empty programs; ask answers with a version.
type fakeHome struct {
	t   *testing.T
	dir string
	f   finder
	// answers of programs by file name
	answers map[string]string
}

func newFakeHome(t *testing.T) *fakeHome {
	h := &fakeHome{t: t, dir: t.TempDir(), answers: map[string]string{}}
	h.f = finder{
		slurmDirs:  []string{filepath.Join(h.dir, "sbin"), filepath.Join(h.dir, "bin")},
		slurmHomes: []string{h.dir},
		otherDirs:  []string{filepath.Join(h.dir, "sbin"), filepath.Join(h.dir, "bin")},
		libDirs:    []string{filepath.Join(h.dir, "lib")},
		ask: func(_, path string, _ ...string) (string, error) {
			return h.answers[filepath.Base(path)], nil
		},
	}
	for _, name := range []string{"slurmctld", "slurmdbd", "mariadbd"} {
		h.file("sbin/"+name, 0o755)
		h.answers[name] = "slurm-wlm 22.05.8\n"
	}
	h.answers["mariadbd"] = "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n"
	for _, name := range []string{"scontrol", "squeue", "sacctmgr", "sacct"} {
		h.file("bin/"+name, 0o755)
		h.answers[name] = "slurm-wlm 22.05.8\n"
	}
	for _, p := range plugins {
		h.file("lib/slurm/"+p.name+".so", 0o644)
	}
	h.file("lib/slurm/libslurmfull.so", 0o644)
	h.file("lib/libnss_wrapper.so", 0o644)
	h.file("share/mysql/mysql_system_tables.sql", 0o644)
	return h
}

func (h *fakeHome) file(name string, mode os.FileMode) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, mode); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHome) remove(name string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.dir, name)); err != nil {
		h.t.Fatal(err)
	}
}

func TestFindComplete(t *testing.T) {
	h := newFakeHome(t)
	in := h.f.find()
	if err := in.Need(true); err != nil {
		t.Fatal(err)
	}
	got := *in
	got.Items = nil
	at := func(name string) string { return filepath.Join(h.dir, name) }
	want := Installation{
		Slurmctld: at("sbin/slurmctld"), Slurmdbd: at("sbin/slurmdbd"),
		Sacctmgr: at("bin/sacctmgr"), Sacct: at("bin/sacct"), Scontrol: at("bin/scontrol"), Squeue: at("bin/squeue"),
		Mariadbd: at("sbin/mariadbd"), SystemTables: at("share/mysql/mysql_system_tables.sql"),
		NSSWrapper: at("lib/libnss_wrapper.so"), PluginDir: at("lib/slurm"),
		Version: "22.05.8", Release: slurmspec.Release{Major: 22, Minor: 5, Patch: 8}, MariaDBVersion: "10.11.19",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Installation{})); diff != "" {
		t.Error(diff)
	}
}

// Plugins are found where Debian, RHEL and Slurm's own build have them.
func TestPluginDirs(t *testing.T) {
	for _, lib := range []string{"lib/" + multiarch() + "/slurm-wlm", "lib64/slurm", "lib/slurm"} {
		h := newFakeHome(t)
		to := filepath.Join(h.dir, lib)
		if lib != "lib/slurm" {
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(filepath.Join(h.dir, "lib/slurm"), to)); err != nil {
				t.Fatal(err)
			}
		}
		in := h.f.find()
		if err := in.Need(true); err != nil || in.PluginDir != to {
			t.Errorf("%s: found %q, %v", lib, in.PluginDir, err)
		}
	}
}

func TestEmulatorIsNotTheController(t *testing.T) {
	h := newFakeHome(t)
	h.remove("sbin/slurmctld")
	h.file("sbin/slurmctld-emulator", 0o755)
	if err := os.Symlink("slurmctld-emulator", filepath.Join(h.dir, "sbin/slurmctld")); err != nil {
		t.Fatal(err)
	}
	if in := h.f.find(); in.Slurmctld != "" {
		t.Errorf("slurmctld is %s, the emulator", in.Slurmctld)
	}
	// In this case Debian has the real slurmctld under another name.
	h.file("sbin/slurmctld-wlm", 0o755)
	h.answers["slurmctld-wlm"] = "slurm-wlm 22.05.8"
	in := h.f.find()
	if want := filepath.Join(h.dir, "sbin/slurmctld-wlm"); in.Slurmctld != want {
		t.Errorf("slurmctld is %q, want %q", in.Slurmctld, want)
	}
	if err := in.Need(true); err != nil {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	tests := []struct {
		name    string
		remove  string
		missing string
		command string
		plain   bool // missing without accounting too
	}{
		{"controller", "sbin/slurmctld", "slurmctld", "apt-get install --no-install-recommends slurmctld", true},
		{"client", "bin/scontrol", "scontrol", "apt-get install --no-install-recommends slurm-client", true},
		{"plugin", "lib/slurm/jobcomp_filetxt.so", "jobcomp_filetxt", "apt-get install --no-install-recommends slurm-wlm-basic-plugins", true},
		{"wrapper", "lib/libnss_wrapper.so", "libnss_wrapper.so", "apt-get install --no-install-recommends libnss-wrapper", true},
		{"slurmdbd", "sbin/slurmdbd", "slurmdbd", "apt-get install --no-install-recommends slurmdbd", false},
		{"mysql plugin", "lib/slurm/accounting_storage_mysql.so", "accounting_storage_mysql", "apt-get install --no-install-recommends slurm-wlm-mysql-plugin", false},
		{"system tables", "share/mysql/mysql_system_tables.sql", "MariaDB's system tables", "apt-get install --no-install-recommends mariadb-server-core", false},
		{"database", "sbin/mariadbd", "mariadbd", "apt-get install --no-install-recommends mariadb-server-core", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHome(t)
			h.remove(tt.remove)
			in := h.f.find()
			err := in.Need(true)
			var missing *MissingError
			if !errors.As(err, &missing) {
				t.Fatalf("error %v, want a MissingError", err)
			}
			want := "missing on this machine: " + tt.missing + " (install with: " + tt.command + "; without root: rmreplay slurm install "
			if !strings.HasPrefix(err.Error(), want) {
				t.Errorf("message\n%s\nwant\n%s", err, want)
			}
			if got := in.Need(false) != nil; got != tt.plain {
				t.Errorf("missing without accounting: %v, want %v", got, tt.plain)
			}
		})
	}
}

func TestMissingEverything(t *testing.T) {
	f := finder{slurmDirs: []string{"/nonexistent"}, otherDirs: []string{"/nonexistent"}, ask: ask}
	err := f.find().Need(true)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("error %v, want a MissingError", err)
	}
	if got, want := len(missing.Missing), len(programs)+len(plugins)+1; got != want {
		t.Errorf("%d requirements are missing, want %d", got, want)
	}
	for _, pkg := range []string{"slurmctld", "slurmdbd", "slurm-client", "mariadb-server-core", "libnss-wrapper", "slurm-wlm-mysql-plugin"} {
		if n := strings.Count(InstallCommand(missing.Missing), " "+pkg); n != 1 {
			t.Errorf("%s is in the command %d times:\n%s", pkg, n, err)
		}
	}
}

// Each message names the command that installs the missing parts without root.
func TestWithoutRoot(t *testing.T) {
	for _, tt := range []struct {
		dir    string // the one that the user named
		remove []string
		want   string // the end of the message
	}{
		{"", []string{"sbin/mariadbd"}, "mariadb-server-core; without root: rmreplay slurm install --with-database)"},
		{"", []string{"lib/libnss_wrapper.so"}, "libnss-wrapper; without root: rmreplay slurm install --with-database)"},
		{"", []string{"bin/sacct"}, "slurm-client; without root: rmreplay slurm install 24.11, and --slurm 24.11)"},
		{"", []string{"bin/sacct", "sbin/mariadbd"}, "without root: rmreplay slurm install 24.11 --with-database, and --slurm 24.11)"},
		{"/opt/slurm", []string{"sbin/mariadbd"}, "without root: rmreplay slurm install --with-database)"},
		{"/opt/slurm", []string{"bin/sacct"}, "missing: sacct (want Slurm's own files in /opt/slurm; Debian's packages with them are: slurm-client)"},
	} {
		h := newFakeHome(t)
		for _, name := range tt.remove {
			h.remove(name)
		}
		h.f.dir = tt.dir
		if err := h.f.find().Need(true); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("without %v, Slurm %q: %v, want the end %q", tt.remove, tt.dir, err, tt.want)
		}
	}
	t.Setenv("PATH", t.TempDir()) // a machine without apt-get
	h := newFakeHome(t)
	h.remove("bin/sacct")
	h.remove("sbin/mariadbd")
	const want = "(install with: this system's package manager; without root: a copy of ~/.cache/rmreplay/slurm from a machine " +
		"with apt-get (there: rmreplay slurm install 24.11 --with-database), and --slurm 24.11)"
	if err := h.f.find().Need(true); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("without apt-get: %v, want the end %q", err, want)
	}
	if !supported(stableRelease + ".1") {
		t.Errorf("%s is not supported", stableRelease)
	}
}

// MariaDB and nss_wrapper come from the store if the machine lacks them.
func TestDatabaseOfStore(t *testing.T) {
	h := newFakeHome(t)
	store := newFakeHome(t)
	h.f.database = store.dir
	for _, name := range []string{"usr/sbin/mariadbd", "usr/share/mysql/mysql_system_tables.sql", "usr/lib/libnss_wrapper.so"} {
		store.file(name, 0o755)
	}
	if in := h.f.find(); in.Mariadbd != filepath.Join(h.dir, "sbin/mariadbd") || in.NSSWrapper != filepath.Join(h.dir, "lib/libnss_wrapper.so") {
		t.Errorf("found %s and %s, want those of the machine", in.Mariadbd, in.NSSWrapper)
	}
	for _, name := range []string{"sbin/mariadbd", "share/mysql/mysql_system_tables.sql", "lib/libnss_wrapper.so"} {
		h.remove(name)
	}
	in := h.f.find()
	if err := in.Need(true); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(store.dir, name) }
	got := []string{in.Mariadbd, in.SystemTables, in.NSSWrapper, in.MariaDBVersion}
	want := []string{at("usr/sbin/mariadbd"), at("usr/share/mysql/mysql_system_tables.sql"), at("usr/lib/libnss_wrapper.so"), "10.11.19"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// MariaDB of a root starts by the root's own loader, with the root's files.
func TestDatabaseCommand(t *testing.T) {
	in := Installation{Mariadbd: "/store/usr/sbin/mariadbd"}
	if path, args := in.MariaDB("--no-defaults"); path != in.Mariadbd || !slices.Equal(args, []string{in.Mariadbd, "--no-defaults"}) {
		t.Errorf("without a loader: %s %q", path, args)
	}
	in.DatabaseLoader = &Loader{Root: "/store", Path: "/store/lib/ld.so", Libraries: []string{"/store/lib", "/store/usr/lib"}}
	path, args := in.MariaDB("--no-defaults", "--socket=s")
	want := []string{
		"/store/lib/ld.so", "--inhibit-cache", "--library-path", "/store/lib:/store/usr/lib",
		"/store/usr/sbin/mariadbd", "--no-defaults", "--socket=s", "--basedir=/store/usr",
	}
	if diff := cmp.Diff(want, args); diff != "" || path != want[0] {
		t.Errorf("%s: %s", path, diff)
	}
}

// A newer release is supported if all of its programs are of that release.
func TestNewerVersion(t *testing.T) {
	h := newFakeHome(t)
	h.answers["slurmctld"] = "slurm-wlm 24.11.5"
	wantBroken(t, h.f.find().Need(true), "scontrol", "a mix of two releases")
	for _, p := range programs {
		if p.slurm {
			h.answers[p.name] = "slurm-wlm 24.11.5"
		}
	}
	if err := h.f.find().Need(true); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	tests := []struct {
		program, answer string
		message         string // part of the error; empty if there is none
		accounting      bool   // the error comes only with accounting
	}{
		{"slurmctld", "slurm-wlm 22.05.8", "", false},
		{"slurmctld", "slurm 22.05.11", "", false},
		{"slurmctld", "slurm-wlm 21.08.8", "version 21.08.8: not supported (want Slurm 22.05.x", false},
		{"slurmctld", "slurm 22.051.0", "version 22.051.0: not supported", false},
		{"slurmctld", "", "does not say its version: not supported", false},
		{"slurmdbd", "slurm 21.08.1", "version 21.08.1: not supported", true},
		{"scontrol", "slurm 20.11.9", "version 20.11.9: not supported", false},
	}
	for _, tt := range tests {
		t.Run(tt.program+" "+tt.answer, func(t *testing.T) {
			h := newFakeHome(t)
			h.answers[tt.program] = tt.answer
			in := h.f.find()
			err := in.Need(true)
			if tt.message == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var version *VersionError
			if !errors.As(err, &version) || !strings.Contains(err.Error(), tt.message) {
				t.Fatalf("error %v, want a VersionError with %q", err, tt.message)
			}
			if got := in.Need(false) == nil; got != tt.accounting {
				t.Errorf("accepted without accounting: %v, want %v", got, tt.accounting)
			}
		})
	}
}

// TestFindHere runs the programs of this machine for their versions.
func TestFindHere(t *testing.T) {
	in, err := Find()
	var missing *MissingError
	if errors.As(err, &missing) {
		t.Skipf("SKIPPED, real Slurm is not looked at: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range in.Items {
		if it.slurmProgram() && it.Version != in.Version {
			t.Errorf("%s says version %q, slurmctld %q", it.Path, it.Version, in.Version)
		}
	}
	if in.MariaDBVersion == "" {
		t.Errorf("%s does not say its version", in.Mariadbd)
	}
}

// A named Slurm is looked for in its directory only.
func TestFindUsesVariable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Variable, dir)
	in, err := Find()
	var wrong *DirectoryError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "Slurm "+dir+": no slurmctld there (want sbin/slurmctld, or usr/sbin/slurmctld") {
		t.Fatalf("error %v, want a DirectoryError: the directory is empty", err)
	}
	if in.Slurmctld != "" || in.Sacct != "" || in.PluginDir != "" {
		t.Errorf("found Slurm outside its directory: %+v", in)
	}
}

func TestScratchDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // root's daemons run as another user
		t.Fatal(err)
	}
	if _, err := usable(filepath.Join(dir, "absent")); err == nil {
		t.Error("a directory that does not exist is usable")
	}
	got, free, err := scratchDir([]string{"", filepath.Join(dir, "absent"), dir})
	if got != dir || (err == nil) != (free >= minScratch) {
		t.Errorf("scratchDir = %q, %d, %v; want %q", got, free, err, dir)
	}
	if got, _, err := scratchDir([]string{filepath.Join(dir, "absent")}); got != "" || err == nil || !strings.Contains(err.Error(), "absent: no such file") {
		t.Errorf("scratchDir = %q, %v; want an error that names the directory", got, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEngine: doctor finds the program for queries in PATH. Replays do not need it.
func TestEngine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if c := checkEngine(); c.OK || c.Required || c.row().Status != Limited {
		t.Errorf("%+v", c)
	}
	program := filepath.Join(dir, "rmreplay-engine")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if c := checkEngine(); !c.OK || c.Found != program {
		t.Errorf("%+v", c)
	}
}

// TestMachine does not know the state of the machine. It tests that every check says what it found,
// why this matters, and how to correct it.
func TestMachine(t *testing.T) {
	var names []string
	for _, c := range Machine(Needs{Nodes: 1}) {
		names = append(names, c.Name)
		if c.Found == "" || c.Fix == "" || c.Why == "" {
			t.Errorf("%s: found %q, why %q, fix %q: all must be said", c.Name, c.Found, c.Why, c.Fix)
		}
	}
	slices.Sort(names)
	if !slices.Contains(names, "rmreplay-engine") {
		t.Errorf("no check of rmreplay-engine: %v", names)
	}
	if len(slices.Compact(names)) != len(names) {
		t.Errorf("checks with the same name: %v", names)
	}
}
