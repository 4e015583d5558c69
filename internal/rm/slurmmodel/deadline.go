package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/deadline"
)

// meetsDeadline ends a pending job that cannot end before its deadline. It reports whether the job still waits.
func (e *Engine) meetsDeadline(j *job) bool {
	if deadline.Met(j.deadline, e.second(), j.timeMin, j.limit) {
		return true
	}
	j.reason = reasonDeadline
	e.finish(j, hpc.Deadlined, "")
	return false
}

// grantLimit gives a job that backfill has started its time limit. One that has a shortest time limit or a deadline
// gets as much as there is until its nodes are planned for others or reserved (_reset_job_time_limit in backfill.c).
func (t *trial) grantLimit(j *job) {
	if j.timeMin == 0 && j.deadline == 0 {
		return
	}
	e, now, end := t.e, t.e.second(), j.estimate+t.granted*60
	j.limit = t.granted
	for _, at := range []int64{
		t.table.Planned(j.alloc.Nodes, now, end), e.reservations.Next(j.reservation, j.alloc.Nodes, now, end),
	} {
		if at > 0 {
			j.limit = min(j.limit, (at-now)/60)
		}
	}
	j.limit = max(j.limit, j.timeMin)
	e.endAt(j, j.estimate+j.limit*60)
}
