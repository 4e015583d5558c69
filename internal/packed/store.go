// Package packed stores millions of plain structs in little memory. It stores only the nonzero
// fields of each struct, and numbers in as few bytes as they need. Repeated strings are stored
// once, in a table. A job of a log takes about thirty bytes instead of eight hundred.
//
// A record is the number of its shape, and then the values of its nonzero fields in the order of their declaration. The
// shape says which fields are nonzero. Records of one source have few shapes, so the number of the shape mostly takes
// one byte. Unpacking visits only the nonzero fields. The packer decides which string fields belong in the table. The
// packer stops looking up the values of a field if most of them are new, as is common for job names and job IDs.
//
// Records are in chunks of memory without pointers, which the garbage collector does not scan.
package packed

import (
	"reflect"
	"strings"
	"unsafe"
)

// Ref is the position of a record in its store.
type Ref uint64

// chunkSize is the size of a chunk of records, in bytes.
const chunkSize = 64 << 10

// Store has records of T. T is a struct whose fields may have any kind except channels, functions, interfaces, arrays,
// float32 and complex numbers. A record never changes: to change it, put a new record. A copy of a list of [Ref]s is
// therefore as good as a copy of the records.
//
// Several goroutines may read records at the same time, but not while one of them calls Put.
type Store[T any] struct {
	chunks []*strings.Builder // each is allocated at its full size
	packer packer
	buf    []byte
}

// NewStore returns an empty store. It panics if T cannot be packed.
func NewStore[T any]() *Store[T] {
	return &Store[T]{packer: newPacker(reflect.TypeFor[T]())}
}

// Put stores a copy of *v. The copy shares only the memory of strings with *v.
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

// Get sets *v to the record. Maps and slices in it are new and belong to the caller. Strings are
// part of the store's memory. Get reuses the structs that *v points to, so reading many records
// into the same variable takes no new memory. If *v is zero, its structs are new.
func (s *Store[T]) Get(ref Ref, v *T) {
	r := reader{packer: &s.packer, in: s.chunks[ref>>32].String()[ref&0xffffffff:]}
	for i, f := range s.packer.structs {
		r.spare[i] = *(*unsafe.Pointer)(f.at(unsafe.Pointer(v)))
	}
	var zero T
	*v = zero
	r.record(s.packer.root, unsafe.Pointer(v))
}
