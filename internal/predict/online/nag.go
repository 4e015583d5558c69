package online

import (
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// Regression is the learner of Gaussier et al. (SC'15) in the form of their published program
// (predictsim). It is a linear regression on features of the job, of its user's history and of its
// user's running jobs, and on the squares and products of these features. It learns from a job when
// the job ends, by one step of normalized adaptive gradient descent (NAG: Ross, Mineiro and
// Langford, "Normalized online learning", UAI 2013, algorithm 2) on a weighted asymmetric loss with
// L2 regularization.
type Regression struct {
	loss    Loss
	history History
	users   map[string]*user
	seen    map[int64]*learned // the jobs that have not ended
	expand  []float64          // scratch: the expanded features of one job
	descent
}

// Loss is the loss of one job with the error e in seconds (predicted minus real run time): weight *
// |e| or weight * e^2.
type Loss struct {
	// OverSquared says that errors above 0 count by their squares, and UnderSquared that errors below 0 count by their
	// squares; otherwise errors count by their absolute values.
	OverSquared, UnderSquared bool
	Weight                    Weight
}

// ELoss is the loss that the paper calls E-Loss. Predictions that are too long count by their squares, predictions
// that are too short by their absolute values, and jobs of a large area count more than others. The paper's text
// was not available, so the loss was identified by the results in the authors' files (predictsim, sim_analysis).
var ELoss = Loss{OverSquared: true, Weight: LargeArea}

// Weight is the weight of a job in the loss, from its processors and its run time in seconds
// (as in predictsim).
type Weight func(processors, seconds float64) float64

// Constant gives all jobs the same weight.
func Constant(_, _ float64) float64 { return 1 }

// ShortWide is 5 + log(processors / seconds).
func ShortWide(m, r float64) float64 { return 5 + math.Log(m/r) }

// LongNarrow is 5 + log(seconds / processors).
func LongNarrow(m, r float64) float64 { return 5 + math.Log(r/m) }

// SmallArea is 11 + log(1 / (seconds x processors)).
func SmallArea(m, r float64) float64 { return 11 + math.Log(1/(r*m)) }

// LargeArea is 1 + log(seconds x processors).
func LargeArea(m, r float64) float64 { return 1 + math.Log(m*r) }

// History says which times of a user's last three jobs the features use.
type History uint8

const (
	// SinceSubmit is the time since the user's last three jobs were submitted, as in the program that made the paper's
	// results (github.com/jad-darrous/predictsim, predictor_sgdlinear.py).
	SinceSubmit History = iota
	// RunTimes are the run times of the user's last three jobs, as in the paper.
	RunTimes
)

// NewRegression returns a learner without jobs. Its first prediction is one second.
func NewRegression(loss Loss, history History) *Regression {
	return &Regression{loss: loss, history: history, users: map[string]*user{}, seen: map[int64]*learned{},
		descent: newDescent(expanded)}
}

// user is the data that a scheduler has about a user.
type user struct {
	last                  []ended // the last three jobs, the latest first
	jobs, seconds, widths float64 // sums over all ended jobs: their number, run times and processors
	lastEnd               hpc.Time
	running               []*learned
}

// learned is a job that will be learned when it ends.
type learned struct {
	x             *features
	user          *user
	submit, start hpc.Time // start is 0 while it waits
}

// ended is a job that has ended.
type ended struct {
	submit hpc.Time
	ran    time.Duration
}

// The features of a job (table 2 of the paper). Times are seconds. Without a time limit, the
// features that need it are 0.
const (
	one = iota // makes the model affine
	// Values of the last three jobs of the user ([History]). Each value is at most the time limit.
	// For a missing job, the value is the time limit.
	last1
	last2
	last3
	limit
	mean2 // the mean of last1 and last2; last1 with fewer than two jobs
	mean3 // 0.33 x (last1 + last2 + last3); mean2 with fewer than three jobs
	userMean
	sinceEnd   // seconds since the end of the user's last job
	widthRatio // processors, divided by the user's mean
	runningProcessors
	runningTime
	runningJobs
	longestRunning
	dayCos // the angle of the submission's second of the day
	daySin
	weekCos
	weekSin
	processors
	base // the number of features

	// products is the number of products of two different features from last1 to weekCos, and squares
	// the number of squares of features from last1 to processors.
	products = weekCos * (weekCos - 1) / 2
	squares  = processors
	expanded = base + products + squares
)

// features are the features of one job at its submission.
type features [base]float64

// Predict implements [predict.Predictor].
func (p *Regression) Predict(s predict.Submission) predict.Prediction {
	return p.predictFrom(p.describe(s), s)
}

// predictFrom predicts from a job's features.
func (p *Regression) predictFrom(x *features, s predict.Submission) predict.Prediction {
	seconds := math.Abs(p.predict(p.polynomial(x)))
	if most := float64(math.MaxInt64 / time.Second); !(seconds < most) { // also true for NaN
		seconds = limitOf(s.Request)
	}
	return predict.Point(math.Trunc(seconds), s.Request)
}

// Submit implements [predict.Predictor].
func (p *Regression) Submit(s predict.Submission) predict.Prediction {
	x := p.describe(s)
	p.seen[s.Number] = &learned{x: x, user: p.user(s), submit: s.At}
	return p.predictFrom(x, s)
}

// Start implements [predict.Predictor].
func (p *Regression) Start(number int64, at hpc.Time) {
	if j := p.seen[number]; j != nil && j.start == 0 {
		j.start = at
		j.user.running = append(j.user.running, j)
	}
}

// End implements [predict.Predictor].
func (p *Regression) End(number int64, at hpc.Time, state hpc.State) {
	j := p.seen[number]
	if j == nil {
		return
	}
	delete(p.seen, number)
	u := j.user
	u.running = slices.DeleteFunc(u.running, func(k *learned) bool { return k == j })
	if j.start == 0 || !ran(state) {
		return
	}
	took := at.Sub(j.start)
	u.last = append([]ended{{j.submit, took}}, u.last[:min(len(u.last), 2)]...)
	u.jobs++
	u.seconds += took.Seconds()
	u.widths += j.x[processors]
	u.lastEnd = at
	if took >= time.Second { // the weights are logarithms
		p.learn(p.polynomial(j.x), took.Seconds(), p.loss, p.loss.Weight(j.x[processors], took.Seconds()))
	}
}

// user returns the user of a job.
func (p *Regression) user(s predict.Submission) *user {
	u := p.users[s.Request.User]
	if u == nil {
		u = &user{}
		p.users[s.Request.User] = u
	}
	return u
}

// describe returns the features of a job that is submitted now.
func (p *Regression) describe(s predict.Submission) *features {
	u, now := p.user(s), s.At
	x := &features{one: 1, processors: predict.Processors(s.Request), limit: predict.Limit(s.Request)}
	most := limitOf(s.Request)
	for i := range 3 {
		x[last1+i] = x[limit]
		if i < len(u.last) {
			d := u.last[i].ran
			if p.history == SinceSubmit {
				d = now.Sub(u.last[i].submit)
			}
			x[last1+i] = min(d.Seconds(), most)
		}
	}
	x[mean2] = x[last1]
	if len(u.last) > 1 {
		x[mean2] = 0.5 * (x[last1] + x[last2])
	}
	x[mean3] = x[mean2]
	if len(u.last) > 2 {
		x[mean3] = 0.33 * (x[last1] + x[last2] + x[last3])
	}
	if u.jobs > 0 {
		x[userMean] = u.seconds / u.jobs
		x[sinceEnd] = now.Sub(u.lastEnd).Seconds()
		x[widthRatio] = x[processors] / (u.widths / u.jobs)
	}
	for _, k := range u.running {
		elapsed := now.Sub(k.start).Seconds()
		x[runningProcessors] += k.x[processors]
		x[runningTime] += elapsed
		x[runningJobs]++
		x[longestRunning] = max(x[longestRunning], elapsed)
	}
	const day = 24 * 60 * 60
	x[daySin], x[dayCos] = math.Sincos(angle(now, day))
	x[weekSin], x[weekCos] = math.Sincos(angle(now, 7*day))
	return x
}

// angle returns the angle of an instant in a period that is given in seconds.
func angle(t hpc.Time, period int64) float64 {
	return 2 * math.Pi * float64(int64(t/hpc.Second)%period) / float64(period)
}

// polynomial returns the features, the products and the squares. They are valid until the next call.
func (p *Regression) polynomial(x *features) []float64 {
	list := p.expand[:0]
	list = append(list, x[:]...)
	for a := last1; a <= weekCos; a++ {
		for b := a + 1; b <= weekCos; b++ {
			list = append(list, x[a]*x[b])
		}
	}
	for k := last1; k <= processors; k++ {
		list = append(list, x[k]*x[k])
	}
	p.expand = list
	return list
}

// descent is a linear model under normalized adaptive gradient descent. The conversions to float64
// prevent compilers from fusing operations, so that all machines have the same results.
type descent struct {
	weights  []float64
	scales   []float64 // the largest absolute value of each feature so far
	gradient []float64 // the sum of the squares of each derivative
	norm     float64   // the sum of the squares of the scaled features
	steps    float64
}

// The learning rate and the regularization come from the paper's artefact
// (experiments/experiment_dicts_kth.py). Two further rules are also from there: sums begin with a
// small number, and the field steps begins at 1 and grows by 2.
const (
	learningRate   = 5000
	regularization = 4e9
	small          = 1e-9
)

func newDescent(n int) descent {
	d := descent{weights: make([]float64, n), norm: small, steps: 1}
	d.scales, d.gradient = slices.Repeat([]float64{small}, n), slices.Repeat([]float64{small}, n)
	return d
}

// predict returns the model's value.
func (d *descent) predict(x []float64) float64 {
	sum := 0.0
	for i, w := range d.weights {
		sum += float64(w * x[i])
	}
	return sum
}

// learn makes one step that moves the prediction for x towards y.
func (d *descent) learn(x []float64, y float64, loss Loss, weight float64) {
	norm := 0.0
	for i, v := range x {
		if v = math.Abs(v); v > d.scales[i] {
			d.weights[i] *= d.scales[i] / v
			d.scales[i] = v
		}
		norm += float64(v*v) / float64(d.scales[i]*d.scales[i])
	}
	d.norm += norm
	e := d.predict(x) - y
	for i, v := range x {
		g := float64(loss.slope(e, v, weight)) + float64(regularization*d.weights[i])
		d.gradient[i] += float64(g * g)
		d.weights[i] -= learningRate * g / float64(math.Sqrt(d.norm*d.gradient[i]/d.steps)*d.scales[i])
	}
	d.steps += 2
}

// slope returns the derivative of the loss with respect to the weight of a feature. The parameter v
// is the feature's value.
func (l Loss) slope(e, v, weight float64) float64 {
	switch {
	case e > 0 && l.OverSquared, e < 0 && l.UnderSquared:
		return weight * float64(2*v*e)
	case e > 0:
		return weight * v
	case e < 0:
		return -weight * v
	}
	return 0
}
