package ioaware

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

const (
	lustre = "lustre"
	now    = 10000 * hpc.Second
)

func at(seconds int64) hpc.Time { return hpc.Unix(seconds) }

func requested(nodes int, limit time.Duration, use int64) Job {
	return Job{Nodes: nodes, Limit: limit, Licenses: map[string]int64{lustre: use}}
}

func predicted(nodes int, limit time.Duration, use int64) Job {
	return Job{Nodes: nodes, Limit: limit, Estimate: Estimate{Use: use}}
}

// example returns a state for which the original plugin's numbers are known: 100 nodes, and three
// running jobs with ten nodes and 100 minutes each. There are total licenses.
func example(total int64) (*Cluster, []Running) {
	run := func(start, use int64) Running {
		return Running{Job: requested(10, 100*time.Minute, use), End: at(start).Add(100 * time.Minute)}
	}
	return &Cluster{Nodes: 100, FileSystem: lustre, Licenses: map[string]License{lustre: {total, 500}}},
		[]Running{run(6000, 100), run(6200, 100), run(6300, 300)}
}

func TestRounding(t *testing.T) {
	p := planner{options: Options{Resolution: time.Minute}}
	for _, c := range []struct{ at, down, up int64 }{{12000, 12000, 12060}, {12001, 12000, 12060}, {12059, 12000, 12060}, {12060, 12060, 12120}} {
		if down, up := p.down(at(c.at)), p.up(at(c.at)); down != at(c.down) || up != at(c.up) {
			t.Errorf("%d: down %v, up %v; want %d, %d", c.at, down.UnixSeconds(), up.UnixSeconds(), c.down, c.up)
		}
	}
}

// planning returns the planner of a round whose trackers know the running jobs.
func planning(now hpc.Time, cluster *Cluster, running []Running, pending []Job, options Options) *planner {
	p := newPlanner(now, cluster, running, pending, options)
	p.track(running)
	return p
}

func TestTrackerOfTheExample(t *testing.T) {
	cluster, running := example(1000)
	for _, strategy := range []Strategy{Aware, TwoGroup} {
		p := planning(now, cluster, running, nil, Options{Strategy: strategy})
		want := []step{{at(12060), 400}, {at(12240), 300}, {at(12360), 0}}
		if p.fileSystem.Initial() != 500 || !slices.Equal(p.fileSystem.steps, want) {
			t.Errorf("%s: tracker %+v, want 500 and %+v", strategy, *p.fileSystem, want)
		}
	}
}

func TestAwareStarts(t *testing.T) {
	for _, c := range []struct {
		what string
		job  Job
		want hpc.Time
	}{
		{"predicted 600", predicted(10, 100*time.Minute, 600), at(12060)},
		{"requested 600", requested(10, 100*time.Minute, 600), at(12060)},
		{"predicted 1200", predicted(10, 100*time.Minute, 1200), at(12360)},
		{"requested 1200", requested(10, 100*time.Minute, 1200), hpc.Never},
		{"requested 500", requested(10, 100*time.Minute, 500), now},
		{"no use", requested(10, 100*time.Minute, 0), now},
		{"more nodes than there are", requested(101, time.Minute, 0), hpc.Never},
		{"more nodes than are free", requested(80, time.Minute, 0), at(12060)},
		{"an unknown license", Job{Nodes: 1, Limit: time.Minute, Licenses: map[string]int64{"matlab": 1}}, hpc.Never},
	} {
		cluster, running := example(1000)
		got := Plan(now, cluster, running, []Job{c.job}, Options{Strategy: Aware})
		if got.Starts[0].At != c.want {
			t.Errorf("%s: starts at %v, want %v", c.what, got.Starts[0].At, c.want)
		}
	}
}

func TestBaselineSeesRequestsOnly(t *testing.T) {
	cluster, running := example(1000)
	cluster.Measured = 5000
	pending := []Job{predicted(10, 100*time.Minute, 900), requested(10, 100*time.Minute, 600)}
	got := Plan(now, cluster, running, pending, Options{Strategy: Baseline})
	if got.Starts[0].At != now || got.Starts[1].At != at(12060) {
		t.Errorf("starts %+v, want now and at 12060", got.Starts)
	}
}

func TestMeasuredUse(t *testing.T) {
	for _, c := range []struct {
		measured, predicted, initial int64
	}{
		{0, 0, 500},       // slurmctld counts 500
		{700, 0, 700},     // measured is more
		{700, 100, 700},   // measured is more than 500 + predicted 100
		{700, 300, 800},   // 500 + predicted 300 is more
		{300, 100, 600},   // 500 + predicted 100 is more
		{700, 1000, 1500}, // 500 + predicted 1000 is more
	} {
		cluster, running := example(10000)
		cluster.Measured = c.measured
		running = append(running, Running{Job: predicted(10, time.Hour, c.predicted), End: at(11000)})
		p := planning(now, cluster, running, nil, Options{Strategy: Aware})
		if p.fileSystem.Initial() != c.initial {
			t.Errorf("measured %d, predicted %d: begins at %d, want %d", c.measured, c.predicted, p.fileSystem.Initial(), c.initial)
		}
	}
}

func TestTwoGroupTargets(t *testing.T) {
	cluster, running := example(1000)
	g := Plan(now, cluster, running, nil, Options{Strategy: TwoGroup}).Groups
	if fmt.Sprintf("%.4f", g.RTarget) != "17.0769" || g.StarTarget != 1000 || g.RStar != 0 || g.RBar != 0 {
		t.Errorf("nothing pending: %+v, want r_target 17.0769 and T 1000", g)
	}

	cluster, running = example(10000)
	var pending []Job
	for range 10 {
		for _, use := range []int64{100, 100, 300} {
			pending = append(pending, requested(10, 100*time.Minute, use))
		}
	}
	round := Plan(now, cluster, running, pending, Options{Strategy: TwoGroup})
	g = round.Groups
	if math.Floor(g.RTarget*10000) != 166809 || g.RStar != 10 || g.RBar != 10 || g.StarTarget != 668 {
		t.Errorf("%+v, want r_target 16.6809, r* = r_bar = 10, T 668", g)
	}
	if round.Used != 500 || round.StarUsed != 200 {
		t.Errorf("used %d, star %d, want 500 and 500 - 10*30 = 200", round.Used, round.StarUsed)
	}
	if row, want := logRow(&round, 10000, 10000), "10000, 10000, 500, 200, 10.000000, 10.000000, 16.680965, 668\n"; row != want {
		t.Errorf("row %q, want %q", row, want)
	}
	empty := Plan(now, &Cluster{Nodes: 10, FileSystem: lustre, Licenses: map[string]License{lustre: {1000, 0}}}, nil, nil, Options{Strategy: TwoGroup})
	if empty.Groups.RTarget != 100 {
		t.Errorf("an empty cluster: r_target %v, want 1000/10", empty.Groups.RTarget)
	}
}

// A regular job may exceed the target by half of its use above the zero group's mean. If this use
// alone exceeds the target, the job waits until half of the target is free.
func TestTargetMayBeExceededByHalf(t *testing.T) {
	g := Groups{StarTarget: 668, RStar: 10, RBar: 10, starUse: 100, starNodes: 10}
	for _, c := range []struct {
		s    float64
		want int64
	}{{200, 568}, {100, 618}, {668, 334}, {2000, 334}, {0, 668}} {
		if got := g.cap(c.s); got != c.want {
			t.Errorf("s = %v: at most %d in use before, want %d", c.s, got, c.want)
		}
	}
	if g.Regular(10, 100) || !g.Regular(10, 101) || g.Regular(1, 10) || !g.Regular(1, 11) {
		t.Error("a job is regular if its use is above floor(nodes x r*)")
	}
}

func TestRegularity(t *testing.T) {
	// A fraction such as r* = 7/3 is inexact in binary. Rounding must not make a job of the zero
	// group regular.
	for nodes := int64(1); nodes < 50; nodes++ {
		for use := int64(0); use < 200; use++ {
			g := Groups{starUse: use, starNodes: nodes}
			if g.Regular(int(nodes), use) {
				t.Fatalf("the job with r* = %d/%d is regular", use, nodes)
			}
			if !g.Regular(int(nodes), use+1) {
				t.Fatalf("one license more than r* = %d/%d is not regular", use, nodes)
			}
		}
	}
}

// The original plugin did not count the nodes of jobs that had neither licenses nor an estimate,
// with or without track_nodes. A wide job behind a stream of such jobs never got its nodes.
func TestJobsWithoutUseCountNodes(t *testing.T) {
	cluster := &Cluster{Nodes: 8, FileSystem: lustre, Licenses: map[string]License{lustre: {1000, 0}}}
	running := []Running{{Job: Job{Nodes: 4, Limit: time.Hour}, End: now.Add(time.Hour)}}
	pending := []Job{{Nodes: 8, Limit: time.Hour}, {Nodes: 4, Limit: 2 * time.Hour}, {Nodes: 4, Limit: 30 * time.Minute}}
	for _, strategy := range []Strategy{Baseline, Aware, TwoGroup} {
		got := Plan(now, cluster, running, pending, Options{Strategy: strategy, TrackNodes: true})
		if wide := got.Starts[0].At; wide != at(13620) {
			t.Errorf("%s: the wide job is planned at %v, want 13620", strategy, wide.UnixSeconds())
		}
		if starts := got.Now(now); !slices.Equal(starts, []int{2}) {
			t.Errorf("%s: jobs %v start, want only the one that ends before the wide job", strategy, starts)
		}
	}
}

// The original plugin's star tracker began with the shares of all running jobs, but at the jobs'
// ends only the shares of jobs with use were subtracted.
func TestRunningJobsWithoutUseGiveTheirStarBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		p := planning(now, s.cluster, s.running, s.pending, Options{Strategy: TwoGroup})
		if last := p.star.At(hpc.Never - 1); last != 0 {
			t.Fatalf("the star tracker ends at %d, want 0", last)
		}
	})
}

func TestNamesOfStrategies(t *testing.T) {
	for name, want := range map[string]Strategy{
		"two_group": TwoGroup, "Two-group": TwoGroup, "workload-adaptive": TwoGroup,
		"Aware": Aware, "none": Aware, "I/O-aware": Aware, "baseline": Baseline,
	} {
		if got, err := ParseStrategy(name); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// The zero group ends at the job with which it reaches the given fraction of the pending jobs'
// area.
func TestTwoGroupFraction(t *testing.T) {
	cluster := &Cluster{Nodes: 8, FileSystem: lustre, Licenses: map[string]License{lustre: {1000, 0}}}
	var pending []Job
	for use := range 10 {
		pending = append(pending, requested(1, time.Hour, int64(use)))
	}
	for fraction, want := range map[float64]float64{0: 4, 0.5: 4, 0.2: 1, 1: 9} {
		g := Plan(now, cluster, nil, pending, Options{Strategy: TwoGroup, Fraction: fraction}).Groups
		if g.RStar != want {
			t.Errorf("fraction %v: r* = %v, want %v", fraction, g.RStar, want)
		}
	}
}

// state is a random cluster with its jobs.
type state struct {
	cluster *Cluster
	running []Running
	pending []Job
}

func drawJob(t *rapid.T, nodes int) Job {
	j := Job{
		Nodes: rapid.IntRange(1, nodes).Draw(t, "nodes"),
		Limit: time.Duration(rapid.IntRange(1, 10000).Draw(t, "limit")) * time.Second,
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		j.Licenses = map[string]int64{lustre: int64(rapid.IntRange(0, 1100).Draw(t, "use"))}
	case 1:
		j.Estimate.Use = int64(rapid.IntRange(0, 1500).Draw(t, "use"))
		j.Estimate.RunTime = time.Duration(rapid.IntRange(0, 12000).Draw(t, "run")) * time.Second
	case 2:
		j.Licenses = map[string]int64{"matlab": int64(rapid.IntRange(0, 6).Draw(t, "matlab"))}
		j.Estimate.Use = int64(rapid.IntRange(0, 300).Draw(t, "use"))
	}
	return j
}

// drawState draws a state whose running jobs fit on the nodes.
func drawState(t *rapid.T) state {
	s := state{cluster: &Cluster{Nodes: 32, FileSystem: lustre, Measured: int64(rapid.IntRange(0, 1200).Draw(t, "measured"))}}
	free, used, matlab := s.cluster.Nodes, int64(0), int64(0)
	for range rapid.IntRange(0, 6).Draw(t, "running") {
		j := drawJob(t, 8)
		u, m := j.Licenses[lustre], j.Licenses["matlab"]
		if j.Nodes > free || used+u > 1000 || matlab+m > 5 {
			continue
		}
		free, used, matlab = free-j.Nodes, used+u, matlab+m
		left := rapid.IntRange(-200, int(j.Limit/time.Second)).Draw(t, "left")
		s.running = append(s.running, Running{Job: j, End: now.Add(time.Duration(left) * time.Second)})
	}
	for range rapid.IntRange(0, 12).Draw(t, "pending") {
		s.pending = append(s.pending, drawJob(t, 32))
	}
	s.cluster.Licenses = map[string]License{lustre: {1000, used}, "matlab": {5, matlab}}
	return s
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Strategy:   rapid.SampledFrom([]Strategy{Baseline, Aware, TwoGroup}).Draw(t, "strategy"),
		TrackNodes: rapid.Bool().Draw(t, "track nodes"),
	}
}

// At every instant, the planned jobs use no more of a resource than the running jobs leave. A job
// whose prediction alone is above the total is planned with one license less than the total.
func TestPlanStaysBelowTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, o := drawState(t), drawOptions(t)
		before := planning(now, s.cluster, s.running, s.pending, o)
		got := Plan(now, s.cluster, s.running, s.pending, o)
		instants := []hpc.Time{now}
		for _, start := range got.Starts {
			if start.At != hpc.Never {
				instants = append(instants, start.At)
			}
		}
		for _, instant := range instants {
			nodes := before.nodes.At(instant)
			use, matlab := before.fileSystem.At(instant), before.others["matlab"].At(instant)
			added := int64(0)
			for _, start := range got.Starts {
				j := &s.pending[start.Job]
				if start.At > instant || start.At == hpc.Never || start.At.Add(j.Limit) <= instant {
					continue
				}
				nodes += int64(j.Nodes)
				added += before.tested(j)
				matlab += j.Licenses["matlab"]
			}
			if nodes > 32 {
				t.Fatalf("%d nodes at %v", nodes, instant)
			}
			if added > 0 && use+added > 1000 && use <= 1000 || use > 1000 && added > 0 && startsWithUse(got, s, before, instant) {
				t.Fatalf("%d + %d licenses at %v", use, added, instant)
			}
			if matlab > 5 {
				t.Fatalf("%d matlab licenses at %v", matlab, instant)
			}
		}
	})
}

// startsWithUse reports whether a job with use starts at an instant.
func startsWithUse(r Round, s state, p *planner, instant hpc.Time) bool {
	return slices.ContainsFunc(r.Starts, func(start Start) bool {
		return start.At == instant && p.tested(&s.pending[start.Job]) > 0
	})
}

// Every job that the cluster can ever run gets a start. The first job starts at the latest when the
// running jobs have reached their limits.
func TestEveryJobHasAStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, o := drawState(t), drawOptions(t)
		got := Plan(now, s.cluster, s.running, s.pending, o)
		last := now
		for i := range s.running {
			last = max(last, s.running[i].End)
		}
		last = last.Add(time.Minute)
		for _, start := range got.Starts {
			j := &s.pending[start.Job]
			possible := j.Licenses[lustre] <= 1000 && j.Licenses["matlab"] <= 5
			if possible != (start.At != hpc.Never) {
				t.Fatalf("job %d %+v starts at %v", start.Job, *j, start.At)
			}
			if possible && start.Job == 0 && start.At > last {
				t.Fatalf("the first job %+v starts at %v, after %v", *j, start.At, last)
			}
		}
	})
}

// The tracker has the same values as a slow one that keeps a value for each second. Subtracting
// what was added restores the earlier values.
func TestTrackerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const seconds = 60
		tracker := NewTracker(int64(rapid.IntRange(-5, 5).Draw(t, "initial")))
		var slow [seconds]int64
		for i := range slow {
			slow[i] = tracker.Initial()
		}
		check := func() {
			for i, v := range slow {
				if got := tracker.At(at(int64(i))); got != v {
					t.Fatalf("%d at %d, want %d", got, i, v)
				}
			}
			for i := 1; i < len(tracker.steps); i++ {
				if tracker.steps[i].value == tracker.steps[i-1].value {
					t.Fatal("a step that changes nothing")
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			from := rapid.IntRange(0, seconds-1).Draw(t, "from")
			until := rapid.IntRange(from, seconds).Draw(t, "until")
			v := int64(rapid.IntRange(-4, 4).Draw(t, "v"))
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				tracker.Shift(v)
				for i := range slow {
					slow[i] += v
				}
			case 1:
				tracker.RemoveTillEnd(at(int64(from)), v)
				for i := from; i < seconds; i++ {
					slow[i] -= v
				}
			case 2:
				before := slices.Clone(tracker.steps)
				tracker.Add(at(int64(from)), at(int64(until)), v)
				tracker.Add(at(int64(from)), at(int64(until)), -v)
				if !slices.Equal(before, tracker.steps) {
					t.Fatalf("adding and removing leaves %+v of %+v", tracker.steps, before)
				}
			default:
				tracker.Add(at(int64(from)), at(int64(until)), v)
				for i := from; i < until; i++ {
					slow[i] += v
				}
			}
			check()
		}
		after := rapid.IntRange(0, seconds-1).Draw(t, "after")
		d := rapid.IntRange(1, 30).Draw(t, "d")
		below := int64(rapid.IntRange(-8, 8).Draw(t, "below"))
		want := hpc.Never
		for start := after; start < seconds && want == hpc.Never; start++ {
			free := true
			for i := start; i < start+d && free; i++ {
				free = slow[min(i, seconds-1)] < below
			}
			if free {
				want = at(int64(start))
			}
		}
		tail := len(tracker.steps) > 0 && tracker.steps[len(tracker.steps)-1].at == at(seconds)
		if got := tracker.WhenBelow(at(int64(after)), time.Duration(d)*time.Second, below); got != want && !tail {
			t.Fatalf("below %d for %d s after %d: at %v, want %v of %v", below, d, after, got, want, slow)
		}
	})
}

// Under every strategy, all jobs of a queue start although further jobs arrive behind them, and at
// no instant is more use than the limit allows.
func TestNoJobStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		type job struct {
			Job
			run   time.Duration
			start hpc.Time
		}
		var jobs []*job
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			j := &job{Job: drawJob(t, 8)}
			if j.Licenses[lustre] > 1000 || j.Licenses["matlab"] > 5 {
				continue
			}
			j.run = min(j.Limit, time.Duration(rapid.IntRange(0, 10000).Draw(t, "run time"))*time.Second)
			jobs = append(jobs, j)
		}
		clock, open := now, len(jobs)
		for rounds := 0; open > 0; rounds++ {
			if rounds > 30*10000/30+100 {
				t.Fatalf("%d jobs have not started after %v under %+v", open, clock.Sub(now), o)
			}
			cluster := &Cluster{Nodes: 8, FileSystem: lustre}
			var running []Running
			var pending []Job
			var places []*job
			var used, matlab int64
			for i, j := range jobs {
				switch arrived := clock.Sub(now) >= time.Duration(i)*10*time.Second; {
				case j.start != 0 && j.start.Add(j.run) > clock:
					running = append(running, Running{Job: j.Job, End: j.start.Add(j.Limit)})
					used, matlab = used+j.Licenses[lustre], matlab+j.Licenses["matlab"]
				case j.start == 0 && arrived:
					pending, places = append(pending, j.Job), append(places, j)
				}
			}
			cluster.Licenses = map[string]License{lustre: {1000, used}, "matlab": {5, matlab}}
			round := Plan(clock, cluster, running, pending, o)
			for _, i := range round.Now(clock) {
				places[i].start = clock
				open--
				used += places[i].Licenses[lustre]
			}
			if used > 1000 {
				t.Fatalf("%d licenses of 1000 in use", used)
			}
			clock = clock.Add(30 * time.Second)
		}
	})
}

// nodesFromOne is a selector for one node that is busy until an instant.
type nodesFromOne struct {
	free     hpc.Time
	reserved []Start
}

func (s *nodesFromOne) Full() bool { return s.free > now || len(s.reserved) > 0 }

func (s *nodesFromOne) Earliest(_ int, after hpc.Time) hpc.Time { return max(after, s.free) }

func (s *nodesFromOne) Reserve(job int, at hpc.Time) { s.reserved = append(s.reserved, Start{job, at}) }

func TestSelector(t *testing.T) {
	pending := []Job{{Nodes: 1, Limit: time.Hour}}
	for _, c := range []struct {
		free     hpc.Time
		track    bool
		at       hpc.Time
		reserved int
	}{
		{now, false, now, 1}, {now, true, now, 1},
		{at(10030), false, at(10080), 1}, {at(10030), true, at(10080), 0}, // with track, a later start gets no nodes
		{at(10080), false, at(10080), 1},
		{hpc.Never, false, hpc.Never, 0},
	} {
		s := &nodesFromOne{free: c.free}
		got := Plan(now, &Cluster{Nodes: 1, Selector: s}, nil, pending, Options{Strategy: Aware, TrackNodes: c.track})
		if got.Starts[0].At != c.at || len(s.reserved) != c.reserved {
			t.Errorf("free at %v, track %v: starts at %v, reserved %v; want %v, %d", c.free, c.track, got.Starts[0].At, s.reserved, c.at, c.reserved)
		}
	}
}

// drawPools divides the nodes into two pools and one that overlaps with both.
func drawPools(t *rapid.T, s *state) {
	first := rapid.IntRange(0, s.cluster.Nodes).Draw(t, "nodes of the first pool")
	s.cluster.Pools = map[string]Pool{
		"first": {first, []string{"any", "first"}}, "second": {s.cluster.Nodes - first, []string{"any", "second"}},
		"any": {s.cluster.Nodes, []string{"any", "first", "second"}},
	}
	for i := range s.pending {
		s.pending[i].Pool = rapid.SampledFrom([]string{"any", "first", "second"}).Draw(t, "pool")
	}
	for i := range s.running {
		r := &s.running[i]
		r.Pool = rapid.SampledFrom([]string{"any", "first", "second"}).Draw(t, "pool")
		r.Uses = map[string]int{"any": r.Nodes, r.Pool: r.Nodes}
	}
}

// With StartsOnly, the plan ends when no further job fits now, and starts the same jobs now.
func TestStartsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, options := drawState(t), drawOptions(t)
		s.cluster.Nodes = rapid.IntRange(1, 32).Draw(t, "nodes in service")
		if rapid.Bool().Draw(t, "pools") {
			drawPools(t, &s)
		}
		whole := Plan(now, s.cluster, s.running, s.pending, options)
		options.StartsOnly = true
		short := Plan(now, s.cluster, s.running, s.pending, options)
		if a, b := whole.Now(now), short.Now(now); !slices.Equal(a, b) || len(short.Starts) > len(whole.Starts) {
			t.Fatalf("%v start now, and %v in the whole plan", b, a)
		}
	})
	s := &nodesFromOne{}
	if got := Plan(now, &Cluster{Nodes: 1, Selector: s}, nil, []Job{{Nodes: 1, Limit: time.Hour}, {Nodes: 1, Limit: time.Hour}}, Options{Strategy: Aware, StartsOnly: true}); len(got.Starts) != 1 {
		t.Errorf("the plan looked at %d jobs, want 1", len(got.Starts))
	}
}

func TestUnlimited(t *testing.T) {
	cluster := &Cluster{Nodes: 2, FileSystem: lustre, Licenses: map[string]License{lustre: {10, 5}}}
	running := []Running{{Job: requested(1, hpc.Unlimited, 5), End: hpc.Never}}
	pending := []Job{requested(1, hpc.Unlimited, 5), requested(1, math.MaxInt64, 5), requested(2, time.Minute, 1)}
	for _, strategy := range []Strategy{Baseline, Aware, TwoGroup} {
		got := Plan(now, cluster, running, pending, Options{Strategy: strategy})
		want := []Start{{0, now}, {1, hpc.Never}, {2, hpc.Never}}
		if strategy != TwoGroup && !slices.Equal(got.Starts, want) {
			t.Errorf("%s: %+v, want %+v", strategy, got.Starts, want)
		}
	}
}

// TestPools: a job starts when enough nodes of its pool are free. Pools may overlap: a job counts
// in its own pool and in every pool that overlaps with it.
func TestPools(t *testing.T) {
	in := func(pool string, nodes int) Job { return Job{Nodes: nodes, Limit: time.Hour, Pool: pool} }
	cluster := &Cluster{Nodes: 10, Pools: map[string]Pool{
		"gpu": {4, []string{"any", "gpu"}}, "cpu": {6, []string{"any", "cpu"}}, "any": {10, []string{"any", "cpu", "gpu"}},
	}}
	running := []Running{{Job: in("gpu", 3), End: now.Add(time.Hour), Uses: map[string]int{"gpu": 3, "any": 3}}}
	pending := []Job{in("gpu", 2), in("cpu", 5), in("any", 2), in("gpu", 1), in("cpu", 7)}
	later := at(10000 + 3600 + 20)
	want := []hpc.Time{later, now, now, later, hpc.Never}
	for i, start := range Plan(now, cluster, running, pending, Options{Strategy: Aware}).Starts {
		if start.At != want[i] {
			t.Errorf("job %d of pool %s starts at %v, want %v", i, pending[i].Pool, start.At.Sub(now), want[i].Sub(now))
		}
	}
}

// TestReserved: the plan keeps reserved nodes free for their reservation, now and later. A node
// that is reserved and also has a running job counts once.
func TestReserved(t *testing.T) {
	hour := Job{Nodes: 3, Limit: time.Hour}
	minutes := func(n int) hpc.Time { return now.Add(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		reserved []Reserved
		want     hpc.Time
		until    hpc.Time // if not 0, a job runs on a reserved node until then
	}{
		{nil, now, 0},
		{[]Reserved{{From: minutes(-10), Until: minutes(20), Nodes: 2}}, minutes(20), 0},
		{[]Reserved{{From: minutes(30), Until: minutes(90), Nodes: 2}}, minutes(90), 0},
		{[]Reserved{{From: minutes(60), Until: minutes(90), Nodes: 2}}, minutes(90), 0}, // trackers round to minutes
		{[]Reserved{{From: minutes(62), Until: minutes(90), Nodes: 2}}, now, 0},
		{[]Reserved{{From: minutes(30), Until: minutes(90), Nodes: 1}}, now, 0},
		{[]Reserved{{From: minutes(-10), Until: hpc.Never, Nodes: 2}}, hpc.Never, 0},
		{[]Reserved{{From: minutes(-10), Until: minutes(90), Nodes: 2}}, minutes(91), minutes(30)},
		// The node with the running job counts once, even if the job ends exactly at a minute to which
		// the trackers round, or runs beyond its limit.
		{[]Reserved{{From: minutes(-10), Until: minutes(90), Nodes: 1}}, now, minutes(30)},
		{[]Reserved{{From: minutes(-10), Until: minutes(90), Nodes: 1}}, now, minutes(30) / hpc.Time(time.Minute) * hpc.Time(time.Minute)},
		{[]Reserved{{From: minutes(-10), Until: minutes(90), Nodes: 1}}, now, minutes(-5)},
		{[]Reserved{{From: minutes(-10), Until: minutes(20), Nodes: 1}}, now, minutes(30)},
		{[]Reserved{{From: minutes(10), Until: minutes(90), Nodes: 1}}, now, minutes(30)},
	} {
		r := Running{Job: Job{Nodes: 1}, End: c.until, Uses: map[string]int{"all": 1}}
		for i := range c.reserved {
			b := &c.reserved[i]
			b.Uses = map[string]int{"all": b.Nodes}
			r.Twice = append(r.Twice, Reserved{From: b.From, Until: b.Until, Nodes: -1, Uses: map[string]int{"all": -1}})
		}
		var running []Running
		if c.until != 0 {
			running = []Running{r}
		}
		for _, pools := range []map[string]Pool{nil, {"all": {Nodes: 4, Overlaps: []string{"all"}}}} {
			job := hour
			if pools != nil {
				job.Pool = "all"
			}
			cluster := &Cluster{Nodes: 4, Pools: pools, Reserved: c.reserved}
			r := Plan(now, cluster, running, []Job{job}, Options{Strategy: Baseline})
			if got := r.Starts[0].At; got.Sub(c.want).Abs() > time.Minute && got != c.want {
				t.Errorf("%+v, pools %v: start at %v, want %v", c.reserved, pools, got, c.want)
			}
			only := Plan(now, cluster, running, []Job{job}, Options{Strategy: Baseline, StartsOnly: true})
			if begins := len(only.Now(now)) == 1; begins != (c.want == now) {
				t.Errorf("%+v, a job until %v, pools %v: starts now: %t", c.reserved, c.until, pools, begins)
			}
		}
	}
}

// TestIdleNodesOfReservations: two of four nodes are idle, and one or both of the idle nodes are
// reserved in an hour. The trackers have room for a job that ends later, because the other nodes
// are idle by then. But the job may start now only on idle nodes that it can keep until its end.
// If an idle node has several reservations, it counts in the earliest one.
func TestIdleNodesOfReservations(t *testing.T) {
	minutes := func(n int) hpc.Time { return now.Add(time.Duration(n) * time.Minute) }
	booked := func(from, nodes, idle int) Reserved {
		return Reserved{From: minutes(from), Until: minutes(from + 30), Nodes: nodes, Uses: map[string]int{"all": nodes}, Idle: map[string]int{"all": idle}}
	}
	pools := map[string]Pool{"all": {Nodes: 4, Overlaps: []string{"all"}}}
	for _, c := range []struct {
		reserved []Reserved
		jobs     []Job
		want     []bool     // for each job: whether it starts now
		twice    []Reserved // of the running job
	}{
		{[]Reserved{booked(60, 2, 2)}, []Job{{Nodes: 1, Limit: 2 * time.Hour}, {Nodes: 2, Limit: 30 * time.Minute}}, []bool{false, false}, nil},
		{[]Reserved{booked(60, 2, 2)}, []Job{{Nodes: 2, Limit: 30 * time.Minute}, {Nodes: 1, Limit: 2 * time.Hour}}, []bool{true, false}, nil},
		{[]Reserved{booked(60, 2, 1)}, []Job{{Nodes: 1, Limit: 2 * time.Hour}, {Nodes: 1, Limit: 2 * time.Hour}}, []bool{true, false}, nil},
		{[]Reserved{booked(60, 2, 0)}, []Job{{Nodes: 2, Limit: 2 * time.Hour}}, []bool{true}, nil},
		{[]Reserved{booked(60, 1, 1), booked(120, 1, 0)}, []Job{{Nodes: 1, Limit: 3 * time.Hour}}, []bool{true}, nil},
		{[]Reserved{booked(60, 2, 2)}, []Job{{Nodes: 1, Limit: 2 * time.Hour}}, []bool{true}, []Reserved{booked(60, -1, -1)}},
	} {
		running := []Running{{Job: Job{Nodes: 2}, End: minutes(10), Uses: map[string]int{"all": 2}, Twice: c.twice}}
		for i := range c.jobs {
			c.jobs[i].Pool = "all"
		}
		r := Plan(now, &Cluster{Nodes: 4, Pools: pools, Reserved: c.reserved}, running, c.jobs, Options{Strategy: Baseline})
		for i, want := range c.want {
			if at := r.Starts[i].At; (at == now) != want || at > minutes(12) {
				t.Errorf("%+v, job %d: start after %v, now: want %t", c.reserved, i, at.Sub(now), want)
			}
		}
	}
}

// logRow returns the row that the plugin writes for a round: the time in seconds since the Unix
// epoch, the licenses of the file system, the initial values of its tracker and of the star
// tracker, r*, the mean of the zero group, the mean of all jobs, and the target.
func logRow(r *Round, unix, total int64) string {
	g := &r.Groups
	return fmt.Sprintf("%d, %d, %d, %d, %f, %f, %f, %d\n", unix, total, r.Used, r.StarUsed, g.RStar, g.RBar, g.RTarget, g.StarTarget)
}
