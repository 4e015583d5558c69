package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

func at(sec int64) hpc.Time { return hpc.Unix(1000 + sec) }

func nan() Float { return Float(math.NaN()) }

// job is a completed job.
func job(submit, start, end int64, nodes, processors int) run.Row {
	return run.Row{
		State: hpc.Completed, Submit: at(submit), Start: at(start), End: at(end),
		NodeCount: nodes, Processors: processors,
	}
}

// exactly compares bit by bit and treats all NaNs as equal. approx allows for different
// rounding.
var (
	exactly = cmp.Comparer(func(a, b Float) bool { return a == b || a != a && b != b })
	approx  = cmp.Comparer(func(a, b Float) bool {
		scale := math.Max(math.Abs(float64(a)), math.Abs(float64(b)))
		return a == b || a != a && b != b || math.Abs(float64(a-b)) <= 1e-11*scale
	})
)

// handRows is a schedule whose metrics can be worked out on paper, on 4 nodes of
// 2 processors:
//
//	job  submit start end  proc nodes   wait turnaround run  slowdown bounded
//	A         0     0  100    8     4      0        100  100     1      1
//	B        10   100  105    2     1     90         95    5    19      9.5
//	C        20   100  200    4     3     80        180  100     1.8    1.8
//	D        30   110  110    2     1     80         80    0     -      8
//	E        40 (cancelled at 90)
//	F        50   150    -    2     1    100          -
//	G        60 (rejected)
func handRows() []run.Row {
	rows := []run.Row{
		job(0, 0, 100, 4, 8), job(10, 100, 105, 1, 2), job(20, 100, 200, 3, 4), job(30, 110, 110, 1, 2),
		{State: hpc.Cancelled, Submit: at(40), End: at(90)},
		{State: hpc.Running, Submit: at(50), Start: at(150), NodeCount: 1, Processors: 2},
		{State: hpc.Rejected, Submit: at(60)},
	}
	rows[1].State = hpc.Failed
	return rows
}

func handMetrics() Metrics {
	return Metrics{
		Jobs: 6, Rejected: 1, Started: 5,
		JobsByState: map[hpc.State]int{hpc.Completed: 3, hpc.Failed: 1, hpc.Cancelled: 1, hpc.Running: 1},
		LeftOut:     map[Omission]int{NeverStarted: 1, NotEnded: 1, ZeroRunTime: 1},
		// From 0 to 200.
		MakespanSeconds: 200,
		// 100×8 + 5×2 + 100×4 + 0 + 50×2 = 1310 of 200×8.
		UsedProcessorSeconds: 1310, Utilization: 1310.0 / 1600,
		// 100×4 + 5×1 + 100×3 + 0 + 50×1 = 755 of 200×4.
		NodeUtilization: 755.0 / 800, UsedNodeSeconds: 755, IdleNodeSeconds: 45, UnnamedNodes: 4,
		Throughput: 4, ThroughputPerHour: 72,
		// 0 + 90 + 80 + 80 + 50 + 100 = 400 in 200 s.
		MeanQueue: 2,
		// Sorted 0, 80, 80, 90, 100; p90 at 3.6, p99 at 3.96.
		Wait: Wait{Mean: 70, Median: 80, P90: 96, P99: 99.6, Max: 100},
		// Sorted 80, 95, 100, 180; median at 1.5, p90 at 2.7, p99 at 2.97.
		Turnaround: Turnaround{Mean: 113.75, Median: 97.5, P90: 156, P99: 177.6, Max: 180},
		// Sorted 1, 1.8, 19; p90 at 1.8, p99 at 1.98.
		Slowdown: Slowdown{Mean: 21.8 / 3, Median: 1.8, P90: 1.8 + 0.8*17.2, P99: 1.8 + 0.98*17.2, Max: 19},
		// Sorted 1, 1.8, 8, 9.5; p90 at 2.7, p99 at 2.97.
		BoundedSlowdown: BoundedSlowdown{Mean: 20.3 / 4, Median: 4.9, P90: 8 + 0.7*1.5, P99: 8 + 0.97*1.5, Max: 9.5},
		TauSeconds:      10,
		HighSlowdown:    1, // B
		HeldByState:     map[hpc.State]Float{hpc.Completed: 1200, hpc.Failed: 10},
		Losses:          []Loss{{"failed", 1, 10, 10.0 / 1210}},

		LimitProcessorSeconds: nan(), UnusedLimitProcessorSeconds: nan(),
		// Four jobs waited, and the record says neither since when they were eligible nor why they waited.
		EligibleWait: EligibleWait{nan(), nan(), nan(), nan(), nan()},
		WaitParts:    []WaitPart{{Part: waits.Unknown, Jobs: 4, Seconds: 350, Mean: 70, Share: 1}}, Waited: 5,
	}
}

func TestComputeByHand(t *testing.T) {
	got := Compute(handRows(), Options{Nodes: 4, Processors: 8})
	if diff := cmp.Diff(handMetrics(), got, approx); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestInterval takes the same schedule from 50 to 120.
func TestInterval(t *testing.T) {
	got := Compute(handRows(), Options{Nodes: 4, Processors: 8, From: at(50), To: at(120)})
	want := handMetrics()
	// A 50×8, B 5×2, C 20×4; F starts later. E waits 40, B, C 50, D 60, F 70.
	want.UsedProcessorSeconds = 490
	want.Utilization = 490.0 / (70 * 8)
	want.UsedNodeSeconds, want.IdleNodeSeconds, want.UnnamedNodes = 200+5+60, 70*4-(200+5+60), 3
	want.NodeUtilization = (200.0 + 5 + 60) / (70 * 4)
	want.Throughput = 2 // B and D; A started before
	want.ThroughputPerHour = 2 * 3600.0 / 70
	want.MeanQueue = (40.0 + 50 + 50 + 60 + 70) / 70
	if diff := cmp.Diff(want, got, approx); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSubmittedInterval: the figures of jobs are those of the jobs that were submitted in an interval, and the figures
// of the machine are those of all jobs.
func TestSubmittedInterval(t *testing.T) {
	all := handRows()
	all[2].TimeLimit = 200 * time.Second
	opts := Options{Nodes: 4, Processors: 8, SubmittedFrom: at(10), SubmittedTo: at(20)}
	got, want := Compute(all, opts), Compute(all[1:3], opts)
	if want.Jobs != 2 || want.Wait.Mean != (90.0+80)/2 || want.Losses[0].Share != 10.0/410 || want.UnusedLimitProcessorSeconds != 400 {
		t.Fatalf("the figures of B and C: %+v", want)
	}
	want.LeftOut = map[Omission]int{SubmittedOutside: 4}
	machine := handMetrics()
	want.MakespanSeconds, want.Utilization, want.UsedProcessorSeconds = machine.MakespanSeconds, machine.Utilization, machine.UsedProcessorSeconds
	want.NodeUtilization, want.UsedNodeSeconds, want.IdleNodeSeconds = machine.NodeUtilization, machine.UsedNodeSeconds, machine.IdleNodeSeconds
	want.UnnamedNodes, want.Throughput, want.ThroughputPerHour = machine.UnnamedNodes, machine.Throughput, machine.ThroughputPerHour
	want.MeanQueue = machine.MeanQueue
	if diff := cmp.Diff(want, got, approx); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	all[0].User, all[1].User, all[6].User = "a", "b", "g"
	groups := Groups(all, ByUser, Options{Processors: 8, From: at(101), SubmittedFrom: at(10), SubmittedTo: at(20)}, nil)
	if len(groups) != 2 || groups[0].Name != "" || groups[0].Jobs != 1 || groups[1].Name != "b" || groups[1].Jobs != 1 {
		t.Errorf("groups %+v, want C's with one job, and b with one job; a and g have nothing in the interval", groups)
	}
	rows := handRows()
	for i := range rows {
		rows[i].Reasons = []run.Span{{From: rows[i].Submit, To: rows[i].Start, Reason: "Resources"}}
	}
	m := &run.Manifest{Engine: "slurm", VirtualEnd: at(200)}
	s := NewSummary(rows, m, Options{SubmittedFrom: at(10), SubmittedTo: at(20)})
	if len(s.Reasons) != 1 || s.Reasons[0].Jobs != 2 || s.Reasons[0].Seconds != 170 {
		t.Errorf("reasons %+v, want 2 jobs and 170 s", s.Reasons)
	}
}

func TestTau(t *testing.T) {
	got := Compute(handRows(), Options{Tau: 100 * time.Second}).BoundedSlowdown
	// 100/100, 95/100 → 1, 180/100, 80/100 → 1.
	if got.Mean != 1.2 || got.Max != 1.8 || got.Median != 1 {
		t.Errorf("bounded slowdown with τ = 100 s: %+v", got)
	}
}

// TestSegments: a suspended job does not use its processors, and a requeued job used those
// of its lost run.
func TestSegments(t *testing.T) {
	suspended := job(0, 0, 100, 1, 4)
	suspended.Suspended = 50 * time.Second
	suspended.Segments = []run.Segment{
		{Start: at(0), End: at(20), Processors: 4, NodeCount: 1, EndedBy: rm.Suspend},
		{Start: at(70), End: at(100), Processors: 4, NodeCount: 1, EndedBy: rm.Ended},
	}
	requeued := job(0, 60, 90, 1, 2)
	requeued.Segments = []run.Segment{
		{Start: at(10), End: at(30), Processors: 4, NodeCount: 2, EndedBy: rm.Requeue},
		{Start: at(60), End: at(90), Processors: 2, NodeCount: 1, EndedBy: rm.Ended},
	}
	got := Compute([]run.Row{suspended, requeued}, Options{Nodes: 2, Processors: 8})
	// 50×4 + 20×4 + 30×2 = 340 of 100×8; nodes 50 + 40 + 30 = 120 of 100×2.
	if got.UsedProcessorSeconds != 340 || got.Utilization != 340.0/800 || got.NodeUtilization != 0.6 {
		t.Errorf("used %v, utilization %v and %v", got.UsedProcessorSeconds, got.Utilization, got.NodeUtilization)
	}
	// The lost run of 20 s on 4 processors was requeued; the record does not say that it was
	// preempted.
	if got.Requeues != 1 || got.Preemptions != 0 || got.InterruptedProcessorSeconds != 80 || got.HeldByState[hpc.Completed] != 340 {
		t.Errorf("%d requeues, %d preemptions, lost %v, held %v", got.Requeues, got.Preemptions, got.InterruptedProcessorSeconds, got.HeldByState)
	}
	again := run.Row{State: hpc.Pending, Submit: at(0), Segments: requeued.Segments[:1]}
	if m := Compute([]run.Row{again, {State: hpc.Pending, Submit: at(0)}}, Options{}); m.LeftOut[NeverStarted] != 1 || m.LeftOut[NotStartedAgain] != 1 {
		t.Errorf("of a job that waits again and one that never started, %v are left out", m.LeftOut)
	}
	requeued.Segments[0].PreemptedBy = "x"
	killed := job(0, 0, 10, 1, 3)
	killed.State = hpc.Preempted
	if by := Compute([]run.Row{requeued, killed}, Options{}); by.Requeues != 1 || by.Preemptions != 2 || by.InterruptedProcessorSeconds != 110 || by.HeldByState[hpc.Preempted] != 30 {
		t.Errorf("%d requeues, %d preemptions, lost %v, held %v", by.Requeues, by.Preemptions, by.InterruptedProcessorSeconds, by.HeldByState)
	}
	failed := job(0, 0, 20, 1, 5)
	failed.State, failed.TimeLimit = hpc.Failed, 30*time.Second
	suspended.TimeLimit = 60 * time.Second // 50 s of the limit were used, on 4 processors
	lost := Compute([]run.Row{suspended, requeued, killed, failed}, Options{})
	want := []Loss{{LostToPreemption, 2, 110, 110.0 / 470}, {"failed", 1, 100, 100.0 / 470}}
	if !slices.Equal(lost.Losses, want) || lost.LimitProcessorSeconds != 30*5+60*4 || lost.UnusedLimitProcessorSeconds != 10*5+10*4 {
		t.Errorf("%+v, limits %v, unused %v", lost.Losses, lost.LimitProcessorSeconds, lost.UnusedLimitProcessorSeconds)
	}
	if !slices.Equal(got.Losses, []Loss{{LostToRequeue, 1, 80, 80.0 / 340}}) {
		t.Errorf("%+v", got.Losses)
	}
	stopped := job(0, 0, 100, 1, 5) // cancelled while it was suspended for another job
	stopped.State = hpc.Cancelled
	stopped.Segments = []run.Segment{{Start: at(0), End: at(20), Processors: 5, NodeCount: 1, EndedBy: rm.Suspend, PreemptedBy: "x"}}
	of := Compute([]run.Row{stopped}, Options{})
	if !slices.Equal(of.Losses, []Loss{{"cancelled", 1, 100, 1}}) || of.Preemptions != 0 {
		t.Errorf("%+v, %d preemptions", of.Losses, of.Preemptions)
	}
	// It waited from 0 to 10 and from 30 to 60.
	if got.MeanQueue != 0.4 {
		t.Errorf("mean queue %v, want 0.4", got.MeanQueue)
	}
	// Waits are 0 and 40, turnarounds 100 and 90.
	if got.Wait.Mean != 20 || got.Turnaround.Mean != 95 {
		t.Errorf("mean wait %v, mean turnaround %v", got.Wait.Mean, got.Turnaround.Mean)
	}
}

func TestOmissions(t *testing.T) {
	backwards, early, unknown := job(0, 50, 40, 1, 1), job(10, 5, 20, 1, 1), job(0, 0, 10, 0, 0)
	got := Compute([]run.Row{backwards, early, unknown}, Options{Processors: 4})
	want := map[Omission]int{Inconsistent: 2, NoProcessors: 1}
	if diff := cmp.Diff(want, got.LeftOut); diff != "" {
		t.Errorf("left out: -want +got:\n%s", diff)
	}
	if got.Wait.Max != 0 || got.Turnaround.Max != 10 {
		t.Errorf("a job with inconsistent times is in a distribution: %+v %+v", got.Wait, got.Turnaround)
	}
}

// TestEmpty: no metric divides by zero, whatever is missing.
func TestEmpty(t *testing.T) {
	none := Distribution{nan(), nan(), nan(), nan(), nan()}
	for name, rows := range map[string][]run.Row{
		"no jobs":  nil,
		"rejected": {{State: hpc.Rejected, Submit: at(1)}},
		"pending":  {{State: hpc.Pending, Submit: at(1)}},
	} {
		got := Compute(rows, Options{Nodes: 1, Processors: 1})
		want := Metrics{
			Jobs: got.Jobs, Rejected: got.Rejected, JobsByState: got.JobsByState, LeftOut: got.LeftOut,
			MakespanSeconds: nan(), Utilization: nan(), NodeUtilization: nan(), ThroughputPerHour: nan(), MeanQueue: nan(),
			UsedNodeSeconds: nan(), IdleNodeSeconds: nan(),
			Wait: Wait(none), Turnaround: Turnaround(none), Slowdown: Slowdown(none), BoundedSlowdown: BoundedSlowdown(none),
			EligibleWait: EligibleWait(none), WaitParts: []WaitPart{}, HeldByState: map[hpc.State]Float{}, TauSeconds: 10,
			Losses: []Loss{}, LimitProcessorSeconds: nan(), UnusedLimitProcessorSeconds: nan(),
		}
		if diff := cmp.Diff(want, got, approx); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if got.Jobs+got.Rejected != len(rows) {
			t.Errorf("%s: %d jobs and %d rejected", name, got.Jobs, got.Rejected)
		}
	}
	if got := Compute(handRows(), Options{}); got.Utilization.Known() || got.NodeUtilization.Known() || got.MakespanSeconds != 200 {
		t.Errorf("without a capacity: utilization %v, makespan %v", got.Utilization, got.MakespanSeconds)
	}
}

// TestQuantile compares with R: quantile(c(1, 2, 4, 8, 16), type = 7).
func TestQuantile(t *testing.T) {
	sorted := []float64{1, 2, 4, 8, 16}
	for p, want := range map[float64]float64{0: 1, 0.1: 1.4, 0.25: 2, 0.5: 4, 0.9: 12.8, 0.99: 15.68, 1: 16} {
		if got := Quantile(sorted, p); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	if got := Quantile([]float64{7}, 0.9); got != 7 {
		t.Errorf("quantile of one value is %v", got)
	}
}

// TestAreaOverflow: a year on ten million processors does not fit 64 bits.
func TestAreaOverflow(t *testing.T) {
	var a area
	for range 3 {
		a.add(365*24*time.Hour, 10_000_000)
	}
	a.add(-time.Hour, 5)
	a.add(time.Hour, -5)
	if want := 3 * 365 * 86400 * 1e7; math.Abs(a.seconds()-want) > 1 {
		t.Errorf("%v processor seconds, want %v", a.seconds(), want)
	}
}

func TestTimeline(t *testing.T) {
	want := []Point{
		{At: at(0), Running: 1, Processors: 8},
		{At: at(10), Queued: 1, Running: 1, Processors: 8},
		{At: at(20), Queued: 2, Running: 1, Processors: 8},
		{At: at(30), Queued: 3, Running: 1, Processors: 8},
		{At: at(40), Queued: 4, Running: 1, Processors: 8},
		{At: at(50), Queued: 5, Running: 1, Processors: 8},
		{At: at(90), Queued: 4, Running: 1, Processors: 8},
		{At: at(100), Queued: 2, Running: 2, Processors: 6},
		{At: at(105), Queued: 2, Running: 1, Processors: 4},
		{At: at(110), Queued: 1, Running: 1, Processors: 4},
		{At: at(150), Running: 2, Processors: 6},
		{At: at(200), Running: 1, Processors: 2},
	}
	got := Timeline(handRows())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if q := MeanOver(got, at(0), at(200), func(p Point) int { return p.Queued }); q != 2 {
		t.Errorf("mean queue %v, want 2", q)
	}
	if q := MeanOver(got, at(5), at(5), func(p Point) int { return p.Queued }); q.Known() {
		t.Errorf("mean over nothing is %v", q)
	}
}

// schedule draws a schedule in which no processor is used twice: every job takes the
// processors that become free first, and starts as soon as it is submitted and they are
// free.
func schedule(t *rapid.T) ([]run.Row, Options) {
	processors := rapid.IntRange(1, 12).Draw(t, "processors")
	free := make([]int64, processors)
	n := rapid.IntRange(0, 25).Draw(t, "jobs")
	rows := make([]run.Row, n)
	submit := int64(0)
	for i := range rows {
		submit += rapid.Int64Range(0, 40).Draw(t, "gap")
		size := rapid.IntRange(1, processors).Draw(t, "size")
		length := rapid.Int64Range(0, 60).Draw(t, "run time")
		slices.Sort(free)
		start := max(submit, free[size-1])
		rows[i] = job(submit, start, start+length, size, size)
		for p := range size {
			free[p] = start + length
		}
		switch rapid.IntRange(0, 9).Draw(t, "fate") {
		case 0:
			rows[i] = run.Row{State: hpc.Rejected, Submit: at(submit)}
		case 1:
			rows[i] = run.Row{State: hpc.Cancelled, Submit: at(submit), End: at(submit + length)}
		}
	}
	return rows, Options{Nodes: processors, Processors: processors}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, opts := schedule(t)
		m := Compute(rows, opts)
		if m.Utilization.Known() && (m.Utilization < 0 || m.Utilization > 1) {
			t.Fatalf("utilization %v", m.Utilization)
		}
		if m.BoundedSlowdown.Mean < 1 || m.Wait.Mean < 0 || m.Wait.Mean > m.Wait.Max || m.Wait.Median > m.Wait.P90 || m.Wait.P99 > m.Wait.Max {
			t.Fatalf("%+v %+v", m.BoundedSlowdown, m.Wait)
		}

		// The metrics do not depend on the order of the jobs, to the last bit.
		seed := rapid.Uint64().Draw(t, "seed")
		shuffled := slices.Clone(rows)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(rows), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(m, Compute(shuffled, opts), exactly); diff != "" {
			t.Fatalf("shuffled: -before +after:\n%s", diff)
		}

		// They do not depend on the date.
		shift := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "shift")) * time.Second
		moved := mapTimes(rows, func(at hpc.Time) hpc.Time { return at.Add(shift) })
		if diff := cmp.Diff(m, Compute(moved, opts), exactly); diff != "" {
			t.Fatalf("moved by %v: -before +after:\n%s", shift, diff)
		}

		// If all times are k times as long, so are waits and makespan, and ratios stay the
		// same.
		k := hpc.Time(rapid.IntRange(2, 50).Draw(t, "k"))
		longer := opts
		longer.Tau = DefaultTau * time.Duration(k)
		got := Compute(mapTimes(rows, func(at hpc.Time) hpc.Time { return at * k }), longer)
		want := m
		for _, f := range []*Float{
			&want.MakespanSeconds, &want.UsedProcessorSeconds, &want.UsedNodeSeconds, &want.IdleNodeSeconds, &want.TauSeconds,
			&want.Wait.Mean, &want.Wait.Median, &want.Wait.P90, &want.Wait.P99, &want.Wait.Max,
			&want.Turnaround.Mean, &want.Turnaround.Median, &want.Turnaround.P90, &want.Turnaround.P99, &want.Turnaround.Max,
		} {
			*f *= Float(k)
		}
		want.WaitParts = slices.Clone(want.WaitParts)
		for i := range want.WaitParts {
			want.WaitParts[i].Seconds *= Float(k)
			want.WaitParts[i].Mean *= Float(k)
		}
		want.InterruptedProcessorSeconds *= Float(k)
		want.Losses = slices.Clone(want.Losses)
		for i := range want.Losses {
			want.Losses[i].ProcessorSeconds *= Float(k)
		}
		want.HeldByState = maps.Clone(want.HeldByState)
		for state := range want.HeldByState {
			want.HeldByState[state] *= Float(k)
		}
		want.ThroughputPerHour /= Float(k)
		if diff := cmp.Diff(want, got, approx); diff != "" {
			t.Fatalf("%d times as long: -want +got:\n%s", k, diff)
		}

		// The same jobs have half the utilization on a machine of twice the size.
		opts.Processors *= 2
		if twice := Compute(rows, opts); m.Utilization.Known() && twice.Utilization != m.Utilization/2 {
			t.Fatalf("utilization %v on twice the machine, %v on the machine", twice.Utilization, m.Utilization)
		}
	})
}

// mapTimes applies f to every instant of the rows.
func mapTimes(rows []run.Row, f func(hpc.Time) hpc.Time) []run.Row {
	out := slices.Clone(rows)
	for i := range out {
		for _, t := range []*hpc.Time{&out[i].Submit, &out[i].Start, &out[i].End} {
			if *t != 0 {
				*t = f(*t)
			}
		}
	}
	return out
}

// TestReference compares with a slow second implementation: it looks at the machine every
// second and follows the definitions literally.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, opts := schedule(t)
		got := Compute(rows, opts)
		first, last, done := int64(math.MaxInt64), int64(0), 0
		var waits, bounded []float64
		for _, r := range rows {
			if r.Start == 0 {
				continue
			}
			done++
			first, last = min(first, r.Start.UnixSeconds()), max(last, r.End.UnixSeconds())
			waits = append(waits, float64(r.Start-r.Submit)/1e9)
			ran := math.Max(float64(r.End-r.Start)/1e9, 10)
			bounded = append(bounded, math.Max(1, float64(r.End-r.Submit)/1e9/ran))
		}
		if done == 0 {
			if got.MakespanSeconds.Known() {
				t.Fatalf("makespan %v of nothing", got.MakespanSeconds)
			}
			return
		}
		used, queue := 0, 0
		for s := first; s < last; s++ {
			for _, r := range rows {
				now := hpc.Unix(s)
				if r.Start != 0 && r.Start <= now && now < r.End {
					used += r.Processors
				}
				left := r.Start
				if left == 0 {
					left = r.End
				}
				if r.State != hpc.Rejected && r.Submit <= now && now < left {
					queue++
				}
			}
		}
		span := float64(last - first)
		near := func(name string, got Float, want float64) {
			t.Helper()
			if math.IsNaN(want) || math.IsInf(want, 0) {
				if got.Known() {
					t.Fatalf("%s is %v, want none", name, got)
				}
			} else if math.Abs(float64(got)-want) > 1e-9*math.Max(1, math.Abs(want)) {
				t.Fatalf("%s is %v, want %v", name, got, want)
			}
		}
		near("makespan", got.MakespanSeconds, span)
		near("utilization", got.Utilization, float64(used)/(span*float64(opts.Processors)))
		near("mean queue", got.MeanQueue, float64(queue)/span)
		near("throughput", Float(got.Throughput), float64(done))
		sort.Float64s(waits)
		sort.Float64s(bounded)
		near("mean wait", got.Wait.Mean, mean(waits))
		near("median wait", got.Wait.Median, median(waits))
		near("max wait", got.Wait.Max, waits[len(waits)-1])
		near("mean bounded slowdown", got.BoundedSlowdown.Mean, mean(bounded))
		near("median bounded slowdown", got.BoundedSlowdown.Median, median(bounded))

		points := Timeline(rows)
		if span > 0 {
			near("timeline's queue", MeanOver(points, hpc.Unix(first), hpc.Unix(last), func(p Point) int { return p.Queued }), float64(queue)/span)
			near("timeline's processors", MeanOver(points, hpc.Unix(first), hpc.Unix(last), func(p Point) int { return p.Processors }), float64(used)/span)
		}
	})
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// manyRows returns the jobs of a large run.
func manyRows(n int) []run.Row {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]run.Row, n)
	for i := range rows {
		submit := int64(i * 20)
		start := submit + r.Int64N(20_000)
		rows[i] = job(submit, start, start+r.Int64N(40_000), 1+r.IntN(64), 36)
		rows[i].User = fmt.Sprint("user", r.IntN(300))
	}
	return rows
}

func BenchmarkCompute(b *testing.B) {
	rows := manyRows(150_000)
	for b.Loop() {
		Compute(rows, Options{Nodes: 1000, Processors: 36000})
	}
}

func BenchmarkGroups(b *testing.B) {
	rows := manyRows(150_000)
	for b.Loop() {
		Groups(rows, ByUser, Options{Nodes: 1000, Processors: 36000}, nil)
	}
}

func BenchmarkTimeline(b *testing.B) {
	rows := manyRows(150_000)
	for b.Loop() {
		Timeline(rows)
	}
}

// If the record lacks the eligible time of some jobs, the wait since eligible says how many jobs it
// covers. If the record lacks the eligible times of all jobs, the figure is missing.
func TestNoEligible(t *testing.T) {
	known, running := job(0, 60, 100, 1, 2), job(0, 40, 100, 1, 2)
	known.Eligible = known.Submit
	running.State, running.End = hpc.Running, 0
	for _, test := range []struct {
		rows []run.Row
		want int
		says string
	}{
		{[]run.Row{known, running}, 1, "; the wait since eligible is of 1 of 2 jobs\n"},
		{[]run.Row{known, known}, 0, ""},
		{[]run.Row{running, running}, 0, ""},
	} {
		s := NewSummary(test.rows, &run.Manifest{}, Options{})
		if n := s.LeftOut[NoEligible]; n != test.want {
			t.Errorf("%d jobs left out, want %d", n, test.want)
		}
		var b bytes.Buffer
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(b.String(), "; the wait since eligible"); has != (test.says != "") || !strings.Contains(b.String(), test.says) {
			t.Errorf("want %q in\n%s", test.says, b.String())
		}
	}
}
