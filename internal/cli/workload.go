package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/formats"
	"rmreplay/internal/workload"
)

func newWorkloadCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "workload",
		Short: "Look at workloads, check, convert, change and make them",
		Long: `Commands about workloads: what is to be submitted to a cluster, and when. A workload
is a trace in JSON Lines, a log in the Standard Workload Format (SWF), a file of events
of the UB simulator ("-dt SECONDS -e submit_batch_job | sbatch options"), or what sacct
-P or --json prints. Any of them may be compressed with gzip, and the content tells
which it is; a run's directory is a workload, too. docs/FORMATS.md describes them.`,
	}
	c.AddCommand(newWorkloadInfoCommand(g), newWorkloadValidateCommand(g), newWorkloadConvertCommand(g), newWorkloadBuildCommand(g),
		newWorkloadTransformCommand(g), newWorkloadGenerateCommand(g), newWorkloadSessionsCommand(g))
	return c
}

// openWorkload reads a workload; what is wrong with it is bad input.
func openWorkload(path string) (*workload.Workload, error) {
	w, err := formats.Open(path)
	return w, badInput(err)
}

// readWorkload is [openWorkload] for commands that do little else. It shows how far it has
// come.
func (g *globals) readWorkload(path string, opts workload.ReadOptions) (*workload.Workload, error) {
	show := newProgress(g.stderr, false)
	defer show.end()
	opts.Progress = show.reading(filepath.Base(path))
	w, err := formats.OpenWith(path, opts)
	return w, badInput(err)
}
