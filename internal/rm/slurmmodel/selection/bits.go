package selection

import "rmreplay/internal/rm/nodeset"

// Bits is a set of nodes of a machine.
type Bits = nodeset.Set

// NewBits returns an empty set for n nodes.
func NewBits(n int) Bits { return nodeset.New(n) }
