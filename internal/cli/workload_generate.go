package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/generatecmd"
	"rmreplay/internal/formats"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/example"
)

// generateOptions are the flags of `workload generate example`.
type generateOptions struct {
	seed   uint64
	output string
}

func (o *generateOptions) addFlags(c *cobra.Command) {
	console.AddSeed(c.Flags(), &o.seed, seedOfJobs)
	console.AddOutput(c.Flags(), &o.output, "write to `DIR`, a new or an empty directory")
	console.Require(c, "output")
}

func newWorkloadGenerateCommand(g *globals) *cobra.Command {
	var opts likeOptions
	c := &cobra.Command{
		Use:   "generate",
		Short: "Generate a random workload",
		Long: `The subcommands generate random workloads from models, without records of a real
cluster. With --like, the command generates a workload that resembles a given one in
three ways: when jobs arrive (by hour and weekday, with the gaps between them), which
users submit them and how often a user repeats a job, and which sizes, run times and
time limits occur together. docs/GENERATORS.md describes the models.`,
		Example: `  rmreplay workload generate --like site.jsonl --seed 7 -o another.jsonl
  rmreplay workload generate --like kth.swf --jobs 100000 -o long.jsonl.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return runGenerateLike(g, c, args, opts)
		},
	}
	opts.addFlags(c)
	c.AddCommand(newGenerateExampleCommand(g), newGenerateDaintCommand(g), newGenerateLublinCommand(g),
		newGenerateIOCommand(g))
	return c
}

func newGenerateExampleCommand(g *globals) *cobra.Command {
	var opts generateOptions
	c := &cobra.Command{
		Use:   "example",
		Short: "Write the bundled example: a cluster and a day of jobs",
		Long: `Writes an invented cluster of 50 nodes to DIR/cluster (slurm.conf and the files beside
it, with accounts, QOS and users), and a day of about 600 jobs to DIR/day.jsonl. Every
seed gives the same cluster, and a different day of jobs.`,
		Example: `  rmreplay workload generate example --seed 1 -o demo
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runGenerateExample(g, opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runGenerateExample(g *globals, opts generateOptions) error {
	if err := example.WriteExample(opts.output, opts.seed); err != nil {
		return err
	}
	err := g.Printf("wrote the cluster %s and the workload %s (seed %d)\n",
		filepath.Join(opts.output, "cluster"), filepath.Join(opts.output, "day.jsonl"), opts.seed)
	return err
}

// newGenerateIOCommand makes the command of package generatecmd.
func newGenerateIOCommand(g *globals) *cobra.Command {
	return generatecmd.Lent{
		Replaces: formats.Replaces, Save: g.saveGenerated,
		AddOutput: func(c *cobra.Command, path *string, seed *uint64) {
			console.AddSeed(c.Flags(), seed, seedOfJobs)
			console.AddOutput(c.Flags(), path, traceOutput)
			console.Require(c, "output")
		},
		Read: func(path string) (*workload.Workload, error) { return g.readWorkload(path, workload.ReadOptions{}) },
	}.IO()
}
