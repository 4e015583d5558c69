package driver

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// Reservation is a reservation of named nodes. End may be [hpc.Never].
type Reservation struct {
	Begin, End hpc.Time
	Nodes      []string
}

// Bookings are the intervals in which nodes are reserved, sorted by begin. If reservations of a
// node overlap or touch, the node has a single booking for all of them.
type Bookings []booking

type booking struct {
	span
	nodes map[string]bool
	first map[string]bool // the booking's nodes without an earlier booking
}

type span struct{ begin, end hpc.Time }

// Book makes bookings from reservations. It sorts list by begin.
func Book(list []Reservation) Bookings {
	slices.SortStableFunc(list, func(a, b Reservation) int { return cmp.Compare(a.Begin, b.Begin) })
	spans := map[string][]span{} // by node
	for i := range list {
		r := &list[i]
		for _, n := range r.Nodes {
			if last := len(spans[n]) - 1; last >= 0 && r.Begin <= spans[n][last].end {
				spans[n][last].end = max(spans[n][last].end, r.End)
				continue
			}
			spans[n] = append(spans[n], span{r.Begin, r.End})
		}
	}
	found := map[span]booking{}
	for n, times := range spans {
		for i, s := range times {
			b, known := found[s]
			if !known {
				b = booking{s, map[string]bool{}, map[string]bool{}}
				found[s] = b
			}
			b.nodes[n] = true
			if i == 0 {
				b.first[n] = true
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b booking) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
}

// NextEnd returns the first instant at which a booking ends; [hpc.Never] without bookings.
func (b Bookings) NextEnd() hpc.Time {
	next := hpc.Never
	for i := range b {
		next = min(next, b[i].end)
	}
	return next
}

// Count counts the given nodes that are in service: all is their number, and uses is their number
// in each pool.
type Count func(nodes iter.Seq[string]) (all int, uses map[string]int)

// Reserved returns the reserved nodes that are in service.
func (b Bookings) Reserved(count Count) []ioaware.Reserved {
	list := make([]ioaware.Reserved, len(b))
	for i := range b {
		list[i] = ioaware.Reserved{From: b[i].begin, Until: b[i].end}
		list[i].Nodes, list[i].Uses = count(maps.Keys(b[i].nodes))
		_, list[i].Idle = count(maps.Keys(b[i].first))
	}
	return list
}

// Overlaps returns, as negative numbers, the nodes of a running job that are also reserved, either
// by the job's own reservation or by a reservation that begins later. The job itself already
// counts these nodes ([ioaware.Running]).
func (b Bookings) Overlaps(nodes []string, count Count) (list []ioaware.Reserved) {
	for i := range b {
		in := func(set map[string]bool) iter.Seq[string] {
			return func(yield func(string) bool) {
				for _, n := range nodes {
					if set[n] && !yield(n) {
						return
					}
				}
			}
		}
		n, uses := count(in(b[i].nodes))
		if n == 0 {
			continue
		}
		_, idle := count(in(b[i].first))
		list = append(list, ioaware.Reserved{From: b[i].begin, Until: b[i].end, Nodes: -n, Uses: negative(uses),
			Idle: negative(idle)})
	}
	return list
}

func negative(counts map[string]int) map[string]int {
	for name := range counts {
		counts[name] = -counts[name]
	}
	return counts
}
