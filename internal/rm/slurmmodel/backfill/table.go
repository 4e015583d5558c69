// Package backfill has the table of Slurm's backfill scheduler (node_space in src/plugins/sched/backfill/backfill.c).
// For each interval of the window, the table has the nodes that are not planned for a job. The table leaves out running
// jobs, which package selection considers.
package backfill

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// Table is the plan of one cycle. All instants are in seconds since 1970.
type Table struct {
	begin int64   // when the window begins
	ends  []int64 // the ends of the intervals, in order; each interval begins where the one before ends
	// free has the intervals' free nodes: first by word of the sets, then by interval. Most questions are about
	// many intervals, and most machines have few words.
	free [][]uint64
	// records counts all intervals made in this cycle, also those that were merged later. slurmctld compares
	// this number with bf_node_space_size.
	records    int
	resolution int64
	// Beyond is true for 24.11 and later: if no nodes become free before a job's planned end, the next try begins
	// at the end of the interval after the next.
	Beyond bool
	// Up is true for 24.11 and later: ends of reservations are rounded up.
	Up bool

	all       selection.Bits // the set that Restrict was last called with
	set, able selection.Bits // buffers of Skip
	now       int64
	known     [8]restricted // results of Restrict for a start now; valid until the next reservation
}

// restricted is a result of Restrict, with its arguments.
type restricted struct {
	in, out    selection.Bits
	end, later int64
	valid      bool
}

// New returns a table that begins at the instant now, rounded down to the resolution, and ends
// after as many seconds as the window has. The nodes of the set free are free in the whole window.
func New(now, window, resolution int64, free selection.Bits) *Table {
	t := &Table{}
	t.Begin(now, window, resolution, free)
	return t
}

// Begin begins a new cycle as [New] does. It reuses the table's memory.
func (t *Table) Begin(now, window, resolution int64, free selection.Bits) {
	t.begin, t.ends = now/resolution*resolution, append(t.ends[:0], (now+window)/resolution*resolution)
	for len(t.free) < len(free) {
		t.free = append(t.free, nil)
	}
	for w := range free {
		t.free[w] = append(t.free[w][:0], free[w])
	}
	t.records, t.resolution = 1, resolution
	t.now, t.all = now, append(t.all[:0], free...)
	t.set, t.able = append(t.set[:0], free...), append(t.able[:0], free...)
	t.forget()
	for k := range t.known {
		t.known[k].in, t.known[k].out = append(t.known[k].in[:0], free...), append(t.known[k].out[:0], free...)
	}
}

// End returns the end of the window.
func (t *Table) End() int64 { return t.ends[len(t.ends)-1] }

// Records returns how many intervals the table has made in this cycle.
func (t *Table) Records() int { return t.records }

// endsAfter returns the index of the first interval that ends after an instant.
func (t *Table) endsAfter(at int64) int {
	low, high := 0, len(t.ends)
	for low < high {
		if middle := int(uint(low+high) / 2); t.ends[middle] > at {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// beginOf returns when an interval begins.
func (t *Table) beginOf(k int) int64 {
	if k == 0 {
		return t.begin
	}
	return t.ends[k-1]
}

// and removes from a set the nodes that are not free in the interval with the index k.
func (t *Table) and(set selection.Bits, k int) {
	for w := range set {
		set[w] &= t.free[w][k]
	}
}

// Restrict removes from a set the nodes that are planned for a job at some time between the
// instants start and end. The result later is the next instant at which more nodes of the set are
// free; 0 for never.
func (t *Table) Restrict(set selection.Bits, start, end int64) (later int64) {
	copy(t.all, set)
	if start != t.now { // each job first asks for a start now; other starts rarely repeat
		return t.restrict(t.all, set, start, end)
	}
	known := &t.known[uint64(end)*0x9e3779b97f4a7c15>>61]
	if known.valid && known.end == end && known.in.Equal(set) {
		copy(set, known.out)
		return known.later
	}
	copy(known.in, set)
	later = t.restrict(known.in, set, start, end)
	copy(known.out, set)
	known.end, known.later, known.valid = end, later, true
	return later
}

// Skip skips tries that would find too few nodes. A try at t needs as many nodes as the parameter least says, which are
// free from t to t+span. The nodes must be in able and in the set that Restrict was last called with. Skip returns the
// instant of the first try, from the instant first on, that finds enough nodes. If no try finds enough nodes, Skip
// returns the instant of the last try.
func (t *Table) Skip(able selection.Bits, least int, first, span int64) int64 {
	copy(t.able, t.all)
	t.able.And(able)
	for at, lacking := t.endsAfter(first), -1; first > 0; {
		if at > lacking {
			if lacking = t.lacks(at, first+span, least); lacking < 0 {
				break
			}
		}
		if at = t.next(at, first+span); at < 0 {
			break
		}
		first = t.ends[at-1]
	}
	return first
}

// lacks returns an index k: every try that begins in one of the intervals from index at to index k fails. A try fails
// if fewer nodes of t.able than the parameter least says are free until the instant end. The result is -1 if a try that
// begins in the interval with the index at succeeds.
func (t *Table) lacks(at int, end int64, least int) int {
	copy(t.set, t.able)
	for k := at; k < len(t.ends) && t.beginOf(k) <= end; k++ {
		if t.and(t.set, k); t.set.Count() >= least {
			continue
		}
		for copy(t.set, t.able); k > at; k-- {
			if t.and(t.set, k); t.set.Count() < least {
				break
			}
		}
		return k
	}
	return -1
}

// next returns the index of the next interval with a free node that is not free in the interval before. It
// looks at intervals until the instant end, and returns -1 if it finds no such interval.
func (t *Table) next(at int, end int64) int {
	for k, last := at, len(t.ends)-1; k < last; k++ {
		for w, all := range t.all {
			if all&t.free[w][k+1]&^t.free[w][k] != 0 {
				return k + 1
			}
		}
		if t.beginOf(k) > end {
			if t.Beyond && k+1 < last {
				return k + 2
			}
			break
		}
	}
	return -1
}

// forget drops the stored results of Restrict.
func (t *Table) forget() {
	for k := range t.known {
		t.known[k].valid = false
	}
}

func (t *Table) restrict(all, set selection.Bits, start, end int64) (later int64) {
	from := t.endsAfter(start)
	until := from
	for until < len(t.ends) && t.beginOf(until) <= end {
		until++
	}
	grows := min(until, len(t.ends)-2) + 1 // the first interval after which more nodes are free
	last := grows
	for w, all := range all {
		free, rest, k := t.free[w], set[w], from
		for ; k < grows; k++ {
			left := rest & free[k]
			if all&free[k+1]&^left != 0 {
				grows = k
			}
			if k < until {
				rest = left
			}
		}
		for ; k < until && rest != 0; k++ {
			rest &= free[k]
		}
		set[w] = rest
	}
	switch {
	case grows < last:
		return t.ends[grows]
	case t.Beyond && until+2 < len(t.ends):
		return t.ends[until+1]
	}
	return 0
}

// Conflicts reports whether one of the nodes is planned for another job between the instants start
// and end.
func (t *Table) Conflicts(nodes selection.Bits, start, end int64) bool {
	from := t.endsAfter(start)
	until := from
	for until < len(t.ends) && t.beginOf(until) < end {
		until++
	}
	for w, nodes := range nodes {
		for k := from; k < until && nodes != 0; k++ {
			if nodes&^t.free[w][k] != 0 {
				return true
			}
		}
	}
	return false
}

// Planned returns the first instant from which one of the nodes is planned for a job, if it lies
// between the instants after and before (both excluded); 0 if there is no such instant.
func (t *Table) Planned(nodes selection.Bits, after, before int64) int64 {
	for k := range t.ends {
		for w := 0; w < len(nodes) && t.beginOf(k) > after && t.beginOf(k) < before; w++ {
			if nodes[w]&^t.free[w][k] != 0 {
				return t.beginOf(k)
			}
		}
	}
	return 0
}

// Round rounds an instant down to a multiple of the resolution.
func (t *Table) Round(second int64) int64 { return second / t.resolution * t.resolution }

// RoundEnd rounds the end of a reservation: down or, with Up, up.
func (t *Table) RoundEnd(second int64) int64 {
	if t.Up {
		second += t.resolution - 1
	}
	return t.Round(second)
}

// Reserve plans nodes from start to end, which are multiples of the resolution.
func (t *Table) Reserve(nodes selection.Bits, start, end int64) {
	t.forget()
	start = max(start, t.begin)
	end = max(end, start+t.resolution)
	at := t.endsAfter(start - 1)
	if at == len(t.ends) {
		return
	}
	before := max(at-1, 0)
	if t.ends[at] > start {
		t.split(at, start)
	}
	after := len(t.ends) + 1 // beyond the list, if end is after the window
	for at++; at < len(t.ends); at++ {
		if end < t.ends[at] {
			t.split(at, end)
		}
		for w, nodes := range nodes {
			t.free[w][at] &^= nodes
		}
		if t.ends[at] == end {
			after = at + 1
			break
		}
	}
	t.merge(before, after)
}

// split divides an interval into two at an instant.
func (t *Table) split(k int, at int64) {
	t.ends = slices.Insert(t.ends, k, at)
	for w, free := range t.free {
		t.free[w] = slices.Insert(free, k, free[k])
	}
	t.records++
}

// merge joins the first two neighbouring intervals of a range that have the same free nodes.
func (t *Table) merge(from, to int) {
	for k := from; k != to && k+1 < len(t.ends); k++ {
		if !slices.ContainsFunc(t.free, func(free []uint64) bool { return free[k] != free[k+1] }) {
			t.ends = slices.Delete(t.ends, k, k+1)
			for w, free := range t.free {
				t.free[w] = slices.Delete(free, k, k+1)
			}
			return
		}
	}
}
