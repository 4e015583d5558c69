package cli

import "github.com/spf13/cobra"

// groups are the commands of the program by the headings of its help. Commands that are in no
// group (completion, help and version) follow them there.
var groups = []struct {
	title    string
	commands []func(*globals) *cobra.Command
}{
	{"Replay and simulate", []func(*globals) *cobra.Command{newReplayCommand, newSimulateCommand, newSweepCommand}},
	{"Workloads", []func(*globals) *cobra.Command{newWorkloadCommand}},
	{"Results", []func(*globals) *cobra.Command{newMetricsCommand, newCompareCommand, newReportCommand}},
	{"Site and machine", []func(*globals) *cobra.Command{newConfCommand, newDoctorCommand, newDebugCommand}},
}
