package sim

import (
	"time"

	"rmreplay/internal/hpc"
)

// Job is one job, or one task of a job array, as the machine and its policy see it.
// A policy reads it and changes nothing in it. The run time is not among what it can
// see.
type Job struct {
	// Seq numbers the jobs in the order of their submission, from 1. It is the
	// resource manager's number of the job, too.
	Seq int
	// Size is how many processors the job holds while it runs.
	Size int
	// Limit is its time limit; [hpc.Unlimited] if it has none.
	Limit time.Duration
	// Submit is when it was submitted, and Eligible when it could have started first:
	// after its dependencies and its begin time.
	Submit, Eligible hpc.Time
	// Start is when it started, and Due when it will have ended at the latest: start +
	// time limit. Both are zero while it waits.
	Start, Due hpc.Time
	// Request is all that its user asked for.
	Request *hpc.Request

	run  time.Duration // how long it runs on this machine
	exit int           // its exit status
	from *submission
	task int32 // of a job array, or -1

	state     jobState
	held      bool
	waitsFor  int32 // dependencies that have not been met
	endTimer  int   // the sequence number of the timer that ends it; 0 for none
	restarts  int
	demand    *demand    // what it needs of nodes; nil on a pool
	placement *placement // where it runs; nil on a pool

	links
}

// jobState is where a job stands.
type jobState uint8

const (
	blocked jobState = iota // submitted, and not eligible
	waiting                 // offered to the policy
	running
	ended
)

// Never is after every other instant.
const Never = hpc.Time(1<<63 - 1)

// after is t + d, without overflow: what has no end is due at [Never].
func after(t hpc.Time, d time.Duration) hpc.Time {
	if d == hpc.Unlimited || hpc.Time(d) > Never-t {
		return Never
	}
	return t.Add(d)
}
