package slurmstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needs skips a test loudly if a tool of Debian is missing.
func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed", tool)
		}
	}
}

// output runs a command and returns its output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// debs makes packages in dir: slurmctld, the C library that it depends on, and a package that is
// not needed. It returns their paths.
func debs(t *testing.T, dir, version string) (files []string) {
	t.Helper()
	release, err := upstream(version)
	if err != nil {
		t.Fatal(err)
	}
	entries := compiled(t, release.String())
	arch := strings.TrimSpace(output(t, "dpkg", "--print-architecture"))
	for name, content := range map[string][]entry{"slurmctld": entries[:1], "libc6": entries[1:], "unwanted": {{name: "usr/unwanted"}}} {
		root := t.TempDir()
		for _, e := range content {
			write(t, root, e.name, []byte(e.content))
		}
		depends := ""
		if name == "slurmctld" {
			depends = "Depends: libc6\nRecommends: unwanted\n"
		}
		write(t, root, "DEBIAN/control", []byte(fmt.Sprintf(
			"Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: A Test <test@example.org>\n%sDescription: a test\n", name, version, arch, depends)))
		if err := os.Chmod(filepath.Join(root, "DEBIAN"), 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+"_"+version+".deb")
		output(t, "dpkg-deb", "--root-owner-group", "-Znone", "-b", root, file)
		files = append(files, file)
	}
	return files
}

// mirror makes a Debian mirror with a version of slurmctld in each suite, and returns its
// directory.
func mirror(t *testing.T, versions map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	arch := strings.TrimSpace(output(t, "dpkg", "--print-architecture"))
	for suite, version := range versions {
		pool := filepath.Join(dir, "pool", suite)
		if err := os.MkdirAll(pool, 0o755); err != nil {
			t.Fatal(err)
		}
		var index strings.Builder
		for _, file := range debs(t, pool, version) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&index, "%sFilename: pool/%s/%s\nSize: %d\nSHA256: %x\n\n", output(t, "dpkg-deb", "-f", file), suite, filepath.Base(file), len(text), sha256.Sum256(text))
		}
		name := "main/binary-" + arch + "/Packages"
		write(t, dir, "dists/"+suite+"/"+name, []byte(index.String()))
		write(t, dir, "dists/"+suite+"/Release", []byte(fmt.Sprintf(
			"Suite: %s\nCodename: %s\nArchitectures: %s\nComponents: main\nDate: Thu, 01 Oct 2020 00:00:00 UTC\nValid-Until: Thu, 08 Oct 2020 00:00:00 UTC\nSHA256:\n %x %d %s\n",
			suite, suite, arch, sha256.Sum256([]byte(index.String())), index.Len(), name)))
	}
	return dir
}

// TestMirror: the suite that has a release is found, and the packages are downloaded with their
// dependencies.
func TestMirror(t *testing.T) {
	needs(t, "apt-get", "dpkg-deb")
	dir := mirror(t, map[string]string{
		"bullseye": "22.05.8-4", "bookworm": "23.02.7+really23.02.4-2", "trixie": "24.11.5-4", "forky": "26.05.5-1", "sid": "27.05.0-1",
	})
	s := newStore(t)
	request := func(version string) Request {
		return Request{Version: version, Mirror: "file://" + dir, unsigned: true}
	}
	for version, want := range map[string]string{"23.02": "bookworm (slurmctld 23.02.7+really23.02.4-2)", "24.11.5": "trixie (slurmctld 24.11.5-4)", "26.05": "forky (slurmctld 26.05.5-1)"} {
		one, had, err := s.Install(t.Context(), request(version), quiet)
		if err != nil || had || one.Source != "Debian "+want {
			t.Fatalf("%s: %+v, %v", version, one, err)
		}
		if to, err := os.Readlink(filepath.Join(one.Path, "usr/sbin/slurmctld")); err != nil || to != "slurmctld-wlm" {
			t.Errorf("%s: slurmctld leads to %q, %v", version, to, err)
		}
		if _, err := os.Stat(filepath.Join(one.Path, "usr/unwanted")); err == nil {
			t.Errorf("%s: a recommended package is installed", version)
		}
		if _, err := os.Stat(filepath.Join(one.Path, "usr/lib64/libc.so.6")); err != nil {
			t.Errorf("%s: /lib64 is not below /usr: %v", version, err)
		}
	}
	for version, want := range map[string]string{
		"23.11":   "(trixie has 24.11.5, bookworm has 23.02.4;",
		"24.11.6": "(trixie has 24.11.5, forky has 26.05.5;",
		"21.08":   "21.08: not a supported release (want 22.05, ",
		"28.05":   "28.05: not a supported release (want 22.05, ",
	} {
		var input *InputError
		if _, _, err := s.Install(t.Context(), request(version), quiet); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", version, err, want)
		}
	}
}

// TestUnsigned: an index without a signature is refused, and the error is not a [*MissingError].
func TestUnsigned(t *testing.T) {
	needs(t, "apt-get", "dpkg-deb")
	if _, err := os.Stat(keyring); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	s := newStore(t)
	dir := mirror(t, map[string]string{"trixie": "24.11.5-4"})
	var missing *MissingError
	_, _, err := s.Install(t.Context(), Request{Version: "24.11", Mirror: "file:" + dir}, quiet)
	if err == nil || errors.As(err, &missing) || !strings.Contains(err.Error(), "signed") {
		t.Errorf("error %v", err)
	}
	if got := entriesOf(t, s); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// TestNoNetwork: without a network, the message says how to install without one.
func TestNoNetwork(t *testing.T) {
	needs(t, "apt-get", "dpkg-deb")
	var missing *MissingError
	_, _, err := newStore(t).Install(t.Context(), Request{Version: "24.11", Mirror: "http://127.0.0.1:1/debian", unsigned: true}, quiet)
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "rmreplay slurm install --from") {
		t.Errorf("error %v", err)
	}
}

// TestNotDebian: without apt, the message says how to install without it.
func TestNotDebian(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var missing *MissingError
	_, _, err := newStore(t).Install(t.Context(), Request{Version: "24.11"}, quiet)
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get is not installed (without") {
		t.Errorf("error %v", err)
	}
}

// TestPackages: a directory of packages makes a root, but not with two versions of one package.
func TestPackages(t *testing.T) {
	needs(t, "dpkg-deb")
	s, dir := newStore(t), t.TempDir()
	debs(t, dir, "24.11.5-4")
	if one := install(t, s, dir); one.Version != "24.11.5" || one.Source != dir {
		t.Errorf("%+v", one)
	}
	debs(t, dir, "24.11.6-1")
	var input *InputError
	if _, _, err := s.Install(t.Context(), Request{From: dir}, quiet); !errors.As(err, &input) || !strings.Contains(err.Error(), "versions of one package") {
		t.Errorf("error %v", err)
	}
	other := t.TempDir()
	write(t, other, "slurmctld.deb", []byte("no package"))
	if _, _, err := s.Install(t.Context(), Request{From: other}, quiet); !errors.As(err, &input) || !strings.Contains(err.Error(), "slurmctld.deb: dpkg-deb") {
		t.Errorf("error %v", err)
	}
}

// TestDownload installs Slurm 24.11 from Debian.
func TestDownload(t *testing.T) {
	if os.Getenv("RMREPLAY_DOWNLOAD") != "1" {
		t.Skip("SKIPPED: RMREPLAY_DOWNLOAD=1 installs Slurm 24.11 from Debian (60 MB)")
	}
	s := newStore(t)
	one, _, err := s.Install(t.Context(), Request{Version: "24.11"}, Hooks{Step: func(text string) { t.Log(text) }, Progress: func(string) {}})
	if err != nil || one.Release().Series().String() != "24.11" {
		t.Fatalf("%+v, %v", one, err)
	}
	for _, name := range []string{"usr/sbin/slurmctld", "usr/sbin/slurmdbd", "usr/bin/sacctmgr", "usr/lib/*/slurm-wlm/accounting_storage_mysql.so", "usr/lib/*/slurm-wlm/jobcomp_elasticsearch.so", "usr/lib/*/slurm-wlm/jobcomp_kafka.so", "usr/lib/*/libc.so.6", "usr/lib/*/libnss_wrapper.so"} {
		if found, _ := filepath.Glob(filepath.Join(one.Path, name)); len(found) != 1 {
			t.Errorf("%s: found %v", name, found)
		}
	}
}
