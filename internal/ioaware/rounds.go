package ioaware

import (
	"time"

	"rmreplay/internal/hpc"
)

// The pauses between two rounds that follow changes.
const (
	// LeastPause is the shortest pause. By default, slurmctld's main scheduler waits this long after
	// it has processed the queue, before a submission or an end makes it process the queue again
	// (batch_sched_delay). The other limit, sched_min_interval, is 2 microseconds.
	LeastPause = 3 * time.Second
	// MostPause is the longest pause: the default interval of Slurm's backfill scheduler
	// (bf_interval).
	MostPause = 30 * time.Second
)

// Rounds says when a scheduler plans. A round follows a change: a job is submitted, ends or is requeued; a node
// returns to service; or the measured use is lower than in the last round. Such a round waits until [LeastPause] after
// the previous round. Without a change, the next round comes after [MostPause]. The zero value is ready for use.
type Rounds struct {
	// Fixed is the interval of rounds at fixed instants, regardless of changes: Begin plus a multiple of Fixed. The
	// plugin of the workload-adaptive scheduler's authors plans at such instants. With 0, rounds follow changes.
	Fixed time.Duration
	// Begin is the earliest instant of a round.
	Begin hpc.Time

	last    hpc.Time
	planned bool
}

// Planned records that a round has taken place.
func (r *Rounds) Planned(at hpc.Time) { r.last, r.planned = at, true }

// Next returns the instant of the next round: now or later, and with fixed rounds always later
// than now. The parameter changed says whether something has changed since the last round.
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
