// Package booking records the nodes that have a reservation in the future.
package booking

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
)

// Bookings are the nodes with a reservation in the future. They are updated when a node's uses change, so the
// reservation of a node may have begun in the meantime.
type Bookings struct {
	nodes, none nodeset.Set // none is always empty
	count       int
	first, last hpc.Time // earliest and latest begin since Bookings were last empty
}

// New returns empty Bookings for a machine with a number of nodes.
func New(nodes int) Bookings { return Bookings{nodes: nodeset.New(nodes), none: nodeset.New(nodes)} }

// Forget removes all bookings.
func (b *Bookings) Forget() {
	b.nodes.Reset()
	b.count = 0
}

// Note records when a node's first future reservation begins; [hpc.Never] if it has none.
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

// Until returns nodes that are idle now but have reservations that begin too early for a job until the instant end. If
// the job needs whole nodes and all reservations begin between now and end, these are all booked nodes; otherwise the
// set is empty.
func (b *Bookings) Until(whole bool, now, end hpc.Time) nodeset.Set {
	if b.count > 0 && whole && now < b.first && b.last < end {
		return b.nodes
	}
	return b.none
}
