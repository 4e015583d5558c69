package features

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/stats"
	"rmreplay/internal/workload"
)

// TestQuartiles compares quartiles with values computed by hand. Without weights and censoring,
// the quartiles equal the sample's.
func TestQuartiles(t *testing.T) {
	one := func(seconds float64, censored bool) stats.Observation {
		return stats.Observation{Time: seconds, Weight: 1, Censored: censored}
	}
	for name, c := range map[string]struct {
		list []stats.Observation
		want [3]float64
	}{
		"a single job":   {[]stats.Observation{one(7, false)}, [3]float64{7, 7, 7}},
		"no censoring":   {[]stats.Observation{one(4, false), one(1, false), one(3, false), one(2, false)}, [3]float64{1, 2, 3}},
		"zero run times": {[]stats.Observation{one(0, false), one(0, false)}, [3]float64{0, 0, 0}},
		// The estimated share of longer run times is 1 until 7. Then 1 of 3 jobs ends at 7 and 1 of 2 at
		// 9, so the share is 2/3 and then 1/3. The upper quartile is only known to be above 12.
		"censored": {[]stats.Observation{one(6, true), one(7, false), one(9, false), one(12, true)}, [3]float64{7, 9, 12}},
		// All jobs still run.
		"nothing ended": {[]stats.Observation{one(5, true), one(8, true)}, [3]float64{8, 8, 8}},
		"weights":       {[]stats.Observation{{Time: 1, Weight: 1}, {Time: 2, Weight: 8}, {Time: 3, Weight: 1}}, [3]float64{2, 2, 2}},
		"no weight":     {[]stats.Observation{{Time: 1}, {Time: 2, Censored: true}}, [3]float64{2, 2, 2}},
	} {
		if got := quartiles(c.list); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Jobs with the same name, size and limit weigh most. Running jobs count with the time that they
// have run so far.
func TestSimilar(t *testing.T) {
	h := New(predict.RunTime)
	x := at(t, h, 0, request("a", 4))
	if !math.IsNaN(x["similar_p50"]) {
		t.Errorf("%g before anything ended", x["similar_p50"])
	}
	run(h, 1, 0, 0, 100, request("a", 4))
	run(h, 2, 0, 0, 110, request("a", 4))
	run(h, 3, 0, 0, 500, request("a", 64))
	if x := at(t, h, 600, request("a", 4)); !near(x["similar_p50"], math.Log1p(110)) || !near(x["similar_p25"], math.Log1p(100)) {
		t.Errorf("of 4 tasks: %g s", math.Expm1(x["similar_p50"]))
	}
	if x := at(t, h, 600, request("a", 64)); !near(x["similar_p50"], math.Log1p(500)) {
		t.Errorf("of 64 tasks: %g s", math.Expm1(x["similar_p50"]))
	}
	if x := at(t, h, 600, request("b", 4)); !math.IsNaN(x["similar_p50"]) {
		t.Error("another user's jobs count")
	}
	for number := range int64(4) {
		run(h, 10+number, 600, 600, 0, request("a", 4)) // still runs
	}
	if x := at(t, h, 5600, request("a", 4)); !near(x["similar_p50"], math.Log1p(5000)) {
		t.Errorf("with four that run for 5000 s: %g s", math.Expm1(x["similar_p50"]))
	}
	infinite := request("a", 4)
	infinite.TimeLimit = hpc.Unlimited
	if x := at(t, h, 600, infinite); math.IsNaN(x["similar_p50"]) || math.IsInf(x["similar_p50"], 0) {
		t.Errorf("without a limit: %g", x["similar_p50"])
	}
}

// TestLongJob plays a user with one long job and thousands of short jobs that start after it. The
// list of running jobs stays short, and has the running jobs among the last maxPastJobs that started.
func TestLongJob(t *testing.T) {
	h := New(predict.RunTime)
	run(h, 1, 0, 0, 0, request("a", 4))
	rng := rand.New(rand.NewPCG(1, 1))
	type open struct{ number, order, start int64 }
	running := []open{{1, 0, 0}}
	for i := int64(1); i < 3000; i++ {
		run(h, i+1, 10*i, 10*i, 0, request("a", 4))
		running = append(running, open{i + 1, i, 10 * i})
		for len(running) > 40 || rng.IntN(3) == 0 && len(running) > 2 {
			k := 1 + rng.IntN(len(running)-1)
			h.End(running[k].number, hpc.Unix(1e9+10*i+5), hpc.Completed)
			running = slices.Delete(running, k, k+1)
		}
		c := h.users[keysOf(request("a", 4))[ofUser]]
		if len(c.running) > 2*len(running)+1 || c.running[0].start != hpc.Unix(1e9) {
			t.Fatalf("%d jobs run, and the list has %d", len(running), len(c.running))
		}
		if i%100 != 0 {
			continue
		}
		x := h.Vector(predict.Submission{At: hpc.Unix(1e9 + 10*i + 9), Request: request("a", 4)}, nil)
		censored := 0
		for _, o := range h.observations {
			if o.Censored {
				censored++
			}
		}
		want := 0
		for _, o := range running {
			if running[len(running)-1].order-o.order < maxPastJobs {
				want++
			}
		}
		if censored != want || float32(len(running)) != x[slices.Index(Names(), "user_running")] {
			t.Fatalf("after %d jobs, %d that run count, want %d", i, censored, want)
		}
	}
}

// player plays cases to a history.
type player struct{ *History }

func (p player) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }

func (p player) Submit(s predict.Submission) predict.Prediction {
	p.History.Submit(s)
	return predict.Prediction{}
}

func (p player) End(number int64, at hpc.Time, state hpc.State) { p.History.End(number, at, state) }

// TestRunningRecords plays records of jobs that still ran when a live cluster was read. Such a job
// is a censored observation of its time so far, and does not count as waiting.
func TestRunningRecords(t *testing.T) {
	w := new(workload.Workload)
	for i := range 5 {
		job := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9), Request: *request("a", 4)}
		job.Recorded = &hpc.Recorded{Start: hpc.Unix(1e9 + int64(i)), State: hpc.Running}
		job.RunTime = hpc.Unlimited
		if i == 0 {
			job.RunTime = 100 * time.Second
			job.Recorded.End, job.Recorded.State = hpc.Unix(1e9+100), hpc.Completed
		}
		w.Jobs.Append(job)
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	h := New(predict.RunTime)
	if err := predict.PlayUntil(t.Context(), cases.List, hpc.Unix(1e9+5000), player{h}); err != nil {
		t.Fatal(err)
	}
	x := at(t, h, 5001, request("a", 4))
	if x["user_running"] != 4 || x["user_waiting"] != 0 || !near(x["user_oldest_running_s"], math.Log1p(5000)) || !near(x["similar_p50"], math.Log1p(5000)) {
		t.Errorf("%g run and %g wait; the oldest runs for %g s; the median is %g s, want 4, 0, 5000 and 5000",
			x["user_running"], x["user_waiting"], math.Expm1(x["user_oldest_running_s"]), math.Expm1(x["similar_p50"]))
	}
	if cases.Unknown != 4 {
		t.Errorf("the ends of %d jobs are unknown, want 4", cases.Unknown)
	}
}

// TestSimilarSaved checks that a saved history has exactly the last maxPastJobs jobs of each user.
func TestSimilarSaved(t *testing.T) {
	h := New(predict.RunTime)
	for i := range int64(5 * maxPastJobs) {
		run(h, i, 10*i, 10*i, 10*i+i%50, request([]string{"a", "b"}[i%2], int(1+i%3)))
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	read := New(predict.RunTime)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"a", "b"} {
		if n := len(read.past[user].byTime); n != maxPastJobs {
			t.Errorf("%d jobs of %s are saved, want %d", n, user, maxPastJobs)
		}
		s := predict.Submission{At: hpc.Unix(2e9), Request: &hpc.Request{User: user, Tasks: 2, TimeLimit: time.Hour}}
		want, got := h.Vector(s, nil), read.Vector(s, nil)
		if got[similar] != want[similar] {
			t.Errorf("%s: %g, want %g", user, got[similar], want[similar])
		}
	}
	for _, damage := range []string{`{"past":[{"u":"a","jobs":[{"s":-1}]}]}`, `{"past":[{"u":"a","jobs":[{"p":1e9}]}]}`} {
		if err := json.Unmarshal([]byte(damage), New(predict.RunTime)); err == nil {
			t.Errorf("%s is accepted", damage)
		}
	}
}
