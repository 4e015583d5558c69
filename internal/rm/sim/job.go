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

	of       *submission
	run      time.Duration // how long it runs on this machine
	end      hpc.Time      // when it ends by itself; 0 while it waits
	task     int32         // of a job array, or -1
	restarts int32

	state      jobState
	well       bool // it ended, and as it should
	cut        bool // its time limit ends it
	onHold     bool // an operator holds it
	offered    bool // it has become eligible, and counts as one of the array's at once
	reserved   bool
	reservedAt hpc.Time
	endTimer   int        // the sequence number of the timer that ends it; 0 for none
	demand     *demand    // what it needs of nodes; nil on a pool
	placement  *placement // where it is on nodes, or will be; nil on a pool

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

// held is how many processors a running job holds.
func (j *Job) held() int {
	if j.demand != nil {
		return j.placement.processors
	}
	return j.Size
}

// exitCode is what its script exits with.
func (j *Job) exitCode() int { return j.of.job.ExitCodeOf(int(j.task)) }

// after is t + d, without overflow: what has no end is due at [hpc.Never].
func after(t hpc.Time, d time.Duration) hpc.Time {
	if d == hpc.Unlimited || hpc.Time(d) > hpc.Never-t {
		return hpc.Never
	}
	return t.Add(d)
}
