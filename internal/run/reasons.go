package run

import (
	"cmp"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run/outages"
)

// Reasons are the reasons of the pending jobs ([rm.Waiting]) of a run.
type Reasons struct {
	// seen has spans without their ends, in the order of the events. The spans of task -1 are for
	// all tasks of an array.
	seen    map[reasonKey][]Span
	starts  map[reasonKey][]rm.PriorityPart // components of priorities at the last starts
	outages outages.Outages
	end     hpc.Time // end of the run, or its last event if that is later
	window  hpc.Time // see BeforeWindow; 0 without a window
}

type reasonKey struct {
	job  string
	task int
}

// NewReasons collects the reasons from the events of a run that ended at the instant end.
func NewReasons(events []Event, end hpc.Time) *Reasons {
	r := &Reasons{seen: map[reasonKey][]Span{}, starts: map[reasonKey][]rm.PriorityPart{}, end: end}
	for i := range events {
		e := &events[i]
		r.end = max(r.end, e.At)
		switch {
		case e.Kind == rm.NodeState:
			r.outages.Add(e.At, e.Reason)
		case e.Kind == rm.Waiting:
			r.add(e)
		case e.Kind == rm.Started && len(e.Parts) > 0:
			r.starts[reasonKey{e.Job, e.Task}] = e.Parts
		}
	}
	return r
}

// add adds an event of a pending job.
func (r *Reasons) add(e *Event) {
	k := reasonKey{e.Job, e.Task}
	r.seen[k] = append(r.seen[k], Span{
		From: e.At, Reason: e.Reason, Planned: e.Start, Priority: e.Priority, Parts: e.Parts, Backfill: e.Backfill,
	})
}

// Any reports whether the run has reasons.
func (r *Reasons) Any() bool { return len(r.seen) > 0 }

// BeforeWindow is the reason for waiting before a workload's window. Until the window begins, a reservation of the
// engine keeps jobs from starting, and the record does not have the real queue, so no reason of the site applies to
// that time.
const BeforeWindow = "before the window"

// AtArrayLimit is a reason in records without Slurm's reasons. A task has the reason AtArrayLimit while the limit of
// its array lets no other task start.
const AtArrayLimit = "JobArrayTaskLimit: as many tasks of the array ran as its limit allows"

// beforeWindow adds the reason for the time before the window, if the row has no reasons.
func (r *Row) beforeWindow(window hpc.Time) {
	if to := min(window, cmp.Or(r.Start, r.End, window)); r.Reasons == nil && r.Submit != 0 && r.Submit < to {
		r.Reasons = []Span{{From: r.Submit, To: to, Reason: BeforeWindow}}
	}
}

// HasReasons reports whether the resource manager gave a reason for which the job waited.
func (r *Row) HasReasons() bool {
	return slices.ContainsFunc(r.Reasons, func(s Span) bool {
		return s.Reason != "" && s.Reason != BeforeWindow && s.Reason != AtArrayLimit
	})
}

// Span is a time for which a job had one reason to wait. Reason is empty if it is not recorded. Planned is the start
// that the scheduler had planned for the job; 0 if it had not planned a start.
type Span struct {
	From, To hpc.Time
	Reason   string
	Planned  hpc.Time
	Priority uint32
	// Parts and Backfill are as in [Event].
	Parts    []rm.PriorityPart
	Backfill rm.Backfill
	// InService says that all nodes that the reason calls unavailable were in service, neither down nor drained. slurmctld
	// also gives this reason for nodes that an earlier pending job of the same cycle names (_schedule in job_scheduler.c).
	InService bool
}

// Parts returns the components of a job's priority at its last start or, if the job has not started,
// at its last event as a pending job. It returns nil if they are not known.
func (r *Reasons) Parts(row *Row) []rm.PriorityPart {
	if row.Start != 0 {
		return r.starts[reasonKey{row.Job, row.Task}]
	}
	spans := r.Spans(row)
	if len(spans) == 0 {
		return nil
	}
	return spans[len(spans)-1].Parts
}

// give sets a row's reasons.
func (r *Reasons) give(row *Row) {
	if !r.Any() {
		row.beforeWindow(r.window)
		return
	}
	row.Reasons = r.Spans(row)
}

// requeued is the reason of a requeued job until it is eligible again.
const requeued = "BeginTime"

// requeues returns a span without its end for each requeue: earlier reasons do not apply after a lost run.
func (r *Row) requeues() []Span {
	var list []Span
	for i, s := range r.Segments {
		if s.EndedBy != rm.Requeue {
			continue
		}
		eligible := r.Eligible // for the last run, or for a run that has not started
		if slices.ContainsFunc(r.Segments[i+1:], func(next Segment) bool { return next.EndedBy == rm.Requeue }) {
			eligible = r.Segments[i+1].Eligible // the next run was lost, too
		}
		span := Span{From: s.End}
		if eligible > s.End {
			span.Reason = requeued
		}
		list = append(list, span)
	}
	return list
}

// Spans returns the reasons of a job, from its first submission until its last start. For a job without a start, the
// reasons last until the job's end or the run's end. The reasons start again at each requeue. The time before a window
// has the reason [BeforeWindow].
func (r *Reasons) Spans(row *Row) []Span {
	until := cmp.Or(row.Start, row.End, r.end)
	seen := r.seen[reasonKey{row.Job, row.Task}]
	if again := row.requeues(); row.Task >= 0 || len(again) > 0 {
		array := []Span(nil)
		if row.Task >= 0 {
			array = r.seen[reasonKey{row.Job, -1}]
			if len(again) > 0 { // the array's reasons no longer apply to the task
				array = slices.DeleteFunc(slices.Clone(array), func(s Span) bool { return s.From > row.Segments[0].Start })
			}
		}
		seen = slices.Concat(array, again, seen) // at the same instant, the task's reason applies
		slices.SortStableFunc(seen, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	}
	var list []Span
	current := Span{From: row.Submit}
	add := func(to hpc.Time) {
		if until := min(to, r.window); until > current.From {
			if len(list) == 0 {
				list = append(list, Span{From: current.From, Reason: BeforeWindow})
			}
			list[0].To = until
			current.From = until
		}
		current.InService = row.Start != 0 && r.outages.InService(current.Reason, row.Nodes, current.From, to)
		if current.To = to; to > current.From {
			list = append(list, current)
		}
	}
	for _, s := range seen {
		if s.From < row.Submit || s.From >= until {
			continue
		}
		if current.Reason == requeued && s.Reason == requeued && current.Priority == 0 { // s reports this requeue
			s.From = current.From
		} else {
			add(s.From)
		}
		current = s
	}
	add(until)
	return list
}
