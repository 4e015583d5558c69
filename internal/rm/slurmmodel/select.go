package slurmmodel

import (
	"errors"

	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
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
)

// counts returns how many nodes a job gets in its partition (get_node_cnts). ok is false if the partition's
// limits exclude the job.
func (e *Engine) counts(j *job) (c selection.Counts, ok bool) {
	p := j.part
	c.Min, c.Max = max(j.minNodes, p.minNodes), 500000
	if p.maxNodes > 0 {
		c.Max = p.maxNodes
	}
	if j.maxNodes > 0 {
		c.Max = min(c.Max, j.maxNodes)
	}
	if most := e.account.mostNodes(j); most > 0 {
		c.Max = min(c.Max, most)
	}
	c.Wanted = c.Min
	if j.maxNodes > 0 && !j.useMinNodes {
		c.Wanted = c.Max
	}
	return c, c.Max >= c.Min
}

// nodesFor returns the nodes of a job's partition that could serve it.
func (e *Engine) nodesFor(j *job) selection.Bits {
	set := j.part.nodes.Clone()
	set.And(j.capable)
	if j.excluded != nil {
		set.AndNot(j.excluded)
	}
	return set
}

// requestOf returns what a job wants, at this instant.
func (e *Engine) requestOf(j *job) *selection.Request {
	r := &j.request
	r.Exclusive, r.Whole, r.LeastLoaded = j.of.job.Exclusive == "node" || j.of.job.Exclusive == "exclusive" || j.part.whole, j.part.whole, j.part.leastLoaded
	if r.Switches > 0 {
		if j.switchSince == 0 {
			j.switchSince = e.second()
		}
		r.Patient = e.second()-j.switchSince < j.switchWait
	}
	return r
}

// tryAtSubmission tests a new job against an empty machine. It sets the weights of nodes, and the job begins to
// wait for switches. What slurmctld refuses is known but for jobs of reservations: it refuses those that no
// node of theirs serves.
func (e *Engine) tryAtSubmission(j *job) error {
	set := e.nodesFor(j)
	v := e.limitToReservation(j, set)
	if v == begun {
		e.tester.Weigh(set)
		e.outsideFlex(j, set)
		if c, ok := e.counts(j); ok {
			if alloc := e.tester.Test(e.state, e.requestOf(j), set, c, selection.TestOnly); alloc != nil {
				j.chosenNodes = alloc.Nodes.Count()
			} else {
				v = never
			}
		}
	}
	if v == never && j.reservation != nil {
		return errConfiguration
	}
	return nil
}

// errConfiguration is a refusal in slurmctld's words.
var errConfiguration = errors.New("requested node configuration is not available")

// tryStart starts a job on nodes of a set, if it can (select_nodes).
func (e *Engine) tryStart(j *job, within selection.Bits, byBackfill bool) verdict {
	if !e.account.beforeSelection(j) {
		return overLimit
	}
	set := e.nodesFor(j)
	if v := e.limitToReservation(j, set); v != begun {
		return v
	}
	e.tester.Weigh(set)
	e.outsideFlex(j, set)
	c, ok := e.counts(j)
	result := wrongCounts
	var alloc *selection.Allocation
	var chosen selection.Bits
	nodes := c.Wanted
	if ok {
		alloc, result = e.pick(j, set, within, c)
		if alloc != nil {
			chosen, nodes = alloc.Nodes, len(alloc.Parts)
			j.totalCPUs, j.chosenNodes = alloc.CPUs, nodes
		}
	}
	if !e.account.afterSelection(j, chosen, nodes) {
		return overLimit
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
	case wrongCounts:
		e.setReason(j, reasonNodeLimit)
	case notAvailable:
		e.setReason(j, reasonNotAvailable)
		e.touch()
	case reservationBusy:
		j.reason = reasonReservation
	case maintained:
		j.reason = reasonNotAvailable
	default:
		j.reason = reasonResources
	}
}

// pick chooses nodes that reservations of others leave to the job (_get_req_features). Without nodes the verdict
// says why.
func (e *Engine) pick(j *job, set, within selection.Bits, c selection.Counts) (*selection.Allocation, verdict) {
	usable := set.Clone()
	usable.And(within)
	nodes, _, overlaps, answer := e.testReservations(j, e.second(), false)
	switch {
	case answer != reservations.Free:
		usable.Reset()
	case nodes != nil && j.reservation == nil:
		usable.And(nodes)
	}
	alloc, result := e.pickBest(j, set, usable, c)
	switch {
	case result == notAvailable && answer == reservations.Maintained:
		result = maintained
	case result == never && overlaps:
		result = reservationBusy
	}
	return alloc, result
}

// pickBest chooses nodes of a set, of which only some are usable now (_pick_best_nodes).
func (e *Engine) pickBest(j *job, set, usable selection.Bits, c selection.Counts) (*selection.Allocation, verdict) {
	r := e.requestOf(j)
	if r.Required != nil && !usable.Contains(r.Required) {
		if !set.Contains(r.Required) {
			return nil, never
		}
		return nil, notAvailable
	}
	candidates := usable.Clone()
	busy := false
	for i := range usable.All {
		if e.completing[i] > 0 || e.closed.Has(i) || r.Exclusive && !e.state.Idle(i) {
			candidates.Clear(i)
			busy = true
		}
	}
	if r.Required != nil && !candidates.Contains(r.Required) {
		return nil, nodesBusy
	}
	if alloc := e.tester.Test(e.state, r, candidates, c, selection.RunNow); alloc != nil {
		return alloc, begun
	}
	if usable.Count() >= c.Min && e.tester.Test(e.state, r, usable, c, selection.TestOnly) != nil {
		return nil, nodesBusy
	}
	switch {
	case e.tester.Test(e.state, r, set, c, selection.TestOnly) == nil:
		return nil, never
	case busy:
		return nil, nodesBusy
	}
	return nil, notAvailable
}
