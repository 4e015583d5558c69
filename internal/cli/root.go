// Package cli is the command line of rmreplay. Each command has a file here or in a package below,
// with its flags, its help and its run function. A command fills in a specification, calls a
// package below to do the work (package experiment makes runs), and prints the result.
//
// Results go to standard output: as text for people, or with --json as exactly one JSON object.
// Progress, messages and errors go to standard error.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/completion"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
	"rmreplay/internal/flags"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/output"
)

// Main runs the command that the program's arguments name and returns the exit status. SIGINT,
// SIGTERM and SIGHUP interrupt it, as package interrupt says.
func Main() int {
	status, ended := interrupt.Run(func(ctx context.Context) int {
		return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	})
	if ended {
		return status
	}
	output.Abandon()
	_, _ = fmt.Fprintln(os.Stderr, "rmreplay: interrupted") // the error of a closed terminal is ignored
	return console.ExitInterrupted
}

// globals is what all commands share.
type globals struct {
	console.Output
	// running is true once the arguments have been read. Errors before that are errors of usage.
	running bool
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	g := &globals{Output: console.Output{Stdout: stdout, Stderr: stderr, Version: Version()}}
	root := newRootCommand(g)
	root.SetArgs(args)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		completion.Plain(root)
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return console.ExitOK
	}
	if !g.running {
		err = &console.ExitError{Code: console.ExitUsage, Err: err}
	}
	code := exitCode(ctx, err)
	g.Say("rmreplay: %s", errorText(code, err))
	if code == console.ExitUsage {
		g.Say("see: %s --help", command.CommandPath())
	}
	return code
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "rmreplay",
		Short: "Replay a cluster's workload on its own resource manager, faster than real time",
		Long: `rmreplay answers "what would have happened if…?". It runs a workload again, on the
unmodified Slurm daemons under virtual time or on a built-in simulator, and records what
happens to every job.

Results go to standard output, progress and messages to standard error. The exit status is

  0    success
  1    failure
  2    wrong usage
  3    the command finished, but the result is not valid
  4    wrong input: a file, a directory or a run
  5    something is missing on this machine (rmreplay doctor)
  130  interrupted by SIGINT (Ctrl-C), SIGTERM or SIGHUP

An interrupted command ends within two seconds, after a second signal at once, and leaves
no incomplete file. The record of such a run has what happened until then, and says so.

A DURATION is 90s, 5m, 1h30m, 2h30, 2d, 08:00:00, 1-12:00 or a number of seconds. Options
for hours or days want a unit, as --maintenance, --max-time-limit, --chain, --retention. A
TIME is 2024-03-05, 2024-03-05T12:00, 2024-03-05T12:00:00, or seconds since 1970. It is in
the zone of --timezone, unless it ends in Z or in an offset such as +01:00.`,
		Example: `  rmreplay doctor
  rmreplay workload generate example --seed 1 -o demo
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run
  rmreplay metrics demo/run`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       Version(),
	}
	root.SetOut(g.Stdout)
	root.SetErr(g.Stderr)
	root.SetVersionTemplate("rmreplay {{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "print the version")
	root.CompletionOptions.DisableDefaultCmd = true // package completion has its own command
	root.SetFlagErrorFunc(usage.FlagError)
	root.SetUsageTemplate(usage.Template(root, g.Stdout))
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, c := range group.commands {
			command := c(g)
			command.GroupID = group.title
			root.AddCommand(command)
		}
	}
	root.AddCommand(completion.Command(g.Output), newVersionCommand(g), newDocsCommand(g))
	root.SetHelpCommand(usage.HelpCommand())
	g.watch(root)
	completion.Register(root, flagValues, usage.NamesFile)
	return root
}

// watch makes c and all its subcommands set g.running once their arguments have been read.
func (g *globals) watch(c *cobra.Command) {
	flags.Numbers(c.Flags())
	c.InitDefaultHelpFlag() // cobra skips -h before the name of a command only if the flag is defined
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Annotations = map[string]string{usage.GroupsOnly: "true"}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return c.Help()
			case args[0] == "help":
				return usage.Help(c, args[1:])
			}
			return usage.UnknownCommand(c, args[0])
		}
	} else if run := c.RunE; run != nil {
		c.Args = usage.Required(c.Args)
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := usage.CheckDependents(strings.TrimPrefix(c.CommandPath(), "rmreplay "), c.Flags()); err != nil {
				return console.Usagef("%w", err)
			}
			g.running = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		g.watch(sub)
	}
}
