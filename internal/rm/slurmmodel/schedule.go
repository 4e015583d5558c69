package slurmmodel

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/rm/slurmmodel/deadline"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/sdiag"
	"rmreplay/internal/slurmspec"
)

// attempt is a part of a queue in which a task of an array has been rejected: the other tasks of that
// array are as hopeless.
type attempt struct {
	job  *job // the task that was rejected; nil for none
	part *partition
}

// covers reports whether a task is as hopeless as the rejected one.
func (a attempt) covers(j *job) bool { return a.job != nil && a.job.of == j.of && a.part == j.part }

// explain gives another task of the array, which is not tried, the reason of the rejected one (fill_array_reasons).
func (a attempt) explain(e *Engine, j *job) {
	if a.job != nil && a.job != j && a.job.of == j.of && j.state == pending {
		e.setReason(j, a.job.reason)
	}
}

// schedule is a pass of the main scheduler (_schedule in job_scheduler.c). A pass that is not full ends
// after default_queue_depth jobs.
func (e *Engine) schedule(full bool) {
	e.loops.first = true
	e.readMain()
	if e.par.SchedInterval < 0 {
		return
	}
	p := pass{e: e, full: full}
	saved := e.available.Clone()
	for _, part := range e.parts {
		part.failed, part.tests = false, 0
	}
	queue := e.buildQueue(false)
	e.announce(false, queue)
	for _, r := range queue {
		if !p.record(r) {
			break
		}
	}
	copy(e.available, saved)
	took := p.took()
	e.loops.busy = max(e.loops.busy, e.now.Add(took))
	e.stats.Main(sdiag.Pass{Queue: len(queue), Depth: p.considered, Exit: p.exit, Took: took})
}

// pass is a pass of the main scheduler in progress.
type pass struct {
	e                *Engine
	full             bool
	depth            int
	started          int
	rejected         attempt
	considered, exit int // for the statistics
	blocked          []*reservations.Reservation
}

// took returns the virtual time that the pass has computed. slurmctld serves nobody meanwhile. Jobs that it
// starts have the second in which it began.
func (p *pass) took() time.Duration { return time.Duration(p.considered) * p.e.cfg.Costs.Main }

// record tries a record of the queue. It reports false if the pass ends.
func (p *pass) record(r record) bool {
	e, j := p.e, r.job
	if r.head && !j.isHead() { // a task has started in another partition
		if j = e.byNumber[j.of.number]; j == nil {
			return true
		}
	}
	defer func() { p.rejected.explain(e, j) }()
	if j.state != pending || !e.fitsReservation(r) {
		return true
	}
	if j.preemption.Underway {
		return true
	}
	j.priority, j.part = r.priority, r.part
	for head := j.isHead(); ; {
		goOn, again := p.try(j)
		if !goOn || !again || !head {
			return goOn
		}
		rest := e.byNumber[j.of.number]
		if rest == nil || rest.state != pending {
			return true
		}
		j = rest
		j.part = r.part
	}
}

// try tries one job or task. goOn is false if the pass ends, and started is true if the job has started.
func (p *pass) try(j *job) (goOn, started bool) {
	e := p.e
	if e.now.Add(p.took()).UnixSeconds()-e.second() >= e.par.Limits.MainSeconds {
		p.exit = sdiag.MainTime
		return false, false
	}
	if e.par.MaxStart > 0 && p.started >= e.par.MaxStart {
		p.exit = sdiag.MainStarts
		return false, false
	}
	if j.array != nil {
		if p.rejected.covers(j) {
			return true, false
		}
		p.rejected = attempt{j, j.part}
		if !e.arrayMayStart(j) {
			return true, false
		}
	}
	if e.par.PartitionDepth > 0 {
		if j.part.tests++; j.part.tests > e.par.PartitionDepth {
			if j.reason == slurmspec.NoReason {
				e.setReason(j, reasonPriority)
			}
			return true, false
		}
	}
	if p.depth++; !p.full && p.depth > e.par.QueueDepth+1 {
		p.exit = sdiag.MainDepth
		return false, false
	}
	if e.partitionRefuses(j, false) != slurmspec.NoReason {
		return true, false
	}
	p.considered++
	switch {
	case j.reservation != nil && slices.Contains(p.blocked, j.reservation):
		j.reason = reasonPriority
		e.touch()
		return true, false
	case j.reservation == nil && j.part.failed:
		if j.reason == slurmspec.NoReason || j.reason == reasonResources {
			j.reason = reasonPriority
		}
		e.touch()
		return true, false
	}
	if !e.meetsDeadline(j) {
		return true, false
	}
	if e.account.limited(j) && !e.account.beforeSelection(j) {
		return true, false
	}
	if j.reason == slurmspec.NotAvailable && j.request.Required != nil && !e.available.Contains(j.request.Required) {
		return true, false
	}
	if e.available.CountAnd(j.part.nodes) < j.minNodes {
		j.reason = reasonResources
		e.touch()
		p.fail(j.part)
		return true, false
	}
	if !e.rules.Since2411 && !e.licenses.Free(j.licenses) {
		j.reason = reasonLicenses
		e.touch()
		return true, false
	}
	limit := j.limit
	j.limit = deadline.Limit(deadline.Left(j.deadline, e.second()), limit, j.part.defaultMinutes, j.part.maxMinutes)
	if goOn, started = p.start(j); !started {
		j.limit = limit
	}
	return goOn, started
}

// start tries to start a job, and keeps nodes for it if it must wait.
func (p *pass) start(j *job) (goOn, started bool) {
	e := p.e
	block := false
	switch e.tryStart(j, e.available, false) {
	case begun:
		p.rejected = attempt{}
		p.started++
		return true, true
	case nodesBusy:
		block = true
	case overLimit:
		block = e.par.AssocLimitStop
	case reservationBusy, maintained, notUsable:
		if j.reservation != nil {
			e.available.AndNot(j.reservation.Nodes)
		}
	case never:
		// Since 24.11 jobs of reservations are not held.
		if len(j.parts) == 1 && (j.reservation == nil || !e.rules.Since2411) {
			e.hold(j, reasonConstraints)
		}
	case wrongCounts, notAvailable, unlicensed:
	}
	if named := j.request.Required; named != nil && named.Count() >= j.minNodes {
		block = false
		e.available.AndNot(named)
	}
	if block && j.reservation != nil {
		block = false
		if p.blockReservation(j) {
			return false, false
		}
	}
	if block && e.par.BF.MinAge > 0 && (j.begin == 0 || e.second()-j.begin < e.par.BF.MinAge) {
		block = false
	}
	if least := e.reservePriority(j); least > 0 && j.priority < least {
		block = false
	}
	if block {
		p.fail(j.part)
	}
	return true, false
}

// fail blocks a partition and its nodes for the rest of the pass.
func (p *pass) fail(part *partition) {
	if part.failed {
		return
	}
	part.failed = true
	p.e.available.AndNot(part.nodes)
}

// reservePriority returns the priority below which a job blocks nobody; 0 for none.
func (e *Engine) reservePriority(j *job) uint32 {
	return cmp.Or(e.account.reservePriority(j), e.par.BF.MinPriority)
}
