package slurm

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/install"
)

// A replay warns if slurmctld imports functions that the virtual clock does not handle. The warning
// affects the result if such a function is known to have an effect.
func TestClockWarning(t *testing.T) {
	for name, test := range map[string]struct {
		source, want string
		affects      bool
	}{
		"nothing": {"int f(void) { return 0; }", "", false},
		"waits":   {"#include <sys/file.h>\nint f(void) { return flock(1, LOCK_EX); }", "imports flock, which can wait", true},
		"unknown": {"#include <stdlib.h>\nlong a64l(const char *);\nlong f(void) { return a64l(\"x\"); }", "imports a64l, which is not known", false},
		"script":  {"", "not checked whether the virtual clock handles Slurm", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "slurmctld")
			if test.source == "" {
				path = "/etc/passwd" // no program
			} else {
				cc := exec.Command("cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-")
				cc.Stdin = strings.NewReader(test.source)
				if out, err := cc.CombinedOutput(); err != nil {
					t.Skipf("SKIPPED: no library can be built: %v: %s", err, out)
				}
			}
			e := &Engine{cfg: Config{Install: &install.Installation{Slurmctld: path, PluginDir: dir}}, loop: &loop{}}
			e.checkClock()
			var got string
			var affects bool
			for _, w := range e.loop.warnings {
				got, affects = w.Text, w.AffectsResult
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || affects != test.affects {
				t.Errorf("%q, affects %v; want %q, %v", got, affects, test.want, test.affects)
			}
		})
	}
}
