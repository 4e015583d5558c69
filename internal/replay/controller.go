package replay

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Woken is the kind of the event that a controller gets at the instant of its [Decisions.Wake]. The
// resource manager does not send this event, and the run's record does not contain it.
const Woken rm.EventKind = "woken"

// Controller decides what happens to the jobs of a workload. The loop passes every event to the controller, and the
// controller answers with submissions and commands. A controller can, for example, model users who react to the ends of
// their jobs, or an operator who holds jobs.
type Controller interface {
	// Begin returns the decisions that do not depend on an event.
	Begin() Decisions
	// Event returns the decisions that follow from an event.
	Event(event *Event) Decisions
}

// Event is an event of a run. It is valid until [Controller.Event] returns.
type Event struct {
	*rm.Event
	// Job is the index of the event's job in the workload; -1 if the event is not about a job.
	Job int
	// Over is set if all tasks of the job have now ended, or if the job was rejected. A rejected job
	// counts as ended, because its user learns of it at once. (In Madon et al., FGCS 2024, dependent
	// jobs treat rejected jobs in the same way.)
	Over bool
	// End is when the job ended according to the resource manager, which may be before the event; 0
	// unless Over.
	End hpc.Time
}

// Decisions are a controller's decisions. Decisions for one instant are carried out in this order:
// the submissions in the order of the workload, then the commands in the controller's order. A
// decision for an earlier instant is carried out now.
type Decisions struct {
	Submit   []Submission
	Commands []Command
	// Wake is an instant at which the controller gets an event of kind [Woken]; 0 for no such event. If
	// no job is open and no other decision is left, the replay ends without this event.
	Wake hpc.Time
}

// Submission submits a job at an instant.
type Submission struct {
	Job int // index in the workload
	At  hpc.Time
	// Rewrite changes the job before its submission; nil for no change. The loop does not call it
	// for preset jobs.
	Rewrite Rewriter
}

// Command is a command to the resource manager at an instant.
type Command struct {
	At hpc.Time
	rm.Command
}

// Rewriter changes a job before its submission. The job is a shallow copy: a rewriter may replace maps, slices and
// pointers, but must not change their contents. A rewriter must not change the ID and the array. The run's record has
// the unchanged job of the workload.
type Rewriter func(job *hpc.Job)
