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

// Bookings are the intervals in which nodes are reserved, sorted by their beginnings. Where
// reservations of a node overlap or touch, the node has a single booking.
type Bookings []booking

type booking struct {
	span
	nodes map[string]bool
	first map[string]bool // the booking's nodes that have no earlier booking
}

type span struct{ begin, end hpc.Time }

// Book makes bookings from reservations. It sorts the list.
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

// NextEnd returns the first instant at which nodes stop being reserved; [hpc.Never] if there is none.
func (b Bookings) NextEnd() hpc.Time {
	next := hpc.Never
	for i := range b {
		next = min(next, b[i].end)
	}
	return next
}

// Count counts the nodes in service among the given nodes: all is their total number, and uses
// their number in each pool.
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

// Overlaps returns, as negative numbers, the nodes of a running job that are also reserved, whether
// the reservation is the job's own or begins later. The job already counts these nodes
// ([ioaware.Running]).
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
