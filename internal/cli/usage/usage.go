// Package usage makes the errors about command lines. In one style, they name the mistake in a
// command, flag, value, argument or path, and suggest the right form.
package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"rmreplay/internal/flags"
)

// GroupsOnly annotates a command that does nothing without one of its subcommands.
const GroupsOnly = "groups-only"

// Template is cobra's usage template. For commands that need a subcommand ([GroupsOnly]) it leaves
// out the usage line with "[flags]". If the output w is a terminal, it wraps the descriptions of flags.
func Template(c *cobra.Command, w io.Writer) string {
	const runnable = "{{if .Runnable}}\n  {{.UseLine}}"
	return strings.NewReplacer(runnable, `{{if and .Runnable (not (index .Annotations "`+GroupsOnly+`"))}}
  {{.UseLine}}`, "Flags.FlagUsages", fmt.Sprint("Flags.FlagUsagesWrapped ", wrapAt(w))).Replace(c.UsageTemplate())
}

// widest is the largest width of help, in columns.
const widest = 100

// wrapAt returns the width, in columns, to which help is wrapped: that of the terminal, but at most [widest]. It is 0,
// which means that help is not wrapped, if w is not a terminal.
func wrapAt(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return min(width, widest)
}

// HelpCommand returns the help command. Cobra's own help command prints the help of the program for
// an unknown command and exits with 0.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Long:  `Prints the help of a command, as --help does.`,
		Example: `  rmreplay help replay
  rmreplay help workload build`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: subcommands,
		RunE:              func(c *cobra.Command, args []string) error { return Help(c.Root(), args) },
	}
}

// subcommands completes the name of a command below the commands that are before it.
func subcommands(c *cobra.Command, before []string, typed string) (names []cobra.Completion, d cobra.ShellCompDirective) {
	d = cobra.ShellCompDirectiveNoFileComp
	found, rest, err := c.Root().Find(before)
	if err != nil || len(rest) > 0 {
		return nil, d
	}
	for _, sub := range found.Commands() {
		if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names, d
}

// Help prints the help of the command below c that has the path names.
func Help(c *cobra.Command, names []string) error {
	found, rest, err := c.Find(names)
	if err != nil || len(rest) > 0 {
		return UnknownCommand(found, rest[0])
	}
	return found.Help()
}

// UnknownCommand returns an error that names the command that was probably meant, or else all
// commands.
func UnknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: %s has no commands", name, c.CommandPath())
	}
	meant := elsewhere(c.Root(), strings.ToLower(name))
	if near := flags.Nearest(name, names); near != "" && len(meant) == 0 {
		meant = []string{near}
	}
	if len(meant) > 0 {
		return fmt.Errorf("%s: no such command of %s (did you mean %s?)", name, c.CommandPath(), strings.Join(meant, ", or "))
	}
	return fmt.Errorf("%s: no such command of %s (want %s)", name, c.CommandPath(), strings.Join(names, ", "))
}

// elsewhere returns the paths of the commands below c that have the given name. If another program
// has a command of this name, it returns the equivalent command.
func elsewhere(c *cobra.Command, name string) (paths []string) {
	if path, ok := otherCommands[name]; ok {
		return []string{c.Name() + " " + path}
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if sub.Name() == name {
			paths = append(paths, sub.CommandPath())
		}
		paths = append(paths, elsewhere(sub, name)...)
	}
	return paths
}

// FlagError rewrites pflag's error about a flag in the style of the other errors.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && c.Annotations[GroupsOnly] != "" && c.Flags().NArg() > 0:
		return UnknownCommand(c, c.Flags().Arg(0)) // the flag belongs to the command that was meant
	case errors.As(err, &unknown):
		return unknownFlag(c, unknown)
	case errors.As(err, &bare):
		return fmt.Errorf("--%s needs a value (want %s)", bare.GetFlag().Name, usageOf(bare.GetFlag()))
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %s: %w", invalid.GetFlag().Name, invalid.GetValue(), plainCause(invalid))
	}
	return err
}

// unknownFlag returns an error that names the flag that was probably meant. The user may have
// written a flag's name with one dash instead of two.
func unknownFlag(c *cobra.Command, unknown *pflag.NotExistError) error {
	dashes, name := "--", unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		dashes, name = "-", letters
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	meant := flags.Nearest(name, names)
	for _, other := range otherFlags[strings.ToLower(name)] {
		if slices.Contains(names, other) {
			meant = other
			break
		}
	}
	if meant != "" {
		return fmt.Errorf("unknown flag: %s%s (did you mean --%s?)", dashes, name, meant)
	}
	return fmt.Errorf("unknown flag: %s%s", dashes, name)
}

// plainCause says why a value is wrong: the cause that the flag gives or, for a number, the flag's
// type instead of the parser's name.
func plainCause(invalid *pflag.InvalidValueError) error {
	cause := invalid.Unwrap()
	var number *strconv.NumError
	if !errors.As(cause, &number) {
		return cause
	}
	switch kind := invalid.GetFlag().Value.Type(); kind {
	case "bool":
		return errors.New("neither true nor false")
	case "float64":
		return errors.New("not a number")
	case "uint64":
		return errors.New("not a whole number (want 0 or more)")
	}
	return errors.New("not a whole number")
}

// usageOf returns how a flag is written on a command line: -o FILE, or --policy POLICY.
func usageOf(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	if f.Shorthand != "" {
		return "-" + f.Shorthand + " " + value
	}
	return "--" + f.Name + " " + value
}

// NamesFile reports whether the value of a flag is the path of a file or directory.
func NamesFile(f *pflag.Flag) bool {
	kind, _ := pflag.UnquoteUsage(f)
	return slices.Contains([]string{"DIR", "FILE", "RUN", "WORKLOAD"}, kind)
}

// Required checks the required flags after the arguments, and that no path is empty: an empty
// path would mean the current directory. Cobra's own check of required flags, which comes later,
// does not say how a flag is given.
func Required(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if args != nil {
			if err := args(c, given); err != nil {
				return inWords(c, err)
			}
		}
		var wrong error
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case wrong != nil:
			case !f.Changed && len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0:
				wrong = fmt.Errorf("--%s is missing (want %s)", f.Name, usageOf(f))
			case f.Changed && f.Value.Type() == "string" && f.Value.String() == "" && NamesFile(f):
				wrong = fmt.Errorf("--%s is empty (want %s)", f.Name, usageOf(f))
			}
		})
		return wrong
	}
}

// inWords adds the command's usage to an error about its arguments.
func inWords(c *cobra.Command, err error) error {
	text := err.Error()
	switch form, _, _ := strings.Cut(c.UseLine(), " [flags]"); {
	case strings.HasSuffix(text, " is missing"):
		return fmt.Errorf("%s (want %s)", text, form)
	case clock.MatchString(text):
		return fmt.Errorf("%s (want a date and its time as one word, such as 2024-03-05T08:00)", text)
	}
	return err
}

// clock recognizes the error about a surplus argument that is a time of day.
var clock = regexp.MustCompile(`^"\d\d?:\d\d(:\d\d)?": unexpected argument`)

// marks are the files by which the program recognizes a directory that is a run or a cluster. A command names the
// directory and not the file.
var marks = []string{"manifest.json", "slurm.conf"}

// Near returns a path that the user may have meant if err says that a path does not exist; else
// "".
func Near(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	dir, name := filepath.Split(filepath.Clean(missing.Path))
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, e := range entries { // the file that was meant may be in a subdirectory
		meant := filepath.Join(dir, e.Name(), name)
		if _, err := os.Stat(meant); e.IsDir() && err == nil {
			if slices.Contains(marks, name) {
				meant = filepath.Dir(meant)
			}
			return fmt.Sprintf(" (did you mean %s?)", meant)
		}
	}
	if meant := flags.Nearest(name, names); meant != "" {
		return fmt.Sprintf(" (did you mean %s?)", filepath.Join(dir, meant))
	}
	return ""
}
