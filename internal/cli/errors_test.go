package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
)

func TestExitCode(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	wrapped := func(err error) error { return fmt.Errorf("replaying: %w", err) }
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"nothing", t.Context(), nil, 0},
		{"anything", t.Context(), errors.New("no"), 1},
		{"usage", t.Context(), console.Usagef("no such thing"), 2},
		{"not valid", t.Context(), wrapped(console.Invalidf("a job was lost")), 3},
		{"bad input", t.Context(), wrapped(console.BadInput(errors.New("line 3"))), 4},
		{"no run", t.Context(), wrapped(run.ErrNotRun), 4},
		{"missing", t.Context(), wrapped(&install.MissingError{Missing: []install.Requirement{{Name: "slurmctld"}}}), 5},
		{"version", t.Context(), wrapped(&install.VersionError{Found: "24.11.5"}), 5},
		{"interrupted", interrupted, wrapped(context.Canceled), 130},
		{"interrupted while something else failed", interrupted, errors.New("disk full"), 1},
		{"a context of its own was cancelled", t.Context(), wrapped(context.Canceled), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(tt.ctx, tt.err); got != tt.want {
				t.Errorf("exit status %d, want %d", got, tt.want)
			}
		})
	}
	if console.BadInput(nil) != nil {
		t.Error("no error is an error of the input")
	}
}

// TestHelpOfEveryCommand checks that the help of every command has a paragraph and, if the
// command does something itself, examples that name it.
func TestHelpOfEveryCommand(t *testing.T) {
	var walk func(path []string)
	walk = func(path []string) {
		t.Run(strings.Join(append([]string{"rmreplay"}, path...), " "), func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := execute(t.Context(), append(path, "--help"), &out, &errOut); code != 0 {
				t.Fatalf("exit status %d: %s", code, errOut.String())
			}
		})
		root := newRootCommand(&globals{Output: console.Output{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}})
		c, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(c.Long), ".") || c.Short == "" {
			t.Errorf("%s: its help has no paragraph", c.CommandPath())
		}
		if !c.HasSubCommands() && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: its help has no example of it", c.CommandPath())
		}
		for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			if n := len([]rune(line)); n > 90 {
				t.Errorf("%s: a line of its help has %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				walk(append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	walk(nil)
}
