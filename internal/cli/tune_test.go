package cli

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tuneFile is a search among policies, on a workload of Lublin and Feitelson's model.
const tuneFile = `
workloads:
  - {name: first, workload: model.jsonl, filter: hour < 12}
held-out:
  - {name: second, workload: model.jsonl, filter: hour >= 12}
seeds: 3
held-out-seeds: 6
transform: {time-limit-model: tsafrir, scale-arrivals: 0.3}
sim:
  options: {processors: 128}
parameters:
  - {name: policy, values: [fcfs, easy, conservative, sjf, f1], now: easy}
objective: mean_bounded_slowdown
constraints:
  - {metric: mean_wait_s, by: size, worse-by: 50%, ignore: 3600}
budget: 60
`

// TestTuneKilled: a tuning is killed during the search and during the proof, and continued. It keeps
// complete runs, and comes to the result of one that was left alone. The result has the form of its
// schema.
func TestTuneKilled(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"tune.yaml": tuneFile})
	runHere(t, dir, 0, "workload", "generate", "lublin", "--jobs", "200", "--processors", "128", "--seed", "1", "-o", "model.jsonl")
	whole, _ := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "whole", "--parallel", "2", "--json")
	validate(t, "tune.schema.json", []byte(whole))
	made := 0
	for _, step := range []string{"notice: race 1", "notice: held out"} {
		made += killTune(t, dir, step)
	}
	killed, progress := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "killed", "--parallel", "2", "--json")
	if killed != whole {
		t.Errorf("killed:\n%s\nleft alone:\n%s", killed, whole)
	}
	if kept := strings.Count(progress, " kept "); kept < made || made == 0 {
		t.Errorf("%d runs were kept, want at least the %d that were seen to end", kept, made)
	}
	plan, _ := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "killed", "--json")
	text, err := os.ReadFile(filepath.Join(dir, "killed", "tune.json"))
	if err != nil || string(text) != plan {
		t.Errorf("tune.json is not what --json prints: %v", err)
	}
}

// killTune kills a tuning with SIGKILL, two runs after a step has begun. It returns the number of
// runs that it made.
func killTune(t *testing.T, dir, step string) (made int) {
	t.Helper()
	c := commandLine(dir, "tune", "tune.yaml", "-o", "killed", "--parallel", "2")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	begun, after := false, 0
	lines := bufio.NewScanner(stderr)
	for after < 2 && lines.Scan() {
		line := lines.Bytes()
		begun = begun || bytes.HasPrefix(line, []byte(step))
		if bytes.Contains(line, []byte(" made ")) && !bytes.HasPrefix(line, []byte("notice")) {
			made++
			if begun {
				after++
			}
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if after < 2 {
		t.Fatalf("the tuning ended before it was killed in %q", step)
	}
	return made
}
