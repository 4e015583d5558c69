package reservations

import (
	"errors"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// Want is what a job wants, as reservations see it.
type Want struct {
	// Own is the reservation that the job names; nil for none. Who is who asks.
	Own *Reservation
	Who Who
	// Start is the instant at which it would start, and Seconds its time limit.
	Start, Seconds int64
	// Partition is the partition in which the job is considered, and PartitionNodes are its nodes.
	Partition      string
	PartitionNodes selection.Bits
	// Required are the nodes that it names; nil for none.
	Required selection.Bits
	// Begin is its begin time.
	Begin int64
}

// Answer says whether reservations let a job start.
type Answer uint8

const (
	// Free says that the job may start on the nodes that are left.
	Free Answer = iota
	// Later says that the job's own reservation has not begun.
	Later
	// Ended says that the job's own reservation has ended or does not have the nodes that the job names.
	Ended
	// Denied says that the job's user may not use its reservation.
	Denied
	// Maintained says that a reservation has all nodes of the partition.
	Maintained
	// Busy says that a reservation has a node that the job names.
	Busy
)

// The refusals of jobs that name a reservation, in slurmctld's words.
var (
	errInvalid = errors.New("requested reservation is invalid")
	errAccess  = errors.New("access denied to requested reservation")
)

// Admit returns an error if a new job may not use the reservation that it names. names says whether it
// names one; r is nil if there is no reservation of that name (validate_job_resv).
func Admit(names bool, r *Reservation, who Who) error {
	switch {
	case !names:
		return nil
	case r == nil:
		return errInvalid
	case !r.Admits(who):
		return errAccess
	}
	return nil
}

// mostMoves is how often a start is moved behind a reservation.
const mostMoves = 10

// Test returns the nodes that reservations leave to a job (job_test_resv). overlaps says that
// reservations of others took some. With move, the returned start may be later than the job's.
func (l *List) Test(w *Want, now int64, move bool) (nodes selection.Bits, start int64, overlaps bool, answer Answer) {
	if w.Own != nil {
		nodes, start, overlaps, answer = l.testOwn(w, now)
		return nodes, start, overlaps, answer
	}
	start = w.Start
	for moves := 0; ; moves++ {
		nodes = l.cluster.all()
		var end int64
		end, overlaps, answer = l.exclude(w, now, start, nodes, overlaps)
		if answer == Free || !move || moves >= mostMoves {
			return nodes, start, overlaps, answer
		}
		start = end
	}
}

// Next returns the first start, after now and before another instant, of a reservation of the nodes
// other than the job's own; 0 for none (job_time_adj_resv).
func (l *List) Next(own *Reservation, nodes selection.Bits, now, before int64) (start int64) {
	for _, r := range l.all {
		if r.End <= now {
			r.advance(now)
		}
		if r == own || r.Start <= now || r.Start >= before || !r.Nodes.Overlaps(nodes) {
			continue
		}
		if start == 0 || r.Start < start {
			start = r.Start
		}
	}
	return start
}

// exclude takes the nodes of reservations away that overlap a job's time. If a reservation excludes the
// job as a whole, exclude returns the reservation's end.
func (l *List) exclude(
	w *Want, now, start int64, nodes selection.Bits, before bool,
) (end int64, overlaps bool, _ Answer) {
	overlaps = before
	for _, r := range l.all {
		if r.End <= now {
			r.advance(now)
		}
		if r.Start >= start+w.Seconds || r.End <= start {
			continue
		}
		switch {
		case r.allNodes, r.has(partNodes) && r.Partition == w.Partition, r.has(maint) && r.Nodes.Contains(w.PartitionNodes):
			return r.End, overlaps, Maintained
		case w.Required != nil && w.Required.Overlaps(r.Nodes):
			return r.End, overlaps, Busy
		}
		nodes.AndNot(r.Nodes)
		overlaps = overlaps || r.Nodes.Overlaps(w.PartitionNodes)
	}
	return 0, overlaps, Free
}

// testOwn looks which nodes of its own reservation a job may use.
func (l *List) testOwn(w *Want, now int64) (nodes selection.Bits, start int64, overlaps bool, _ Answer) {
	own := w.Own
	start = w.Start
	if !own.Admits(w.Who) {
		return nil, start, false, Denied
	}
	if own.has(flex) {
		nodes = l.cluster.all()
	} else {
		if own.End <= now {
			own.advance(now)
		}
		switch {
		case start < own.Start:
			return nil, own.Start, false, Later
		case start > own.End, w.Required != nil && !own.Nodes.Contains(w.Required):
			return nil, start, false, Ended
		}
		nodes = own.Nodes.Clone()
		if l.Since2411 {
			nodes.And(w.PartitionNodes)
		}
	}
	for _, r := range l.all {
		if own.has(maint) || own.has(overlap) && !r.has(maint) || r == own || r.Start >= start+w.Seconds || r.End <= start {
			continue
		}
		if nodes.Overlaps(r.Nodes) {
			overlaps = true
			nodes.AndNot(r.Nodes)
		}
	}
	return nodes, start, overlaps, Free
}

// Now reports whether a reservation lets its jobs start at all at this instant (job_test_resv_now).
func (l *List) Now(own *Reservation, who Who, now int64) Answer {
	switch {
	case !own.Admits(who):
		return Denied
	case own.has(flex):
		return Free
	case now < own.Start:
		return Later
	case now > own.End:
		return Ended
	}
	return Free
}
