package run

import (
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// interruptions returns what ended or stopped the job's runs. If the cause of a lost run is not known, the run counts
// as preempted if the record names the preempting job, and otherwise as requeued.
func (r *Row) interruptions() (i hpc.Interruptions) {
	for k, s := range r.Segments {
		if s.EndedBy != rm.Suspend {
			continue
		}
		stop := hpc.Suspension{From: s.End, To: r.End}
		if k+1 < len(r.Segments) {
			stop.To = r.Segments[k+1].Start
		}
		if r.End != 0 { // the accounting has the end in whole seconds, which may precede the last events
			stop.From, stop.To = min(stop.From, r.End), min(stop.To, r.End)
		}
		i.Suspensions = append(i.Suspensions, stop)
	}
	for _, s := range r.Runs() {
		if s.EndedBy != rm.Requeue {
			i.PreemptedBy = s.PreemptedBy
			continue
		}
		if n := len(i.LostRuns); n > 0 && s.Eligible >= i.LostRuns[n-1].End {
			i.LostRuns[n-1].EligibleAgain = s.Eligible
		}
		lost := hpc.LostRun{Start: s.Start, End: s.End, Nodes: s.Nodes, Processors: s.Processors, Cause: s.Cause,
			PreemptedBy: s.PreemptedBy}
		if lost.Cause == "" {
			if lost.Cause = hpc.Requeued; s.PreemptedBy != "" {
				lost.Cause = hpc.Preempted
			}
		}
		i.LostRuns = append(i.LostRuns, lost)
	}
	if n := len(i.LostRuns); n > 0 && r.Eligible >= i.LostRuns[n-1].End {
		i.LostRuns[n-1].EligibleAgain = r.Eligible
	}
	return i
}

// history turns the record of a job, or of a task of an array, into events.
type history struct {
	events      []rm.Event
	job         *hpc.Job
	task        int
	eligible    hpc.Time         // when the job was eligible for the next run
	suspensions []hpc.Suspension // suspensions for which there are no events yet
}

// append adds the events of all runs.
func (h *history) append(r *hpc.Recorded) {
	for i, run := range r.LostRuns {
		h.start(run.Start, h.outcome(run.Nodes, run.Processors))
		h.suspend(run.End, true)
		lost := rm.Outcome{State: run.Cause, End: run.End, PreemptedBy: run.PreemptedBy}
		if i+1 == len(r.LostRuns) && r.Start == 0 && r.End == 0 {
			lost.Eligible = run.EligibleAgain
		}
		h.add(run.End, rm.Requeue, &lost)
		h.eligible = run.EligibleAgain
	}
	last := h.outcome(r.Nodes, r.Processors)
	last.Priority = r.Priority
	if r.Start != 0 {
		h.start(r.Start, last)
		h.suspend(r.End, false)
	} else {
		last.Processors, last.NodeCount = r.Processors, 0
	}
	if r.End != 0 {
		last.State, last.Start, last.End, last.PreemptedBy = r.State, r.Start, r.End, r.PreemptedBy
		h.add(max(r.End, r.Start), rm.Ended, &last)
	}
}

// outcome returns what is known about the next run. If the record lacks the nodes or the processors, the run has those
// that the job requested.
func (h *history) outcome(nodes string, processors int) rm.Outcome {
	o := rm.Outcome{Eligible: h.eligible, Nodes: nodes, NodeCount: h.job.MinNodes, Processors: processors}
	if names, err := hostlist.Expand(nodes); err == nil && nodes != "" {
		o.NodeCount = len(names)
	}
	if limit := h.job.Recorded.TimeLimit; limit == hpc.Unlimited {
		o.TimeLimit = -1
	} else {
		o.TimeLimit = int64(limit / time.Second)
	}
	if processors == 0 {
		o.Processors = workload.CPUs(&h.job.Request)
	}
	return o
}

func (h *history) start(at hpc.Time, o rm.Outcome) {
	o.State, o.Start = hpc.Running, at
	h.add(at, rm.Started, &o)
}

// suspend adds the suspensions of a run of the job. The run ended at the instant end, or still lasts
// if end is 0. A suspension of the last run may last until the run's end: such a suspension has no
// resumption. A suspension in a lost run always ends with the job's return to the queue.
func (h *history) suspend(end hpc.Time, lost bool) {
	for len(h.suspensions) > 0 && (end == 0 || h.suspensions[0].From <= end) {
		s := h.suspensions[0]
		h.suspensions = h.suspensions[1:]
		h.add(s.From, rm.Suspend, nil)
		if lost || s.To != 0 && s.To != end {
			h.add(s.To, rm.Resume, nil)
		}
	}
}

func (h *history) add(at hpc.Time, kind rm.EventKind, o *rm.Outcome) {
	h.events = append(h.events, rm.Event{At: at, Kind: kind, Job: h.job.ID, Task: h.task, Outcome: o})
}
