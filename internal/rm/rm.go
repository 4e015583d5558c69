// Package rm defines what a resource manager looks like to the replay loop:
// something that lives in virtual time, takes submissions, commands and administration,
// says what it can do ([Capabilities]), and reports what happened to every job. The real Slurm ([rmreplay/internal/rm/slurm])
// and the built-in simulator are both behind it, so that the loop, the run record
// and every metric are written once.
package rm

import (
	"context"

	"rmreplay/internal/hpc"
)

// ResourceManager is driven by one goroutine. Its methods take effect at the
// instant that the last AdvanceTo reached; none of them lets virtual time pass
// except AdvanceTo. What several calls ask for at one instant happens in the order of
// the calls.
//
// An error means that the resource manager is broken, or cannot do at all what it was
// asked for ([Capabilities]): the run must end. What it refuses in the case at hand comes
// as an event with the reason.
type ResourceManager interface {
	// Can says what the resource manager can do. It never changes.
	Can() Capabilities
	// Submit hands a job over. Its acceptance or refusal comes as an event, since
	// a real controller may sleep (virtually) before it answers. The job does not
	// change until its last event, and may be another one afterwards.
	Submit(job *hpc.Job) error
	// Do carries out a command to a job that was submitted before. What became of it comes
	// as a [Commanded] event. A job that is cancelled gets its [Ended] event instead, and to
	// cancel a job that has ended changes nothing; only a refused cancellation has an event
	// of its own.
	Do(command Command) error
	// SetNode changes the state of nodes. Its event is [NodeState].
	SetNode(event hpc.NodeEvent) error
	// Reserve creates, updates or deletes a reservation. Its event is [Reserved].
	Reserve(event hpc.ReservationEvent) error
	// Act does what an administrator does. Its event, [Acted], comes when it has been done.
	Act(action hpc.Action) error
	// PlanWindow is called once, before all other calls, for a workload with a window. It
	// returns the reservations to be made in the place of the window's, each at its
	// instant: as this resource manager can make them, and with any that it needs itself
	// to keep the machine for preset jobs.
	PlanWindow(window Window) ([]hpc.ReservationEvent, error)
	// SubmitPreset hands over a job that ran when the window began. It is called
	// [Capabilities.PresetLead] before job.Recorded.Start; the job starts at that instant, on
	// job.Recorded.Nodes, and ends when it ended. Everything else is as for Submit.
	SubmitPreset(job *hpc.Job) error
	// BeginWindow says that the window begins: from now on all jobs may start.
	BeginWindow() error
	// AdvanceTo lets virtual time pass up to t, or to the first instant before t at
	// which something happened, and returns what happened then, in order. No event
	// and a nil error mean that t was reached. It returns ctx's error when cancelled.
	AdvanceTo(ctx context.Context, t hpc.Time) ([]Event, error)
	// Now is the current virtual time.
	Now() hpc.Time
}

// EventKind says what happened.
type EventKind string

// The kinds of events. A job's events come in the order accepted|rejected,
// started, suspended, resumed, requeued (back to before started), ended.
const (
	Accepted  EventKind = "accepted"  // the resource manager took the job
	Refused   EventKind = "rejected"  // it did not; Reason says why; final
	Started   EventKind = "started"   // the job has its nodes
	Suspend   EventKind = "suspended" // its processes were stopped
	Resume    EventKind = "resumed"   // its processes were continued
	Requeue   EventKind = "requeued"  // it is pending again; without an Outcome, although it had ended
	Ended     EventKind = "ended"     // final
	NodeState EventKind = "node"      // a node event was applied or refused
	Reserved  EventKind = "reservation"
	Acted     EventKind = "action"  // an administrator's action was done, or failed: Reason
	Commanded EventKind = "command" // a command was carried out, or refused: Reason
)

// Event is one thing that happened at one instant of virtual time. A job array
// is accepted once, and each task has its own started and ended events.
type Event struct {
	At   hpc.Time  `json:"at"` // nanoseconds since the Unix epoch
	Kind EventKind `json:"kind"`
	// Job is the workload's ID of the job.
	Job string `json:"job,omitempty"`
	// Task is the task of a job array, or -1.
	Task int `json:"task"`
	// Submission says which call of Submit or SubmitPreset brought the job, counted from 1.
	// With it the caller finds the job without a search by its ID. 0 where the resource
	// manager does not count the calls.
	Submission int `json:"-"`
	// RMJob is the resource manager's own number of the job.
	RMJob uint32 `json:"rm_job,omitempty"`
	// Reason says why a job was refused or requeued, or what was done to a node, a
	// reservation or a job, and why that was refused.
	Reason string `json:"reason,omitempty"`
	// Outcome is set on started, requeued and ended events: all that is known so far.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Outcome is what the resource manager made of a job.
type Outcome struct {
	State                        hpc.State
	Submit, Eligible, Start, End hpc.Time // zero where it never happened
	Nodes                        string   // host list, in the resource manager's order
	NodeCount                    int
	Processors                   int    // CPUs allocated
	TRES                         string // "cpu=12,mem=48000M,node=1,gres/gpu=2"
	Name                         string
	User, Group                  string
	Account, Partition, QOS      string
	Reservation                  string
	TimeLimit                    int64 // seconds; -1 for none
	ExitCode, Signal             int
	Restarts                     int // how often it was requeued
	// Priority is the one with which it started; 0 where only accounting knows it, or nobody.
	Priority uint32
}
