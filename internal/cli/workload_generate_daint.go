package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload/generate"
)

// daintOptions are the flags of `workload generate daint`.
type daintOptions struct {
	days, jobs int
	gpuLoad    float64
	seed       uint64
	output     string
	json       bool
}

func (o *daintOptions) addFlags(c *cobra.Command) {
	console.AddCount(c.Flags(), &o.days, "days", 0, "generate `N` days of submissions (default: 1, or enough for --jobs)")
	console.AddCount(c.Flags(), &o.jobs, "jobs", 0, "generate `N` jobs: the total of all days, whatever load they make (default: "+
		"6025 on the first day, and on each further day enough for the same load)")
	c.Flags().Float64Var(&o.gpuLoad, "gpu-load", generate.DefaultGPULoad,
		"`SHARE` of the GPU nodes' node-hours that the jobs of a day request; above 1 the queue grows")
	console.AddSeed(c.Flags(), &o.seed, seedOfJobs)
	console.AddOutput(c.Flags(), &o.output, "write to `DIR`, a new or an empty directory")
	console.Require(c, "output")
	console.AddJSON(c, &o.json)
}

func newGenerateDaintCommand(g *globals) *cobra.Command {
	var opts daintOptions
	c := &cobra.Command{
		Use:   "daint",
		Short: "Write a machine like Piz Daint, and days of jobs on it",
		Long: `Writes a machine of 7,139 nodes to DIR/cluster and days of jobs to DIR/day.jsonl. Both
follow what the paper on RM-Replay (Martinasso et al., SC'18) publishes about Piz Daint
on 6 October 2017: jobs by size and duration (Table I), 783 of them running when the
window begins, submissions by hour, usual time limits, 51 node events and 10 reservation
events a day, and jobs for 97 % of the GPU nodes and 54 % of the other nodes.`,
		Example: `  rmreplay workload generate daint --seed 1 -o daint
  rmreplay workload generate daint --days 5 -o week
  rmreplay workload generate daint --jobs 145000 -o month
  rmreplay workload generate daint --days 2 --gpu-load 1.15 -o saturated
  rmreplay replay daint/day.jsonl --cluster daint/cluster -o daint/run`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runGenerateDaint(g, opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runGenerateDaint(g *globals, opts daintOptions) error {
	if err := output.EmptyDirectory(opts.output); err != nil {
		return err
	}
	made, err := generate.Daint(generate.DaintOptions{Days: opts.days, Jobs: opts.jobs, GPULoad: opts.gpuLoad,
		Seed: opts.seed})
	if err != nil {
		return console.Usagef("--%w", err)
	}
	w := made.Workload
	if err := generate.WriteSite(opts.output, w, made.Files); err != nil {
		return fmt.Errorf("writing workload: %w", err)
	}
	for _, l := range made.Loads {
		if !l.Met() {
			g.Say("warning: %s nodes: the jobs of a day request %.2f to %.2f of the node-hours, %.2f on average, instead of "+
				"%g%s",
				l.Nodes, l.Lowest(), l.Highest(), l.Mean(), l.Wanted, opts.unmetHint())
		}
	}
	cluster, trace := filepath.Join(opts.output, "cluster"), filepath.Join(opts.output, "day.jsonl")
	if opts.json {
		return g.PrintJSON(map[string]any{
			"cluster": cluster, "workload": trace, "seed": opts.seed, "jobs": w.Jobs.Len(),
			"node_events": len(w.NodeEvents), "reservation_events": len(w.Reservations),
			"loads": loadsJSON(made.Loads),
		})
	}
	err = g.Printf("wrote the cluster %s and the workload %s (%d %s, seed %d)\n", cluster, trace, w.Jobs.Len(),
		quantity.Plural(w.Jobs.Len(), "job", "jobs"),
		opts.seed)
	return err
}

// unmetHint says which flags give each day the wanted load. It is "" without --jobs.
func (o *daintOptions) unmetHint() string {
	if o.jobs == 0 {
		return ""
	}
	return " (--days without --jobs makes enough jobs for this load)"
}

// loadsJSON returns the loads as JSON, by the feature of the nodes.
func loadsJSON(loads []generate.Load) map[string]any {
	out := map[string]any{}
	for _, l := range loads {
		out[l.Feature] = map[string]float64{"wanted": l.Wanted, "lowest": l.Lowest(), "highest": l.Highest(),
			"mean": l.Mean()}
	}
	return out
}
