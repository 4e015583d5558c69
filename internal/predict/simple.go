package predict

import (
	"regexp"
	"time"

	"rmreplay/internal/hpc"
)

// The predictors of this file need no training. Their predictions are single numbers.

// ledger has the jobs that were submitted and have not ended, and what a predictor wants to know
// of each at its end.
type ledger[T any] map[int64]open[T]

type open[T any] struct {
	what  T
	start hpc.Time // 0 while the job waits
}

func (l ledger[T]) submit(number int64, what T) { l[number] = open[T]{what: what} }

func (l ledger[T]) start(number int64, at hpc.Time) {
	if job, known := l[number]; known {
		job.start = at
		l[number] = job
	}
}

// end removes a job. ran is false if the job is not known, never started, or is requeued.
func (l ledger[T]) end(number int64, at hpc.Time, state hpc.State) (what T, seconds float64, ran bool) {
	job, known := l[number]
	delete(l, number)
	if !known || job.start == 0 || state == hpc.Pending {
		return job.what, 0, false
	}
	return job.what, max(at.Sub(job.start).Seconds(), 0), true
}

// fallback predicts for jobs of which a predictor knows nothing else: the time limit, or the mean
// run time of all jobs that have ended if there is none, or 0 before any has.
type fallback struct {
	sum   float64
	count float64
}

func (f *fallback) end(seconds float64) { f.sum, f.count = f.sum+seconds, f.count+1 }

func (f *fallback) seconds(r *hpc.Request) float64 {
	if limit := Limit(r); limit > 0 || f.count == 0 {
		return limit
	}
	return f.sum / f.count
}

// UserLimit predicts the time limit that the user asked for. A job without a limit gets the mean
// run time of all jobs that have ended.
type UserLimit struct {
	jobs ledger[struct{}]
	all  fallback
}

// NewUserLimit returns the predictor.
func NewUserLimit() *UserLimit { return &UserLimit{jobs: ledger[struct{}]{}} }

// Predict is [Predictor.Predict].
func (u *UserLimit) Predict(s Submission) Prediction {
	return Point(u.all.seconds(s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (u *UserLimit) Submit(s Submission) Prediction {
	u.jobs.submit(s.Number, struct{}{})
	return u.Predict(s)
}

// Start is [Predictor.Start].
func (u *UserLimit) Start(number int64, at hpc.Time) { u.jobs.start(number, at) }

// End is [Predictor.End].
func (u *UserLimit) End(number int64, at hpc.Time, state hpc.State) {
	if _, seconds, ran := u.jobs.end(number, at, state); ran {
		u.all.end(seconds)
	}
}

// LastTwo predicts the mean run time of the user's two jobs that ended last (Tsafrir, Etsion and
// Feitelson, "Backfilling using system-generated predictions rather than user runtime estimates",
// IEEE TPDS 18(6), 2007). After a single job of the user it predicts that job's run time, and
// before the first one the time limit, as [UserLimit] does.
type LastTwo struct {
	jobs  ledger[string]
	users map[string]*lastTwo
	all   fallback
}

type lastTwo struct{ last, before float64 }

// NewLastTwo returns the predictor.
func NewLastTwo() *LastTwo {
	return &LastTwo{jobs: ledger[string]{}, users: map[string]*lastTwo{}}
}

// Predict is [Predictor.Predict].
func (l *LastTwo) Predict(s Submission) Prediction {
	if user := l.users[s.Request.User]; user != nil {
		return Point((user.last+user.before)/2, s.Request)
	}
	return Point(l.all.seconds(s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (l *LastTwo) Submit(s Submission) Prediction {
	l.jobs.submit(s.Number, s.Request.User)
	return l.Predict(s)
}

// Start is [Predictor.Start].
func (l *LastTwo) Start(number int64, at hpc.Time) { l.jobs.start(number, at) }

// End is [Predictor.End].
func (l *LastTwo) End(number int64, at hpc.Time, state hpc.State) {
	name, seconds, ran := l.jobs.end(number, at, state)
	if !ran {
		return
	}
	l.all.end(seconds)
	if user := l.users[name]; user != nil {
		user.last, user.before = seconds, user.last
		return
	}
	l.users[name] = &lastTwo{seconds, seconds}
}

// ClassKey is what makes two jobs of one class: resubmissions of one thing.
type ClassKey struct {
	// Manual is the name that the user gave the class with "jobtype=NAME;" in the job's comment.
	// The other fields are then empty.
	Manual string
	User   string
	Name   string
	Size   float64
	Limit  time.Duration
}

// manualClass finds the name of a class in a comment, as the analytical services of the
// workload-adaptive scheduler do (github.com/algo74).
var manualClass = regexp.MustCompile(`jobtype=([A-Za-z0-9_]+);`)

// Class returns the class of a request. Where the original takes the script's arguments, a class
// here is user, name, size and limit, since few records have the arguments.
func Class(r *hpc.Request) ClassKey {
	if r.Comment != "" {
		if found := manualClass.FindStringSubmatch(r.Comment); found != nil {
			return ClassKey{Manual: found[1]}
		}
	}
	return ClassKey{User: r.User, Name: r.Name, Size: Processors(r), Limit: r.TimeLimit}
}

// DecayRate is the weight that the recursive average takes from a class's earlier run times with
// each new one: the original's value.
const DecayRate = 0.2

// DecayedMean is a recursive average with decay: C' = 1 + (1-a)C; S' = x + (1-a)S; the average is
// S'/C' (the rule of the workload-adaptive scheduler's analytical services). The zero DecayedMean
// has seen nothing.
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

// ClassAverage predicts the recursive average with decay of the run times in the job's class; see
// [Class]. A job of a new class gets the average of its user, and a job of a new user its limit, as
// [UserLimit] predicts.
type ClassAverage struct {
	jobs    ledger[ClassKey]
	classes map[ClassKey]*DecayedMean
	all     fallback
}

// NewClassAverage returns the predictor.
func NewClassAverage() *ClassAverage {
	return &ClassAverage{jobs: ledger[ClassKey]{}, classes: map[ClassKey]*DecayedMean{}}
}

// userClass is the class of all jobs of a user. No class of a job equals it: a job's size is not 0.
func userClass(user string) ClassKey { return ClassKey{User: user} }

// Predict is [Predictor.Predict].
func (c *ClassAverage) Predict(s Submission) Prediction {
	for _, key := range [...]ClassKey{Class(s.Request), userClass(s.Request.User)} {
		if class := c.classes[key]; class != nil {
			return Point(class.Mean(), s.Request)
		}
	}
	return Point(c.all.seconds(s.Request), s.Request)
}

// Submit is [Predictor.Submit].
func (c *ClassAverage) Submit(s Submission) Prediction {
	key := Class(s.Request)
	key.User = s.Request.User // of a manual class as well, for the user's own average
	c.jobs.submit(s.Number, key)
	return c.Predict(s)
}

// Start is [Predictor.Start].
func (c *ClassAverage) Start(number int64, at hpc.Time) { c.jobs.start(number, at) }

// End is [Predictor.End].
func (c *ClassAverage) End(number int64, at hpc.Time, state hpc.State) {
	key, seconds, ran := c.jobs.end(number, at, state)
	if !ran {
		return
	}
	c.all.end(seconds)
	user := userClass(key.User)
	if key.Manual != "" {
		key.User = ""
	}
	for _, key := range [...]ClassKey{key, user} {
		if c.classes[key] == nil {
			c.classes[key] = new(DecayedMean)
		}
		c.classes[key].Add(seconds, DecayRate)
	}
}
