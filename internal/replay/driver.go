package replay

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Driver decides when the jobs of a workload are submitted. It is asked at the beginning
// and at the end of every job, and so can play users who look at what became of their
// jobs before they submit the next.
//
// A job that the resource manager refuses has ended as well: its user learns at once
// that there is nothing to wait for (Madon et al., FGCS 2024, let rejected jobs count as
// finished for those that depend on them).
type Driver interface {
	// Begin returns the submissions that depend on nothing.
	Begin() []Submission
	// Ended is told that a job has ended, with all the tasks of an array, or was
	// refused, and returns the submissions that this decides. An instant that has
	// passed stands for the present.
	Ended(job int, at hpc.Time) []Submission
}

// Submission is the instant at which a job is to be submitted.
type Submission struct {
	Job int // index in the workload
	At  hpc.Time
}

// RigidDriver submits every job at its recorded instant, whatever happens to the others.
func RigidDriver(w *workload.Workload) Driver { return rigid{w} }

type rigid struct{ w *workload.Workload }

func (r rigid) Begin() []Submission {
	all := make([]Submission, r.w.Jobs.Len())
	for i := range all {
		all[i] = Submission{i, r.w.Jobs.Submit(i)}
	}
	return all
}

func (rigid) Ended(int, hpc.Time) []Submission { return nil }
