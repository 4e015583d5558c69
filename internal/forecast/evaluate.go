package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// EvaluateOptions say how a forecast is evaluated.
type EvaluateOptions struct {
	Options
	// At are the instants of the run at which forecasts are made. If At is empty, random instants are drawn. Instants
	// is their number.
	At       []hpc.Time
	Instants int
	// FromStart plays the run from its beginning ([Course.Rewind]) instead of from a window.
	FromStart bool
	// NewLearner returns a new learner for each instant; nil if the run times need no learner.
	NewLearner func() (Learner, error)
	// Instant, if not nil, is called before each instant.
	Instant func(i, n int, at hpc.Time)
	// See, if not nil, is called for each instant, in order, with its forecasts and the starts in the run.
	See func(at hpc.Time, list []Outcome)
}

// Outcome has the forecast of a job that waited at an instant, and its start in the run.
type Outcome struct {
	Key       Key
	Partition string
	// Start is the start in the run, even if it is after the horizon. Quantiles after the horizon are [Later].
	Start, P10, P50, P90 hpc.Time
	// Horizon is the last instant of the forecast; [hpc.Never] without a horizon.
	Horizon hpc.Time
	// Slurm is Slurm's own estimate; 0 if the run has no estimate.
	Slurm hpc.Time
}

// Evaluation compares forecasts with what a run did.
type Evaluation struct {
	Run          string   `json:"run"`
	Engine       string   `json:"engine"`
	RunTimes     RunTimes `json:"run_times"`
	Arrivals     Arrivals `json:"arrivals"`
	Seed         uint64   `json:"seed"`
	Realizations int      `json:"realizations"`
	// Horizon is the time from the instant to the end of a forecast, in seconds; 0 if there is no horizon.
	Horizon float64 `json:"horizon_s,omitempty"`
	// Until is the time of the run's last submission; nil if the forecasts do not draw later submissions. No horizon is
	// after Until.
	Until    *time.Time `json:"until,omitempty"`
	Instants []Instant  `json:"instants"`
	// Notes say what went wrong in realizations.
	Notes []string `json:"notes,omitempty"`
	Score
	// Slurm compares the errors of Slurm's own estimates (squeue --start) with the forecasts' errors for the same jobs;
	// nil if the run recorded no estimates.
	Slurm *Beside `json:"slurm,omitempty"`
	// Limits makes the same comparison with a forecast in which every job runs until its time limit.
	Limits *Beside `json:"limits,omitempty"`
}

// Instant is one instant of an evaluation.
type Instant struct {
	At time.Time `json:"at"`
	Score
}

// Score says how good forecasts were. Errors are distances between the forecast median and the start in the run, in
// seconds. With a horizon, all starts after the horizon count as equal. A job has an error only if neither its start
// nor its median is after the horizon. A figure of no job, and a median that is infinite, is NaN (null in JSON).
type Score struct {
	// Pending counts the jobs that waited. Unstarted counts the waiting jobs that never started in the run, for example
	// because they were cancelled or held. Unstarted jobs do not count in the other figures.
	Pending   int `json:"pending"`
	Unstarted int `json:"unstarted"`
	Jobs      int `json:"jobs"`
	// Never counts the jobs that started in the run, but not in most realizations. Jobs that do not start in most
	// realizations have an infinite error, and the mean leaves them out.
	Never int `json:"never"`
	// Beyond counts the jobs whose start in the run and whose P10 are both after the horizon. If both are after the
	// horizon, the start is always inside the interval from P10 to P90, so it does not test the interval's width.
	Beyond int `json:"beyond"`
	// Exact is the share of jobs with an error below half a second. Covered is the share of jobs whose start is between
	// P10 and P90, both included, without the jobs of Beyond. CoveredAll also counts the jobs of Beyond, as covered.
	Exact       metrics.Float `json:"exact"`
	Covered     metrics.Float `json:"coverage"`
	CoveredAll  metrics.Float `json:"coverage_all"`
	MedianError metrics.Float `json:"median_error_s"`
	MeanError   metrics.Float `json:"mean_error_s"`
	MaxError    metrics.Float `json:"max_error_s"`
	// Bias is the mean of forecast median − start. It is below 0 if forecasts are too early.
	Bias metrics.Float `json:"bias_s"`
	// Width is the median distance from P10 to P90, without the jobs whose P90 is after the horizon.
	Width metrics.Float `json:"median_width_s"`

	errors, widths         []float64
	exact, covered, finite int // finite counts the errors that are not infinite
	bias                   float64
}

// Beside compares two estimates of the same starts.
type Beside struct {
	Jobs int `json:"jobs"`
	// MedianError is the median error of the other estimate, and ForecastError the median error of the forecast, in
	// seconds.
	MedianError   metrics.Float `json:"median_error_s"`
	ForecastError metrics.Float `json:"forecast_median_error_s"`
	MeanError     metrics.Float `json:"mean_error_s"`
	ForecastMean  metrics.Float `json:"forecast_mean_error_s"`
	// Closer is the share of jobs for which the forecast is closer than the other estimate. Farther is the share of jobs
	// for which the forecast is less close.
	Closer  float64 `json:"forecast_closer"`
	Farther float64 `json:"forecast_farther"`

	errors, forecasts []float64
	closer, farther   int
}

func (s *Score) add(actual hpc.Time, forecast []hpc.Time) {
	s.Jobs++
	low, middle, high := Quantile(forecast, 0.1), Quantile(forecast, 0.5), Quantile(forecast, 0.9)
	switch covers, beyond := Covers(actual, low, high); {
	case beyond:
		s.Beyond++
	case covers:
		s.covered++
	}
	if middle == hpc.Never {
		s.Never++
	}
	if actual == Later || middle == Later {
		return
	}
	if middle == hpc.Never {
		s.errors = append(s.errors, math.Inf(1))
		return
	}
	s.finite++
	off := middle.Sub(actual).Seconds()
	s.bias += off
	s.errors = append(s.errors, math.Abs(off))
	if math.Abs(off) < 0.5 {
		s.exact++
	}
	if high < Later {
		s.widths = append(s.widths, high.Sub(low).Seconds())
	}
}

func (s *Score) merge(other *Score) {
	s.Pending, s.Unstarted, s.Jobs, s.Never = s.Pending+other.Pending, s.Unstarted+other.Unstarted, s.Jobs+other.Jobs,
		s.Never+other.Never
	s.errors, s.widths = append(s.errors, other.errors...), append(s.widths, other.widths...)
	s.exact, s.covered, s.bias = s.exact+other.exact, s.covered+other.covered, s.bias+other.bias
	s.Beyond, s.finite = s.Beyond+other.Beyond, s.finite+other.finite
}

func (s *Score) finish() {
	share := func(n, of int) metrics.Float { return metrics.Float(n) / metrics.Float(of) }
	s.Exact = share(s.exact, len(s.errors))
	s.Covered, s.CoveredAll = share(s.covered, s.Jobs-s.Beyond), share(s.covered+s.Beyond, s.Jobs)
	s.MedianError, s.MeanError, s.MaxError = middleOf(s.errors)
	s.Width, _, _ = middleOf(s.widths)
	s.Bias = metrics.Float(s.bias) / metrics.Float(s.finite)
}

// middleOf returns the median, the mean and the largest of the finite errors; each is NaN if it has no value. The
// median counts infinite errors as well.
func middleOf(list []float64) (median, mean, largest metrics.Float) {
	slices.Sort(list)
	finite := list[:sort.SearchFloat64s(list, math.Inf(1))]
	if len(finite) == 0 {
		return metrics.NoValue(), metrics.NoValue(), metrics.NoValue()
	}
	if median = metrics.Float(list[len(list)/2]); !median.Known() {
		median = metrics.NoValue()
	}
	for _, e := range finite {
		mean += metrics.Float(e)
	}
	return median, mean / metrics.Float(len(finite)), metrics.Float(finite[len(finite)-1])
}

// add compares the estimates of a job, unless the start or one of the estimates is after the horizon.
func (b *Beside) add(actual, other, forecast hpc.Time) {
	if actual == Later || other == Later || forecast == Later {
		return
	}
	b.Jobs++
	distance := func(t hpc.Time) float64 {
		if t == hpc.Never {
			return math.Inf(1)
		}
		return math.Abs(t.Sub(actual).Seconds())
	}
	theirs, ours := distance(other), distance(forecast)
	b.errors, b.forecasts = append(b.errors, theirs), append(b.forecasts, ours)
	switch {
	case ours < theirs:
		b.closer++
	case theirs < ours:
		b.farther++
	}
}

func (b *Beside) finish() *Beside {
	if b.Jobs == 0 {
		return nil
	}
	b.MedianError, b.MeanError, _ = middleOf(b.errors)
	b.ForecastError, b.ForecastMean, _ = middleOf(b.forecasts)
	b.Closer, b.Farther = float64(b.closer)/float64(b.Jobs), float64(b.farther)/float64(b.Jobs)
	return b
}

// Evaluate makes forecasts from the state of a run at given or random instants, and compares the
// forecasts with the starts in the run.
//
// The submissions of a run end because its workload was cut, and not because the users stopped. So forecasts that
// draw later submissions are not compared with what happened after the run's last submission. If ctx is cancelled,
// Evaluate returns the error and the evaluation of the instants before.
func Evaluate(ctx context.Context, c *Course, opts EvaluateOptions) (_ *Evaluation, err error) {
	e := &Evaluation{
		Run: c.workload.Source, Engine: EngineName(&opts.Engine), RunTimes: opts.RunTimes, Arrivals: opts.Arrivals,
		Seed: opts.Seed, Realizations: opts.Needed(), Horizon: opts.Horizon.Seconds(), Slurm: &Beside{},
		Limits: &Beside{},
	}
	e.Notes, opts.Engine = Unplayed(c, &opts.Engine), opts.Engine.Sharing()
	until, where := hpc.Never, "in the run"
	if opts.Arrivals == Recent {
		until, where = c.lastSubmission(), "before the run's last submission"
		e.Until = instant(until)
	}
	instants := slices.Clone(opts.At)
	if len(instants) == 0 {
		instants = c.instants(opts.Instants, opts.Seed, until)
	}
	slices.Sort(instants)
	n, _ := slices.BinarySearch(instants, until)
	if late := len(instants) - n; late > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("left out %s at or after the run's last submission",
			quantity.Regular(late, "instant")))
	}
	if instants = instants[:n]; n == 0 {
		return nil, fmt.Errorf("evaluating forecasts of %s: no job waits %s, so there is nothing to forecast", e.Run, where)
	}
	if opts.FromStart && opts.RunTimes == True && opts.Arrivals == Recorded {
		if err := e.again(ctx, c, instants, opts); err != nil {
			return nil, fmt.Errorf("evaluating forecasts of %s: %w", e.Run, err)
		}
		instants = nil
	}
	for i, at := range instants {
		if opts.Instant != nil {
			opts.Instant(i, len(instants), at)
		}
		one := opts
		if left := until.Sub(at); opts.Arrivals == Recent && (opts.Horizon == 0 || left < opts.Horizon) {
			one.Horizon = left
		}
		if err = e.instant(ctx, c, at, one); err != nil {
			err = fmt.Errorf("evaluating forecasts of %s at %s: %w", e.Run, at, err)
			break
		}
	}
	if err != nil && (ctx.Err() == nil || len(e.Instants) == 0) {
		return nil, err
	}
	for i := range e.Instants {
		one := &e.Instants[i].Score
		e.merge(one)
		one.finish()
	}
	e.finish()
	e.Slurm, e.Limits = e.Slurm.finish(), e.Limits.finish()
	return e, err
}

func (e *Evaluation) instant(ctx context.Context, c *Course, at hpc.Time, opts EvaluateOptions) (err error) {
	freeze := c.Freeze
	if opts.FromStart {
		freeze = c.Rewind
	}
	q, err := freeze(at)
	if err != nil {
		return err
	}
	if opts.NewLearner != nil {
		if opts.Learner, err = opts.NewLearner(); err != nil {
			return err
		}
	}
	var keys []Key // the waiting jobs that started in the run: other jobs cannot be compared
	started := c.starts(at)
	for _, key := range q.Pending() {
		if _, did := started[key]; did {
			keys = append(keys, key)
		}
	}
	forecasts, doubts, err := q.forecast(ctx, keys, opts.Options)
	if err != nil {
		return err
	}
	for _, doubt := range append(q.uncounted(&opts.Engine), doubts...) {
		e.Notes = append(e.Notes, at.String()+": "+doubt)
	}
	var limits Starts
	if opts.RunTimes != FromLimits && opts.RunTimes != True {
		asked := opts.Options
		asked.RunTimes, asked.Learner, asked.Arrivals = FromLimits, nil, NoArrivals
		if limits, _, err = q.forecast(ctx, keys, asked); err != nil {
			return err
		}
	}
	e.score(c, q, forecasts, limits, opts)
	return nil
}

// again repeats the whole run once, for all instants. The starts after an instant in the repeated run are the
// forecast with true run times for that instant.
func (e *Evaluation) again(ctx context.Context, c *Course, instants []hpc.Time, opts EvaluateOptions) error {
	first, err := c.Rewind(slices.Min(instants))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(opts.Dir, "rmreplay-forecast-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only temporary files
	queues := make([]*Queue, len(instants))
	var pending []Key
	for i, at := range instants {
		if queues[i], err = c.Rewind(at); err != nil {
			return err
		}
		pending = append(pending, queues[i].Pending()...)
	}
	r := first.watch(first.future, pending, opts.Options)
	r.until, r.horizon = hpc.Never, opts.horizon(slices.Max(instants))
	if err := r.play(ctx, first.spec(first.future, opts.Options, filepath.Join(dir, "again"), first.seed)); err != nil {
		return err
	}
	e.Notes = append(e.Notes, doubtsOf([]*realization{r})...)
	for i, at := range instants {
		if opts.Instant != nil {
			opts.Instant(i, len(instants), at)
		}
		q, forecasts := queues[i], Starts{}
		for _, key := range q.Pending() {
			forecasts[key] = []hpc.Time{seen(r.start(key, at), opts.horizon(at))}
		}
		e.score(c, q, forecasts, nil, opts)
	}
	return nil
}

// score compares two forecasts of an instant with the run, up to the horizon. The parameter limits is the forecast in
// which the time limits are the run times.
func (e *Evaluation) score(c *Course, q *Queue, forecasts, limits Starts, opts EvaluateOptions) {
	starts, horizon := c.starts(q.At), opts.horizon(q.At)
	partitions := map[string]string{}
	for _, job := range q.Workload.Jobs.All() {
		partitions[job.ID] = job.Partition
	}
	var list []Outcome
	one := Instant{At: q.At.Std()}
	for _, key := range q.Pending() {
		one.Pending++
		actual, started := starts[key]
		if !started {
			one.Unstarted++
			continue
		}
		forecast := forecasts[key]
		list = append(list, Outcome{key, partitions[key.Job], actual, Quantile(forecast, 0.1), Quantile(forecast, 0.5),
			Quantile(forecast, 0.9), horizon, q.Estimates[key]})
		actual = seen(actual, horizon)
		one.add(actual, forecast)
		if other, known := q.Estimates[key]; known {
			e.Slurm.add(actual, other, Quantile(forecast, 0.5))
		}
		if limits != nil {
			e.Limits.add(actual, limits[key][0], Quantile(forecast, 0.5))
		}
	}
	e.Instants = append(e.Instants, one)
	if opts.See != nil {
		opts.See(q.At, list)
	}
}

// lastSubmission returns the instant of a run's last submission.
func (c *Course) lastSubmission() (last hpc.Time) {
	for _, job := range c.workload.Jobs.All() {
		last = max(last, job.Submit)
	}
	return last
}

// instants draws instants, in whole seconds, from the times during which jobs wait in the run before the instant until.
func (c *Course) instants(n int, seed uint64, until hpc.Time) []hpc.Time {
	waits := slices.DeleteFunc(c.waits(), func(w span) bool { return w.from >= until-hpc.Time(time.Second) })
	if last := len(waits) - 1; last >= 0 {
		waits[last].to = min(waits[last].to, until-hpc.Time(time.Second))
	}
	total := time.Duration(0)
	for _, w := range waits {
		total += w.to.Sub(w.from)
	}
	if total <= 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 20))
	list := make([]hpc.Time, n)
	for i := range list {
		at := time.Duration(rng.Float64() * float64(total))
		for _, w := range waits {
			if length := w.to.Sub(w.from); at >= length {
				at -= length
				continue
			}
			list[i] = hpc.Unix(w.from.Add(at).UnixSeconds() + 1)
			break
		}
	}
	slices.Sort(list)
	return list
}

// span is a time during which jobs wait.
type span struct{ from, to hpc.Time }

// waits returns the times during which at least one job waits, in order. A job that started within two seconds, or
// that never started, does not count.
func (c *Course) waits() []span {
	var all []span
	first := max(c.workload.Start, c.Manifest.VirtualStart)
	for _, job := range c.workload.Jobs.All() {
		for _, task := range hpc.TasksOf(job) {
			if job.Recorded == nil {
				continue
			}
			one := span{max(job.Submit, first), job.Recorded.OfTask(task).Start}
			if one.to.Sub(one.from) > 2*time.Second {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var merged []span
	for _, one := range all {
		if last := len(merged) - 1; last >= 0 && one.from <= merged[last].to {
			merged[last].to = max(merged[last].to, one.to)
			continue
		}
		merged = append(merged, one)
	}
	return merged
}
