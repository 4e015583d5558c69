package model

import (
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/trees"
)

// Options are the choices of an [Online] predictor.
type Options struct {
	Kind   Kind
	Target predict.Target
	Seed   uint64
	// The model is trained again on all ended jobs when their number has grown by the share Growth
	// (0.1 is 10 %). If Every is not 0, this time must also have passed since the last training. If
	// Growth is 0, the model is never trained again.
	Growth float64
	Every  time.Duration
	// Window is the largest number of jobs for training: the last jobs that ended. 0 means
	// DefaultWindow.
	Window int
	// First is the number of ended jobs at which a model is first trained; 0 means 200.
	First int
	// Given, if not nil, returns another program's prediction for the job with this number. The other program's prediction
	// replaces the model's prediction, and is then calibrated.
	Given func(number int64) (p predict.Prediction, ok bool)
}

const (
	// DefaultWindow is the number of jobs to train on if Options.Window is 0.
	DefaultWindow = 1000000
	// firstTraining is the number of ended jobs at which a model is trained first.
	firstTraining = 200
)

// describer receives the events, and computes the features of submissions from the events so far.
type describer interface {
	Vector(s predict.Submission, x []float32) []float32
	Submit(predict.Submission)
	Start(number int64, at hpc.Time)
	Measure(number int64, value float64)
	End(number int64, at hpc.Time, state hpc.State) (value float64, known bool)
}

// Online is a [predict.Predictor] with a model of any [Kind]. Before the first training, Online makes the predictions
// of [predict.LastTwo].
type Online struct {
	Options
	simple    measuring
	history   describer // nil for a kind that is not trained
	fitted    *fitted
	conformal conformal
	mixture   mixture
	open      map[int64]*asked
	table     trees.Table
	final     bool // the model is never trained again
	trainings int
	trainedAt hpc.Time
	trainedOn int // the number of rows at the last training
	seen      int // the number of rows so far, including rows that the window has dropped
	err       error
	x         []float32
	check     checks
}

// checks has sums over the predictions of the trained model.
type checks struct{ jobs, errors, covered float64 }

func (c *checks) mean() Check {
	if c.jobs == 0 {
		return Check{}
	}
	return Check{Jobs: int(c.jobs), MAE: c.errors / c.jobs, Coverage: c.covered / c.jobs}
}

// asked is a job for which a prediction was made.
type asked struct {
	prediction predict.Prediction
	raw        predict.Prediction // before calibration
	trained    bool               // a trained model made the prediction
	user       string
	candidates candidates // the candidates of boosting
	x          []float32  // the features, unless the model is never trained again
	start      hpc.Time
	value      float64 // the value of a measured target
	measured   bool
}

// NewOnline returns an untrained predictor without a history.
func NewOnline(o Options) *Online {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.First == 0 {
		o.First = firstTraining
	}
	online := &Online{Options: o, simple: simple(o.Kind, o.Target), open: map[int64]*asked{}}
	if o.Kind.Trained() {
		online.history = features.New(o.Target)
		online.table.Width = features.Count
	}
	return online
}

// Err returns the first error of a training. Predictions then continue with the previous model.
func (o *Online) Err() error { return o.err }

// Trainings returns how often the model was trained.
func (o *Online) Trainings() int { return o.trainings }

// Predict is [predict.Predictor.Predict].
func (o *Online) Predict(s predict.Submission) predict.Prediction {
	if o.fitted != nil {
		o.x = o.history.Vector(s, o.x)
	}
	p, _ := o.predict(s, o.x)
	return o.conformal.apply(p)
}

// predict returns the prediction for a submission with the features x, before calibration. For
// boosting it also returns the candidates of the median.
func (o *Online) predict(s predict.Submission, x []float32) (p predict.Prediction, c candidates) {
	limit := o.Target.Limit(s.Request)
	if o.Given != nil {
		if p, ok := o.Given(s.Number); ok {
			p.Limit = limit
			return p.Sound(), c
		}
	}
	switch {
	case o.fitted == nil:
		p = o.simple.Predict(s)
	case o.fitted.Boost != nil:
		c = o.fitted.Boost.candidates(x).within(limit)
		p = predict.Prediction{P50: o.mixture.mean(s.Request.User, c), Limit: limit}
		p.P10, p.P90 = o.fitted.Boost.bounds(x)
		p = p.Sound()
	default:
		p = o.fitted.predict(x, limit)
	}
	return p, c
}

// Submit is [predict.Predictor.Submit].
func (o *Online) Submit(s predict.Submission) predict.Prediction {
	job := &asked{trained: o.fitted != nil, user: s.Request.User}
	var x []float32
	switch {
	case o.history == nil:
	case o.final:
		o.x = o.history.Vector(s, o.x)
		x = o.x
	default:
		job.x = o.history.Vector(s, make([]float32, 0, features.Count))
		x = job.x
	}
	job.raw, job.candidates = o.predict(s, x)
	job.prediction = o.conformal.apply(job.raw)
	o.open[s.Number] = job
	o.simple.Submit(s)
	if o.history != nil {
		o.history.Submit(s)
	}
	return job.prediction
}

// Start is [predict.Predictor.Start].
func (o *Online) Start(number int64, at hpc.Time) {
	if job := o.open[number]; job != nil {
		job.start = at
	}
	o.simple.Start(number, at)
	if o.history != nil {
		o.history.Start(number, at)
	}
}

// Measure is [predict.Measurer.Measure].
func (o *Online) Measure(number int64, value float64) {
	if job := o.open[number]; job != nil {
		job.value, job.measured = value, true
	}
	o.simple.Measure(number, value)
	if o.history != nil {
		o.history.Measure(number, value)
	}
}

// End is [predict.Predictor.End]. It trains the model again when a training is due.
func (o *Online) End(number int64, at hpc.Time, state hpc.State) {
	job := o.open[number]
	delete(o.open, number)
	o.simple.End(number, at, state)
	if o.history != nil {
		o.history.End(number, at, state)
	}
	if job == nil || job.start == 0 || state == hpc.Pending || o.Target.Measured() && !job.measured {
		return
	}
	value := job.value
	if !o.Target.Measured() {
		value = max(at.Sub(job.start).Seconds(), 0)
	}
	o.conformal.learn(job.raw, job.prediction, value)
	if job.trained {
		o.check.jobs++
		o.check.errors += math.Abs(job.prediction.P50 - value)
		if job.prediction.P10 <= value && value <= job.prediction.P90 {
			o.check.covered++
		}
	}
	if o.history == nil {
		return
	}
	if job.trained && o.Kind == Boost {
		o.mixture.learn(job.user, job.candidates, value)
	}
	if o.final {
		return
	}
	o.table.X = append(o.table.X, job.x...)
	o.table.Y = append(o.table.Y, value)
	o.seen++
	if o.due(at) {
		o.train(at)
	}
}

// due reports whether the model is to be trained.
func (o *Online) due(now hpc.Time) bool {
	if o.trainings == 0 {
		return o.seen >= o.First
	}
	return o.Growth > 0 && float64(o.seen) >= (1+o.Growth)*float64(o.trainedOn) && now.Sub(o.trainedAt) >= o.Every
}

func (o *Online) train(now hpc.Time) {
	if over := o.table.Len() - o.Window; over > 0 {
		o.table.X = append(o.table.X[:0], o.table.X[over*o.table.Width:]...)
		o.table.Y = append(o.table.Y[:0], o.table.Y[over:]...)
	}
	o.trainings++
	o.trainedAt, o.trainedOn = now, o.seen
	fitted, err := fit(o.Kind, &o.table, o.Seed)
	if err != nil {
		if o.err == nil {
			o.err = err
		}
		return
	}
	o.fitted = fitted
}
