// Package rm defines the resource manager that the replay loop drives. It runs in virtual time,
// accepts submissions, commands and administration, states its [Capabilities], and reports the
// events of every job. Real Slurm ([rmreplay/internal/rm/slurm]) and the built-in simulator
// implement it, so both share one loop, one run record and all metrics.
package rm

import (
	"context"

	"rmreplay/internal/hpc"
)

// ResourceManager is a batch system in virtual time. One goroutine drives it. Only AdvanceTo
// advances virtual time. The other methods take effect at the instant that the last AdvanceTo
// reached, in the order of the calls.
//
// An error means that the resource manager is broken, or that it does not support the operation
// ([Capabilities]). The run must end then. The refusal of a single job, command or change is an
// event with the reason.
type ResourceManager interface {
	// Can returns the capabilities of the resource manager. They never change.
	Can() Capabilities
	// Submit submits a job. The answer is an event, because a real controller may sleep for some virtual time before it
	// answers. The job must not be modified before its last event.
	Submit(job *hpc.Job) error
	// Do carries out a command to a submitted job. Its event is [Commanded]. A cancellation has an
	// [Ended] event instead, if it is not refused. The cancellation of a job that has ended has no
	// event.
	Do(command Command) error
	// SetNode changes the state of nodes. Its event is [NodeState].
	SetNode(event hpc.NodeEvent) error
	// Reserve creates, updates or deletes a reservation. Its event is [Reserved].
	Reserve(event hpc.ReservationEvent) error
	// Act carries out an administrator's action. Its event is [Acted], at the end of the action.
	Act(action hpc.Action) error
	// PlanWindow is called once, before all other calls, for a workload with a window. The loop makes
	// the returned reservations, each at its instant, instead of the window's. The resource manager
	// may change the window's reservations, and may add reservations that keep nodes free for preset
	// jobs.
	PlanWindow(window Window) ([]hpc.ReservationEvent, error)
	// SubmitPreset submits a job that ran when the window began. The loop calls SubmitPreset at the instant that
	// [Capabilities.PresetAt] gives, or at job.Submit. The job starts at its recorded start, on job.Recorded.Nodes, and
	// ends at its recorded end; otherwise SubmitPreset is like Submit.
	SubmitPreset(job *hpc.Job) error
	// BeginWindow begins the window: from now on all jobs may start.
	BeginWindow() error
	// AdvanceTo runs virtual time to t, or to the first instant before t at which there are events. It returns the events
	// of that instant in order. If there is no event and no error, virtual time is t. AdvanceTo returns ctx's error when
	// ctx is cancelled.
	AdvanceTo(ctx context.Context, t hpc.Time) ([]Event, error)
	// Now returns the current virtual time.
	Now() hpc.Time
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. A job's events have the order accepted or rejected, started, suspended,
// resumed, requeued, ended. A requeued job can start again.
const (
	Accepted  EventKind = "accepted"  // the resource manager accepted the job
	Refused   EventKind = "rejected"  // the job was rejected, and Reason says why; the job's last event
	Started   EventKind = "started"   // the job has its nodes
	Suspend   EventKind = "suspended" // the job's processes were stopped
	Resume    EventKind = "resumed"   // the job's processes continue
	Requeue   EventKind = "requeued"  // the job is pending again; Outcome is nil if an Ended event came before
	Ended     EventKind = "ended"     // final
	NodeState EventKind = "node"      // a node event was applied or refused
	Reserved  EventKind = "reservation"
	Acted     EventKind = "action"  // an administrator's action has ended or failed: Reason
	Commanded EventKind = "command" // a command was carried out or refused: Reason
	// Dependency says that the dependencies of a pending job can never be met: the job waits for
	// ever. Reason is Slurm's reason.
	Dependency EventKind = "dependency"
	// Waiting reports that the reason for which a pending job waits has changed. Reason is the new
	// reason, in Slurm's words. Outcome, if set, has the job's priority. Outcome.Start is the start
	// that the scheduler plans; zero if the scheduler has not planned the job. The model of Slurm
	// adds the parts of the priority and what backfill did with the job. For an array, Task -1
	// means all pending tasks.
	Waiting EventKind = "waiting"
)

// Event is an event at one instant of virtual time. A job array is accepted once. Each of its
// tasks has its own started and ended events.
type Event struct {
	At   hpc.Time  `json:"at"` // nanoseconds since the Unix epoch
	Kind EventKind `json:"kind"`
	// Job is the workload's ID of the job.
	Job string `json:"job,omitempty"`
	// Task is the task of a job array, or -1.
	Task int `json:"task"`
	// Submission is the number of the call of Submit or SubmitPreset for the job, from 1. With this number the caller need
	// not search for the job by ID. Submission is 0 if the resource manager does not number submissions.
	Submission int `json:"-"`
	// RMJob is the resource manager's own number of the job.
	RMJob uint32 `json:"rm_job,omitempty"`
	// Reason is the reason for which a job was rejected or requeued or waits. For a change to a
	// node, a reservation or a job, it describes the change and, if the change was refused, says
	// why.
	Reason string `json:"reason,omitempty"`
	// Outcome is set on started, requeued and ended events, and on waiting events if the resource manager reports more
	// than the reason. An outcome has what is known of the job so far.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Outcome is what the resource manager did with a job.
type Outcome struct {
	State                        hpc.State
	Submit, Eligible, Start, End hpc.Time // each is zero if it has not happened
	Nodes                        string   // host list, in the resource manager's order
	NodeCount                    int
	Processors                   int    // CPUs allocated
	TRES                         string // "cpu=12,mem=48000M,node=1,gres/gpu=2"
	Name                         string
	User, Group                  string
	Account, Partition, QOS      string
	Reservation                  string
	TimeLimit                    int64 // seconds; -1 for no limit
	ExitCode, Signal             int
	Restarts                     int // number of requeues
	// Priority is the job's priority when it started; 0 if the resource manager does not report
	// it.
	Priority uint32
	// Parts are the parts of Priority. Priority is their sum, rounded down. Parts is nil if the
	// resource manager does not report them.
	Parts []PriorityPart
	// Backfill is the backfill scheduler's action on a pending job in the last cycle that concerned
	// the job; empty if the resource manager does not report it.
	Backfill Backfill
	// First is the instant at which the job first became the first in the queue of its partition. Before this instant the
	// job waited for the jobs ahead, and afterwards for resources; events of the kind [Waiting] report when the job lost
	// the first place and regained it. If the job was never the first, First is its start. First is zero if the job did
	// not wait, or if the resource manager does not report it.
	First hpc.Time
	// PreemptedBy is the job that preempted this one, by the workload's ID (ID_TASK for a task of an
	// array). It is empty if the run was not preempted, or if the resource manager does not report
	// preemptions.
	PreemptedBy string
}
