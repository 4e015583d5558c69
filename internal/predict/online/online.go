// Package online predicts run times for a scheduler that learns while it works.
//
// A [Predictor] is asked when a job is submitted, and is told when a job starts and ends. Between
// these calls it knows what the scheduler knows: the requests of the submitted jobs, which jobs
// run, and the run times of the jobs that have ended. A [Correction] says what the scheduler
// expects of a job that has run for longer than predicted.
//
// The predictors and corrections are those of Tsafrir, Etsion and Feitelson, "Backfilling using
// system-generated predictions rather than user runtime estimates" (IEEE TPDS 18(6), 2007), and of
// Gaussier, Glesser, Reis and Trystram, "Improving backfilling by using machine learning to predict
// running times" (SC'15).
package online

import (
	"time"

	"rmreplay/internal/hpc"
)

// Job is what a predictor sees of a job.
type Job struct {
	// User is the submitting user. Jobs without a user count as the jobs of one user.
	User string
	// Processors is the number of processors that the job asks for.
	Processors int
	// Limit is its time limit; [hpc.Unlimited] if it has none.
	Limit time.Duration
	// Submit is when it was submitted. Start is when it started; 0 while it waits.
	Submit, Start hpc.Time
	// RunTime is how long it will run, at most Limit. Only [Clairvoyant] reads it.
	RunTime time.Duration
}

// Predictor predicts run times. The instants of its calls never decrease. A job is the same
// pointer in all calls.
type Predictor interface {
	// Predict returns how long a job will run. The job has just been submitted.
	Predict(j *Job) time.Duration
	// Start says that a job has started, at j.Start.
	Start(j *Job)
	// End says that a job has ended. ran says that it ran until it ended by itself or reached
	// its time limit, so that at - j.Start is its run time. Otherwise it was cancelled, or
	// never started.
	End(j *Job, at hpc.Time, ran bool)
}

// Expected returns a prediction as a scheduler uses it: in whole seconds, at least one second, and
// at most the time limit.
func Expected(predicted, limit time.Duration) time.Duration {
	return min(max(predicted.Truncate(time.Second), time.Second), limit)
}

// stateless is the part of a predictor that learns nothing.
type stateless struct{}

func (stateless) Start(*Job)               {}
func (stateless) End(*Job, hpc.Time, bool) {}

// Requested predicts that every job runs to its time limit, as EASY assumes.
type Requested struct{ stateless }

// Predict implements [Predictor].
func (Requested) Predict(j *Job) time.Duration { return j.Limit }

// Clairvoyant knows the run times. It bounds what any predictor can gain.
type Clairvoyant struct{ stateless }

// Predict implements [Predictor].
func (Clairvoyant) Predict(j *Job) time.Duration { return j.RunTime }

// LastTwo predicts the mean run time of the two jobs of the same user that ended last (Tsafrir et
// al.). For a user without two such jobs it predicts the time limit.
type LastTwo struct {
	stateless
	users map[string]*[2]time.Duration // the last run time, and the one before; 0 for none
}

// NewLastTwo returns a predictor that knows no job.
func NewLastTwo() *LastTwo { return &LastTwo{users: map[string]*[2]time.Duration{}} }

// Predict implements [Predictor].
func (p *LastTwo) Predict(j *Job) time.Duration {
	last := p.users[j.User]
	if last == nil || last[1] == 0 {
		return j.Limit
	}
	return min((last[0]+last[1])/2, j.Limit)
}

// End implements [Predictor].
func (p *LastTwo) End(j *Job, at hpc.Time, ran bool) {
	if !ran {
		return
	}
	last := p.users[j.User]
	if last == nil {
		last = &[2]time.Duration{}
		p.users[j.User] = last
	}
	last[1], last[0] = last[0], max(at.Sub(j.Start), 1)
}

// Correction returns how long a job is expected to run that has run for longer than expected. first
// is the prediction at its submission, last is the latest expectation, and n counts the corrections
// before this one. The caller bounds the result by limit.
type Correction func(first, last, limit time.Duration, n int) time.Duration

// increments are those of Tsafrir et al.
var increments = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 20 * time.Hour, 50 * time.Hour, 100 * time.Hour,
}

// Incremental adds 1 minute to the first prediction, then 5, 15 and 30 minutes and 1, 2, 5, 10, 20,
// 50 and 100 hours. After that it expects the time limit.
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
