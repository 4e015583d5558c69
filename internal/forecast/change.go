package forecast

import (
	"context"
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

// Changed is the forecast of a pending job whose request was changed.
type Changed struct {
	Waiting
	// Ends is the probability that the job ends by itself within its time limit.
	Ends float64
}

// Changes forecasts a pending job with changed requests. The job's age does not change, and each forecast has the
// same draws as the forecast of the queue.
type Changes struct {
	q       *Queue
	key     Key
	job     *hpc.Job
	opts    Options
	learned learned
}

// NewChanges learns the run times of a queue once, for all changes of a job. It returns an error if the job does not
// wait in the queue, or if the run times cannot be learned.
func NewChanges(ctx context.Context, q *Queue, key Key, opts Options) (*Changes, error) {
	c := &Changes{q: q, key: key, opts: opts}
	for _, job := range q.Workload.Jobs.All() {
		if job.ID == key.Job {
			one := *job // a copy, because the list reuses the job's memory
			c.job = &one
		}
	}
	if c.job == nil || q.Workload.Preset(c.job) {
		return nil, fmt.Errorf("changing job %s: it does not wait in the queue (want a pending job)", key.Job)
	}
	c.opts.Occupancy = 0
	var err error
	c.learned, err = q.learn(ctx, opts)
	return c, err
}

// Job returns the unchanged job.
func (c *Changes) Job() hpc.Job { return *c.job }

// Try forecasts the job with another request.
func (c *Changes) Try(ctx context.Context, request *hpc.Request) (Changed, error) {
	q, job := *c.q, *c.job
	w := *q.Workload
	w.Jobs = workload.JobsOf(w.Jobs.List()...)
	job.Request = *request
	for i, other := range w.Jobs.All() {
		if other.ID == job.ID {
			w.Jobs.Set(i, &job)
		}
	}
	q.Workload = &w
	own := []Key{c.key}
	all, err := q.play(ctx, own, c.opts, q.drawing(c.learned, c.opts), c.opts.Needed())
	if err != nil {
		return Changed{}, err
	}
	doubts := doubtsOf(all)
	one := Changed{Waiting: q.waiting(own, all, 0, c.opts)[0], Ends: 1}
	if one.Never == c.opts.Needed() && len(doubts) > 0 {
		one.Why = doubts[0]
	}
	if limit := predict.Limit(request); limit > 0 {
		one.Ends = within(c.learned[job.ID], limit)
	}
	return one, nil
}

// within returns the probability that a run takes less than the given number of seconds.
func within(d Distribution, seconds float64) float64 {
	if _, succeeds := d.(untilLimit); succeeds {
		if d.QuantileAfter(0, 0) <= seconds {
			return 1
		}
		return 0
	}
	low, high := 0.0, 1.0
	for range 20 { // 20 halvings: to a millionth of the range
		if middle := (low + high) / 2; d.QuantileAfter(middle, 0) < seconds {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
