package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/run"
)

// inARow is the number of replays that repeat makes on each release, one after the other.
const inARow = 20

// rootsVariable is an environment variable, which make test sets. It names a directory that has a
// root directory for each release of Slurm to test in addition to the installed release.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// site is a workload, its cluster, and the result that every release must have.
type site struct {
	name, workload, cluster string
	jobs                    int
	timeouts                int // -1: any number
}

// TestWorkloads replays whole workloads on each release of Slurm: the example day and, if their
// data are there, real workloads. Each replay is valid and leaves nothing behind. Its record has
// all jobs in the final states that the release's own sacct prints. A second test makes many
// replays in a row.
func TestWorkloads(t *testing.T) {
	needSlurm(t)
	program := build(t)
	sites := []site{exampleDay(t, program)}
	if data, ok := realdata.Find(t, "slurm"); ok {
		sites = append(sites, realSites(t, data)...)
	} else {
		t.Run("real workloads", func(t *testing.T) { t.Skipf("SKIPPED: not replayed: there is no %s", data) })
		dir := writeSmall(t)
		sites = append(sites, site{"six jobs", filepath.Join(dir, "jobs.jsonl"), filepath.Join(dir, "cluster"), 13, 1})
	}
	for _, release := range []string{"22.05", "24.11", "26.05"} {
		t.Run(release, func(t *testing.T) {
			slurm := findRelease(t, program, release)
			for _, s := range sites {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.replay(t, program, slurm, release)
				})
			}
			t.Run("in a row", func(t *testing.T) {
				t.Parallel()
				repeat(t, program, slurm, sites[len(sites)-1])
			})
		})
	}
}

// replay replays a workload once, with the checks of all replays and of this workload.
func (s site) replay(t *testing.T, program, slurm, release string) {
	l := s.lab(t, program, slurm)
	l.inspect = func(record string) { s.check(t, record, release) }
	r := l.run(context.Background(), "whole", hit{Kind: nothing, Network: "private"}, rand.New(rand.NewPCG(0, 0)))
	if len(r.Broken) > 0 {
		t.Errorf("%s\n%s", strings.Join(r.Broken, "\n"), r.Output)
	}
}

// check checks the record of a replay.
func (s site) check(t *testing.T, dir, release string) {
	record, err := run.Open(dir)
	if err != nil {
		t.Error(err)
		return
	}
	if m := record.Manifest; m.State != run.StateComplete || !m.Valid || !strings.HasPrefix(m.Versions.Slurm, release+".") {
		t.Errorf("state %s, valid %t, versions %v, warnings %v", m.State, m.Valid, m.Versions, m.Warnings)
	}
	rows, err := record.Jobs()
	if err != nil {
		t.Error(err)
		return
	}
	final, started := map[hpc.State]int{}, 0
	for _, row := range rows {
		if !row.State.Ended() {
			t.Errorf("job %s is %s", row.Job, row.State)
		}
		final[row.State]++
		if row.Start != 0 {
			started++
		}
	}
	if len(rows) != s.jobs || s.timeouts >= 0 && final[hpc.TimedOut] != s.timeouts {
		t.Errorf("%d jobs, %v; want %d jobs, %d of them timed out", len(rows), final, s.jobs, s.timeouts)
	}
	// The replay compares each job with sacct's line, and a difference makes it invalid. sacct has no
	// line for a job that was canceled before it was eligible.
	text, err := os.ReadFile(filepath.Join(dir, "logs", "sacct.txt"))
	if lines := bytes.Count(text, []byte("\n")) - 1; err != nil || lines < started {
		t.Errorf("sacct has %d lines for %d jobs that started, %v", lines, started, err)
	}
	t.Logf("%d jobs: %v, virtual %.0f s, real %.1f s", len(rows), final, record.Manifest.VirtualSeconds, record.Manifest.WallSeconds)
}

// repeat replays a small workload many times, one replay after the other.
func repeat(t *testing.T, program, slurm string, s site) {
	var out strings.Builder
	o := s.options(t, program, slurm)
	o.replays, o.parallel, o.undisturbed = inARow, 1, true
	broken, err := measure(context.Background(), o, &out)
	t.Log(out.String())
	if err != nil || broken != 0 {
		t.Errorf("%d of %d replays broke a promise, error %v", broken, inARow, err)
	}
}

func (s site) options(t *testing.T, program, slurm string) options {
	return options{
		limit: 15 * time.Minute, program: program, cluster: s.cluster, workload: s.workload, slurm: slurm,
		work: filepath.Join(openDir(t), "work"),
	}
}

func (s site) lab(t *testing.T, program, slurm string) *lab {
	t.Helper()
	l, err := newLab(s.options(t, program, slurm))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// findRelease returns the argument of --slurm for a release: its root, or "" for the installed
// release.
func findRelease(t *testing.T, program, release string) string {
	t.Helper()
	roots := os.Getenv(rootsVariable)
	if root := filepath.Join(roots, release); roots != "" {
		if _, err := os.Lstat(root); err == nil {
			return root
		}
	}
	out, err := exec.Command("slurmctld", "-V").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "slurm-wlm "+release+".") && !strings.HasPrefix(string(out), "slurm "+release+".") {
		t.Skipf("SKIPPED: nothing is replayed on Slurm %s: it is neither installed nor in %s=%q", release, rootsVariable, roots)
	}
	return ""
}

// exampleDay makes the workload of the tutorial.
func exampleDay(t *testing.T, program string) site {
	t.Helper()
	dir := filepath.Join(openDir(t), "example")
	if out, err := exec.Command(program, "workload", "generate", "example", "--seed", "1", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("generating the example: %v\n%s", err, out)
	}
	day := filepath.Join(dir, "day.jsonl")
	return site{"example day", day, filepath.Join(dir, "cluster"), 1033, -1}
}

// realSites returns workloads of real clusters. The last one is the smallest.
func realSites(t *testing.T, data string) []site {
	t.Helper()
	dir := openDir(t)
	for _, cluster := range []string{"micro", "medium"} { // root's daemons read them as another user
		if err := os.CopyFS(filepath.Join(dir, cluster), os.DirFS(filepath.Join(data, cluster))); err != nil {
			t.Fatal(err)
		}
	}
	micro, medium := filepath.Join(dir, "micro"), filepath.Join(dir, "medium")
	text, err := os.ReadFile(filepath.Join(medium, "workload_5k.events"))
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
		return !strings.Contains(line, "submit_batch_job")
	})
	first := filepath.Join(dir, "first1000.events")
	if err := os.WriteFile(first, []byte(strings.Join(lines[:1000], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return []site{
		{"jobs500", filepath.Join(micro, "jobs500.events"), micro, 500, 63},
		{"medium", first, medium, 1000, -1},
		{"small", filepath.Join(micro, "small.events"), micro, 20, 3},
	}
}

// openDir returns a temporary directory that other users may enter, as root's daemons do.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func needSlurm(t *testing.T) {
	t.Helper()
	for _, name := range []string{"slurmctld", "mariadbd"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: no replay on real Slurm: %v", err)
		}
	}
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(openDir(t), "rmreplay")
	if out, err := exec.Command("go", "build", "-o", program, "rmreplay/cmd/rmreplay").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return program
}
