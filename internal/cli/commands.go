package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/cli/accountingcmd"
	"rmreplay/internal/cli/recordcmd"
	"rmreplay/internal/cli/slurmcmd"
	"rmreplay/internal/slurmstore"
)

// groups are the commands of the program by the headings of its help. Commands that are in no
// group (completion, help and version) follow them there.
var groups = []struct {
	title    string
	commands []func(*globals) *cobra.Command
}{
	{"Replay and simulate", []func(*globals) *cobra.Command{newReplayCommand, newSimulateCommand, newSweepCommand, newTuneCommand}},
	{"Workloads", []func(*globals) *cobra.Command{newWorkloadCommand}},
	{"Results", []func(*globals) *cobra.Command{newMetricsCommand, newCompareCommand, newReportCommand, recorded(recordcmd.Jobs), recorded(recordcmd.Explain)}},
	{"Production", []func(*globals) *cobra.Command{newAccountingCommand}},
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
