package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// TestDependencyScenarios plays workloads with dependencies on the real Slurm and in the simulator,
// on the cluster of the tests of package slurm. The simulator must give every job the same state, and
// start it within slack of Slurm's start. The files of testdata/dependencies have these directives:
//
//	slurm.conf   keys of slurm.conf with other values for the workload below
//	workload     the jobs; package rmtest describes the lines
//	replay       what Slurm 22.05 does: ID STATE [START]-[END], and the warnings
//	simulate     what the simulator does
//
// Where Slurm 22.05 is not installed, the simulator is compared with the file. Since 23.02
// slurmctld refuses dependencies on forgotten jobs and on tasks that an array does not have.
func TestDependencyScenarios(t *testing.T) {
	root, missing := slurm2205()
	if missing != nil {
		t.Logf("the real Slurm is not run again: %v", missing)
	}
	datadriven.Walk(t, "testdata/dependencies", func(t *testing.T, path string) {
		var edits, lines, slurm string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "slurm.conf":
				edits = d.Input
				return ""
			case "workload":
				lines = d.Input
				return ""
			case "replay":
				slurm = d.Expected
				if missing != nil {
					return slurm
				}
				replayed := playOnTinyCluster(t, lines, edits, Spec{Slurm: &Slurm{
					Installation: root, WithoutAccounting: true, Lead: time.Minute, ReasonsEvery: time.Minute,
				}})
				if d.Rewrite {
					slurm = replayed
				}
				compareFates(t, slurm, replayed, -slack)
				return slurm // a second more or less is no difference
			case "simulate":
				simulated := playOnTinyCluster(t, lines, edits, Spec{Simulator: &Simulator{}})
				compareFates(t, slurm, simulated, 0)
				return simulated
			}
			d.Fatalf(t, "%s: not a directive (want slurm.conf, workload, replay or simulate)", d.Cmd)
			return ""
		})
	})
}

// rootsVariable is the environment variable with a directory that has a root directory for each
// release of Slurm, such as 24.11. make test sets it.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// slurm2205 returns the name of Slurm 22.05 for [Slurm.Installation]: empty if the installed Slurm
// has this release, otherwise its name in the directory of rootsVariable.
func slurm2205() (root string, missing error) {
	in, missing := install.Find()
	if missing != nil || in.Release.Series() == slurmspec.R2205 {
		return "", missing
	}
	roots := os.Getenv(rootsVariable)
	if roots == "" {
		return "", fmt.Errorf("the installed one is %s, and %s names no directory with 22.05", in.Version, rootsVariable)
	}
	root = filepath.Join(roots, "22.05")
	_, missing = install.FindSlurm(root)
	return root, missing
}

// slack is the longest accepted delay of a start on Slurm, in seconds: slurmctld tests
// dependencies when a job ends, and at least once a minute.
const slack = 65

// compareFates fails the test if two outcomes differ in more than the times, or if a job does not
// start between least and slack seconds earlier than on Slurm.
func compareFates(t *testing.T, slurm, other string, least int) {
	t.Helper()
	wants, gots := strings.Split(slurm, "\n"), strings.Split(other, "\n")
	for i := range max(len(wants), len(gots)) {
		if i >= len(wants) || i >= len(gots) {
			t.Errorf("%d lines, want %d:\n%s", len(gots), len(wants), other)
			return
		}
		want, got := parseFate(wants[i]), parseFate(gots[i])
		if early := want.start - got.start; want.name != got.name || early < least || early > slack || want.started != got.started {
			t.Errorf("%s, want as in %s", gots[i], wants[i])
		}
	}
}

// fate is a line of an outcome. name is the job with its state and reason, or the text of a
// warning.
type fate struct {
	name    string
	started bool
	start   int
}

func parseFate(line string) fate {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] == "warning" {
		return fate{name: line}
	}
	begin, _, _ := strings.Cut(words[2], "-")
	start, err := strconv.Atoi(begin)
	return fate{strings.Join(slices.Delete(words, 2, 3), " "), err == nil, start}
}

// playOnTinyCluster plays a workload and describes what became of the jobs.
func playOnTinyCluster(t *testing.T, lines, edits string, spec Spec) string {
	t.Helper()
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(lines, epoch, "--uid=ann", "-t", "60")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "a scenario", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...)}
	dir := tinyCluster(t, edits)
	spec.Workload, spec.Output, spec.Seed, spec.DrainLimit = Workload{Value: w}, filepath.Join(t.TempDir(), "run"), 1, 2*time.Hour
	if spec.Slurm != nil {
		spec.Slurm.Cluster = dir
	} else {
		spec.Simulator.Cluster = dir
	}
	if _, err := Run(t.Context(), spec, Hooks{}); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	since := func(at hpc.Time) string {
		if at == 0 {
			return ""
		}
		return fmt.Sprint(at.UnixSeconds() - epoch.UnixSeconds())
	}
	for _, row := range rows {
		name := row.Job
		if row.Task >= 0 {
			name += fmt.Sprintf("_%d", row.Task)
		}
		line := fmt.Sprintf("%s %s %s-%s %s", name, row.State, since(row.Start), since(row.End), row.Reason)
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	for _, w := range r.Manifest.Warnings {
		affects := ""
		if w.AffectsResult {
			affects = " (affects the result)"
		}
		if w.Code != "configuration" {
			text, _, _ := strings.Cut(w.Text, " (pending for ") // the simulator has no such reasons
			fmt.Fprintf(&b, "warning %s: %s%s\n", w.Code, text, affects)
		}
	}
	return b.String()
}

// tinyCluster copies the cluster of the tests of package slurm, with other values for some keys of
// slurm.conf.
func tinyCluster(t *testing.T, edits string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../rm/slurm/testdata/cluster")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "slurm.conf")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, edit := range strings.Fields(edits) {
		key, _, _ := strings.Cut(edit, "=")
		for i, line := range lines {
			if strings.HasPrefix(line, key+"=") {
				lines[i] = ""
			}
		}
		lines = append([]string{edit}, lines...)
	}
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
