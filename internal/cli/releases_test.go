package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// rootsVariable is an environment variable, which make test sets. It names a directory that has a
// root directory for each release of Slurm to test in addition to the installed release.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// TestReleases runs rmreplay on releases of Slurm in addition to the installed one, with two
// replays at the same time. Both records are valid and equal, every job ends, and the release's
// own sacct has the same jobs. No process or file is left.
func TestReleases(t *testing.T) {
	needSlurm(t) // the replays use the installed MariaDB
	roots := os.Getenv(rootsVariable)
	for _, release := range []string{"24.11", "26.05"} {
		t.Run(release, func(t *testing.T) {
			if roots == "" {
				t.Skipf("SKIPPED: no replay on Slurm %s: %s names no directory with its root", release, rootsVariable)
			}
			root := filepath.Join(roots, release)
			if _, err := os.Lstat(root); errors.Is(err, os.ErrNotExist) {
				t.Skipf("SKIPPED: no replay on Slurm %s: %v", release, err)
			}
			var two []*replaying
			var left []remains
			for range 2 { // the first replay is halted while the second starts
				r := startRelease(t, root)
				two, left = append(two, r), append(left, r.halted(t))
			}
			for _, r := range two {
				r.goOn(t)
			}
			for i, r := range two {
				if status := r.wait(t); status != console.ExitOK {
					t.Fatalf("exit status %d", status)
				}
				left[i].mustGo(t)
				r.checkRelease(t, release)
			}
			_, first := openRows(t, two[0].record)
			_, second := openRows(t, two[1].record)
			if diff := cmp.Diff(fates(first), fates(second)); diff != "" {
				t.Errorf("two replays differ:\n%s", diff)
			}
		})
	}
}

// startRelease starts a replay on the Slurm in a directory.
func startRelease(t *testing.T, root string) *replaying {
	t.Helper()
	r := newReplay(t, mixedTrace())
	r.start(t, exec.Command(program(t), slices.Concat(replayArgs, []string{"--slurm", root})...))
	return r
}

// checkRelease checks a record of [mixedTrace].
func (r *replaying) checkRelease(t *testing.T, release string) {
	t.Helper()
	rec, rows := openRows(t, r.record)
	if m := rec.Manifest; m.State != run.StateComplete || !m.Valid || len(m.Warnings) > 0 || !strings.HasPrefix(m.Versions.Slurm, release+".") {
		t.Errorf("state %s, valid %v, versions %v, warnings %v", m.State, m.Valid, m.Versions, m.Warnings)
	}
	states := map[hpc.State]int{}
	for _, row := range rows {
		states[row.State]++
		if row.Account == "" {
			t.Errorf("job %s has no account", row.Job)
		}
	}
	if states[hpc.Completed]+states[hpc.TimedOut] != 60 || states[hpc.TimedOut] == 0 {
		t.Errorf("the states of 60 jobs: %v", states)
	}
	// The engine compares each job with sacct, and warns of differences.
	text, err := os.ReadFile(filepath.Join(r.record, "logs", "sacct.txt"))
	if n := bytes.Count(text, []byte("|COMPLETED|")) + bytes.Count(text, []byte("|TIMEOUT|")); err != nil || n != 60 {
		t.Errorf("sacct has %d of 60 jobs, %v", n, err)
	}
}
