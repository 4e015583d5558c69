package forecast

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// RunTimes says where the run times of a forecast come from.
type RunTimes string

const (
	// FromHistory draws which share of its time limit a job uses, from the shares that earlier jobs used. See [Shares].
	FromHistory RunTimes = "history"
	// FromModel draws from the distribution that a trained model predicts.
	FromModel RunTimes = "model"
	// FromLimits assumes that every job runs until its time limit, as `squeue --start` does, and then
	// succeeds. Dependent jobs can therefore start.
	FromLimits RunTimes = "limits"
	// True uses the recorded run times. It is only for a queue that comes from a run.
	True RunTimes = "true"
)

// Distribution is a distribution of a run time.
type Distribution interface {
	// QuantileAfter returns the quantile q, from 0 to 1, of the whole run time in seconds of a job that has run for
	// elapsed seconds so far.
	QuantileAfter(q, elapsed float64) float64
}

// Learner learns run times from past jobs, and returns a distribution for any job.
type Learner interface {
	predict.Predictor
	Distribution(s predict.Submission) Distribution
}

// Modelled makes a [Learner] of a predictor, such as a trained model.
type Modelled struct{ predict.Predictor }

// Distribution is [Learner.Distribution].
func (m Modelled) Distribution(s predict.Submission) Distribution { return m.Predict(s) }

// untilLimit is the distribution of a job that succeeds after this number of seconds, at its time limit.
type untilLimit float64

// QuantileAfter is [Distribution.QuantileAfter].
func (l untilLimit) QuantileAfter(float64, float64) float64 { return float64(l) }

// newUntilLimit returns the distribution of a request. Without a limit the job does not end. On Slurm the job ends a
// second before its limit. slurmctld checks time limits every 30 seconds, and might otherwise stop the job in the
// second in which it ends.
func newUntilLimit(r *hpc.Request, onSlurm bool) untilLimit {
	limit := predict.Limit(r)
	switch {
	case limit == 0:
		return untilLimit(math.Inf(1))
	case onSlurm:
		limit--
	}
	return untilLimit(limit)
}

// learned has the distribution of each job of a queue, and of each unfinished job that [Recent] repeats ([arrival]).
type learned map[string]Distribution

// taught is a [Learner] that has learned the history of a queue.
type taught struct{ Learner }

// teach plays the history of a queue to the options' learner. A learner that knows the history does not learn it again,
// because each job would count several times.
func (q *Queue) teach(ctx context.Context, opts *Options) error {
	if _, done := opts.Learner.(taught); done || opts.Learner == nil {
		return nil
	}
	if m, given := opts.Learner.(Modelled); given && q.future != nil {
		if t, ok := m.Predictor.(*trained); ok && t.until > q.At {
			return fmt.Errorf("the model was trained on data up to %v, after the forecast's instant "+
				"(want a model that was trained with --until %v or earlier)", t.until, q.At)
		}
	}
	if err := predict.PlayUntil(ctx, q.History.List, q.At, opts.Learner); err != nil {
		return fmt.Errorf("learning run times: %w", err)
	}
	opts.Learner = taught{opts.Learner}
	return nil
}

// learn returns the distributions of the run times of a queue's jobs.
func (q *Queue) learn(ctx context.Context, opts Options) (learned, error) {
	if err := q.teach(ctx, &opts); err != nil {
		return nil, err
	}
	of, learner := learned{}, opts.Learner
	if opts.Arrivals == Recent {
		list, _ := q.recent()
		for i := range list {
			c := &list[i]
			switch {
			case c.Ran() && c.End <= q.At || c.Gone != 0 && c.Gone <= q.At:
			case opts.RunTimes == FromLimits:
				of[arrival(c)] = newUntilLimit(c.Request, LikeSlurm(&opts.Engine))
			default:
				of[arrival(c)] = learner.Distribution(predict.Submission{Number: -1 - int64(q.Workload.Jobs.Len()+i), At: q.At,
					Request: c.Request})
			}
		}
	}
	for i, job := range q.Workload.Jobs.All() {
		if opts.RunTimes == FromLimits {
			of[job.ID] = newUntilLimit(&job.Request, LikeSlurm(&opts.Engine))
			continue
		}
		request := job.Request
		of[job.ID] = learner.Distribution(predict.Submission{Number: -1 - int64(i), At: q.At, Request: &request})
	}
	return of, nil
}

// draws has the distributions of a realization. It draws a distribution when a job first needs it.
type draws struct {
	learned   learned
	posterior *posterior
}

// drawn returns the distributions of a realization.
func (l learned) drawn(seed uint64, realization int) draws {
	return draws{l, newPosterior(seed, realization)}
}

// of returns the distribution of the run times of a job or an arrival; nil if the job has no distribution.
func (d draws) of(name string) Distribution { return d.posterior.draw(d.learned[name]) }

// draw sets the run times of a job for a realization. The draw depends only on the seed, the realization and the
// job's name, so variants of a queue have the same draws.
func (d draws) draw(job *hpc.Job, q *Queue, seed uint64, realization int) {
	switch {
	case q.past[job.ID]:
		return
	case q.states != nil:
		d.redraw(job, q, seed, realization)
		return
	}
	job.CancelAfter, job.EndAt, job.ExitCode, job.TaskExitCodes, job.TaskRunTimes = 0, 0, 0, nil, nil
	forgetEnd(job)
	times := d.of(job.ID)
	if q.Workload.Preset(job) {
		elapsed := q.At.Sub(job.Recorded.Start).Seconds()
		job.RunTime = runTime(times, job, -1, elapsed, seed, realization)
		if job.RunTime != hpc.Unlimited {
			job.EndAt = max(job.Recorded.Start.Add(job.RunTime), q.At)
		}
		return
	}
	tasks := hpc.TasksOf(job)
	job.RunTime = runTime(times, job, tasks[0], 0, seed, realization)
	for _, task := range tasks[1:] {
		if ran := runTime(times, job, task, 0, seed, realization); ran != job.RunTime {
			if job.TaskRunTimes == nil {
				job.TaskRunTimes = map[int]time.Duration{}
			}
			job.TaskRunTimes[task] = ran
		}
	}
}

// runTime draws a run time in whole seconds, or [hpc.Unlimited] for a job that reaches its limit.
func runTime(d Distribution, job *hpc.Job, task int, elapsed float64, seed uint64, realization int) time.Duration {
	name := fnv.New64a()
	_, _ = fmt.Fprintf(name, "%s\x00%d", job.ID, task) // a hash returns no error
	rng := rand.New(rand.NewPCG(seed+uint64(realization)*0x9e3779b97f4a7c15, name.Sum64()))
	seconds := d.QuantileAfter(rng.Float64(), elapsed)
	_, succeeds := d.(untilLimit)
	if limit := predict.Limit(&job.Request); limit > 0 && seconds >= limit-0.5 && !succeeds ||
		seconds > hpc.Unlimited.Seconds()/4 {
		return hpc.Unlimited
	}
	return time.Duration(max(math.Round(seconds), math.Ceil(elapsed))) * time.Second
}
