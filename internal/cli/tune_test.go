package cli

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// guideTuning writes the example of docs/TUNING.md and its workloads into a directory of their own. It
// returns the guide, too.
func guideTuning(t *testing.T) (dir, guide string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "TUNING.md"))
	if err != nil {
		t.Fatal(err)
	}
	guide = string(text)
	_, file, _ := strings.Cut(guide, "```yaml\n")
	file, _, ok := strings.Cut(file, "```")
	if !ok {
		t.Fatal("the guide has no tuning file")
	}
	dir = t.TempDir()
	writeFiles(t, dir, map[string]string{"tune.yaml": file})
	for _, seed := range []string{"1", "2", "3"} {
		runHere(t, dir, 0, "workload", "generate", "lublin", "--jobs", "200", "--processors", "128", "--seed", seed, "-o", "model"+seed+".jsonl")
	}
	return dir, guide
}

// TestTuneKilled kills the tuning of docs/TUNING.md during the search and during the proof, and
// continues it. The continued tuning keeps complete runs, and has the same result as a tuning that
// was not killed. The result equals the result in the guide, and fits its schema.
func TestTuneKilled(t *testing.T) {
	dir, guide := guideTuning(t)
	whole, _ := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "whole", "--parallel", "2", "--json")
	validate(t, "tune.schema.json", []byte(whole))
	text, _ := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "whole", "-q")
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" && !strings.Contains(guide, "    "+line+"\n") {
			t.Errorf("docs/TUNING.md does not have: %s", line)
		}
	}
	made := 0
	for _, step := range []string{"race 1", "held out"} {
		made += killTune(t, dir, step)
	}
	killed, progress := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "killed", "--parallel", "2", "--json")
	if killed != whole {
		t.Errorf("killed:\n%s\nleft alone:\n%s", killed, whole)
	}
	if kept := strings.Count(progress, " kept "); kept < made {
		t.Errorf("%d runs were kept, want at least the %d that were seen to end", kept, made)
	}
	written, err := os.ReadFile(filepath.Join(dir, "killed", "tune.json"))
	if err != nil || string(written) != killed {
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
		if bytes.Contains(line, []byte(" made ")) {
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
