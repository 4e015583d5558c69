package forecast

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// trained is a model that was trained on everything until an instant. The training data lack the ends of the jobs that
// had not ended at that instant, so the model must still receive these jobs with their ends. Which jobs had not ended
// is known only after the instant, so trained stores the events until the instant and passes them on later.
type trained struct {
	predict.Predictor
	until hpc.Time
	open  map[int64]*heldJob // jobs that were submitted before the instant and had not ended then
	held  []heldEvent        // in the order of time
}

// heldJob is a job that has not been passed to the model.
type heldJob struct {
	number  int64
	request *hpc.Request // a copy; nil once the job has ended or was removed
}

// heldEvent is the submission or the start of a job.
type heldEvent struct {
	job    *heldJob
	at     hpc.Time
	starts bool
}

// Trained returns a [Learner] of a model that was trained on everything until an instant. The model does not learn from
// the events until that instant again, but from later jobs, and from earlier jobs that had not ended by that instant.
func Trained(until hpc.Time, model predict.Predictor) Learner {
	return Modelled{&trained{Predictor: model, until: until, open: map[int64]*heldJob{}}}
}

// Predict is [predict.Predictor.Predict].
func (t *trained) Predict(s predict.Submission) predict.Prediction {
	t.release()
	return t.Predictor.Predict(s)
}

// Submit is [predict.Predictor.Submit].
func (t *trained) Submit(s predict.Submission) predict.Prediction {
	if s.At > t.until {
		t.release()
		return t.Predictor.Submit(s)
	}
	request := *s.Request
	job := &heldJob{s.Number, &request}
	t.open[s.Number] = job
	t.held = append(t.held, heldEvent{job: job, at: s.At})
	return t.Predictor.Predict(s)
}

// Start is [predict.Predictor.Start].
func (t *trained) Start(number int64, at hpc.Time) {
	if job := t.open[number]; at <= t.until && job != nil {
		t.held = append(t.held, heldEvent{job, at, true})
		return
	}
	t.release()
	t.Predictor.Start(number, at)
}

// End is [predict.Predictor.End].
func (t *trained) End(number int64, at hpc.Time, state hpc.State) {
	if job := t.open[number]; at <= t.until && job != nil {
		job.request = nil
		delete(t.open, number)
		return
	}
	t.release()
	t.Predictor.End(number, at, state)
}

// release passes the stored events to the model, except those of jobs that have ended.
func (t *trained) release() {
	for _, e := range t.held {
		switch {
		case e.job.request == nil:
		case e.starts:
			t.Predictor.Start(e.job.number, e.at)
		default:
			t.Predictor.Submit(predict.Submission{Number: e.job.number, At: e.at, Request: e.job.request})
		}
	}
	t.held = nil
	clear(t.open)
}
