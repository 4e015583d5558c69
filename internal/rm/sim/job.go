package sim

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim/order"
)

// Job is one job, or one task of a job array, for the machine and its policy. A policy must not change it. The job's
// run time is hidden from policies.
type Job struct {
	// Seq is the number of the job in the order of submission, from 1. It is also the resource
	// manager's number of the job.
	Seq int
	// Size is the number of processors that the job holds while it runs.
	Size int
	// Limit is the job's time limit; [hpc.Unlimited] if it has none.
	Limit time.Duration
	// Expected is the scheduler's expectation of the job's run time: its time limit, or less if the
	// policy has predictions ([Machine.Predict]). Policies plan with this time.
	Expected time.Duration
	// Submit is when the job was submitted. Eligible is when the job was first allowed to start:
	// after its dependencies and its begin time.
	Submit, Eligible hpc.Time
	// Start is when the job started. Due is Start + Expected, the end that the scheduler expects. Both are zero while
	// the job waits.
	Start, Due hpc.Time
	// Request is the whole request of the job's user.
	Request *hpc.Request

	of       *submission
	run      time.Duration // run time on this machine
	end      hpc.Time      // when the job ends by itself; 0 while it waits
	first    hpc.Time      // when the job first became the first waiting job of its partition; 0 if it was not the first
	task     int32         // task of a job array, or -1
	restarts int32

	state      jobState
	why        because
	well       bool // the job ended in state COMPLETED
	cut        bool // its time limit will end the job
	moves      bool // the job runs and does I/O, so that the bandwidth decides when it ends
	onHold     bool // an operator holds the job
	offered    bool // the job has become eligible and counts towards its array's limit
	reserved   bool
	reservedAt hpc.Time
	endTimer   int         // sequence number of the timer that ends the job; 0 without a timer
	prediction *prediction // nil without predictions
	demand     *demand     // demand for nodes; nil on a pool
	placement  *placement  // nodes, or nodes reserved for the job; nil on a pool

	entry order.Entry[Job] // in the tree of running jobs, or in a queue
}

// jobState is the state of a job.
type jobState uint8

const (
	blocked jobState = iota // submitted, but not eligible
	waiting                 // given to the policy
	running
	ended
)

// held returns how many processors a running job holds.
func (j *Job) held() int {
	if j.demand != nil {
		return j.placement.processors
	}
	return j.Size
}

// exitCode returns the exit code of the job's script.
func (j *Job) exitCode() int { return j.of.job.ExitCodeOf(int(j.task)) }

// recordedEnd returns the final state of a job that ends on its own. The result is the recorded state, if the simulator
// does not simulate the cause of that state. Logs have jobs that failed without an exit code, or were cancelled while
// they ran. In an array, only tasks with an exit code end in their recorded state.
func (j *Job) recordedEnd() hpc.State {
	code := j.exitCode()
	if r := j.of.job.Recorded; r != nil && r.Start != 0 && (j.task < 0 || code != 0) {
		switch state := r.OfTask(int(j.task)).State; state {
		case hpc.Failed, hpc.Cancelled, hpc.NodeFail, hpc.OutOfMemory, hpc.BootFail:
			return state
		}
	}
	if code != 0 {
		return hpc.Failed
	}
	return hpc.Completed
}

// outlived reports whether the record says that a job ran longer than its time limit and did not end in TIMEOUT. A job
// may run longer than its limit because resource managers check limits only every half minute or minute. In addition,
// logs in SWF have one state for all failures.
func (j *Job) outlived() bool {
	r := j.of.job.Recorded
	return j.task < 0 && r != nil && r.Start != 0 && r.State.Ended() && r.State != hpc.TimedOut &&
		!j.of.job.IsMade("time_limit") && j.Limit == j.of.job.TimeLimit && r.End.Sub(r.Start) > j.Limit
}

// after returns t + d without overflow. It returns [hpc.Never] for an unlimited d.
func after(t hpc.Time, d time.Duration) hpc.Time {
	if d == hpc.Unlimited {
		return hpc.Never
	}
	return t.Add(d)
}

// place updates the job's entry and returns it. The entry must not be in a tree.
func (j *Job) place() *order.Entry[Job] {
	j.entry = order.Entry[Job]{Job: j, Seq: j.Seq, Size: j.Size, Expected: j.Expected}
	return &j.entry
}

// Queue has waiting jobs in an order of the policy ([order.Queue]). Its zero value is empty.
type Queue struct{ jobs order.Queue[Job] }

// Len returns the number of jobs.
func (q *Queue) Len() int { return q.jobs.Len() }

// Push adds a job. Jobs are in the order of their keys; jobs with the same key are in the order of
// submission.
func (q *Queue) Push(j *Job, key float64) { q.jobs.Push(j.place(), key) }

// Remove removes a job that is in the queue.
func (q *Queue) Remove(j *Job) { q.jobs.Remove(&j.entry) }

// First returns the first job, or nil.
func (q *Queue) First() *Job { return jobOf(q.jobs.First()) }

// Pop removes and returns the first job, or returns nil if the queue is empty.
func (q *Queue) Pop() *Job { return jobOf(q.jobs.Pop()) }

// Backfill is [order.Queue.Backfill].
func (q *Queue) Backfill(free, extra int, within time.Duration, start func(*Job)) int {
	return q.jobs.Backfill(free, extra, within, func(e *order.Entry[Job]) { start(e.Job) })
}

func jobOf(e *order.Entry[Job]) *Job {
	if e == nil {
		return nil
	}
	return e.Job
}
