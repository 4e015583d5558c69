package main

import (
	"bytes"
	"context"
	"errors"
	"os"
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

// TestRigOnSlurm: the stock Slurm plays the experiments too.
func TestRigOnSlurm(t *testing.T) {
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
