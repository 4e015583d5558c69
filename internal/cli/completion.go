package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/formats"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/workload/build"
	"rmreplay/internal/workload/chart"
)

// shells are the shells that have a completion script.
var shells = []string{"bash", "zsh", "fish"}

func newCompletionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script for completion in bash, zsh or fish",
		Long: `Prints a script. With it, the shell completes commands, flags, and the values of flags:
policies, formats, models, clock models, groups and time zones. "make install" installs
the scripts where the shells look for them.`,
		Example: `  source <(rmreplay completion bash)
  rmreplay completion zsh > ~/.zfunc/_rmreplay
  rmreplay completion fish > ~/.config/fish/completions/rmreplay.fish`,
		Args:      wantArgs("SHELL"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(g.stdout, true)
			case "zsh":
				return root.GenZshCompletion(g.stdout)
			case "fish":
				return root.GenFishCompletion(g.stdout, true)
			}
			return usagef("%s: not a shell (want %s)", args[0], strings.Join(shells, ", "))
		},
	}
}

// flagValues lists the values of a flag by the flag's name, for flags with known values.
var flagValues = map[string]func() []string{
	"by":               groupings,
	"clock":            func() []string { return []string{"frozen", "measured", "measured="} },
	"feedback":         modelNames,
	"from":             kindNames,
	"launch-delay":     func() []string { return delays },
	"prolog-delay":     func() []string { return delays },
	"epilog-delay":     func() []string { return delays },
	"on":               func() []string { return []string{onLocal, onSlurm} },
	"plot-format":      func() []string { return chart.Formats },
	"policy":           policyNames,
	"sessions":         func() []string { return []string{"arrival:60m", "last:20m", "max:20m"} },
	"ties":             func() []string { return []string{string(sim.EndsFirst), string(sim.ArrivalsFirst)} },
	"time-limit":       func() []string { return []string{limitAsked, limitTwice} },
	"time-limit-model": func() []string { return []string{"tsafrir"} },
	"timezone":         func() []string { return zones },
	"to":               formats.Names,
}

// delays are the distributions of delays.
var delays = []string{"uniform:", "exp:", "lognormal:"}

// zones are examples of time zones. The flag takes all names of the IANA database.
var zones = []string{
	"UTC", "Local", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo",
	"Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London", "Europe/Paris", "Europe/Zurich",
}

func policyNames() (names []string) {
	for _, p := range policy.List() {
		names = append(names, fmt.Sprintf("%s\t%s", p.Name, p.Doc))
	}
	return names
}

func kindNames() (names []string) {
	for _, k := range build.Kinds {
		names = append(names, string(k))
	}
	return names
}

// complete registers the completion of flags and arguments for root and every command below
// it: the values in [flagValues], and directories or files if the usage names one.
func complete(root *cobra.Command) {
	for _, c := range root.Commands() {
		complete(c)
	}
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		if err := root.RegisterFlagCompletionFunc(f.Name, completionOf(f)); err != nil {
			panic(err) // the flag is the command's own
		}
	})
	if root.Runnable() && len(root.ValidArgs) == 0 {
		first := ""
		if words := strings.Fields(root.Use); len(words) > 1 {
			first = words[1]
		}
		root.ValidArgsFunction = completePath(first)
	}
}

// completionOf returns the completion of a flag's values.
func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	values, ok := flagValues[f.Name]
	if !ok || namesFile(f) { // slurm install --from is a file, workload build --from a kind
		kind, _ := pflag.UnquoteUsage(f)
		return completePath(kind)
	}
	list := strings.Contains(f.Value.Type(), "Slice") // several values, separated by commas
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if list {
			before = typed[:strings.LastIndex(typed, ",")+1]
		}
		var found []cobra.Completion
		directive := cobra.ShellCompDirectiveNoFileComp
		for _, v := range values() {
			if strings.HasPrefix(before+v, typed) {
				found = append(found, before+v)
			}
			if strings.HasSuffix(v, ":") || strings.HasSuffix(v, "=") || list {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return found, directive
	}
}

// completePath completes files or directories if the word in the usage stands for one.
func completePath(kind string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	name := strings.TrimRight(strings.Split(kind, "|")[0], ".")
	switch {
	case slices.Contains([]string{"DIR", "RUN"}, name):
		directive = cobra.ShellCompDirectiveFilterDirs
	case slices.Contains([]string{"FILE", "WORKLOAD", "EXPERIMENT", "SOURCE", "SLURM.CONF"}, name):
		directive = cobra.ShellCompDirectiveDefault
	}
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, directive
	}
}
