package selection_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// TestMemory asks random questions about random running jobs. A tester that stores answers and
// takes shortcuts on idle nodes must give the same answers, and leave the same weights, as one that
// makes all tests.
func TestMemory(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := randomMachine(rng)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { compareMemory(t, rng, m) })
	}
}

// randomMachine returns nodes with and without GPUs, of two weights, and sometimes switches.
func randomMachine(rng *rand.Rand) *selection.Machine {
	m := &selection.Machine{CountMemory: rng.IntN(2) == 0, LeastLoaded: rng.IntN(6) == 0}
	m.Since2411 = rng.IntN(2) == 0
	m.Since2605 = m.Since2411 && rng.IntN(2) == 0
	n := 4 + rng.IntN(70)
	for i := range n {
		node := selection.Node{
			Name: fmt.Sprintf("n%d", i), Sockets: 2, Cores: 4, Threads: 1, CPUs: 8, Memory: 1000, Weight: uint64(1 + i/3%2),
		}
		if i%3 == 0 {
			node.Devices = []selection.Device{{Kind: "gpu", Type: "a", Count: 4, BySocket: []int{2, 2}}}
		}
		m.Nodes = append(m.Nodes, node)
	}
	if rng.IntN(2) == 0 {
		top := selection.Switch{Name: "top", Nodes: selection.NewBits(n), Parent: 2, Level: 1}
		leaves := []selection.Switch{{Name: "a", Nodes: selection.NewBits(n), Parent: 2}, {Name: "b", Nodes: selection.NewBits(n), Parent: 2}}
		for i := range n {
			top.Nodes.Set(i)
			leaves[2*i/n].Nodes.Set(i)
		}
		m.Switches = append(leaves, top)
	}
	m.Prepare()
	return m
}

// requests are classes of jobs for a random machine.
func requests(rng *rand.Rand) []selection.Request {
	var list []selection.Request
	for range 5 {
		r := selection.Request{MinCPUs: 1 + rng.IntN(30), CPUsPerTask: 1, MinCPUsPerNode: 1, Memory: int64(100 * (1 + rng.IntN(8)))}
		switch rng.IntN(4) {
		case 0:
			r.Devices = []selection.DeviceRequest{{Kind: "gpu", Count: 1 + rng.IntN(4)}}
		case 1:
			r.Exclusive = true
		case 2:
			r.TasksPerNode = 1 + rng.IntN(8)
			r.MinCPUsPerNode = r.TasksPerNode
		case 3:
			r.CPUsPerTask = 1 + rng.IntN(4)
			r.MinCPUs *= r.CPUsPerTask
		}
		list = append(list, r)
	}
	return list
}

// asked is a question about a random machine. Its instants are relative to now.
type asked struct {
	request       selection.Request
	counts        selection.Counts
	set           selection.Bits
	nowOnly, busy bool
	begin, until  int64
}

func newAsked(rng *rand.Rand, classes []selection.Request, all selection.Bits) asked {
	q := asked{request: classes[rng.IntN(len(classes))], set: all.Clone()}
	q.request.Exclusive = q.request.Exclusive || rng.IntN(8) == 0
	q.counts.Min = 1 + rng.IntN(3)
	q.counts.Max, q.counts.Wanted = q.counts.Min+rng.IntN(2)*10, q.counts.Min
	for range rng.IntN(3) {
		q.set.Clear(rng.IntN(4))
	}
	for i := range q.set.All { // on few nodes an answer stays right while jobs start and end elsewhere
		if few := classes[0].MinCPUs%2 == 0; few && rng.IntN(3) > 0 {
			q.set.Clear(i)
		}
	}
	q.set.Set(5 % all.Count())
	q.nowOnly, q.busy = rng.IntN(5) == 0, rng.IntN(3) == 0
	q.begin, q.until = int64(rng.IntN(3))*400, int64(rng.IntN(2)*rng.IntN(1000))
	return q
}

func compareMemory(t *testing.T, rng *rand.Rand, m *selection.Machine) {
	quick, slow, state := selection.NewTester(m), selection.NewTester(m), m.NewState()
	classes := requests(rng)
	for k := range classes {
		quick.Classify(&classes[k])
	}
	all := selection.NewBits(len(m.Nodes))
	for i := range m.Nodes {
		all.Set(i)
	}
	h := selection.Horizon{Now: 1000, GuessedEnd: 30, Since2411: m.Since2411, Since2605: m.Since2605}
	pool := make([]asked, 12) // few, so that questions are repeated
	for k := range pool {
		pool[k] = newAsked(rng, classes, all)
	}
	for step := range 400 {
		q := pool[rng.IntN(len(pool))]
		r, c, set := q.request, q.counts, q.set
		h.Now += int64(rng.IntN(40))
		h.NowOnly, h.PreferBusy, h.Begin, h.Until = q.nowOnly, q.busy, h.Now+q.begin, 0
		if q.until > 0 && (m.Since2411 || len(r.Devices) == 0) {
			h.Until = h.Begin + q.until
		}
		unknown := r
		unknown.Class = 0
		switch rng.IntN(10) {
		case 9: // slurmctld restarts
			quick.ClearWeights()
			slow.ClearWeights()
		case 8: // a job has a flexible reservation
			i := rng.IntN(len(m.Nodes))
			quick.AddWeight(i, 1<<40)
			slow.AddWeight(i, 1<<40)
		case 7: // a job's limits prefer nodes
			preferred := selection.NewBits(len(m.Nodes))
			preferred.Set(set.Next(0))
			quick.Prefer(set, preferred, []selection.Bits{all})
			slow.Prefer(set, preferred, []selection.Bits{all})
		case 2: // slurmctld looks at nodes
			for range 3 {
				compareWeights(t, quick, slow, set)
				a, _ := quick.WillRun(state, &r, set, c, &h)
				b, _ := slow.WillRun(state, &unknown, set, c, &h)
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("step %d: nodes %v, want %v", step, a, b)
				}
			}
			compareWeights(t, quick, slow, set)
		case 0: // a job starts
			var a *selection.Allocation
			c.Min = 1 + rng.IntN(3)
			c.Max, c.Wanted = max(c.Min, c.Max), c.Min
			r.Exclusive = r.Exclusive || rng.IntN(2) == 0
			compareWeights(t, quick, slow, set)
			unknown.Exclusive = r.Exclusive
			for _, mode := range []selection.Mode{selection.TestOnly, selection.RunNow} {
				a = quick.Test(state, &r, set, c, mode)
				if b := slow.Test(m.Occupied(state), &unknown, set, c, mode); !reflect.DeepEqual(a, b) {
					t.Fatalf("step %d, mode %d: nodes %v, want %v", step, mode, a, b)
				}
			}
			if len(r.Devices) == 0 {
				compareSearch(t, slow, state, &unknown, set, c, a)
			}
			if a == nil {
				continue
			}
			m.Add(state, a)
			h.Running = append(h.Running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: h.Now + int64(rng.IntN(2000))})
			slices.SortStableFunc(h.Running, func(x, y selection.Running) int { return int(x.End - y.End) })
			quick.Changed(a.Nodes)
		case 1: // a job ends
			if len(h.Running) == 0 {
				continue
			}
			k := rng.IntN(len(h.Running))
			m.Remove(state, h.Running[k].Allocation)
			quick.Changed(h.Running[k].Allocation.Nodes)
			h.Running = slices.Delete(h.Running, k, k+1)
		default:
			a, at := quick.WillRun(state, &r, set, c, &h)
			b, want := slow.WillRun(state, &unknown, set, c, &h)
			if at != want || !reflect.DeepEqual(a, b) {
				t.Fatalf("step %d: %v at %d, want %v at %d", step, a, at, b, want)
			}
			if !m.Since2411 && !slices.Equal(quick.Weights.All(), slow.Weights.All()) {
				t.Fatalf("step %d: weights %v, want %v", step, quick.Weights.All(), slow.Weights.All())
			}
		}
	}
}

// TestMemoryDecides has two jobs on equal cores. Only one of the two leaves enough memory for a
// third job. The tester must not confuse the states in which one or the other of the two runs.
func TestMemoryDecides(t *testing.T) {
	m := machine(4)
	m.CountMemory = true
	for i := range m.Nodes {
		m.Nodes[i].Memory = 1000
	}
	x, s := selection.NewTester(m), m.NewState()
	first, set := selection.NewBits(4), selection.NewBits(4)
	first.Set(0)
	for i := range m.Nodes {
		set.Set(i)
	}
	wants := one(6)
	wants.Memory, wants.MemoryPerCPU, wants.MinCPUsPerNode = 100, true, 1
	x.Classify(wants)
	h := selection.Horizon{Now: 1000, NowOnly: true}
	for round := range 3 {
		for node, memory := range []int64{100, 800} {
			other := one(1)
			other.Memory = memory
			a := x.Test(s, other, first, counts(1), selection.RunNow)
			m.Add(s, a)
			x.Changed(first)
			got, _ := x.WillRun(s, wants, set, selection.Counts{Min: 1, Max: 1, Wanted: 1}, &h)
			if got == nil || !got.Nodes.Has(node) {
				t.Errorf("round %d: beside a job with %d MiB on node 0: %v, want node %d", round, memory, got, node)
			}
			m.Remove(s, a)
			x.Changed(first)
		}
	}
}

// TestOthersMoveWindows checks that a job on other nodes can change the window in which a job
// leaves, and thereby the start in the answer.
func TestOthersMoveWindows(t *testing.T) {
	m := machine(4)
	x, s := selection.NewTester(m), m.NewState()
	h := selection.Horizon{GuessedEnd: 30}
	begin := func(node, cpus int, end int64) {
		on := selection.NewBits(4)
		on.Set(node)
		a := x.Test(s, one(cpus), on, counts(1), selection.RunNow)
		x.Add(s, a)
		x.Changed(on)
		h.Running = append(h.Running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: end})
		slices.SortFunc(h.Running, func(a, b selection.Running) int { return int(a.End - b.End) })
	}
	begin(0, 4, 40)
	begin(0, 4, 500)
	begin(1, 8, 530)
	r, set := one(8), selection.NewBits(4)
	x.Classify(r)
	set.Set(0)
	set.Set(1)
	ask := func(want int64) {
		t.Helper()
		a, at := x.WillRun(s, r, set, selection.Counts{Min: 1, Max: 1, Wanted: 1}, &h)
		if a == nil || at != want {
			t.Errorf("%v at %d, want %d", a, at, want)
		}
	}
	ask(530) // the second window reaches from 90 to 540
	begin(3, 8, 100)
	ask(500) // the second window ends at 120, and the next begins
	x.Changed(h.Running[1].Allocation.Nodes)
	x.Remove(s, h.Running[1].Allocation)
	h.Running = slices.Delete(h.Running, 1, 2)
	ask(530)
}

// TestTally removes jobs from random machines. After each, the tally must agree with a look at all
// nodes.
func TestTally(t *testing.T) {
	full, free := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m := randomMachine(rng)
		x, s, set := selection.NewTester(m), m.NewState(), all(len(m.Nodes))
		var jobs []*selection.Allocation
		for range 100 {
			r := requests(rng)[0]
			if rng.IntN(5) == 0 {
				r.Exclusive, r.Sharing.Mode = true, sharing.Whole
			}
			if a := x.Test(s, &r, set, counts(1+rng.IntN(4)), selection.RunNow); a != nil {
				m.Add(s, a)
				jobs = append(jobs, a)
			}
		}
		r := requests(rng)[0]
		r.MinCPUs *= 1 + rng.IntN(10)
		set.Clear(rng.IntN(len(m.Nodes)))
		tallied, looked := x.Tallies(s, &r, set, 1+rng.IntN(len(m.Nodes)), jobs)
		if !slices.Equal(tallied, looked) {
			t.Fatalf("seed %d: the tally says %v, want %v", seed, tallied, looked)
		}
		for _, is := range looked {
			if is {
				full++
			} else {
				free++
			}
		}
	}
	if full < 500 || free < 500 {
		t.Errorf("%d answers are full, and %d are not", full, free)
	}
}

// compareSearch compares what a job gets now with a search without shortcuts, and with what a test
// said that it would get.
func compareSearch(
	t *testing.T, x *selection.Tester, s *selection.State, r *selection.Request, set selection.Bits, c selection.Counts,
	want *selection.Allocation,
) {
	t.Helper()
	if a := x.Search(s, r, set, c); !reflect.DeepEqual(a, want) {
		t.Fatalf("%+v: a search finds %v, a test %v", r, a, want)
	}
	if x.Since2411 { // the search sets other weights
		return
	}
	a, _ := x.WillRun(s, r, set, c, &selection.Horizon{Now: 1000, NowOnly: true})
	if (a == nil) != (want == nil) || a != nil && (a.CPUs != want.CPUs || !a.Nodes.Equal(want.Nodes)) {
		t.Fatalf("%+v: it would get %+v, and gets %+v", r, a, want)
	}
}

// compareWeights resets the weights of nodes. The quick tester may already know that they are
// reset.
func compareWeights(t *testing.T, quick, slow *selection.Tester, set selection.Bits) {
	t.Helper()
	slow.Unknown()
	slow.Weigh(set)
	quick.Weigh(set)
	for i := range set.All {
		if quick.Weights.Of(i) != slow.Weights.Of(i) {
			t.Fatalf("node %d weighs %#x, want %#x", i, quick.Weights.Of(i), slow.Weights.Of(i))
		}
	}
}

// TestDistribute compares the tasks on random nodes with a distribution of one task at a time.
func TestDistribute(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	m := &selection.Machine{}
	for range 6 {
		m.Nodes = append(m.Nodes, selection.Node{Sockets: 2, Cores: 8, Threads: 1, CPUs: 16})
	}
	m.Prepare()
	exact := 0
	for range 20000 {
		per := 1 + rng.IntN(3)
		cpus := make([]int, 1+rng.IntN(6))
		room := 0
		for n := range cpus {
			cpus[n] = per * (1 + rng.IntN(4))
			if rng.IntN(8) == 0 {
				cpus[n]++
			}
			room += cpus[n]
		}
		r := &selection.Request{CPUsPerTask: per, MinCPUsPerNode: per, MinCPUs: room - rng.IntN(2)*rng.IntN(room)}
		if rng.IntN(2) == 0 {
			r.TasksPerNode = 1 + rng.IntN(4)
			r.MinCPUsPerNode = r.TasksPerNode * per
		}
		got, tasks := m.Distribute(r, cpus)
		wantCPUs, wantTasks := oneByOne(r, cpus)
		if !slices.Equal(got, wantCPUs) || !slices.Equal(tasks, wantTasks) {
			t.Fatalf("%d CPUs, %d a task, on %v: CPUs %v and tasks %v, want %v and %v",
				r.MinCPUs, per, cpus, got, tasks, wantCPUs, wantTasks)
		}
		if slices.Equal(got, cpus) {
			exact++
		}
	}
	if exact < 1000 || exact > 19000 {
		t.Errorf("%d of 20000 draws use all CPUs", exact)
	}
}

// oneByOne gives each node a task, and then each node in turn another one while it has CPUs for it.
func oneByOne(r *selection.Request, have []int) (cpus, tasks []int) {
	cpus, tasks = make([]int, len(have)), make([]int, len(have))
	left := max(1, max(len(have)*r.MinCPUsPerNode, r.MinCPUs)/r.CPUsPerTask)
	most := left
	if r.TasksPerNode > 0 {
		most = r.TasksPerNode
		if r.CPUsPerTask > 1 {
			left = most * len(have)
		}
	}
	for full := false; left > 0; {
		before := left
		for n := range have {
			fits := have[n]-cpus[n] >= r.CPUsPerTask && tasks[n] < most
			if left > 0 && (full || tasks[n] == 0 || fits) {
				tasks[n]++
				cpus[n] = min(have[n], cpus[n]+r.CPUsPerTask)
				left--
			}
		}
		full = full || left == before
	}
	return cpus, tasks
}

// TestUntil compares searches that end at an instant with searches without an end, on nodes that are
// full with changing jobs.
func TestUntil(t *testing.T) {
	const nodes = 6
	rng := rand.New(rand.NewPCG(1, 7))
	m := machine(nodes)
	x, s := selection.NewTester(m), m.NewState()
	h := selection.Horizon{Now: 1000, GuessedEnd: 30}
	occupy := func(node int) {
		on := selection.NewBits(nodes)
		on.Set(node)
		a := x.Test(s, one(8), on, counts(1), selection.RunNow)
		x.Add(s, a)
		x.Changed(on)
		h.Running = append(h.Running, selection.Running{Allocation: a, Nodes: a.Nodes.Sparse(), End: h.Now - 100 + int64(rng.IntN(2000))})
		slices.SortFunc(h.Running, func(a, b selection.Running) int { return int(a.End - b.End) })
	}
	for node := range nodes {
		occupy(node)
	}
	late := 0
	for range 4000 {
		if h.Now += int64(rng.IntN(20)); rng.IntN(4) == 0 {
			k := rng.IntN(nodes)
			a := h.Running[k].Allocation
			x.Remove(s, a)
			h.Running = slices.Delete(h.Running, k, k+1)
			occupy(a.Nodes.Next(0))
		}
		set := selection.NewBits(nodes)
		for range 4 {
			set.Set(rng.IntN(nodes))
		}
		c := counts(1 + rng.IntN(set.Count()))
		r := one(8 * c.Min)
		x.Classify(r)
		h.Until = h.Now + int64(rng.IntN(1000))
		a, at := x.WillRun(s, r, set, c, &h)
		endless := h
		endless.Until, r.Class = 0, 0
		b, want := x.WillRun(s, r, set, c, &endless)
		if want > h.Until {
			late++
			b, want = nil, 0
		}
		if at != want || !reflect.DeepEqual(a, b) {
			t.Fatalf("at %d, until %d: %v at %d, want %v at %d", h.Now, h.Until, a, at, b, want)
		}
	}
	if late < 1000 {
		t.Errorf("%d starts are too late, want some more", late)
	}
}
