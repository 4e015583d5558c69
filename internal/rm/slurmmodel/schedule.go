package slurmmodel

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/deadline"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/sdiag"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
)

// attempt is a task of an array that could not start in a partition. The other tasks of the array
// then cannot start in this partition and reservation, either.
type attempt struct {
	job         *job // the task; nil if there is none
	part        *partition
	reservation *reservations.Reservation
}

// covers reports whether a job is a task of the same array in the same partition and reservation.
func (a attempt) covers(j *job) bool {
	return a.job != nil && a.job.of == j.of && a.part == j.part && a.reservation == j.reservation.Of
}

// conclude ends the attempts with a record's job. A pending job leaves its magnetic reservation, and gets
// the reason of the attempt's task if it is a task of the same array (fill_array_reasons).
func (a attempt) conclude(e *Engine, j *job) {
	if j.state != running {
		j.reservation.Release()
	}
	if a.job != nil && a.job != j && a.job.of == j.of && j.state == pending {
		e.setReason(j, a.job.reason)
	}
}

// schedule makes a pass of the main scheduler (_schedule in job_scheduler.c). If full is false, the
// pass ends after default_queue_depth jobs.
func (e *Engine) schedule(full bool) {
	e.loops.first = true
	e.par = e.site.Main(e.par)
	if e.par.SchedInterval < 0 {
		return
	}
	delayed := e.departures.Delayed(e.second())
	if delayed != nil && !e.par.ReduceFragments {
		return
	}
	p := pass{e: e, full: full}
	saved := e.available.Clone()
	for _, part := range e.parts {
		part.failed, part.tests = false, 0
		if delayed != nil && delayed.Overlaps(part.nodes) {
			p.fail(part)
		}
	}
	queue := e.buildQueue(false)
	e.announce(false, queue)
	for i := range queue.Len() {
		if !p.record(queue.At(i)) {
			break
		}
	}
	copy(e.available, saved)
	took := p.took()
	e.loops.busy = max(e.loops.busy, e.now.Add(took))
	e.stats.Main(sdiag.Pass{Queue: queue.Len(), Depth: p.considered, Exit: p.exit, Took: took})
}

// pass is a pass of the main scheduler in progress.
type pass struct {
	e                *Engine
	full             bool
	depth            int
	started          int
	rejected         attempt
	considered, exit int // for sdiag
	blocked          []*reservations.Reservation
}

// took returns the virtual time that the pass has taken so far. slurmctld serves no requests during
// a pass. All jobs that the pass starts get the second in which the pass began.
func (p *pass) took() time.Duration { return time.Duration(p.considered) * p.e.cfg.Costs.Main }

// record tries a record of the queue. It returns false if the pass ends.
func (p *pass) record(r record) bool {
	e, j := p.e, r.job
	if r.head && !j.isHead() { // a task started in another partition
		if j = e.byNumber[j.of.number]; j == nil {
			return true
		}
	}
	defer func() { p.rejected.conclude(e, j) }()
	if j.state != pending || j.priority == 0 && e.rules.Since2411 { // held in another reservation
		return true
	}
	j.reservation.Attract(r.magnetic)
	j.priority = cmp.Or(j.priority, r.priority)
	if !j.reservation.Fits(r.part.nodes, j.chosenNodes, e.rules.Since2411) || j.preemption.Underway {
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

// try tries one job or task. The result goOn is false if the pass ends.
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
		p.rejected = attempt{j, j.part, j.reservation.Of}
		if !e.arrayMayStart(j) {
			return true, false
		}
	}
	if e.par.PartitionDepth > 0 {
		if j.part.tests++; j.part.tests > e.par.PartitionDepth {
			if j.reason == slurmspec.NoReason {
				e.setReason(j, reasons.Priority)
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
	case j.reservation.Of != nil && slices.Contains(p.blocked, j.reservation.Of):
		j.reason = reasons.Priority
		e.touch()
		return true, false
	case j.reservation.Of == nil && j.part.failed:
		if j.reason == slurmspec.NoReason || j.reason == reasons.Resources {
			j.reason = reasons.Priority
		}
		e.touch()
		return true, false
	}
	if !e.meetsDeadline(j) {
		return true, false
	}
	if limits.KeepsBehind(j.reason, e.rules.Since2411) && !e.account.beforeSelection(j) {
		return true, false
	}
	if j.reason == slurmspec.NotAvailable && j.request.Required != nil && !e.available.Contains(j.request.Required) {
		return true, false
	}
	if e.available.CountAnd(j.part.nodes) < j.minNodes {
		j.reason = reasons.Resources
		e.touch()
		again := j.part.failed && e.rules.Since2411 && !e.rules.Since2605 // a job of a reservation; it ends the pass
		p.fail(j.part)
		return !again, false
	}
	if !e.rules.Since2411 && !e.licenses.Free(j.licenses) {
		j.reason = reasons.Licenses
		e.touch()
		return true, false
	}
	limit := j.limit
	j.limit = deadline.Limit(deadline.Left(j.deadline, e.second()), limit, j.part.DefaultMinutes, j.part.MaxMinutes)
	if goOn, started = p.start(j); !started {
		j.limit = limit
	}
	return goOn, started
}

// start tries to start a job. If the job must wait, start may block the job's partition.
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
		if j.reservation.Of != nil {
			e.available.AndNot(j.reservation.Of.Nodes)
		}
	case never:
		// Since 24.11 jobs with reservations are not held.
		if len(j.parts) == 1 && (j.reservation.Of == nil || !e.rules.Since2411) {
			e.hold(j, reasons.Constraints)
		}
	case wrongCounts, notAvailable, unlicensed:
	}
	if named := j.request.Required; named != nil && named.Count() >= j.minNodes {
		block = false
		e.available.AndNot(named)
	}
	if block && j.reservation.Of != nil {
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
	part.failed = true
	p.e.available.AndNot(part.nodes)
}

// reservePriority returns the lowest priority with which a job may block others; 0 if not set.
func (e *Engine) reservePriority(j *job) uint32 {
	return cmp.Or(e.account.limits.MinPriority(e.account.view(j)), e.par.BF.MinPriority)
}

// meetsDeadline ends a pending job that can no longer meet its deadline, and returns false.
func (e *Engine) meetsDeadline(j *job) bool {
	if deadline.Met(j.deadline, e.second(), j.timeMin, j.limit) {
		return true
	}
	j.reason = reasons.Deadline
	e.finish(j, hpc.Deadlined, "")
	return false
}

// grantLimit sets the time limit of a job that backfill has started. With --time-min or a deadline, the limit ends
// before another job is planned on the job's nodes and before a reservation has them, but the limit is at least
// --time-min (_reset_job_time_limit in backfill.c).
func (t *trial) grantLimit(j *job) {
	if j.timeMin == 0 && j.deadline == 0 {
		return
	}
	e, now, end := t.e, t.e.second(), j.estimate+t.granted*60
	j.limit = t.granted
	for _, at := range []int64{
		t.table.Planned(j.alloc.Nodes, now, end), e.reservations.Next(j.reservation.Of, j.alloc.Nodes, now, end),
	} {
		if at > 0 {
			j.limit = min(j.limit, (at-now)/60)
		}
	}
	j.limit = max(j.limit, j.timeMin)
	e.endAt(j, j.estimate+j.limit*60)
}

// verdict is the result of an attempt to start a job (select_nodes in node_scheduler.c).
type verdict uint8

const (
	begun           verdict = iota
	nodesBusy               // the job could start if other jobs ended
	overLimit               // the job exceeds a limit of an association or a QOS
	notAvailable            // the nodes are down, or kept for jobs of other partitions
	never                   // no node can serve the job
	reservationBusy         // reservations have the nodes
	maintained              // a reservation for maintenance has the partition
	notUsable               // the job's reservation has not begun
	wrongCounts             // the partition has too few or too many nodes for the job
	unlicensed              // licences are in use; since 24.11
	partitionDown           // the partition starts no jobs
)

// counts returns how many nodes a job may get in its partition (get_node_cnts). The verdict is not
// begun if limits of the partition, of accounts or of QOS exclude the job.
func (e *Engine) counts(j *job) (c selection.Counts, answer verdict) {
	p := j.part
	c.Min, c.Max = max(j.minNodes, p.MinNodes), cmp.Or(p.MaxNodes, 500000)
	if j.maxNodes > 0 {
		c.Max = min(c.Max, j.maxNodes)
	}
	most, why := e.account.allowedNodes(j)
	c.Max, c.Wanted = min(c.Max, most), c.Min
	if j.maxNodes > 0 && !j.useMinNodes {
		c.Wanted = c.Max
	}
	switch {
	case most < c.Min:
		j.reason = why
		return c, overLimit
	case c.Max < c.Min:
		return c, wrongCounts
	}
	return c, begun
}

// nodesFor returns the nodes of a job's partition that could serve the job.
func (e *Engine) nodesFor(j *job) selection.Bits {
	set := j.part.nodes.Clone()
	set.And(j.capable)
	set.AndNot(j.excluded)
	return set
}

// requestOf returns a job's request. It sets Patient while the job's wait for --switches is not over.
func (e *Engine) requestOf(j *job) *selection.Request {
	r := &j.request
	r.Partition, r.OneUser = j.part.index, j.owns
	r.Exclusive, r.LeastLoaded = j.sharing.Exclusive || e.tester.Linear != nil, j.part.LeastLoaded
	r.Sharing = j.sharing.In(j.part.Sharing)
	if r.Switches > 0 {
		if j.switchSince == 0 {
			j.switchSince = e.second()
		}
		r.Patient = e.second()-j.switchSince < j.switchWait
	}
	return r
}

// tryAtSubmission tests in which partitions a new job could run, now or ever (_select_nodes_parts
// in job_mgr.c). It returns an error if no nodes can serve the job. It sets the weights of nodes
// and begins the wait for switches. Afterwards the job's partition is the last one that was tried.
func (e *Engine) tryAtSubmission(j *job) error {
	listed := e.rules.Since2411 || strings.Contains(j.of.job.Partition, ",")
	last, held, down := wrongCounts, j.reason, false
	for _, j.part = range j.parts {
		refused := e.partitionRefuses(j, false)
		down = refused == reasons.PartitionDown
		untried := !listed && !down ||
			e.rules.Since2605 && (refused == reasons.PartitionConfig || refused == reasons.NodeLimit)
		if refused != slurmspec.NoReason && untried {
			continue
		}
		if last = e.tryIn(j); down && last == begun {
			last = partitionDown
		}
		if last != never && last != wrongCounts {
			break
		}
	}
	if down && listed && (last == never || last == wrongCounts) {
		last = partitionDown
	}
	switch {
	case last == never:
		return errors.New("requested node configuration is not available") // in slurmctld's words
	case j.priority == 0:
		j.reason = held
	case last == wrongCounts:
		j.reason = reasons.PartitionConfig
	case last == partitionDown:
		j.reason = reasons.PartitionDown
	case last == notUsable, last == maintained:
		j.reason = reasons.Reservation
	}
	return nil
}

// tryIn tests whether a new job could run in its partition, now or ever (select_nodes).
func (e *Engine) tryIn(j *job) verdict {
	defer e.restoreSharing(j, j.sharing)
	if j.priority == 0 || !e.account.beforeSelection(j) {
		return overLimit
	}
	set := e.nodesFor(j)
	if v := e.limitToReservation(j, set); v != begun {
		return v
	}
	if set.Next(0) < 0 {
		return never
	}
	c, result := e.counts(j)
	if result == begun {
		_, _, result = e.pick(j, set, e.available, c, selection.TestOnly)
	}
	e.explain(j, result)
	return result
}

// restoreSharing restores how a job shares nodes if the job has not started; since 24.11.
func (e *Engine) restoreSharing(j *job, before sharing.Job) {
	if e.rules.Since2411 && j.state == pending {
		j.sharing = before
	}
}

// tryStart starts a job on nodes of a set if it fits (select_nodes).
func (e *Engine) tryStart(j *job, within selection.Bits, byBackfill bool) verdict {
	defer e.restoreSharing(j, j.sharing)
	if !e.account.beforeSelection(j) {
		return overLimit
	}
	set := e.nodesFor(j)
	if byBackfill { // other nodes count as excluded (_start_job in backfill.c)
		set.And(within)
	}
	if v := e.limitToReservation(j, set); v != begun {
		return v
	}
	c, result := e.counts(j)
	var alloc *selection.Allocation
	nodes := c.Wanted
	switch result {
	case overLimit:
		return overLimit
	case begun:
		if alloc, nodes, result = e.pick(j, set, within, c, selection.RunNow); alloc != nil {
			j.totalCPUs = alloc.CPUs
		}
	}
	if !e.account.afterSelection(j, alloc, nodes) {
		return overLimit
	}
	if result == begun && len(e.victims) > 0 {
		e.takeNodes(j, e.victims)
		result = nodesBusy
	}
	if result == begun {
		alloc, result = e.guided(j, alloc)
	}
	if result != begun {
		e.explain(j, result)
		return result
	}
	e.start(j, alloc, byBackfill)
	return begun
}

// explain sets the reason why a job could not start.
func (e *Engine) explain(j *job, result verdict) {
	switch result {
	case begun, overLimit:
	case wrongCounts:
		j.reason = reasons.NodeLimit
		e.touch()
	case notAvailable:
		j.reason = slurmspec.NotAvailable
		j.words = e.names.Unavailable(j.part.nodes, e.available, j.request.Required)
		e.touch()
	case reservationBusy:
		j.reason = reasons.Reservation
	case maintained:
		j.reason, j.words = slurmspec.NotAvailable, slurmspec.ForMaintenance
	case unlicensed:
		j.reason = reasons.Licenses
	default:
		j.reason = reasons.Resources
	}
}

// pick chooses nodes that other reservations leave to the job (_get_req_features). It also returns
// the number of nodes that limits count: the nodes that the job gets now or, if it must wait, would
// get on an empty machine. The verdict says why the job must wait.
func (e *Engine) pick(
	j *job, set, within selection.Bits, c selection.Counts, mode selection.Mode,
) (*selection.Allocation, int, verdict) {
	usable := set.Clone()
	usable.And(within)
	nodes, _, overlaps, answer := e.testReservations(j, e.second(), false)
	switch {
	case answer != reservations.Free:
		usable.Reset()
	case nodes != nil && j.reservation.Of == nil:
		usable.And(nodes)
	}
	alloc, possible, result := e.pickBest(j, set, usable, c, mode)
	n := c.Wanted
	if possible != nil {
		n = possible.Nodes.Count()
		j.chosenNodes, j.totalCPUs = n, cmp.Or(possible.CPUs, j.totalCPUs)
	}
	switch {
	case result == notAvailable && answer == reservations.Maintained:
		result = maintained
	case result == never && overlaps && mode != selection.TestOnly: // a new job is refused instead
		result = reservationBusy
	}
	return alloc, n, result
}

// pickBest chooses from the usable nodes of a set (_pick_best_nodes). If the job's constraint has brackets, it
// tries the alternatives one after the other.
func (e *Engine) pickBest(
	j *job, set, usable selection.Bits, c selection.Counts, mode selection.Mode,
) (alloc, possible *selection.Allocation, result verdict) {
	result, busy := never, false // busy holds even for an alternative that the job can never have
	for among, able := range j.brackets.Split(set, usable) {
		e.narrowed = false
		some, could, answer := e.pickAmong(j, among, able, c, mode)
		if possible == nil || answer == begun || answer == nodesBusy && result == notAvailable {
			possible = could
		}
		if result == never || answer != never && answer != notAvailable {
			result = answer
		}
		if busy = busy || e.narrowed; answer == begun {
			return some, possible, begun
		}
	}
	if busy && result == notAvailable {
		result = nodesBusy
	}
	return nil, possible, result
}

// pickAmong chooses from the usable nodes of a set. The result possible is the allocation on an empty machine, or alloc
// if the job starts now. OverSubscribe=EXCLUSIVE gives whole nodes; before 24.11 also in the job's next partitions.
func (e *Engine) pickAmong(
	j *job, set, usable selection.Bits, c selection.Counts, mode selection.Mode,
) (alloc, possible *selection.Allocation, result verdict) {
	if named := j.request.Required; named != nil && !set.Contains(named) {
		return nil, nil, never // before sharing is decided (_nodes_in_sets)
	}
	mayJoin := j.sharing.Resolve(j.part.Sharing)
	j.owns = j.owns && (e.rules.Since2411 || j.part.Sharing.Jobs > 0) // EXCLUSIVE replaces --exclusive=user
	r := e.requestOf(j)
	if r.Required != nil && !usable.Contains(r.Required) {
		return nil, nil, notAvailable
	}
	e.victims = nil
	e.tester.Weigh(set)
	e.tester.Prefer(set, e.account.limits.Preferred(e.account.view(j)), e.kinds)
	j.reservation.WeighOutside(set, e.tester.AddWeight)
	candidates, closed := usable.Clone(), e.owners.Close(e.departures.Closed, e.departures.Nodes, j)
	e.departures.Exclude(candidates)
	if e.preempt == nil {
		candidates.AndNot(closed)
		if !mayJoin || e.tester.Linear != nil {
			candidates.AndNot(e.state.Busy())
		}
	}
	count := candidates.Count()
	e.narrowed = count < usable.Count()
	if r.Required != nil && !candidates.Contains(r.Required) && e.tester.Linear == nil {
		for _, nodes := range []selection.Bits{usable, set} {
			if possible = e.tester.Test(e.state, r, nodes, c, selection.TestOnly); possible != nil {
				return nil, possible, nodesBusy
			}
		}
		return nil, nil, never
	}
	victims := e.candidates(j, mode)
	candidates.AndNot(closed)
	preemption.Open(candidates, usable, victims)
	// Since 24.11 the select plugin tests licences before nodes; select/linear counts the nodes before that.
	licensed := !e.rules.Since2411 || mode == selection.TestOnly || e.licenses.Free(j.licenses) ||
		e.tester.Linear != nil && count < c.Min
	if licensed {
		if alloc := e.tester.Pick(e.state, r, candidates, c, mode); alloc != nil {
			return alloc, alloc, begun
		}
	}
	if licensed && len(victims) > 0 && mode == selection.RunNow {
		try := preemption.Try{Tester: e.tester, State: e.state, Request: r, Counts: c, Candidates: victims}
		if alloc, e.victims = e.preempt.Now(&try, candidates); alloc != nil {
			return alloc, alloc, begun
		}
	}
	if count >= c.Min {
		possible = e.tester.Test(e.state, r, usable, c, selection.TestOnly)
	}
	fits := possible != nil
	if !fits {
		possible = e.tester.Test(e.state, r, set, c, selection.TestOnly)
	}
	switch {
	case possible == nil:
		return nil, nil, never
	case !licensed:
		return nil, possible, unlicensed
	case fits, e.narrowed:
		return nil, possible, nodesBusy
	}
	return nil, possible, notAvailable
}
