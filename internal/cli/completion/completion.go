// Package completion completes commands, flags and their values in a shell. It does not depend on
// the commands. The usage text of an argument or a flag says whether its value is a path, and
// internal/cli passes all other values.
package completion

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
)

// Shells are the shells that have a completion script.
var Shells = []string{"bash", "zsh", "fish"}

// Command returns the command that prints a script.
func Command(out console.Output) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script for completion in bash, zsh or fish",
		Long: `Prints a script. With this script, the shell completes commands, flags, and the values
of flags: policies, formats, models, clock models, groups, time zones and the like.
"make install" installs the scripts where the shells look for them. The script for bash
needs the package bash-completion.`,
		Example: `  source <(rmreplay completion bash)
  rmreplay completion zsh > ~/.zfunc/_rmreplay
  rmreplay completion fish > ~/.config/fish/completions/rmreplay.fish`,
		Args:      console.WantArgs("SHELL"),
		ValidArgs: Shells,
		RunE: func(c *cobra.Command, given []string) error {
			switch root := c.Root(); given[0] {
			case "bash":
				return root.GenBashCompletionV2(out.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(out.Stdout)
			case "fish":
				return root.GenFishCompletion(out.Stdout, true)
			}
			return console.Usagef("%s: not a shell (want %s)", given[0], strings.Join(Shells, ", "))
		},
	}
}

// Values maps flags to functions that return their possible values. A key is a flag of all commands, such as "--to",
// or a flag of one command and the commands below it, such as "predict train --model". If both kinds of keys match a
// flag, the key of one command is used.
type Values map[string]func() []string

// of returns the values of a command's flag, or nil if they are not known.
func (v Values) of(c *cobra.Command, flag string) func() []string {
	words := strings.Fields(c.CommandPath())[1:] // without the program
	for n := len(words); n >= 0; n-- {
		if values := v[strings.Join(append(slices.Clone(words[:n]), "--"+flag), " ")]; values != nil {
			return values
		}
	}
	return nil
}

// Register registers the completion of flags and arguments for root and all its subcommands. The
// completions are known values. If the usage text says that the value is a path, they are files or
// directories. The function namesFile reports whether a flag's value is a path.
func Register(root *cobra.Command, values Values, namesFile func(*pflag.Flag) bool) {
	for _, c := range root.Commands() {
		Register(c, values, namesFile)
	}
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		if err := root.RegisterFlagCompletionFunc(f.Name, complete(f, values.of(root, f.Name), namesFile(f))); err != nil {
			panic(err) // cannot happen: the command has the flag
		}
	})
	if root.Runnable() && len(root.ValidArgs) == 0 && root.ValidArgsFunction == nil {
		root.ValidArgsFunction = completeArguments(root)
	}
}

// recorded are the commands whose arguments can be runs, which are directories, or recorded workloads, which are
// files.
var recorded = []string{"compare", "explain", "jobs", "metrics", "report"}

// completeArguments completes a command's arguments that are paths, and after them the flags that the
// command needs.
func completeArguments(c *cobra.Command) cobra.CompletionFunc {
	words, needed := Arguments(c), required(c)
	return func(c *cobra.Command, before []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(before)
		if n := len(words); n > 0 && at >= n && strings.HasSuffix(words[n-1], "...") {
			at = n - 1
		}
		if at >= len(words) {
			return missing(c, needed, typed), cobra.ShellCompDirectiveNoFileComp
		}
		word := strings.TrimSuffix(words[at], "...")
		_, command, _ := strings.Cut(c.CommandPath(), " ")
		if slices.Contains(recorded, command) && word == "RUN" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return completePath(word)(c, before, typed)
	}
}

// required returns the names of the flags that a command needs.
func required(c *cobra.Command) (names []string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil {
			names = append(names, f.Name)
		}
	})
	return names
}

// missing returns those of a command's flags that are not yet on the command line.
func missing(c *cobra.Command, names []string, typed string) (found []cobra.Completion) {
	for _, name := range names {
		if f := c.Flag(name); !f.Changed && strings.HasPrefix("--"+name, typed) {
			found = append(found, cobra.CompletionWithDesc("--"+name, f.Usage))
		}
	}
	return found
}

// Arguments returns the words for a command's arguments in its usage, without brackets. The last word
// ends in "..." if the argument can be repeated. Alternatives in parentheses begin with an argument.
func Arguments(c *cobra.Command) (list []string) {
	words := strings.Fields(c.Use)[1:]
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], "[]()")
		switch {
		case word == "|":
			return list
		case strings.HasPrefix(word, "-"):
			i++ // the flag's value
		case strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.=|") == "" || strings.Contains(word, "|"):
			repeated := strings.HasSuffix(words[i], "...")
			if word = strings.TrimRight(word, ".]"); repeated {
				word += "..."
			}
			list = append(list, word)
		}
	}
	return list
}

// Plain removes the marks of values from the usage of flags, so that the shell does not show them,
// and the marks of needed flags, which cobra would complete in place of files. The help of these
// commands is not complete afterwards.
func Plain(root *cobra.Command) {
	for _, c := range root.Commands() {
		Plain(c)
	}
	for _, flags := range []*pflag.FlagSet{root.Flags(), root.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			f.Usage = strings.ReplaceAll(f.Usage, "`", "")
			delete(f.Annotations, cobra.BashCompOneRequiredFlag)
		})
	}
}

// complete returns the completion of a flag's values. values is nil if the values are unknown.
func complete(f *pflag.Flag, values func() []string, path bool) cobra.CompletionFunc {
	kind, _ := pflag.UnquoteUsage(f)
	if f.Name == "cluster" {
		kind = "BUNDLE" // a bundle may also be a directory
	}
	if values == nil || path && kind == "DIR" && len(values()) == 0 {
		return completePath(kind)
	}
	list := strings.Contains(f.Value.Type(), "Slice") // several values, separated by commas
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if list {
			before = typed[:strings.LastIndex(typed, ",")+1]
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if kind == "MAP" || path { // a name, or a file or directory
			directive = cobra.ShellCompDirectiveDefault
		}
		for _, v := range values() {
			if strings.HasSuffix(v, ":") || strings.HasSuffix(v, "=") || list {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return matching(values(), before, typed), directive
	}
}

// matching returns the values that begin with the typed text. It puts the text before in front of each value.
func matching(values []string, before, typed string) (found []cobra.Completion) {
	for _, v := range values {
		if strings.HasPrefix(before+v, typed) {
			found = append(found, before+v)
		}
	}
	return found
}

// The words for values that are directories, and for those that may be files.
var (
	directories = []string{"DIR", "RUN", "TARGET"}
	files       = []string{
		"FILE", "WORKLOAD", "EXPERIMENT", "SOURCE", "SLURM.CONF", "MAP", "LOG", "MODEL", "SCRIPT", "BUNDLE", "CAPTURE",
	}
)

// completePath completes files or directories, depending on the word for the value in the usage.
func completePath(kind string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	name := strings.TrimRight(strings.Split(kind, "|")[0], ".")
	switch {
	case slices.Contains(directories, name):
		directive = cobra.ShellCompDirectiveFilterDirs
	case slices.Contains(files, name):
		directive = cobra.ShellCompDirectiveDefault
	}
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, directive
	}
}
