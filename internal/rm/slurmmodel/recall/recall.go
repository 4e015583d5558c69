// Package recall stores the answers to questions that are asked again and again.
package recall

import (
	"math/bits"
	"slices"
)

// Table has answers to questions. A question is a list of words; it must contain all that the
// answer depends on. The zero value is an empty table.
type Table[A any] struct {
	// The entries are in blocks, so that the list grows without being copied. Clear keeps the
	// blocks for reuse.
	blocks []*[perBlock]entry[A]
	known  int // number of valid entries
	// newest has the number of each slot's newest entry. It is invalid if there is no such entry,
	// or the entry has another slot.
	newest []int32
}

type entry[A any] struct {
	question []uint64
	slot     int32
	next     int32 // the previous entry of the slot; -1 if there is none
	answer   A
}

const (
	perBlock = 64
	slots    = 1 << 13
)

// Len returns how many answers the table has.
func (t *Table[A]) Len() int { return t.known }

// Clear removes all answers. Their memory is reused.
func (t *Table[A]) Clear() { t.known = 0 }

// Find returns the answer to a question. If isNew, the answer still has the values of an answer
// that Clear removed: the caller must overwrite them, and may reuse their slices. Find copies the
// question.
func (t *Table[A]) Find(question []uint64) (answer *A, isNew bool) {
	if t.newest == nil {
		t.newest = make([]int32, slots)
	}
	slot := int32(hash(question) % slots)
	newest := t.newest[slot]
	if int(newest) >= t.known || t.at(newest).slot != slot {
		newest = -1
	}
	for at := newest; at >= 0; {
		e := t.at(at)
		if slices.Equal(e.question, question) {
			return &e.answer, false
		}
		at = e.next
	}
	if t.known == len(t.blocks)*perBlock {
		t.blocks = append(t.blocks, new([perBlock]entry[A]))
	}
	number := int32(t.known)
	e := t.at(number)
	e.question = append(e.question[:0], question...)
	e.slot, e.next, t.newest[slot] = slot, newest, number
	t.known++
	return &e.answer, true
}

// Append appends small numbers to a question, four in each word. The parameter first is the first
// word; it has room for further numbers, as many as the parameter free says.
func Append(question []uint64, first uint64, free int, numbers []int16) []uint64 {
	for _, n := range numbers {
		if free == 0 {
			question = append(question, first)
			first, free = 0, 4
		}
		first, free = first<<16|uint64(uint16(n)), free-1
	}
	return append(question, first)
}

// hash returns a question's hash. It is fast because no multiplication depends on an earlier one.
func hash(words []uint64) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	sum := uint64(len(words))
	for k := 1; k < len(words); k += 2 {
		high, low := bits.Mul64(words[k-1]^a, words[k]^b)
		sum = bits.RotateLeft64(sum, 7) ^ high ^ low
	}
	if n := len(words); n%2 != 0 {
		high, low := bits.Mul64(words[n-1]^a, b)
		sum = bits.RotateLeft64(sum, 7) ^ high ^ low
	}
	high, low := bits.Mul64(sum^a, b)
	return high ^ low
}

func (t *Table[A]) at(number int32) *entry[A] {
	n := uint32(number) // a division of unsigned numbers is a shift
	return &t.blocks[n/perBlock][n%perBlock]
}
