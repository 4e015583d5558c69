package cli

import "github.com/spf13/cobra"

// commands are the commands of the program, in the order of their help.
func commands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newReplayCommand(g),
		newSimulateCommand(g),
		newMetricsCommand(g),
		newCompareCommand(g),
		newReportCommand(g),
		newSweepCommand(g),
		newWorkloadCommand(g),
		newConfCommand(g),
		newDoctorCommand(g),
		newDebugCommand(g),
		newCompletionCommand(g),
		newVersionCommand(g),
		newDocsCommand(g),
	}
}
