package fairstart

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/run"
)

const processors = 16

// simulate plays jobs from the beginning, as the replay loop does, and returns their starts.
func simulate(t *testing.T, name string, ties sim.Ties, rows []run.Row) []hpc.Time {
	t.Helper()
	p, err := policy.New(name)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := sim.New(sim.Config{Processors: processors, Policy: p, Ties: ties, Epoch: rows[0].Submit})
	if err != nil {
		t.Fatal(err)
	}
	starts := make([]hpc.Time, len(rows))
	for next, left := 0, len(rows); left > 0; {
		for ; next < len(rows) && rows[next].Submit <= engine.Now(); next++ {
			job := &hpc.Job{ID: strconv.Itoa(next)}
			job.Tasks, job.CPUsPerTask, job.TimeLimit, job.RunTime = rows[next].Processors, 1, rows[next].TimeLimit, rows[next].AskedRunTime
			if err := engine.Submit(job); err != nil {
				t.Fatal(err)
			}
		}
		until := hpc.Never
		if next < len(rows) {
			until = rows[next].Submit
		}
		events, err := engine.AdvanceTo(t.Context(), until)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.Kind == rm.Started {
				starts[ev.Submission-1] = ev.At
				left--
			}
		}
	}
	return starts
}

// random returns a run of random jobs. Instants are whole numbers of steps, so that a long step
// gives many ties. The parameter load is the arriving work as a multiple of the machine's
// capacity.
func random(t *testing.T, seed uint64, name string, ties sim.Ties, n int, step time.Duration, load float64) []run.Row {
	t.Helper()
	draw := rand.New(rand.NewPCG(seed, 1))
	rows := make([]run.Row, n)
	at := hpc.Time(1e18)
	for i := range rows {
		ran := time.Duration(1+draw.IntN(20)) * time.Second
		size := 1 + draw.IntN(processors)
		rows[i] = run.Row{
			Job: strconv.Itoa(i), Task: -1, State: hpc.Completed, Submit: at, Eligible: at, Processors: size, AskedRunTime: ran,
			TimeLimit: ran * time.Duration(1+draw.IntN(4)),
		}
		gap := draw.ExpFloat64() * ran.Seconds() * float64(size) / processors / load
		at = at.Add((time.Duration(gap * float64(time.Second))).Truncate(step))
	}
	for i, start := range simulate(t, name, ties, rows) {
		rows[i].Start, rows[i].End = start, start.Add(rows[i].AskedRunTime)
	}
	return rows
}

func manifest(name string) *run.Manifest {
	return &run.Manifest{Policy: name, Cluster: run.Cluster{Processors: processors}, VirtualStart: 1e18}
}

// TestExact compares the fair start times with the definition: a simulation from the beginning
// without the jobs that come later, for each job.
func TestExact(t *testing.T) {
	unfair := 0
	for _, name := range []string{"fcfs", "easy", "easy-textbook", "conservative", "sjf", "saf", "wfp3", "f1"} {
		for seed, test := range []struct {
			ties sim.Ties
			step time.Duration
			load float64
		}{{sim.EndsFirst, 1, 0.7}, {sim.EndsFirst, time.Second, 0.8}, {sim.ArrivalsFirst, time.Second, 0.8}, {sim.EndsFirst, time.Second, 1.5}} {
			rows := random(t, uint64(seed), name, test.ties, 80, test.step, test.load)
			got, err := Compute(rows, manifest(name), OwnPolicy, metrics.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, total, largest := 0, 0.0, 0.0
			for i := range rows {
				fair := simulate(t, name, test.ties, rows[:i+1])[i]
				if miss := rows[i].Start.Sub(fair); miss > tolerance {
					want++
					total += miss.Seconds()
					largest = max(largest, miss.Seconds())
				}
			}
			if !got.Exact || got.Agreement != 1 || got.Jobs != len(rows) || got.LeftOut != 0 {
				t.Errorf("%s, %+v: %+v, want an exact result", name, test, got)
			}
			if got.Unfair != want || math.Abs(float64(got.MeanMiss)-total/float64(len(rows))) > 1e-9 || float64(got.MaxMiss) != largest {
				t.Errorf("%s, %+v: %d unfair jobs, mean %v, max %v; want %d, %v, %v", name, test, got.Unfair, got.MeanMiss, got.MaxMiss, want, total/float64(len(rows)), largest)
			}
			if unfair += want; name == "fcfs" && want != 0 {
				t.Errorf("fcfs treats %d jobs unfairly", want)
			}
		}
	}
	if unfair < 100 {
		t.Errorf("only %d unfair jobs: the test shows little", unfair)
	}
}

// TestModel: if the simulator does not reproduce the starts of a run, each job's fair start is
// simulated from the run's running and waiting jobs at its submission.
func TestModel(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Time(1e18).Add(time.Duration(s) * time.Second) }
	row := func(job string, submit, start, end, size int) run.Row {
		return run.Row{Job: job, Task: -1, State: hpc.Completed, Submit: at(submit), Start: at(start), End: at(end), Processors: size, TimeLimit: time.Hour}
	}
	rows := []run.Row{
		row("a", 0, 0, 100, 16),    // the machine is full until 100
		row("b", 10, 200, 300, 16), // could start at 100, and c takes its place
		row("c", 20, 100, 200, 16), // arrives later than b and starts first
		row("d", 30, 300, 400, 16), // waits for b and c, as it must
	}
	for _, name := range []string{"", "slurm"} {
		got, err := Compute(rows, manifest(name), OwnPolicy, metrics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Policy != "easy-textbook" || got.Exact || got.Agreement != 0.5 || got.Jobs != 4 || got.Unfair != 1 ||
			got.MeanMiss != 25 || got.MeanUnfairMiss != 100 || got.MaxMiss != 100 {
			t.Errorf("policy %q: %+v, want 1 unfair job of 4, by 100 s", name, got)
		}
		// Jobs that were submitted outside of an interval compete, and do not count.
		interval := metrics.Options{SubmittedFrom: at(10), SubmittedTo: at(19)}
		got, err = Compute(append(rows, run.Row{Job: "e", State: hpc.Cancelled, Submit: at(30), End: at(40)}), manifest(name), OwnPolicy, interval)
		if err != nil || got.Jobs != 1 || got.LeftOut != 0 || got.Unfair != 1 || got.MeanMiss != 100 || got.Agreement != 0 {
			t.Errorf("policy %q: %+v (%v), want 1 job, unfair by 100 s", name, got, err)
		}
	}
}

// TestPartitions: jobs of partitions without common nodes do not compete.
func TestPartitions(t *testing.T) {
	one := random(t, 3, "easy", sim.EndsFirst, 80, time.Second, 1)
	m := manifest("easy")
	alone, err := Compute(one, m, "easy", metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(slices.Clone(one), slices.Clone(one))
	for i := range both {
		both[i].Partition = "p" + strconv.Itoa(i/len(one))
	}
	m.Cluster = run.Cluster{Processors: 2 * processors, Partitions: []run.Partition{{Name: "p0", Processors: processors}, {Name: "p1", Processors: processors}}}
	got, err := Compute(both, m, "easy", metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Unfair != 2*alone.Unfair || got.MeanMiss != alone.MeanMiss || alone.Unfair == 0 || !got.Exact {
		t.Errorf("two partitions: %+v, one of them alone: %+v", got, alone)
	}
}

// TestOddRows: rows that no simulation can have are left out and counted.
func TestOddRows(t *testing.T) {
	good := random(t, 5, "easy", sim.EndsFirst, 20, time.Second, 1)
	now := good[0].Submit
	odd := []run.Row{
		{Job: "rejected", State: hpc.Rejected, Submit: now},
		{Job: "never started", State: hpc.Cancelled, Submit: now, End: now.Add(time.Hour)},
		{Job: "too large", State: hpc.Completed, Submit: now, Start: now, End: now.Add(1), Processors: processors + 1},
		{Job: "no size", State: hpc.Completed, Submit: now, Start: now, End: now.Add(1)},
		{Job: "ends before it starts", State: hpc.Completed, Submit: now, Start: now.Add(2), End: now.Add(1), Processors: 1},
		{Job: "starts before it comes", State: hpc.Completed, Submit: now.Add(2), Start: now, End: now.Add(1), Processors: 1},
		{Job: "requeued", State: hpc.Completed, Submit: now, Start: now.Add(9), End: now.Add(10), Processors: 1, Segments: []run.Segment{
			{Start: now, End: now.Add(1), Processors: 1, EndedBy: rm.Requeue}, {Start: now.Add(9), End: now.Add(10), Processors: 1}}},
		{Job: "still runs", State: hpc.Running, Submit: now.Add(100 * time.Hour), Start: now.Add(100 * time.Hour), Processors: 1},
	}
	got, err := Compute(slices.Concat(good, odd), manifest("easy"), "easy", metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Jobs != len(good)+1 || got.LeftOut != len(odd)-2 {
		t.Errorf("%+v, want %d jobs and %d left out", got, len(good)+1, len(odd)-2)
	}
	// In a run of Slurm, tasks that wait for each other are not measured.
	tasks := slices.Clone(good)
	for i := range tasks {
		tasks[i].Job, tasks[i].Task = "array", i
	}
	array := &hpc.Job{ID: "array"}
	array.Array = "0-19%2"
	tasks[0].Request = string(run.EncodeJob(array))
	slurm := manifest("easy")
	slurm.Engine = "slurm"
	if got, err := Compute(tasks, slurm, "easy", metrics.Options{}); err != nil || got.Jobs != 0 || got.LeftOut != len(tasks) {
		t.Errorf("tasks of an array on Slurm: %+v, %v", got, err)
	}
	slurm.Engine = "sim"
	if got, err := Compute(tasks, slurm, "easy", metrics.Options{}); err != nil || got.Jobs != len(tasks) {
		t.Errorf("tasks of an array in the simulator: %+v, %v", got, err)
	}
	tasks[0].Request, slurm.Engine = "{", "slurm"
	if _, err := Compute(tasks, slurm, "easy", metrics.Options{}); err == nil || !strings.Contains(err.Error(), "job array: decoding a job") {
		t.Errorf("a torn request: %v", err)
	}
	none, err := Compute(odd[:2], manifest("easy"), "easy", metrics.Options{})
	if err != nil || none.Jobs != 0 || none.MeanMiss.Known() {
		t.Errorf("without jobs: %+v, %v", none, err)
	}
	if _, err := Compute(good, manifest("easy"), "best", metrics.Options{}); err == nil || !strings.Contains(err.Error(), "not a policy") {
		t.Errorf("policy best: %v", err)
	}
	if _, err := Compute(good, &run.Manifest{}, "easy", metrics.Options{}); err == nil || !strings.Contains(err.Error(), "how many processors") {
		t.Errorf("without a machine: %v", err)
	}
}
