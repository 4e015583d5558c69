package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/compare/releases"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// onSlurm makes the run of a set a replay on a release of Slurm.
func onSlurm(s Set, version string, log *releases.Log) Set {
	m := s.Runs[0].Manifest
	m.Engine, m.Versions.Slurm = "slurm", version
	s.Runs[0].Log = log
	return s
}

// asking gives a row a request.
func asking(r run.Row, request hpc.Request) run.Row {
	r.Request = string(run.EncodeJob(&hpc.Job{ID: r.Job, Request: request}))
	return r
}

func with(r run.Row, change func(*run.Row)) run.Row {
	change(&r)
	return r
}

// causesOf returns the causes of the first divergence of a kind, as text.
func causesOf(t *testing.T, kind DivergenceKind, a, b Set) string {
	t.Helper()
	for _, d := range mustCompare(t, Options{}, a, b).Pairs[0].Divergences {
		if d.Kind != kind {
			continue
		}
		var text []string
		for _, c := range d.Causes {
			text = append(text, fmt.Sprintf("%v: %s", c.Proven, c.Text))
		}
		return strings.Join(text, "\n")
	}
	t.Fatalf("no divergence of kind %s", kind)
	return ""
}

func TestCausesOfRunTimes(t *testing.T) {
	timedOut := func(runTime, limit int) run.Row {
		return with(job("x", 0, 0, runTime, "n1"), func(r *run.Row) {
			r.State, r.TimeLimit = hpc.TimedOut, time.Duration(limit)*time.Second
		})
	}
	suspended := func(r run.Row, seconds int) run.Row {
		return with(r, func(r *run.Row) { r.Suspended = time.Duration(seconds) * time.Second })
	}
	log := &releases.Log{}
	for _, test := range []struct {
		name string
		a, b run.Row
		log  *releases.Log
		want string
	}{
		{"beyond the limit", timedOut(134, 120), timedOut(120, 120), log,
			"true: it was ended 0 s after its time limit instead of 14 s; slurmctld checks time limits every 30 s"},
		{"simulated", timedOut(134, 120), timedOut(120, 120), nil, "true: it was ended 0 s after its time limit instead of 14 s"},
		{"another limit", timedOut(120, 120), timedOut(180, 180), log, "true: it was ended at its time limit, which was 00:03:00 instead of 00:02:00"},
		{"another limit, and beyond it", timedOut(120, 120), timedOut(194, 180), nil,
			"true: it was ended at its time limit, which was 00:03:00 instead of 00:02:00, and it was ended 14 s after its time limit instead of 0 s"},
		{"suspended before its limit", timedOut(120, 120), suspended(timedOut(180, 120), 60), nil, "true: it was suspended for 60 s instead of 0 s"},
		{"suspended for less than the difference", job("x", 0, 0, 60, "n1"), suspended(job("x", 0, 0, 900, "n1"), 60), nil, ""},
		{"no limit in a record", timedOut(134, 0), timedOut(120, 120), nil,
			"true: it was ended at its time limit, which was 00:02:00 instead of a limit that is not recorded"},
		{"another end", timedOut(120, 120), job("x", 0, 0, 60, "n1"), log, "true: it ended as COMPLETED instead of TIMEOUT"},
		{"requeued", job("x", 0, 0, 60, "n1"), with(job("x", 0, 0, 90, "n1"), func(r *run.Row) { r.Restarts = 1 }), log, "true: it was requeued once instead of 0 times"},
		{"unknown", job("x", 0, 0, 60, "n1"), job("x", 0, 0, 90, "n1"), log, ""},
	} {
		a, b := single("a", test.a), single("b", test.b)
		a.Runs[0].Log, b.Runs[0].Log = test.log, test.log
		if got := causesOf(t, DivergedRunTime, a, b); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// The record proves these causes, so there are no guesses: the job on which another one depends ended in another state,
// and the workload cancels a job a fixed time after its submission.
func TestCausesInTheRecord(t *testing.T) {
	asks := func(r run.Row, change func(*hpc.Job)) run.Row {
		j := &hpc.Job{ID: r.Job, Submit: r.Submit}
		change(j)
		r.Request = string(run.EncodeJob(j))
		return r
	}
	state := func(r run.Row, s hpc.State, end int) run.Row {
		r.State, r.End = s, monday.Add(time.Duration(end)*time.Second)
		return r
	}
	depends := func(j *hpc.Job) { j.Dependency = "afterok:x" }
	cancels := func(j *hpc.Job) { j.CancelAfter = 870 * time.Second }
	end := monday.Add(200 * time.Second).Text(time.UTC)
	x, other := job("x", 0, 0, 300, "n1"), job("z", 1, 1, 900, "n3")
	late := state(x, hpc.TimedOut, 200)
	never := state(job("y", 5, -1, 0, ""), hpc.Cancelled, 200)
	byUser := state(job("y", 5, -1, 0, ""), hpc.Cancelled, 875)
	for _, test := range []struct {
		name string
		kind DivergenceKind
		a, b []run.Row
		want string
	}{
		{"dependency", DivergedStart, []run.Row{x, other, asks(job("y", 5, 300, 10, "n2"), depends)}, []run.Row{late, asks(never, depends)},
			"true: in B job x ended at " + monday.Add(200*time.Second).String() + " in the state TIMEOUT, so afterok:x can never be met"},
		{"array", DivergedStart, []run.Row{x, with(asks(job("y", 5, 300, 10, "n2"), depends), func(r *run.Row) { r.Task = 0 }),
			with(job("y", 5, 300, 10, "n2"), func(r *run.Row) { r.Task = 1 })},
			[]run.Row{late, with(asks(job("y", 5, 300, 10, "n2"), depends), func(r *run.Row) { r.Task = 0 }), with(never, func(r *run.Row) { r.Task = 1 })},
			"true: in B job x ended at " + monday.Add(200*time.Second).String() + " in the state TIMEOUT, so afterok:x can never be met"},
		{"cancelled by somebody", DivergedStart, []run.Row{x, job("y", 5, 300, 10, "n2")}, []run.Row{x, with(never, func(r *run.Row) { r.Reason = "Resources" })},
			"true: in B it ended as CANCELLED at " + end + ", before it started (Resources)"},
		{"planned while it waits", DivergedStart, []run.Row{x, asks(byUser, cancels)}, []run.Row{x, asks(job("y", 5, 300, 10, "n2"), cancels)},
			"true: in A the workload cancels it 870 s after its submission, and it still waited then"},
		{"planned while it runs", DivergedRunTime, []run.Row{asks(state(job("y", 5, 194, 0, "n2"), hpc.Cancelled, 875), cancels)},
			[]run.Row{asks(state(job("y", 5, 543, 0, "n2"), hpc.Cancelled, 876), cancels)},
			"true: the workload cancels it 870 s after its submission, and it waited for 538 s instead of 189 s"},
		{"planned while it runs, but ended too late", DivergedRunTime, []run.Row{asks(state(job("y", 5, 6, 0, "n2"), hpc.Cancelled, 875), cancels)},
			[]run.Row{asks(state(job("y", 5, 5, 0, "n2"), hpc.Cancelled, 896), cancels)}, ""},
		{"planned at other times", DivergedRunTime, []run.Row{asks(state(job("y", 5, 194, 0, "n2"), hpc.Cancelled, 875), cancels)},
			[]run.Row{asks(state(job("y", 5, 254, 0, "n2"), hpc.Cancelled, 905), func(j *hpc.Job) { j.CancelAfter = 900 * time.Second })},
			"true: the workload cancels it 900 s after its submission instead of 870 s, and it waited for 249 s instead of 189 s"},
		{"planned on one side", DivergedRunTime, []run.Row{asks(job("y", 5, 5, 600, "n2"), cancels)},
			[]run.Row{asks(state(job("y", 5, 543, 0, "n2"), hpc.Cancelled, 875), cancels)},
			"true: it ended as CANCELLED instead of COMPLETED: the workload cancels it 870 s after its submission"},
		{"another cancellation", DivergedRunTime, []run.Row{asks(state(job("y", 5, 194, 0, "n2"), hpc.Cancelled, 475), cancels)},
			[]run.Row{asks(state(job("y", 5, 194, 0, "n2"), hpc.Cancelled, 575), cancels)}, ""},
		{"another workload", DivergedRunTime, []run.Row{with(job("y", 5, 5, 600, "n2"), func(r *run.Row) { r.AskedRunTime = 600 * time.Second })},
			[]run.Row{with(job("y", 5, 5, 900, "n2"), func(r *run.Row) { r.AskedRunTime = 900 * time.Second })},
			"true: its run time in the workload is 900 s instead of 600 s"},
	} {
		if got := causesOf(t, test.kind, single("a", test.a...), single("b", test.b...)); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// A job that was not eligible could not start: the record proves it, whichever run is the baseline.
func TestCauseNotEligible(t *testing.T) {
	early := single("a", with(job("x", 0, 10, 60, "n1"), func(r *run.Row) { r.Eligible = r.Submit }))
	late := single("b", with(job("x", 0, 300, 60, "n1"), func(r *run.Row) { r.Eligible = r.Start }))
	if got := causesOf(t, DivergedStart, early, late); !strings.HasPrefix(got, "true: in B it was not eligible before ") || !strings.HasSuffix(got, "in A it had already started by then") {
		t.Error(got)
	}
	if got := causesOf(t, DivergedStart, late, early); !strings.HasPrefix(got, "true: in A it was not eligible before ") {
		t.Error(got)
	}
	moved := single("b", with(job("x", 27, 27, 60, "n1"), func(r *run.Row) { r.Eligible = r.Submit }), job("y", 0, 0, 5, "n2"))
	if got, want := causesOf(t, DivergedStart, withJob(early, job("y", 0, 0, 5, "n2")), moved), "true: in B it was submitted 27 s later"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Settings cannot have moved a start that moved with the submission. They can, if it moved further.
	early.Runs[0].Cluster = map[string]string{"slurm.conf": "SchedulerParameters=bf_interval=30"}
	moved.Runs[0].Cluster = map[string]string{"slurm.conf": "SchedulerParameters=bf_interval=300"}
	for start, settings := range map[int]bool{37: false, 60: true} {
		moved.Runs[0].Rows[0].Start = monday.Add(time.Duration(start) * time.Second)
		if got := causesOf(t, DivergedStart, withJob(early, job("y", 0, 0, 5, "n2")), moved); strings.Contains(got, "bf_interval") != settings ||
			!strings.Contains(got, "submitted 27 s later") {
			t.Errorf("it started %d s later: %s", start-10, got)
		}
	}
	late.Runs[0].Rows[0].Eligible = late.Runs[0].Rows[0].Submit
	if got := causesOf(t, DivergedStart, early, late); got != "" {
		t.Errorf("it was eligible, but: %s", got)
	}
}

func TestRejectedInOneRun(t *testing.T) {
	rejected := run.Row{Job: "y", Task: -1, State: hpc.Rejected, Reason: "Invalid qos", RecordedSubmit: monday}
	a := single("a", job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1"), job("z", 200, 200, 10, "n1"))
	b := single("b", job("x", 0, 0, 100, "n1"), rejected, job("z", 200, 260, 10, "n1"))
	list := mustCompare(t, Options{}, a, b).Pairs[0].Divergences
	if len(list) != 2 || list[0].Kind != DivergedAnswer || list[0].Reason != "job y was rejected, but not in the baseline" ||
		hpc.Time(list[0].At) != monday.Add(5*time.Second) || list[0].Processors != 4 {
		t.Fatalf("divergences %+v", list)
	}
	if got, want := causesOf(t, DivergedAnswer, a, b), "true: the answer to its submission was: Invalid qos"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	list = mustCompare(t, Options{}, b, a).Pairs[0].Divergences
	if list[0].Reason != "job y was accepted, but rejected in the baseline" {
		t.Errorf("divergences %+v", list)
	}
	both := mustCompare(t, Options{}, b, b).Pairs[0].Divergences
	if len(both) != 0 {
		t.Errorf("both rejected it: %+v", both)
	}
}

// TestReleases: wide overtakes narrow, because its priority counts the nodes that the newer sbatch asks for.
func TestReleases(t *testing.T) {
	rows := func(narrow, wide int) []run.Row {
		return []run.Row{
			asking(with(job("narrow", 0, narrow, 100, "n1"), func(r *run.Row) { r.RMJob = 1 }), hpc.Request{Tasks: 4}),
			asking(with(job("wide", 1, wide, 100, "n[1-2]"), func(r *run.Row) { r.RMJob = 2 }), hpc.Request{Tasks: 2, TasksPerNode: 1}),
		}
	}
	log := func(wide uint32, narrow releases.Scheduler) *releases.Log {
		return &releases.Log{Starts: map[uint32][]releases.Start{1: {{By: narrow}}, 2: {{By: releases.Main}}}, Priorities: map[uint32]uint32{1: 250, 2: wide}}
	}
	a := onSlurm(single("a", rows(50, 150)...), "22.05.8", log(187, releases.Main))
	b := onSlurm(single("b", rows(150, 50)...), "24.11.5", log(312, releases.Backfill))
	got := causesOf(t, DivergedStart, a, b)
	want := "false: sbatch of 24.11.5 submits 1 of the jobs that overtook it in a different way: wide\n" +
		"false: job wide, which waited, had priority 312 at its submission instead of 187\n" +
		"false: the backfill scheduler started it instead of the main scheduler"
	if got != want {
		t.Errorf("causes\n%s\nwant\n%s", got, want)
	}
	c := mustCompare(t, Options{}, a, b)
	if c.Pairs[0].Releases == nil || c.Pairs[0].Releases.Baseline != "22.05.8" {
		t.Fatalf("releases %+v", c.Pairs[0].Releases)
	}
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Slurm 22.05.8 in A and 24.11.5 in B, in their first runs:\n  configuration: adapted to both in the same way\n" +
			"  submissions: sbatch makes 1 of 2 differently\n    minimum of nodes: 1 job, first job wide: 2 instead of 1\n" +
			"  priorities at submission: 1 of 2 differ, first that of job wide, before the first divergence: 312 instead of 187\n",
		"    23.11.2  sbatch -n with --ntasks-per-node and without -N requests the resulting number of nodes; before,",
		"A: started 2023-11-14T22:14:10Z by the main scheduler on n1; just before",
		"  a likely cause: the backfill scheduler started it instead of the main scheduler\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, text.String())
		}
	}
	same := onSlurm(single("c", rows(50, 150)...), "22.05.8", nil)
	if p := mustCompare(t, Options{}, a, same).Pairs[0]; p.Releases != nil {
		t.Errorf("one release differs from itself: %+v", p.Releases)
	}
}

// Another priority of a job is a likely cause only if this job waited, and did not start at the same instant, in one of
// the runs.
func TestCauseOfPriority(t *testing.T) {
	waits := func(r *run.Row) {}
	ineligible := func(r *run.Row) { r.Eligible = r.Submit.Add(100 * time.Second) }
	cancelled := func(r *run.Row) { r.Start, r.End, r.State = 0, r.Submit.Add(20*time.Second), hpc.Cancelled }
	for _, test := range []struct {
		name   string
		starts [2]int
		edit   func(*run.Row)
		likely bool
	}{
		{"started before", [2]int{10, 11}, waits, false}, {"started at once", [2]int{0, 0}, waits, false},
		{"started then", [2]int{30, 30}, waits, false}, {"not eligible", [2]int{200, 200}, ineligible, false},
		{"cancelled", [2]int{0, 0}, cancelled, false}, {"waited", [2]int{200, 200}, waits, true},
		{"started in one run", [2]int{30, 31}, waits, true},
	} {
		side := func(name, release string, i, start int) Set {
			rows := []run.Row{
				with(job("first", 0, 5, 20, "n3"), func(r *run.Row) { r.RMJob = 1 }),
				with(job("other", 0, test.starts[i], 300, "n2"), func(r *run.Row) { r.RMJob = 2; test.edit(r) }),
				with(job("x", 0, start, 60, "n1"), func(r *run.Row) { r.RMJob = 3 }),
			}
			return onSlurm(single(name, rows...), release, &releases.Log{Priorities: map[uint32]uint32{1: uint32(i), 2: uint32(10 + i), 3: uint32(i)}})
		}
		got := causesOf(t, DivergedStart, side("a", "22.05.8", 0, 30), side("b", "24.11.5", 1, 46))
		const want = "job other, which waited, had priority 11 at its submission instead of 10"
		if strings.Contains(got, want) != test.likely || strings.Count(got, "priority") > 1 || strings.Contains(got, "job first") {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

// If nothing else differs, the scheduler's pass is a likely cause. If different jobs run, these are
// a likely cause.
func TestCauseOfPass(t *testing.T) {
	by := func(s Set) Set {
		return onSlurm(s, "24.11.5", &releases.Log{Starts: map[uint32][]releases.Start{0: {{By: releases.Backfill}}}})
	}
	a := by(single("a", job("x", 0, 30, 60, "n1")))
	b := by(single("b", job("x", 0, 46, 60, "n1")))
	if got, want := causesOf(t, DivergedStart, a, b),
		"false: the backfill scheduler started it in both runs, with the same jobs running: its passes were at different instants"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A record without nodes does not count as different nodes.
	a = by(single("a", job("w", 0, 0, 100, ""), job("x", 0, 30, 60, "")))
	b = by(single("b", job("w", 0, 0, 100, "n3"), job("x", 0, 46, 60, "n1")))
	if got, want := causesOf(t, DivergedStart, a, b),
		"false: the backfill scheduler started it in both runs, with the same jobs running: its passes were at different instants"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if d := mustCompare(t, Options{}, a, b).Pairs[0].Divergences[0]; d.Set.OnlyBusy != "" || d.Baseline.OnlyBusy != "" {
		t.Errorf("busy only here: %q and %q", d.Baseline.OnlyBusy, d.Set.OnlyBusy)
	}
	a = by(single("a", job("w", 0, 0, 100, "n2"), job("x", 0, 30, 60, "n1")))
	b = by(single("b", job("w", 0, 0, 100, "n3"), job("x", 0, 46, 60, "n1")))
	if got, want := causesOf(t, DivergedStart, a, b), "false: different jobs ran just before, or the same jobs ran on different nodes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// 26.05 places jobs of one node in another way. That is not a cause for larger jobs, nor between older
// releases.
func TestCauseOfPlacement(t *testing.T) {
	const why = "false: since 26.05.0 a job of at most one node gets the first node, in the order of weights, that can run it; before, the topology plugin chose among all nodes"
	for _, test := range []struct {
		from, to string
		nodes    int
		want     string
	}{{"24.11.5", "26.05.5", 1, why}, {"26.05.5", "24.11.5", 1, why}, {"24.11.5", "26.05.5", 2, ""}, {"22.05.8", "24.11.5", 1, ""}} {
		on := func(nodes string) Set {
			return single(nodes, with(job("x", 0, 30, 60, nodes), func(r *run.Row) { r.NodeCount = test.nodes }))
		}
		if got := causesOf(t, DivergedNodes, onSlurm(on("n1"), test.from, nil), onSlurm(on("n2"), test.to, nil)); got != test.want {
			t.Errorf("from %s to %s on %d nodes: %q, want %q", test.from, test.to, test.nodes, got, test.want)
		}
	}
}

// If the records show no cause, the output says this for different releases.
func TestNoCause(t *testing.T) {
	a := onSlurm(single("a", job("x", 0, 0, 60, "n1")), "22.05.8", nil)
	b := onSlurm(single("b", job("x", 0, 0, 90, "n1")), "24.11.5", nil)
	var text bytes.Buffer
	if err := mustCompare(t, Options{}, a, b).Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "ran for 90 s instead of 60 s\n") || !strings.Contains(text.String(), "  the records do not show why\n") {
		t.Error(text.String())
	}
}

// Jitter is a cause of moved submissions. Users who do not react are not a cause.
func TestCausesOfSubmissions(t *testing.T) {
	feedback := func(model string, jitter float64) Set {
		s := single("b", job("x", 30, 40, 60, "n1"))
		s.Runs[0].Manifest.Feedback = &run.Feedback{Model: model, Jitter: jitter}
		return s
	}
	for _, test := range []struct {
		set  Set
		want string
	}{
		{feedback("none", 60), "false: jitter moved submissions by up to 0 s and 60 s"},
		{feedback("think-time", 0), "false: users react to the system, and submit jobs that depend on earlier results later"},
		{feedback("none", 0), ""},
		{feedback("none", 20), ""}, // the submission moved by 30 s
	} {
		if got := causesOf(t, DivergedSubmit, single("a", job("x", 0, 40, 60, "n1"), job("y", 0, 0, 5, "n2")), withJob(test.set, job("y", 0, 0, 5, "n2"))); got != test.want {
			t.Errorf("causes %q, want %q", got, test.want)
		}
	}
}

// With another seed, jitter moves submissions by other times: a first divergence says nothing then.
func TestJitterOfAnotherSeed(t *testing.T) {
	set := func(name string, seed uint64, submit int) Set {
		s := single(name, job("x", submit, 40, 60, "n1"), job("y", 0, 0, 5, "n2"))
		s.Runs[0].Manifest.Seed, s.Runs[0].Manifest.Feedback = seed, &run.Feedback{Model: "none", Jitter: 60}
		return s
	}
	const moved = "false: jitter moved submissions by up to 60 s and 60 s"
	for seed, want := range map[uint64]string{1: moved, 2: moved + ": with another seed by other times, so the first " +
		"divergence says nothing about the configurations (want the same --seed on both sides)"} {
		if got := causesOf(t, DivergedSubmit, set("a", 1, 0), set("b", seed, 30)); got != want {
			t.Errorf("seeds 1 and %d: %q, want %q", seed, got, want)
		}
	}
}

// withJob adds a job to the run of a set.
func withJob(s Set, row run.Row) Set {
	s.Runs[0].Rows = append(s.Runs[0].Rows, row)
	return s
}

// Runs without a job in common do not agree.
func TestNoCommonJob(t *testing.T) {
	for want, sets := range map[string][]Set{
		"no job in common": {single("a", job("x", 0, 0, 5, "n1")), single("b", job("y", 0, 0, 5, "n1"))},
		"no divergence in the 1 job that both sides have: their first runs agree in each of them; 0 and 1 job is on one side only": {
			single("a", job("x", 0, 0, 5, "n1")), single("b", job("x", 0, 0, 5, "n1"), job("y", 0, 0, 5, "n2"))},
		"no divergence: the first runs of both sides agree in every job": {single("a", job("x", 0, 0, 5, "n1")), single("b", job("x", 0, 0, 5, "n1"))},
	} {
		var b strings.Builder
		if err := mustCompare(t, Options{}, sets...).Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "\n"+want) || strings.Count(b.String(), "every job") > strings.Count(want, "every job") {
			t.Errorf("want %q:\n%s", want, b.String())
		}
	}
}

// Jobs whose IDs have nothing in common are matched by their names, or by the names of one side and the IDs of the
// other. Names that repeat do not match.
func TestNames(t *testing.T) {
	called := func(name string, r run.Row) run.Row { r.Name = name; return r }
	log := []run.Row{job("jobid_1", 0, 0, 5, "n1"), job("jobid_2", 10, 10, 5, "n1"), job("jobid_3", 20, 20, 5, "n1")}
	replay := func(names ...string) (rows []run.Row) {
		for i, name := range names {
			rows = append(rows, called(name, job(fmt.Sprint(1001+i), 10*i, 10*i+7, 5, "n1")))
		}
		return rows
	}
	named := []run.Row{called("x", log[0]), called("y", log[1]), called("z", log[2])}
	numbered := slices.Clone(log)
	for i := range numbered {
		numbered[i].Job = strconv.Itoa(1001 + i)
	}
	for _, test := range []struct {
		name string
		a, b []run.Row
		want int // number of matched jobs
		said bool
	}{
		{"names that are the other's IDs", log, replay("jobid_1", "jobid_2", "jobid_3"), 3, true},
		{"IDs that are the other's names", replay("jobid_3", "jobid_2", "jobid_1"), log, 3, true},
		{"the same names", named, replay("z", "y", "x"), 3, true},
		{"a partner for two of three", log, replay("jobid_1", "jobid_2", "other"), 2, true},
		{"a partner for one of three", log, replay("jobid_1", "more", "other"), 0, false},
		{"names that repeat", log, replay("jobid_1", "jobid_2", "jobid_2"), 0, false},
		{"jobs without names", log, replay("", "", ""), 0, false},
		{"the same IDs", numbered, replay("jobid_1", "jobid_2", "jobid_3"), 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustCompare(t, Options{EveryJob: true}, single("a", test.a...), single("b", test.b...))
			v := c.Pairs[0].Jobs
			if v.Matched != test.want || (v.MatchedBy == jobrows.ByName) != test.said {
				t.Fatalf("%d matched, by name %v; want %d, %v", v.Matched, v.MatchedBy, test.want, test.said)
			}
			for _, d := range v.All {
				if strings.HasPrefix(test.name, "names that are") && (d.Wait != 7 || !strings.HasPrefix(d.Job, "jobid_")) {
					t.Errorf("%+v, want a wait of 7 s more and the baseline's ID", d)
				}
			}
			var b strings.Builder
			if err := c.Render(&b, time.UTC); err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(b.String(), " by their names, as no ID is the same"); said != test.said {
				t.Errorf("said %v:\n%s", said, b.String())
			}
		})
	}
}

// TestNumbers matches a run with what the resource manager's accounting says of it, whose IDs are its job numbers.
func TestNumbers(t *testing.T) {
	numbered := func(r run.Row, number uint32, task int, name string) run.Row {
		r.RMJob, r.Task, r.Name = number, task, name
		return r
	}
	of := func(r run.Row, id, name string) run.Row { r.Job, r.Name = id, name; return r }
	ran := []run.Row{
		numbered(job("a", 0, 0, 5, "n1"), 1, -1, "x"), numbered(job("b", 10, 10, 5, "n1"), 3, 1, "y"),
		numbered(job("b", 10, 20, 5, "n1"), 2, 2, "y"), numbered(job("c", 20, 30, 5, "n1"), 4, -1, "x"),
	}
	rejected := job("d", 25, 25, 5, "n1")
	rejected.RMJob, rejected.State = 0, hpc.Rejected
	told := []run.Row{of(ran[0], "1", "x"), of(ran[1], "2", "y"), of(ran[2], "2", "y"), of(ran[3], "4", "x")}
	anew := []run.Row{of(ran[0], "1", "x"), of(ran[1], "2", "y"), of(ran[2], "2", "y"), of(ran[3], "3", "x")}
	mixed := func(rows []run.Row) []run.Row { // its IDs are numbers, too, but not the resource manager's
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i].Job = map[string]string{"a": "4", "b": "1", "c": "2"}[rows[i].Job]
			rows[i].Name = "of " + rows[i].Job
		}
		return rows
	}
	renamed := slices.Clone(told)
	for i := range renamed {
		renamed[i].Name = map[string]string{"1": "of 4", "2": "of 1", "4": "of 2"}[renamed[i].Job]
	}
	for _, c := range []struct {
		name string
		a, b []run.Row
		want int
		by   jobrows.Match
	}{
		{"a run and its accounting", append(ran[:4:4], rejected), told, 4, jobrows.ByNumber},
		{"the accounting and its run", told, append(ran[:4:4], rejected), 4, jobrows.ByNumber},
		{"numbers that name other jobs", ran, anew, 4, jobrows.BySubmission},
		{"IDs that name other jobs", mixed(ran), renamed, 4, jobrows.ByNumber},
		{"the same IDs", ran, ran, 4, jobrows.ByID},
	} {
		for i := range c.a {
			c.a[i].User = "ada"
		}
		for i := range c.b {
			c.b[i].User = "ada"
		}
		v := mustCompare(t, Options{}, single("a", c.a...), single("b", c.b...)).Pairs[0].Jobs
		if v.Matched != c.want || v.MatchedBy != c.by {
			t.Errorf("%s: %d matched by %q, want %d by %q", c.name, v.Matched, v.MatchedBy, c.want, c.by)
		}
	}
}

// If a run is compared with itself, there is no inference, and the reason says why.
func TestGivenTwice(t *testing.T) {
	one := single("a", job("x", 0, 0, 5, "n1"))
	if c := mustCompare(t, Options{}, one, one); c.Inference || c.Reason != "a is given twice, and no run differs from itself" {
		t.Errorf("inference %v: %s", c.Inference, c.Reason)
	}
}

// Groups are sorted by their change. They have the sum of the change over their jobs, and its share of
// all changes.
func TestWinnersAndLosers(t *testing.T) {
	of := func(user string, r run.Row) run.Row { r.User = user; return r }
	a := single("a", of("ann", job("1", 0, 3600, 10, "n1")), of("ann", job("2", 0, 3600, 10, "n1")), of("bob", job("3", 0, 3600, 10, "n2")), of("cid", job("4", 0, 0, 10, "n3")))
	b := single("b", of("ann", job("1", 0, 0, 10, "n1")), of("ann", job("2", 0, 0, 10, "n1")), of("bob", job("3", 0, 5400, 10, "n2")), of("cid", job("4", 0, 0, 10, "n3")))
	c := mustCompare(t, Options{By: []metrics.By{metrics.ByUser}}, a, b)
	var order []string
	for _, g := range ByChange(c.Groups[metrics.ByUser], 1) {
		sum, share := g.change(c.Groups[metrics.ByUser], 1)
		order = append(order, fmt.Sprintf("%s %v %v", g.Name, sum, share))
	}
	if want := []string{"bob 1800 0.2", "cid 0 0", "ann -7200 0.8"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	var text strings.Builder
	if err := c.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), "by user, the total wait grows in 1, by 0.50 h in all, and shrinks in 1, by 2 h;") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// The total wait of a group can grow while its mean wait shrinks, if more of its jobs start.
func TestOppositeChanges(t *testing.T) {
	of := func(user string, r run.Row) run.Row { r.User = user; return r }
	never := of("ann", job("2", 0, 0, 0, ""))
	never.Start, never.End, never.State = 0, 0, hpc.Pending
	a := single("a", of("ann", job("1", 0, 100, 10, "n1")), never, of("bob", job("3", 0, 5, 10, "n2")))
	b := single("b", of("ann", job("1", 0, 90, 10, "n1")), of("ann", job("2", 0, 80, 10, "n1")), of("bob", job("3", 0, 50, 10, "n2")))
	var text strings.Builder
	const want = "\nin 1 of them the mean wait moves the other way, because another number of jobs started: ann\n"
	if err := mustCompare(t, Options{By: []metrics.By{metrics.ByUser}}, a, b).Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), want) {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// Jobs with another time limit are named, because limits decide what backfill can start. A rejected job, and a job
// without a known limit, do not count.
func TestOtherLimits(t *testing.T) {
	of := func(limit time.Duration, r run.Row) run.Row { r.TimeLimit = limit; return r }
	rejected := of(time.Hour, job("4", 0, 0, 0, ""))
	rejected.State = hpc.Rejected
	a := single("a", of(2*time.Hour, job("1", 0, 10, 50, "n1")), of(time.Hour, job("2", 0, 10, 50, "n2")), of(0, job("3", 0, 10, 50, "n3")), of(2*time.Hour, job("4", 0, 10, 50, "n4")))
	b := single("b", of(time.Hour, job("1", 0, 70, 50, "n1")), of(time.Hour, job("2", 0, 10, 50, "n2")), of(time.Hour, job("3", 0, 10, 50, "n3")), rejected)
	c := mustCompare(t, Options{}, a, b)
	var text strings.Builder
	if err := c.Render(&text, time.UTC); err != nil || c.Pairs[0].OtherLimits != 1 {
		t.Errorf("%v: %d jobs", err, c.Pairs[0].OtherLimits)
	}
	for _, want := range []string{"\nthe workloads of the first runs differ: 1 job has another time limit in B than in A\n", "a likely cause: 1 job that waited or ran then has another time limit: 1\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// Only jobs that were in the queue or on nodes at a divergence are a likely cause of it: not jobs that had ended, and
// not jobs that were submitted later.
func TestOtherLimitsThen(t *testing.T) {
	of := func(limit time.Duration, r run.Row) run.Row { r.TimeLimit = limit; return r }
	runs := func(name string, limit time.Duration, start int) Set {
		return single(name, of(limit, job("ended", 0, 10, 50, "n1")), of(limit, job("ran", 0, 10, 5000, "n2")),
			of(time.Hour, job("late", 500, start, 50, "n1")), of(limit, job("later", 3000, 3000, 50, "n3")))
	}
	c := mustCompare(t, Options{}, runs("a", time.Hour, 1000), runs("b", 2*time.Hour, 2000))
	if n := c.Pairs[0].OtherLimits; n != 3 {
		t.Errorf("%d jobs, want 3", n)
	}
	want := Cause{Text: "1 job that waited or ran then has another time limit: ran"}
	if d := c.Pairs[0].Divergences[0]; d.Job != "late" || !slices.Contains(d.Causes, want) {
		t.Errorf("%+v", d)
	}
}

// A user with jobs on one side only has the whole total of that side as change. A sentence names such users, also if
// the other side refused their jobs.
func TestGroupOfOneSide(t *testing.T) {
	of := func(user string, r run.Row) run.Row { r.User = user; return r }
	refused := of("cid", job("4", 0, 0, 0, ""))
	refused.Start, refused.End, refused.State = 0, 0, hpc.Rejected
	a := single("a", of("ann", job("1", 0, 3600, 10, "n1")), of("bob", job("2", 0, 10, 10, "n1")), of("cid", job("4", 0, 1800, 10, "n2")))
	b := single("b", of("bob", job("2", 0, 10, 10, "n1")), of("dan", job("3", 0, 7200, 10, "n2")), refused)
	c := mustCompare(t, Options{By: []metrics.By{metrics.ByUser}}, a, b)
	var order []string
	for _, g := range ByChange(c.Groups[metrics.ByUser], 1) {
		sum, _ := g.change(c.Groups[metrics.ByUser], 1)
		order = append(order, fmt.Sprintf("%s %v", g.Name, sum))
	}
	if want := []string{"dan 7200", "bob 0", "cid -1800", "ann -3600"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	var text strings.Builder
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n1 of them started no job in A, so the change is all that they waited in B: dan\n",
		"\n2 of them started no job in B, so the change is all that they waited in A: cid, ann\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// A machine of another size is a likely cause.
func TestOtherMachine(t *testing.T) {
	a, b := single("a", job("x", 0, 10, 50, "n1")), single("b", job("x", 0, 70, 50, "n1"))
	a.Runs[0].Manifest.Cluster, b.Runs[0].Manifest.Cluster = run.Cluster{Nodes: 50, Processors: 100}, run.Cluster{Nodes: 25, Processors: 50}
	causes := mustCompare(t, Options{}, a, b).Pairs[0].Divergences[0].Causes
	if len(causes) != 1 || causes[0] != (Cause{Text: "the machine has 25 nodes instead of 50"}) {
		t.Errorf("%+v", causes)
	}
}

// Both runs have the same cluster files, and one was made with more nodes. The list of settings names the size, also if
// a record has no files. The size is a cause of its own, and not a setting of the files.
func TestSizeAsPlayed(t *testing.T) {
	files := map[string]string{"slurm.conf": "ClusterName=x\nNodeName=n[1-50] CPUs=4\n"}
	for _, cluster := range []map[string]string{files, nil} {
		a := single("a", job("1", 0, 60, 100, "n1"))
		b := single("b", job("1", 0, 0, 100, "n1"))
		a.Runs[0].Manifest.Cluster.Nodes, b.Runs[0].Manifest.Cluster.Nodes = 50, 60
		a.Runs[0].Manifest.Cluster.Processors, b.Runs[0].Manifest.Cluster.Processors = 200, 240
		a.Runs[0].Cluster, b.Runs[0].Cluster = cluster, cluster
		c := mustCompare(t, Options{}, a, b)
		want := [][]string{{"nodes of the machine as it was played", "50", "60"}, {"processors of the machine as it was played", "200", "240"}}
		if got := c.Pairs[0].ClusterRows(); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("settings %q, want %q", got, want)
		}
		var text strings.Builder
		err := c.Render(&text, time.UTC)
		if head := "the clusters of the first runs differ in 2 settings, B instead of A:\n  nodes of the machine as it was played: 60 instead of 50\n"; err != nil || !strings.Contains(text.String(), head) {
			t.Errorf("%v, want %q in\n%s", err, head, text.String())
		}
		if strings.Contains(text.String(), "the clusters have different settings") || !strings.Contains(text.String(), "a likely cause: the machine has 60 nodes instead of 50") {
			t.Errorf("the size is not a cause of its own:\n%s", text.String())
		}
	}
}
