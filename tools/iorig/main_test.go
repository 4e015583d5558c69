package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/supervise"
)

// TestMain lets the test program be the guard, the parent of the daemons.
func TestMain(m *testing.M) {
	supervise.RunIfGuard()
	os.Exit(m.Run())
}

// TestRigOnSlurm runs experiments on the stock Slurm.
func TestRigOnSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: experiments on real Slurm")
	}
	if in, err := install.Find(); err != nil || in.Need(false) != nil {
		t.Skipf("SKIPPED: no experiment on the installed Slurm: %v", errors.Join(err, in.Need(false)))
	}
	args := []string{"--engine", "slurm", "--sets", "two-jobs:1,2", "--bandwidths", "100MiB/s", "--realizations", "2", "--policies", "bf-licenses:estimate=perfect", "--policies", "io-aware"}
	var out bytes.Buffer
	if err := runTool(context.Background(), args, &out); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "\n"); rows != 2+2 {
		t.Errorf("the table is\n%s", out.String())
	}
	for _, bad := range [][]string{{"--engine", "pbs"}, {"--engine", "slurm", "--policies", "easy"}, {"--engine", "slurm", "--policies", "bf-licenses"}} {
		if err := runTool(context.Background(), bad, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestResults: known results are read from the file and not computed again, and --compare compares
// the engines in the file.
func TestResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rig.jsonl")
	play := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := runTool(context.Background(), append(args, "--results", file), &out)
		return out.String(), err
	}
	args := []string{"--sets", "two-jobs:2,2", "--bandwidths", "100MiB/s", "--realizations", "2"}
	table, err := play(args...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\n")) != 8 {
		t.Fatalf("the results are %v\n%s", err, text)
	}
	// Two realizations run, and two have results in the file.
	if _, err := play("--sets", "two-jobs:2,2", "--bandwidths", "100MiB/s", "--realizations", "4"); err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(more, text) || bytes.Count(more, []byte("\n")) != 16 {
		t.Errorf("the results are %v\n%s", err, more)
	}
	if again, err := play(args...); err != nil || again != table {
		t.Errorf("from the results, the table is %v\n%s\nand not\n%s", err, again, table)
	}
	if _, err := play("--compare"); err == nil {
		t.Error("one engine is compared")
	}
	// The other engine's makespans are 10 % longer, except the makespans of one policy, which are
	// half as long.
	var other []byte
	for text := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		if l.Engine, l.Makespan = "slurm", l.Makespan*1.1; l.Policy == "io-baseline" {
			l.Makespan /= 2.2
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		other = append(append(other, text...), '\n')
	}
	if err := os.WriteFile(file, append(more, other...), 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := play("--compare")
	for _, want := range []string{
		"| two-jobs:2,2 | 100MiB/s | io-aware | 2 | slurm |", "| +10.0 % [+10.0, +10.0] |", "| -50.0 % [-50.0, -50.0] |",
		"| two-jobs:2,2 | 100MiB/s | slurm | io-baseline < ",
	} {
		if err != nil || !strings.Contains(both, want) {
			t.Errorf("the comparison is %v\n%s\nwithout %s", err, both, want)
		}
	}
	for _, bad := range []string{"{", `{"seed":1,"colour":2}`, "\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := play(args...); err == nil || !strings.Contains(err.Error(), "rig.jsonl:1") {
			t.Errorf("results %q: %v", bad, err)
		}
	}
	if err := runTool(context.Background(), []string{"--compare"}, &bytes.Buffer{}); err == nil {
		t.Error("no error for a comparison of nothing")
	}
}

func TestAgreement(t *testing.T) {
	if got := agree([]int{1, -1, 0, 1, -1}, []int{1, 1, 1, 0, -1}); got != "2 the same, 1 opposite, 2 not separated" {
		t.Error(got)
	}
}

func TestRig(t *testing.T) {
	play := func(args ...string) string {
		var out bytes.Buffer
		if err := runTool(context.Background(), args, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	args := []string{"--sets", "two-jobs:3,3", "--bandwidths", "100MiB/s", "--realizations", "3"}
	table := play(args...)
	if rows := strings.Count(table, "\n"); rows != 2+4 || !strings.Contains(table, "| two-jobs:3,3 | 100MiB/s | 100MiB/s | io-aware |") {
		t.Errorf("the table is\n%s", table)
	}
	if again := play(args...); again != table {
		t.Errorf("the second time the table is\n%s\nand not\n%s", again, table)
	}
	for _, bad := range [][]string{{"--sets", "two-jobs"}, {"--rate", "5x"}, {"--policies", "lifo"}, {"--bandwidths", "0"}, {"--realizations", "1"}} {
		if err := runTool(context.Background(), bad, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
