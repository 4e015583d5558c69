package predictcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/output"
	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/predict/page"
	"rmreplay/internal/report"
)

// evaluateOptions are the flags of `predict evaluate`.
type evaluateOptions struct {
	models []string
	target string
	growth float64
	every  time.Duration
	seed   uint64
	window int
	random bool
	atOnce bool
	report string
	json   bool
	quiet  bool
}

func (o commands) newEvaluate() *cobra.Command {
	var opts evaluateOptions
	c := &cobra.Command{
		Use:   "evaluate WORKLOAD",
		Short: "Measure how well models predict run times, memory or I/O of a workload",
		Long: `Goes through the jobs of a workload, a log or a run in the order of time, once for each
model. The model predicts each job at its submission. It has data only of jobs that had
ended by then, and is trained again as their number grows. The scores are over all jobs
that ran.

For the median, the scores are those of KNIME's Numeric Scorer: R², mean absolute error,
mean squared error, root mean squared error and mean signed difference. Other scores are
R² and mean absolute error of the logarithm, the pinball loss of P10, P50 and P90,
coverage and width of the interval from P10 to P90, and the share of jobs that ran
longer than predicted. With --target the scores are in MiB: of memory for each
processor, or of I/O. Jobs without recorded memory or I/O are counted and left out.

--json also has the scores by the number of the user's earlier jobs, and for each tenth
of the jobs. --report writes a page.

--random-split also trains on a random four fifths of the jobs and predicts the others.
Such a model has learned from later jobs, so its scores are too good. Its scores are about
these other jobs only: do not compare them with the scores over all jobs. --at-once also
measures each model as if run times were known at submission, which is more than any
predictor can know.

Below the scores are the errors of oracles that know a job's class (its user, name, size
and limit) and something from the future: the median of the other jobs of the class, or
the run time of the class's previous job, which may still run. Each oracle predicts only
the jobs that have such other jobs. The models' errors in the same table are over the
same jobs. A model may err less than an oracle, because a model uses more than the
class. Twins are jobs of one class between whose submissions no job of their user ended.
A predictor has the same data for all twins, so its mean error is at least about their
mean distance from their median.`,
		Example: `  rmreplay predict evaluate KTH-SP2-1996-2.1-cln.swf.gz
  rmreplay predict evaluate march.jsonl --models last2,boost --retrain-every 7d
  rmreplay predict evaluate march.jsonl --random-split --report prediction.html
  rmreplay predict evaluate HPC2N-2002-2.2-cln.swf.gz --target memory`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error { return o.evaluate(c.Context(), args[0], opts) },
	}
	f := c.Flags()
	f.StringSliceVar(&opts.models, "models", nil, "the `MODELS`, separated by commas (default: all)")
	addTarget(c, &opts.target)
	f.Float64Var(&opts.growth, "retrain-growth", 0.25, "train a model again when the number of ended jobs has grown by "+
		"this `SHARE`")
	flags.Days(f, &opts.every, "retrain-every", 0, "train a model again at most once in this `TIME` of the log")
	console.AddSeed(f, &opts.seed, "the samples of trained models")
	console.AddCount(f, &opts.window, "last", model.DefaultWindow, "train on the last `N` jobs that ended")
	f.BoolVar(&opts.random, "random-split", false,
		"also train on a random part of the jobs, so that models learn from later jobs")
	f.BoolVar(&opts.atOnce, "at-once", false,
		"also measure models to which all run times are known at submission (a bound for predictors)")
	f.StringVar(&opts.report, "report", "", "also write the scores as one HTML page to this `FILE`")
	console.AddJSON(c, &opts.json)
	console.AddQuiet(f, &opts.quiet)
	return c
}

func (o commands) evaluate(ctx context.Context, path string, opts evaluateOptions) error {
	how := evaluate.Options{Growth: opts.growth, Every: opts.every, Seed: opts.seed, Window: opts.window,
		RandomSplit: opts.random, AtOnce: opts.atOnce}
	for _, name := range opts.models {
		kind, err := model.ParseKind(name)
		if err != nil {
			return console.Usagef("--models: %w", err)
		}
		how.Models = append(how.Models, kind)
	}
	switch {
	case !(opts.growth > 0 && opts.growth <= 100):
		return console.Usagef("--retrain-growth %g: want a share above 0, such as 0.25", opts.growth)
	case opts.every < 0:
		return console.Usagef("--retrain-every: negative (want 0 or more)")
	}
	of, err := target(opts.target)
	if err != nil {
		return err
	}
	if opts.report != "" {
		if err := output.Replaces(opts.report, "a report", report.IsPage); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		if err := console.WantPage("report", opts.report); err != nil {
			return err
		}
	}
	cases, err := o.cases(path, of)
	if err != nil {
		return err
	}
	show := o.Progress(opts.quiet)
	defer show.End()
	how.Progress = func(k model.Kind, share float64) { show.Update(fmt.Sprintf("%s: %.0f %% of the jobs", k, 100*share)) }
	result, err := evaluate.Run(ctx, filepath.Base(path), cases, how)
	show.End()
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return console.BadInput(err)
	}
	if opts.report != "" {
		r, err := page.New(result)
		if err != nil {
			return fmt.Errorf("making the report: %w", err)
		}
		if _, err := output.File(opts.report, r.WriteHTML); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if opts.json {
		return o.PrintJSON(result)
	}
	return o.Print(result.Render())
}
