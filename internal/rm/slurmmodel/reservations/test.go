package reservations

import (
	"errors"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// Want has the properties of a pending job that [List.Test] needs.
type Want struct {
	// Own is the reservation that the job names; nil if it names none. Who is the job's user and
	// accounts, for Own.
	Own Own
	Who Who
	// Start is when the job would start, in seconds since 1970. Seconds is its time limit.
	Start, Seconds int64
	// Partition is the partition in which the job is considered, and PartitionNodes are its nodes.
	Partition      string
	PartitionNodes selection.Bits
	// Required are the nodes of --nodelist; nil if not given.
	Required selection.Bits
}

// Answer says whether reservations let a job start.
type Answer uint8

const (
	// Free says that the job may start on the nodes that Test returns.
	Free Answer = iota
	// Later says that the job's own reservation has not begun.
	Later
	// Ended says that the job's own reservation has ended, or lacks nodes that the job names.
	Ended
	// Denied says that the job's user may not use the job's reservation.
	Denied
	// Maintained says that a reservation has all nodes of the partition.
	Maintained
	// Busy says that a reservation has a node that the job names.
	Busy
)

// Errors with which slurmctld refuses jobs that name a reservation, in slurmctld's words.
var (
	errInvalid = errors.New("requested reservation is invalid")
	errAccess  = errors.New("access denied to requested reservation")
)

// Admit returns an error if a new job may not use its reservation (validate_job_resv). The
// parameter names says whether the job names a reservation; r is nil if the reservation does not
// exist.
func Admit(names bool, r *Reservation, who Who) error {
	switch {
	case !names:
		return nil
	case r == nil:
		return errInvalid
	case !r.Admits(who):
		return errAccess
	}
	r.idleSince = 0
	return nil
}

// maxMoves is how often Test moves a start to the end of a reservation.
const maxMoves = 10

// Test returns the nodes that reservations leave to a job (job_test_resv). The result overlaps
// says that other reservations have nodes of the partition or, for a job that names a reservation,
// of that reservation. With move, Test may return a later start than the job's.
func (l *List) Test(w *Want, now int64, move bool) (nodes selection.Bits, start int64, overlaps bool, answer Answer) {
	if w.Own.Of != nil {
		nodes, start, overlaps, answer = l.testOwn(w, now)
		return nodes, start, overlaps, answer
	}
	start = w.Start
	for moves := 0; ; moves++ {
		nodes = l.cluster.all()
		var end int64
		end, overlaps, answer = l.exclude(w, now, start, nodes, overlaps)
		if answer == Free || !move || moves >= maxMoves {
			return nodes, start, overlaps, answer
		}
		start = end
	}
}

// Next returns the first start of a reservation between the instant now and another instant
// (job_time_adj_resv). It considers reservations that have one of the nodes and are not the job's
// own. It returns 0 if there is no such start.
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

// exclude removes the nodes of reservations that overlap the job's time. If a reservation excludes
// the whole job, exclude returns the reservation's end. The parameter before is the result
// overlaps of earlier calls.
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

// testOwn finds the nodes of a job's own reservation that the job may use.
func (l *List) testOwn(w *Want, now int64) (nodes selection.Bits, start int64, overlaps bool, _ Answer) {
	own := w.Own.Of
	start = w.Start
	if w.Own.magnetic && l.Since2605 && !own.has(flex) && start+w.Seconds > own.End {
		return nil, start, false, Ended // a magnetic reservation attracts no job that may outlast it
	}
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

// Now says whether a reservation lets its jobs start at the second now, whatever their nodes
// (job_test_resv_now).
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
