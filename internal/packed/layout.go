package packed

import (
	"fmt"
	"reflect"
	"unsafe"
)

// layout describes the fields of a record's type.
type layout struct {
	fields []field
	words  []word
	id     int // index among the layouts of a packer
}

// word is eight bytes of a record, with the fields that are zero if all these bytes are 0. Most
// words are
// 0. Checking each field instead would take most of the time of packing.
type word struct {
	offset      uintptr
	first, last int32 // the fields first ≤ i < last
	partial     bool  // the record ends within the word, so the packer must not read it as a word
	whole       bool  // the word is one field, which is zero if the word is 0
}

// field is a value at an offset in a record. The fields of a nested struct are fields of the
// outer struct.
type field struct {
	offset uintptr
	kind   kind
	typ    reflect.Type
	elem   *layout // the layout of the elements of a pointer, a slice or a map
	key    *layout // the layout of a map's keys
	number int     // index among the fields of all layouts of a packer
	spare  int     // for a pointer to a struct in the root: index among these pointers, from 1
}

// kind says how a field is packed.
type kind uint8

const (
	flag kind = iota // a bool; it is true if the field is present
	integer8
	integer16
	integer32
	integer64
	unsigned8
	unsigned16
	unsigned32
	unsigned64
	text
	pointer
	list
	table
)

var kinds = map[reflect.Kind]kind{
	reflect.Bool: flag, reflect.String: text, reflect.Pointer: pointer, reflect.Slice: list, reflect.Map: table,
	reflect.Int8: integer8, reflect.Int16: integer16, reflect.Int32: integer32, reflect.Int64: integer64,
	reflect.Int:   integer64,
	reflect.Uint8: unsigned8, reflect.Uint16: unsigned16, reflect.Uint32: unsigned32, reflect.Uint64: unsigned64,
	reflect.Uint: unsigned64, reflect.Float64: unsigned64, // a float is packed as its bits
}

// maxFields is the maximum number of fields of a record.
const maxFields = 64 * len(shape{})

// newLayout adds the layout of a type and the layouts of the types in it.
func (p *packer) newLayout(t reflect.Type) *layout {
	if known := p.layouts[t]; known != nil {
		return known
	}
	l := &layout{id: len(p.layouts)}
	p.layouts[t] = l
	p.shapes = append(p.shapes, shapes{known: map[shape]int{}})
	p.addFields(l, t, 0)
	l.addWords(t.Size())
	if len(l.fields) > maxFields {
		panic(fmt.Sprintf("packed: %s has more than %d fields", t, maxFields))
	}
	return l
}

// addFields adds the fields of a value at an offset in a record.
func (p *packer) addFields(l *layout, t reflect.Type, offset uintptr) {
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			p.addFields(l, t.Field(i).Type, offset+t.Field(i).Offset)
		}
		return
	}
	k, ok := kinds[t.Kind()]
	if !ok {
		panic(fmt.Sprintf("packed: %s cannot be packed", t))
	}
	f := field{offset: offset, kind: k, typ: t, number: p.fields}
	p.fields++
	l.fields = append(l.fields, f)
	last := &l.fields[len(l.fields)-1]
	switch k {
	case pointer, list:
		last.elem = p.newLayout(t.Elem())
	case table:
		last.key, last.elem = p.newLayout(t.Key()), p.newLayout(t.Elem())
	}
}

// addWords divides a record of the given size into words.
func (l *layout) addWords(size uintptr) {
	const bytes = 8
	for i := range l.fields {
		f := &l.fields[i]
		offset := f.shows() / bytes * bytes
		if n := len(l.words); n > 0 && l.words[n-1].offset == offset {
			l.words[n-1].last = int32(i + 1)
			continue
		}
		whole := f.kind == text || f.typ.Size() >= bytes
		l.words = append(l.words, word{offset, int32(i), int32(i + 1), offset+bytes > size, whole})
	}
}

// shows returns the offset of bytes that are not 0 if the field is set. For a string these are its
// length, because an empty string may have any pointer.
func (f *field) shows() uintptr {
	if f.kind == text {
		return f.offset + unsafe.Sizeof(uintptr(0))
	}
	return f.offset
}

// set is a field of a shape. It repeats two values of the field that packing needs most often, so that they are close
// together in memory.
type set struct {
	offset uintptr
	kind   kind
	*field
}

// at returns the address of the field in a record.
func (f *field) at(record unsafe.Pointer) unsafe.Pointer { return unsafe.Add(record, f.offset) }

// value returns the field of a record. It uses package reflect, for rare kinds of fields.
func (f *field) value(record unsafe.Pointer) reflect.Value {
	return reflect.NewAt(f.typ, f.at(record)).Elem()
}

// isSet reports whether a field is not zero.
func (f *field) isSet(record unsafe.Pointer) bool {
	at := f.at(record)
	switch f.kind {
	case flag, integer8, unsigned8:
		return *(*uint8)(at) != 0
	case integer16, unsigned16:
		return *(*uint16)(at) != 0
	case integer32, unsigned32:
		return *(*uint32)(at) != 0
	case integer64, unsigned64:
		return *(*uint64)(at) != 0
	case text:
		return *(*string)(at) != ""
	}
	return *(*unsafe.Pointer)(at) != nil // the pointer, or the first word of a slice or map
}

// shape says which fields of a record are set: bit i is 1 if field i is set.
type shape [3]uint64

// shapes are the shapes of the records that were packed with a layout.
type shapes struct {
	list   [][]set // the fields of each shape
	known  map[shape]int
	last   shape // the shape of the last record
	number int   // the index of last
}

// shape says which fields of a record are set.
func (l *layout) shape(record unsafe.Pointer) (s shape) {
	for w := range l.words {
		word := &l.words[w]
		if !word.partial && *(*uint64)(unsafe.Add(record, word.offset)) == 0 {
			continue
		}
		if word.whole {
			s[word.first/64] |= 1 << (word.first % 64)
			continue
		}
		for i := word.first; i < word.last; i++ {
			if l.fields[i].isSet(record) {
				s[i/64] |= 1 << (i % 64)
			}
		}
	}
	return s
}

// shapeOf returns the number of a record's shape, and its fields.
func (p *packer) shapeOf(l *layout, record unsafe.Pointer) (int, []set) {
	s := l.shape(record)
	all := &p.shapes[l.id]
	if s != all.last || len(all.list) == 0 {
		number, known := all.known[s]
		if !known {
			number = len(all.list)
			all.known[s] = number
			all.list = append(all.list, l.with(s))
		}
		all.last, all.number = s, number
	}
	return all.number, all.list[all.number]
}

// with returns the fields of a shape.
func (l *layout) with(s shape) []set {
	list := []set{}
	for i := range l.fields {
		if f := &l.fields[i]; s[i/64]&(1<<(i%64)) != 0 {
			list = append(list, set{f.offset, f.kind, f})
		}
	}
	return list
}
