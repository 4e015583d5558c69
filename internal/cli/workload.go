package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/sitecmd"
	"rmreplay/internal/formats"
	"rmreplay/internal/workload"
)

func newWorkloadCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "workload",
		Short: "Build, generate, check, convert and change workloads",
		Long: `Commands about workloads. A workload lists the jobs that users submit to a cluster, with
the times of submission. It is a trace in JSON Lines, a log in the Standard Workload
Format (SWF), a file of events of the UB simulator ("-dt SECONDS -e submit_batch_job |
sbatch options"), the output of sacct -P or sacct --json, an accounting log of PBS, LSF
or Grid Engine, a log in the Grid Workload Format (GWF), a workload of Batsim, a CSV
table, a bundle, or the directory of a run. Files may be compressed with gzip, xz or
Zstandard.
The commands recognize the format by the content. docs/FORMATS.md describes the formats.`,
	}
	c.AddCommand(newWorkloadInfoCommand(g), sitecmd.Validate(lentTo(g)), newWorkloadConvertCommand(g), newWorkloadBuildCommand(g),
		newWorkloadTransformCommand(g), newWorkloadGenerateCommand(g), newWorkloadSessionsCommand(g),
		sitecmd.Complete(lentTo(g)))
	return c
}

// lentTo returns the functions of this package that package sitecmd uses.
func lentTo(g *globals) sitecmd.Lent {
	return sitecmd.Lent{Output: g.Output, Read: func(path string) (*workload.Workload, error) {
		return g.readWorkload(path, workload.ReadOptions{})
	}}
}

// openWorkload reads a workload. Its errors are errors of the input.
func openWorkload(path string) (*workload.Workload, error) {
	w, err := formats.Open(path)
	return w, console.BadInput(err)
}

// readWorkload is [openWorkload] with options and with a display of its progress.
func (g *globals) readWorkload(path string, opts workload.ReadOptions) (*workload.Workload, error) {
	show := g.Progress(false)
	defer show.End()
	opts.Progress = show.Reading(filepath.Base(path))
	w, err := formats.OpenWith(path, opts)
	return w, console.BadInput(err)
}
