package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
)

// TestRerunFlags: rerun has each flag of replay and simulate, and each flag changes the
// specification or says where results go.
func TestRerunFlags(t *testing.T) {
	usages := newRerunCommand(&globals{}).Flags().FlagUsages()
	for _, name := range []string{"policy", "clock", "seed", "ties", "feedback", "reasons", "drain-limit", "slurm", "lead"} {
		line := regexp.MustCompile("(?m)^ +--" + name + " .*").FindString(usages)
		if !strings.HasSuffix(line, "(default: that of the record)") || strings.Count(line, "(default") != 1 {
			t.Errorf("the default is the record's: %s", line)
		}
	}
	results := []string{"output", "overwrite", "realizations", "parallel", "timezone", "quiet", "json"}
	g := &globals{Output: console.Output{}}
	rerun := newRerunCommand(g)
	for _, c := range []struct {
		flags *pflag.FlagSet
		own   map[string]change
	}{{newReplayCommand(g).Flags(), slurmChanges}, {newSimulateCommand(g).Flags(), simulatorChanges}} {
		c.flags.VisitAll(func(f *pflag.Flag) {
			if rerun.Flags().Lookup(f.Name) == nil {
				t.Errorf("rerun has no --%s", f.Name)
			}
			if c.own[f.Name] == nil && changes[f.Name] == nil && !slices.Contains(results, f.Name) {
				t.Errorf("--%s changes nothing", f.Name)
			}
		})
		for name := range c.own {
			if c.flags.Lookup(name) == nil {
				t.Errorf("--%s is not an option", name)
			}
		}
	}
}
