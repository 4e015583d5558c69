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
// limits that earlier jobs used, times its own limit: jobs of its class ([predict.Class]), and as
// long as there are few of them, also those of its user and of all users. Without a limit the run
// times themselves count.
type Shares struct {
	open map[int64]openShare
	// samples are by class, by user, and of all jobs.
	samples map[predict.ClassKey]*recent
}

type openShare struct {
	class predict.ClassKey
	limit float64
	start hpc.Time
}

// recent are the last samples of something, the newest last.
type recent struct{ list []sample }

// sample is how long a job ran, in seconds, and which share of its time limit that was; 0 without a
// limit.
type sample struct{ seconds, share float64 }

// The largest numbers of samples that count of a class, of a user and of all jobs.
const (
	mostOfClass = 30
	mostOfUser  = 60
	mostOfAll   = 400
	// enough is the number of samples above which the wider groups do not count.
	enough = 10
)

// NewShares returns a learner that has seen nothing.
func NewShares() *Shares {
	return &Shares{open: map[int64]openShare{}, samples: map[predict.ClassKey]*recent{}}
}

// groups returns the groups to which a job belongs, from the narrowest to the widest.
func groups(class predict.ClassKey, user string) [3]predict.ClassKey {
	return [3]predict.ClassKey{class, {User: user}, {}}
}

// Submit is [predict.Predictor.Submit].
func (s *Shares) Submit(job predict.Submission) predict.Prediction {
	class := predict.Class(job.Request)
	class.User = job.Request.User
	s.open[job.Number] = openShare{class: class, limit: predict.Limit(job.Request)}
	return predict.Prediction{}
}

// Start is [predict.Predictor.Start].
func (s *Shares) Start(number int64, at hpc.Time) {
	if job, known := s.open[number]; known {
		job.start = at
		s.open[number] = job
	}
}

// End is [predict.Predictor.End].
func (s *Shares) End(number int64, at hpc.Time, _ hpc.State) {
	job, known := s.open[number]
	delete(s.open, number)
	if !known || job.start == 0 {
		return
	}
	one := sample{seconds: max(at.Sub(job.start).Seconds(), 0)}
	if job.limit > 0 {
		one.share = min(one.seconds/job.limit, 1)
	}
	for i, group := range groups(job.class, job.class.User) {
		if s.samples[group] == nil {
			s.samples[group] = &recent{}
		}
		s.samples[group].add(one, [...]int{mostOfClass, mostOfUser, mostOfAll}[i])
	}
}

func (r *recent) add(one sample, most int) {
	if len(r.list) >= most {
		r.list = append(r.list[:0], r.list[len(r.list)-most+1:]...)
	}
	r.list = append(r.list, one)
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
	class := predict.Class(job.Request)
	class.User = job.Request.User
	limit := predict.Limit(job.Request)
	var seconds []float64
	for _, group := range groups(class, class.User) {
		samples := s.samples[group]
		if samples == nil {
			continue
		}
		for _, one := range samples.list {
			switch {
			case limit == 0:
				seconds = append(seconds, one.seconds)
			case one.share > 0 || one.seconds == 0:
				seconds = append(seconds, one.share*limit)
			default:
				seconds = append(seconds, min(one.seconds, limit))
			}
		}
		if len(seconds) >= enough {
			break
		}
	}
	if len(seconds) == 0 { // nothing has ended: any share of the limit is as likely
		return predict.Prediction{P10: 0.1 * limit, P50: 0.5 * limit, P90: 0.9 * limit, Limit: limit}
	}
	slices.Sort(seconds)
	return empirical{seconds, limit}
}

// empirical is a distribution of samples, ascending, in seconds.
type empirical struct {
	seconds []float64
	limit   float64 // 0 for none
}

// QuantileAfter is [Distribution.QuantileAfter]. Quantiles between samples are interpolated. A job
// that has run longer than all samples runs until its limit, or twice as long as it has without one.
func (e empirical) QuantileAfter(q, elapsed float64) float64 {
	first, _ := slices.BinarySearchFunc(e.seconds, elapsed, func(s, elapsed float64) int {
		if s <= elapsed {
			return -1
		}
		return 1
	})
	rest := e.seconds[first:]
	if elapsed == 0 {
		rest = e.seconds
	}
	if len(rest) == 0 {
		return max(elapsed, cmp.Or(e.limit, 2*elapsed))
	}
	place := q * float64(len(rest)-1)
	low := int(place)
	high := min(low+1, len(rest)-1)
	return max(elapsed, rest[low]+(place-float64(low))*(rest[high]-rest[low]))
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
