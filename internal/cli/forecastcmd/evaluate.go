package forecastcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/judge"
	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/quantity"
	"rmreplay/internal/resources"
)

// evaluateOptions are the flags of `forecast evaluate`.
type evaluateOptions struct {
	engineOptions
	instants int
	at       string
	zone     flags.Zone
	json     bool
}

func (o commands) newEvaluate() *cobra.Command {
	var opts evaluateOptions
	c := &cobra.Command{
		Use:   "evaluate RUN...",
		Short: "Compare forecasts with the starts in runs",
		Long: `Forecasts the starts of all jobs that were pending at random instants of a run, and
compares the forecasts with the starts in the run: the share of starts between P10 and
P90, and the error of the median, by partition and lead time. The bias is the mean of
forecast minus start; it is negative if forecasts are too early. A forecast uses only
what had happened before its instant. For several runs the command prints a line for
each run, and a table over all runs by partition and lead time. Recalibration learns
from run to run, so give the runs of one cluster in their order. If the command is
interrupted, it prints the results so far.

With --arrivals recent, a start after the run's last submission counts as after the
horizon. A real queue would get further jobs after that submission, but the workload of
the run has no more jobs.

For comparison the command prints the errors of a forecast in which every job runs until
its limit, and of Slurm's own estimates if the run recorded them. In a replay, actions of
the workload record these estimates (docs/FORECAST.md). If there are such estimates, the
forecasts begin at their instants, unless --at gives other instants.

With --true-run-times the jobs run as long as they did in the run, and later submissions
and events are those of the run. Such a forecast is exact if the scheduler begins in the
right state.`,
		Example: `  rmreplay forecast evaluate demo/run
  rmreplay forecast evaluate demo/run --true-run-times
  rmreplay forecast evaluate days/*/run --policy slurm --arrivals recent
  rmreplay forecast evaluate demo/run --arrivals recent --run-times last2 --json`,
		Args: console.WantRuns(1),
		RunE: func(c *cobra.Command, args []string) error { return o.evaluate(c.Context(), args, opts) },
	}
	f := c.Flags()
	console.AddCount(f, &opts.instants, "instants", 20, "forecast at `N` random instants of the run")
	f.StringVar(&opts.at, "at", "", "forecast at each `TIME` of the run; separate several by commas")
	f.BoolVar(&opts.trueRunTimes, "true-run-times", false, "let the jobs run as long as they did in the run")
	opts.addFlags(f)
	run := strings.NewReplacer("the run of --freeze", "the run", "; simulator for a capture", "", " or of the capture", "")
	f.VisitAll(func(flag *pflag.Flag) { flag.Usage = run.Replace(flag.Usage) })
	opts.zone.Add(f)
	console.AddJSON(c, &opts.json)
	return c
}

func (o commands) evaluate(ctx context.Context, dirs []string, opts evaluateOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	defer resources.CollectSeldom()()
	var all judge.Evaluation
	defer interrupt.Hold()() // do not end before the results so far are printed
	for _, dir := range dirs {
		one, err := o.evaluateRun(ctx, dir, opts, all.Run())
		if one != nil {
			all.Add(one)
		}
		if err != nil && ctx.Err() != nil && len(all.Runs) > 0 { // print the results so far, which may have taken hours
			return errors.Join(o.printEvaluation(&all, opts.json), fmt.Errorf("%w (the tables have the instants before the "+
				"interruption)", err))
		}
		if err != nil {
			return err
		}
	}
	return o.printEvaluation(&all, opts.json)
}

func (o commands) printEvaluation(e *judge.Evaluation, json bool) error {
	if e.Finish(); json {
		return o.PrintJSON(e)
	}
	return o.Print(e.Render())
}

func (o commands) evaluateRun(ctx context.Context, dir string, opts evaluateOptions, see func(hpc.Time, []forecast.Outcome)) (
	*forecast.Evaluation, error) {
	course, err := forecast.ReadCourse(dir)
	if err != nil {
		return nil, console.BadInput(err)
	}
	how := forecast.EvaluateOptions{Instants: opts.instants, At: course.Asked(), FromStart: opts.fromStart, See: see}
	if how.Options, how.NewLearner, err = opts.options(o, course, ""); err != nil {
		return nil, err
	}
	if err := opts.useCluster(o, course); err != nil {
		return nil, err
	}
	if opts.at != "" {
		how.At = nil
	}
	for text := range strings.FieldsFuncSeq(opts.at, func(r rune) bool { return r == ',' }) {
		var at hpc.Time
		if at, err = opts.zone.Instant("at", text); err != nil {
			return nil, console.Usagef("%w", err)
		}
		how.At = append(how.At, at)
	}
	if text := slowness(&how); text != "" {
		o.Say("rmreplay: %s", text)
	}
	show := o.Progress(opts.quiet)
	defer show.End()
	how.Instant = func(i, n int, at hpc.Time) { show.Update(fmt.Sprintf("%s: instant %d of %d: %s", dir, i+1, n, at)) }
	result, err := forecast.Evaluate(ctx, course, how)
	if err != nil && ctx.Err() == nil {
		return nil, console.BadInput(err)
	}
	return result, err
}

// slowness returns a notice for an evaluation on Slurm, which can take hours; "" for the simulator.
func slowness(how *forecast.EvaluateOptions) string {
	if how.Engine.Slurm == nil {
		return ""
	}
	instants := how.Instants
	if len(how.At) > 0 {
		instants = len(how.At)
	}
	return fmt.Sprintf("%s x %s on Slurm, which can take hours; --policy slurm is faster",
		quantity.Regular(instants, "instant"), quantity.Regular(how.Needed(), "realization"))
}
