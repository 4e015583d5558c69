// Package packed keeps millions of plain structs in little memory: of each only the fields
// that are set, numbers in as few bytes as they need, and strings that come again and again
// in a table. A job of a log takes some thirty bytes instead of eight hundred.
//
// A record is the number of its shape, which says what fields are set, and then their
// values in the order of their declaration. Records of one source have few shapes, so that
// a number of one byte mostly does for a hundred fields, and whoever unpacks a record looks
// only at those that there are. What is in the table of strings shows by itself: a field of
// which most values are new, as names of jobs may be and their IDs are, is no longer looked
// up there.
//
// Records are in pieces of memory without a pointer in them, which the garbage collector
// does not have to look through.
package packed

import (
	"reflect"
	"strings"
	"unsafe"
)

// Ref says where a record is in its store.
type Ref uint64

// chunkSize is how many bytes of records are allocated at once.
const chunkSize = 64 << 10

// Store holds records of T, a struct, which may have fields of every kind but channels,
// functions, interfaces, arrays, and numbers with a fraction. A record does not change: who wants
// another one puts another one. So copies of a list of [Ref]s are as good as copies of
// what they stand for.
//
// Records may be read by several goroutines at once as long as nobody puts any.
type Store[T any] struct {
	chunks []*strings.Builder // each allocated once
	packer packer
	buf    []byte
}

// NewStore returns an empty store. It panics if T cannot be packed.
func NewStore[T any]() *Store[T] {
	return &Store[T]{packer: newPacker(reflect.TypeFor[T]())}
}

// Put keeps what v points to. Nothing of it is shared with the record but the memory of
// strings.
func (s *Store[T]) Put(v *T) Ref {
	s.buf = s.packer.append(s.buf[:0], s.packer.root, unsafe.Pointer(v))
	last := len(s.chunks) - 1
	if last < 0 || s.chunks[last].Cap()-s.chunks[last].Len() < len(s.buf) {
		chunk := new(strings.Builder)
		chunk.Grow(max(chunkSize, len(s.buf)))
		s.chunks = append(s.chunks, chunk)
		last++
	}
	ref := Ref(last)<<32 | Ref(s.chunks[last].Len())
	s.chunks[last].Write(s.buf)
	return ref
}

// Get makes *v the record. Maps and slices in it are new ones, and the caller's; strings are
// part of the store's memory. The structs that *v points to are written over to be used
// again: to get one record after the other into the same variable takes no new memory. Those
// of a zero *v are new ones.
func (s *Store[T]) Get(ref Ref, v *T) {
	r := reader{packer: &s.packer, in: s.chunks[ref>>32].String()[ref&0xffffffff:]}
	for i, f := range s.packer.structs {
		r.spare[i] = *(*unsafe.Pointer)(f.at(unsafe.Pointer(v)))
	}
	var zero T
	*v = zero
	r.record(s.packer.root, unsafe.Pointer(v))
}
