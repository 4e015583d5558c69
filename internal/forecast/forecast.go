package forecast

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/parallel"
	"rmreplay/internal/workload"
)

// Options say how a forecast is made.
type Options struct {
	// Engine specifies the engine that simulates the scheduler. The specification's workload, output
	// and seed are ignored.
	Engine experiment.Spec
	// Realizations is the number of realizations, at least 1. Parallel is how many realizations run at once; 0 means one
	// for each CPU.
	Realizations, Parallel int
	Seed                   uint64
	RunTimes               RunTimes
	// Learner learns the run times; nil for [FromLimits] and [True].
	Learner  Learner
	Arrivals Arrivals
	// Horizon is how far ahead of the queue's instant a realization runs. A later start is [Later]. With 0 there is no
	// horizon: a realization runs until all waiting jobs have started.
	Horizon time.Duration
	// Within are spans of time from the queue's instant on. [Waiting.Within] has a probability for each span that ends
	// by the horizon.
	Within []time.Duration
	// Occupancy is how far ahead a [Report] has numbers of occupied nodes; 0 for no such numbers.
	Occupancy time.Duration
	// Dir is the directory in which each realization has a temporary directory for the logs of its
	// engine. If it is empty, the system's directory for temporary files is used.
	Dir string
	// Progress, if not nil, is called when a realization has ended. Several goroutines call it.
	Progress func(done, all int)
	// Say, if not nil, is called before the first realization with the variants of [NewReport] that will not run.
	Say func(text string)
}

// Later is the value of a start that is after the horizon ([Options.Horizon]) at an unknown instant.
const Later = hpc.Never - 1

// Needed returns the number of realizations that are made. It is 1 if all realizations would be equal.
func (o *Options) Needed() int {
	if o.Arrivals != Recent && (o.RunTimes == True || o.RunTimes == FromLimits) {
		return 1
	}
	return o.Realizations
}

// Starts has, for each job, its starts in the realizations of a forecast in ascending order. A start
// is [Later] if the job had not started at the horizon, and [hpc.Never] if the job never starts.
type Starts map[Key][]hpc.Time

// horizon returns the last instant of a forecast that is made for the instant at.
func (o *Options) horizon(at hpc.Time) hpc.Time {
	if o.Horizon == 0 {
		return hpc.Never
	}
	return at.Add(o.Horizon)
}

// seen returns a start, or [Later] if it is after the horizon.
func seen(start, horizon hpc.Time) hpc.Time {
	if start > horizon && start != hpc.Never {
		return Later
	}
	return start
}

// Covers reports whether a start is between the quantiles P10 and P90 of its forecast, both included. The result
// beyond reports whether start and P10 are both after the horizon: such a start does not test the interval's width.
func Covers(start, p10, p90 hpc.Time) (covers, beyond bool) {
	beyond = start == Later && p10 == Later
	return !beyond && p10 <= start && start <= p90, beyond
}

// Make simulates the scheduler from a queue on, and returns the starts of the jobs that wait in
// the queue. doubts describe what went wrong in realizations.
func Make(ctx context.Context, q *Queue, opts Options) (starts Starts, doubts []string, err error) {
	return q.forecast(ctx, q.Pending(), opts)
}

// forecast is [Make] for some of the jobs that wait. A realization ends when the given jobs have started.
func (q *Queue) forecast(ctx context.Context, pending []Key, opts Options) (starts Starts, doubts []string, err error) {
	all, err := q.realize(ctx, pending, opts)
	if err != nil {
		return nil, nil, err
	}
	return startsOf(all, pending, q.At), doubtsOf(all), nil
}

// realize simulates the realizations of a forecast of the pending jobs.
func (q *Queue) realize(ctx context.Context, pending []Key, opts Options) ([]*realization, error) {
	draw, n, err := q.drawer(ctx, opts)
	if err != nil {
		return nil, err
	}
	return q.play(ctx, pending, opts, draw, n)
}

// play simulates n realizations. The function draw returns the workload of realization i.
func (q *Queue) play(ctx context.Context, pending []Key, opts Options, draw func(i int) (*workload.Workload, error),
	n int) ([]*realization, error) {
	dir, err := os.MkdirTemp(opts.Dir, "rmreplay-forecast-")
	if err != nil {
		return nil, fmt.Errorf("making a forecast: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // only temporary files
	opts.Engine = opts.Engine.Sharing()
	all := make([]*realization, n)
	var ended atomic.Int64
	seed := func(i int) uint64 {
		if q.states != nil {
			return q.seed // a repeated run needs its own seed
		}
		return opts.Seed + uint64(i)
	}
	err = parallel.Executor{Parallel: opts.Parallel}.Do(ctx, n, func(ctx context.Context, i int) error {
		w, err := draw(i)
		if err == nil {
			all[i] = q.watch(w, pending, opts)
			all[i].horizon = opts.horizon(q.At)
			err = all[i].play(ctx, q.spec(w, opts, filepath.Join(dir, fmt.Sprint(i)), seed(i)))
		}
		if err != nil {
			return fmt.Errorf("making a forecast: realization %d: %w", i+1, err)
		}
		if all[i].occupied != nil {
			all[i].occupied.finish(w)
		}
		if done := ended.Add(1); opts.Progress != nil {
			opts.Progress(int(done), n)
		}
		return nil
	})
	return all, err
}

// startsOf returns the starts of jobs in all realizations.
func startsOf(all []*realization, pending []Key, from hpc.Time) Starts {
	starts := Starts{}
	for _, key := range pending {
		list := make([]hpc.Time, len(all))
		for i := range all {
			list[i] = all[i].start(key, from)
		}
		slices.Sort(list)
		starts[key] = list
	}
	return starts
}

// drawer returns the function that makes the workload of a realization. It also returns the number
// of realizations, which is 1 if nothing is random.
func (q *Queue) drawer(ctx context.Context, opts Options) (draw func(i int) (*workload.Workload, error), n int,
	err error) {
	if opts.RunTimes == True {
		if q.future == nil {
			return nil, 0, fmt.Errorf("the true run times of a live queue are not known (want the record of a run)")
		}
		return func(i int) (*workload.Workload, error) { return q.true(opts, i), nil }, opts.Needed(), nil
	}
	distributions, err := q.learn(ctx, opts)
	if err != nil {
		return nil, 0, err
	}
	return q.drawing(distributions, opts), opts.Needed(), nil
}

// drawing returns the function that makes the workload of a realization with run times that are drawn from
// distributions.
func (q *Queue) drawing(distributions learned, opts Options) func(i int) (*workload.Workload, error) {
	return func(i int) (*workload.Workload, error) {
		w, drawn := q.copy(), distributions.drawn(opts.Seed, i)
		for k, job := range w.Jobs.All() {
			drawn.draw(job, q, opts.Seed, i)
			w.Jobs.Set(k, job)
		}
		q.arrive(w, drawn, opts, i)
		q.shorten(w, opts)
		return w, nil
	}
}

// true returns the workload of a realization in which the jobs have the run times and results of the run.
func (q *Queue) true(opts Options, realization int) *workload.Workload {
	if opts.Arrivals == Recorded {
		return q.future
	}
	w := q.copy()
	jobs := map[string]*hpc.Job{}
	for _, job := range q.future.Jobs.List() {
		jobs[job.ID] = job
	}
	for k, job := range w.Jobs.All() {
		if known := jobs[job.ID]; known != nil {
			w.Jobs.Set(k, known)
		}
	}
	q.arrive(w, draws{}, opts, realization)
	q.shorten(w, opts)
	return w
}

// copy returns a copy of the queue's workload that shares no jobs with it, because realizations run at the same time.
func (q *Queue) copy() *workload.Workload {
	w := *q.Workload
	w.Jobs = workload.JobsOf(w.Jobs.List()...)
	return &w
}

// Quantile returns the quantile p of sorted starts. It interpolates linearly between order statistics
// at p(n+1): one more draw exceeds this p-quantile of n draws with probability 1-p (Hyndman and Fan,
// "Sample quantiles in statistical packages", 1996, definition 6). It returns [hpc.Never] if it needs
// a start that never happens, and [Later] if it needs a start after the horizon.
func Quantile(sorted []hpc.Time, p float64) hpc.Time {
	place := p*float64(len(sorted)+1) - 1
	place = min(max(place, 0), float64(len(sorted)-1))
	low := int(place)
	high := min(low+1, len(sorted)-1)
	share := place - float64(low)
	if share == 0 || sorted[low] == sorted[high] {
		return sorted[low]
	}
	if sorted[high] >= Later {
		return sorted[high]
	}
	between := time.Duration(share * float64(sorted[high].Sub(sorted[low])))
	return sorted[low].Add(between.Round(time.Second))
}

// Probability returns the share of the realizations in which a job starts by an instant; the instant must not be
// after the horizon.
func Probability(sorted []hpc.Time, by hpc.Time) float64 {
	n, _ := slices.BinarySearch(sorted, by+1)
	return float64(n) / float64(len(sorted))
}
