package predict

import (
	"regexp"
	"time"

	"rmreplay/internal/hpc"
)

// The predictors of this file need no training. Their predictions are single numbers.

// ledger has the submitted jobs that have not ended. For each job it stores a value of type T that
// the predictor needs at the job's end.
type ledger[T any] struct {
	target Target
	jobs   map[int64]open[T]
}

type open[T any] struct {
	what     T
	start    hpc.Time // 0 while the job waits
	value    float64  // the value of a measured target
	measured bool
}

func newLedger[T any](t Target) ledger[T] { return ledger[T]{t, map[int64]open[T]{}} }

func (l *ledger[T]) submit(number int64, what T) { l.jobs[number] = open[T]{what: what} }

// Start is [Predictor.Start].
func (l *ledger[T]) Start(number int64, at hpc.Time) {
	if job, known := l.jobs[number]; known {
		job.start = at
		l.jobs[number] = job
	}
}

// Measure is [Measurer.Measure].
func (l *ledger[T]) Measure(number int64, value float64) {
	if job, known := l.jobs[number]; known {
		job.value, job.measured = value, true
		l.jobs[number] = job
	}
}

// end removes a job and returns the target's value. The result known is false if the job is
// unknown, never started, is requeued, or has no measured value.
func (l *ledger[T]) end(number int64, at hpc.Time, state hpc.State) (what T, value float64, known bool) {
	job, known := l.jobs[number]
	delete(l.jobs, number)
	switch {
	case !known || job.start == 0 || state == hpc.Pending:
		return job.what, 0, false
	case l.target.Measured():
		return job.what, job.value, job.measured
	}
	return job.what, max(at.Sub(job.start).Seconds(), 0), true
}

// fallback predicts jobs for which a predictor has no data. It predicts the value that the user requested. Without a
// requested value, fallback predicts the mean of all ended jobs, or 0 before any job has ended.
type fallback struct {
	sum   float64
	count float64
}

func (f *fallback) end(value float64) { f.sum, f.count = f.sum+value, f.count+1 }

func (f *fallback) value(t Target, r *hpc.Request) float64 {
	if asked := t.Asked(r); asked > 0 || f.count == 0 {
		return asked
	}
	return f.sum / f.count
}

// UserLimit predicts the value that the user requested: the time limit, or the memory. For a job without a request,
// UserLimit predicts the mean of all ended jobs.
type UserLimit struct {
	ledger[struct{}]
	all fallback
}

// NewUserLimit returns the predictor of a target.
func NewUserLimit(t Target) *UserLimit { return &UserLimit{ledger: newLedger[struct{}](t)} }

// Predict is [Predictor.Predict].
func (u *UserLimit) Predict(s Submission) Prediction {
	return u.target.Point(u.all.value(u.target, s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (u *UserLimit) Submit(s Submission) Prediction {
	u.submit(s.Number, struct{}{})
	return u.Predict(s)
}

// End is [Predictor.End].
func (u *UserLimit) End(number int64, at hpc.Time, state hpc.State) {
	if _, value, known := u.end(number, at, state); known {
		u.all.end(value)
	}
}

// LastTwo predicts the mean run time of the user's two jobs that ended last (Tsafrir, Etsion and Feitelson,
// "Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6), 2007). If only
// one job of the user has ended, LastTwo predicts that job's run time. Before the first end, LastTwo makes the
// prediction of [UserLimit].
type LastTwo struct {
	ledger[string]
	users map[string]*lastTwo
	all   fallback
}

type lastTwo struct{ last, before float64 }

// NewLastTwo returns the predictor of a target.
func NewLastTwo(t Target) *LastTwo {
	return &LastTwo{ledger: newLedger[string](t), users: map[string]*lastTwo{}}
}

// Predict is [Predictor.Predict].
func (l *LastTwo) Predict(s Submission) Prediction {
	if user := l.users[s.Request.User]; user != nil {
		return l.target.Point((user.last+user.before)/2, s.Request)
	}
	return l.target.Point(l.all.value(l.target, s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (l *LastTwo) Submit(s Submission) Prediction {
	l.submit(s.Number, s.Request.User)
	return l.Predict(s)
}

// End is [Predictor.End].
func (l *LastTwo) End(number int64, at hpc.Time, state hpc.State) {
	name, value, known := l.end(number, at, state)
	if !known {
		return
	}
	l.all.end(value)
	if user := l.users[name]; user != nil {
		user.last, user.before = value, user.last
		return
	}
	l.users[name] = &lastTwo{value, value}
}

// ClassKey identifies a class. Two jobs with equal keys belong to one class: they probably run the
// same program.
type ClassKey struct {
	// Manual is the name that the user gave the class with "jobtype=NAME;" in the job's comment.
	// The other fields are then empty.
	Manual string
	User   string
	Name   string
	Size   float64
	Limit  time.Duration
}

// manualClass matches the name of a class in a comment, in the form of the analytical services of
// the workload-adaptive scheduler (github.com/algo74).
var manualClass = regexp.MustCompile(`jobtype=([A-Za-z0-9_]+);`)

// Class returns the class of a request. For the workload-adaptive scheduler, the script's arguments
// also belong to the class. Few records have arguments, so here a class is the user, name, size and
// limit.
func Class(r *hpc.Request) ClassKey {
	if r.Comment != "" {
		if found := manualClass.FindStringSubmatch(r.Comment); found != nil {
			return ClassKey{Manual: found[1]}
		}
	}
	return ClassKey{User: r.User, Name: r.Name, Size: Processors(r), Limit: r.TimeLimit}
}

// DecayRate is the decay rate of the recursive average: each new run time lowers the weight of all
// earlier run times by this share.
const DecayRate = 0.2

// DecayedMean is a recursive average with decay: C' = 1 + (1-a)C; S' = x + (1-a)S; the average is
// S'/C' (the rule of the workload-adaptive scheduler's analytical services). The zero DecayedMean
// has no values yet.
type DecayedMean struct {
	Count float64 `json:"c"`
	Sum   float64 `json:"s"`
}

// Add adds a value with the decay rate a.
func (d *DecayedMean) Add(x, a float64) {
	d.Count, d.Sum = 1+(1-a)*d.Count, x+(1-a)*d.Sum
}

// Mean returns the average. Count must not be 0.
func (d *DecayedMean) Mean() float64 { return d.Sum / d.Count }

// ClassAverage predicts the recursive average with decay of the run times in the job's class; see [Class]. For a job of
// a new class, ClassAverage predicts the average of the job's user. For a new user, ClassAverage makes the prediction
// of [UserLimit].
type ClassAverage struct {
	ledger[ClassKey]
	classes map[ClassKey]*DecayedMean
	all     fallback
}

// NewClassAverage returns the predictor of a target.
func NewClassAverage(t Target) *ClassAverage {
	return &ClassAverage{ledger: newLedger[ClassKey](t), classes: map[ClassKey]*DecayedMean{}}
}

// userClass returns the key for the average of all jobs of a user. It differs from all keys of
// single jobs, because their size is not 0.
func userClass(user string) ClassKey { return ClassKey{User: user} }

// Predict is [Predictor.Predict].
func (c *ClassAverage) Predict(s Submission) Prediction {
	for _, key := range [...]ClassKey{Class(s.Request), userClass(s.Request.User)} {
		if class := c.classes[key]; class != nil {
			return c.target.Point(class.Mean(), s.Request)
		}
	}
	return c.target.Point(c.all.value(c.target, s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (c *ClassAverage) Submit(s Submission) Prediction {
	key := Class(s.Request)
	key.User = s.Request.User // for the user's average, also if the user named the class
	c.submit(s.Number, key)
	return c.Predict(s)
}

// End is [Predictor.End].
func (c *ClassAverage) End(number int64, at hpc.Time, state hpc.State) {
	key, value, known := c.end(number, at, state)
	if !known {
		return
	}
	c.all.end(value)
	user := userClass(key.User)
	if key.Manual != "" {
		key.User = ""
	}
	for _, key := range [...]ClassKey{key, user} {
		if c.classes[key] == nil {
			c.classes[key] = new(DecayedMean)
		}
		c.classes[key].Add(value, DecayRate)
	}
}
