package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// TestScores compares the scores with a calculation by hand, with KNIME's definitions: p = 2, 4, 9
// for y = 1, 5, 6, whose mean is 4.
// TestScoresOfEqualValues: a prediction that differs from the value only by rounding is exact.
func TestScoresOfEqualValues(t *testing.T) {
	const value = 2097152.1
	var s sums
	for _, p := range []float64{value, math.Nextafter(value, 0), math.Nextafter(value, math.Inf(1))} {
		s.add(predict.Prediction{P10: p, P50: p, P90: p}, value)
	}
	got := s.scores()
	if got.MAE != 0 || got.MSD != 0 || got.Coverage != 1 || got.Underestimated != 0 || got.Width != 0 || got.Pinball != 0 {
		t.Errorf("%+v", got)
	}
	got.MSD = -0.3
	if line := got.line("class"); strings.Contains(line, "-0 ") {
		t.Error(line)
	}
}

func TestScores(t *testing.T) {
	var s sums
	for _, v := range [][4]float64{{1, 2, 3, 1}, {4, 4, 4, 5}, {5, 9, 12, 6}} {
		s.add(predict.Prediction{P10: v[0], P50: v[1], P90: v[2]}, v[3])
	}
	got := s.scores()
	for name, pair := range map[string][2]float64{
		"mean absolute error":    {got.MAE, (1 + 1 + 3) / 3.0},
		"mean squared error":     {got.MSE, (1 + 1 + 9) / 3.0},
		"root":                   {got.RMSE, math.Sqrt(11 / 3.0)},
		"mean signed difference": {got.MSD, (2 + 4 + 9 - 1 - 5 - 6) / 3.0},
		"R²":                     {got.R2, 1 - 11/(9+1+4.0)},
		"coverage":               {got.Coverage, 2 / 3.0}, // 1 in [1,3] and 6 in [5,12]; 5 not in [4,4]
		"width":                  {got.Width, (2 + 0 + 7) / 3.0},
		"underestimated":         {got.Underestimated, 1 / 3.0},
		// P10: 0, 0.1, 0.1; P50: 0.5, 0.5, 1.5; P90: 0.2, 0.9, 0.6.
		"pinball": {got.Pinball, (0 + 0.1 + 0.1 + 0.5 + 0.5 + 1.5 + 0.2 + 0.9 + 0.6) / 9},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
	log := func(x float64) float64 { return math.Log(1 + x) }
	mean := (log(1) + log(5) + log(6)) / 3
	squares := math.Pow(log(1)-mean, 2) + math.Pow(log(5)-mean, 2) + math.Pow(log(6)-mean, 2)
	errors := math.Pow(log(2)-log(1), 2) + math.Pow(log(4)-log(5), 2) + math.Pow(log(9)-log(6), 2)
	if want := 1 - errors/squares; math.Abs(got.R2Log-want) > 1e-12 {
		t.Errorf("R² of log: %g, want %g", got.R2Log, want)
	}
	if none := new(sums); none.scores() != (Scores{}) {
		t.Error("scores without jobs")
	}
}

// jobs makes a workload of one class per user, with these run times in seconds.
func jobs(users ...[]int) *workload.Workload {
	w := new(workload.Workload)
	for u, list := range users {
		for i, ran := range list {
			j := &hpc.Job{ID: fmt.Sprintf("%d.%d", u, i), Submit: hpc.Unix(int64(1e6 + 1e4*i + u))}
			j.User, j.Tasks, j.RunTime = fmt.Sprint(u), 1, time.Duration(ran)*time.Second
			w.Jobs.Append(j)
		}
	}
	w.Sort()
	return w
}

func cases(t *testing.T, w *workload.Workload) *predict.Cases {
	t.Helper()
	c, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFloor: user 0 has jobs of 10, 20 and 60 s, and user 1 has a single job.
func TestFloor(t *testing.T) {
	f, err := floor(t.Context(), cases(t, jobs([]int{10, 20, 60}, []int{7})))
	if err != nil {
		t.Fatal(err)
	}
	// Without itself: 10 -> median(20,60) = 40; 20 -> 35; 60 -> 15. The job alone in its class is left out.
	if want := (30 + 15 + 45) / 3.0; f.Classmates != 3 || math.Abs(f.ClassMAE-want) > 1e-9 {
		t.Errorf("class oracle: %g for %d jobs, want %g for 3", f.ClassMAE, f.Classmates, want)
	}
	if f.Neighbours != 2 || f.NeighbourMAE != (10+40)/2.0 || f.Resubmitted != 0.5 {
		t.Errorf("neighbours: %+v", *f)
	}
}

func TestRun(t *testing.T) {
	var first, second []int
	for i := range 300 {
		first, second = append(first, 100), append(second, 1000+i%2)
	}
	c := cases(t, jobs(first, second))
	e, err := Run(t.Context(), "two users", c, Options{Models: []model.Kind{model.LastTwo, model.Linear}, Growth: 0.5, RandomSplit: true})
	if err != nil {
		t.Fatal(err)
	}
	last := e.Models[0]
	if last.Scores.Jobs != 600 || last.Scores.MAE > 3 || len(last.Curve) != 10 || last.RandomSplit != nil {
		t.Errorf("last2: %+v", last)
	}
	groups := 0
	for _, g := range last.Groups {
		groups += g.Scores.Jobs
	}
	if len(last.Groups) != 3 || groups != 600 || last.Groups[0].Scores.Jobs != 20 {
		t.Errorf("groups: %+v", last.Groups)
	}
	if l := e.Models[1]; l.Trainings < 2 || l.RandomSplit == nil || l.RandomSplit.Jobs < 60 || l.RandomSplit.Jobs > 180 {
		t.Errorf("linear: %+v", l)
	}
	text := e.Render()
	for _, want := range []string{"two users: 600 jobs that ran of 2 users", "no job has a time limit", "\n114 jobs, a random fifth: random split (too good", "\nlast2 ",
		"\n100 % of the jobs are not alone in their class: the median of the class's other jobs 0.500 s, last2 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestNotes measures logs that lack a field or have other defects. The result names each of them.
func TestNotes(t *testing.T) {
	for want, change := range map[string]func(j *hpc.Job, i int){
		"no job has a user":                    func(j *hpc.Job, _ int) { j.User = "" },
		"300 of 600 jobs have no user":         func(j *hpc.Job, i int) { j.User = []string{"", "ana"}[i%2] },
		"w: 600 jobs that ran, mean":           func(j *hpc.Job, _ int) { j.User = "" },
		"w: 600 jobs that ran of 1 user, mean": func(j *hpc.Job, i int) { j.User = []string{"", "ana"}[i%2] },
		"note: workload complete made fields by rules that use how the jobs ran: user (300 jobs), time limit (600 jobs); the scores": func(j *hpc.Job, i int) {
			j.Made = []string{"time_limit=published", "time_limit=4d,user=seated,nodes=free"}[i%2]
		},
		"all jobs have the same user":                   func(j *hpc.Job, _ int) { j.User = "ana" },
		"no job has a time limit":                       func(j *hpc.Job, _ int) { j.TimeLimit = 0 },
		"200 of 600 jobs have no time limit":            func(j *hpc.Job, i int) { j.TimeLimit = time.Duration(i%3) * time.Hour },
		"all run times are equal":                       func(j *hpc.Job, _ int) { j.RunTime = time.Minute },
		"the starts of 600 jobs are not known":          func(j *hpc.Job, _ int) {},
		"the end of 1 job is not known; it is not":      func(j *hpc.Job, i int) { j.RunTime += time.Duration(1/(i+1)) * (hpc.Unlimited - j.RunTime) },
		"note: 1 job never ran and is not scored":       func(j *hpc.Job, i int) { j.Recorded = &hpc.Recorded{State: []hpc.State{hpc.Rejected, ""}[min(i, 1)]} },
		"1 of 600 jobs has no user; jobs without":       func(j *hpc.Job, i int) { j.User = []string{"", "ana"}[min(i, 1)] },
		"599 jobs are few: the scores depend on":        func(j *hpc.Job, i int) { j.RunTime += time.Duration(1/(i+1)) * (hpc.Unlimited - j.RunTime) },
		"that are not jobs, by the rule bad-numbers: 2": func(*hpc.Job, int) {},
	} {
		run := make([]int, 300)
		for i := range run {
			run[i] = 10 + i%7
		}
		w := jobs(run, run)
		for i := range w.Jobs.Len() {
			w.Jobs.Change(i, func(j *hpc.Job) { change(j, i) })
		}
		w.Unusable = []workload.Unusable{{Record: 1, Rule: "bad-numbers"}, {Record: 5, Rule: "bad-numbers"}}
		e, err := Run(t.Context(), "w", cases(t, w), Options{Growth: 0.5})
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if text := e.Render(); !strings.Contains(text, want) || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("no %q, or no numbers, in\n%s", want, text)
		}
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, "w", cases(t, jobs([]int{1, 2})), Options{Models: []model.Kind{model.Limit}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	w := jobs([]int{1})
	w.Jobs.Change(0, func(j *hpc.Job) { j.RunTime = hpc.Unlimited })
	if _, err := Run(t.Context(), "w", cases(t, w), Options{}); err == nil || !strings.Contains(err.Error(), "w: no job with a run time among 1 job") {
		t.Errorf("nothing ran: %v", err)
	}
}

// Twins are jobs of one class between whose submissions no job of their user ended.
func TestTwins(t *testing.T) {
	w := new(workload.Workload)
	for i, j := range []struct {
		user          string
		minutes, took int // submission, and run time in minutes
	}{
		{"ana", 0, 10}, {"ana", 1, 20}, {"ana", 2, 60}, // twins around 20
		{"bob", 3, 5},                   // alone
		{"ana", 15, 100},                // after the first end, alone
		{"ana", 30, 7}, {"ana", 31, 17}, // twins again
	} {
		one := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9 + int64(j.minutes)*60)}
		one.User, one.Tasks, one.TimeLimit, one.RunTime = j.user, 2, 5*time.Hour, time.Duration(j.took)*time.Minute
		w.Jobs.Append(one)
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Run(t.Context(), "twins", cases, Options{Models: []model.Kind{model.Limit}, Growth: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := (10.0 + 0 + 40 + 10 + 0) / 5 * 60; e.Floor.Twins != 5 || math.Abs(e.Floor.TwinMAE-want) > 1e-9 {
		t.Errorf("%d twins with %g s, want 5 with %g s", e.Floor.Twins, e.Floor.TwinMAE, want)
	}
	if want := (290.0 + 280 + 240 + 293 + 283) / 5 * 60; math.Abs(e.Models[0].TwinMAE-want) > 1e-9 {
		t.Errorf("the error of limits for twins is %g s, want %g s", e.Models[0].TwinMAE, want)
	}
	// Each of the figures has the limits' error for its own jobs.
	for _, want := range []string{
		"\n86 % of the jobs are not alone in their class: the median of the class's other jobs 1550 s, limit 15860 s\n",
		"\n71 % of the jobs have an earlier job in their class: the last of these earlier jobs 2316 s, limit 15552 s\n",
		"\n71 % of the jobs are twins (of one class, with the same ended jobs of their user): at least about 720 s, limit 16632 s\n",
	} {
		if text := e.Render(); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
