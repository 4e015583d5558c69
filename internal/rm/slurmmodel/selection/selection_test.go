package selection_test

import (
	"fmt"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurmmodel/linear"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// machine returns nodes with two sockets of four cores each, and 8000 MiB.
func machine(n int) *selection.Machine {
	m := &selection.Machine{CountMemory: true}
	for i := range n {
		m.Nodes = append(m.Nodes, selection.Node{Name: fmt.Sprint("n", i), Sockets: 2, Cores: 4, Threads: 1, CPUs: 8, Memory: 8000, Weight: 1})
	}
	m.Prepare()
	return m
}

func all(n int) selection.Bits {
	set := selection.NewBits(n)
	for i := range n {
		set.Set(i)
	}
	return set
}

// one is a request for CPUs only, with 100 MiB each.
func one(cpus int) *selection.Request {
	return &selection.Request{MinCPUs: cpus, CPUsPerTask: 1, Memory: 100, MemoryPerCPU: true}
}

func counts(n int) selection.Counts { return selection.Counts{Min: n, Max: 500000, Wanted: n} }

// show returns an allocation as "0:4 1:2": the nodes with their CPUs.
func show(a *selection.Allocation) string {
	if a == nil {
		return "nothing"
	}
	var parts []string
	for i := range a.Parts {
		parts = append(parts, fmt.Sprintf("%d:%d", a.Parts[i].Node, a.Parts[i].CPUs))
	}
	return strings.Join(parts, " ")
}

func TestJobsTakeTheTightestNodesTogether(t *testing.T) {
	x := selection.NewTester(machine(4))
	s := x.NewState()
	place := func(r *selection.Request, set selection.Bits) {
		t.Helper()
		a := x.Test(s, r, set, counts(1), selection.RunNow)
		if a == nil {
			t.Fatal("a job that fits finds no nodes")
		}
		x.Add(s, a)
	}
	busy := selection.NewBits(4)
	busy.Set(2)
	place(one(5), busy)
	for _, c := range []struct {
		name string
		r    *selection.Request
		want string
	}{
		{"the node whose free CPUs just suffice", one(3), "2:3"},
		{"the first node, if no other suffices alone", one(8), "0:8"},
		{"nodes next to each other", one(16), "0:8 1:8"},
		{"more than there is", one(28), "nothing"},
	} {
		if got := show(x.Test(s, c.r, all(4), counts(1), selection.RunNow)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAllocationsAreTakenAndGivenBack(t *testing.T) {
	x := selection.NewTester(machine(1))
	s := x.NewState()
	a := x.Test(s, one(8), all(1), counts(1), selection.RunNow)
	full := func() bool {
		set := all(1)
		s.ClearFull(set)
		return set.Count() == 0
	}
	x.Add(s, a)
	if !full() || s.Idle(0) {
		t.Error("a node whose CPUs are all in use has free ones")
	}
	if got := show(x.Test(s, one(1), all(1), counts(1), selection.WillRun)); got != "nothing" {
		t.Errorf("a full node gives %s", got)
	}
	if x.Test(s, one(1), all(1), counts(1), selection.TestOnly) == nil {
		t.Error("a job could not run on the empty machine")
	}
	x.Remove(s, a)
	if full() || !s.Idle(0) {
		t.Error("a node is not empty after its job")
	}
}

func TestMemoryLimitsCPUs(t *testing.T) {
	x := selection.NewTester(machine(2))
	r := &selection.Request{MinCPUs: 4, CPUsPerTask: 1, Memory: 4000, MemoryPerCPU: true}
	if got := show(x.Test(x.NewState(), r, all(2), counts(1), selection.RunNow)); got != "0:2 1:2" {
		t.Errorf("four CPUs of 4000 MiB each on nodes of 8000 MiB: %s, want 0:2 1:2", got)
	}
}

// TestCPUs has jobs on cores with two threads if CPUs are consumable resources (CR_CPU), and if cores are.
func TestCPUs(t *testing.T) {
	alone := &selection.Request{MinCPUs: 9, Tasks: 3, CPUsPerTask: 3, TasksPerCore: 1, Memory: 1, MemoryPerCPU: true}
	each := &selection.Request{MinCPUs: 3, Tasks: 3, CPUsPerTask: 1, TasksPerCore: 1, Memory: 1500, MemoryPerCPU: true}
	many := &selection.Request{MinCPUs: 15, Tasks: 5, CPUsPerTask: 3, TasksPerCore: 1, Memory: 1, MemoryPerCPU: true}
	for _, c := range []struct {
		name  string
		r     *selection.Request
		byCPU bool
		want  string
		cores int    // cores of a socket that a second job asks for
		more  string // what the second job gets
	}{
		{"three CPUs", one(3), true, "0:3 300 MiB", 4, "0:8"},
		{"two cores", one(3), false, "0:4 400 MiB", 4, "1:8"},
		{"memory for three CPUs", &selection.Request{MinCPUs: 3, CPUsPerTask: 1, Memory: 2600, MemoryPerCPU: true}, true,
			"0:3 7800 MiB", 4, "1:8"},
		{"one thread of each core", &selection.Request{MinCPUs: 5, CPUsPerTask: 1, ThreadsPerCore: 1, Memory: 100,
			MemoryPerCPU: true}, true, "0:5 500 MiB", 4, "1:8"},
		{"tasks with their own cores", alone, true, "0:9 9 MiB", 3, "1:6"},
		{"tasks with their own cores, by core", alone, false, "0:12 12 MiB", 2, "0:4"},
		{"memory for each thread of two cores", each, false, "0:4 1:2 6000 MiB", 4, "1:8"},
		{"memory for three CPUs of three cores", each, true, "0:3 4500 MiB", 4, "0:8"},
		{"too few cores for all tasks", many, true, "0:12 1:3 12 MiB", 4, "1:8"},
	} {
		m := machine(2)
		for i := range m.Nodes {
			m.Nodes[i].Threads, m.Nodes[i].CPUs = 2, 16
		}
		m.ByCPU = c.byCPU
		x := selection.NewTester(m)
		s := x.NewState()
		later := x.Test(s, c.r, all(2), counts(1), selection.WillRun)
		a := x.Test(s, c.r, all(2), counts(1), selection.RunNow)
		if a == nil || later == nil {
			t.Errorf("%s: the job finds no nodes", c.name)
			continue
		}
		x.Add(s, a)
		got, second := fmt.Sprintf("%s %d MiB", show(a), a.Parts[0].Memory), one(2*c.cores)
		second.CoresPerSocket = c.cores
		more := x.Test(s, second, all(2), counts(1), selection.RunNow)
		if got != c.want || later.CPUs != a.CPUs || show(more) != c.more {
			t.Errorf("%s: the job gets %s, and %d CPUs later; the next job gets %s; want %s and %s",
				c.name, got, later.CPUs, show(more), c.want, c.more)
		}
	}
}

func TestLighterNodesComeFirst(t *testing.T) {
	m := machine(3)
	x := selection.NewTester(m)
	for i := range m.Nodes {
		x.Weights.Put(i, uint64(3-i))
	}
	if got := show(x.Test(x.NewState(), one(8), all(3), counts(1), selection.RunNow)); got != "2:8" {
		t.Errorf("%s, want the lightest node, 2:8", got)
	}
}

func TestTreeKeepsJobsUnderOneLeaf(t *testing.T) {
	m := machine(4)
	leaf := func(name string, nodes ...int) selection.Switch {
		s := selection.Switch{Name: name, Nodes: selection.NewBits(4), Parent: 2}
		for _, i := range nodes {
			s.Nodes.Set(i)
		}
		return s
	}
	m.Switches = []selection.Switch{leaf("a", 0, 1), leaf("b", 2, 3), {Name: "top", Nodes: all(4), Parent: 2, Level: 1}}
	m.Prepare()
	x := selection.NewTester(m)
	s := x.NewState()
	first := selection.NewBits(4)
	first.Set(0)
	x.Add(s, x.Test(s, one(8), first, counts(1), selection.RunNow))
	if got := show(x.Test(s, one(16), all(4), counts(2), selection.RunNow)); got != "2:8 3:8" {
		t.Errorf("two nodes with one leaf half in use: %s, want those of the other leaf, 2:8 3:8", got)
	}
}

func TestWillRunTakesJobsAwayInWindows(t *testing.T) {
	x := selection.NewTester(machine(2))
	s := x.NewState()
	const now = 1000
	var running []selection.Running
	for i, end := range []int64{now + 100, now + 110} {
		set := selection.NewBits(2)
		set.Set(i)
		a := x.Test(s, one(8), set, counts(1), selection.RunNow)
		x.Add(s, a)
		running = append(running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: end})
	}
	a, start := x.WillRun(s, one(8), all(2), counts(1), &selection.Horizon{Now: now, Running: running})
	if !a.Nodes.Has(0) || a.Nodes.Has(1) || a.CPUs != 8 || start != now+110 {
		t.Errorf("%+v at %d; want 8 CPUs of the first node after both jobs of the window, at %d", a, start, now+110)
	}
	a, _ = x.WillRun(s, one(8), all(2), counts(1), &selection.Horizon{Now: now, Running: running, NowOnly: true})
	if a != nil {
		t.Errorf("%s at once on a full machine", show(a))
	}
	if a := x.Test(s, one(1), all(2), counts(1), selection.RunNow); a != nil {
		t.Errorf("the look ahead has freed %s", show(a))
	}
}

func TestBits(t *testing.T) {
	a := selection.NewBits(130)
	for _, i := range []int{0, 63, 64, 129} {
		a.Set(i)
	}
	var got []int
	for i := range a.All {
		got = append(got, i)
	}
	if fmt.Sprint(got) != "[0 63 64 129]" || a.Count() != 4 || a.Next(65) != 129 || a.Next(130) != -1 {
		t.Errorf("the set has %v, %d nodes, after 64 comes %d", got, a.Count(), a.Next(65))
	}
	b := a.Clone()
	b.Clear(64)
	if a.Equal(b) || !a.Contains(b) || b.Contains(a) || a.CountAnd(b) != 3 || !a.Overlaps(b) {
		t.Error("a set and its subset are not told apart")
	}
	a.AndNot(b)
	if a.Count() != 1 || !a.Has(64) || a.Overlaps(b) {
		t.Error("the difference of sets is not the node that one of them lacks")
	}
}

// TestCompleting checks that since 24.11 a test of a start now takes completing nodes last. A test of a
// later start does so, too, except with the nodes that the test of a start now left over.
func TestCompleting(t *testing.T) {
	for _, since2411 := range []bool{false, true} {
		m := machine(2)
		m.Since2411 = since2411
		x := selection.NewTester(m)
		s := x.NewState()
		x.Completing = selection.NewBits(2)
		x.Completing.Set(0)
		var running []selection.Running
		start := func(cpus, node int) {
			set := selection.NewBits(2)
			set.Set(node)
			a := x.Test(s, one(cpus), set, counts(1), selection.RunNow)
			x.Add(s, a)
			x.Changed(set)
			running = append(running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: 700})
		}
		check := func(what string, last bool, at int64) {
			t.Helper()
			r := one(8)
			x.Classify(r)
			h := selection.Horizon{Now: 500, Begin: 500, Since2411: since2411, Running: running}
			a, begin := x.WillRun(s, r, all(2), counts(1), &h)
			if begin != at || a.Nodes.Has(0) == (last && since2411) {
				t.Errorf("%s, since 24.11 %t: at %d on %v", what, since2411, begin, a.Nodes)
			}
		}
		check("all nodes are free", true, 500)
		start(7, 0)
		start(8, 1)
		check("a core of the completing node is free", false, 700)
		start(1, 0)
		check("all nodes are full", true, 700)
	}
}

// TestWholeNodes checks that select/linear gives a job whole nodes, plans it for the first end that frees enough
// nodes, and does not count nodes with jobs.
func TestWholeNodes(t *testing.T) {
	m := machine(3)
	m.Linear = &linear.Cluster{Nodes: m.Nodes, Kinds: []selection.Bits{all(3)}}
	x := selection.NewTester(m)
	s := x.NewState()
	h := selection.Horizon{Now: 1000}
	whole := func(cpus int) *selection.Request { r := one(cpus); r.Exclusive = true; return r }
	for i := range int64(2) {
		a := x.Pick(s, whole(1), all(3), counts(1), selection.RunNow)
		if got := show(a); got != fmt.Sprintf("%d:8", i) || a.CPUs != 8 {
			t.Fatalf("job %d: %s with %d CPUs, want the whole node", i, got, a.CPUs)
		}
		x.Add(s, a)
		h.Running = append(h.Running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: 990 + 50*i})
	}
	for cpus, want := range map[int]int64{8: 1000, 16: 1001, 24: 1040} {
		if a, at := x.WillRun(s, whole(cpus), all(3), counts(1), &h); a == nil || at != want || a.CPUs != cpus {
			t.Errorf("%d CPUs: %v at %d, want a start at %d", cpus, a, at, want)
		}
	}
	h.NowOnly = true
	if a, _ := x.WillRun(s, whole(16), all(3), counts(1), &h); a != nil {
		t.Error("a job starts now on nodes with jobs")
	}
}
