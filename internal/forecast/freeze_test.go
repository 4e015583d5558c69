package forecast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

const epoch = hpc.Time(20000 * 24 * time.Hour)

func at(s int) hpc.Time { return epoch.Add(time.Duration(s) * time.Second) }

// draw returns jobs of whole nodes. Each user has a typical share of the time limit, near which the
// shares of this user's jobs lie.
func draw(n int, seed uint64) *workload.Workload {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &workload.Workload{Epoch: epoch, Source: "drawn"}
	now := 0
	for i := range n {
		now += int(rng.ExpFloat64() * 120)
		user := rng.IntN(4)
		j := &hpc.Job{ID: fmt.Sprint("j", i), Submit: at(now)}
		j.User = fmt.Sprint("u", user)
		j.MinNodes = 1 + rng.IntN(4)
		j.MaxNodes, j.TasksPerNode, j.Tasks = j.MinNodes, 4, 4*j.MinNodes
		j.TimeLimit = time.Duration(1+rng.IntN(30)) * time.Minute
		share := min(0.15+0.2*float64(user)+0.3*rng.Float64(), 1)
		j.RunTime = time.Duration(share * float64(j.TimeLimit)).Truncate(time.Second)
		switch {
		case i%17 == 5:
			j.RunTime = hpc.Unlimited
		case i%23 == 7:
			j.CancelAfter = 20 * time.Minute
		case i%29 == 3:
			j.Array = "1-4"
			j.TaskRunTimes = map[int]time.Duration{2: 30 * time.Second, 4: time.Minute}
		case i%31 == 4:
			j.Dependency = fmt.Sprint("afterany:j", i-1)
		case i%37 == 9:
			j.Begin = 10 * time.Minute
		}
		w.Jobs.Append(j)
	}
	w.NodeEvents = []hpc.NodeEvent{
		{At: at(2000), Nodes: "n[7-8]", State: "drain"}, {At: at(9000), Nodes: "n[7-8]", State: "resume"}, {At: at(12000), Nodes: "n1", State: "down"},
	}
	w.Reservations = []hpc.ReservationEvent{{At: at(3000), Action: "create", Reservation: hpc.Reservation{
		Name: "maint", Start: at(8000), Duration: time.Hour, Nodes: "n[1-2]", Users: []string{"root"},
	}}}
	return w
}

// simulate makes a run of a workload on eight nodes of four processors.
func simulate(t *testing.T, w *workload.Workload, policy string) *forecast.Course {
	t.Helper()
	return course(t, w, experiment.Spec{Simulator: &experiment.Simulator{Policy: policy, Nodes: 8, Processors: 32}})
}

// course makes a run of a workload with an engine.
func course(t *testing.T, w *workload.Workload, engine experiment.Spec) *forecast.Course {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	engine.Workload.Value, engine.Output, engine.Seed = w, dir, 1
	if _, err := experiment.Run(t.Context(), engine, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	c, err := forecast.ReadCourse(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func options(t *testing.T, c *forecast.Course) forecast.EvaluateOptions {
	t.Helper()
	engine, err := forecast.EngineOf(c, experiment.Spec{}, true)
	if err != nil {
		t.Fatal(err)
	}
	return forecast.EvaluateOptions{Instants: 8, Options: forecast.Options{
		Engine: engine, Realizations: 20, Seed: 3, Dir: t.TempDir(), Arrivals: forecast.NoArrivals,
	}}
}

// TestExclusive checks that the forecast of an exclusive job has the nodes and the processors that the job gets in the
// run, which explain shows, too.
func TestExclusive(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Source: "two"}
	for i := range 2 {
		j := &hpc.Job{ID: fmt.Sprint("j", i), Submit: at(i)}
		j.Tasks, j.Exclusive, j.TimeLimit, j.RunTime = 1, "node", time.Hour, time.Minute
		w.Jobs.Append(j)
	}
	c := course(t, w, experiment.Spec{Simulator: &experiment.Simulator{Policy: "easy", Nodes: 1, Processors: 4}})
	q, err := c.Freeze(at(10))
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t, c).Options
	opts.RunTimes, opts.Learner = forecast.FromHistory, forecast.NewShares()
	r, err := forecast.NewReport(t.Context(), "run", q, nil, 0, opts)
	if err != nil || len(r.Jobs) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	if got := r.Jobs[0]; got.Nodes != 1 || got.CPUs != 4 {
		t.Errorf("%d nodes and %d processors, want 1 and 4", got.Nodes, got.CPUs)
	}
}

// TestExact checks that a frozen run with the true run times continues like the run, to the second.
// The workload has arrays, dependencies, cancellations, drained nodes and a reservation. A job
// keeps its place in the queue if it was submitted before the start of a job that it depends on.
func TestExact(t *testing.T) {
	for _, policy := range []string{"fcfs", "easy"} {
		w := draw(220, 1)
		for i := 7; i < w.Jobs.Len(); i += 5 {
			w.Jobs.Change(i, func(job *hpc.Job) { job.Dependency = "afterany:" + w.Jobs.At(i-3).ID })
		}
		c := simulate(t, w, policy)
		opts := options(t, c)
		opts.RunTimes, opts.Arrivals = forecast.True, forecast.Recorded
		e, err := forecast.Evaluate(t.Context(), c, opts)
		if err != nil {
			t.Fatal(err)
		}
		if e.Jobs < 50 || e.Exact != 1 {
			t.Errorf("%s: %.4f of %d starts are exact\n%s", policy, e.Exact, e.Jobs, e.Render())
		}
	}
}

// TestNeighbours freezes runs in which a job's processors per node follow only from the jobs that
// shared its nodes.
func TestNeighbours(t *testing.T) {
	type job struct {
		id           string
		submit, runs int
		request      hpc.Request
	}
	waits := job{"waits", 400, 10, hpc.Request{MinNodes: 2, MaxNodes: 2, Exclusive: "node"}}
	for name, jobs := range map[string][]job{
		"waited for a job that ended long before": {
			{"first", 0, 100, hpc.Request{Tasks: 1}},
			{"neighbour", 0, 300, hpc.Request{Tasks: 1, Dependency: "afterany:first"}},
			{"spread", 150, 1000, hpc.Request{Tasks: 3, MinNodes: 2, MaxNodes: 2}}, waits,
		},
		"ended when it started": {
			{"first", 0, 100, hpc.Request{MinNodes: 2, MaxNodes: 2, Exclusive: "node"}},
			{"neighbour", 10, 0, hpc.Request{Tasks: 1}},
			{"spread", 20, 1000, hpc.Request{Tasks: 7, MinNodes: 2, MaxNodes: 2}},
			{"beside it", 200, 1000, hpc.Request{Tasks: 1}}, waits,
		},
	} {
		w := &workload.Workload{Epoch: epoch, Source: name}
		for _, j := range jobs {
			j.request.TimeLimit = time.Hour
			w.Jobs.Append(&hpc.Job{ID: j.id, Submit: at(j.submit), Request: j.request, Behaviour: hpc.Behaviour{RunTime: time.Duration(j.runs) * time.Second}})
		}
		c := course(t, w, experiment.Spec{Simulator: &experiment.Simulator{Policy: "easy", Nodes: 2, Processors: 8}})
		opts := options(t, c)
		opts.RunTimes, opts.Arrivals, opts.At = forecast.True, forecast.Recorded, []hpc.Time{at(500)}
		e, err := forecast.Evaluate(t.Context(), c, opts)
		if err != nil {
			t.Fatal(err)
		}
		if e.Jobs != 1 || e.Exact != 1 || len(e.Notes) > 0 {
			t.Errorf("a neighbour that %s: %q\n%s", name, e.Notes, e.Render())
		}
	}
}

// TestRewind checks that a run that is played from its beginning continues as it did. It uses
// policies whose state no window can restore, and a pool of processors.
func TestRewind(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: seventeen seconds of forecasts")
	}
	pool := draw(120, 7)
	pool.NodeEvents, pool.Reservations = nil, nil
	for i := range pool.Jobs.Len() {
		pool.Jobs.Change(i, func(job *hpc.Job) { job.MinNodes, job.MaxNodes, job.TasksPerNode = 0, 0, 0 })
	}
	for name, machine := range map[string]experiment.Simulator{
		"conservative": {Nodes: 8, Processors: 32}, "easy-sjbf": {Nodes: 8, Processors: 32}, "easy": {Processors: 32},
	} {
		w := draw(120, 1)
		if machine.Nodes == 0 {
			w = pool
		}
		machine.Policy = name
		c := course(t, w, experiment.Spec{Simulator: &machine})
		opts := options(t, c)
		opts.FromStart, opts.Instants = true, 4
		for _, how := range []forecast.RunTimes{forecast.True, forecast.FromHistory} {
			opts.RunTimes, opts.Arrivals, opts.NewLearner = how, forecast.Recorded, nil
			if how == forecast.FromHistory {
				opts.NewLearner = func() (forecast.Learner, error) { return forecast.NewShares(), nil }
			}
			e, err := forecast.Evaluate(t.Context(), c, opts)
			if err != nil {
				t.Fatal(err)
			}
			if e.Jobs < 10 || how == forecast.True && e.Exact != 1 || how == forecast.FromHistory && (e.Exact == 1 || e.Covered < 0.4) {
				t.Errorf("%s, %s: %.4f of %d starts are exact, %.4f are covered\n%s", name, how, e.Exact, e.Jobs, e.Covered, e.Render())
			}
		}
	}
}

// TestCalibrated checks a forecast with run times drawn from the history: its intervals cover the
// starts, and it is closer than a forecast that uses the limits as run times.
func TestCalibrated(t *testing.T) {
	c := simulate(t, draw(400, 2), "easy")
	opts := options(t, c)
	opts.RunTimes = forecast.FromHistory
	opts.NewLearner = func() (forecast.Learner, error) { return forecast.NewShares(), nil }
	e, err := forecast.Evaluate(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	if e.Covered < 0.6 || e.Covered > 0.95 || e.Limits == nil || e.MedianError >= e.Limits.MedianError {
		t.Errorf("coverage %.3f, median error %.0f s, %+v", e.Covered, e.MedianError, e.Limits)
	}
}

// TestNoLeakage changes everything in a run that happens after an instant, and checks that the
// forecast stays the same.
func TestNoLeakage(t *testing.T) {
	add := func(w *workload.Workload, run time.Duration) {
		for i := range 30 {
			w.Jobs.Append(&hpc.Job{
				ID: fmt.Sprint("held", i), Submit: at(100 * i), Request: hpc.Request{User: "u1", Tasks: 1, MinNodes: 1, MaxNodes: 1, TimeLimit: 10 * time.Minute, Hold: true},
				Behaviour: hpc.Behaviour{RunTime: run},
			})
		}
		array := &hpc.Job{ID: "array", Submit: at(10), Request: hpc.Request{User: "u1", Array: "1-9%1", Tasks: 1, MinNodes: 1, MaxNodes: 1, TimeLimit: time.Hour}}
		array.RunTime = 25 * time.Minute
		fails := &hpc.Job{ID: "if it fails", Submit: at(20), Request: hpc.Request{User: "u1", Tasks: 1, MinNodes: 1, MaxNodes: 1, TimeLimit: time.Minute, Dependency: "afternotok:array"}}
		cancelled := &hpc.Job{ID: "cancelled", Submit: at(5900), Request: hpc.Request{User: "u1", Tasks: 6, MinNodes: 6, MaxNodes: 6, TimeLimit: time.Hour}}
		cancelled.CancelAfter, cancelled.RunTime = 5*time.Minute, time.Hour
		w.Jobs.Append(cancelled)
		w.Jobs.Append(array)
		w.Jobs.Append(fails)
		w.Sort()
	}
	before := draw(150, 4)
	add(before, 10*time.Second)
	now := at(6000)
	first := simulate(t, before, "easy")
	q, err := first.Freeze(now)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, job := range q.Workload.Jobs.All() {
		open[strings.Split(job.ID, "_")[0]] = true
	}
	if !open["array"] || !open["if it fails"] || !strings.Contains(strings.Join(dependencies(q), " "), "afternotok:array_") {
		t.Fatalf("no array is divided, on whose failure a job depends: %v", dependencies(q))
	}
	after := draw(150, 4)
	add(after, 10*time.Minute)
	changed, cancelled := 0, 0
	for i, job := range after.Jobs.All() {
		if open[job.ID] && job.Array == "" && job.RunTime != hpc.Unlimited && job.CancelAfter == 0 {
			job.RunTime = hpc.Unlimited // the forecast does not know the run time of an open job
			changed++
		}
		if open[job.ID] && job.CancelAfter > 0 {
			job.CancelAfter = 100 * time.Hour // nor when an open job will be cancelled
			cancelled++
		}
		if job.ID == "array" {
			job.TaskExitCodes = map[int]int{9: 1}
		}
		if job.Submit > now {
			job.MinNodes, job.MaxNodes, job.Tasks = 1, 1, 4
		}
		after.Jobs.Set(i, job)
	}
	after.NodeEvents = after.NodeEvents[:1]
	second := simulate(t, after, "easy")
	opts := options(t, first).Options
	opts.RunTimes, opts.Arrivals = forecast.FromHistory, forecast.Recent
	var made []forecast.Starts
	var waits [][]string
	for _, c := range []*forecast.Course{first, second} {
		q, err := c.Freeze(now)
		if err != nil {
			t.Fatal(err)
		}
		opts.Learner = forecast.NewShares()
		s, _, err := forecast.Make(t.Context(), q, opts)
		if err != nil {
			t.Fatal(err)
		}
		made, waits = append(made, s), append(waits, dependencies(q))
	}
	if !slices.Equal(waits[0], waits[1]) {
		t.Errorf("how tasks end later changes dependencies: %v, %v", waits[0], waits[1])
	}
	if changed < 5 || cancelled == 0 || len(made[0]) < 5 || fmt.Sprint(made[0]) != fmt.Sprint(made[1]) {
		t.Errorf("%d jobs changed after the instant; forecasts of %d and %d jobs differ", changed, len(made[0]), len(made[1]))
	}
}

// dependencies returns the dependencies of a queue's jobs.
func dependencies(q *forecast.Queue) (list []string) {
	for _, job := range q.Workload.Jobs.All() {
		if job.Dependency != "" {
			list = append(list, job.ID+" "+job.Dependency)
		}
	}
	return list
}

// TestVariants forecasts a job that is submitted at the instant. A smaller job starts no later.
func TestVariants(t *testing.T) {
	c := simulate(t, draw(200, 5), "easy")
	q, err := c.Freeze(at(9000))
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t, c).Options
	opts.RunTimes, opts.Learner = forecast.FromLimits, nil
	large := hpc.Request{User: "u1", MinNodes: 4, MaxNodes: 4, Tasks: 16, TimeLimit: time.Hour}
	small := large
	small.MinNodes, small.MaxNodes, small.Tasks, small.TimeLimit = 1, 1, 4, time.Minute
	r, err := forecast.NewReport(t.Context(), "run", q, []forecast.Variant{{Name: "large", Request: large}, {Name: "small", Request: small}}, at(20000), opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.WhatIf) != 2 || r.WhatIf[0].P50 == nil || r.WhatIf[1].P50.After(*r.WhatIf[0].P50) || len(r.Jobs) != len(q.Pending()) {
		t.Errorf("%+v", r.WhatIf)
	}
	if text := r.Render(time.UTC); !strings.Contains(text, "submitted now") || !strings.Contains(text, "small") {
		t.Error(text)
	}
	large.Tasks = 1 << 20
	tried, doubts, err := forecast.Try(t.Context(), q, forecast.Variant{Name: "nodes=N", Request: large}, 0, opts)
	if err != nil || len(doubts) != 0 || !strings.HasPrefix(tried.Why, "the scheduler refuses the job: asks for ") {
		t.Errorf("a job that the cluster refuses: %q, %q, %v", tried.Why, doubts, err)
	}
	if r.WhatIf[0].P50.Before(q.At.Std()) {
		t.Errorf("it starts at %s, before it is submitted", r.WhatIf[0].P50)
	}
}

// TestVariantsAlike checks that identical variants have identical figures, wherever they are in the list, and the figures
// of a forecast of the job alone: a learner must not learn the history again for each variant.
func TestVariantsAlike(t *testing.T) {
	c := simulate(t, draw(300, 5), "easy")
	q, err := c.Freeze(at(9000))
	if err != nil {
		t.Fatal(err)
	}
	request := hpc.Request{User: "u1", MinNodes: 4, MaxNodes: 4, Tasks: 16, TimeLimit: time.Hour}
	for name, learner := range map[string]func() forecast.Learner{
		"history": func() forecast.Learner { return forecast.NewShares() },
		"model":   func() forecast.Learner { return forecast.Modelled{Predictor: predict.NewLastTwo(predict.RunTime)} },
	} {
		opts := options(t, c).Options
		opts.RunTimes, opts.Arrivals, opts.Realizations = forecast.FromHistory, forecast.Recent, 10
		figures := func(w *forecast.Waiting) string { return fmt.Sprint(w.P10, w.P50, w.P90) }
		opts.Learner = learner()
		alone, _, err := forecast.Try(t.Context(), q, forecast.Variant{Name: "alone", Request: request}, 0, opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.Learner = learner()
		r, err := forecast.NewReport(t.Context(), "run", q, slices.Repeat([]forecast.Variant{{Name: "again", Request: request}}, 3), 0, opts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.WhatIf {
			if one := &r.WhatIf[i]; one.P50 == nil || figures(one) != figures(&alone) {
				t.Errorf("%s: variant %d starts at %s, and the job alone at %s", name, i, figures(one), figures(&alone))
			}
		}
	}
}

// TestLimits checks that a job that runs until its time limit succeeds. The job that depends on it
// then starts. A job without a limit never ends.
func TestLimits(t *testing.T) {
	for limit, want := range map[time.Duration]hpc.Time{time.Hour: at(3600), hpc.Unlimited: hpc.Never} {
		w := &workload.Workload{Epoch: epoch, Source: "a chain"}
		w.Jobs.Append(&hpc.Job{ID: "runs", Submit: at(0), Request: hpc.Request{TimeLimit: limit}, Behaviour: hpc.Behaviour{RunTime: 10 * time.Minute}})
		w.Jobs.Append(&hpc.Job{ID: "waits", Submit: at(60), Request: hpc.Request{TimeLimit: time.Minute, Dependency: "afterok:runs"}, Behaviour: hpc.Behaviour{RunTime: time.Second}})
		c := simulate(t, w, "easy")
		q, err := c.Freeze(at(100))
		if err != nil {
			t.Fatal(err)
		}
		opts := options(t, c).Options
		opts.RunTimes = forecast.FromLimits
		starts, doubts, err := forecast.Make(t.Context(), q, opts)
		if err != nil || len(doubts) > 0 {
			t.Fatalf("%v, %q", err, doubts)
		}
		if got := starts[forecast.Key{Job: "waits", Task: -1}]; len(got) != 1 || got[0] != want {
			t.Errorf("limit %s: it starts at %s, want %s", limit, got, want)
		}
	}
}

func TestFreezeRefuses(t *testing.T) {
	c := simulate(t, draw(50, 6), "easy")
	for _, when := range []hpc.Time{at(-5), epoch, at(1e7)} {
		if _, err := c.Freeze(when); err == nil || !strings.Contains(err.Error(), "outside the run") {
			t.Errorf("%s: %v", when, err)
		}
	}
	pool := *c
	pool.Manifest.Cluster.Nodes = 0
	if _, err := forecast.EngineOf(&pool, experiment.Spec{}, false); err == nil || !strings.Contains(err.Error(), "pool of processors") {
		t.Error(err)
	}
	q, err := c.Freeze(at(1000))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	opts := options(t, c).Options
	opts.RunTimes = forecast.FromLimits
	if _, _, err := forecast.Make(cancelled, q, opts); err == nil {
		t.Error("a cancelled forecast has no error")
	}
	live := forecast.NewQueue(q.Workload, q.History, nil, nil)
	opts.RunTimes = forecast.True
	if _, _, err := forecast.Make(t.Context(), live, opts); err == nil || !strings.Contains(err.Error(), "want the record of a run") {
		t.Error(err)
	}
}

func TestQuantile(t *testing.T) {
	var list []hpc.Time
	for i := range 19 {
		list = append(list, at(100*(i+1)))
	}
	for p, want := range map[float64]int{0.1: 200, 0.5: 1000, 0.9: 1800, 0: 100, 1: 1900} {
		if got := forecast.Quantile(list, p); got != at(want) {
			t.Errorf("%g: %s, want %s", p, got, at(want))
		}
	}
	list[18] = hpc.Never
	if got := forecast.Quantile(list, 0.99); got != hpc.Never {
		t.Errorf("%s, want never", got)
	}
	if got := forecast.Quantile(list[:1], 0.9); got != at(100) {
		t.Errorf("of one: %s", got)
	}
	if p := forecast.Probability(list, at(500)); p != 5.0/19 {
		t.Errorf("probability %g", p)
	}
}

// The model of slurmctld counts the running tasks of an array towards the array's limit, even tasks that started in
// the second of their submission. For other engines a note says that they do not count these tasks.
func TestArrayLimit(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Source: "array", Jobs: workload.JobsOf(&hpc.Job{ID: "a", Submit: at(100), Behaviour: hpc.Behaviour{RunTime: 50 * time.Minute}, Request: hpc.Request{
		User: "u1", Array: "1-6%2", MinNodes: 1, MaxNodes: 1, Tasks: 4, TasksPerNode: 4, TimeLimit: time.Hour,
	}}, &hpc.Job{ID: "last", Submit: at(20000), Behaviour: hpc.Behaviour{RunTime: time.Minute}, Request: hpc.Request{User: "u1", MinNodes: 1, Tasks: 4, TimeLimit: time.Hour}})}
	cluster := t.TempDir()
	if err := os.WriteFile(filepath.Join(cluster, "slurm.conf"), []byte("ClusterName=c\nSlurmctldHost=h\n"+
		"SelectType=select/cons_tres\nNodeName=n[1-8] CPUs=4\nPartitionName=main Nodes=n[1-8] Default=YES MaxTime=INFINITE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := experiment.Spec{Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster}}
	c := course(t, w, model)
	q, err := c.Freeze(at(1500))
	if err != nil {
		t.Fatal(err)
	}
	opts := forecast.Options{Engine: model, RunTimes: forecast.True, Arrivals: forecast.NoArrivals, Realizations: 1}
	report, err := forecast.NewReport(t.Context(), "test", q, nil, 0, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Jobs) != 4 || len(report.Notes) != 0 {
		t.Fatalf("%d jobs, notes %q; want 4 pending tasks and no note", len(report.Jobs), report.Notes)
	}
	for i, job := range report.Jobs { // the tasks before them end after 3,000 s each
		want := at(100 + 3000*(1+i/2))
		if job.P50 == nil || job.P50.Sub(want.Std()).Abs() > time.Minute {
			t.Errorf("task %v: %v, want about %v", *job.Task, job.P50, want)
		}
	}
	opts.Engine = experiment.Spec{Simulator: &experiment.Simulator{Policy: "easy", Nodes: 8, Processors: 32}}
	report, err = forecast.NewReport(t.Context(), "test", q, nil, 0, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Notes) != 1 || !strings.HasPrefix(report.Notes[0], "array a: this engine does not count the array's 2 running tasks towards its limit of 2") {
		t.Errorf("notes %q", report.Notes)
	}
}
