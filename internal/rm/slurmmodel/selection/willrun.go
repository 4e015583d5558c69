package selection

import "sort"

// Running is a running job, for [Tester.WillRun].
type Running struct {
	*Allocation
	// End is when the job will have reached its time limit, in seconds since 1970.
	End int64
}

// Horizon are the parameters of [Tester.WillRun].
type Horizon struct {
	Now int64 // seconds since 1970
	// Running are the running jobs in the order of their ends; jobs of one end in Slurm's order.
	Running []Running
	// Linear is bf_window_linear: by how many seconds each window is longer than the one before; 0 doubles it.
	Linear int64
	// PreferBusy is bf_busy_nodes.
	PreferBusy bool
	// GuessedEnd is after how many seconds a job is expected to end that should have ended already
	// (KillWait + OverTimeLimit).
	GuessedEnd int64
	// NowOnly asks only whether the job can start now.
	NowOnly bool
	// Version changes whenever Running does, or the state. Answers of the same version are remembered; 0 is
	// for none.
	Version int

	// The following hold since 24.11.

	// Since2411 says that the release is 24.11 or newer. Since2605 says so for 26.05.
	Since2411, Since2605 bool
	// Begin is the earliest instant that is asked for. Until is when the next try would begin; 0 for none.
	Begin, Until int64
}

// mostRemovals is the number of jobs after whose end a round makes no test.
const mostRemovals = 200

// WillRun looks for the instant, in seconds since 1970, at which a job could start, and for its nodes then
// (_will_run_test in cons_common/job_test.c, _future_run_test in 24.11). It takes running jobs away in
// the order of their ends, all of a window at a time, so the instant may be later than it need be. It
// returns nil if there is none. The allocation has nodes and CPUs, and no parts. The caller must not change it.
func (x *Tester) WillRun(s *State, r *Request, set Bits, c Counts, h *Horizon) (*Allocation, int64) {
	if r.Class == 0 || h.Version == 0 {
		return x.willRun(s, r, set, c, h).at(h)
	}
	return x.memory.answer(x, s, r, set, c, h).at(h)
}

// answer is the nodes that a job could have; nil if there is no instant. If now is false, it could have them
// after the end of a running job.
type answer struct {
	allocation *Allocation
	now        bool
	end        int64
}

// at returns the answer for the present.
func (a answer) at(h *Horizon) (*Allocation, int64) {
	switch {
	case a.allocation == nil:
		return nil, 0
	case a.now:
		return a.allocation, h.Now
	case a.end > h.Now:
		return a.allocation, a.end
	}
	return a.allocation, max(h.Now+1, a.end+h.GuessedEnd)
}

func (x *Tester) willRun(s *State, r *Request, set Bits, c Counts, h *Horizon) answer {
	x.reweigh(set, h)
	left := set
	if h.asksNow() {
		x.dedicated = true
		a := x.test(s, r, set, c, WillRun, false)
		if x.dedicated = false; a != nil {
			return answer{allocation: a, now: true}
		}
		left = x.all // the other nodes keep the weights that the test gave them
	}
	if h.NowOnly {
		return answer{}
	}
	stuck := r.Stuck // slurmctld holds no job because of the future
	defer func() { r.Stuck = stuck }()
	s.CopyTo(x.future)
	running := h.Running
	if h.Since2411 && h.Begin > 0 {
		x.reweigh(left, h)
		for k := range h.ended() {
			x.Remove(x.future, running[k].Allocation)
		}
		running = running[h.ended():]
		if a := x.test(x.future, r, set, c, WillRun, false); a != nil {
			return answer{allocation: a, now: true}
		}
	}
	return x.afterEnds(running, r, set, c, h)
}

// asksNow reports whether a start at once is asked for.
func (h *Horizon) asksNow() bool { return !h.Since2411 || h.Begin <= h.Now }

// ended returns how many running jobs will have ended when the job may begin. Until 24.11 that is not asked.
func (h *Horizon) ended() int {
	if !h.Since2411 || h.Begin <= 0 {
		return 0
	}
	return sort.Search(len(h.Running), func(k int) bool {
		return h.Running[k].End > h.Begin || h.Running[k].End == h.Begin && !h.Since2605
	})
}

// considered returns how many running jobs end before the next try would begin.
func (h *Horizon) considered() int {
	if !h.Since2411 || h.Until <= 0 {
		return len(h.Running)
	}
	return sort.Search(len(h.Running), func(k int) bool { return h.Running[k].End > h.Until })
}

// reweigh gives nodes their own weights again: since 24.11 a test does not remember earlier ones.
func (x *Tester) reweigh(set Bits, h *Horizon) {
	if !h.Since2411 {
		return
	}
	x.own.AndNot(set)
	for i := range set.All {
		x.Weights[i] = x.Nodes[i].Weight << 16
	}
}

// overlaps reports whether the job has a node of a set. Most jobs have fewer nodes than the set has words.
func (a *Allocation) overlaps(set Bits) bool {
	if len(a.Parts) > len(set) {
		return set.Overlaps(a.Nodes)
	}
	for i := range a.Parts {
		if set.Has(a.Parts[i].Node) {
			return true
		}
	}
	return false
}

// afterEnds takes running jobs away, a window at a time.
func (x *Tester) afterEnds(running []Running, r *Request, set Bits, c Counts, h *Horizon) answer {
	const step = 30
	window, anchor := int64(step), int64(0)
	for at := 0; at < len(running); {
		last, removed, skip := -1, 0, false
		for at < len(running) {
			job := &running[at]
			if h.Since2411 && h.Until > 0 && job.End > h.Until {
				at = len(running)
				break
			}
			at++
			if !job.overlaps(set) {
				continue
			}
			if anchor == 0 {
				anchor = job.End + step - job.End%step
			}
			last = at - 1
			x.Remove(x.future, job.Allocation)
			if at < len(running) && running[at].End > anchor+window {
				break
			}
			if at < len(running) {
				if removed++; removed > mostRemovals+1 {
					skip = true
					break
				}
			}
		}
		if last < 0 {
			return answer{}
		}
		if skip {
			continue
		}
		for grown := false; !grown || at < len(running) && running[at].End > anchor+window; grown = true {
			if h.Linear > 0 {
				window += h.Linear
			} else {
				window *= 2
			}
		}
		if a := x.test(x.future, r, set, c, WillRun, h.PreferBusy); a != nil {
			return answer{allocation: a, end: h.endBefore(running[:last+1], a)}
		}
	}
	return answer{}
}

// endBefore returns the end after which a job can start that needs the ends of running jobs.
func (h *Horizon) endBefore(ended []Running, a *Allocation) int64 {
	last := len(ended) - 1
	if h.Since2605 {
		for last > 0 && !ended[last].Nodes.Overlaps(a.Nodes) {
			last--
		}
	}
	return ended[last].End
}
