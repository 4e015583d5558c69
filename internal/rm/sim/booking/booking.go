// Package booking knows the nodes of reservations that begin later.
package booking

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
)

// Bookings are the nodes of reservations that began later than now when the stays of these nodes changed.
type Bookings struct {
	nodes, none nodeset.Set // none is empty
	count       int
	first, last hpc.Time // the first and the last beginning of all since there was none
}

// New returns no bookings of a number of nodes.
func New(nodes int) Bookings { return Bookings{nodes: nodeset.New(nodes), none: nodeset.New(nodes)} }

// Forget forgets all bookings.
func (b *Bookings) Forget() {
	b.nodes.Reset()
	b.count = 0
}

// Note notes the beginning of a node's first reservation; [hpc.Never] for none.
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

// Until returns nodes that have no room for a job from now until an instant, beside those in use now: if the job needs
// whole nodes, those that are reserved from an instant before on.
func (b *Bookings) Until(whole bool, now, end hpc.Time) nodeset.Set {
	if b.count > 0 && whole && now < b.first && b.last < end {
		return b.nodes
	}
	return b.none
}
