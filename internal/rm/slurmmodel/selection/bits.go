package selection

import "math/bits"

// Bits is a set of nodes by their indices.
type Bits []uint64

// NewBits returns an empty set for n nodes.
func NewBits(n int) Bits { return make(Bits, (n+63)/64) }

// Has reports whether node i is in the set.
func (b Bits) Has(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }

// Set adds node i.
func (b Bits) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Clear removes node i.
func (b Bits) Clear(i int) { b[i>>6] &^= 1 << (i & 63) }

// Reset removes all nodes.
func (b Bits) Reset() { clear(b) }

// Count returns the number of nodes.
func (b Bits) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// Clone returns a copy.
func (b Bits) Clone() Bits { return append(Bits(nil), b...) }

// And removes the nodes that are not in other.
func (b Bits) And(other Bits) {
	for i, w := range other {
		b[i] &= w
	}
}

// AndNot removes the nodes of other.
func (b Bits) AndNot(other Bits) {
	for i, w := range other {
		b[i] &^= w
	}
}

// Or adds the nodes of other.
func (b Bits) Or(other Bits) {
	for i, w := range other {
		b[i] |= w
	}
}

// Overlaps reports whether the sets have a node in common.
func (b Bits) Overlaps(other Bits) bool {
	for i, w := range other {
		if b[i]&w != 0 {
			return true
		}
	}
	return false
}

// CountAnd returns how many nodes the sets have in common.
func (b Bits) CountAnd(other Bits) int {
	n := 0
	for i, w := range other {
		n += bits.OnesCount64(b[i] & w)
	}
	return n
}

// Contains reports whether all nodes of other are in the set.
func (b Bits) Contains(other Bits) bool {
	for i, w := range other {
		if w&^b[i] != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether the sets are the same.
func (b Bits) Equal(other Bits) bool {
	for i, w := range other {
		if b[i] != w {
			return false
		}
	}
	return true
}

// Next returns the first node at or after i, or -1.
func (b Bits) Next(i int) int {
	if i>>6 >= len(b) {
		return -1
	}
	if w := b[i>>6] >> (i & 63); w != 0 {
		return i + bits.TrailingZeros64(w)
	}
	for k := i>>6 + 1; k < len(b); k++ {
		if b[k] != 0 {
			return k<<6 + bits.TrailingZeros64(b[k])
		}
	}
	return -1
}

// All calls yield for each node, in the order of the indices. It is an iterator.
func (b Bits) All(yield func(int) bool) {
	for i := b.Next(0); i >= 0; i = b.Next(i + 1) {
		if !yield(i) {
			return
		}
	}
}
