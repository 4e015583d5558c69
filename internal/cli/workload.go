package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/workload"
)

func newWorkloadCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "workload",
		Short: "Look at workloads, check them, and make examples",
		Long: `Commands about workloads: what is to be submitted to a cluster, and when. A workload
is a trace in JSON Lines, or a file of events of the UB simulator ("-dt SECONDS -e
submit_batch_job | sbatch options"); either may be compressed with gzip, and the
content tells which it is. docs/FORMATS.md describes them.`,
	}
	c.AddCommand(newWorkloadInfoCommand(g), newWorkloadValidateCommand(g), newWorkloadGenerateCommand(g), newWorkloadTransformCommand(g))
	return c
}

// openWorkload reads a workload; what is wrong with it is bad input.
func openWorkload(path string) (*workload.Workload, error) {
	w, err := workload.Open(path)
	return w, badInput(err)
}
