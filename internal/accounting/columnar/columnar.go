// Package columnar writes and reads Parquet files, column by column. The columns of a file are
// known in advance. A file is written once, from its beginning to its end, and the writer returns
// its checksum.
package columnar

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Layout describes the columns of a Parquet file.
type Layout struct {
	schema  *parquet.Schema
	Columns []Column
}

// Column is a column of a Parquet file.
type Column struct {
	Name string
	Kind string // BIGINT, INTEGER, DOUBLE, TIMESTAMP, VARCHAR or BLOB: the type in DuckDB
	Null bool
	// Plain says that the column is written without a dictionary, because the column's values seldom repeat.
	Plain bool
}

// goTypes maps each kind to the Go type and the options of the struct field from which parquet-go
// makes the column.
var goTypes = map[string]struct {
	field   reflect.Type
	options string
}{
	"BIGINT": {reflect.TypeFor[int64](), ""}, "INTEGER": {reflect.TypeFor[int32](), ""},
	"DOUBLE":    {reflect.TypeFor[float64](), ""},
	"TIMESTAMP": {reflect.TypeFor[int64](), ",timestamp(microsecond:local)"},
	"VARCHAR":   {reflect.TypeFor[string](), ""}, "BLOB": {reflect.TypeFor[[]byte](), ""},
}

// New returns a layout with the given columns.
func New(columns ...Column) *Layout {
	fields := make([]reflect.StructField, len(columns))
	for i, c := range columns {
		t := goTypes[c.Kind]
		options := t.options
		if c.Null {
			options += ",optional"
		}
		if !c.Plain {
			options += ",dict"
		}
		fields[i] = reflect.StructField{Name: "C" + strconv.Itoa(i), Type: t.field,
			Tag: reflect.StructTag(fmt.Sprintf(`parquet:"%s%s"`, c.Name, options))}
	}
	return &Layout{parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()), columns}
}

// Index returns the position of a column, or -1 if the layout lacks the column.
func (l *Layout) Index(name string) int {
	return slices.IndexFunc(l.Columns, func(c Column) bool { return c.Name == name })
}

// Leveled returns a value with its definition level, which the column's writer requires: 1 for a value that is not
// NULL in a column that can be NULL, and 0 otherwise.
func (l *Layout) Leveled(column int, v parquet.Value) parquet.Value {
	level := 0
	if l.Columns[column].Null && !v.IsNull() {
		level = 1
	}
	return v.Level(0, level, column)
}

// Sealed describes a finished file: its length in bytes and its SHA-256.
type Sealed struct {
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
}

// Codec is a compression method for a file's pages.
type Codec = compress.Codec

// Chunk is the number of values that are passed to a column's writer at a time.
const Chunk = 1024

// File is a file that is being written. It counts the bytes and computes their checksum.
type File struct {
	to  *bufio.Writer
	sum hash.Hash
	n   int64
}

// Write writes to the file.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	f.sum.Write(b[:n])
	f.n += int64(n)
	return n, err
}

// WriteSealed creates or replaces a file. It calls do to write the contents. If durable is set, WriteSealed returns
// after the file is synced to disk. On error the file is removed.
func WriteSealed(path string, durable bool, do func(f *File) error) (out Sealed, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return out, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, Remove(path))
		}
	}()
	s := &File{to: bufio.NewWriterSize(f, 1<<20), sum: sha256.New()}
	if err := errors.Join(do(s), s.to.Flush()); err != nil {
		return out, err
	}
	if durable {
		if err := f.Sync(); err != nil {
			return out, err
		}
	}
	return Sealed{s.n, hex.EncodeToString(s.sum.Sum(nil))}, nil
}

// Filler passes all values of a column to put, in pieces.
type Filler func(column int, put func([]parquet.Value) error) error

// Write writes a file of one row group, several columns at a time.
func (l *Layout) Write(path string, codec Codec, durable bool, fill Filler) (Sealed, error) {
	return WriteSealed(path, durable, func(f *File) error {
		w := l.Writer(f, codec)
		return errors.Join(l.Fill(w.ColumnWriters(), fill), w.Close())
	})
}

// Writer returns a writer for files of the layout that have several row groups.
func (l *Layout) Writer(to io.Writer, codec Codec) *parquet.GenericWriter[any] {
	options := []parquet.WriterOption{l.schema, parquet.Compression(codec), parquet.PageBufferSize(1 << 18),
		parquet.DictionaryMaxBytes(1 << 18),
		parquet.CreatedBy("rmreplay", "", ""), parquet.DataPageStatistics(false)}
	for _, c := range l.Columns {
		if c.Kind == "BLOB" || c.Kind == "VARCHAR" && c.Null { // the lowest and the highest text would take space
			options = append(options, parquet.SkipPageBounds(c.Name), parquet.SkipPageStatistics(c.Name))
		}
	}
	return parquet.NewGenericWriter[any](to, options...)
}

// Fill writes one row group, several columns at a time.
func (l *Layout) Fill(writers []*parquet.ColumnWriter, fill Filler) error {
	var group sync.WaitGroup
	workers := min(runtime.NumCPU(), 4)
	errs := make([]error, workers)
	for k := range workers {
		group.Go(func() {
			for i := k; i < len(writers) && errs[k] == nil; i += workers {
				errs[k] = fill(i, func(values []parquet.Value) error {
					_, err := writers[i].WriteRowValues(values)
					return err
				})
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Reader reads columns of a file.
type Reader struct {
	f      *os.File
	file   *parquet.File
	Layout *Layout
	at     []int // the position in the file of each column of Layout; -1 if the file lacks the column
}

// Open opens a file of the layout, or a file of an older layout that lacks some columns.
func (l *Layout) Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), f.Close())
	}
	r := &Reader{f, file, l, make([]int, len(l.Columns))}
	for i, c := range l.Columns {
		r.at[i] = -1
		if leaf, ok := file.Schema().Lookup(c.Name); ok {
			r.at[i] = leaf.ColumnIndex
		}
	}
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Rows returns the number of rows in the file.
func (r *Reader) Rows() int64 { return r.file.NumRows() }

// Each calls the function do with the values of a column, in pieces, until do returns false. The
// parameter from is the number of the first row. The values are valid only during the call.
func (r *Reader) Each(column int, from int64, do func(values []parquet.Value) (more bool, err error)) (err error) {
	if r.at[column] < 0 {
		nulls := make([]parquet.Value, Chunk)
		for i := range nulls {
			nulls[i] = r.Layout.Leveled(column, parquet.NullValue())
		}
		for left := r.Rows() - from; left > 0; left -= Chunk {
			if more, err := do(nulls[:min(left, Chunk)]); !more || err != nil {
				return err
			}
		}
		return nil
	}
	values := make([]parquet.Value, Chunk)
	for _, group := range r.file.RowGroups() {
		if from >= group.NumRows() {
			from -= group.NumRows()
			continue
		}
		more, err := eachOf(group.ColumnChunks()[r.at[column]], from, values, column, do)
		if err != nil {
			return fmt.Errorf("reading %s: column %s: %w", r.f.Name(), r.Layout.Columns[column].Name, err)
		}
		if !more {
			return nil
		}
		from = 0
	}
	return nil
}

func eachOf(chunk parquet.ColumnChunk, from int64, values []parquet.Value, column int,
	do func(values []parquet.Value) (bool, error)) (more bool, err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	if from > 0 {
		if err := pages.SeekToRow(from); err != nil {
			return false, err
		}
	}
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		more, err := eachIn(page, values, column, do)
		parquet.Release(page)
		if err != nil || !more {
			return false, err
		}
	}
}

func eachIn(page parquet.Page, values []parquet.Value, column int, do func(values []parquet.Value) (bool, error)) (
	more bool, err error) {
	from := page.Values()
	for {
		n, err := from.ReadValues(values)
		if n > 0 {
			for i := range values[:n] {
				values[i] = values[i].Level(0, values[i].DefinitionLevel(), column)
			}
			if more, err := do(values[:n]); !more || err != nil {
				return false, err
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// Remove deletes a file. It is not an error if the file does not exist.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Values calls the function do with a column's value in each of the given rows, which must ascend.
// It reads only the pages that contain these rows.
func (r *Reader) Values(column int, rows []int64, do func(i int, v parquet.Value) error) (err error) {
	if r.at[column] < 0 {
		for i := range rows {
			if err := do(i, parquet.NullValue()); err != nil {
				return err
			}
		}
		return nil
	}
	begin := int64(0)
	for _, group := range r.file.RowGroups() {
		end := begin + group.NumRows()
		from := sort.Search(len(rows), func(i int) bool { return rows[i] >= begin })
		to := sort.Search(len(rows), func(i int) bool { return rows[i] >= end })
		if from < to {
			err := pick(group.ColumnChunks()[r.at[column]], rows[from:to], begin,
				func(i int, v parquet.Value) error { return do(from+i, v) })
			if err != nil {
				return fmt.Errorf("%s: column %s: %w", r.f.Name(), r.Layout.Columns[column].Name, err)
			}
		}
		begin = end
	}
	return nil
}

// pick calls the function do with the values of the given rows of a column chunk. begin is the
// number of the chunk's first row.
func pick(chunk parquet.ColumnChunk, rows []int64, begin int64, do func(i int, v parquet.Value) error) (err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	value := make([]parquet.Value, 1)
	for i := 0; i < len(rows); {
		if err := pages.SeekToRow(rows[i] - begin); err != nil {
			return err
		}
		page, err := pages.ReadPage()
		if err != nil {
			return err
		}
		for first := rows[i]; i < len(rows) && rows[i] < first+page.NumRows() && err == nil; i++ {
			n, readErr := page.Slice(rows[i]-first, rows[i]-first+1).Values().ReadValues(value)
			if n != 1 {
				err = errors.Join(readErr, io.ErrUnexpectedEOF)
				break
			}
			err = do(i, value[0])
		}
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteDurable writes a file and syncs it to disk.
func WriteDurable(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, Remove(path))
	}
	return nil
}

// Check returns an error if the file does not have the length and the checksum of s.
func (s Sealed) Check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // the file was only read
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if n != s.Bytes || hex.EncodeToString(sum.Sum(nil)) != s.Sum {
		return fmt.Errorf("%s: damaged: its %d bytes are not what was written (want %d bytes with the SHA-256 %s)", path, n,
			s.Bytes, s.Sum)
	}
	return nil
}

// Int returns a whole number as a Parquet value.
func Int(n int64) parquet.Value { return parquet.Int64Value(n) }

// Text returns a text as a Parquet value. Bytes that are not UTF-8 are replaced.
func Text(s string) parquet.Value {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Quick is the codec for files that are soon removed. Small is the codec for files that are kept.
var (
	Quick Codec = &snappy.Codec{}
	Small Codec = &zstd.Codec{Level: zstd.SpeedFastest}
)

// Optional is a whole number that may be unknown.
type Optional struct {
	N  int64
	OK bool
}

// Some returns an Optional with a known number.
func Some(n int64) Optional { return Optional{n, true} }

// Value returns the Parquet value of the number, or NULL if the number is unknown.
func (o Optional) Value() parquet.Value { return Nullable(o.OK, Int(o.N)) }

// Nullable returns v if known is set, and NULL otherwise.
func Nullable(known bool, v parquet.Value) parquet.Value {
	if !known {
		return parquet.NullValue()
	}
	return v
}
