package install

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// rootsVariable names a directory with the root of a system for each release: 24.11, 26.05, and
// 22.05 if the machine's own Slurm is another release.
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

// The programs of a root with its own C library report their versions when the root's loader runs
// them.
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
			answer, err := ask(in.PluginDir, filepath.Join(dir, name), "-V")
			if got := versionIn(answer); err != nil || got != in.Version {
				t.Errorf("%s says version %q, %v, want %q", name, got, err, in.Version)
			}
		}
	})
}

// A Slurm of two releases is refused: its plugins or its slurmdbd are of another release than
// slurmctld.
func TestMixOfRoots(t *testing.T) {
	machine, err := Find()
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	eachRoot(t, func(t *testing.T, release, root string) {
		if machine.Release.Series().String() == release {
			t.Skipf("SKIPPED: no mix with Slurm %s: the machine's own is of that release too", release)
		}
		other, err := FindSlurm(root)
		if err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			program string
			mix     func(prefix string) error
		}{
			"one plugin": {"auth_none", func(prefix string) error {
				return relink(filepath.Join(other.PluginDir, "auth_none.so"), filepath.Join(prefix, "lib/slurm/auth_none.so"))
			}},
			"all plugins": {"auth_none", func(prefix string) error {
				dir := filepath.Join(prefix, "lib/slurm")
				return errors.Join(os.RemoveAll(dir), os.Symlink(other.PluginDir, dir))
			}},
			"slurmdbd": {"slurmdbd", func(prefix string) error {
				path := filepath.Join(prefix, "sbin/slurmdbd")
				return errors.Join(os.Remove(path), os.WriteFile(path, []byte(other.Loader.script(other.Slurmdbd)), 0o755))
			}},
		} {
			t.Run(name, func(t *testing.T) {
				prefix := prefixLikeMachine(t)
				if err := test.mix(prefix); err != nil {
					t.Fatal(err)
				}
				_, err := FindSlurm(prefix)
				wantBroken(t, err, test.program, "of Slurm "+other.Release.String())
				wantBroken(t, err, test.program, "a mix of two releases (want one)")
			})
		}
	})
}
