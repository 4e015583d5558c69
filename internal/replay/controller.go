package replay

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Controller decides what happens to the jobs of a workload. It is told of the beginning
// of a run and of every event, and answers with submissions and with commands. So it can
// play users who look at what became of their jobs before they submit the next, or an
// operator who holds some jobs back.
type Controller interface {
	// Begin returns what depends on no event.
	Begin() Decisions
	// Event is told that something has happened, and returns what the controller wants
	// done because of it.
	Event(event *Event) Decisions
}

// Event is something that happened in a run. It is valid until [Controller.Event] returns.
type Event struct {
	*rm.Event
	// Job is the index in the workload of the job that the event is about; -1 for an
	// event of no job.
	Job int
	// Over says that with this event the job has ended, with all the tasks of an array, or
	// was refused. A refused job has ended too: its user learns at once that there is
	// nothing to wait for (Madon et al., FGCS 2024, let rejected jobs count as finished for
	// those that depend on them).
	Over bool
	// End is when it ended, as it is recorded; news of it may come later. 0 unless Over.
	End hpc.Time
}

// Decisions are what a controller wants done. What is due at one instant is done in this
// order: the submissions, in the order of the workload, and then the commands, in the order
// in which the controller gave them. An instant that has passed stands for the present.
type Decisions struct {
	Submit   []Submission
	Commands []Command
}

// Submission hands a job over at an instant.
type Submission struct {
	Job int // index in the workload
	At  hpc.Time
	// Rewrite changes the job before it is submitted; nil to submit it as it is. Preset
	// jobs are never changed.
	Rewrite Rewriter
}

// Command is a command to the resource manager at an instant.
type Command struct {
	At hpc.Time
	rm.Command
}

// Rewriter changes a job that is about to be submitted. The job is a shallow copy: a
// rewriter replaces maps, slices and what pointers lead to, and changes none of them. It leaves
// the ID and the array as they are. The record of a run keeps the job as the workload has it.
type Rewriter func(job *hpc.Job)
