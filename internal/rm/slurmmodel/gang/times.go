package gang

import (
	"time"

	"rmreplay/internal/hpc"
)

// Times is what slurmctld and the job's first node know of a job's suspensions.
type Times struct {
	Suspended bool
	// Since is when it was last suspended or resumed, in seconds since 1970; 0 for never.
	Since int64
	ran   int64 // seconds that it ran before Since

	// Begun says that the job's script has been sent to its node, and Stopped that it is stopped there.
	// End is when the script ends; 0 for never.
	Begun, Stopped bool
	End            hpc.Time
	left           time.Duration
}

// Suspend suspends a job that began to run at a second (_job_suspend_op).
func (t *Times) Suspend(now, start int64) {
	if t.Since != 0 {
		start = t.Since
	}
	t.ran += now - start
	t.Suspended, t.Since = true, now
}

// Resume lets a job run again, and returns when its time limit, in seconds, will end.
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

// GoOn lets the script go on, and returns when it ends; 0 for never.
func (t *Times) GoOn(now hpc.Time) hpc.Time {
	t.Stopped = false
	if t.End != 0 {
		t.End = now.Add(t.left)
	}
	return t.End
}
