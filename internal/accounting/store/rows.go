package store

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// rows appends rows to a table. It fills a [chunk] and calls the library once for 2,048 rows. duckdb.Appender
// calls it several times for each string.
type rows struct {
	*chunk
	appender mapping.Appender
}

// openRows begins to append to columns of a table. raw is a connection of the driver. The caller
// ends with [rows.close].
func openRows(raw any, catalog, table string, columns []string) (*rows, error) {
	conn, err := connection(raw)
	if err != nil {
		return nil, err
	}
	r := &rows{}
	if mapping.AppenderCreateExt(conn, catalog, "main", table, &r.appender) == mapping.StateError {
		return nil, errors.Join(r.problem(), r.free())
	}
	types := make([]mapping.LogicalType, 0, len(columns))
	defer func() { destroyTypes(types) }()
	for i, name := range columns {
		if mapping.AppenderAddColumn(r.appender, name) == mapping.StateError {
			return nil, errors.Join(r.problem(), r.free())
		}
		types = append(types, mapping.AppenderColumnType(r.appender, mapping.IdxT(i)))
	}
	r.chunk = newChunk(types)
	return r, nil
}

func destroyTypes(types []mapping.LogicalType) {
	for i := range types {
		mapping.DestroyLogicalType(&types[i])
	}
}

// connection returns the library's connection below one of the driver, which has it in a field that
// is not exported.
func connection(raw any) (mapping.Connection, error) {
	if v := reflect.ValueOf(raw); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if own := v.Elem().FieldByName("conn"); own.IsValid() && own.Type() == reflect.TypeFor[mapping.Connection]() {
			return mapping.Connection{Ptr: own.FieldByName("Ptr").UnsafePointer()}, nil
		}
	}
	return mapping.Connection{}, fmt.Errorf("a connection of the type %T (want the driver of DuckDB)", raw)
}

// next begins a row, of which the caller sets every cell.
func (r *rows) next() error {
	if r.n == r.most {
		if err := r.send(r.chunk); err != nil {
			return err
		}
		r.begin()
	}
	r.n++
	return nil
}

// send appends a chunk. The library copies it.
func (r *rows) send(c *chunk) error {
	if c.n == 0 {
		return nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if len(c.texts) > 0 {
		pinner.Pin(&c.texts[0])
		base := uintptr(unsafe.Pointer(&c.texts[0]))
		for _, v := range c.vectors {
			for _, l := range v.long {
				*(*uintptr)(unsafe.Add(v.data, 16*l.row+8)) = base + uintptr(l.offset)
			}
		}
	}
	mapping.DataChunkSetSize(c.data, mapping.IdxT(c.n))
	if mapping.AppendDataChunk(r.appender, c.data) == mapping.StateError {
		return r.refusal()
	}
	return nil
}

func (r *rows) problem() error { return errors.New(mapping.AppenderError(r.appender)) }

func (r *rows) refusal() error { return fmt.Errorf("%w: %w", errRow, r.problem()) }

// close appends what is left, unless an error came before, and ends.
func (r *rows) close(before error) error {
	err := before
	if err == nil {
		err = r.send(r.chunk)
	}
	if err == nil && mapping.AppenderFlush(r.appender) == mapping.StateError {
		err = r.refusal()
	}
	if end := r.free(); err == nil {
		err = end
	}
	return err
}

func (r *rows) free() error {
	if r.chunk != nil {
		r.chunk.free()
	}
	if mapping.AppenderDestroy(&r.appender) == mapping.StateError {
		return errors.New("ending the appender of rows")
	}
	return nil
}

// chunk is a data chunk of DuckDB, filled as its C API lays out vectors (duckdb.h: duckdb_vector_get_data,
// duckdb_vector_get_validity, duckdb_string_t).
type chunk struct {
	data    mapping.DataChunk
	vectors []vector
	most    int    // rows that it can have
	n       int    // rows that it has
	texts   []byte // the strings that do not fit into their vectors
}

// vector is a column of a chunk.
type vector struct {
	data  unsafe.Pointer
	valid unsafe.Pointer // a bit for each row
	long  []longText
}

// longText is a string that lies in chunk.texts.
type longText struct{ row, offset int }

// shortest is the length up to which DuckDB keeps a string within its vector, in bytes.
const shortest = 12

// newChunk makes an empty chunk of columns. The caller ends with [chunk.free].
func newChunk(types []mapping.LogicalType) *chunk {
	c := &chunk{data: mapping.CreateDataChunk(types), vectors: make([]vector, len(types)), most: int(mapping.VectorSize())}
	c.begin()
	return c
}

// begin empties the chunk.
func (c *chunk) begin() {
	mapping.DataChunkReset(c.data)
	c.n, c.texts = 0, c.texts[:0]
	for i := range c.vectors {
		v := mapping.DataChunkGetVector(c.data, mapping.IdxT(i))
		mapping.VectorEnsureValidityWritable(v)
		c.vectors[i] = vector{mapping.VectorGetData(v), mapping.VectorGetValidity(v), c.vectors[i].long[:0]}
	}
}

func (c *chunk) free() { mapping.DestroyDataChunk(&c.data) }

// cell is where a value of the row goes.
type cell struct {
	of     *chunk
	column int
}

func (c *chunk) cell(column int) cell { return cell{c, column} }

func (c cell) at(size int) unsafe.Pointer {
	return unsafe.Add(c.of.vectors[c.column].data, size*(c.of.n-1))
}

func (c cell) setNull() {
	row := c.of.n - 1
	*(*uint64)(unsafe.Add(c.of.vectors[c.column].valid, row/64*8)) &^= 1 << (row % 64)
}

func (c cell) setInt(n int64) { *(*int64)(c.at(8)) = n }

func (c cell) setFloat(f float64) { *(*float64)(c.at(8)) = f }

// setText sets a VARCHAR, whose bytes must be UTF-8.
func (c cell) setText(s string) {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	setBytes(c, s)
}

// setBytes sets a VARCHAR or a BLOB.
func setBytes[T string | []byte](c cell, s T) {
	to := c.at(16)
	*(*uint32)(to) = uint32(len(s))
	if len(s) <= shortest {
		short := (*[shortest]byte)(unsafe.Add(to, 4))
		clear(short[copy(short[:], s):])
		return
	}
	copy((*[4]byte)(unsafe.Add(to, 4))[:], s)
	v := &c.of.vectors[c.column]
	v.long = append(v.long, longText{c.of.n - 1, len(c.of.texts)})
	c.of.texts = append(c.of.texts, s...)
}
