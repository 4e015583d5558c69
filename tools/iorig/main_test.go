package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

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
