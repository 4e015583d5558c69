package compare

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// afterLoss gives a job an earlier run, between from and to (seconds from monday), that ended in a
// requeue.
func afterLoss(r run.Row, from, to int, nodes, by string) run.Row {
	at := func(s int) hpc.Time { return monday.Add(time.Duration(s) * time.Second) }
	lost := run.Segment{Start: at(from), End: at(to), Nodes: nodes, NodeCount: 1, Processors: 4, EndedBy: rm.Requeue, PreemptedBy: by}
	r.Segments = []run.Segment{lost}
	if r.Start != 0 {
		last := run.Segment{Start: r.Start, End: r.End, NodeCount: r.NodeCount, Processors: r.Processors, EndedBy: rm.Ended}
		r.Segments = append(r.Segments, last)
	}
	r.Restarts, r.Eligible = 1, at(to+120)
	return r
}

// x starts on both sides at the same time. In the set, y preempts x, which starts again behind z. The divergence
// is the preemption, and no job overtook x before.
func TestLostRunIsTheDivergence(t *testing.T) {
	a := single("a", job("x", 0, 10, 1000, "n1"), job("y", 5, 1010, 50, "n1"), job("z", 6, 1060, 20, "n1"))
	preempted := afterLoss(job("x", 0, 500, 1000, "n2"), 10, 300, "n1", "y")
	b := single("b", preempted, job("y", 5, 300, 50, "n1"), job("z", 6, 350, 20, "n1"))
	c := mustCompare(t, Options{}, a, b)
	list := c.Pairs[0].Divergences
	if len(list) != 2 || list[0].Kind != DivergedLost || list[0].Job != "x" || list[1].Kind != DivergedStart || list[1].Job != "y" {
		t.Fatalf("divergences %+v, want the lost run of x, the start of y", list)
	}
	d := list[0]
	if d.At != Instant(monday.Add(300*time.Second)) || d.Reason != "job x lost its run and was requeued, but not in the baseline" || len(d.Overtook) > 0 {
		t.Errorf("at %s: %s, overtaken by %v", d.At.Text(time.UTC), d.Reason, d.Overtook)
	}
	if d.Set.Start != d.Baseline.Start || d.Set.Nodes != "n1" || d.Set.End != d.At || d.Set.Wait != 10 {
		t.Errorf("set %+v", d.Set)
	}
	// Just before the loss, both sides were equal.
	for _, s := range []Situation{d.Baseline, d.Set} {
		if s.Running != 1 || s.Queued != 2 || len(s.OnlyQueued)+len(s.OnlyRunning) != 0 || s.OnlyBusy != "" {
			t.Errorf("just before: %+v", s)
		}
	}
	if len(d.Causes) != 1 || !d.Causes[0].Proven || !strings.HasPrefix(d.Causes[0].Text, "in B it was preempted by job y at ") {
		t.Errorf("causes %+v", d.Causes)
	}
	if v := c.Pairs[0].Jobs; v.Start.Changed != 2 || v.Differences()[0].Start != 0 {
		t.Errorf("x started at the same time: %+v", v.Start)
	}
	turned := mustCompare(t, Options{}, b, a).Pairs[0].Divergences[0]
	if turned.Kind != DivergedLost || turned.Reason != "job x did not lose its run, but it lost it in the baseline" ||
		!strings.HasPrefix(turned.Causes[0].Text, "in A it was preempted by job y at ") {
		t.Errorf("turned: %+v", turned)
	}
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), "  because: in B it was preempted by job y") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// Both sides lose the run at the same time, and the job starts again later in the set, behind z. Between its runs
// it waits.
func TestStartAfterALostRun(t *testing.T) {
	rows := func(again, z int) []run.Row {
		return []run.Row{afterLoss(job("x", 0, again, 100, "n1"), 10, 300, "n1", ""), job("z", 6, z, 20, "n1")}
	}
	a, b := single("a", rows(500, 700)...), single("b", rows(600, 550)...)
	list := mustCompare(t, Options{}, a, b).Pairs[0].Divergences
	if len(list) != 1 || list[0].Job != "x" || list[0].Reason != "job x started again 100 s later than in the baseline" {
		t.Fatalf("divergences %+v", list)
	}
	if d := list[0]; len(d.Overtook) != 1 || d.Overtook[0] != "z" || d.Set.Queued != 2 || d.Set.Running != 0 || d.Set.Wait != 310 {
		t.Errorf("overtaken by %v, set %+v", d.Overtook, d.Set)
	}
	// A job that lost its only run counts as started.
	never := single("c", afterLoss(job("x", 0, -1, 0, ""), 10, 300, "n1", ""), job("z", 6, 700, 20, "n1"))
	c := mustCompare(t, Options{}, a, never)
	if got := c.Pairs[0].Divergences[0]; got.Reason != "job x did not start again, but it started in the baseline" {
		t.Errorf("never again: %+v", got)
	}
	if n := c.Pairs[0].Jobs.NoStart; n[1] != 0 {
		t.Errorf("it started once, but counts as never started: %v", n)
	}
	never.Runs[0].Manifest.State = run.StateInterrupted
	if got := mustCompare(t, Options{}, a, never).Pairs[0].Divergences; len(got) != 0 {
		t.Errorf("the run ended before the job could start again: %+v", got)
	}
	// Both sides lost the run, at different times.
	other := single("d", afterLoss(job("x", 0, 500, 100, "n1"), 10, 400, "n1", ""), job("z", 6, 700, 20, "n1"))
	got := mustCompare(t, Options{}, a, other).Pairs[0].Divergences
	if len(got) != 1 || got[0].Kind != DivergedLost || !strings.HasPrefix(got[0].Causes[0].Text, "in A it was requeued at ") {
		t.Errorf("lost at other times: %+v", got)
	}
}

// A job that preempts another starts earlier for this reason. Just before, the same jobs ran on both sides.
func TestStartByPreemption(t *testing.T) {
	killed := with(job("x", 0, 10, 290, "n1"), func(r *run.Row) {
		r.State = hpc.Preempted
		r.Segments = []run.Segment{{Start: r.Start, End: r.End, NodeCount: 1, Processors: 4, EndedBy: rm.Ended, PreemptedBy: "y"}}
	})
	a := single("a", job("x", 0, 10, 1000, "n1"), job("y", 5, 1010, 50, "n1"))
	b := single("b", killed, job("y", 5, 300, 50, "n1"))
	if got := causesOf(t, DivergedStart, a, b); got != "true: in B it preempted job x" {
		t.Error(got)
	}
	if got := causesOf(t, DivergedStart, b, a); got != "true: in A it preempted job x" {
		t.Errorf("turned: %s", got)
	}
	for _, d := range mustCompare(t, Options{}, a, b).Pairs[0].Divergences {
		if d.Set.Running != 1 || len(d.Baseline.OnlyRunning) > 0 || d.Baseline.OnlyBusy != "" {
			t.Errorf("%s: just before: %+v and %+v", d.Kind, d.Baseline, d.Set)
		}
	}
}

// If jobs are matched by name, the preempting job is named by its ID in the baseline.
func TestPreemptedByAJobOfAnotherName(t *testing.T) {
	named := func(r run.Row, name string) run.Row { r.Name = name; return r }
	a := single("a", named(job("1", 0, 10, 1000, "n1"), "x"), named(job("2", 5, 1010, 50, "n1"), "y"))
	b := single("b", named(afterLoss(job("11", 0, 500, 1000, "n1"), 10, 300, "n1", "12_3"), "x"), named(job("12", 5, 300, 50, "n1"), "y"))
	d := mustCompare(t, Options{}, a, b).Pairs[0].Divergences[0]
	if d.Kind != DivergedLost || !strings.HasPrefix(d.Causes[0].Text, "in B it was preempted by job 2_3 at ") {
		t.Errorf("%+v", d)
	}
	if by := b.Runs[0].Rows[0].Segments[0].PreemptedBy; by != "12_3" {
		t.Errorf("the caller's row now has %s", by)
	}
}

// A comparison has the lost runs of both sides if one side has any.
func TestLossesAreCompared(t *testing.T) {
	a := single("a", job("x", 0, 10, 1000, "n1"))
	b := single("b", afterLoss(job("x", 0, 500, 1000, "n2"), 10, 300, "n1", "y"))
	c := mustCompare(t, Options{}, a, b)
	for key, want := range map[string]metrics.Float{"requeues": 1, "preemptions": 1, "interrupted_processor_s": 290 * 4} {
		if m := find(t, c.Metrics, key); m.Sets[0].Mean != 0 || m.Differences[0].Difference != want {
			t.Errorf("%s: %+v, want %v more", key, m, want)
		}
	}
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), "preemptions") {
		t.Errorf("%v\n%s", err, text.String())
	}
	for _, m := range mustCompare(t, Options{}, a, a).Metrics {
		if m.Key == "preemptions" {
			t.Errorf("no run was lost, and yet there is %+v", m)
		}
	}
}
