package selection

import "rmreplay/internal/rm/slurmmodel/linear"

// Pick makes the test of [Tester.Test] as _pick_best_nodes in node_scheduler.c makes it. With select/linear it
// first tests the nodes of the lightest kind, then adds those of the next kind, and so on.
func (x *Tester) Pick(s *State, r *Request, set Bits, c Counts, mode Mode) *Allocation {
	if x.Linear == nil {
		return x.Test(s, r, set, c, mode)
	}
	if !set.Contains(r.Required) {
		return nil
	}
	for nodes := range x.Linear.Lightest(set, r.Required, x.Weights.All(), linear.Counts(c)) {
		if a, _ := x.testLinear(s, r, nodes, c, mode); a != nil {
			return a
		}
	}
	return nil
}

// testLinear is [Tester.Test] for select/linear (_run_now and _test_only in select_linear.c). The result found
// says that there are nodes. They may be on more leaf switches than the job waits for.
func (x *Tester) testLinear(s *State, r *Request, set Bits, c Counts, mode Mode) (a *Allocation, found bool) {
	nodes := x.Linear.Usable(r, set, x.CountMemory && mode != TestOnly)
	if mode != TestOnly {
		nodes.AndNot(s.busy)
	}
	chosen, scattered := x.Linear.Choose(r, nodes, linear.Counts(c))
	if chosen == nil || scattered && mode != TestOnly {
		return nil, chosen != nil
	}
	if mode != RunNow {
		return &Allocation{Nodes: chosen, CPUs: x.Linear.CountCPUs(chosen)}, true
	}
	for i := range chosen.All {
		x.rooms[i].cpus = x.Nodes[i].CPUs
	}
	t := &x.scratch
	*t = test{state: s, request: r, counts: c, rooms: x.rooms, work: t.work}
	return x.allocate(t, chosen), true
}

// willRunLinear is [Tester.WillRun] for select/linear (_will_run_test in select_linear.c): it makes a test
// after it has removed a job, and does not regard h.Begin and h.Until. It ends with the first nodes, even if
// they are on too many leaf switches.
func (x *Tester) willRunLinear(s *State, r *Request, set Bits, c Counts, h *Horizon) (*Allocation, int64) {
	if a, found := x.testLinear(s, r, set, c, WillRun); found || h.NowOnly {
		return a, h.Now
	}
	usable := x.Linear.Usable(r, set, x.CountMemory)
	s.CopyTo(x.future)
	for k := range h.Running {
		job := &h.Running[k]
		x.Remove(x.future, job.Allocation)
		if !job.Nodes.Overlaps(usable) || usable.Count()-usable.CountAnd(x.future.busy) < c.Min {
			continue
		}
		if a, found := x.testLinear(x.future, r, usable, c, WillRun); found {
			return a, max(h.Now+1, job.End)
		}
	}
	return nil, 0
}
