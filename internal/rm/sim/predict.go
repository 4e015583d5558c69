package sim

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict/online"
)

// forecast is a predictor with what it has to be told.
type forecast struct {
	predictor online.Predictor
	correct   online.Correction
	lessons   []lesson // that the predictor has not heard, by instant, and by start
}

// lesson is the end of a job.
type lesson struct {
	job *online.Job
	at  hpc.Time
	tie int64 // the number of its start
	ran bool
}

// prediction is what was predicted of a job.
type prediction struct {
	job         online.Job
	first       time.Duration // at its submission
	corrections int
	timer       int // the sequence number of the timer of the next one; 0 for none
}

// Predict makes the engine predict run times. [Job.Expected] is then what the predictor returns,
// between a second and the time limit, and not the time limit. A job that has run for longer is
// expected to run for as long as correct says. A job still ends at its time limit, never at its
// prediction. A policy calls Predict before the first job arrives.
//
// Predictions are made when a job is submitted, or requeued. The policy is not asked after a
// correction.
func (m *Machine) Predict(p online.Predictor, correct online.Correction) {
	m.forecast = &forecast{predictor: p, correct: correct}
}

// predict sets how long a job that does not run is expected to run.
func (e *Engine) predict(j *Job) {
	j.Expected = j.Limit
	f := e.machine.forecast
	if f == nil {
		return
	}
	f.teach(e.cfg.Ties, e.Now())
	j.prediction = &prediction{job: online.Job{
		User: j.Request.User, Processors: j.Size, Limit: j.Limit, Submit: e.Now(), RunTime: min(j.run, j.Limit),
	}}
	j.Expected = online.Expected(f.predictor.Predict(&j.prediction.job), j.Limit)
	j.prediction.first = j.Expected
}

// teach tells the predictor of ended jobs. With [ArrivalsFirst] it leaves out those that end at the
// instant of a submission, since they end after it.
func (f *forecast) teach(ties Ties, now hpc.Time) {
	n := 0
	for n < len(f.lessons) && (f.lessons[n].at < now || ties != ArrivalsFirst) {
		l := f.lessons[n]
		f.predictor.End(l.job, l.at, l.ran)
		n++
	}
	f.lessons = slices.Delete(f.lessons, 0, n)
}

// predictStart tells the predictor of a start.
func (e *Engine) predictStart(j *Job) {
	if f := e.machine.forecast; f != nil {
		j.prediction.job.Start = e.Now()
		f.predictor.Start(&j.prediction.job)
	}
}

// predictEnd notes for the predictor that a job ends in a state, or is requeued.
func (e *Engine) predictEnd(j *Job, state hpc.State) {
	f := e.machine.forecast
	if f == nil || j.prediction == nil {
		return
	}
	ran := state == hpc.Completed || state == hpc.Failed || state == hpc.TimedOut
	l := lesson{&j.prediction.job, e.Now(), j.tie, j.state == running && ran}
	at, _ := slices.BinarySearchFunc(f.lessons, l, func(a, b lesson) int {
		return cmp.Or(compareTimes(a.at, b.at), cmp.Compare(a.tie, b.tie))
	})
	f.lessons = slices.Insert(f.lessons, at, l)
	j.prediction = nil
}

// limit changes a job's time limit. A prediction stays, up to the limit.
func (e *Engine) limit(j *Job, limit time.Duration) {
	j.Limit = limit
	expected := limit
	if j.prediction != nil {
		j.prediction.job.Limit = limit
		expected = min(j.Expected, limit)
	}
	if j.state == running {
		e.machine.expect(j, expected)
	} else {
		j.Expected = expected
	}
}

// watch sets the timer for the correction of a running job that will outlive its prediction.
func (e *Engine) watch(j *Job) {
	p := j.prediction
	if p == nil {
		return
	}
	p.timer = 0
	if min(j.end, after(j.Start, j.Limit)) > j.Due {
		p.timer = e.timers.add(max(j.Due, e.Now()), jobOutlives, j, nil)
	}
}

// correct corrects the prediction of a job that has outlived it, if its timer is this one.
func (e *Engine) correct(j *Job, timer int) {
	p := j.prediction
	if p == nil || p.timer != timer {
		return
	}
	expected := min(e.machine.forecast.correct(p.first, j.Expected, j.Limit, p.corrections), j.Limit)
	if expected <= e.Now().Sub(j.Start) { // only time can pass
		expected = j.Limit
	}
	p.corrections++
	e.machine.expect(j, expected)
	e.watch(j)
}
