package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/cli/accountingcmd"
	"rmreplay/internal/cli/agreementcmd"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/forecastcmd"
	"rmreplay/internal/cli/iocmd"
	"rmreplay/internal/cli/predictcmd"
	"rmreplay/internal/cli/recordcmd"
	"rmreplay/internal/cli/sitecmd"
	"rmreplay/internal/cli/slurmcmd"
	"rmreplay/internal/workload"
)

// groups are the commands of the program by the headings of its help. The help lists commands
// without a group (completion, help and version) after the groups.
var groups = []struct {
	title    string
	commands []func(*globals) *cobra.Command
}{
	{"Replay and simulate", []func(*globals) *cobra.Command{newReplayCommand, newSimulateCommand, newRerunCommand, newSweepCommand, newTuneCommand, printing(agreementcmd.New)}},
	{"Workloads", []func(*globals) *cobra.Command{newWorkloadCommand, newPredictCommand, printing(forecastcmd.New)}},
	{"Results", []func(*globals) *cobra.Command{newMetricsCommand, newCompareCommand, newReportCommand, printing(recordcmd.Jobs), printing(recordcmd.Explain)}},
	{"Production", []func(*globals) *cobra.Command{printing(accountingcmd.New), printing(iocmd.New)}},
	{"Site and machine", []func(*globals) *cobra.Command{newSiteCommand, newConfCommand, printing(slurmcmd.New), newDoctorCommand, printing(recordcmd.Debug)}},
}

// printing adapts a command whose package needs only an output from this package.
func printing(command func(console.Output) *cobra.Command) func(*globals) *cobra.Command {
	return func(g *globals) *cobra.Command { return command(g.Output) }
}

func newSiteCommand(g *globals) *cobra.Command { return sitecmd.New(lentTo(g)) }

func newPredictCommand(g *globals) *cobra.Command {
	return predictcmd.New(g.Output, func(path string) (*workload.Workload, error) {
		return g.readWorkload(path, workload.ReadOptions{Lean: true})
	})
}
