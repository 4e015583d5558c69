// Package nodeset has sets of nodes. A node is its index in a list.
package nodeset

import "math/bits"

// Set is a set of nodes: bit i%64 of word i/64 is node i. All sets of a machine have the same length.
type Set []uint64

// New returns an empty set for n nodes.
func New(n int) Set { return make(Set, (n+63)/64) }

// Has reports whether node i is in the set.
func (b Set) Has(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }

// Set adds node i.
func (b Set) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Clear removes node i.
func (b Set) Clear(i int) { b[i>>6] &^= 1 << (i & 63) }

// Put adds node i if the parameter in is true, and removes it otherwise.
func (b Set) Put(i int, in bool) {
	if in {
		b.Set(i)
	} else {
		b.Clear(i)
	}
}

// Sparse is a set of few nodes: the words of a [Set] that are not 0.
type Sparse []word

// word is a word of a set.
type word struct {
	at   int
	bits uint64
}

// Sparse returns the set as a Sparse.
func (b Set) Sparse() (s Sparse) {
	for i, w := range b {
		if w != 0 {
			s = append(s, word{i, w})
		}
	}
	return s
}

// Overlaps reports whether the sets have a node in common.
func (s Sparse) Overlaps(set Set) bool {
	for _, w := range s {
		if set[w.at]&w.bits != 0 {
			return true
		}
	}
	return false
}

// Reset removes all nodes.
func (b Set) Reset() { clear(b) }

// Count returns the number of nodes.
func (b Set) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// Clone returns a copy.
func (b Set) Clone() Set { return append(Set(nil), b...) }

// And removes the nodes that the other set lacks.
func (b Set) And(other Set) {
	for i, w := range other {
		b[i] &= w
	}
}

// AndNot removes the nodes of the other set.
func (b Set) AndNot(other Set) {
	for i, w := range other {
		b[i] &^= w
	}
}

// Or adds the nodes of the other set.
func (b Set) Or(other Set) {
	for i, w := range other {
		b[i] |= w
	}
}

// Overlaps reports whether the sets have a node in common.
func (b Set) Overlaps(other Set) bool {
	for i, w := range other {
		if b[i]&w != 0 {
			return true
		}
	}
	return false
}

// CountAnd returns how many nodes the sets have in common.
func (b Set) CountAnd(other Set) int {
	n := 0
	for i, w := range other {
		n += bits.OnesCount64(b[i] & w)
	}
	return n
}

// Contains reports whether the set has all nodes of the other set.
func (b Set) Contains(other Set) bool {
	for i, w := range other {
		if w&^b[i] != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether the sets have the same nodes.
func (b Set) Equal(other Set) bool {
	for i, w := range other {
		if b[i] != w {
			return false
		}
	}
	return true
}

// Hash returns a hash value of the set. It mixes the words of a large set in four independent sums,
// because the processor then computes with four words at once.
func (b Set) Hash() uint64 {
	const prime = 0x9e3779b97f4a7c15
	var sums [4]uint64
	for ; len(b) >= 4; b = b[4:] {
		for k, w := range b[:4] {
			sums[k] = bits.RotateLeft64((sums[k]^w)*prime, 31)
		}
	}
	sum := uint64(0)
	for _, list := range [...][]uint64{sums[:], b} {
		for _, w := range list {
			sum = (sum ^ w) * prime
			sum ^= sum >> 29
		}
	}
	return sum
}

// Next returns the first node at or after i, or -1.
func (b Set) Next(i int) int {
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

// NextAnd returns the first node at or after i that is in both sets, or -1.
func (b Set) NextAnd(other Set, i int) int {
	for k := i >> 6; k < len(b); k++ {
		w := b[k] & other[k]
		if k == i>>6 {
			w = w >> (i & 63) << (i & 63)
		}
		if w != 0 {
			return k<<6 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// All calls the function yield for each node, in the order of the indices. It is an iterator.
// yield may remove its node from the set, but must not remove a later node.
func (b Set) All(yield func(int) bool) {
	for k, w := range b {
		for ; w != 0; w &= w - 1 {
			if !yield(k<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}
