package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
)

const limited = 10 * time.Hour

var submitted int64 // the number of the last job

// job returns a new job. A limit of [hpc.Unlimited] means that the job has no time limit.
func job(user string, processors int, limit time.Duration, at hpc.Time) predict.Submission {
	submitted++
	r := &hpc.Request{User: user, TimeLimit: limit}
	r.Tasks = processors
	return predict.Submission{Number: submitted, At: at, Request: r}
}

// submit submits a job that will run for took, and returns what was predicted.
func submit(p predict.Predictor, s predict.Submission, took time.Duration) predict.Prediction {
	if oracle, is := p.(Oracle); is {
		oracle.Reveal(s.Number, took)
	}
	return p.Submit(s)
}

// run submits a job, starts it and ends it, and returns what was expected.
func run(p predict.Predictor, user string, at hpc.Time, took time.Duration) time.Duration {
	s := job(user, 2, limited, at)
	predicted := submit(p, s, took)
	p.Start(s.Number, at)
	p.End(s.Number, at.Add(took), hpc.Completed)
	return Expected(predicted, limited)
}

func TestLastTwo(t *testing.T) {
	p := NewLastTwo()
	at := hpc.Second
	for i, step := range []struct {
		user       string
		took, want time.Duration
	}{
		{"ada", 100 * time.Second, limited},
		{"ada", 200 * time.Second, limited}, // one ended job is not enough
		{"ada", 0, 150 * time.Second},
		{"bob", 20 * time.Hour, limited},
		{"ada", 60 * time.Second, 100 * time.Second},
		{"ada", 0, 30 * time.Second},
		{"bob", 40 * time.Hour, limited},
		{"bob", time.Second, limited}, // 30 h, which is above the limit
	} {
		if got := run(p, step.user, at, step.took); got.Truncate(time.Second) != step.want {
			t.Errorf("job %d of %s: %s, want %s", i, step.user, got, step.want)
		}
	}
}

// The predictors of the papers do not learn from jobs that were cancelled or requeued. No predictor
// learns from a job that never started or is requeued.
func TestCancelledJobsAreNoLesson(t *testing.T) {
	for name, p := range predictors() {
		at := 1000 * hpc.Second
		for range 5 {
			run(p, "ada", at, 300*time.Second)
		}
		probe := job("ada", 2, limited, at.Add(time.Hour))
		before := p.Predict(probe)
		for _, end := range []struct {
			starts bool
			state  hpc.State
		}{{true, hpc.Cancelled}, {true, hpc.Pending}, {false, hpc.Cancelled}} {
			if end.state == hpc.Cancelled && end.starts && learnsInLoop(name) {
				continue
			}
			s := job("ada", 2, limited, at.Add(time.Hour))
			submit(p, s, time.Minute)
			if end.starts {
				p.Start(s.Number, s.At)
			}
			p.End(s.Number, at.Add(time.Hour+time.Minute), end.state)
		}
		if after := p.Predict(probe); after != before {
			t.Errorf("%s: %v, and %v after cancelled jobs", name, before, after)
		}
	}
}

// learnsInLoop reports whether a predictor is a model of package model.
func learnsInLoop(name string) bool {
	_, err := model.ParseKind(name)
	return err == nil
}

// predictors returns a new predictor for each value of the option predict.
func predictors() map[string]predict.Predictor {
	list := map[string]predict.Predictor{}
	for _, name := range Values("predict") {
		o := Default()
		_, _ = o.Set("predict", name)
		list[name], _ = o.New(nil)
	}
	return list
}

// TestNoLeak plays random jobs twice. The second time the jobs that have not ended by the last
// submission have other run times. Only the predictions of clairvoyance may change.
func TestNoLeak(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		first := predictors()
		for name, p := range predictors() {
			a, b := history(first[name], seed, 1), history(p, seed, 3)
			if same := slices.Equal(a, b); same == (name == "clairvoyant") {
				rt.Fatalf("%s: %v and with other futures %v", name, a, b)
			}
		}
	})
}

// history returns the predictions of 60 jobs, one every ten minutes, of which every fourth outlives
// the last submission. The run times of these are multiplied by stretch.
func history(p predict.Predictor, seed uint64, stretch time.Duration) (predicted []time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 0))
	type end struct {
		at     hpc.Time
		number int64
	}
	var ends []end
	at := 14 * 24 * 3600 * hpc.Second
	for i := range 60 {
		at = at.Add(10 * time.Minute)
		took := time.Duration(1+rng.IntN(7200)) * time.Second
		if i%4 == 0 {
			took = (20*time.Hour + took) * stretch
		}
		slices.SortStableFunc(ends, func(a, b end) int { return int(a.at.Sub(b.at) / time.Second) })
		for len(ends) > 0 && ends[0].at <= at {
			p.End(ends[0].number, ends[0].at, hpc.Completed)
			ends = ends[1:]
		}
		s := job(string(rune('a'+i%3)), 1+rng.IntN(64), 100*time.Hour, at)
		predicted = append(predicted, Expected(submit(p, s, took), 100*time.Hour))
		p.Start(s.Number, at)
		ends = append(ends, end{at.Add(took), s.Number})
	}
	return predicted
}

func TestCorrections(t *testing.T) {
	const first, limit = 100 * time.Second, 5000 * time.Second
	for name, test := range map[string]struct {
		correct Correction
		want    []time.Duration // seconds
	}{
		"incremental": {Incremental, []time.Duration{160, 400, 1000, 1900, 3700, 5000}},
		"doubling":    {Doubling, []time.Duration{200, 400, 800, 1600, 3200, 5000}},
		"requested":   {ToLimit, []time.Duration{5000}},
	} {
		last := first
		for n, want := range test.want {
			if last = min(test.correct(first, last, limit, n), limit); last != want*time.Second {
				t.Errorf("%s: correction %d is %s, want %s", name, n+1, last, want*time.Second)
			}
		}
	}
	if got := Incremental(first, 0, hpc.Unlimited, 11); got != hpc.Unlimited {
		t.Errorf("the twelfth correction is %s, want no limit", got)
	}
	if got := Doubling(0, hpc.Unlimited-1, hpc.Unlimited, 3); got != hpc.Unlimited {
		t.Errorf("doubling overflows to %s", got)
	}
}

func TestExpected(t *testing.T) {
	for _, test := range []struct {
		predicted   float64
		limit, want time.Duration
	}{
		{0, time.Hour, time.Second},
		{90.001, time.Hour, 90 * time.Second},
		{7200, time.Hour, time.Hour},
		{3600, 90*time.Second + time.Millisecond, 90 * time.Second},
		{3600, time.Millisecond, time.Millisecond},
		{math.Inf(1), hpc.Unlimited, hpc.Unlimited.Truncate(time.Second)},
		{1e300, hpc.Unlimited, hpc.Unlimited.Truncate(time.Second)},
		{math.NaN(), time.Hour, time.Hour},
	} {
		if got := Expected(predict.Prediction{P50: test.predicted}, test.limit); got != test.want {
			t.Errorf("Expected(%g, %d) = %d, want %d", test.predicted, test.limit, got, test.want)
		}
	}
}

// One feature of value 1 and squared loss: the first step of NAG is worked out by hand. s becomes 1,
// N becomes 1e-9 + 1, the derivative is 2 (0 - y), and the step is
// rate * derivative / sqrt(N * derivative^2), which is rate / sqrt(N) whatever y is.
func TestFirstStep(t *testing.T) {
	d := newDescent(1)
	d.learn([]float64{1}, 7, Loss{OverSquared: true, UnderSquared: true}, 1)
	if want := learningRate / math.Sqrt(1+small); math.Abs(d.weights[0]-want) > 1e-6 {
		t.Errorf("the weight is %v, want %v", d.weights[0], want)
	}
	if d.steps != 3 || d.scales[0] != 1 || math.Abs(d.gradient[0]-14*14) > 1e-6 {
		t.Errorf("after a step: %+v", d)
	}
}

// NAG does not depend on the units of the features (Ross et al., theorem 1): with a feature in
// milliseconds instead of seconds, the predictions are the same. Regularization breaks this, so the
// test makes only the first step, in which the weights are still 0.
func TestScaleInvariance(t *testing.T) {
	a, b := newDescent(2), newDescent(2)
	loss := Loss{OverSquared: true}
	a.learn([]float64{1, 5}, 20, loss, 1)
	b.learn([]float64{1, 5000}, 20, loss, 1)
	if p, q := a.predict([]float64{1, 3}), b.predict([]float64{1, 3000}); math.Abs(p/q-1) > 1e-9 {
		t.Errorf("%v in seconds, %v in milliseconds", p, q)
	}
}

// TestSlopes compares the derivatives of the loss functions with difference quotients.
func TestSlopes(t *testing.T) {
	value := func(l Loss, e, weight float64) float64 {
		if e > 0 && l.OverSquared || e < 0 && l.UnderSquared {
			return weight * e * e
		}
		return weight * math.Abs(e)
	}
	rapid.Check(t, func(rt *rapid.T) {
		l := Loss{OverSquared: rapid.Bool().Draw(rt, "over"), UnderSquared: rapid.Bool().Draw(rt, "under")}
		e := rapid.Float64Range(1, 100).Draw(rt, "error")
		if rapid.Bool().Draw(rt, "short") {
			e = -e
		}
		v, weight := rapid.Float64Range(0.5, 20).Draw(rt, "value"), rapid.Float64Range(0.1, 10).Draw(rt, "weight")
		const h = 1e-6
		want := (value(l, e+v*h, weight) - value(l, e-v*h, weight)) / (2 * h)
		if got := l.slope(e, v, weight); math.Abs(got-want) > 1e-4*math.Abs(want)+1e-4 {
			rt.Fatalf("%+v at %g: %g, want %g", l, e, got, want)
		}
	})
	if got := ELoss.slope(0, 5, 2); got != 0 {
		t.Errorf("a right prediction has the slope %g", got)
	}
}

func TestWeights(t *testing.T) {
	for name, want := range map[string]float64{
		"constant": 1, "short-wide": 5 + math.Log(4/100.0), "long-narrow": 5 + math.Log(100/4.0),
		"small-area": 11 - math.Log(400), "large-area": 1 + math.Log(400),
	} {
		o := Default()
		if _, err := o.Set("weight", name); err != nil {
			t.Fatal(err)
		}
		if got := o.loss.Weight(4, 100); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
}

// The features of one job, worked out by hand.
func TestFeatures(t *testing.T) {
	for history, last := range map[History][3]float64{SinceSubmit: {700, 900, 1000}, RunTimes: {50, 20, 10}} {
		p := NewRegression(ELoss, history)
		zero := 14 * 24 * 3600 * hpc.Second // a multiple of a week, so that the angles follow from the seconds
		at := func(s int) hpc.Time { return zero.Add(time.Duration(s) * time.Second) }
		for i, took := range []int{10, 20, 50} {
			submitted := []int{0, 100, 300}[i]
			s := job("ada", 1<<i, time.Hour, at(submitted))
			p.Submit(s)
			p.Start(s.Number, at(submitted+5))
			p.End(s.Number, at(submitted+5+took), hpc.Completed)
		}
		for i, start := range []int{400, 900} {
			s := job("ada", 3+i, time.Hour, at(start))
			p.Submit(s)
			p.Start(s.Number, at(start))
		}
		x := p.describe(job("ada", 14, time.Hour, at(1000)))
		day, week := 2*math.Pi*1000/86400, 2*math.Pi*1000/604800
		want := features{
			1, last[0], last[1], last[2], 3600, (last[0] + last[1]) / 2, 0.33 * (last[0] + last[1] + last[2]), 80.0 / 3,
			645, 6, 7, 700, 2, 600, math.Cos(day), math.Sin(day), math.Cos(week), math.Sin(week), 14,
		}
		for i := range want {
			if math.Abs(x[i]-want[i]) > 1e-9 {
				t.Errorf("history %d: feature %d is %g, want %g", history, i, x[i], want[i])
			}
		}
		poly := p.polynomial(x)
		if len(poly) != expanded || expanded != 19+120+18 {
			t.Errorf("%d features, want %d", len(poly), expanded)
		}
	}
}

// The expected run time stays between 0 and the limit, even for jobs without a user, a time limit
// or a duration, and for jobs of huge size.
func TestHostile(t *testing.T) {
	for name, p := range predictors() {
		at := hpc.Second
		for i := range 200 {
			limit, took := []time.Duration{hpc.Unlimited, time.Nanosecond, time.Hour}[i%3], time.Duration(i%2)*time.Second
			s := job("", i%3*math.MaxInt32, limit, at)
			if got := Expected(submit(p, s, took), limit); got <= 0 || got > limit {
				t.Fatalf("%s: job %d is expected to run %d, with a limit of %d", name, i, got, limit)
			}
			p.Start(s.Number, at)
			p.End(s.Number, at.Add(took), hpc.Completed)
			at = at.Add(time.Duration(i) * time.Hour)
		}
	}
}

// The regression learns the run time of a user whose jobs all run equally long.
func TestLearns(t *testing.T) {
	p := NewRegression(Loss{Weight: Constant}, RunTimes)
	var last time.Duration
	for i := range 400 {
		last = run(p, "ada", hpc.Time(i)*3600*hpc.Second, 600*time.Second)
	}
	if last < 300*time.Second || last > 1200*time.Second {
		t.Errorf("after 400 runs of 600 s: %s", last)
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct{ options, wrong string }{
		{"predict=last-two", ""},
		{"predict=nag,over=linear,under=square,weight=short-wide,history=run-times,correct=doubling", ""},
		{"correct=doubling", "predict is missing (want predict=requested, predict=last-two"},
		{"predict=model:kth.model,correct=doubling", ""},
		{"predict=model:", "predict=model:: not a value of predict"},
		{"predict=model:kth.model,under=square", "predict=model:kth.model does not have the options"},
		{"predict=requested,weight=constant", "predict=requested does not have the options"},
		{"predict=oracle", "predict=oracle: not a value of predict (want requested, last-two, clairvoyant, nag, class"},
		{"colour=red", "unknown"},
	} {
		o, wrong := Default(), ""
		for option := range strings.SplitSeq(test.options, ",") {
			name, value, _ := strings.Cut(option, "=")
			known, err := o.Set(name, value)
			if err != nil {
				wrong = err.Error()
			} else if !known {
				wrong = "unknown"
			}
		}
		if wrong == "" {
			if err := o.Check(true); err != nil {
				wrong = err.Error()
			}
		}
		if (test.wrong == "") != (wrong == "") || !strings.HasPrefix(wrong, test.wrong) {
			t.Errorf("%s: %q, want %q", test.options, wrong, test.wrong)
		}
	}
	o := Default()
	if err := o.Check(false); err != nil {
		t.Error(err)
	}
	if p, c := o.New(nil); p != nil || c != nil {
		t.Error("the default predicts")
	}
}

// BenchmarkRegression measures one prediction and one learning step.
func BenchmarkRegression(b *testing.B) {
	p := NewRegression(ELoss, SinceSubmit)
	at := hpc.Second
	b.ReportAllocs()
	for b.Loop() {
		run(p, "ada", at, time.Hour)
		at = at.Add(time.Hour)
	}
}
