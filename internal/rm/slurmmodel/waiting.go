package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/slurmspec"
)

// told is what was last reported of a pending job.
type told struct {
	planned  bool // backfill had planned its start
	reason   slurmspec.Reason
	words    string
	backfill rm.Backfill
}

// tell reports the pending jobs whose reason has changed, with which backfill does something else than
// before, or which it has planned for the first time. As squeue, it sees what a pass has left: a reason that
// comes and goes within a pass is not told.
func (e *Engine) tell() {
	for _, j := range e.list {
		if j.state != pending || j.reason == slurmspec.NoReason || j.hopeless {
			continue
		}
		now := told{j.told.planned || e.isPlanned(j), j.reason, words.About(j.reason, j.words), j.backfill}
		if now != j.told {
			j.told = now
			e.emit(j, rm.Waiting, j.reason.Because(j.words), e.waiting(j))
		}
	}
}

// isPlanned reports whether backfill has planned a later start of a pending job.
func (e *Engine) isPlanned(j *job) bool { return j.estimate > j.eligible && j.estimate > e.second() }

// waiting returns what a report of a pending job says.
func (e *Engine) waiting(j *job) *rm.Outcome {
	o := &rm.Outcome{
		State: hpc.Pending, Partition: j.part.name, Priority: j.priority, Parts: e.account.points(j), Backfill: j.backfill,
	}
	if e.isPlanned(j) {
		o.Start = hpc.Unix(j.estimate)
	}
	return o
}

// At calls f when virtual time reaches t, after everything that slurmctld does then.
func (e *Engine) At(t hpc.Time, f func()) { e.at(t, questions, f) }

// AskStats answers with slurmctld's own counters, as sdiag shows them.
func (e *Engine) AskStats(answer func(*rpc.Stats, error)) {
	s := e.stats.Stats
	s.Time = e.second()
	for _, j := range e.list {
		switch n := uint32(max(1, len(j.tasks))); j.state {
		case pending:
			s.Pending += n
		case running:
			s.Running++
		}
	}
	answer(&s, nil)
}

// points returns the parts of a job's priority; nil if the priority is not computed.
func (a *accounting) points(j *job) []rm.PriorityPart {
	if !a.settings.Multifactor || j.direct || j.priority == 0 {
		return nil
	}
	return j.account.priority.List(a.table)
}

// Why a job pends (enum job_state_reason in slurm.h).
const (
	reasonPriority           slurmspec.Reason = 1
	reasonDependency         slurmspec.Reason = 2
	reasonResources          slurmspec.Reason = 3
	reasonNodeLimit          slurmspec.Reason = 4
	reasonTimeLimit          slurmspec.Reason = 5
	reasonBeginTime          slurmspec.Reason = 9
	reasonLicenses           slurmspec.Reason = 10
	reasonReservation        slurmspec.Reason = 14
	reasonConstraints        slurmspec.Reason = 21
	reasonPartitionConfig    slurmspec.Reason = 178
	reasonMaxRequeue         slurmspec.Reason = 71
	reasonArrayLimit         slurmspec.Reason = 72
	reasonDeadline           slurmspec.Reason = 167
	reasonReservationDeleted slurmspec.Reason = 198
)

// setReason notes why a job pends.
func (e *Engine) setReason(j *job, reason slurmspec.Reason) {
	if j.reason != reason {
		j.reason = reason
		e.touch()
	}
}
