package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
)

// dependent is a flag that has no effect without others. A command refuses such a flag. Flags that only
// bound resources, such as --parallel, and the seeds of random numbers are not in the list: scripts give
// them always.
type dependent struct {
	commands []string // paths of commands, without the program's name
	flag     string
	needs    []string // the flag has an effect with each of these
	without  string   // or, if needs is empty, only without this flag or argument (in capitals)
}

var dependents = []dependent{
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

// isArgument reports whether a name is that of a command's argument, not of a flag.
func isArgument(name string) bool { return name == strings.ToUpper(name) }

// isGiven reports whether a flag has another value than its default.
func isGiven(f *pflag.Flag) bool {
	return f != nil && f.Changed && (f.Value.String() != f.DefValue || f.DefValue == "")
}

// checkDependents returns an error of usage for a flag of a command that has no effect with the other
// flags. The default value of a flag counts as if the flag were not given.
func checkDependents(command string, f *pflag.FlagSet) error {
	given := func(name string) bool {
		if isArgument(name) {
			return f.NArg() > 0
		}
		return isGiven(f.Lookup(name))
	}
	for _, d := range dependents {
		if !slices.Contains(d.commands, command) || !given(d.flag) {
			continue
		}
		switch {
		case d.without != "" && given(d.without):
			other := "--" + d.without
			if isArgument(d.without) {
				other = d.without
			}
			return console.Usagef("--%s has no effect with %s (want one of them)", d.flag, other)
		case len(d.needs) > 0 && !slices.ContainsFunc(d.needs, given):
			return console.Usagef("--%s has no effect without --%s", d.flag, strings.Join(d.needs, " or --"))
		}
	}
	return nil
}
