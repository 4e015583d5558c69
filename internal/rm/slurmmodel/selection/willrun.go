package selection

import "rmreplay/internal/rm/slurmmodel/windows"

// Running is a running job.
type Running = windows.Job[*Allocation]

// Horizon are the parameters of [Tester.WillRun].
type Horizon = windows.Horizon[*Allocation]

// WillRun looks for the instant at which a job could start, in seconds since 1970, and for its nodes then
// (_will_run_test in cons_common/job_test.c, _future_run_test in 24.11). It removes running jobs in order of their
// ends, and makes a test after each window of ends. So the instant may be later than necessary. WillRun returns nil if
// the job can never start or, with NowOnly, cannot start now. The allocation has nodes and CPUs, but no parts. The
// caller must not change it. Before 24.11, WillRun also returns nil if the job can only start after h.Until. For a job
// that asks for generic resources, h.Until must then be 0, because its tests change weights.
func (x *Tester) WillRun(s *State, r *Request, set Bits, c Counts, h *Horizon) (*Allocation, int64) {
	if x.Linear != nil {
		return x.willRunLinear(s, r, set, c, h)
	}
	if x.takesDefaults(r) {
		x.giveDefaults(r, WillRun)
	}
	s.rows.Settle()
	if x.careful = x.Completing != nil && h.Since2411 && set.Overlaps(x.Completing); x.careful {
		class := r.Class
		defer func() { r.Class, x.careful = class, false }()
		r.Class = 0
	}
	if r.Class == 0 || h.Also != nil || x.late.is {
		x.tests = x.tests[:0]
		return x.willRun(s, r, set, c, h).at(h)
	}
	return x.memory.answer(x, s, r, set, c, h).at(h)
}

// answer has the nodes on which a job could start now, or after the end of a running job. The
// allocation is nil if the job can never start, or if the search stopped at notBefore.
type answer struct {
	allocation *Allocation
	now        bool
	end        int64
	notBefore  int64 // the search stopped before the test at this end of a job; 0 if the search was completed
}

// at returns the answer as an allocation and the instant of its start.
func (a answer) at(h *Horizon) (*Allocation, int64) {
	switch start := h.After(a.end); {
	case a.now:
		return a.allocation, h.Now
	case a.allocation == nil, h.TooLate(start):
		return nil, 0
	default:
		return a.allocation, start
	}
}

func (x *Tester) willRun(s *State, r *Request, set Bits, c Counts, h *Horizon) answer {
	again := x.careful && h.Asked
	if !again {
		x.reweigh(set, h, h.AsksNow())
	}
	s.CopyTo(x.future)
	full := x.newTally(r, set, c.Min)
	left := set
	if h.AsksNow() {
		if x.dedicated = true; again {
			x.reweigh(x.left, h, false)
		}
		a := full.test(s, c, false)
		if x.dedicated = false; a != nil {
			return answer{allocation: a, now: true}
		}
		if left = x.left; !again {
			copy(left, x.all) // other nodes keep the weights that the test set
		}
	}
	if h.NowOnly {
		return answer{}
	}
	stuck := r.Stuck // a test of a later start does not make slurmctld hold a job
	defer func() { r.Stuck = stuck }()
	w := h.Walk(set)
	if h.BeginsLater() {
		x.reweigh(left, h, false)
		for k := range h.Ended() {
			if h.Running[k].Nodes.Overlaps(set) { // without other jobs, rows would be packed differently
				full.leave(h.Running[k].Allocation)
			}
		}
		x.dedicated = true
		a := full.test(x.future, c, false)
		if x.dedicated = false; a != nil {
			return answer{allocation: a, now: true}
		}
	}
	return x.afterEnds(&w, &full, c, h)
}

// reweigh resets nodes to their own weights: since 24.11 a test does not see weights of earlier
// tests. In a test of a start now, completing nodes are heavier (_set_sched_weight in job_test.c).
func (x *Tester) reweigh(set Bits, h *Horizon, now bool) {
	if !h.Since2411 {
		return
	}
	x.own.AndNot(set)
	x.plain.AndNot(set)
	for i := range set.All {
		weight := x.Nodes[i].Weight << 16
		if now && x.Completing != nil && x.Completing.Has(i) {
			weight |= 1 << 8
		}
		x.Weights.Put(i, weight)
	}
}

// afterEnds removes running jobs, a window at a time, until the job can start.
func (x *Tester) afterEnds(w *windows.Walk[*Allocation], full *tally, c Counts, h *Horizon) answer {
	for w.Next(full.leave) {
		x.tests = append(x.tests, w.Gone)
		if end := w.Jobs[w.Last].End; h.TooLate(end) && !full.fails() {
			return answer{notBefore: end}
		}
		if a := full.test(x.future, c, h.PreferBusy); a != nil {
			return answer{allocation: a, end: h.EndBefore(w, a.Nodes)}
		}
	}
	return answer{}
}
