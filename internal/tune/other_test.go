package tune

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/sweep"
)

// A file of sweep that is given to tune, and the reverse, is recognized. A file with a wrong key only is not.
func TestFileOfOtherCommand(t *testing.T) {
	tuning := func(path string) error { _, err := Load(path); return err }
	sweeping := func(path string) error { _, err := sweep.Load(path, false, nil); return err }
	for _, c := range []struct {
		load func(string) error
		text string
		want string // "" if the text is not a file for the other command
	}{
		{tuning, "workload: a.swf\nsim: {policies: [fcfs, easy]}\n", "this is a file for rmreplay sweep"},
		{tuning, "seeds: [1, 2]\nworkload: a.swf\nsim: {policies: [fcfs, easy]}\n", "this is a file for rmreplay sweep"},
		{tuning, "workload: a.swf\nparameters: []\nobjective: mean_wait_s\n", ""},
		{sweeping, "workloads: [a.swf]\nobjective: mean_wait_s\nsim: {options: {processors: 8}}\n", "this is a file for rmreplay tune"},
		{sweeping, "workload: a.swf\npolicies: [fcfs]\nsim: {policies: [easy]}\n", ""},
	} {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		switch err := c.load(path); {
		case err == nil:
			t.Errorf("%s: no error", c.text)
		case c.want == "" && strings.Contains(err.Error(), "this is a file for"), !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
