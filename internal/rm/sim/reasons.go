package sim

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm"
)

// because is the reason why a job waits.
type because uint8

// The reasons for which jobs wait. With becauseOrdinary, the first job of a partition waits for resources, and other
// jobs wait for their turn: see [rm.Outcome.First]. A job that loses the first place has the reason becauseBehind until
// it is the first again. Changed reasons cause events.
const (
	becauseOrdinary because = iota
	becauseHeld             // a command holds the job
	becauseLicenses         // the job waits for the bandwidth of a file system
	becauseReservation
	becauseReserved
	becauseDown
	becausePartition // the partition starts no jobs
	becauseBehind    // another job took the first place in the queue
)

// words are the reasons in Slurm's words.
var words = [...]string{
	becauseOrdinary:    "Resources",
	becauseHeld:        "JobHeldUser",
	becauseLicenses:    "Licenses",
	becauseReservation: "Reservation",
	becauseReserved:    "ReqNodeNotAvail: May be reserved for other job",
	becauseDown:        "ReqNodeNotAvail: UnavailableNodes",
	becausePartition:   "PartitionDown",
	becauseBehind:      "Priority",
}

// explainJob reports why a job waits, if the reason has changed.
func (e *Engine) explainJob(j *Job, why because) {
	if j.why != why && !e.cfg.Lean {
		e.emit(j, rm.Waiting, words[why], nil)
	}
	j.why = why
}

// explain reports why the first job in each partition's queue waits, which jobs have lost the first place, and which
// newly eligible jobs wait for their reservation.
func (e *Engine) explain() {
	before, n := e.heads, e.machine.nodes
	e.heads = e.spare[:0]
	e.queued.Queue(e.addHead)
	for _, j := range before {
		switch {
		case j.state != waiting || j.first == 0 || slices.Contains(e.heads, j): // first is 0 after a requeue or a release
		case j.first == e.Now() && j.why == becauseOrdinary: // it was the first for no time
			j.first = 0
		case n == nil || !n.early(j):
			e.explainJob(j, becauseBehind)
		}
	}
	for _, j := range e.arrivals {
		if n != nil && j.state == waiting && n.early(j) {
			e.explainJob(j, becauseReservation)
		}
	}
	for i, j := range e.heads {
		j.first = cmp.Or(j.first, e.Now())
		e.explainJob(j, e.obstacle(j, i == 0))
	}
	e.spare = before
}

// head is called with each job of the policy's queue. It adds the job to the heads if it is the
// first of its partition. It returns true if there may be more heads.
func (e *Engine) head(j *Job) bool {
	if e.machine.IsPool() {
		e.heads = append(e.heads, j)
		return false
	}
	if !slices.ContainsFunc(e.heads, func(h *Job) bool { return h.demand.partition == j.demand.partition }) {
		e.heads = append(e.heads, j)
	}
	return len(e.heads) < len(e.machine.nodes.cluster.Partitions)
}

// obstacle returns why the first job of a partition waits. If this job is the first of the whole queue and fits, the
// job waits for the bandwidth of a file system, or for the policy's next round.
func (e *Engine) obstacle(j *Job, first bool) because {
	n := e.machine.nodes
	switch {
	case n != nil && n.early(j):
		return becauseReservation
	case first && e.awaitsBandwidth(j) && e.machine.Fits(j):
		return becauseLicenses
	case n == nil || n.fitsEmpty(j):
		return becauseOrdinary
	}
	defer func(reserved []*reservation) { n.reserved = reserved }(n.reserved)
	n.reserved = nil
	if n.fitsEmpty(j) {
		return becauseReserved
	}
	return becauseDown
}

// awaitsBandwidth reports whether the bandwidth of a file system keeps a job from starting now. It returns false in a
// lean engine, which reports no reasons.
func (e *Engine) awaitsBandwidth(j *Job) bool {
	p, plans := e.policy.(Planner)
	return plans && !e.cfg.Lean && p.AwaitsBandwidth(j)
}

// early reports whether a job waits for the begin of its reservation.
func (n *nodes) early(j *Job) bool {
	own := n.find(j.demand.reservation)
	return own != nil && own.start > n.m.now && !own.flexible
}

// fitsEmpty reports whether a job would fit now if no job ran, given the reservations and the nodes
// out of service. Without reservations and such nodes the answer is true.
func (n *nodes) fitsEmpty(j *Job) bool {
	if len(n.reserved) == 0 && !slices.ContainsFunc(n.out, func(word uint64) bool { return word != 0 }) {
		return true
	}
	n.empty = true
	defer func() { n.empty = false }()
	return n.place(j, n.m.now)
}
