// Package booking keeps the nodes that have a reservation in the future.
package booking

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
)

// Bookings are the nodes with a reservation in the future. A node is noted when its uses change;
// its reservation may have begun since.
type Bookings struct {
	nodes, none nodeset.Set // none is empty
	count       int
	first, last hpc.Time // the earliest and the latest begin noted since the last time without bookings
}

// New returns empty Bookings for a machine with a number of nodes.
func New(nodes int) Bookings { return Bookings{nodes: nodeset.New(nodes), none: nodeset.New(nodes)} }

// Forget forgets all bookings.
func (b *Bookings) Forget() {
	b.nodes.Reset()
	b.count = 0
}

// Note notes when a node's first reservation begins; [hpc.Never] if it has none.
func (b *Bookings) Note(node int, begin hpc.Time) {
	in, was := begin != hpc.Never, b.nodes.Has(node)
	if !in && !was {
		return
	}
	if b.nodes.Put(node, in); !in {
		b.count--
		return
	}
	if b.count == 0 {
		b.first, b.last = begin, begin
	}
	if b.first, b.last = min(b.first, begin), max(b.last, begin); !was {
		b.count++
	}
}

// Until returns nodes that are idle now, but on which a job that runs until end does not fit. If
// the job needs whole nodes, these are the nodes with a reservation that begins before end. The set
// is empty if the job shares nodes, or if this is not certain.
func (b *Bookings) Until(whole bool, now, end hpc.Time) nodeset.Set {
	if b.count > 0 && whole && now < b.first && b.last < end {
		return b.nodes
	}
	return b.none
}
