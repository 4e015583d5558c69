package sim

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/online"
)

// forecast is a predictor of run times, with the ends of jobs that it has not yet been trained
// with.
type forecast struct {
	predictor predict.Predictor
	correct   online.Correction
	lessons   []lesson // ordered by instant, then by start
	jobs      int64    // number of the last job whose run time was predicted
}

// lesson is the end of a job.
type lesson struct {
	number int64
	at     hpc.Time
	tie    int64 // number of the job's start
	state  hpc.State
}

// prediction is the prediction for a job.
type prediction struct {
	number      int64         // the job's number in the predictor
	first       time.Duration // predicted when the job was submitted
	corrections int
	timer       int // sequence number of the timer for the next correction; 0 without a timer
}

// Predict makes the engine predict run times. [Job.Expected] is then the median that the predictor returns, at least a
// second and at most the time limit. For a job that runs longer than predicted, the function correct computes a new
// expected run time. A job still ends at its time limit, never at its prediction. A policy must call Predict before the
// first job arrives.
//
// Predictions are made when a job is submitted or requeued. The engine passes submissions, starts and ends to the
// predictor, and run times only to an [online.Oracle]. Corrections do not call the policy.
func (m *Machine) Predict(p predict.Predictor, correct online.Correction) {
	m.forecast = &forecast{predictor: p, correct: correct}
}

// predict sets the expected run time of a job that is not running.
func (e *Engine) predict(j *Job) {
	j.Expected = j.Limit
	f := e.machine.forecast
	if f == nil {
		return
	}
	if e.cfg.Ties == ArrivalsFirst { // jobs that end now count as ended after the submission
		f.teach(e.Now())
	} else {
		f.teach(e.Now() + 1)
	}
	f.jobs++
	j.prediction = &prediction{number: f.jobs}
	if oracle, is := f.predictor.(online.Oracle); is {
		oracle.Reveal(f.jobs, min(j.run, j.Limit))
	}
	made := f.predictor.Submit(predict.Submission{Number: f.jobs, At: e.Now(), Request: j.limited()})
	j.Expected = online.Expected(made, j.Limit)
	j.prediction.first = j.Expected
}

// limited returns the job's request with the time limit in force, maybe the partition's limit.
func (j *Job) limited() *hpc.Request {
	r := j.Request
	if r.TimeLimit == j.Limit || r.TimeLimit <= 0 && j.Limit == hpc.Unlimited {
		return r
	}
	changed := *r
	changed.TimeLimit = j.Limit
	return &changed
}

// teach passes the ends of the jobs that ended before an instant to the predictor.
func (f *forecast) teach(before hpc.Time) {
	n := 0
	for n < len(f.lessons) && f.lessons[n].at < before {
		l := f.lessons[n]
		f.predictor.End(l.number, l.at, l.state)
		n++
	}
	f.lessons = slices.Delete(f.lessons, 0, n)
}

// predictStart passes all earlier ends to the predictor, and then a start.
func (e *Engine) predictStart(j *Job) {
	if f := e.machine.forecast; f != nil {
		f.teach(e.Now())
		f.predictor.Start(j.prediction.number, e.Now())
	}
}

// predictEnd records for the predictor that a job ends in a state; a requeued job is pending.
func (e *Engine) predictEnd(j *Job, state hpc.State) {
	f := e.machine.forecast
	if f == nil || j.prediction == nil {
		return
	}
	l := lesson{j.prediction.number, e.Now(), j.entry.Tie(), state}
	at, _ := slices.BinarySearchFunc(f.lessons, l, func(a, b lesson) int {
		return cmp.Or(compareTimes(a.at, b.at), cmp.Compare(a.tie, b.tie))
	})
	f.lessons = slices.Insert(f.lessons, at, l)
	j.prediction = nil
}

// limit changes a job's time limit. It lowers a prediction to the new limit.
func (e *Engine) limit(j *Job, limit time.Duration) {
	j.Limit = limit
	expected := limit
	if j.prediction != nil {
		expected = min(j.Expected, limit)
	}
	if j.state == running {
		e.machine.expect(j, expected)
	} else {
		j.Expected = expected
	}
}

// watch sets the timer for the correction of a running job that will run longer than predicted.
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

// correct corrects the prediction of a job that has run longer than predicted. timer is the number
// of the timer that calls correct. If the job has a newer timer, correct does nothing.
func (e *Engine) correct(j *Job, timer int) {
	p := j.prediction
	if p == nil || p.timer != timer {
		return
	}
	expected := min(e.machine.forecast.correct(p.first, j.Expected, j.Limit, p.corrections), j.Limit)
	if expected <= e.Now().Sub(j.Start) { // the new prediction has passed, too: wait for the limit
		expected = j.Limit
	}
	p.corrections++
	e.machine.expect(j, expected)
	e.watch(j)
}
