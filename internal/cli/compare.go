package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/compare"
	"rmreplay/internal/flags"
)

// compareOptions are the flags of the command `compare`. The command `report` has them, too.
type compareOptions struct {
	by        []string
	tau       time.Duration
	level     float64
	seed      uint64
	tolerance time.Duration
	resamples int
	everyJob  bool
	zone      flags.Zone
	partial   bool
	json      bool
	fairnessOptions
}

func (o *compareOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	addTauFlag(f, &o.tau)
	f.Float64Var(&o.level, "confidence", 0.95, "`LEVEL` of the confidence intervals, between 0 and 1")
	console.AddSeed(f, &o.seed, "bootstrap samples and permutations")
	flags.Duration(f, &o.tolerance, "tolerance", time.Second, "count dates that are at most `DURATION` apart as equal")
	console.AddCount(f, &o.resamples, "resamples", 0, "use `N` bootstrap samples for each interval (default: 1999)")
	o.addFairness(f)
	o.zone.Add(f)
	addPartialFlag(f, &o.partial)
}

func newCompareCommand(g *globals) *cobra.Command {
	var opts compareOptions
	c := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "Compare runs: what differs, and is it more than chance?",
		Long: `Compares the first argument with each further argument. An argument is a run, a
directory whose subdirectories are runs (realization-001, realization-002, ...), or a
recorded workload. A recorded workload counts as a run in which the jobs did what was
recorded.

Two runs of one workload under one configuration differ by chance. So two single runs
prove nothing about their configurations, and the comparison describes these two runs
only. With several realizations on each side the command prints statistics over the
realizations:

  metrics      means and differences, each with a bootstrap confidence interval (BCa);
               the p-value of a permutation test, also corrected for the number of
               metrics in the table (Holm)
  schedules    two tests of whether the waits of all jobs come from one distribution: a
               permutation test on the energy distance, and the rank test of Liu and
               Singh by spatial depth; their p-values are also corrected for two tests
  distances    how far the waits of any two runs differ, within each set and between them

It also prints, even if each side is a single run:

  jobs         for each job, the differences of submission, first start, wait and run time
               of the last run (for several realizations, of the job's means over them)
  clusters     what differs between the clusters of the first runs of both sides: keys of
               slurm.conf, nodes, partitions, QOS, accounts and users
  releases     if the first runs of both sides are on different releases of Slurm: what
               differed before the scheduler's first decision, and the known changes of
               Slurm between these releases
  divergence   the first difference between the first runs of both sides: the job, the
               date, the queue and the nodes, and why, as far as the records show it
  groups       metrics of groups of jobs, with --by
  fairness     with --fairness or --json, how equally users, accounts, QOS and jobs were
               served; with --fair-start, which jobs were delayed by jobs that came
               later (both as in rmreplay metrics)

` + notValidHelp,
		Example: `  rmreplay compare demo/run demo/run2
  rmreplay compare frozen/ measured/ --by partition,size
  rmreplay compare before after --json | jq '.pairs[0].schedules.energy.p'
  rmreplay compare before after --json --per-job
  rmreplay compare march.jsonl march-replayed`,
		Args: console.WantRuns(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runCompare(c.Context(), g, args, opts)
		},
	}
	opts.addFlags(c)
	console.AddBy(c.Flags(), &opts.by)
	c.Flags().BoolVar(&opts.everyJob, "per-job", false, "with --json: print the differences of every job")
	console.AddJSON(c, &opts.json)
	flags.Alias(c.Flags(), map[string]string{"jobs": "per-job"})
	return c
}

func runCompare(ctx context.Context, g *globals, dirs []string, opts compareOptions) error {
	how, err := opts.parse()
	if err != nil {
		return err
	}
	c, err := compare.Dirs(ctx, dirs, how)
	if err != nil {
		return console.BadInput(err)
	}
	if opts.json {
		err = g.PrintJSON(c)
	} else if err = g.Render(func(w io.Writer) error { return c.Render(w, opts.zone.Location()) }); err != nil {
		err = fmt.Errorf("writing the result: %w", err)
	}
	if err != nil {
		return err
	}
	return unlessPartial(validRuns(c.Doubt), opts.partial)
}

// parse returns the options of the comparison that the flags choose.
func (o *compareOptions) parse() (compare.Options, error) {
	how := compare.Options{
		Tau: o.tau, Level: o.level, Seed: o.seed, Tolerance: o.tolerance, Resamples: o.resamples,
		Zone: o.zone.Location(), EveryJob: o.everyJob, Fairness: o.fairness, FairStart: o.fairStart,
	}
	if err := checkTau(o.tau); err != nil {
		return how, err
	}
	switch {
	case o.level <= 0 || o.level >= 1:
		return how, console.Usagef("--confidence %g: not between 0 and 1 (want, for example, 0.95)", o.level)
	case o.tolerance <= 0:
		return how, console.Usagef("--tolerance %s: not above 0 (want, for example, 1s)", o.tolerance)
	case o.resamples > 0 && o.resamples < 100:
		return how, console.Usagef("--resamples %d: too few for an interval (want 100 or more)", o.resamples)
	}
	var err error
	how.By, err = console.ParseBy(o.by)
	return how, err
}

// validRuns returns an error with the text doubt, which says why runs are not valid. It returns nil if doubt is "".
func validRuns(doubt string) error {
	if doubt == "" {
		return nil
	}
	return console.Invalidf("%s", doubt)
}
