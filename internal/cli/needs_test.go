package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
)

// TestDependents gives each dependent flag without and with the flag that decides whether it has an effect.
func TestDependents(t *testing.T) {
	for _, d := range usage.Dependents {
		for _, command := range d.Commands {
			flagsOf := func(names ...string) *pflag.FlagSet {
				root := newRootCommand(&globals{Output: console.Output{Stdout: io.Discard, Stderr: io.Discard}})
				c, rest, err := root.Find(strings.Fields(command))
				if err != nil || len(rest) > 0 {
					t.Fatalf("%s: no such command", command)
				}
				for _, name := range names {
					if usage.IsArgument(name) {
						if err := c.Flags().Parse([]string{"queue"}); err != nil || !strings.Contains(c.Use, name) {
							t.Fatalf("%s: no argument %s (%v)", command, name, err)
						}
						continue
					}
					flag := c.Flags().Lookup(name)
					if flag == nil {
						t.Fatalf("%s: no flag --%s", command, name)
					}
					done := false
					for _, value := range []string{"true", "7", "0.25", "last:20m", "png", "think-time", "70s", "a=x", "2024-03-05"} {
						if c.Flags().Set(name, value) == nil && usage.IsGiven(flag) {
							done = true
							break
						}
					}
					if !done {
						t.Fatalf("%s: the test has no value for --%s", command, name)
					}
				}
				return c.Flags()
			}
			alone, with := usage.CheckDependents(command, flagsOf(d.Flag)), error(nil)
			if d.Without != "" {
				with, alone = alone, usage.CheckDependents(command, flagsOf(d.Flag, d.Without))
			}
			for _, name := range d.Needs {
				with = usage.CheckDependents(command, flagsOf(d.Flag, name))
			}
			if alone == nil || !strings.Contains(alone.Error(), "--"+d.Flag+" has no effect with") || with != nil {
				t.Errorf("%s --%s: %v, and with an effect %v", command, d.Flag, alone, with)
			}
		}
	}
}
