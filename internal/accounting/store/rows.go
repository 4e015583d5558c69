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

// rows appends rows to a table. It fills the vectors of data chunks as DuckDB's C API lays them out
// (duckdb.h: duckdb_vector_get_data, duckdb_vector_get_validity, duckdb_string_t) and calls the
// library once for 2,048 rows. duckdb.Appender calls it several times for each string.
type rows struct {
	appender mapping.Appender
	chunk    mapping.DataChunk
	vectors  []vector
	most     int    // rows that the chunk can have
	n        int    // rows of the chunk
	texts    []byte // of the chunk's strings that do not fit into their vectors
}

// vector is a column of a chunk.
type vector struct {
	data  unsafe.Pointer
	valid unsafe.Pointer // a bit for each row
	long  []longText
}

// longText is a string that lies in rows.texts.
type longText struct{ row, offset int }

// shortest is the length up to which DuckDB keeps a string within its vector, in bytes.
const shortest = 12

// openRows begins to append to columns of a table. raw is a connection of the driver. The caller
// ends with [rows.close].
func openRows(raw any, catalog, table string, columns []string) (*rows, error) {
	conn, err := connection(raw)
	if err != nil {
		return nil, err
	}
	r := &rows{vectors: make([]vector, len(columns)), most: int(mapping.VectorSize())}
	if mapping.AppenderCreateExt(conn, catalog, "main", table, &r.appender) == mapping.StateError {
		return nil, errors.Join(r.problem(), r.free())
	}
	types := make([]mapping.LogicalType, 0, len(columns))
	defer func() {
		for i := range types {
			mapping.DestroyLogicalType(&types[i])
		}
	}()
	for i, name := range columns {
		if mapping.AppenderAddColumn(r.appender, name) == mapping.StateError {
			return nil, errors.Join(r.problem(), r.free())
		}
		types = append(types, mapping.AppenderColumnType(r.appender, mapping.IdxT(i)))
	}
	r.chunk = mapping.CreateDataChunk(types)
	r.begin()
	return r, nil
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

// begin starts an empty chunk.
func (r *rows) begin() {
	mapping.DataChunkReset(r.chunk)
	r.n, r.texts = 0, r.texts[:0]
	for i := range r.vectors {
		v := mapping.DataChunkGetVector(r.chunk, mapping.IdxT(i))
		mapping.VectorEnsureValidityWritable(v)
		r.vectors[i] = vector{mapping.VectorGetData(v), mapping.VectorGetValidity(v), r.vectors[i].long[:0]}
	}
}

// next begins a row, of which the caller sets every cell.
func (r *rows) next() error {
	if r.n == r.most {
		if err := r.send(); err != nil {
			return err
		}
		r.begin()
	}
	r.n++
	return nil
}

// send appends the chunk. The library copies it.
func (r *rows) send() error {
	if r.n == 0 {
		return nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if len(r.texts) > 0 {
		pinner.Pin(&r.texts[0])
		base := uintptr(unsafe.Pointer(&r.texts[0]))
		for _, v := range r.vectors {
			for _, l := range v.long {
				*(*uintptr)(unsafe.Add(v.data, 16*l.row+8)) = base + uintptr(l.offset)
			}
		}
	}
	mapping.DataChunkSetSize(r.chunk, mapping.IdxT(r.n))
	if mapping.AppendDataChunk(r.appender, r.chunk) == mapping.StateError {
		return fmt.Errorf("%w: %w", errRow, r.problem())
	}
	return nil
}

func (r *rows) problem() error { return errors.New(mapping.AppenderError(r.appender)) }

// close appends what is left, unless an error came before, and ends.
func (r *rows) close(before error) error {
	err := before
	if err == nil {
		err = r.send()
	}
	if err == nil && mapping.AppenderFlush(r.appender) == mapping.StateError {
		err = r.problem()
	}
	if end := r.free(); err == nil {
		err = end
	}
	return err
}

func (r *rows) free() error {
	mapping.DestroyDataChunk(&r.chunk)
	if mapping.AppenderDestroy(&r.appender) == mapping.StateError {
		return errors.New("ending the appender of rows")
	}
	return nil
}

// cell is where a value of the row goes.
type cell struct {
	r      *rows
	column int
}

func (r *rows) cell(column int) cell { return cell{r, column} }

func (c cell) at(size int) unsafe.Pointer {
	return unsafe.Add(c.r.vectors[c.column].data, size*(c.r.n-1))
}

func (c cell) setNull() {
	row := c.r.n - 1
	*(*uint64)(unsafe.Add(c.r.vectors[c.column].valid, row/64*8)) &^= 1 << (row % 64)
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
	v := &c.r.vectors[c.column]
	v.long = append(v.long, longText{c.r.n - 1, len(c.r.texts)})
	c.r.texts = append(c.r.texts, s...)
}
