// Package forecastcmd has the command `rmreplay forecast` with its subcommands, which say when
// pending jobs will start. Package internal/forecast and the packages below it do the work.
package forecastcmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/accounts"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/capture"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/resources"
	"rmreplay/internal/slurmspec"
)

// commands makes the command and its subcommands.
type commands struct{ console.Output }

// drawOptions are the flags that choose what is drawn, and how often.
type drawOptions struct {
	realizations, parallel    int
	seed                      uint64
	runTimes, model, arrivals string
	trueRunTimes              bool
	horizon                   time.Duration
}

func (o *drawOptions) add(f *pflag.FlagSet, horizon time.Duration) {
	console.AddCount(f, &o.realizations, "realizations", 20, "make `N` realizations, each with other run times")
	console.AddParallel(f, &o.parallel, "realizations")
	console.AddSeed(f, &o.seed, "run times and later submissions")
	flags.Days(f, &o.horizon, "horizon", horizon, "end each realization after `DURATION`; if a job has not started "+
		"by then, the forecast says only that it starts later (0: no end)")
	f.StringVar(&o.runTimes, "run-times", "", "`SOURCE` of the run times: history (the shares of their limits that earlier jobs used), a model of predict (limit, last2, class, linear, forest, boost) that learns from the history, or limits (every job runs until its limit and succeeds) (default history)")
	f.StringVar(&o.model, "model", "", "the `MODEL`, written by rmreplay predict train, from which run times are drawn")
	f.StringVar(&o.arrivals, "arrivals", "", "`WHICH` later submissions to assume: none, recent (drawn from the submissions of the last week) or recorded (only for a run) (default recent; none with --run-times limits)")
}

// check returns an error for invalid values of flags.
func (o *drawOptions) check() error {
	if o.horizon < 0 {
		return console.Usagef("--horizon %v: negative (want, for example, 12:00:00, or 0 for none)", o.horizon)
	}
	return console.CheckParallel(o.parallel)
}

// engineOptions are the flags that choose the engine and the draws.
type engineOptions struct {
	drawOptions
	cluster, policy, slurm, on string
	fromStart, quiet           bool
}

func (o *engineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.on, "engine", "", "`ENGINE` that simulates the scheduler: simulator or slurm (default: that of the run; simulator for a capture)")
	f.StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster (default: that of the run or of the capture)")
	f.StringVar(&o.policy, "policy", "", "scheduling `POLICY`: slurm is the model of Slurm's scheduler, the others are policies of the simulator (default: that of the run, or easy)")
	f.StringVar(&o.slurm, "slurm", "", "which Slurm: with --engine slurm, a `DIR` or the version of an installed release; with --policy slurm, the release to model")
	f.BoolVar(&o.fromStart, "from-start", false, "play the run from its beginning up to the instant (takes longer, but is exact on the simulator)")
	o.add(f, 0)
	console.AddQuiet(f, &o.quiet)
}

// check returns an error for invalid values of flags.
func (o *engineOptions) check() error {
	if o.policy != "" {
		if err := experiment.CheckPolicy(o.policy); err != nil {
			return console.Usagef("--policy %w", err)
		}
	}
	return o.drawOptions.check()
}

// options returns the options of a forecast. The parameter course is the course of the run of
// --freeze, or nil.
func (o *engineOptions) options(out commands, course *forecast.Course, captured string) (forecast.Options, func() (forecast.Learner, error), error) {
	opts := forecast.Options{Realizations: o.realizations, Parallel: o.parallel, Seed: o.seed, Horizon: o.horizon}
	err := o.check()
	if err != nil {
		return opts, nil, err
	}
	if opts.Engine, err = o.engine(out, course, captured); err != nil {
		return opts, nil, err
	}
	learner, err := o.learner(out, &opts)
	if err != nil {
		return opts, nil, err
	}
	return opts, learner, o.later(course, &opts)
}

// engine returns the engine that the flags, the run or the capture determine.
func (o *engineOptions) engine(out commands, course *forecast.Course, captured string) (spec experiment.Spec, err error) {
	on := o.on
	if course != nil {
		if spec, err = forecast.EngineOf(course, spec, o.fromStart); err != nil && o.cluster == "" {
			return spec, console.BadInput(err)
		}
		if on == "" && o.policy == "" && course.Manifest.Engine == "slurm" {
			on = "slurm"
		}
		if o.policy == experiment.SlurmPolicy {
			spec = forecast.OnModel(course, spec, o.slurm)
		}
	}
	cluster, policy := cmp.Or(o.cluster, clusterOf(&spec), captured), o.policy
	if policy == "" && spec.Simulator != nil {
		policy = spec.Simulator.Policy
	}
	switch on {
	case "", "simulator":
		if o.slurm != "" && policy != experiment.SlurmPolicy {
			return spec, console.Usagef("--slurm needs --engine slurm or --policy slurm")
		}
		simulator := experiment.Simulator{Policy: policy, Cluster: cluster, Release: o.slurm}
		if was := spec.Simulator; was != nil && was.Policy == experiment.SlurmPolicy && policy == was.Policy {
			simulator.Release, simulator.Lead, simulator.Clock = cmp.Or(o.slurm, was.Release), was.Lead, was.Clock
		} else if was != nil {
			simulator.Ties = was.Ties
		}
		if cluster == "" && spec.Simulator != nil {
			simulator = *spec.Simulator
			simulator.Policy = policy
		}
		if cluster == "" && spec.Simulator == nil {
			return spec, console.Usagef("--cluster is missing: the machine is not known (want the directory of a slurm.conf)")
		}
		spec.Slurm, spec.Simulator = nil, &simulator
		if err := o.checkModel(&simulator); err != nil {
			return spec, err
		}
	case "slurm":
		if cluster == "" {
			return spec, console.Usagef("--cluster is missing: the site's configuration is not known (want the directory of a slurm.conf)")
		}
		if o.policy != "" {
			return spec, console.Usagef("--policy needs --engine simulator")
		}
		slurm := experiment.Slurm{}
		if spec.Slurm != nil {
			slurm = *spec.Slurm
		}
		slurm.Cluster, slurm.Installation = cluster, cmp.Or(o.slurm, slurm.Installation)
		spec.Simulator, spec.Slurm = nil, &slurm
	default:
		return spec, console.Usagef("--engine %s: not an engine (want simulator or slurm)", on)
	}
	spec.Version = out.Version
	return spec, nil
}

// checkModel refuses a release of Slurm whose model cannot begin with jobs that already run.
func (o *engineOptions) checkModel(s *experiment.Simulator) error {
	release, err := slurmspec.ParseRelease(cmp.Or(s.Release, experiment.ModelRelease))
	if s.Policy != experiment.SlurmPolicy || o.fromStart || err == nil && !release.Since(slurmspec.R2311) {
		return nil
	}
	if err != nil {
		return console.Usagef("--slurm %s: %w", s.Release, err)
	}
	return console.Usagef("--policy %s: the model of Slurm %s cannot begin with jobs that already run (want --from-start "+
		"for the record of a run, --slurm 22.05, or --engine slurm)", s.Policy, release)
}

// clusterOf returns the cluster directory of the engine of a run, or "".
func clusterOf(spec *experiment.Spec) string {
	switch {
	case spec.Slurm != nil:
		return spec.Slurm.Cluster
	case spec.Simulator != nil:
		return spec.Simulator.Cluster
	}
	return ""
}

// useCluster adds the fair-share usage to the queues of a run, if the engine is Slurm or the model
// of Slurm.
func (o *engineOptions) useCluster(out commands, course *forecast.Course) error {
	spec, err := o.engine(out, course, "")
	if err != nil || !forecast.LikeSlurm(&spec) {
		return err
	}
	return console.BadInput(course.UseCluster(clusterOf(&spec)))
}

// learner sets the source of run times in opts. It returns a function that makes a learning model
// of run times, or nil if the source needs no model.
func (o *drawOptions) learner(out commands, opts *forecast.Options) (func() (forecast.Learner, error), error) {
	switch {
	case o.trueRunTimes && (o.model != "" || o.runTimes != ""):
		return nil, console.Usagef("--true-run-times excludes --run-times and --model")
	case o.model != "" && o.runTimes != "":
		return nil, console.Usagef("--model and --run-times exclude each other")
	case o.trueRunTimes:
		opts.RunTimes = forecast.True
		return nil, nil
	case o.model != "":
		opts.RunTimes = forecast.FromModel
		return func() (forecast.Learner, error) { return o.trained(out) }, nil
	}
	switch o.runTimes {
	case "", string(forecast.FromHistory):
		opts.RunTimes = forecast.FromHistory
		return func() (forecast.Learner, error) { return forecast.NewShares(), nil }, nil
	case string(forecast.FromLimits):
		opts.RunTimes = forecast.FromLimits
		return nil, nil
	}
	kind, err := model.ParseKind(o.runTimes)
	if err != nil {
		return nil, console.Usagef("--run-times %s: not a source (want history, limits, or a model: limit, last2, class, linear, forest or boost)", o.runTimes)
	}
	opts.RunTimes = forecast.RunTimes(kind)
	return func() (forecast.Learner, error) {
		return forecast.Modelled{Predictor: model.NewOnline(model.Options{Kind: kind, Seed: o.seed, Growth: 0.25})}, nil
	}, nil
}

// trained reads a trained model.
func (o *drawOptions) trained(out commands) (forecast.Learner, error) {
	m, err := experiment.ReadModel(o.model)
	if err != nil {
		return nil, console.BadInput(err)
	}
	return forecast.Trained(m.Until(), m.Online()), nil
}

// later sets in opts how submissions after the forecast's instant are drawn.
func (o *drawOptions) later(course *forecast.Course, opts *forecast.Options) error {
	switch o.arrivals {
	case "":
		opts.Arrivals = forecast.Recent
		switch opts.RunTimes {
		case forecast.True:
			opts.Arrivals = forecast.Recorded
		case forecast.FromLimits: // Slurm's own estimates assume no later jobs
			opts.Arrivals = forecast.NoArrivals
		}
	case string(forecast.NoArrivals), string(forecast.Recent):
		opts.Arrivals = forecast.Arrivals(o.arrivals)
	case string(forecast.Recorded):
		if course == nil {
			return console.Usagef("--arrivals recorded: a live cluster has no recorded later submissions (want none or recent, or --freeze RUN)")
		}
		opts.Arrivals = forecast.Recorded
	default:
		return console.Usagef("--arrivals %s: want none, recent or recorded", o.arrivals)
	}
	return nil
}

// forecastOptions are the flags of `forecast`.
type forecastOptions struct {
	engineOptions
	run, at, by string
	history     time.Duration
	timeout     time.Duration
	submit      string
	user        string
	whatIf      []string
	zone        flags.Zone
	json        bool
}

// New returns the command.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	var opts forecastOptions
	c := &cobra.Command{
		Use:   "forecast [CAPTURE]",
		Short: "Forecast when pending jobs start, by simulating the scheduler",
		Long: `Takes the queue of a cluster, draws a run time for each job, and simulates the scheduler
from this state on: on the simulator, on the model of Slurm's scheduler (--policy
slurm), or on real Slurm under virtual time (--engine slurm). Many such realizations
give the distribution of each pending job's start: P10, P50 and P90, and with
--starts-by the probability that the job starts by an instant. The command prints
Slurm's own estimate (squeue --start) beside these figures.

The queue comes from the live cluster (read by Slurm's commands), from a CAPTURE (of
rmreplay forecast capture), or from a run at an instant (--freeze, --at). Later
submissions are drawn from recent ones (--arrivals), since later jobs with a higher
priority delay pending jobs.

--submit forecasts a job that is submitted now: a batch script, or options of sbatch.
Each --what-if is a variant of this job with other options, such as "limit=1:00:00
partition=short".

docs/FORECAST.md describes the method and its limits.`,
		Example: `  rmreplay forecast --cluster /etc/slurm --starts-by 2024-03-05T18:00
  rmreplay forecast queue --cluster vale --engine slurm --realizations 10
  rmreplay forecast queue --cluster vale --policy slurm
  rmreplay forecast --freeze demo/run --at 2024-03-05T12:00:00 --policy slurm
  rmreplay forecast queue --submit "-N 4 -t 8:00:00 -p normal" --submit-as ann \
    --what-if limit=4:00:00 --what-if "partition=short limit=1:00:00"`,
		Args: console.AtMost(1),
		RunE: func(c *cobra.Command, args []string) error { return o.forecast(c.Context(), args, opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.run, "freeze", "", "forecast from the state of `RUN` at an instant, in place of a capture")
	f.StringVar(&opts.at, "at", "", "forecast from the state of the run at `TIME`")
	f.StringVar(&opts.by, "starts-by", "", "also print the probability that a job starts by `TIME`")
	f.StringVar(&opts.submit, "submit", "", "forecast a job that is submitted now: a batch `SCRIPT`, or options of sbatch")
	f.StringVar(&opts.user, "submit-as", "", "`USER` who submits the job of --submit (default on the live cluster: you)")
	f.StringArrayVar(&opts.whatIf, "what-if", nil, "also forecast the job of --submit with other `OPTIONS`: limit=TIME, partition=NAME, nodes=N or any long option of sbatch (several times)")
	addLive(f, &opts.history, &opts.timeout)
	opts.addFlags(f)
	opts.zone.Add(f)
	console.AddJSON(c, &opts.json)
	c.AddCommand(o.newCapture(), o.newEvaluate(), o.newServe(), o.newAsk())
	return c
}

// addLive adds the flags for the commands of a live cluster.
func addLive(f *pflag.FlagSet, history, timeout *time.Duration) {
	flags.Days(f, history, "history", 7*24*time.Hour, "read the finished jobs of the last `DURATION` with sacct (0: none)")
	flags.Duration(f, timeout, "timeout", time.Minute, "give up a command of Slurm that takes longer than `DURATION`")
}

// source is the queue of a forecast, and where this queue comes from.
type source struct {
	name     string
	queue    *forecast.Queue
	course   *forecast.Course // course of the run; nil for a capture
	cluster  string           // cluster directory in the capture; empty for a run
	captured string           // the temporary directory of a live capture, or ""
}

// remove removes the temporary directory of a live capture.
func (s *source) remove() {
	if s.captured != "" {
		_ = os.RemoveAll(s.captured) // only temporary files
	}
}

func (o commands) forecast(ctx context.Context, args []string, opts forecastOptions) error {
	if len(opts.whatIf) > 0 && opts.submit == "" {
		return console.Usagef("--what-if needs --submit, whose variants it describes")
	}
	if err := opts.check(); err != nil {
		return err
	}
	defer resources.CollectSeldom()()
	show := o.Progress(opts.quiet)
	defer show.End()
	src, err := o.source(ctx, args, opts, show.Update)
	if err != nil {
		return err
	}
	defer src.remove()
	made, learner, err := opts.options(o, src.course, src.cluster)
	if err != nil {
		return err
	}
	if learner != nil {
		if made.Learner, err = learner(); err != nil {
			return err
		}
	}
	if src.course != nil {
		src.queue.Notes = append(src.queue.Notes, forecast.Unplayed(src.course, &made.Engine)...)
	}
	like := forecast.LikeSlurm(&made.Engine)
	if sim := made.Engine.Simulator; !like && sim != nil && sim.Cluster != "" && (src.course == nil || src.course.Manifest.OfSlurm()) {
		if note := forecast.Priorities(sim.Cluster); note != "" {
			src.queue.Notes = append(src.queue.Notes, note)
		}
	}
	if src.course == nil && like {
		if err := src.queue.UseCluster(clusterOf(&made.Engine)); err != nil {
			return console.BadInput(err)
		}
	}
	var by hpc.Time
	if opts.by != "" {
		if by, err = opts.zone.Instant("starts-by", opts.by); err != nil {
			return console.Usagef("%w", err)
		}
	}
	if src.captured != "" && opts.user == "" {
		if opts.user, err = accounts.Name(os.Getuid()); err != nil {
			return fmt.Errorf("finding your user name: %w (want --submit-as USER)", err)
		}
	}
	variants, notes, err := o.variants(opts, src.queue.At)
	if err != nil {
		return err
	}
	if like && len(variants) > 0 && variants[0].Request.User == "" {
		return console.Usagef("--submit-as is missing: Slurm accepts jobs of the cluster's users only (want --submit-as USER)")
	}
	src.queue.Notes = append(src.queue.Notes, notes...)
	made.Say = show.Notice
	made.Progress = func(done, all int) { show.Update(fmt.Sprintf("realization %d of %d", done, all)) }
	report, err := forecast.NewReport(ctx, src.name, src.queue, variants, by, made)
	show.End()
	switch {
	case err != nil:
		return console.BadInput(err)
	case opts.json:
		return o.PrintJSON(report)
	}
	return o.Print(report.Render(opts.zone.Location()))
}

// source returns the queue that the arguments name.
func (o commands) source(ctx context.Context, args []string, opts forecastOptions, update func(string)) (*source, error) {
	switch {
	case opts.run != "" && len(args) > 0:
		return nil, console.Usagef("--freeze and a capture exclude each other")
	case opts.fromStart && opts.run == "":
		return nil, console.Usagef("--from-start needs --freeze")
	case (opts.run != "") != (opts.at != ""):
		return nil, console.Usagef("--freeze and --at need each other")
	case opts.run != "":
		at, err := opts.zone.Instant("at", opts.at)
		if err != nil {
			return nil, console.Usagef("%w", err)
		}
		course, err := forecast.ReadCourse(opts.run)
		if err != nil {
			return nil, console.BadInput(err)
		}
		if err := opts.useCluster(o, course); err != nil {
			return nil, err
		}
		freeze := course.Freeze
		if opts.fromStart {
			freeze = course.Rewind
		}
		q, err := freeze(at)
		return &source{name: opts.run, queue: q, course: course}, console.BadInput(err)
	case len(args) > 0:
		q, err := capture.Read(args[0])
		return &source{name: args[0], queue: q, cluster: capture.Cluster(args[0])}, console.BadInput(err)
	}
	update("asking Slurm")
	dir, err := os.MkdirTemp("", "rmreplay-capture-")
	if err != nil {
		return nil, fmt.Errorf("capturing the cluster: %w", err)
	}
	src := &source{name: "the live cluster", captured: dir}
	captured := filepath.Join(dir, "queue")
	err = capture.Run(ctx, captured, capture.Options{History: opts.history, Timeout: opts.timeout, Now: time.Now()})
	if err != nil {
		src.remove()
		return nil, fmt.Errorf("%w (want a machine on which Slurm's commands reach the cluster, the CAPTURE that rmreplay "+
			"forecast capture made there, or --freeze RUN)", err)
	}
	if src.queue, err = capture.Read(captured); err != nil {
		src.remove()
		return nil, err
	}
	src.cluster = capture.Cluster(captured)
	return src, nil
}
