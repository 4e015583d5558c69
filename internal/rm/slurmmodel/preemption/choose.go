package preemption

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// Try is a job that looks for nodes, with the candidates that it may preempt in the order of
// [Settings.Order].
type Try struct {
	Tester     *selection.Tester
	State      *selection.State
	Request    *selection.Request
	Counts     selection.Counts
	Candidates []*Job
	// Uses are how the job may share cores, in the order in which [Settings.WillRun] tries them.
	Uses []sharing.Use
}

// forget stops the tester from storing results, because the tested states lack removed candidates.
// The caller must call the returned function when the tests are done.
func (t *Try) forget() func() {
	class := t.Request.Class
	t.Request.Class = 0
	return func() { t.Request.Class = class }
}

// Leaves reports whether a preempted job leaves its nodes: it is requeued or cancelled, not
// suspended.
func (s *Settings) Leaves(job *Job) bool {
	mode := s.ModeOf(job)
	return mode == Requeue || mode == Cancel
}

// Now looks for nodes that the job could have now if candidates left them, and returns these
// candidates (_run_now). The caller has tested that the job does not fit without preemption. Now removes
// candidates in their order until the job fits. It then repeats this in another order, because fewer
// candidates may suffice. Before each repetition, Now tests like slurmctld whether the job fits without
// preemption on the nodes that it just found: the choice may succeed on few nodes and fail on many.
func (s *Settings) Now(t *Try, set selection.Bits) (*selection.Allocation, []*Job) {
	defer t.forget()()
	if s.byQOS && len(t.Candidates) > 0 && s.ModeOf(t.Candidates[0]) == Suspend {
		return s.stopped(t, set), nil
	}
	list := slices.Clone(t.Candidates)
	for round := 1; ; round++ {
		alloc, last := s.drop(t, set, list)
		if alloc == nil {
			return nil, nil
		}
		if round > s.rounds+1 || len(list) <= round {
			for _, job := range list[last+1:] {
				job.usable = 1
			}
			return alloc, s.chosen(list, alloc.Nodes)
		}
		s.reorder(list, last, alloc.Nodes)
		if alloc := t.Tester.Test(t.State, t.Request, alloc.Nodes, t.Counts, selection.RunNow); alloc != nil {
			return alloc, nil
		}
	}
}

// stopped looks for nodes for a job whose candidates are suspended. The job gets the candidates'
// cores, in the row for jobs that preempt others. Since 24.11, candidates are suspended in their
// order until the job fits.
func (s *Settings) stopped(t *Try, set selection.Bits) *selection.Allocation {
	x := t.Tester
	defer func() { x.Extra, x.Stopped = false, nil }()
	if !x.Since2411 {
		x.Extra = true
		return x.Test(t.State, t.Request, set, t.Counts, selection.RunNow)
	}
	future := x.NewState()
	t.State.CopyTo(future)
	var list []*rows.Job
	for _, job := range t.Candidates {
		if s.ModeOf(job) != Suspend || !job.Allocation.Nodes.Overlaps(set) {
			continue
		}
		x.Suspend(future, job.Allocation)
		list = append(list, job.Allocation.Turn)
		if x.Test(future, t.Request, set, t.Counts, selection.WillRun) != nil {
			x.Extra, x.Stopped = true, list
			return x.Test(t.State, t.Request, set, t.Counts, selection.RunNow)
		}
	}
	return nil
}

// Open adds usable nodes to a set: the nodes of candidates that share their nodes with no other job
// (_bit_or_cond in node_scheduler.c).
func Open(nodes, usable selection.Bits, candidates []*Job) {
	for _, job := range candidates {
		for i := range job.Allocation.Nodes.All {
			if job.Alone && usable.Has(i) {
				nodes.Set(i)
			}
		}
	}
}

// drop removes candidates until the job fits. It returns the index of the last removed candidate.
func (s *Settings) drop(t *Try, set selection.Bits, list []*Job) (*selection.Allocation, int) {
	future := t.Tester.NewState()
	t.State.CopyTo(future)
	for i, job := range list {
		if !s.Leaves(job) || !job.Allocation.Nodes.Overlaps(set) {
			continue
		}
		t.Tester.Leave(future, job.Allocation)
		alloc := t.Tester.Test(future, t.Request, set, t.Counts, selection.RunNow)
		if job.usable = 0; alloc != nil {
			return alloc, i
		}
	}
	return nil, 0
}

// reorder moves the candidate with the index last to the front. Without strict_order it also sorts the
// candidates before this one: those with the most of the job's nodes come first.
func (s *Settings) reorder(list []*Job, last int, nodes selection.Bits) {
	if s.strictOrder {
		job := list[last]
		copy(list[1:last+1], list[:last])
		list[0] = job
		return
	}
	const first = 99999
	for i, job := range list {
		switch {
		case i < last:
			job.usable = nodes.CountAnd(job.Allocation.Nodes)
		case i == last:
			job.usable = first
		default:
			job.usable = 0
		}
	}
	slices.SortStableFunc(list, func(a, b *Job) int { return cmp.Compare(b.usable, a.usable) })
}

// chosen returns the candidates on the job's nodes that must end, up to the first candidate that may
// continue.
func (s *Settings) chosen(list []*Job, nodes selection.Bits) (chosen []*Job) {
	for _, job := range list {
		switch {
		case !s.Leaves(job) || !job.Allocation.Nodes.Overlaps(nodes):
		case job.usable != 0:
			return chosen
		default:
			chosen = append(chosen, job)
		}
	}
	return chosen
}

// WillRun looks for the instant at which the job could start, with each of the job's uses until the job could
// start now (_try_sched in backfill.c). In 26.05 the job gets whole nodes in a partition with
// OverSubscribe=EXCLUSIVE.
func (s *Settings) WillRun(
	t *Try, set selection.Bits, h *selection.Horizon,
) (alloc *selection.Allocation, start int64) {
	for _, use := range t.Uses {
		t.Request.Sharing = use
		t.Request.Exclusive = t.Request.Exclusive || h.Since2605 && use.Mode == sharing.Whole
		if alloc, start = s.willRun(t, set, h); alloc != nil && start <= h.Now {
			break
		}
	}
	return alloc, start
}

// willRun looks for the instant at which the job could start, as [selection.Tester.WillRun]. It
// removes candidates first. If the job then fits, it could start now (_will_run_test).
func (s *Settings) willRun(t *Try, set selection.Bits, h *selection.Horizon) (*selection.Allocation, int64) {
	if len(t.Request.Devices) > 0 && !h.Since2411 {
		h.Until = 0
	}
	if len(t.Candidates) == 0 {
		return t.Tester.WillRun(t.State, t.Request, set, t.Counts, h)
	}
	if !h.Since2411 || h.Begin <= h.Now {
		now := *h
		now.NowOnly = true
		if alloc, start := t.Tester.WillRun(t.State, t.Request, set, t.Counts, &now); alloc != nil && start <= h.Now {
			return alloc, start
		}
	}
	defer t.forget()()
	future, gone := t.Tester.NewState(), map[*selection.Allocation]bool{}
	t.State.CopyTo(future)
	for _, r := range h.Running[:h.Ended()] {
		if gone[r.Allocation] = true; r.Nodes.Overlaps(set) {
			t.Tester.Leave(future, r.Allocation)
		}
	}
	for _, job := range t.Candidates {
		if gone[job.Allocation] {
			continue
		}
		gone[job.Allocation] = true
		switch mode := s.ModeOf(job); {
		case mode == Off || !job.Allocation.Nodes.Overlaps(set):
		case mode == Suspend: // a suspended job keeps its memory
			t.Tester.Suspend(future, job.Allocation)
			t.Tester.Extra = t.Tester.Extra || s.byQOS
		default:
			t.Tester.Leave(future, job.Allocation)
		}
	}
	defer func() { t.Tester.Extra = false }()
	running := make([]selection.Running, 0, len(h.Running))
	for _, r := range h.Running {
		if !gone[r.Allocation] {
			running = append(running, r)
		}
	}
	later := *h
	later.Running, later.NowOnly, later.Asked = running, h.NowOnly && !h.Since2411, h.Since2411 && h.Begin <= h.Now
	return t.Tester.WillRun(future, t.Request, set, t.Counts, &later)
}

// RenewExempt reports whether the cores of jobs that cannot be suspended yet must be found anew at the second now. If
// so, RenewExempt removes the exempt cores that the tester has. In 26.05 slurmctld finds them anew at most once a
// second if slurm.conf has PreemptExemptTime (_rebuild_suspend_exempt_cores).
func (s *Settings) RenewExempt(x *selection.Tester, now int64) bool {
	if !x.Since2605 || s.exempt == 0 || s.renewed == now {
		return false
	}
	s.renewed, x.Exempt = now, nil
	return true
}

// Exempt exempts the cores of a running job if the job cannot be suspended yet at the second now
// (_add_exempt_cores).
func (s *Settings) Exempt(x *selection.Tester, job *Job, now int64) {
	if s.ModeOf(job) != Suspend || now >= s.exemptUntil(job) {
		return
	}
	if x.Exempt == nil {
		x.Exempt = nodeset.New(x.Cores())
	}
	for _, c := range job.Allocation.Turn.Cores {
		x.Exempt.Set(c)
	}
}
