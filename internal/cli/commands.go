package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/cli/accountingcmd"
	"rmreplay/internal/cli/forecastcmd"
	"rmreplay/internal/cli/iocmd"
	"rmreplay/internal/cli/predictcmd"
	"rmreplay/internal/cli/recordcmd"
	"rmreplay/internal/cli/slurmcmd"
	"rmreplay/internal/slurmstore"
	"rmreplay/internal/workload"
)

// groups are the commands of the program by the headings of its help. Commands that are in no
// group (completion, help and version) follow them there.
var groups = []struct {
	title    string
	commands []func(*globals) *cobra.Command
}{
	{"Replay and simulate", []func(*globals) *cobra.Command{newReplayCommand, newSimulateCommand, newSweepCommand, newTuneCommand}},
	{"Workloads", []func(*globals) *cobra.Command{newWorkloadCommand, predicting(predictcmd.New), predicting(forecastcmd.New)}},
	{"Results", []func(*globals) *cobra.Command{newMetricsCommand, newCompareCommand, newReportCommand, recorded(recordcmd.Jobs), recorded(recordcmd.Explain)}},
	{"Production", []func(*globals) *cobra.Command{newAccountingCommand, newIOCommand}},
	{"Site and machine", []func(*globals) *cobra.Command{newConfCommand, newSlurmCommand, newDoctorCommand, recorded(recordcmd.Debug)}},
}

// newSlurmCommand lends the package of the command group what all commands print with.
func newSlurmCommand(g *globals) *cobra.Command {
	return slurmcmd.New(slurmcmd.Output{
		Print: g.print, PrintJSON: g.printJSON, Say: g.say, WantArgs: wantArgs,
		Progress: func() (slurmstore.Hooks, func()) {
			show := newProgress(g.stderr, false)
			return slurmstore.Hooks{Step: show.say, Progress: show.update}, show.end
		},
	})
}

// newIOCommand lends the package of the command group what all commands print with.
func newIOCommand(g *globals) *cobra.Command {
	return iocmd.New(iocmd.Output{
		Print: g.print, PrintJSON: g.printJSON, Say: g.say, WantArgs: wantArgs, BadInput: badInput, Usagef: usagef, AddJSON: addJSONFlag,
	})
}

// newAccountingCommand lends the package of the command group what all commands print with.
func newAccountingCommand(g *globals) *cobra.Command {
	return accountingcmd.New(accountingcmd.Output{
		Print: g.print, PrintJSON: g.printJSON, Say: g.say, WantArgs: wantArgs, BadInput: badInput, Usagef: usagef, Invalidf: invalidf, AddJSON: addJSONFlag,
		Missing: func(err error) error { return &ExitError{Code: ExitMissing, Err: err} },
	})
}

// recorded makes a command of the package that looks into one run.
func recorded(command func(recordcmd.Output) *cobra.Command) func(*globals) *cobra.Command {
	return func(g *globals) *cobra.Command {
		return command(recordcmd.Output{
			Out: g.stdout, PrintJSON: g.printJSON, Say: g.say, WantArgs: wantArgs, BadInput: badInput, Usagef: usagef, AddJSON: addJSONFlag,
		})
	}
}

// predicting makes a command of the packages about predictions.
func predicting(command func(predictcmd.Output) *cobra.Command) func(*globals) *cobra.Command {
	return func(g *globals) *cobra.Command {
		return command(predictcmd.Output{
			Out: g.stdout, Print: g.print, PrintJSON: g.printJSON, Say: g.say, WantArgs: wantArgs, AddJSON: addJSONFlag,
			BadInput: badInput, Usagef: usagef, Require: require, Version: Version(),
			AddOutput: func(c *cobra.Command, to *string, value, usage string) { addOutputFlag(c.Flags(), to, value, usage) },
			Open: func(path string) (*workload.Workload, error) {
				return g.readWorkload(path, workload.ReadOptions{Lean: true})
			},
			Progress: func() (func(string), func()) {
				show := newProgress(g.stderr, false)
				return show.update, show.end
			},
		})
	}
}
