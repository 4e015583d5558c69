package slurmmodel

import (
	"cmp"
	"errors"

	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/slurmspec"
)

// verdict is the result of an attempt to start a job (select_nodes in node_scheduler.c).
type verdict uint8

const (
	begun           verdict = iota
	nodesBusy               // it could start if other jobs ended
	overLimit               // a limit of an account or a QOS
	notAvailable            // its nodes are down or kept for jobs of other partitions
	never                   // no node serves it
	reservationBusy         // reservations have its nodes
	maintained              // a reservation for maintenance has its partition
	notUsable               // its own reservation has not begun
	wrongCounts             // the partition has too few or too many nodes for it
	unlicensed              // licences are in use, since 24.11
)

// counts returns how many nodes a job gets in its partition (get_node_cnts). The verdict says whether limits of the
// partition, or of accounts and QOS, exclude the job.
func (e *Engine) counts(j *job) (c selection.Counts, answer verdict) {
	p := j.part
	c.Min, c.Max = max(j.minNodes, p.minNodes), cmp.Or(p.maxNodes, 500000)
	if j.maxNodes > 0 {
		c.Max = min(c.Max, j.maxNodes)
	}
	most, why := e.account.mostNodes(j)
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

// nodesFor returns the nodes of a job's partition that could serve it.
func (e *Engine) nodesFor(j *job) selection.Bits {
	set := j.part.nodes.Clone()
	set.And(j.capable)
	set.AndNot(j.excluded)
	return set
}

// requestOf returns what a job wants, at this instant.
func (e *Engine) requestOf(j *job) *selection.Request {
	r := &j.request
	r.Partition = j.part.index
	r.Exclusive, r.Whole, r.LeastLoaded = j.exclusive, j.part.whole, j.part.leastLoaded
	if r.Switches > 0 {
		if j.switchSince == 0 {
			j.switchSince = e.second()
		}
		r.Patient = e.second()-j.switchSince < j.switchWait
	}
	return r
}

// tryAtSubmission tests in which partition a new job could run, now or ever (_select_nodes_parts in job_mgr.c).
// The tests set the weights of nodes, the job begins to wait for switches, and it is considered in the last
// partition tried. slurmctld refuses a job that no nodes serve.
func (e *Engine) tryAtSubmission(j *job) error {
	last, held := wrongCounts, j.reason
	for _, j.part = range j.parts {
		refused := e.partitionRefuses(j, false)
		untried := !e.rules.Since2411 && len(j.parts) == 1 || e.rules.Since2605 && refused != reasonTimeLimit
		if refused != slurmspec.NoReason && untried {
			continue
		}
		if last = e.tryIn(j); last != never && last != wrongCounts {
			break
		}
	}
	switch {
	case last == never:
		return errors.New("requested node configuration is not available") // in slurmctld's words
	case j.priority == 0:
		j.reason = held
	case last == wrongCounts:
		j.reason = reasonPartitionConfig
	case last == notUsable, last == maintained:
		j.reason = reasonReservation
	}
	return nil
}

// tryIn tests whether a new job could run in its partition, now or ever (select_nodes).
func (e *Engine) tryIn(j *job) verdict {
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

// tryStart starts a job on nodes of a set, if it can (select_nodes).
func (e *Engine) tryStart(j *job, within selection.Bits, byBackfill bool) verdict {
	if !e.account.beforeSelection(j) {
		return overLimit
	}
	set := e.nodesFor(j)
	if byBackfill { // the other nodes count as excluded (_start_job in backfill.c)
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

// explain notes why a job could not start.
func (e *Engine) explain(j *job, result verdict) {
	switch result {
	case begun, overLimit:
	case wrongCounts:
		j.reason = reasonNodeLimit
		e.touch()
	case notAvailable:
		j.reason = slurmspec.NotAvailable
		j.words = e.names.Unavailable(j.part.nodes, e.available, j.request.Required)
		e.touch()
	case reservationBusy:
		j.reason = reasonReservation
	case maintained:
		j.reason, j.words = slurmspec.NotAvailable, words.ForMaintenance
	case unlicensed:
		j.reason = reasonLicenses
	default:
		j.reason = reasonResources
	}
}

// pick chooses nodes that reservations of others leave to the job (_get_req_features). Without nodes the verdict says
// why. The number of nodes is what the job counts for in limits: those that it gets, or would get on an empty machine.
func (e *Engine) pick(
	j *job, set, within selection.Bits, c selection.Counts, mode selection.Mode,
) (*selection.Allocation, int, verdict) {
	usable := set.Clone()
	usable.And(within)
	nodes, _, overlaps, answer := e.testReservations(j, e.second(), false)
	switch {
	case answer != reservations.Free:
		usable.Reset()
	case nodes != nil && j.reservation == nil:
		usable.And(nodes)
	}
	alloc, possible, result := e.pickBest(j, set, usable, c, mode)
	n := c.Wanted
	if possible != nil {
		n = possible.Nodes.Count()
		j.chosenNodes = n
	}
	switch {
	case result == notAvailable && answer == reservations.Maintained:
		result = maintained
	case result == never && overlaps && mode != selection.TestOnly: // at its submission the job is refused
		result = reservationBusy
	}
	return alloc, n, result
}

// pickBest chooses nodes of a set, only some of which are usable now (_pick_best_nodes). If the job has to wait, it
// also returns what the job could have if no others ran; otherwise that is what it gets. In a partition with
// OverSubscribe=EXCLUSIVE the job becomes one for whole nodes. Until 24.11 it stays so in its other partitions.
func (e *Engine) pickBest(
	j *job, set, usable selection.Bits, c selection.Counts, mode selection.Mode,
) (alloc, possible *selection.Allocation, result verdict) {
	exclusive := j.exclusive
	j.exclusive = exclusive || j.part.whole
	defer func() {
		if e.rules.Since2411 && (alloc == nil || mode == selection.TestOnly) {
			j.exclusive = exclusive
		}
	}()
	r := e.requestOf(j)
	if r.Required != nil && !usable.Contains(r.Required) {
		if !set.Contains(r.Required) {
			return nil, nil, never
		}
		return nil, nil, notAvailable
	}
	e.victims = nil
	e.tester.Weigh(set)
	e.tester.Prefer(set, e.account.preferred(j), e.kinds)
	e.outsideFlex(j, set)
	candidates := usable.Clone()
	e.departures.Exclude(candidates)
	if e.preempt == nil {
		candidates.AndNot(e.departures.Closed)
		if r.Exclusive {
			candidates.AndNot(e.state.Busy())
		}
	}
	count := candidates.Count()
	busy := count < usable.Count()
	if r.Required != nil && !candidates.Contains(r.Required) {
		return nil, nil, nodesBusy
	}
	victims := e.candidates(j)
	candidates.AndNot(e.departures.Closed)
	preemption.Open(candidates, usable, victims)
	// Since 24.11 the select plugin tests licences, in the place of its own test.
	licensed := !e.rules.Since2411 || mode == selection.TestOnly || e.licenses.Free(j.licenses)
	if licensed {
		if alloc := e.tester.Test(e.state, r, candidates, c, mode); alloc != nil {
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
	case fits, busy:
		return nil, possible, nodesBusy
	}
	return nil, possible, notAvailable
}
