package install

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmstore"
)

func TestDirectory(t *testing.T) {
	store := t.TempDir()
	for _, version := range []string{"24.11.4", "24.11.12", "26.05.5"} {
		writeStored(t, store, version)
	}
	file := filepath.Join(store, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := slurmstore.At(store).Root
	for _, test := range []struct{ named, want, message string }{
		{"24.11", filepath.Join(store, "24.11.12"), ""}, // the newest patch, not the last name
		{"24.11.4", filepath.Join(store, "24.11.4"), ""},
		{store, store, ""},
		{"23.11", "", "slurm 23.11 is not installed in the store (installed: 24.11.4, 24.11.12, 26.05.5; install it with: rmreplay slurm install 23.11)"},
		{"24.11.1", "", "slurm 24.11.1 is not installed"},
		{"19.05", "", "slurm 19.05 is not supported (want " + slurmspec.SupportedList() + "; installed: 24.11.4, "},
		{"99.99", "", "slurm 99.99 is not supported"},
		{"/nonexistent/slurm", "", "Slurm /nonexistent/slurm: no such directory (want a directory with sbin/slurmctld"},
		{file, "", "not a directory"},
	} {
		got, err := directory(test.named, root)
		var wrong *DirectoryError
		var absent *slurmstore.NotInstalledError
		if got != test.want || (err != nil) != (errors.As(err, &wrong) || errors.As(err, &absent)) || (err == nil) != (test.message == "") {
			t.Errorf("directory(%q) = %q, %v; want %q", test.named, got, err, test.want)
		} else if err != nil && !strings.Contains(err.Error(), test.message) {
			t.Errorf("directory(%q): %v, want %q", test.named, err, test.message)
		}
	}
}

// A version can also mean the machine's own Slurm.
func TestOwnVersion(t *testing.T) {
	in := &Installation{Release: slurmspec.Release{Major: 22, Minor: 5, Patch: 8}}
	for named, want := range map[string]bool{"22.05": true, "22.05.8": true, "22.05.9": false, "24.11": false, "/usr": false, "": false} {
		if got := in.is(named); got != want {
			t.Errorf("is(%q) = %t, want %t", named, got, want)
		}
	}
	// If the store lacks a release, the error also names the machine's own.
	own := onMachine().find()
	_, err := FindSlurm("23.99")
	want := "slurm 23.99 is not supported"
	if own.Version != "" {
		want = "installed: " + own.Version + " on this machine"
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if (&Installation{}).is("22.05") {
		t.Error("no Slurm is 22.05")
	}
}

// writeStored adds a release without any files of Slurm to a store.
func writeStored(t *testing.T, store, version string) {
	t.Helper()
	dir := filepath.Join(store, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".rmreplay.json"), []byte(`{"version": "`+version+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The prefix is the directory itself or one of the directories that images use. The root is the
// directory that was named.
func TestPrefix(t *testing.T) {
	root := t.TempDir()
	controller := func(prefix string) {
		t.Helper()
		dir := filepath.Join(root, prefix, "sbin")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "slurmctld"), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want, message string) {
		t.Helper()
		got, err := prefixOf(root)
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got != want || (err == nil) != (message == "") || err != nil && !strings.Contains(err.Error(), message) {
			t.Errorf("prefix %q, %v; want %q, %q", got, err, want, message)
		}
		if err == nil && rootOf(root, got) != root {
			t.Errorf("the root of %s in %s is %s", got, root, rootOf(root, got))
		}
	}
	check("", "no slurmctld there")
	controller("opt/slurm/25.11.7")
	if err := os.Symlink("25.11.7", filepath.Join(root, "opt/slurm/current")); err != nil {
		t.Fatal(err)
	}
	check("opt/slurm/25.11.7", "")
	controller("opt/slurm/24.05.8")
	check("", "several builds of Slurm there: "+filepath.Join(root, "opt/slurm/24.05.8")+", ")
	for _, prefix := range []string{"opt/slurm", "usr/local", "usr", ""} { // the best last
		controller(prefix)
		check(cmp.Or(prefix, "."), "")
	}
	if got := rootOf("/image/usr/local", "/image/usr/local"); got != "/image" {
		t.Errorf("the root of /image/usr/local is %s", got)
	}
}

// An absolute link in a root begins at the root, as for a process with this root directory.
func TestResolve(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/lib/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"lib": "usr/lib", "usr/lib/abs": "/lib/x", "usr/lib/up": "../../../../usr", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"lib/abs": "usr/lib/x", "lib/up/lib": "usr/lib", "lib": "usr/lib", "loop": "", "absent": ""} {
		got, err := resolve(root, filepath.Join(root, path))
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("resolve(%s) = %q, %v; want %q", path, got, err, want)
		}
	}
}

// The list of Slurms begins with the chosen Slurm, and says what is wrong with each Slurm in the
// store.
func TestSlurms(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	writeStored(t, filepath.Join(cache, "rmreplay", "slurm"), "19.05.1") // nothing installs this one
	h := newFakeHome(t)
	h.remove("lib/slurm/cred_none.so")
	chosen := h.f.find()
	list := slurms(chosen)
	if s := list[0]; !s.Chosen || s.Version != "22.05.8" || s.Path != chosen.Slurmctld || strings.Join(s.Lacks, " ") != "cred_none" {
		t.Errorf("the chosen one: %+v", s)
	}
	// Releases that root keeps for all users may follow.
	if s := list[1]; s.Chosen || s.Named != "19.05.1" || len(s.Lacks) != 1 || !strings.Contains(s.Lacks[0], "no slurmctld there") {
		t.Errorf("the one in the store: %+v", s)
	}
}

// A store that cannot be listed is one row, which says why.
func TestSlurmsOfBrokenStore(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	stranger := filepath.Join(cache, "rmreplay", "slurm", "stranger")
	if err := os.MkdirAll(stranger, 0o755); err != nil {
		t.Fatal(err)
	}
	list := slurms(newFakeHome(t).f.find())
	if last := list[len(list)-1]; last.Named != "store" || len(last.Lacks) != 1 || !strings.Contains(last.Lacks[0], stranger) {
		t.Errorf("%+v", last)
	}
}

// Root's daemons cannot run a Slurm in a directory that only root may search.
func TestReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root's daemons run as another user")
	}
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	err := (&Installation{Dir: private}).Reach()
	var wrong *DirectoryError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "out of reach for the daemons") {
		t.Errorf("error %v, want a DirectoryError", err)
	}
	if err := (&Installation{}).Reach(); err != nil {
		t.Errorf("the machine's own: %v", err)
	}
}

// The loader of a root gets the path of slurmctld's file, whatever the name of the file is.
func TestLoaderRunsController(t *testing.T) {
	h := newFakeHome(t)
	h.f.loader = &Loader{Root: h.dir, Path: filepath.Join(h.dir, "ld.so")}
	var asked []string
	h.f.ask = func(_, path string, args ...string) (string, error) {
		asked = append(asked, path+" "+strings.Join(args, " "))
		return "slurm 22.05.8", nil
	}
	in := h.f.find()
	controller := filepath.Join(h.dir, "sbin/slurmctld")
	if want := in.Loader.Path + " "; !strings.HasPrefix(asked[0], want) || !strings.HasSuffix(asked[0], "--argv0 "+controller+" "+controller+" -V") {
		t.Errorf("slurmctld is asked with %q", asked[0])
	}
}
