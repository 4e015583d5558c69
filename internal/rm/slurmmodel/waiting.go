package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
)

// told is what was last reported of a pending job.
type told struct {
	reason   slurmspec.Reason
	backfill rm.Backfill
	planned  bool // backfill had planned its start
}

// tell reports the pending jobs whose reason has changed, with which backfill does something else than
// before, or which it has planned for the first time. As squeue, it sees what a pass has left: a reason that
// comes and goes within a pass is not told.
func (e *Engine) tell() {
	for _, j := range e.list {
		if j.state != pending || j.reason == slurmspec.NoReason {
			continue
		}
		now := told{j.reason, j.backfill, j.told.planned || e.isPlanned(j)}
		if now != j.told {
			j.told = now
			e.emit(j, rm.Waiting, j.reason.String(), e.waiting(j))
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

// points returns the parts of a job's priority as sprio names them; nil if the priority is not computed.
func (a *accounting) points(j *job) []rm.PriorityPart {
	p := &j.account.priority
	if !a.settings.Multifactor || j.direct || j.priority == 0 {
		return nil
	}
	list := make([]rm.PriorityPart, 0, 8)
	add := func(name string, points float64) {
		if points != 0 {
			list = append(list, rm.PriorityPart{Name: name, Points: points})
		}
	}
	add("age", p.Age)
	add("assoc", p.Association)
	add("fairshare", p.FairShare)
	add("jobsize", p.Size)
	add("partition", p.Partition)
	add("qos", p.QOS)
	add("site", float64(p.Site))
	for i, points := range p.TRES {
		add("tres/"+a.table.Name(i), points)
	}
	add("nice", -float64(p.Nice))
	return list
}
