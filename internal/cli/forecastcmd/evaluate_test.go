package forecastcmd

import (
	"regexp"
	"testing"

	"github.com/spf13/pflag"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// TestEvaluateFlags: the flags of `forecast evaluate` name no flag that it does not have, and no capture.
func TestEvaluateFlags(t *testing.T) {
	f := commands{}.newEvaluate().Flags()
	f.VisitAll(func(flag *pflag.Flag) {
		for _, named := range regexp.MustCompile(`--[a-z-]+|\bcapture\b`).FindAllString(flag.Usage, -1) {
			if named == "capture" || f.Lookup(named[2:]) == nil {
				t.Errorf("--%s: %q: %s", flag.Name, flag.Usage, named)
			}
		}
	})
}

// TestSlowness: an evaluation on Slurm says before its start how much it plays, and what is faster.
func TestSlowness(t *testing.T) {
	how := forecast.EvaluateOptions{Options: forecast.Options{Realizations: 20}, Instants: 20}
	if got := slowness(&how); got != "" {
		t.Errorf("on the simulator: %q", got)
	}
	how.Engine = experiment.Spec{Slurm: &experiment.Slurm{}}
	if got, want := slowness(&how), "20 instants x 20 realizations on Slurm, which can take hours; --policy slurm is faster"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	how.At = []hpc.Time{1, 2}
	if got, want := slowness(&how), "2 instants x 20 realizations on Slurm, which can take hours; --policy slurm is faster"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
