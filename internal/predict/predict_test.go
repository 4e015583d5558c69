package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func TestQuantileAndProbability(t *testing.T) {
	p := Prediction{P10: 60, P50: 600, P90: 5000, Limit: 7200}
	for q, want := range map[float64]float64{0.1: 60, 0.5: 600, 0.9: 5000, 1: 7200} {
		if got := p.Quantile(q); math.Abs(got-want) > 1e-6*want {
			t.Errorf("Quantile(%g) = %g, want %g", q, got, want)
		}
	}
	for _, q := range []float64{0.01, 0.1, 0.3, 0.5, 0.7, 0.9} {
		if got := p.Probability(p.Quantile(q)); math.Abs(got-q) > 1e-9 {
			t.Errorf("Probability(Quantile(%g)) = %g", q, got)
		}
	}
	if got := p.QuantileAfter(0.5, 600); math.Abs(got-p.Quantile(0.75)) > 1e-6 {
		t.Errorf("after the median, half of the rest: %g, want %g", got, p.Quantile(0.75))
	}
	if got := p.QuantileAfter(0.5, 9000); got != 9000 {
		t.Errorf("after the limit: %g", got)
	}
	point := Prediction{P10: 5, P50: 5, P90: 5}
	if point.Quantile(0.99) != 5 || point.Probability(4.9) != 0 || point.Probability(5) != 1 {
		t.Error("a single number is not a distribution of one value")
	}
}

// TestQuantileAfterTail computes quantiles for jobs that have run for some time, up to 36 deviates
// above the median. The quantiles rise with q, are finite, and lie between the elapsed time and the
// limit. Below 4 deviates they equal quantiles of the whole distribution.
func TestQuantileAfterTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Prediction{P50: math.Exp(rapid.Float64Range(0, 12).Draw(t, "median"))}
		p.P10 = p.P50 * math.Exp(-rapid.Float64Range(0, 3).Draw(t, "below"))
		p.P90 = p.P50 * math.Exp(rapid.Float64Range(0.01, 3).Draw(t, "above"))
		z := rapid.Float64Range(-3, 36).Draw(t, "deviates")
		slope := (math.Log1p(p.P90) - math.Log1p(p.P50)) / deviates
		if z < 0 {
			slope = (math.Log1p(p.P50) - math.Log1p(p.P10)) / deviates
		}
		elapsed := max(math.Expm1(math.Log1p(p.P50)+slope*z), 0)
		if rapid.Bool().Draw(t, "limited") {
			p.Limit = elapsed*rapid.Float64Range(1.01, 100).Draw(t, "limit") + p.P90
		}
		before := elapsed
		for q := 0.0; q < 1; q += 1.0 / 16 {
			got := p.QuantileAfter(q, elapsed)
			if !(got >= before*(1-1e-12) && got >= elapsed) || math.IsInf(got, 0) || p.Limit > 0 && got > p.Limit {
				t.Fatalf("%+v after %g s (%g deviates): the quantile %g is %g s, and the one before %g s", p, elapsed, z, q, got, before)
			}
			before = got
			if ran := p.Probability(elapsed); z < 4 {
				if want := max(elapsed, p.Quantile(ran+q*(1-ran))); math.Abs(got-want) > 1e-6*want {
					t.Fatalf("%+v after %g s: the quantile %g is %g s, want %g s", p, elapsed, q, got, want)
				}
			}
		}
		if z > 0.1 && before <= elapsed {
			t.Fatalf("%+v after %g s (%g deviates): all quantiles are what has passed", p, elapsed, z)
		}
	})
	p := Prediction{P10: 60, P50: 600, P90: 5000}
	for _, elapsed := range []float64{1e30, math.Inf(1)} {
		if got := p.QuantileAfter(0.5, elapsed); got != elapsed {
			t.Errorf("after %g s: %g", elapsed, got)
		}
	}
}

func TestSound(t *testing.T) {
	got := Prediction{P10: 50, P50: 20, P90: math.NaN(), Limit: 30}.Sound()
	if want := (Prediction{20, 20, 20, 30}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (Prediction{P10: math.Inf(-1), P50: math.Inf(1), P90: 7, Limit: 30}).Sound(); got.P50 != 30 || got.P10 != 0 {
		t.Errorf("infinite quantiles: %v", got)
	}
}

// job makes a job that was submitted at the second at, waited for wait seconds and ran for ran
// seconds.
func job(id, user string, at, wait, ran int64) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: hpc.Unix(at)}
	j.User, j.Tasks, j.TimeLimit = user, 1, 1000*time.Second
	j.RunTime = time.Duration(ran) * time.Second
	start := hpc.Unix(at + wait)
	j.Recorded = &hpc.Recorded{Start: start, End: start.Add(j.RunTime), State: hpc.Completed}
	return j
}

// medians plays jobs to a predictor and returns the medians that it predicted.
func medians(t *testing.T, p Predictor, jobs ...*hpc.Job) (list []float64) {
	t.Helper()
	cases, err := CasesOf(&workload.Workload{Jobs: workload.JobsOf(jobs...)})
	if err != nil {
		t.Fatal(err)
	}
	if err := Play(t.Context(), cases.List, p, func(_ *Case, p Prediction) { list = append(list, p.P50) }); err != nil {
		t.Fatal(err)
	}
	return list
}

func expect(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestLastTwo(t *testing.T) {
	got := medians(t, NewLastTwo(RunTime),
		job("1", "a", 100, 0, 50),  // no job has ended yet: the limit
		job("2", "a", 149, 0, 300), // job 1 still runs
		job("3", "a", 150, 0, 70),  // job 1 ends at this instant
		job("4", "a", 300, 0, 1),   // jobs 1 and 3 have ended
		job("5", "b", 310, 0, 1),   // a job of another user
		job("6", "a", 500, 0, 1))   // jobs 4 and 2 ended last
	expect(t, got, 1000, 1000, 50, 60, 1000, (300+1)/2.0)
}

func TestClassAverage(t *testing.T) {
	wide := job("4", "a", 4000, 0, 10)
	wide.Tasks = 8
	got := medians(t, NewClassAverage(RunTime),
		job("1", "a", 1000, 0, 100), job("2", "a", 2000, 0, 200), job("3", "a", 3000, 0, 300), wide)
	// 200 + 0.8*100 over 1.8; the wide job's class is new, so it gets the average of its user.
	expect(t, got, 1000, 100, 280/1.8, (300+0.8*280)/(1+0.8*1.8))
	if key := Class(&hpc.Request{User: "a", Comment: "jobtype=big_1;rest"}); key != (ClassKey{Manual: "big_1"}) {
		t.Errorf("class of a comment: %+v", key)
	}
}

func TestCasesCountDoubts(t *testing.T) {
	never := job("1", "a", 1, 0, 0)
	never.Recorded = &hpc.Recorded{State: hpc.Cancelled}
	open := job("2", "", 2, 0, 0)
	open.Recorded, open.RunTime, open.TimeLimit = nil, hpc.Unlimited, 0
	bare := job("3", "a", 3, 0, 9)
	bare.Recorded = nil
	array := job("4", "a", 4, 0, 9)
	array.Array, array.Recorded = "0-2", nil
	c, err := CasesOf(&workload.Workload{Jobs: workload.JobsOf(never, open, bare, array)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.List) != 6 || c.NeverRan != 1 || c.Unknown != 1 || c.NoStart != 4 || c.NoUser != 1 || c.NoLimit != 1 {
		t.Errorf("got %d cases, %+v", len(c.List), *c)
	}
	array.Array = "0-x"
	if _, err := CasesOf(&workload.Workload{Jobs: workload.JobsOf(array)}); err == nil {
		t.Error("a text that is not an array was accepted")
	}
}

// TestTaskStates changes the state of an array, which depends on its last task. Its tasks have the
// states that each task had when it ended.
func TestTaskStates(t *testing.T) {
	array := job("1", "a", 100, 0, 9)
	array.Array, array.TaskExitCodes = "0-4", map[int]int{1: 3}
	array.TaskRunTimes = map[int]time.Duration{3: hpc.Unlimited}
	second := hpc.Unix
	array.Recorded = &hpc.Recorded{
		Start: second(100), End: second(900),
		TaskStarts: map[int]hpc.Time{0: second(100), 1: second(100), 3: second(100), 4: second(100)},
		TaskEnds:   map[int]hpc.Time{0: second(150), 1: second(160), 2: second(170), 3: second(180)},
	}
	want := []hpc.State{"", hpc.Failed, hpc.Cancelled, hpc.TimedOut, ""}
	for _, state := range []hpc.State{"", hpc.Completed, hpc.Failed, hpc.Cancelled} {
		array.Recorded.State = state
		c, err := CasesOf(&workload.Workload{Jobs: workload.JobsOf(array)})
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range c.List {
			if one.State != want[i] {
				t.Errorf("an array in the state %q: task %d has %q, want %q", state, i, one.State, want[i])
			}
		}
	}
}

// TestQuantilesKnowNoFuture plays a workload twice, the second time with other run times for its
// second half. The quantiles for the first half, from which limits are made, must be the same.
func TestQuantilesKnowNoFuture(t *testing.T) {
	const n = 400
	made := func(stretch time.Duration) *workload.Workload {
		w := new(workload.Workload)
		for i := range n {
			took := time.Duration(60+i*37%500) * time.Second
			if i >= n/2 {
				took *= stretch
			}
			j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9 + int64(i)*600)}
			j.User, j.Tasks, j.TimeLimit, j.RunTime = fmt.Sprint("u", i%3), 1, 24*time.Hour, took
			if i%10 == 0 {
				j.Array = "0-2"
			}
			w.Jobs.Append(j)
		}
		return w
	}
	for name, p := range map[string]func() Predictor{
		"limit": func() Predictor { return NewUserLimit(RunTime) },
		"last2": func() Predictor { return NewLastTwo(RunTime) },
		"class": func() Predictor { return NewClassAverage(RunTime) },
	} {
		a, errA := Quantiles(t.Context(), made(1), p(), 0.9)
		b, errB := Quantiles(t.Context(), made(5), p(), 0.9)
		if errA != nil || errB != nil || len(a) != n || len(b) != n {
			t.Fatal(errA, errB, len(a), len(b))
		}
		if !slices.Equal(a[:n/2+1], b[:n/2+1]) {
			t.Errorf("%s: other futures change limits", name)
		}
		if name != "limit" && slices.Equal(a, b) {
			t.Errorf("%s: it does not learn", name)
		}
		for i, s := range a {
			if s <= 0 || s > 24*3600 {
				t.Fatalf("%s: job %d: %g s", name, i, s)
			}
		}
	}
	w := new(workload.Workload)
	w.Jobs.Append(&hpc.Job{ID: "bad", Request: hpc.Request{Array: "x"}})
	if _, err := Quantiles(t.Context(), w, NewLastTwo(RunTime), 0.9); err == nil || !strings.Contains(err.Error(), `job bad: array "x"`) {
		t.Error(err)
	}
}

// TestAtOnce checks that [Cases.AtOnce] makes each run time known at the job's submission.
func TestAtOnce(t *testing.T) {
	w := new(workload.Workload)
	for i, minutes := range []int64{100, 10, 50, 3} {
		job := &hpc.Job{ID: string(rune('a' + i)), Submit: hpc.Unix(1e9 + int64(i))}
		job.User, job.TimeLimit, job.RunTime = "ana", 200*time.Minute, time.Duration(minutes)*time.Minute
		w.Jobs.Append(job)
	}
	honest, err := CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(honest.List)
	for name, c := range map[string]struct {
		cases *Cases
		want  []float64 // minutes
	}{"honest": {honest, []float64{200, 200, 200, 200}}, "at once": {honest.AtOnce(), []float64{200, 100, 55, 30}}} {
		var got []float64
		if err := Play(t.Context(), c.cases.List, NewLastTwo(RunTime), func(one *Case, p Prediction) {
			got = append(got, p.P50/60)
			if one.Value() != w.Jobs.At(one.Job).RunTime.Seconds() {
				t.Errorf("%s: job %s ran %g s", name, one.ID, one.Value())
			}
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if !slices.Equal(honest.List, before) {
		t.Error("the cases themselves have changed")
	}
}
