package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/flags"
)

// groupsOnly annotates a command that does nothing without one of its subcommands.
const groupsOnly = "groups-only"

// usageTemplate is cobra's template without the line "[flags]" for commands that need a
// subcommand.
func usageTemplate(c *cobra.Command) string {
	const runnable = "{{if .Runnable}}\n  {{.UseLine}}"
	return strings.Replace(c.UsageTemplate(), runnable, `{{if and .Runnable (not (index .Annotations "`+groupsOnly+`"))}}
  {{.UseLine}}`, 1)
}

// newHelpCommand returns the help command. Cobra's own prints the help of the program for an
// unknown command and exits with 0.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Long:  `Prints the help of a command, as --help does.`,
		Example: `  rmreplay help replay
  rmreplay help workload build`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return help(c.Root(), args) },
	}
}

// help prints the help of the command that the names lead to from c.
func help(c *cobra.Command, names []string) error {
	found, rest, err := c.Find(names)
	if err != nil || len(rest) > 0 {
		return unknownCommand(found, rest[0])
	}
	return found.Help()
}

// unknownCommand returns an error that names the command that was meant, or all commands.
func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: %s has no commands", name, c.CommandPath())
	}
	if meant := flags.Nearest(name, names); meant != "" {
		return fmt.Errorf("%s: no such command of %s (did you mean %s?)", name, c.CommandPath(), meant)
	}
	return fmt.Errorf("%s: no such command of %s (want %s)", name, c.CommandPath(), strings.Join(names, ", "))
}

// flagError says in the words of the other errors what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(c, unknown)
	case errors.As(err, &bare):
		return fmt.Errorf("--%s needs a value (want %s)", bare.GetFlag().Name, usageOf(bare.GetFlag()))
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %s: %w", invalid.GetFlag().Name, invalid.GetValue(), plainCause(invalid))
	}
	return err
}

// unknownFlag returns an error that names the flag that was meant. Letters after one dash may
// be a name that misses its second dash.
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
	if meant := flags.Nearest(name, names); meant != "" {
		return fmt.Errorf("unknown flag: %s%s (did you mean --%s?)", dashes, name, meant)
	}
	return fmt.Errorf("unknown flag: %s%s", dashes, name)
}

// plainCause says why a value is wrong: the cause that the flag gives, or for a number the type
// of the flag in place of the parser's name.
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

// usageOf returns how a flag is given: -o FILE, or --policy POLICY.
func usageOf(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	if f.Shorthand != "" {
		return "-" + f.Shorthand + " " + value
	}
	return "--" + f.Name + " " + value
}

// namesFile reports whether the value of a flag is the path of a file or directory.
func namesFile(f *pflag.Flag) bool {
	kind, _ := pflag.UnquoteUsage(f)
	return slices.Contains([]string{"DIR", "FILE", "RUN", "WORKLOAD"}, kind)
}

// withRequired checks the required flags after the arguments, and that no path is empty: an empty
// path would mean the current directory. Cobra's own check of required flags, which comes later,
// does not say how a flag is given.
func withRequired(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if args != nil {
			if err := args(c, given); err != nil {
				return err
			}
		}
		var wrong error
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case wrong != nil:
			case !f.Changed && len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0:
				wrong = fmt.Errorf("--%s is missing (want %s)", f.Name, usageOf(f))
			case f.Changed && f.Value.Type() == "string" && f.Value.String() == "" && namesFile(f):
				wrong = fmt.Errorf("--%s is empty (want %s)", f.Name, usageOf(f))
			}
		})
		return wrong
	}
}
