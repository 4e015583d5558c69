package wire

import (
	"encoding/binary"
	"fmt"
)

// noBitmap is the size that means a missing bitmap (NO_VAL in slurm.h).
const noBitmap = 0xfffffffe

// Decoder reads values from a message. The decoder keeps the first failure, and all later reads return zero, so a
// caller can read all fields and call [Decoder.Finish] once at the end. The decoder compares every length with the
// remaining bytes before it allocates memory.
//
// Each method takes the name of the field for error messages.
type Decoder struct {
	// What names the message in errors: "a batch launch".
	What string

	b   []byte
	off int
	err error
}

// NewDecoder returns a decoder of b. The parameter what names the message in errors.
func NewDecoder(what string, b []byte) Decoder { return Decoder{What: what, b: b} }

// Err returns the first failure; nil if all reads so far succeeded.
func (d *Decoder) Err() error { return d.err }

// Left returns the number of bytes that have not been read.
func (d *Decoder) Left() int { return len(d.b) - d.off }

// Fail records a failure, unless one is already recorded. The error names the message and the
// position.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("decoding %s at byte %d: %s", d.What, d.off, fmt.Sprintf(format, args...))
	}
}

// Take returns the next n bytes without copying them, or nil after a failure.
func (d *Decoder) Take(n int, field string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.Left() {
		d.Fail("%s needs %d bytes, %d are left", field, n, d.Left())
		return nil
	}
	b := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// U8 reads a number of 8 bits.
func (d *Decoder) U8(field string) uint8 {
	if b := d.Take(1, field); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads a number of 16 bits.
func (d *Decoder) U16(field string) uint16 {
	if b := d.Take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// U32 reads a number of 32 bits.
func (d *Decoder) U32(field string) uint32 {
	if b := d.Take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 reads a number of 64 bits.
func (d *Decoder) U64(field string) uint64 {
	if b := d.Take(8, field); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Time reads an instant in seconds since the Unix epoch; 0 is "not set".
func (d *Decoder) Time(field string) int64 { return int64(d.U64(field)) }

// Str reads a string; NULL is returned as "". A string that does not end in NUL is a
// failure.
func (d *Decoder) Str(field string) string {
	b := d.Mem(field)
	if len(b) == 0 {
		return ""
	}
	if b[len(b)-1] != 0 {
		d.Fail("%s does not end in NUL", field)
		return ""
	}
	return untilNUL(string(b))
}

// Mem reads a block of bytes with its length, without copying it.
func (d *Decoder) Mem(field string) []byte {
	n := d.U32(field)
	if uint64(n) > uint64(d.Left()) {
		d.Fail("%s is %d bytes long, %d are left", field, n, d.Left())
		return nil
	}
	return d.Take(int(n), field)
}

// Skip reads strings and blocks of bytes and drops them.
func (d *Decoder) Skip(fields ...string) {
	for _, field := range fields {
		d.Mem(field)
	}
}

// SkipBitmap reads a bitmap in hexadecimal and drops it (pack_bit_str_hex in pack.h).
func (d *Decoder) SkipBitmap(field string) {
	if d.U32(field) != noBitmap {
		d.Mem(field)
	}
}

// Count reads the number of an array's elements. size is the smallest number of bytes per element.
// A number of elements that cannot fit into the remaining bytes is a failure.
func (d *Decoder) Count(size int, field string) int {
	n := d.U32(field)
	if d.err == nil && uint64(n)*uint64(size) > uint64(d.Left()) {
		d.Fail("%s has %d elements, %d bytes are left", field, n, d.Left())
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// array reads an array whose elements take at least size bytes each.
func array[T any](d *Decoder, size int, field string, read func(string) T) []T {
	n := d.Count(size, field)
	if n == 0 {
		return nil
	}
	a := make([]T, 0, n)
	for range n {
		a = append(a, read(field))
	}
	return a
}

// Taken returns the bytes that read consumes, without copying them; nil after a failure.
func (d *Decoder) Taken(read func()) []byte {
	start := d.off
	read()
	if d.err != nil {
		return nil
	}
	return d.b[start:d.off:d.off]
}

// Strs reads an array of strings; an empty array is returned as nil.
func (d *Decoder) Strs(field string) []string { return array(d, 4, field, d.Str) }

// U16s reads an array of numbers of 16 bits; an empty array is returned as nil.
func (d *Decoder) U16s(field string) []uint16 { return array(d, 2, field, d.U16) }

// U32s reads an array of numbers of 32 bits; an empty array is returned as nil.
func (d *Decoder) U32s(field string) []uint32 { return array(d, 4, field, d.U32) }

// U64s reads an array of numbers of 64 bits; an empty array is returned as nil.
func (d *Decoder) U64s(field string) []uint64 { return array(d, 8, field, d.U64) }

// Finish ends a message: it returns the first failure, or an error if bytes are left. Bytes after
// the last field show that the fields were misread.
func (d *Decoder) Finish() error {
	if d.err == nil && d.Left() != 0 {
		d.Fail("%d bytes are left after the last field", d.Left())
	}
	return d.err
}
