package rpc

import (
	"encoding/binary"
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
)

// encoder appends values in Slurm's wire form (pack.c) to b.
type encoder struct{ b []byte }

func (e *encoder) u8(v uint8)   { e.b = append(e.b, v) }
func (e *encoder) u16(v uint16) { e.b = binary.BigEndian.AppendUint16(e.b, v) }
func (e *encoder) u32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

// time appends an instant in seconds since the Unix epoch; 0 is "not set".
func (e *encoder) time(sec int64) { e.u64(uint64(sec)) }

// str appends a string; the empty one goes out as NULL, which every field of the
// protocol reads as "not given".
func (e *encoder) str(s string) {
	s = untilNUL(s)
	if s == "" {
		e.u32(0)
		return
	}
	e.text(s)
}

// text appends a string that is there even when it is empty.
func (e *encoder) text(s string) {
	s = untilNUL(s)
	e.u32(uint32(len(s) + 1))
	e.b = append(e.b, s...)
	e.u8(0)
}

// strs appends an array of strings. Its elements are never NULL.
func (e *encoder) strs(a []string) {
	e.u32(uint32(len(a)))
	for _, s := range a {
		e.text(s)
	}
}

// u32s appends an array of numbers.
func (e *encoder) u32s(a []uint32) {
	e.u32(uint32(len(a)))
	for _, v := range a {
		e.u32(v)
	}
}

// mem appends a block of bytes with its length.
func (e *encoder) mem(b []byte) {
	e.u32(uint32(len(b)))
	e.b = append(e.b, b...)
}

// untilNUL cuts s where C would end it, so that no string can shift the fields
// after it.
func untilNUL(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// decoder reads values in Slurm's wire form. The first failure sticks: every later
// read gives zero, so a message's fields can be read in one go and checked once.
type decoder struct {
	b    []byte
	off  int
	what string // the message, for errors
	// protocol is that of the message; nil while it is not known or makes no difference.
	protocol *protocol
	err      error
}

func newDecoder(what string, b []byte) *decoder { return &decoder{b: b, what: what} }

// decoderOf is a decoder of a body in a version, which must be one that can be read.
func decoderOf(v Version, what string, b []byte) *decoder {
	d := newDecoder(what, b)
	if d.protocol = protocolOf(v); d.protocol == nil {
		d.protocol = protocol2205
		d.fail("%v is not supported (want %s)", v, versions())
	}
	return d
}

func (d *decoder) left() int { return len(d.b) - d.off }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("decoding %s at byte %d: %s", d.what, d.off, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes, or nil after a failure.
func (d *decoder) take(n int, field string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.left() {
		d.fail("%s needs %d bytes, %d are left", field, n, d.left())
		return nil
	}
	b := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

func (d *decoder) u8(field string) uint8 {
	if b := d.take(1, field); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16(field string) uint16 {
	if b := d.take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32(field string) uint32 {
	if b := d.take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64(field string) uint64 {
	if b := d.take(8, field); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) time(field string) int64 { return int64(d.u64(field)) }

// str reads a string; NULL gives "".
func (d *decoder) str(field string) string {
	b := d.mem(field)
	if len(b) == 0 {
		return ""
	}
	if b[len(b)-1] != 0 {
		d.fail("%s does not end in NUL", field)
		return ""
	}
	return untilNUL(string(b))
}

// mem reads a block of bytes with its length, without copying it.
func (d *decoder) mem(field string) []byte {
	n := d.u32(field)
	if uint64(n) > uint64(d.left()) {
		d.fail("%s is %d bytes long, %d are left", field, n, d.left())
		return nil
	}
	return d.take(int(n), field)
}

// count reads the length of an array whose elements take at least size bytes each,
// and refuses one that cannot be there.
func (d *decoder) count(size int, field string) int {
	n := d.u32(field)
	if d.err == nil && uint64(n)*uint64(size) > uint64(d.left()) {
		d.fail("%s has %d elements, %d bytes are left", field, n, d.left())
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *decoder) strs(field string) []string {
	n := d.count(4, field)
	if n == 0 {
		return nil
	}
	a := make([]string, 0, n)
	for range n {
		a = append(a, d.str(field))
	}
	return a
}

func (d *decoder) u16s(field string) []uint16 {
	n := d.count(2, field)
	if n == 0 {
		return nil
	}
	a := make([]uint16, 0, n)
	for range n {
		a = append(a, d.u16(field))
	}
	return a
}

func (d *decoder) u32s(field string) []uint32 {
	n := d.count(4, field)
	if n == 0 {
		return nil
	}
	a := make([]uint32, 0, n)
	for range n {
		a = append(a, d.u32(field))
	}
	return a
}

func (d *decoder) u64s(field string) []uint64 {
	n := d.count(8, field)
	if n == 0 {
		return nil
	}
	a := make([]uint64, 0, n)
	for range n {
		a = append(a, d.u64(field))
	}
	return a
}

// finish ends a body: it returns the first failure, or an error if bytes are left.
func (d *decoder) finish() error {
	if d.err == nil && d.left() != 0 {
		d.fail("%d bytes are left after the last field", d.left())
	}
	return d.err
}

// ownDecoder is a decoder of an answer to the driver, and the layouts of its version. Version
// 0 stands for 22.05. A version that the driver does not speak is an error.
func ownDecoder(v Version, what string, b []byte) (*decoder, *ownLayouts, error) {
	if v == 0 {
		v = V2205
	}
	p := protocolOf(v)
	if p == nil || p.own == nil {
		return nil, nil, fmt.Errorf("decoding %s: %v is not supported (want %s)", what, v, slurmspec.SupportedList())
	}
	return &decoder{b: b, what: what, protocol: p}, p.own, nil
}
