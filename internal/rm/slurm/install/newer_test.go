package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// versionOfC returns the version of the newest symbols of the machine's C library. It returns zeros
// for directories without a C library or with a damaged one.
func TestVersionOfC(t *testing.T) {
	machine := libraryDirs("/")
	major, minor := versionOfC(machine)
	if major != 2 || minor < 17 {
		t.Fatalf("the machine's C library in %v is of %d.%d, want 2.17 or later", machine, major, minor)
	}
	empty, damaged := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "libc.so.6"), []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{empty, damaged} {
		if a, b := versionOfC([]string{dir}); a != 0 || b != 0 {
			t.Errorf("%s has a C library of %d.%d", dir, a, b)
		}
		if newerC(machine, []string{dir}) || newerC([]string{dir}, machine) {
			t.Errorf("the C library of %s has a place in the order", dir)
		}
	}
	if newerC(machine, machine) {
		t.Error("a C library is newer than itself")
	}
}

// The programs of a root start with the newer of two C libraries: the root's or the machine's.
func TestLoaderOfNewerC(t *testing.T) {
	eachRoot(t, func(t *testing.T, _, root string) {
		in, _ := FindSlurm(root)
		own, machines := libraryDirs(root), libraryDirs("/")
		switch fromRoot := strings.HasPrefix(in.Loader.Path, root+"/"); {
		case newerC(machines, own) == fromRoot:
			t.Errorf("loader %s, with a newer C library on the machine: %v", in.Loader.Path, newerC(machines, own))
		case in.Version == "":
			t.Errorf("%s does not run with %s", in.Slurmctld, in.Loader.Path)
		}
	})
}
