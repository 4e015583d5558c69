package forecast

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/stats"
)

// RunTimes is where the run times of a forecast come from.
type RunTimes string

const (
	// FromHistory draws from the shares of their time limits that earlier jobs used. See [Shares].
	FromHistory RunTimes = "history"
	// FromModel draws from the distribution that a trained model predicts.
	FromModel RunTimes = "model"
	// FromLimits lets every job run until its time limit, as Slurm assumes for `squeue --start`.
	FromLimits RunTimes = "limits"
	// True takes the run times that the jobs had. It is for a frozen run alone.
	True RunTimes = "true"
)

// Distribution is a distribution of a run time.
type Distribution interface {
	// QuantileAfter returns the quantile q, from 0 to 1, of the whole run time in seconds of a job
	// that has been running for so many seconds.
	QuantileAfter(q, elapsed float64) float64
}

// Learner learns run times from what happened, and has a distribution for any job.
type Learner interface {
	predict.Predictor
	Distribution(s predict.Submission) Distribution
}

// Modelled makes a [Learner] of a predictor, such as a trained model.
type Modelled struct{ predict.Predictor }

// Distribution is [Learner.Distribution].
func (m Modelled) Distribution(s predict.Submission) Distribution { return m.Predict(s) }

// Shares is a [Learner] that needs no training. A job's distribution are the shares of their time
// limits that earlier jobs used, times its own limit: those of its class ([predict.Class]), of its
// user, and of all users. Without a limit the run times themselves count. Of each group the last jobs
// that started count, whether they have ended or not: see [weigh]. Few jobs of a class do not show its
// whole distribution, so the distribution of each group has a share of the next wider one: that of a
// Dirichlet process whose mean is the wider group's distribution, after the group's ended jobs
// (Ferguson, The Annals of Statistics 1(2), 1973).
type Shares struct {
	open map[int64]*share // that wait or run
	// started are by class, by user, and of all jobs.
	started map[predict.ClassKey][]*share
}

// share is a job from which others are predicted.
type share struct {
	class      predict.ClassKey
	limit      float64  // in seconds; 0 for none
	start, end hpc.Time // 0 if it has not started or not ended
}

// The largest numbers of jobs that count of a class, of a user and of all users.
const (
	mostOfClass = 100
	mostOfUser  = 500
	mostOfAll   = 5000
	// wider is the number of jobs as many as which the wider group counts.
	wider = 5
)

// NewShares returns a learner that has seen nothing.
func NewShares() *Shares {
	return &Shares{open: map[int64]*share{}, started: map[predict.ClassKey][]*share{}}
}

// groups returns the groups to which a job belongs, from the narrowest to the widest.
func groups(class predict.ClassKey) [3]predict.ClassKey {
	return [3]predict.ClassKey{class, {User: class.User}, {}}
}

// classOf returns a job's class with its user, also that of a manual class.
func classOf(r *hpc.Request) predict.ClassKey {
	class := predict.Class(r)
	class.User = r.User
	return class
}

// Submit is [predict.Predictor.Submit].
func (s *Shares) Submit(job predict.Submission) predict.Prediction {
	s.open[job.Number] = &share{class: classOf(job.Request), limit: predict.Limit(job.Request)}
	return predict.Prediction{}
}

// Start is [predict.Predictor.Start].
func (s *Shares) Start(number int64, at hpc.Time) {
	job := s.open[number]
	if job == nil {
		return
	}
	job.start = at
	for i, group := range groups(job.class) {
		list, most := s.started[group], [...]int{mostOfClass, mostOfUser, mostOfAll}[i]
		if len(list) >= 2*most { // moved seldom
			list = append(list[:0], list[len(list)-most+1:]...)
		}
		s.started[group] = append(list, job)
	}
}

// End is [predict.Predictor.End].
func (s *Shares) End(number int64, at hpc.Time, _ hpc.State) {
	if job := s.open[number]; job != nil && job.start != 0 {
		job.end = max(at, job.start)
	}
	delete(s.open, number)
}

// Predict is [predict.Predictor.Predict]: three quantiles of the distribution.
func (s *Shares) Predict(job predict.Submission) predict.Prediction {
	d := s.Distribution(job)
	return predict.Prediction{
		P10: d.QuantileAfter(0.1, 0), P50: d.QuantileAfter(0.5, 0), P90: d.QuantileAfter(0.9, 0), Limit: predict.Limit(job.Request),
	}.Sound()
}

// Distribution is [Learner.Distribution].
func (s *Shares) Distribution(job predict.Submission) Distribution {
	limit := predict.Limit(job.Request)
	var mixed []mass
	ofGroup := 1.0 // the share that this group and wider ones have
	for i, group := range groups(classOf(job.Request)) {
		started, most := s.started[group], [...]int{mostOfClass, mostOfUser, mostOfAll}[i]
		masses, ended := weigh(ranAt(job.At, started[max(len(started)-most, 0):], limit), limit)
		if ended == 0 {
			continue
		}
		share := float64(ended) / float64(ended+wider)
		if group == (predict.ClassKey{}) {
			share = 1
		}
		for _, m := range masses {
			mixed = append(mixed, mass{m.seconds, m.weight * share * ofGroup})
		}
		ofGroup *= 1 - share
	}
	if len(mixed) == 0 { // any share of the limit is as likely
		return predict.Prediction{P10: 0.1 * limit, P50: 0.5 * limit, P90: 0.9 * limit, Limit: limit}
	}
	slices.SortFunc(mixed, func(a, b mass) int {
		return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.weight, b.weight))
	})
	return empirical{mixed, limit}
}

// ranAt returns how long jobs ran until an instant, as shares of their limits times another limit; all
// in seconds.
func ranAt(at hpc.Time, jobs []*share, limit float64) []stats.Observation {
	list := make([]stats.Observation, len(jobs))
	for i, job := range jobs {
		ran := stats.Observation{Time: job.end.Sub(job.start).Seconds(), Weight: 1, Censored: job.end == 0}
		if ran.Censored { // it still runs
			ran.Time = max(at.Sub(job.start).Seconds(), 0)
		}
		if limit > 0 && job.limit > 0 {
			ran.Time *= limit / job.limit
		}
		if limit > 0 {
			ran.Time = min(ran.Time, limit)
		}
		list[i] = ran
	}
	return list
}

// mass is the weight of a run time in a distribution.
type mass struct{ seconds, weight float64 }

// weigh returns the distribution that jobs show which have ended and others which still run
// ([stats.ProductLimit]). Of jobs that started together the short ones end first, so those that have
// ended are too short. The share of jobs that is longer than all that have ended lies evenly between the
// longest job and the limit, or without a limit at the longest job. limit is in seconds, or 0. weigh also
// returns how many jobs have ended; if none has, there is no distribution. It sorts the list.
func weigh(list []stats.Observation, limit float64) (masses []mass, ended int) {
	longer := 1.0 // the share of jobs that is longer
	for seconds, rest := range stats.ProductLimit(list) {
		masses = append(masses, mass{seconds, longer - rest})
		longer = rest
	}
	const rounding, pieces = 1e-9, 10
	ended = len(masses)
	if ended > 0 && longer > rounding {
		longest := list[len(list)-1].Time
		for i := range pieces {
			after := (float64(i) + 0.5) / pieces * max(limit-longest, 0)
			masses = append(masses, mass{longest + after, longer / pieces})
		}
	}
	return masses, ended
}

// empirical is a distribution of run times, ascending.
type empirical struct {
	masses []mass
	limit  float64 // in seconds; 0 for none
}

// QuantileAfter is [Distribution.QuantileAfter]. Quantiles between samples are interpolated. A job
// that has run longer than all samples runs until its limit, or twice as long as it has without one.
func (e empirical) QuantileAfter(q, elapsed float64) float64 {
	rest := e.masses
	if elapsed > 0 {
		first, _ := slices.BinarySearchFunc(rest, elapsed, func(m mass, elapsed float64) int {
			if m.seconds <= elapsed {
				return -1
			}
			return 1
		})
		rest = rest[first:]
	}
	if len(rest) == 0 {
		return max(elapsed, cmp.Or(e.limit, 2*elapsed))
	}
	// The run times stand in the middle of their weights, the first one at 0 and the last one at 1.
	place := -(rest[0].weight + rest[len(rest)-1].weight) / 2
	for _, m := range rest {
		place += m.weight
	}
	place *= q
	for i := range rest[1:] {
		step := (rest[i].weight + rest[i+1].weight) / 2
		if place < step {
			return max(elapsed, rest[i].seconds+place/step*(rest[i+1].seconds-rest[i].seconds))
		}
		place -= step
	}
	return max(elapsed, rest[len(rest)-1].seconds)
}

// untilLimit is the distribution of a job that runs until its time limit.
type untilLimit struct{}

// QuantileAfter is [Distribution.QuantileAfter].
func (untilLimit) QuantileAfter(float64, float64) float64 { return math.Inf(1) }

// learned has the distribution of each job of a queue.
type learned map[string]Distribution

// learn returns the distributions of the run times of a queue's jobs. learner may be nil.
func (q *Queue) learn(ctx context.Context, from RunTimes, learner Learner) (learned, error) {
	of := learned{}
	if learner != nil {
		if err := predict.PlayUntil(ctx, q.History.List, q.At, learner); err != nil {
			return nil, fmt.Errorf("learning run times: %w", err)
		}
	}
	for i, job := range q.Workload.Jobs.All() {
		if from == FromLimits {
			of[job.ID] = untilLimit{}
			continue
		}
		request := job.Request
		of[job.ID] = learner.Distribution(predict.Submission{Number: -1 - int64(i), At: q.At, Request: &request})
	}
	return of, nil
}

// draw gives a job the run times of a realization. The draw of a job depends on the seed, the
// realization and the job's name alone, so variants of a queue have the same draws.
func (l learned) draw(job *hpc.Job, q *Queue, seed uint64, realization int) {
	switch {
	case q.past[job.ID]:
		return
	case q.states != nil:
		l.redraw(job, q, seed, realization)
		return
	}
	job.CancelAfter, job.EndAt, job.ExitCode, job.TaskExitCodes, job.TaskRunTimes = 0, 0, 0, nil, nil
	d := l[job.ID]
	if q.Workload.Preset(job) {
		elapsed := q.At.Sub(job.Recorded.Start).Seconds()
		job.RunTime = l.runTime(d, job, -1, elapsed, seed, realization)
		if job.RunTime != hpc.Unlimited {
			job.EndAt = max(job.Recorded.Start.Add(job.RunTime), q.At)
		}
		return
	}
	tasks := hpc.TasksOf(job)
	job.RunTime = l.runTime(d, job, tasks[0], 0, seed, realization)
	for _, task := range tasks[1:] {
		if ran := l.runTime(d, job, task, 0, seed, realization); ran != job.RunTime {
			if job.TaskRunTimes == nil {
				job.TaskRunTimes = map[int]time.Duration{}
			}
			job.TaskRunTimes[task] = ran
		}
	}
}

// runTime draws a run time in whole seconds, or [hpc.Unlimited] for a job that runs into its limit.
func (l learned) runTime(d Distribution, job *hpc.Job, task int, elapsed float64, seed uint64, realization int) time.Duration {
	name := fnv.New64a()
	_, _ = fmt.Fprintf(name, "%s\x00%d", job.ID, task) // a hash takes everything
	rng := rand.New(rand.NewPCG(seed+uint64(realization)*0x9e3779b97f4a7c15, name.Sum64()))
	seconds := d.QuantileAfter(rng.Float64(), elapsed)
	if limit := predict.Limit(&job.Request); limit > 0 && seconds >= limit-0.5 || seconds > hpc.Unlimited.Seconds()/4 {
		return hpc.Unlimited
	}
	return time.Duration(math.Round(seconds)) * time.Second
}
