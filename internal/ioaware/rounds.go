package ioaware

import (
	"time"

	"rmreplay/internal/hpc"
)

// The pauses between two rounds that follow changes.
const (
	// LeastPause is the shortest pause. It is how long slurmctld's main scheduler waits by default
	// after its last look at the queue, until a submission or an end makes it look again
	// (batch_sched_delay). sched_min_interval, the other limit, is 2 microseconds.
	LeastPause = 3 * time.Second
	// MostPause is the longest pause: Slurm's bf_interval, the interval of the backfill scheduler.
	MostPause = 30 * time.Second
)

// Rounds says when a scheduler plans. A round follows a change: a job that is submitted, ends or is
// requeued, nodes that return to service, and measured use that is less than in the last round.
// Rounds are at least [LeastPause] and at most [MostPause] apart. The zero Rounds is ready.
type Rounds struct {
	// Fixed is the interval of rounds at fixed instants: its multiples after Begin, whether or not
	// anything changes. The authors' plugin plans in this way. With 0, rounds follow changes.
	Fixed time.Duration
	// Begin is the earliest instant of a round.
	Begin hpc.Time

	last    hpc.Time
	planned bool
}

// Planned notes that a round has happened at an instant.
func (r *Rounds) Planned(at hpc.Time) { r.last, r.planned = at, true }

// Next returns the instant of the next round, at or after now; with fixed rounds it is after now.
// changed says whether something has changed since the last round.
func (r *Rounds) Next(now hpc.Time, changed bool) hpc.Time {
	switch {
	case now < r.Begin:
		return r.Begin
	case r.Fixed > 0:
		return r.Begin.Add((now.Sub(r.Begin)/r.Fixed + 1) * r.Fixed)
	case !r.planned:
		return now
	case changed:
		return max(now, r.last.Add(LeastPause))
	}
	return max(now, r.last.Add(MostPause))
}
