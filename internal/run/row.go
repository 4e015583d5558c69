package run

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// StateUnknown is the state of a job whose end was reported without one.
const StateUnknown hpc.State = "UNKNOWN"

// Row is what became of one job, or of one task of a job array: a row of
// jobs.parquet, under the column names of the tags. A job has rows once the
// resource manager has accepted or rejected it; a rejected array has one.
//
// Instants are virtual and null in Parquet where the zero [hpc.Time] says that
// something never happened. Durations are nanoseconds, [hpc.Unlimited] where
// there is no end.
type Row struct {
	Job         string    `parquet:"job"`    // the workload's ID
	Task        int       `parquet:"task"`   // task of an array, or -1
	RMJob       uint32    `parquet:"rm_job"` // the resource manager's number
	Name        string    `parquet:"name,dict"`
	User        string    `parquet:"user,dict"`
	Group       string    `parquet:"group,dict"`
	Account     string    `parquet:"account,dict"`
	Partition   string    `parquet:"partition,dict"` // the one it ran in; a list while it waits for several
	QOS         string    `parquet:"qos,dict"`
	Reservation string    `parquet:"reservation,dict"`
	State       hpc.State `parquet:"state,dict"`

	// RecordedSubmit is when the workload has the submission. A replay with feedback
	// moves it.
	RecordedSubmit hpc.Time `parquet:"recorded_submit_time,optional,timestamp(nanosecond)"`
	// Submit is when the resource manager took the job first. Slurm moves its own
	// submit time at a requeue (slurmctld/job_mgr.c, batch_requeue_fini):
	// Resubmit is that later time, and 0 for a job that was not requeued.
	Submit   hpc.Time `parquet:"submit_time,optional,timestamp(nanosecond)"`
	Resubmit hpc.Time `parquet:"resubmit_time,optional,timestamp(nanosecond)"`
	Eligible hpc.Time `parquet:"eligible_time,optional,timestamp(nanosecond)"`
	// Start and End are those of the last time that the job ran. A job that was
	// cancelled before it started has an End and no Start.
	Start hpc.Time `parquet:"start_time,optional,timestamp(nanosecond)"`
	End   hpc.Time `parquet:"end_time,optional,timestamp(nanosecond)"`
	// Suspended is how long the job was stopped between Start and End.
	Suspended time.Duration `parquet:"suspended_ns"`
	// TimeLimit is the one that was in force; 0 where it is not known.
	TimeLimit time.Duration `parquet:"time_limit_ns"`
	// AskedRunTime is how long the workload wanted the job to run.
	AskedRunTime time.Duration `parquet:"asked_run_time_ns"`

	// Nodes is a host list in the resource manager's order; it and the next three
	// are what the job was given, and empty while it has nothing.
	Nodes      string `parquet:"nodes"`
	NodeCount  int    `parquet:"node_count"`
	Processors int    `parquet:"processors"`
	TRES       string `parquet:"tres,dict"`

	ExitCode int    `parquet:"exit_code"`
	Signal   int    `parquet:"signal"`
	Restarts int    `parquet:"restarts"`    // how often it was requeued
	Reason   string `parquet:"reason,dict"` // why it was rejected, requeued or ended

	// Priority is the one with which the job started; 0 where it is not known. That of a job
	// that started at once, or has not ended, is from accounting, which keeps the one that it had
	// when it became eligible.
	Priority uint32 `parquet:"priority"`

	// The main numbers of the request, 0 where not asked for.
	AskedPriority    uint32 `parquet:"asked_priority"`
	AskedMinNodes    int    `parquet:"asked_min_nodes"`
	AskedMaxNodes    int    `parquet:"asked_max_nodes"`
	AskedTasks       int    `parquet:"asked_tasks"`
	AskedCPUsPerTask int    `parquet:"asked_cpus_per_task"`

	// Request is the whole submission as compact JSON; [DecodeJob] reads it. Of the tasks of an
	// array, whose submission may say something of each, the first row alone has it.
	// Empty where the record has events of a job and not the job.
	Request string `parquet:"request"`

	// Segments are the periods in which the job held processors, in order. The
	// list is empty for a job that ran once without a stop, whose only period is
	// Start to End, and for one that never ran.
	Segments []Segment `parquet:"segments,list"`
}

// Segment is a period in which a job held processors.
type Segment struct {
	Start      hpc.Time `parquet:"start_time,optional,timestamp(nanosecond)"`
	End        hpc.Time `parquet:"end_time,optional,timestamp(nanosecond)"` // 0 while it lasts
	NodeCount  int      `parquet:"node_count"`
	Processors int      `parquet:"processors"`
	// EndedBy is [rm.Suspend], [rm.Requeue] or [rm.Ended]; empty while it lasts.
	EndedBy rm.EventKind `parquet:"ended_by,dict"`
}

// Held returns the periods in which the job held processors, in order. The last
// one has no End if the run ended before the job.
func (r *Row) Held() []Segment { return r.AppendHeld(nil) }

// AppendHeld appends what [Row.Held] returns.
func (r *Row) AppendHeld(list []Segment) []Segment {
	if len(r.Segments) > 0 {
		return append(list, r.Segments...)
	}
	if r.Start == 0 {
		return list
	}
	only := Segment{Start: r.Start, End: r.End, NodeCount: r.NodeCount, Processors: r.Processors}
	if r.End != 0 {
		only.EndedBy = rm.Ended
	}
	return append(list, only)
}

// Event is a row of events.parquet: one [rm.Event], with those parts of its
// outcome that a later event of the job may change. Events are in the order in
// which they happened.
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
}

// newEvent is e as a row.
func newEvent(e *rm.Event) Event {
	row := Event{At: e.At, Kind: e.Kind, Job: e.Job, Task: e.Task, RMJob: e.RMJob, Reason: e.Reason}
	if o := e.Outcome; o != nil {
		row.State, row.Submit, row.Start, row.End = o.State, o.Submit, o.Start, o.End
		row.Partition, row.Nodes, row.NodeCount, row.Processors = o.Partition, o.Nodes, o.NodeCount, o.Processors
		row.ExitCode, row.Signal = o.ExitCode, o.Signal
	}
	return row
}
