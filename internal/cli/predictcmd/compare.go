package predictcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/predict/benefit"
	"rmreplay/internal/replay"
)

// compareOptions are the flags of `predict compare`.
type compareOptions struct {
	simulator    experiment.Simulator
	model        string
	quantile     float64
	realizations int
	jitter       time.Duration
	seed         uint64
	parallel     int
	output       string
	json         bool
	quiet        bool
}

func (o commands) newCompare() *cobra.Command {
	var opts compareOptions
	c := &cobra.Command{
		Use:   "compare WORKLOAD",
		Short: "Say with statistics whether predicted run times help a workload's scheduler",
		Long: `Simulates a workload with EASY, and with variants of EASY that backfill the shortest
jobs first. The variants plan with time limits, with predicted run times, or with the
true run times. Each scheduler has several realizations. --jitter moves the submissions,
in the same way for all schedulers. A table has the mean bounded slowdown and the waits.
It also has the jobs that reached their limits, and the core-hours that these jobs had
computed.

  limits        EASY with time limits
  limits-sjbf   shortest jobs first, by time limits: needs no prediction
  last-two      the mean of the user's last two run times (EASY++)
  learner       the regression of Gaussier et al. (SC'15)
  model         gradient boosting that learns as jobs end, or --trained
  bound         the true run times
  short-limits  time limits lowered to the predicted --quantile: some jobs are killed

The verdict compares the best predictor with limits-sjbf. Two tests decide. The test
over the realizations is about this log. The test over the log's weeks is about the
site. docs/use-cases/prediction.md explains an example. With -o the records stay, for
compare and report.`,
		Example: `  rmreplay predict compare KTH-SP2-1996-2.1-cln.swf.gz
  rmreplay predict compare april.jsonl --cluster site --trained march.model --json`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error { return o.compare(c.Context(), args[0], opts) },
	}
	f := c.Flags()
	console.AddCount(f, &opts.simulator.Processors, "processors", 0, "the machine has `N` processors (default: that of the "+
		"machine that the workload was recorded on)")
	f.StringVar(&opts.simulator.Cluster, "cluster", "", "simulate the cluster in `DIR`: the nodes and partitions of its "+
		"slurm.conf")
	f.StringVar(&opts.model, "trained", "",
		"plan with the trained model in `FILE`, whose data end before the workload begins")
	f.Float64Var(&opts.quantile, "quantile", 0.9, "the `QUANTILE` of the predicted run times, between 0 and 1, to which "+
		"short-limits lowers time limits")
	console.AddCount(f, &opts.realizations, "realizations", 10, "make `N` realizations (of each scheduler), with the seeds --seed, "+
		"--seed + 1, ...")
	opts.jitter = time.Minute
	flags.Duration(f, &opts.jitter, "jitter", opts.jitter, "move each submission by a random time of up to `DURATION`, "+
		"earlier or later")
	console.AddSeed(f, &opts.seed, "--jitter in the first realization; each further realization takes the next seed")
	console.AddParallel(f, &opts.parallel, "simulations")
	console.AddOutput(c.Flags(), &opts.output, "keep the records in `DIR`, a new directory (default: they are removed)")
	console.AddJSON(c, &opts.json)
	console.AddQuiet(c.Flags(), &opts.quiet)
	flags.Alias(f, map[string]string{"procs": "processors"})
	return c
}

func (o commands) compare(ctx context.Context, path string, opts compareOptions) error {
	switch {
	case !(opts.quantile > 0 && opts.quantile < 1):
		return console.Usagef("--quantile %g: want a number between 0 and 1, such as 0.9", opts.quantile)
	case opts.jitter <= 0:
		return console.Usagef("--jitter %v: all realizations would be the same (want a time above 0)", opts.jitter)
	case opts.realizations < 2:
		return console.Usagef("--realizations %d: want 2 or more, and 8 to find a difference", opts.realizations)
	}
	if err := console.CheckParallel(opts.parallel); err != nil {
		return err
	}
	w, err := o.open(path)
	if err != nil {
		return err
	}
	output := opts.output
	if output == "" {
		if output, err = os.MkdirTemp("", "rmreplay-compare-"); err != nil {
			return fmt.Errorf("comparing: %w", err)
		}
		defer func() { _ = os.RemoveAll(output) }() // after an interruption, the directory has files
	}
	show := o.Progress(opts.quiet)
	defer show.End()
	result, err := benefit.Run(ctx, benefit.Options{
		Spec: experiment.Spec{
			Workload: experiment.Workload{Path: path, Value: w}, Simulator: &opts.simulator, Seed: opts.seed, Output: output,
			Version: o.Version,
			Users:   replay.Feedback{Model: replay.NoFeedback, Jitter: opts.jitter},
		},
		Set:   experiment.Set{Count: opts.realizations, Parallel: opts.parallel},
		Model: opts.model, Quantile: opts.quantile, Keep: opts.output != "",
		Progress: func(scheduler string) { show.Update("simulating " + scheduler) },
	})
	show.End()
	if err != nil {
		var field *experiment.FieldError
		if errors.As(err, &field) {
			return console.Usagef("--%w", field)
		}
		return err
	}
	if opts.json {
		return o.PrintJSON(result)
	}
	return o.Print(result.Render())
}
