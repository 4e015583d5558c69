package run

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// StateUnknown is the state of a job that ended without a reported state.
const StateUnknown hpc.State = "UNKNOWN"

// Row is the history of one job, or of one task of a job array. It is a row of jobs.parquet, with
// the column names in the tags. A job gets its rows when the resource manager accepts or rejects
// it. A rejected array has one row, with its Request.
//
// Times are virtual. The zero [hpc.Time] means that something never happened, and is null in
// Parquet. Durations are nanoseconds; [hpc.Unlimited] means no limit.
type Row struct {
	Job         string    `parquet:"job"`    // the workload's ID
	Task        int       `parquet:"task"`   // task of an array, or -1
	RMJob       uint32    `parquet:"rm_job"` // the resource manager's number
	Name        string    `parquet:"name,dict"`
	User        string    `parquet:"user,dict"`
	Group       string    `parquet:"group,dict"`
	Account     string    `parquet:"account,dict"`
	Partition   string    `parquet:"partition,dict"` // where the job ran; may be a list while the job is pending
	QOS         string    `parquet:"qos,dict"`
	Reservation string    `parquet:"reservation,dict"`
	State       hpc.State `parquet:"state,dict"`

	// RecordedSubmit is the submission time in the workload. A replay with feedback moves the submission.
	RecordedSubmit hpc.Time `parquet:"recorded_submit_time,optional,timestamp(nanosecond)"`
	// Submit is when the resource manager first accepted the job. Slurm changes its own submit time at a requeue
	// (slurmctld/job_mgr.c, batch_requeue_fini): Resubmit is that later time. Resubmit is 0 for a job that was not
	// requeued.
	Submit   hpc.Time `parquet:"submit_time,optional,timestamp(nanosecond)"`
	Resubmit hpc.Time `parquet:"resubmit_time,optional,timestamp(nanosecond)"`
	Eligible hpc.Time `parquet:"eligible_time,optional,timestamp(nanosecond)"`
	// First is when the job first became the first in the queue of its partition, before its last run, and began to wait
	// for resources. If it lost this place, Reasons say until when. For a job that never was the first, First is the start
	// (or the end). First is 0 if it is not known, and for a job that started as soon as it was eligible.
	First hpc.Time `parquet:"first_in_queue_time,optional,timestamp(nanosecond)"`
	// Start and End belong to the job's last run. A job that was cancelled before its start has an End and no Start.
	Start hpc.Time `parquet:"start_time,optional,timestamp(nanosecond)"`
	End   hpc.Time `parquet:"end_time,optional,timestamp(nanosecond)"`
	// Suspended is the time for which the job was suspended between Start and End.
	Suspended time.Duration `parquet:"suspended_ns"`
	// TimeLimit is the job's time limit in force; 0 if unknown.
	TimeLimit time.Duration `parquet:"time_limit_ns"`
	// AskedRunTime is the job's run time in the workload.
	AskedRunTime time.Duration `parquet:"asked_run_time_ns"`

	// Nodes is a host list in the resource manager's order. Nodes and the next three fields are
	// the job's allocation. They are empty while the job has no allocation.
	Nodes      string `parquet:"nodes"`
	NodeCount  int    `parquet:"node_count"`
	Processors int    `parquet:"processors"`
	TRES       string `parquet:"tres,dict"`

	ExitCode int    `parquet:"exit_code"`
	Signal   int    `parquet:"signal"`
	Restarts int    `parquet:"restarts"`    // number of requeues
	Reason   string `parquet:"reason,dict"` // why the job was rejected, requeued or ended

	// Priority is the job's priority at its start; 0 if unknown. For a job that started at once or has not ended, Priority
	// comes from accounting: the priority when the job became eligible. If a job never started, [Run.Histories] sets
	// Priority to the last priority in the events.
	Priority uint32 `parquet:"priority"`

	// The main numbers of the request; 0 if the job does not request them.
	AskedPriority    uint32 `parquet:"asked_priority"`
	AskedMinNodes    int    `parquet:"asked_min_nodes"`
	AskedMaxNodes    int    `parquet:"asked_max_nodes"`
	AskedTasks       int    `parquet:"asked_tasks"`
	AskedCPUsPerTask int    `parquet:"asked_cpus_per_task"`

	// The parts of the request that delay the job's eligibility: the begin time after the submission, a hold, a
	// dependency, and the limit on running tasks of the job's array. Older records do not have them.
	AskedBegin      time.Duration `parquet:"asked_begin_ns,optional"`
	AskedHold       bool          `parquet:"asked_hold,optional"`
	AskedDependency bool          `parquet:"asked_dependency,optional"`
	AskedArrayLimit int           `parquet:"asked_array_limit,optional"`

	// Request is the whole submission as compact JSON; [DecodeJob] decodes it. An array's
	// submission may have values for each task, so only the array's first row has it. Request
	// is empty if the record has events of a job but not the job.
	Request string `parquet:"request"`

	// Segments are the periods in which the job held processors, in order. The list is empty for a job that never ran. The
	// list is also empty for a job that ran once without suspension or preemption: its only period is Start to End.
	Segments []Segment `parquet:"segments,list"`

	// Reasons are the reasons for which the job waited, from its submission to its last start.
	// [Run.Histories] adds them from the events. They are nil if the run has no reasons.
	Reasons []Span `parquet:"-"`
	// ArrayEligible is when the hold or the dependency of the job's array was over, so that a task might start.
	// ArrayEligible is 0 if the array has neither a hold nor a dependency, or if the time is unknown. ArrayEligible is -1
	// if each task has its own dependency (aftercorr). [Run.Histories] sets it.
	ArrayEligible hpc.Time `parquet:"-"`
	// PriorityParts are the components of Priority; nil if the run does not have them.
	// [Run.Histories] adds them from the events.
	PriorityParts []rm.PriorityPart `parquet:"-"`
}

// Segment is a period in which a job held processors.
type Segment struct {
	Start      hpc.Time `parquet:"start_time,optional,timestamp(nanosecond)"`
	End        hpc.Time `parquet:"end_time,optional,timestamp(nanosecond)"` // 0 for a current period
	NodeCount  int      `parquet:"node_count"`
	Processors int      `parquet:"processors"`
	// Nodes is the host list of a run that was lost; empty in older records. The nodes of the job's
	// last run are in [Row.Nodes], and [Row.AppendHeld] copies them from there.
	Nodes string `parquet:"nodes,optional"`
	// Eligible is when the job might first start before this period. It is 0 if it is unknown, in
	// older records, and for the job's last run, for which [Row.Eligible] has it.
	Eligible hpc.Time `parquet:"eligible_time,optional,timestamp(nanosecond)"`
	// EndedBy is [rm.Suspend], [rm.Requeue] or [rm.Ended]; empty for a current period.
	EndedBy rm.EventKind `parquet:"ended_by,dict"`
	// Cause is the state in which a lost run ended ([hpc.State.Requeues]). It is empty if the run was
	// not lost, if the resource manager does not report the state, and in older records.
	Cause hpc.State `parquet:"cause,optional,dict"`
	// PreemptedBy is the job that preempted this job and so ended the period: its ID in the
	// workload, or ID_TASK for a task. It is empty for other periods, and in older records.
	PreemptedBy string `parquet:"preempted_by,optional"`
}

// Held returns the periods in which the job held processors, in order. If the run ended before
// the job, the last period has no End.
func (r *Row) Held() []Segment { return r.AppendHeld(nil) }

// AppendHeld appends the result of [Row.Held] to list.
func (r *Row) AppendHeld(list []Segment) []Segment {
	if len(r.Segments) > 0 {
		first := len(list)
		list = append(list, r.Segments...)
		for i := len(list) - 1; r.Start != 0 && i >= first && list[i].EndedBy != rm.Requeue; i-- {
			list[i].Nodes = r.Nodes
		}
		return list
	}
	if r.Start == 0 {
		return list
	}
	only := Segment{Start: r.Start, End: r.End, Nodes: r.Nodes, NodeCount: r.NodeCount, Processors: r.Processors}
	if r.End != 0 {
		only.EndedBy = rm.Ended
	}
	return append(list, only)
}

// Runs returns the job's runs in order: its periods, joined if there is only a suspension between them. A lost run has
// EndedBy [rm.Requeue]. The last run has the instants of the row, which come from the accounting. The instants of
// other runs come from the accounting if a requeue reported them; otherwise they are when rmreplay saw the events.
func (r *Row) Runs() []Segment {
	var list []Segment
	for _, s := range r.Held() {
		if n := len(list); n > 0 && list[n-1].EndedBy == rm.Suspend {
			list[n-1].End, list[n-1].EndedBy, list[n-1].Cause, list[n-1].PreemptedBy = s.End, s.EndedBy, s.Cause, s.PreemptedBy
			continue
		}
		list = append(list, s)
	}
	if n := len(list); n > 0 && r.Start != 0 && list[n-1].EndedBy != rm.Requeue {
		list[n-1].Start, list[n-1].End, list[n-1].Eligible = r.Start, r.End, r.Eligible
	}
	return list
}

// RunEnd says whether a run of the job ended with held[i], and how. The result over is false if the job was only
// suspended. The work of a run that was requeued or preempted is lost.
func (r *Row) RunEnd(held []Segment, i int) (over, requeued, preempted bool) {
	s := &held[i]
	suspended := s.EndedBy == rm.Suspend
	if suspended && (i < len(held)-1 || r.End == 0) {
		return false, false, false
	}
	requeued = s.EndedBy == rm.Requeue
	preempted = s.PreemptedBy != "" && !suspended || s.Cause == hpc.Preempted || !requeued && r.State == hpc.Preempted
	return true, requeued, preempted
}

// Preset reports whether the job started before the workload's window began, so that the scheduler
// decided neither its start nor its wait. window is 0 for a workload without a window.
func (r *Row) Preset(window hpc.Time) bool { return r.Start != 0 && r.Start < window }

// FirstStart returns the start of the job's first run; 0 if the job never started. It differs from
// Start if the first run was lost.
func (r *Row) FirstStart() hpc.Time {
	for _, s := range r.Segments {
		if s.EndedBy == rm.Requeue {
			return r.Segments[0].Start
		}
	}
	return r.Start
}

// FirstEligible returns when the job first might start; 0 if it is not known. After a lost run the
// job becomes eligible again, and Eligible has that later time.
func (r *Row) FirstEligible() hpc.Time {
	for _, s := range r.Segments {
		if s.EndedBy == rm.Requeue {
			return r.Segments[0].Eligible
		}
	}
	return r.Eligible
}

// Event is a row of events.parquet: one [rm.Event], with the parts of its outcome that a later
// event of the job may change. Events are in the order in which they happened.
type Event struct {
	At     hpc.Time     `parquet:"at_time,optional,timestamp(nanosecond)"`
	Kind   rm.EventKind `parquet:"kind,dict"`
	Job    string       `parquet:"job"` // empty for events of nodes and reservations
	Task   int          `parquet:"task"`
	RMJob  uint32       `parquet:"rm_job"`
	Reason string       `parquet:"reason,dict"`

	State      hpc.State `parquet:"state,dict"`
	Submit     hpc.Time  `parquet:"submit_time,optional,timestamp(nanosecond)"`
	Start      hpc.Time  `parquet:"start_time,optional,timestamp(nanosecond)"`
	End        hpc.Time  `parquet:"end_time,optional,timestamp(nanosecond)"`
	Partition  string    `parquet:"partition,dict"`
	Nodes      string    `parquet:"nodes"`
	NodeCount  int       `parquet:"node_count"`
	Processors int       `parquet:"processors"`
	ExitCode   int       `parquet:"exit_code"`
	Signal     int       `parquet:"signal"`
	// Priority is the priority of a pending job ([rm.Waiting]); 0 for other events, and in older records.
	Priority uint32 `parquet:"priority,optional"`
	// Parts are the components of the job's priority at its start, or of Priority; empty if the
	// engine does not report them.
	Parts []rm.PriorityPart `parquet:"priority_parts,list"`
	// Backfill is what backfill did with a pending job ([rm.Waiting]); empty if not known.
	Backfill rm.Backfill `parquet:"backfill,optional,dict"`
}

// newEvent returns the row of an event.
func newEvent(e *rm.Event) Event {
	row := Event{At: e.At, Kind: e.Kind, Job: e.Job, Task: e.Task, RMJob: e.RMJob, Reason: e.Reason}
	if o := e.Outcome; o != nil {
		row.State, row.Submit, row.Start, row.End = o.State, o.Submit, o.Start, o.End
		row.Partition, row.Nodes, row.NodeCount, row.Processors = o.Partition, o.Nodes, o.NodeCount, o.Processors
		row.ExitCode, row.Signal = o.ExitCode, o.Signal
		row.Parts, row.Backfill = o.Parts, o.Backfill
		if e.Kind == rm.Waiting {
			row.Priority = o.Priority
		}
	}
	return row
}
