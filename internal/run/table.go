package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/klauspost/compress/s2"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"rmreplay/internal/input"
)

// rowGroup is the maximum number of rows in a row group. Large row groups compress better. Small
// row groups keep the writer's memory at a few MiB, and leave less work for the end of the run.
const rowGroup = 1 << 14

// pageBuffer is the size of a column's encoding buffer, in bytes. Each of about fifty columns has such a buffer.
const pageBuffer = 64 << 10

// fastSnappy is the faster of two Snappy encoders, because compression takes a fifth of the time of
// a table. After the dictionary encoding, a better encoder would save little space.
type fastSnappy struct{ snappy.Codec }

// Encode implements [compress.Codec].
func (*fastSnappy) Encode(dst, src []byte) ([]byte, error) {
	return s2.EncodeSnappy(dst[:cap(dst)], src), nil
}

// table writes a Parquet file under a temporary name until it is complete.
type table[T any] struct {
	path string
	file *os.File
	buf  *bufio.Writer
	rows *parquet.GenericWriter[T]
}

// createTable starts the table at path.
func createTable[T any](path string) (*table[T], error) {
	file, err := os.OpenFile(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	t := &table[T]{path: path, file: file, buf: bufio.NewWriterSize(file, 1<<18)}
	options := []parquet.WriterOption{
		parquet.Compression(&fastSnappy{}),
		parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.PageBufferSize(pageBuffer),
		parquet.DataPageStatistics(false), // the column index has the statistics
		parquet.KeyValueMetadata("rmreplay_format", strconv.Itoa(Format)),
	}
	// The bounds of names are omitted: no reader searches for ranges of names, and comparing names
	// takes as long as writing them.
	schema := parquet.SchemaOf(new(T))
	for _, column := range schema.Columns() {
		leaf, _ := schema.Lookup(column...)
		if leaf.Node.Type().Kind() == parquet.ByteArray {
			options = append(options, parquet.SkipPageBounds(column...))
		}
	}
	t.rows = parquet.NewGenericWriter[T](t.buf, options...)
	return t, nil
}

// write appends rows.
func (t *table[T]) write(rows []T) error {
	if _, err := t.rows.Write(rows); err != nil {
		return fmt.Errorf("writing %s: %w", t.path, err)
	}
	return nil
}

// commit completes the file and renames it to its final name.
func (t *table[T]) commit() error {
	err := t.rows.Close()
	if err == nil {
		err = t.buf.Flush()
	}
	err = errors.Join(err, t.file.Close())
	if err == nil {
		err = os.Rename(t.path+tempSuffix, t.path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", t.path, err)
	}
	return nil
}

// abandon closes and removes the unfinished file.
func (t *table[T]) abandon() {
	_ = t.file.Close()
	_ = os.Remove(t.path + tempSuffix)
}

// readTable reads a whole table.
func readTable[T any](path string) (rows []T, err error) {
	file, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// The Parquet library uses numbers from the file as indices, so a damaged file may make it panic.
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("reading %s: damaged Parquet file: %v", path, p)
		}
	}()
	f, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	reader := parquet.NewGenericReader[T](f)
	defer reader.Close()
	// The number of rows in the file may be wrong. Each row takes at least one bit, so the file's size limits it.
	rows = make([]T, 0, max(0, min(f.NumRows(), 8*info.Size())))
	for {
		if len(rows) == cap(rows) {
			rows = append(rows, make([]T, 1024)...)[:len(rows)]
		}
		// The library holds all values of a call in memory before it builds rows, so a call reads few rows.
		n, err := reader.Read(rows[len(rows):min(len(rows)+1024, cap(rows))])
		rows = rows[:len(rows)+n]
		switch {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
}
