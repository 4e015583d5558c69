package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/run"
	"rmreplay/internal/sweep"
)

// guideExperiment writes the first experiment of docs/SWEEPS.md, with 24 cells, and its workload
// into a directory of their own.
func guideExperiment(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "SWEEPS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("the guide has no experiment")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "experiment.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runHere(t, dir, 0, "workload", "generate", "lublin", "--jobs", "300", "--processors", "128", "--seed", "1", "-o", "model.jsonl")
	return dir
}

// indentedFrom returns the lines of a document's indented block, beginning with the given line,
// without their indentation.
func indentedFrom(document, first string) []string {
	var block []string
	for line := range strings.SplitSeq(document, "\n") {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case len(block) == 0 && indented && text == first, len(block) > 0 && indented:
			block = append(block, text)
		case len(block) > 0:
			return block
		}
	}
	return block
}

// commandLine returns a command of rmreplay: the binary that testscript.Main has put on the
// path.
func commandLine(dir string, args ...string) *exec.Cmd {
	c := exec.Command("rmreplay", args...)
	c.Dir = dir
	return c
}

// runHere runs a command that must exit with a status, and returns its output.
func runHere(t *testing.T, dir string, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	c := commandLine(dir, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != status {
		t.Fatalf("rmreplay %s: %v, want status %d\n%s%s", strings.Join(args, " "), err, status, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// A sweep of 24 cells is killed twice and continued. The continued sweep keeps complete runs and
// makes the missing runs. The result equals the result of a sweep that was not killed.
func TestSweepKilled(t *testing.T) {
	dir := guideExperiment(t)
	table, _ := runHere(t, dir, 0, "sweep", "experiment.yaml", "-o", "whole", "--jobs", "2")
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "SWEEPS.md"))
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.Split(strings.TrimRight(table, "\n"), "\n")
	if shown := indentedFrom(string(guide), printed[0]); !matches(shown, printed) {
		t.Errorf("docs/SWEEPS.md shows another table (document -, program +):\n%s", cmp.Diff(shown, printed))
	}
	done := map[string]string{} // the identities of the records that were complete at a kill
	for kill, after := range []int{5, 14} {
		killSweep(t, dir, after)
		now := completeRecords(t, filepath.Join(dir, "killed"))
		for record, before := range done {
			if now[record] != before {
				t.Errorf("kill %d: %s was complete and is another one now", kill+1, record)
			}
		}
		if done = now; len(done) < after || len(done) == 24 {
			t.Fatalf("kill %d: %d cells are complete", kill+1, len(done))
		}
	}
	_, progress := runHere(t, dir, 0, "sweep", "experiment.yaml", "-o", "killed", "--jobs", "2")
	if kept := strings.Count(progress, " kept "); kept != len(done) {
		t.Errorf("%d cells were kept, want the %d that were complete\n%s", kept, len(done), progress)
	}
	all := completeRecords(t, filepath.Join(dir, "killed"))
	if len(all) != 24 {
		t.Fatalf("%d cells are complete", len(all))
	}
	for record, before := range done {
		if all[record] != before {
			t.Errorf("%s was complete and was made again", record)
		}
	}
	files := []string{sweep.SummaryFile, sweep.TableFile}
	for record := range all {
		files = append(files, filepath.Join(record, "jobs.parquet"), filepath.Join(record, "events.parquet"))
	}
	for _, name := range files {
		whole, err := os.ReadFile(filepath.Join(dir, "whole", name))
		if err != nil {
			t.Fatal(err)
		}
		killed, err := os.ReadFile(filepath.Join(dir, "killed", name))
		if err != nil || !bytes.Equal(whole, killed) {
			t.Errorf("%s differs from that of the sweep that was left alone (%v)", name, err)
		}
	}
}

// killSweep kills a sweep with SIGKILL when the given number of runs have finished, and checks
// that its children die with it.
func killSweep(t *testing.T, dir string, after int) {
	t.Helper()
	c := commandLine(dir, "sweep", "experiment.yaml", "-o", "killed", "--jobs", "2")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), fmt.Sprintf("[%2d/24]", after)) {
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := processesOf(filepath.Join(dir, "killed"))
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %q", left)
		}
	}
}

// processesOf returns the command lines of processes that write below dir.
func processesOf(dir string) (list []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("--output="+dir)) {
			list = append(list, string(text))
		}
	}
	return list
}

// completeRecords returns the complete records of a sweep with the real dates in their
// manifests. These differ if a run was made again.
func completeRecords(t *testing.T, dir string) map[string]string {
	t.Helper()
	cells, err := filepath.Glob(filepath.Join(dir, "cells", "*", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]string{}
	for _, path := range cells {
		r, err := run.Open(filepath.Dir(path))
		if err != nil || r.Manifest.State != run.StateComplete {
			continue
		}
		name, err := filepath.Rel(dir, r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		records[name] = fmt.Sprint(r.Manifest.Started, r.Manifest.Finished)
	}
	return records
}

// Two sweeps in one directory would see each other's runs as unfinished.
func TestSweepLock(t *testing.T) {
	dir := t.TempDir()
	p := &sweep.Plan{Dir: dir}
	task, err := p.Lock(true)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := p.Lock(true); err != nil {
		t.Errorf("two tasks of an array: %v", err)
	} else if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Lock(false); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a sweep beside a task: %v", err)
	}
	if err := task.Close(); err != nil {
		t.Error(err)
	}
	if alone, err := p.Lock(false); err != nil {
		t.Errorf("a sweep after the task: %v", err)
	} else if err := alone.Close(); err != nil {
		t.Error(err)
	}
}

// An interrupted sweep interrupts its runs and reports the interruption.
func TestSweepInterrupted(t *testing.T) {
	dir := guideExperiment(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := execute(ctx, []string{"sweep", filepath.Join(dir, "experiment.yaml"), "-o", filepath.Join(dir, "out")}, &out, &errs)
	if code != console.ExitInterrupted {
		t.Errorf("status %d, want %d: %s", code, console.ExitInterrupted, errs.String())
	}
	text, _ := runHere(t, dir, 1, "sweep", "experiment.yaml", "-o", "out", "--collect", "--json")
	var s sweep.Summary
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Runs != 24 || s.Failed+s.NotRun != 24 {
		t.Errorf("after it: %v, %+v", err, s)
	}
}

// A sweep on real Slurm replays each edit of the configuration on a cluster of its own.
func TestSweepReplays(t *testing.T) {
	needSlurm(t)
	dir := t.TempDir()
	writeFiles(t, filepath.Join(dir, "small"), smallCluster)
	writeFiles(t, dir, map[string]string{
		"work.jsonl": `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}
{"type":"job","id":"wide","submit":0,"user":"ada","min_nodes":6,"tasks":6,"cpus_per_task":4,"run_time_s":600,"time_limit_s":600}
{"type":"job","id":"wider","submit":10,"user":"ada","min_nodes":8,"tasks":8,"cpus_per_task":4,"run_time_s":60,"time_limit_s":60}
{"type":"job","id":"narrow","submit":20,"user":"ada","min_nodes":1,"tasks":1,"cpus_per_task":4,"run_time_s":60,"time_limit_s":60}
`,
		"experiment.yaml": `
workload: work.jsonl
slurm:
  clusters: [small]
  options: {no-accounting: true, lead: 30s}
  edits:
    - {name: backfill, SchedulerParameters.bf_interval: 30, partition batch MaxTime: 1-0}
    - {name: builtin, SchedulerType: sched/builtin, SchedulerParameters.bf_continue: false}
`})
	runHere(t, dir, 0, "sweep", "experiment.yaml", "-o", "out", "--jobs", "1")
	for cell, backfilled := range map[string]bool{"slurm_small_backfill": true, "slurm_small_builtin": false} {
		r, err := run.Open(filepath.Join(dir, "out", "cells", cell))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Jobs()
		if err != nil || len(rows) != 3 {
			t.Fatalf("%s: %d rows, %v", cell, len(rows), err)
		}
		if got := rows[2].Start < rows[1].Start; got != backfilled {
			t.Errorf("%s: the narrow job went before the wide one: %t", cell, got)
		}
	}
}
