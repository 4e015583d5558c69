package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/generate"
)

// likeOptions are the flags of `workload generate --like`.
type likeOptions struct {
	like   string
	jobs   int
	seed   uint64
	output string
	json   bool
}

func (o *likeOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.like, "like", "", "imitate `WORKLOAD`: generate jobs that resemble its jobs")
	console.AddCount(c.Flags(), &o.jobs, "jobs", 0, "generate `N` jobs (default: as many as the workload has)")
	console.AddSeed(c.Flags(), &o.seed, seedOfJobs)
	console.AddOutput(c.Flags(), &o.output, traceOutput)
	console.AddJSON(c, &o.json)
}

func runGenerateLike(g *globals, c *cobra.Command, args []string, opts likeOptions) error {
	switch {
	case len(args) > 0:
		return &console.ExitError{Code: console.ExitUsage, Err: usage.UnknownCommand(c, args[0])}
	case opts.like == "" && opts.output == "":
		return c.Help()
	case opts.like == "":
		return console.Usagef("--like is missing (want --like WORKLOAD, or a subcommand such as lublin)")
	case opts.output == "":
		return console.Usagef("--output is missing (want a file)")
	}
	if err := formats.Replaces(opts.output, opts.like); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	model, err := g.readWorkload(opts.like, workload.ReadOptions{})
	if err != nil {
		return err
	}
	w, err := generate.Like(model, generate.LikeOptions{Jobs: opts.jobs, Seed: opts.seed})
	if err != nil {
		return console.BadInput(fmt.Errorf("%s: %w", opts.like, err))
	}
	return g.saveGenerated(w, opts.output, opts.seed, opts.json)
}

// traceOutput is the usage of --output for a trace.
const traceOutput = "write a trace to `FILE`, compressed if its name ends in .gz"

// saveGenerated writes a generated workload that has no cluster, and prints its path.
func (g *globals) saveGenerated(w *workload.Workload, path string, seed uint64, asJSON bool) error {
	if err := formats.Save(path, w); err != nil {
		return err
	}
	if asJSON {
		return g.PrintJSON(map[string]any{"workload": path, "jobs": w.Jobs.Len(), "seed": seed})
	}
	err := g.Printf("wrote the workload %s (%d %s, seed %d)\n", path, w.Jobs.Len(),
		quantity.Plural(w.Jobs.Len(), "job", "jobs"), seed)
	return err
}

// lublinOptions are the flags of `workload generate lublin`.
type lublinOptions struct {
	model  generate.LublinOptions
	start  string
	zone   flags.Zone
	output string
	json   bool
}

func (o *lublinOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	console.AddCount(f, &o.model.Jobs, "jobs", 1000, "generate `N` jobs")
	console.AddCount(f, &o.model.Processors, "processors", 128,
		"the machine has `N` processors, or nodes with --whole-nodes")
	f.BoolVar(&o.model.Nodes, "whole-nodes", false, "let jobs request whole nodes; "+
		"--processors is then the number of the machine's nodes")
	f.BoolVar(&o.model.Untyped, "untyped", false, "generate jobs of one kind, in place of batch and interactive jobs")
	f.IntVar(&o.model.Users, "users", 50, "generate jobs of `N` users (an addition to the model)")
	f.StringVar(&o.start, "start", "2024-03-04", "`TIME` at which the window begins, a midnight")
	o.zone.Add(f)
	console.AddSeed(f, &o.model.Seed, seedOfJobs)
	console.AddOutput(f, &o.output, traceOutput)
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
	flags.Alias(f, map[string]string{"nodes": "whole-nodes"})
}

func newGenerateLublinCommand(g *globals) *cobra.Command {
	var opts lublinOptions
	c := &cobra.Command{
		Use:   "lublin",
		Short: "Generate jobs with the model of Lublin and Feitelson",
		Long: `Generates jobs with the model of Lublin and Feitelson ("The workload on parallel
supercomputers", JPDC 63(11), 2003) and its published parameters. Sizes are two-stage
uniform, with serial jobs and powers of two. Run times are hyper-gamma and longer for
larger jobs. Arrivals are log-gamma with a daily cycle. The model has neither users nor
time limits: here users follow Zipf's law, and every job has a limit of 46 hours, which
no job reaches. "workload transform --time-limit-model tsafrir" replaces these limits by
limits that resemble users' estimates.`,
		Example: `  rmreplay workload generate lublin --jobs 10000 --processors 512 --seed 1 -o model.jsonl
  rmreplay simulate model.jsonl --policy easy -o run`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runGenerateLublin(g, opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runGenerateLublin(g *globals, opts lublinOptions) error {
	var err error
	if opts.model.Start, err = opts.zone.Instant("start", opts.start); err != nil {
		return console.Usagef("%w", err)
	}
	if opts.model.Start <= 0 {
		return console.Usagef("--start %s: not after 1970 (want, for example, 2024-03-04)", opts.start)
	}
	if err := formats.Replaces(opts.output); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	w, err := generate.Lublin(opts.model)
	if err != nil {
		return console.Usagef("--%w", err)
	}
	return g.saveGenerated(w, opts.output, opts.model.Seed, opts.json)
}
