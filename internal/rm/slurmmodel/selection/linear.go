package selection

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/linear"
)

// Linear is what a machine has for select/linear.
type Linear struct {
	linear.Cluster
	// Kinds are the nodes with the same line of slurm.conf, in its order.
	Kinds []Bits
}

// Pick makes the test of [Tester.Test] as _pick_best_nodes in node_scheduler.c makes it. With select/linear it
// first tests the nodes of the lightest kind, then adds those of the next kind, and so on.
func (x *Tester) Pick(s *State, r *Request, set Bits, c Counts, mode Mode) *Allocation {
	if x.Linear == nil {
		return x.Test(s, r, set, c, mode)
	}
	type kind struct {
		weight uint64
		nodes  Bits
	}
	var kinds []kind
	for _, of := range x.Linear.Kinds {
		for i := of.NextAnd(set, 0); i >= 0; i = of.NextAnd(set, i+1) {
			at := slices.IndexFunc(kinds, func(k kind) bool { return k.weight == x.Weights[i] && of.Contains(k.nodes) })
			if at < 0 {
				at, kinds = len(kinds), append(kinds, kind{x.Weights[i], NewBits(len(x.Nodes))})
			}
			kinds[at].nodes.Set(i)
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(a.weight, b.weight) })
	nodes := NewBits(len(x.Nodes))
	nodes.Or(r.Required)
	for k := range kinds {
		nodes.Or(kinds[k].nodes)
		more := k+1 < len(kinds)
		if more && (len(x.Switches) > 1 && kinds[k].weight == kinds[k+1].weight || nodes.Count() < max(c.Min, c.Wanted)) {
			continue
		}
		if a := x.Test(s, r, nodes, c, mode); a != nil {
			return a
		}
	}
	return nil
}

// testLinear is [Tester.Test] for select/linear (_run_now and _test_only in select_linear.c).
func (x *Tester) testLinear(s *State, r *Request, set Bits, c Counts, mode Mode) *Allocation {
	nodes := x.wholeNodes(r, set, mode)
	if mode != TestOnly {
		nodes.AndNot(s.busy)
	}
	chosen, scattered := x.Linear.Choose(r, nodes, linear.Counts(c))
	if chosen == nil || scattered && mode != TestOnly {
		return nil
	}
	if mode != RunNow {
		a := &Allocation{Nodes: chosen}
		for i := range chosen.All {
			a.CPUs += x.Nodes[i].CPUs
		}
		return a
	}
	for i := range chosen.All {
		x.rooms[i].cpus = x.Nodes[i].CPUs
	}
	t := &x.scratch
	*t = test{state: s, request: r, counts: c, rooms: x.rooms, work: t.work}
	return x.allocate(t, chosen)
}

// wholeNodes returns the nodes of a set that a job could use if they had no other jobs (_job_count_bitmap). A
// job with memory per CPU needs it for all CPUs of a node. A job that does not request memory needs as much on
// each node as the first node has. A test with TestOnly does not count memory.
func (x *Tester) wholeNodes(r *Request, set Bits, mode Mode) Bits {
	nodes, memory := set.Clone(), r.Memory
	for i := range nodes.All {
		n := &x.Nodes[i]
		if len(r.Devices) > 0 && !linear.HasDevices(r, n) {
			nodes.Clear(i)
			continue
		}
		if memory == 0 {
			memory = n.Memory + n.MemSpecLimit
		}
		need := memory
		if r.MemoryPerCPU && r.Memory > 0 {
			need *= int64(n.CPUs)
		}
		if x.CountMemory && mode != TestOnly && need > n.Memory {
			nodes.Clear(i)
		}
	}
	return nodes
}

// willRunLinear is [Tester.WillRun] for select/linear (_will_run_test in select_linear.c): it makes a test
// after it has removed a job, and does not regard h.Begin and h.Until.
func (x *Tester) willRunLinear(s *State, r *Request, set Bits, c Counts, h *Horizon) (*Allocation, int64) {
	if a := x.testLinear(s, r, set, c, WillRun); a != nil || h.NowOnly {
		return a, h.Now
	}
	usable := x.wholeNodes(r, set, WillRun)
	s.CopyTo(x.future)
	for k := range h.Running {
		job := &h.Running[k]
		x.Remove(x.future, job.Allocation)
		if !job.Nodes.Overlaps(usable) || usable.Count()-usable.CountAnd(x.future.busy) < c.Min {
			continue
		}
		if a := x.testLinear(x.future, r, usable, c, WillRun); a != nil {
			return a, max(h.Now+1, job.End)
		}
	}
	return nil, 0
}
