package gang

import (
	"time"

	"rmreplay/internal/hpc"
)

// Times records a job's suspensions, for slurmctld and for the node of the job's script.
type Times struct {
	Suspended bool
	// Since is when the job was last suspended or resumed, in seconds since 1970; 0 if never.
	Since int64
	ran   int64 // seconds that the job ran before Since

	// Begun says that the job's script was sent to its node, and Stopped that the script is stopped
	// there. End is when the script ends; 0 for never.
	Begun, Stopped bool
	End            hpc.Time
	left           time.Duration
}

// Suspend suspends a job at the second now. The parameter start is when the job started
// (_job_suspend_op). Both are in seconds since 1970.
func (t *Times) Suspend(now, start int64) {
	if t.Since != 0 {
		start = t.Since
	}
	t.ran += now - start
	t.Suspended, t.Since = true, now
}

// Resume resumes a job, and returns when its time limit ends. The parameter limit is in seconds,
// the instants are in seconds since 1970.
func (t *Times) Resume(now, limit int64) int64 {
	t.Suspended, t.Since = false, now
	return now + limit - t.ran
}

// Stop stops the script at an instant.
func (t *Times) Stop(now hpc.Time) {
	t.Stopped = true
	if t.End != 0 {
		t.left = t.End.Sub(now)
	}
}

// GoOn continues the script, and returns when the script ends; 0 for never.
func (t *Times) GoOn(now hpc.Time) hpc.Time {
	t.Stopped = false
	if t.End != 0 {
		t.End = now.Add(t.left)
	}
	return t.End
}
