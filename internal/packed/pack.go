package packed

import (
	"encoding/binary"
	"reflect"
	"strings"
	"unsafe"
)

// packer packs the records of a store.
type packer struct {
	root    *layout
	structs []*field // pointers to structs in the root; at most spares of them
	layouts map[reflect.Type]*layout
	fields  int      // number of fields in all layouts
	shapes  []shapes // by layout
	columns []column // by field
	strings []string // table of repeated strings
	places  map[string]int
	recent  [64]place // cache for find
}

// place is the index of a string in the table of repeated strings.
type place struct {
	of string
	at int
}

// find looks a string up in the table. Successive records mostly have the same string at the same
// address, and comparing addresses is faster than comparing texts.
func (p *packer) find(s string) (at int, known bool) {
	start := unsafe.StringData(s)
	recent := &p.recent[(uintptr(unsafe.Pointer(start))>>3^uintptr(len(s)))%uintptr(len(p.recent))]
	if unsafe.StringData(recent.of) == start && len(recent.of) == len(s) {
		return recent.at, true
	}
	if at, known = p.places[s]; known {
		*recent = place{s, at}
	}
	return at, known
}

// column decides whether the packer looks up the values of a string field in the table of repeated
// strings.
type column struct {
	looked, found int
	off           bool
}

func newPacker(t reflect.Type) packer {
	p := packer{layouts: map[reflect.Type]*layout{}, places: map[string]int{}}
	p.root = p.newLayout(t)
	p.columns = make([]column, p.fields)
	for i := range p.root.fields {
		f := &p.root.fields[i]
		if f.kind == pointer && f.typ.Elem().Kind() == reflect.Struct && len(p.structs) < spares {
			p.structs = append(p.structs, f)
			f.spare = len(p.structs)
		}
	}
	return p
}

// append packs a record and appends it to b.
func (p *packer) append(b []byte, l *layout, record unsafe.Pointer) []byte {
	number, fields := p.shapeOf(l, record)
	b = binary.AppendUvarint(b, uint64(number))
	for i := range fields {
		f := &fields[i]
		at := unsafe.Add(record, f.offset)
		switch f.kind {
		case flag:
		case integer8:
			b = appendInteger(b, int64(*(*int8)(at)))
		case integer16:
			b = appendInteger(b, int64(*(*int16)(at)))
		case integer32:
			b = appendInteger(b, int64(*(*int32)(at)))
		case integer64, unsigned64:
			b = appendInteger(b, *(*int64)(at))
		case unsigned8:
			b = appendInteger(b, int64(*(*uint8)(at)))
		case unsigned16:
			b = appendInteger(b, int64(*(*uint16)(at)))
		case unsigned32:
			b = appendInteger(b, int64(*(*uint32)(at)))
		case text:
			b = p.appendString(b, *(*string)(at), &p.columns[f.number])
		case pointer:
			b = p.append(b, f.elem, *(*unsafe.Pointer)(at))
		case list:
			b = p.appendList(b, f.field, f.value(record))
		case table:
			b = p.appendTable(b, f.field, f.value(record))
		}
	}
	return b
}

// A number x is packed as the varint of 2z. z is x with its sign moved to the lowest bit (zigzag encoding). Most large
// numbers are times and durations in nanoseconds that are whole seconds. A number of whole seconds is packed as 2z+1,
// where z is made from the number of seconds. 0 is always packed as 0, so the code 1 is free. The code 1 precedes
// numbers that fit neither form.
const (
	second     = 1e9
	unscalable = 1
)

// appendInteger packs a number and appends it to b.
func appendInteger(b []byte, x int64) []byte {
	scaled := uint64(0)
	if x%second == 0 && x != 0 {
		x, scaled = x/second, 1
	}
	z := uint64(x)<<1 ^ uint64(x>>63)
	if z >= 1<<63 {
		return binary.LittleEndian.AppendUint64(append(b, unscalable), uint64(x))
	}
	return binary.AppendUvarint(b, z<<1|scaled)
}

const (
	// trial is how many values of a column are always looked up.
	trial = 256
	// Later values are looked up if at least 1/repeated of the column's values were in the table.
	repeated = 2
)

// appendString packs a string as 2i if it is string i of the table; otherwise it packs 2n+1 and the n bytes of the
// string.
func (p *packer) appendString(b []byte, s string, c *column) []byte {
	if !c.off {
		c.looked++
		i, known := p.find(s)
		if known {
			c.found++
			return binary.AppendUvarint(b, uint64(i)<<1)
		}
		if c.off = c.looked > trial && c.found < c.looked/repeated; !c.off {
			i = len(p.strings)
			s = strings.Clone(s) // s may be part of a large string
			p.strings, p.places[s] = append(p.strings, s), i
			return binary.AppendUvarint(b, uint64(i)<<1)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s))<<1|1)
	return append(b, s...)
}

// appendList packs a slice: the number of its elements, and the elements.
func (p *packer) appendList(b []byte, f *field, v reflect.Value) []byte {
	b = binary.AppendUvarint(b, uint64(v.Len()))
	for i := range v.Len() {
		b = p.append(b, f.elem, v.Index(i).Addr().UnsafePointer())
	}
	return b
}

// appendTable packs a map: the number of its entries, and the entries.
func (p *packer) appendTable(b []byte, f *field, v reflect.Value) []byte {
	b = binary.AppendUvarint(b, uint64(v.Len()))
	key, value := reflect.New(f.typ.Key()), reflect.New(f.typ.Elem())
	for entries := v.MapRange(); entries.Next(); {
		key.Elem().SetIterKey(entries)
		value.Elem().SetIterValue(entries)
		b = p.append(b, f.key, key.UnsafePointer())
		b = p.append(b, f.elem, value.UnsafePointer())
	}
	return b
}

// reader unpacks a record.
type reader struct {
	packer *packer
	in     string // the bytes that are not yet read
	// spare are structs that the record's pointers may refer to.
	spare [spares]unsafe.Pointer
}

// spares is the largest number of structs that [Store.Get] reuses. The pointers of a record refer to the reused
// structs.
const spares = 2

// record unpacks the nonzero fields into a zero record.
func (r *reader) record(l *layout, record unsafe.Pointer) {
	fields := r.packer.shapes[l.id].list[r.varint()]
	for i := range fields {
		f := &fields[i]
		at := unsafe.Add(record, f.offset)
		switch f.kind {
		case flag:
			*(*bool)(at) = true
		case integer8, unsigned8:
			*(*int8)(at) = int8(r.integer())
		case integer16, unsigned16:
			*(*int16)(at) = int16(r.integer())
		case integer32, unsigned32:
			*(*int32)(at) = int32(r.integer())
		case integer64, unsigned64:
			*(*int64)(at) = r.integer()
		case text:
			*(*string)(at) = r.string()
		case pointer:
			elem := r.pointee(f.field)
			*(*unsafe.Pointer)(at) = elem
			r.record(f.elem, elem)
		case list:
			f.value(record).Set(r.list(f.field))
		case table:
			f.value(record).Set(r.table(f.field))
		}
	}
}

// pointee returns a zero value that a pointer may refer to.
func (r *reader) pointee(f *field) unsafe.Pointer {
	if f.spare > 0 {
		if p := r.spare[f.spare-1]; p != nil {
			r.spare[f.spare-1] = nil
			reflect.NewAt(f.typ.Elem(), p).Elem().SetZero()
			return p
		}
	}
	return reflect.New(f.typ.Elem()).UnsafePointer()
}

func (r *reader) varint() uint64 {
	if c := r.in[0]; c < 0x80 {
		r.in = r.in[1:]
		return uint64(c)
	}
	return r.longVarint()
}

func (r *reader) longVarint() uint64 {
	in, x, shift := r.in, uint64(0), 0
	for i := range len(in) {
		c := in[i]
		if c < 0x80 {
			r.in = in[i+1:]
			return x | uint64(c)<<shift
		}
		x |= uint64(c&0x7f) << shift
		shift += 7
	}
	return x
}

func (r *reader) integer() int64 {
	u := r.varint()
	if u == unscalable {
		var raw [8]byte
		r.in = r.in[copy(raw[:], r.in):]
		return int64(binary.LittleEndian.Uint64(raw[:]))
	}
	z := u >> 1
	x := int64(z>>1) ^ -int64(z&1)
	if u&1 != 0 {
		return x * second
	}
	return x
}

func (r *reader) string() string {
	n := r.varint()
	if n&1 == 0 {
		return r.packer.strings[n>>1]
	}
	s := r.in[:n>>1]
	r.in = r.in[n>>1:]
	return s
}

func (r *reader) list(f *field) reflect.Value {
	n := int(r.varint())
	v := reflect.MakeSlice(f.typ, n, n)
	for i := range n {
		r.record(f.elem, v.Index(i).Addr().UnsafePointer())
	}
	return v
}

func (r *reader) table(f *field) reflect.Value {
	n := int(r.varint())
	v := reflect.MakeMapWithSize(f.typ, n)
	for range n {
		key, value := reflect.New(f.typ.Key()).Elem(), reflect.New(f.typ.Elem()).Elem()
		r.record(f.key, key.Addr().UnsafePointer())
		r.record(f.elem, value.Addr().UnsafePointer())
		v.SetMapIndex(key, value)
	}
	return v
}
