// Package backfill has the table in which Slurm's backfill scheduler plans (node_space in
// src/plugins/sched/backfill/backfill.c): for each interval of the window the nodes that no planned job
// has. Running jobs are not in it: the tests of package selection know them.
package backfill

import "rmreplay/internal/rm/slurmmodel/selection"

// Table is the plan of one cycle. All instants are in seconds since 1970.
type Table struct {
	first *interval
	// records counts the intervals ever made in this cycle, as slurmctld does for bf_node_space_size.
	records    int
	resolution int64
	// Beyond is a rule of 24.11: if no nodes become free before a job's end, the next try begins at the end
	// of the second interval after it.
	Beyond bool

	all selection.Bits // memory for Restrict
}

// interval is a part of the window in which the same nodes are free.
type interval struct {
	begin, end int64
	free       selection.Bits
	next       *interval
}

// New returns a table that begins at now, rounded down to the resolution, and ends after the window, in
// seconds. The nodes of free are free in all of it.
func New(now, window, resolution int64, free selection.Bits) *Table {
	begin, end := now/resolution*resolution, (now+window)/resolution*resolution
	return &Table{first: &interval{begin: begin, end: end, free: free.Clone()}, records: 1, resolution: resolution}
}

// End returns the end of the window.
func (t *Table) End() int64 {
	last := t.first
	for last.next != nil {
		last = last.next
	}
	return last.end
}

// Records returns how many intervals the table has taken.
func (t *Table) Records() int { return t.records }

// Restrict removes the nodes from a set that planned jobs have at some time from start to end. later is
// when another try would find more nodes; 0 for never.
func (t *Table) Restrict(set selection.Bits, start, end int64) (later int64) {
	t.all = append(t.all[:0], set...)
	for i := t.first; i != nil; i = i.next {
		if i.end > start && i.next != nil && later == 0 && grows(t.all, set, i) {
			later = i.end
		}
		if i.end <= start {
			continue
		}
		if i.begin > end {
			if t.Beyond && later == 0 && i.next != nil && i.next.next != nil {
				later = i.next.end
			}
			break
		}
		set.And(i.free)
	}
	return later
}

// grows reports whether nodes of the set become free at the end of an interval.
func grows(all, set selection.Bits, i *interval) bool {
	for k := range all {
		if all[k]&i.next.free[k]&^(set[k]&i.free[k]) != 0 {
			return true
		}
	}
	return false
}

// Conflicts reports whether one of the nodes is planned for another job between start and end.
func (t *Table) Conflicts(nodes selection.Bits, start, end int64) bool {
	for i := t.first; i != nil; i = i.next {
		if i.end > start && i.begin < end && !i.free.Contains(nodes) {
			return true
		}
	}
	return false
}

// Reserve plans nodes from start to end, which are multiples of the resolution.
func (t *Table) Reserve(nodes selection.Bits, start, end int64) {
	start = max(start, t.first.begin)
	end = max(end, start+t.resolution)
	before, placed := t.first, false
	at := t.first
	for ; at != nil; at = at.next {
		if at.end > start {
			t.split(at, start)
			placed = true
			break
		}
		if at.end == start {
			placed = true
			break
		}
		before = at
	}
	if !placed {
		return
	}
	var after *interval
	for at = at.next; at != nil; at = at.next {
		if end < at.end {
			t.split(at, end)
		}
		at.free.AndNot(nodes)
		if at.end == end {
			after = at.next
			break
		}
	}
	t.merge(before, after)
}

// split cuts an interval at an instant.
func (t *Table) split(i *interval, at int64) {
	i.next = &interval{begin: at, end: i.end, free: i.free.Clone(), next: i.next}
	i.end = at
	t.records++
}

// merge joins the first two neighbours with the same free nodes.
func (t *Table) merge(from, to *interval) {
	for i := from; i != to && i.next != nil; i = i.next {
		if i.free.Equal(i.next.free) {
			i.end, i.next = i.next.end, i.next.next
			return
		}
	}
}
