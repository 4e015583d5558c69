package install

import (
	"os"
	"path/filepath"
	"testing"
)

// rootsVariable names a directory with the root of a system for each release: 24.11, 26.05,
// and 22.05 if another one is installed.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// eachRoot runs a test for each root.
func eachRoot(t *testing.T, test func(t *testing.T, release, root string)) {
	t.Helper()
	roots := os.Getenv(rootsVariable)
	if roots == "" {
		t.Skipf("SKIPPED: no other release of Slurm is looked at: %s names no directory", rootsVariable)
	}
	for _, release := range []string{"22.05", "24.11", "26.05"} {
		t.Run(release, func(t *testing.T) {
			root := filepath.Join(roots, release)
			if _, err := os.Lstat(root); err != nil {
				t.Skipf("SKIPPED: Slurm %s is not looked at: %v", release, err)
			}
			root, err := filepath.EvalSymlinks(root) // the directory may have links
			if err != nil {
				t.Fatal(err)
			}
			test(t, release, root)
		})
	}
}

// The programs of a root with its own C library say their versions, run by the root's loader.
func TestFindRoot(t *testing.T) {
	eachRoot(t, func(t *testing.T, release, root string) {
		in, _ := FindSlurm(root) // the release may not be supported
		if in.Loader == nil || in.Loader.Root != root {
			t.Fatalf("loader %+v, want that of %s", in.Loader, root)
		}
		for _, it := range in.Items {
			if it.Path == "" {
				t.Errorf("%s is missing", it.Name)
			}
			if it.slurmProgram() && it.Version != in.Version {
				t.Errorf("%s says version %q, slurmctld %q", it.Path, it.Version, in.Version)
			}
			if !it.Release.IsZero() && it.Release.Series() != in.Release.Series() {
				t.Errorf("%s is of release %s", it.Path, it.Release)
			}
		}
		if got := in.Release.Series().String(); got != release {
			t.Errorf("version %q, want one of %s", in.Version, release)
		}
		if r := in.item("cred_none").Release; r.IsZero() {
			t.Error("cred_none does not say its release")
		}
	})
}

// The programs that slurmctld and shell lines call run under their own names.
func TestLinksOfRoot(t *testing.T) {
	eachRoot(t, func(t *testing.T, _, root string) {
		in, _ := FindSlurm(root)
		dir := t.TempDir()
		if err := in.Link(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"slurmctld", "scontrol", "sbatch", "sinfo"} {
			if got := versionIn(ask(in.PluginDir, filepath.Join(dir, name), "-V")); got != in.Version {
				t.Errorf("%s says version %q, want %q", name, got, in.Version)
			}
		}
	})
}

// A Slurm of two releases is refused, whether its programs or its plugins differ.
func TestMixOfRoots(t *testing.T) {
	eachRoot(t, func(t *testing.T, release, root string) {
		in, _ := FindSlurm(root)
		machine, err := Find()
		if err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
		if machine.Release.Series() == in.Release.Series() {
			t.Skipf("SKIPPED: no mix with Slurm %s: the machine's own is of that release too", release)
		}
		for i, it := range in.Items {
			if it.Name == "auth_none" {
				in.Items[i].Release = pluginRelease(machine.item("auth_none").Path)
			}
		}
		wantBroken(t, in.checkMix(true), "auth_none", "a mix of two releases")
	})
}
