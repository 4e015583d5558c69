// Package online has the predictors of run times that the literature uses within a scheduler. It
// also defines how a scheduler uses any [predict.Predictor]. [Expected] is the run time with which
// the scheduler plans. A [Correction] returns a new expectation for a job that has run longer than
// expected.
//
// The predictors and corrections come from Tsafrir, Etsion and Feitelson, "Backfilling using
// system-generated predictions rather than user runtime estimates" (IEEE TPDS 18(6), 2007), and
// from Gaussier, Glesser, Reis and Trystram, "Improving backfilling by using machine learning to
// predict running times" (SC'15). To reproduce the published results, they differ from the
// predictors of package predict: they learn only from jobs that ended by themselves or at their
// time limits.
package online

import (
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// Expected returns the run time with which a scheduler plans: the median in whole seconds, at least
// one second, and at most the time limit.
func Expected(p predict.Prediction, limit time.Duration) time.Duration {
	expected := limit
	if p.P50 < limit.Seconds() {
		expected = time.Duration(p.P50) * time.Second
	}
	return min(max(expected.Truncate(time.Second), time.Second), limit)
}

// Oracle is a predictor that receives the run time of a job before the job is submitted. Other
// predictors never receive it before the job's end.
type Oracle interface {
	predict.Predictor
	// Reveal says how long the job of this number will run.
	Reveal(number int64, run time.Duration)
}

// ran reports whether a job in this state ran until it ended by itself or reached its time limit.
func ran(state hpc.State) bool {
	return state == hpc.Completed || state == hpc.Failed || state == hpc.TimedOut
}

// stateless has the methods of a predictor that learns nothing.
type stateless struct{}

func (stateless) Start(int64, hpc.Time)          {}
func (stateless) End(int64, hpc.Time, hpc.State) {}

// limitOf returns the time limit of a request in seconds; infinity without a limit.
func limitOf(r *hpc.Request) float64 {
	if limit := predict.Limit(r); limit > 0 {
		return limit
	}
	return math.Inf(1)
}

// Requested predicts that every job runs to its time limit, as EASY assumes. Unlike
// [predict.UserLimit], it predicts no end for a job without a limit.
type Requested struct{ stateless }

// Predict implements [predict.Predictor].
func (Requested) Predict(s predict.Submission) predict.Prediction {
	return predict.Point(limitOf(s.Request), s.Request)
}

// Submit implements [predict.Predictor].
func (r Requested) Submit(s predict.Submission) predict.Prediction { return r.Predict(s) }

// Clairvoyant is an [Oracle] that predicts the real run times. Its result bounds the gain of any
// predictor.
type Clairvoyant struct {
	stateless
	runs map[int64]time.Duration // of the jobs that were revealed but not yet submitted
}

// NewClairvoyant returns a predictor without jobs.
func NewClairvoyant() *Clairvoyant { return &Clairvoyant{runs: map[int64]time.Duration{}} }

// Reveal implements [Oracle].
func (c *Clairvoyant) Reveal(number int64, run time.Duration) { c.runs[number] = run }

// Predict implements [predict.Predictor].
func (c *Clairvoyant) Predict(s predict.Submission) predict.Prediction {
	return predict.Point(c.runs[s.Number].Seconds(), s.Request)
}

// Submit implements [predict.Predictor].
func (c *Clairvoyant) Submit(s predict.Submission) predict.Prediction {
	defer delete(c.runs, s.Number)
	return c.Predict(s)
}

// LastTwo predicts the mean run time of the two jobs of the same user that ended last (Tsafrir et al.). For a user
// without two such jobs, LastTwo predicts the time limit; [predict.LastTwo] also uses a single such job.
type LastTwo struct {
	users map[string]*[2]time.Duration // the last and the previous run time; 0 if not known
	jobs  map[int64]*started           // jobs that have not ended
}

// started is a job that has not ended.
type started struct {
	user string
	at   hpc.Time // 0 while it waits
}

// NewLastTwo returns a predictor without jobs.
func NewLastTwo() *LastTwo {
	return &LastTwo{users: map[string]*[2]time.Duration{}, jobs: map[int64]*started{}}
}

// Predict implements [predict.Predictor].
func (p *LastTwo) Predict(s predict.Submission) predict.Prediction {
	last := p.users[s.Request.User]
	if last == nil || last[1] == 0 {
		return predict.Point(limitOf(s.Request), s.Request)
	}
	return predict.Point(((last[0] + last[1]) / 2).Seconds(), s.Request)
}

// Submit implements [predict.Predictor].
func (p *LastTwo) Submit(s predict.Submission) predict.Prediction {
	p.jobs[s.Number] = &started{user: s.Request.User}
	return p.Predict(s)
}

// Start implements [predict.Predictor].
func (p *LastTwo) Start(number int64, at hpc.Time) {
	if job := p.jobs[number]; job != nil {
		job.at = at
	}
}

// End implements [predict.Predictor].
func (p *LastTwo) End(number int64, at hpc.Time, state hpc.State) {
	job := p.jobs[number]
	delete(p.jobs, number)
	if job == nil || job.at == 0 || !ran(state) {
		return
	}
	last := p.users[job.user]
	if last == nil {
		last = &[2]time.Duration{}
		p.users[job.user] = last
	}
	last[1], last[0] = last[0], max(at.Sub(job.at), 1)
}

// Correction returns the new expected run time of a job that has run longer than expected. The
// parameter first is the prediction at its submission, last is the latest expectation, and n is
// the number of earlier corrections. The caller bounds the result by the parameter limit.
type Correction func(first, last, limit time.Duration, n int) time.Duration

// increments are the increments of Tsafrir et al.
var increments = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 20 * time.Hour, 50 * time.Hour, 100 * time.Hour,
}

// Incremental adds to the first prediction: 1 minute at the first correction, 5 minutes at the
// second, and then 15 and 30 minutes and 1, 2, 5, 10, 20, 50 and 100 hours. After that it expects
// the time limit.
func Incremental(first, _, limit time.Duration, n int) time.Duration {
	if n >= len(increments) {
		return limit
	}
	return first + increments[n]
}

// Doubling doubles the last expectation.
func Doubling(_, last, limit time.Duration, _ int) time.Duration {
	if last > limit/2 {
		return limit
	}
	return 2 * last
}

// ToLimit expects that the job runs to its time limit.
func ToLimit(_, _, limit time.Duration, _ int) time.Duration { return limit }
