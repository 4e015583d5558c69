// Package weights has the weights of nodes: lighter nodes are chosen first.
package weights

import (
	"math/bits"
	"slices"

	"rmreplay/internal/rm/nodeset"
)

// Weights are the weights of nodes. Tests change them, and slurmctld keeps them between tests: a test for
// a job with GRES changes the lowest byte.
type Weights struct {
	all []uint64
	low []uint64 // the lowest bytes of all, eight to a word, so that sets of nodes are quickly read and compared
}

// New returns weights of 0 for a number of nodes.
func New(nodes int) Weights {
	return Weights{make([]uint64, nodes), make([]uint64, len(nodeset.New(nodes))*8)}
}

// All returns the weights of all nodes. The caller must not change them.
func (w *Weights) All() []uint64 { return w.all }

// Of returns the weight of a node.
func (w *Weights) Of(node int) uint64 { return w.all[node] }

// Put sets the weight of a node.
func (w *Weights) Put(node int, weight uint64) {
	w.all[node] = weight
	shift := node % 8 * 8
	w.low[node/8] = w.low[node/8]&^(0xff<<shift) | weight&0xff<<shift
}

// PutLow sets the lowest byte of a node's weight.
func (w *Weights) PutLow(node int, low uint8) { w.Put(node, w.all[node]&^0xff|uint64(low)) }

// Clear sets all weights to 0.
func (w *Weights) Clear() {
	clear(w.all)
	clear(w.low)
}

// AppendLow appends the lowest bytes of the weights of the nodes that two sets have in common. Two lists for the
// same sets are equal if all these bytes are.
func (w *Weights) AppendLow(to []uint64, set, other nodeset.Set) []uint64 {
	at := len(to)
	to = slices.Grow(to, len(w.low))[:at+len(w.low)]
	for k, nodes := range set {
		if nodes &= other[k]; nodes == 0 {
			continue
		}
		for b, low := range w.low[k*8 : k*8+8] {
			to[at] = low & bytes[uint8(nodes>>(b*8))]
			at++
		}
	}
	return to[:at]
}

// SetLow sets the lowest bytes of weights to those of a list of AppendLow for the same sets.
func (w *Weights) SetLow(set, other nodeset.Set, list []uint64) {
	for k, nodes := range set {
		if nodes &= other[k]; nodes == 0 {
			continue
		}
		for b := range 8 {
			low := &w.low[k*8+b]
			for changed := (*low ^ list[b]) & bytes[uint8(nodes>>(b*8))]; changed != 0; {
				n := bits.TrailingZeros64(changed) / 8
				w.PutLow(k*64+b*8+n, uint8(list[b]>>(n*8)))
				changed &^= 0xff << (n * 8)
			}
		}
		list = list[8:]
	}
}

// bytes has for each set of eight nodes a word with all bits of these nodes' bytes.
var bytes = func() (words [256]uint64) {
	for set := range words {
		for n := range 8 {
			words[set] |= uint64(set) >> n & 1 * 0xff << (n * 8)
		}
	}
	return words
}()
