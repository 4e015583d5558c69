package usage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Dependent is a flag that has no effect unless a certain other flag is given, or is not given. A command refuses such
// a flag. The list of dependent flags lacks flags that only limit resources, such as --parallel, and seeds of random
// numbers, because scripts always give these flags.
type Dependent struct {
	Commands []string // paths of commands, without the program's name
	Flag     string
	Needs    []string // the flag has an effect if one of these flags is given
	Without  string   // used if Needs is empty: the flag or argument (in capitals) with which the flag has no effect
}

// Dependents are the flags that have no effect unless a certain other flag is given, or is not given.
var Dependents = []Dependent{
	{[]string{"replay", "simulate"}, "sessions", []string{"feedback"}, ""},
	{[]string{"compare"}, "per-job", []string{"json"}, ""},
	{[]string{"forecast"}, "submit-as", []string{"submit"}, ""},
	{[]string{"forecast"}, "history", nil, "freeze"},
	{[]string{"forecast"}, "history", nil, "CAPTURE"},
	{[]string{"forecast"}, "timeout", nil, "freeze"},
	{[]string{"forecast"}, "timeout", nil, "CAPTURE"},
	{[]string{"forecast evaluate"}, "instants", nil, "at"},
	{[]string{"workload build"}, "usage-half-life", []string{"start"}, ""},
	{[]string{"workload info"}, "plot-format", []string{"plots"}, ""},
	{[]string{"workload validate"}, "rules", []string{"cluster"}, ""},
	{[]string{"workload validate"}, "slurm", []string{"cluster"}, ""},
	{[]string{"workload transform"}, "quantile", []string{"limits-from"}, ""},
	{[]string{"workload transform"}, "share", []string{"time-limit-accuracy"}, ""},
	{[]string{"workload transform"}, "checkpoint", []string{"chain"}, ""},
	{[]string{"workload transform"}, "min-nodes", []string{"switches"}, ""},
	{[]string{"workload transform"}, "min-runtime", []string{"switches"}, ""},
	{[]string{"workload transform"}, "switch-wait", []string{"switches"}, ""},
	{[]string{"workload generate io"}, "load", []string{"add-to"}, ""},
	{[]string{"workload generate io"}, "set", nil, "add-to"},
	{[]string{"workload generate io"}, "counts", nil, "add-to"},
	{[]string{"workload generate io"}, "cycles", nil, "add-to"},
	{[]string{"workload generate io"}, "rate", nil, "add-to"},
	{[]string{"workload generate io"}, "declare-licenses", nil, "add-to"},
	{[]string{"workload generate io"}, "start", nil, "add-to"},
	{[]string{"accounting serve"}, "sdiag-every", []string{"sdiag"}, ""},
}

// IsArgument reports whether a name is that of a command's argument, not of a flag.
func IsArgument(name string) bool { return name == strings.ToUpper(name) }

// IsGiven reports whether a flag has another value than its default.
func IsGiven(f *pflag.Flag) bool {
	return f != nil && f.Changed && (f.Value.String() != f.DefValue || f.DefValue == "")
}

// CheckDependents returns an error of usage if a flag on the command line has no effect because of the other flags. A
// flag with its default value counts as not given.
func CheckDependents(command string, f *pflag.FlagSet) error {
	given := func(name string) bool {
		if IsArgument(name) {
			return f.NArg() > 0
		}
		return IsGiven(f.Lookup(name))
	}
	for _, d := range Dependents {
		if !slices.Contains(d.Commands, command) || !given(d.Flag) {
			continue
		}
		switch {
		case d.Without != "" && given(d.Without):
			other := "--" + d.Without
			if IsArgument(d.Without) {
				other = d.Without
			}
			return fmt.Errorf("--%s has no effect with %s (want one of them)", d.Flag, other)
		case len(d.Needs) > 0 && !slices.ContainsFunc(d.Needs, given):
			return fmt.Errorf("--%s has no effect without --%s", d.Flag, strings.Join(d.Needs, " or --"))
		}
	}
	return nil
}
