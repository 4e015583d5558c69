package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"
)

// The tags of values. A tag encodes the Go type of its value, so that the receiver gets the same
// type that the database's driver returned.
const (
	tagNull byte = iota
	tagFalse
	tagTrue
	tagInt8
	tagInt16
	tagInt32
	tagInt64
	tagUint8
	tagUint16
	tagUint32
	tagUint64
	tagFloat32
	tagFloat64
	tagString
	tagBytes
	tagTime
	tagBig
	tagList
	tagStruct
)

// AppendString appends a text or any other bytes.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendUint appends a number.
func AppendUint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

// AppendValue appends a value: nil, a boolean, a number, a *big.Int, a text, bytes, a time, or a
// list ([]any) or a struct (map[string]any) of values of these types. Other types are an error.
func AppendValue(b []byte, value any) (_ []byte, err error) {
	switch v := value.(type) {
	case nil:
		return append(b, tagNull), nil
	case bool:
		if v {
			return append(b, tagTrue), nil
		}
		return append(b, tagFalse), nil
	case float32:
		return binary.LittleEndian.AppendUint32(append(b, tagFloat32), math.Float32bits(v)), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(b, tagFloat64), math.Float64bits(v)), nil
	case string:
		return AppendString(append(b, tagString), v), nil
	case []byte:
		return AppendString(append(b, tagBytes), string(v)), nil
	case time.Time:
		_, offset := v.Zone()
		b = binary.AppendVarint(append(b, tagTime), v.Unix())
		b = binary.AppendUvarint(b, uint64(v.Nanosecond()))
		return binary.AppendVarint(b, int64(offset)), nil
	case *big.Int:
		return AppendString(append(b, tagBig), v.Text(62)), nil
	case []any:
		b = binary.AppendUvarint(append(b, tagList), uint64(len(v)))
		for _, e := range v {
			if b, err = AppendValue(b, e); err != nil {
				return nil, err
			}
		}
		return b, nil
	case map[string]any:
		b = binary.AppendUvarint(append(b, tagStruct), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if b, err = AppendValue(AppendString(b, name), v[name]); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return appendInteger(b, value)
}

func appendInteger(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int:
		return binary.AppendVarint(append(b, tagInt64), int64(v)), nil
	case int8:
		return binary.AppendVarint(append(b, tagInt8), int64(v)), nil
	case int16:
		return binary.AppendVarint(append(b, tagInt16), int64(v)), nil
	case int32:
		return binary.AppendVarint(append(b, tagInt32), int64(v)), nil
	case int64:
		return binary.AppendVarint(append(b, tagInt64), v), nil
	case uint8:
		return binary.AppendUvarint(append(b, tagUint8), uint64(v)), nil
	case uint16:
		return binary.AppendUvarint(append(b, tagUint16), uint64(v)), nil
	case uint32:
		return binary.AppendUvarint(append(b, tagUint32), uint64(v)), nil
	case uint64:
		return binary.AppendUvarint(append(b, tagUint64), v), nil
	}
	return nil, fmt.Errorf("values of the type %T cannot be sent between the engine and its parent", value)
}

// Decoder reads the fields of a payload in sequence.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder returns a decoder for a payload. Byte slices that it returns share the payload's
// memory.
func NewDecoder(payload []byte) *Decoder { return &Decoder{rest: payload} }

// Err returns the first error in the payload.
func (d *Decoder) Err() error { return d.err }

// More reports whether there are more fields. After an error it returns false.
func (d *Decoder) More() bool { return d.err == nil && len(d.rest) > 0 }

var errShort = errors.New("reading a frame: a field is cut off")

func (d *Decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.rest) {
		d.fail(errShort)
		return make([]byte, min(max(n, 0), 8))
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	n, length := binary.Uvarint(d.rest)
	if length <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[length:]
	return n
}

func (d *Decoder) int() int64 {
	n, length := binary.Varint(d.rest)
	if length <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[length:]
	return n
}

// Bytes reads what [AppendString] appended. The result shares the payload's memory.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return nil
	}
	return d.take(int(n))
}

// String reads what [AppendString] appended.
func (d *Decoder) String() string { return string(d.Bytes()) }

// maxDepth limits the nesting of lists and structs, so that a damaged payload cannot exhaust the
// stack.
const maxDepth = 100

// Value reads a value. The result has the type of the value that was passed to [AppendValue].
func (d *Decoder) Value() any { return d.value(0) }

func (d *Decoder) value(depth int) any {
	if depth > maxDepth {
		d.fail(fmt.Errorf("reading a frame: a value is nested more than %d deep", maxDepth))
		return nil
	}
	switch tag := d.take(1)[0]; tag {
	case tagNull:
		return nil
	case tagFalse, tagTrue:
		return tag == tagTrue
	case tagFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(d.take(4)))
	case tagFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(d.take(8)))
	case tagString:
		return d.String()
	case tagBytes:
		return d.Bytes()
	case tagTime:
		return d.time()
	case tagBig:
		n, ok := new(big.Int).SetString(d.String(), 62)
		if !ok {
			d.fail(errShort)
		}
		return n
	case tagList:
		return d.list(depth)
	case tagStruct:
		n := d.Uint()
		m := map[string]any{}
		for i := uint64(0); i < n && d.err == nil; i++ {
			name := d.String()
			m[name] = d.value(depth + 1)
		}
		return m
	default:
		return d.integer(tag)
	}
}

func (d *Decoder) time() time.Time {
	seconds, nanoseconds, offset := d.int(), d.Uint(), d.int()
	t := time.Unix(seconds, int64(nanoseconds)).UTC()
	if offset != 0 {
		t = t.In(time.FixedZone("", int(offset)))
	}
	return t
}

func (d *Decoder) list(depth int) []any {
	n := d.Uint()
	list := make([]any, 0, min(n, uint64(len(d.rest)))) // each element has at least one byte
	for i := uint64(0); i < n && d.err == nil; i++ {
		list = append(list, d.value(depth+1))
	}
	return list
}

func (d *Decoder) integer(tag byte) any {
	switch tag {
	case tagInt8:
		return int8(d.int())
	case tagInt16:
		return int16(d.int())
	case tagInt32:
		return int32(d.int())
	case tagInt64:
		return d.int()
	case tagUint8:
		return uint8(d.Uint())
	case tagUint16:
		return uint16(d.Uint())
	case tagUint32:
		return uint32(d.Uint())
	case tagUint64:
		return d.Uint()
	}
	d.fail(fmt.Errorf("reading a frame: %d is not the tag of a value", tag))
	return nil
}

// Rest returns the unread bytes of the payload.
func (d *Decoder) Rest() []byte { return d.take(len(d.rest)) }
