// Package wire reads and writes the primitive values of Slurm's wire protocol, as Slurm's own
// pack.c and pack.h do: numbers, strings, arrays, blocks of bytes, and bitmaps.
//
// All numbers are big-endian. A string is its length (u32, with the closing NUL), then its bytes.
// Length 0 is C's NULL; this package uses the empty string for it. An array is the number of its
// elements (u32), then the elements. An instant is an i64: seconds since the Unix epoch.
//
// The package knows no messages: package rpc defines the fields of each message.
package wire

import (
	"encoding/binary"
	"strings"
)

// Encoder appends values to Bytes. The zero Encoder is empty and ready for use.
type Encoder struct {
	// Bytes are the values so far.
	Bytes []byte
}

// U8 appends a number of 8 bits.
func (e *Encoder) U8(v uint8) { e.Bytes = append(e.Bytes, v) }

// U16 appends a number of 16 bits.
func (e *Encoder) U16(v uint16) { e.Bytes = binary.BigEndian.AppendUint16(e.Bytes, v) }

// U32 appends a number of 32 bits.
func (e *Encoder) U32(v uint32) { e.Bytes = binary.BigEndian.AppendUint32(e.Bytes, v) }

// U64 appends a number of 64 bits.
func (e *Encoder) U64(v uint64) { e.Bytes = binary.BigEndian.AppendUint64(e.Bytes, v) }

// Bool16 appends a number of 16 bits: 1 for true, 0 for false.
func (e *Encoder) Bool16(v bool) {
	if v {
		e.U16(1)
		return
	}
	e.U16(0)
}

// Time appends an instant in seconds since the Unix epoch; 0 is "not set".
func (e *Encoder) Time(seconds int64) { e.U64(uint64(seconds)) }

// Str appends a string. An empty string is sent as NULL, which every field of the protocol reads
// as "not given". As in C, the text ends at its first NUL, so no text can shift the fields after
// it.
func (e *Encoder) Str(s string) {
	s = untilNUL(s)
	if s == "" {
		e.U32(0)
		return
	}
	e.text(s)
}

// text appends a string that is not NULL, even when it is empty.
func (e *Encoder) text(s string) {
	s = untilNUL(s)
	e.U32(uint32(len(s) + 1))
	e.Bytes = append(e.Bytes, s...)
	e.U8(0)
}

// Strs appends an array of strings. An empty element is sent as an empty string, not as
// NULL.
func (e *Encoder) Strs(a []string) {
	e.U32(uint32(len(a)))
	for _, s := range a {
		e.text(s)
	}
}

// U32s appends an array of numbers of 32 bits.
func (e *Encoder) U32s(a []uint32) {
	e.U32(uint32(len(a)))
	for _, v := range a {
		e.U32(v)
	}
}

// Mem appends the length of a block of bytes (u32), then the block.
func (e *Encoder) Mem(b []byte) {
	e.U32(uint32(len(b)))
	e.Bytes = append(e.Bytes, b...)
}

// untilNUL returns s up to its first NUL, where a string of C ends.
func untilNUL(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}
