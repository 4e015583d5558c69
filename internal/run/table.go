package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/s2"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"rmreplay/internal/jobjson"
)

// rowGroup is how many rows a row group holds at most: large enough to compress
// well, small enough that a writer's memory stays at a few MiB and its work is not all
// left for the end.
const rowGroup = 1 << 14

// pageBuffer is how many bytes of a column are encoded at once. There is such a buffer
// for each of some fifty columns.
const pageBuffer = 64 << 10

// fastSnappy is the quicker of two encoders of Snappy. Compression is a fifth of what a
// table costs, and with dictionaries little is left for a better one to find.
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
	file, err := os.OpenFile(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	t := &table[T]{path: path, file: file, buf: bufio.NewWriterSize(file, 1<<18)}
	options := []parquet.WriterOption{
		parquet.Compression(&fastSnappy{}),
		parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.PageBufferSize(pageBuffer),
		parquet.DataPageStatistics(false), // the column index has them
		parquet.KeyValueMetadata("rmreplay_format", strconv.Itoa(Format)),
	}
	// Nobody looks for a range of names, and to compare them costs as much as to write them.
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

// commit completes the file and gives it its name.
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
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// The Parquet library indexes by numbers that it reads from the file, and a
	// damaged file can make it panic.
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
	// The number of rows in the file is a claim: a row takes a bit at least.
	rows = make([]T, 0, max(0, min(f.NumRows(), 8*info.Size())))
	for {
		if len(rows) == cap(rows) {
			rows = append(rows, make([]T, 1024)...)[:len(rows)]
		}
		// The library holds all values of a call in memory before it makes rows.
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

// backgroundTable writes a table from a goroutine of its own while the run goes on, out of
// batches of T. The goroutine ends with commit or abandon, one of which must be called; an
// error of the file is commit's to return.
type backgroundTable[T, R any] struct {
	table   *table[R]
	put     func(*table[R], []T) error
	batch   []T // that is being filled
	batches chan []T
	free    chan []T   // batches that were written
	written func(T)    // told, if not nil, of what has been written, in add
	done    chan error // the goroutine's error, once
}

const (
	// batchSize is how much goes to the goroutine at once.
	batchSize = 1024
	// waitingBatches is how many batches may wait to be written.
	waitingBatches = 4
)

// createBackgroundTable starts the table at path, to which put writes a batch.
func createBackgroundTable[T, R any](path string, put func(*table[R], []T) error) (*backgroundTable[T, R], error) {
	t, err := createTable[R](path)
	if err != nil {
		return nil, err
	}
	b := &backgroundTable[T, R]{
		table: t, put: put, batch: make([]T, 0, batchSize), batches: make(chan []T, waitingBatches),
		free: make(chan []T, waitingBatches+1), done: make(chan error, 1),
	}
	go b.run(b.batches) // stop forgets the channel
	return b, nil
}

func (b *backgroundTable[T, R]) run(batches <-chan []T) {
	var err error
	for batch := range batches {
		if err == nil {
			err = b.put(b.table, batch)
		}
		select {
		case b.free <- batch:
		default:
		}
	}
	b.done <- err
}

// add appends to the table.
func (b *backgroundTable[T, R]) add(v T) {
	b.batch = append(b.batch, v)
	if len(b.batch) < batchSize {
		return
	}
	b.batches <- b.batch
	select {
	case b.batch = <-b.free:
		if b.written != nil {
			for _, v := range b.batch {
				b.written(v)
			}
		}
		clear(b.batch) // or what it points to would live on
		b.batch = b.batch[:0]
	default:
		b.batch = make([]T, 0, batchSize)
	}
}

// stop ends the goroutine and returns its error.
func (b *backgroundTable[T, R]) stop() error {
	if b.batches == nil {
		return nil
	}
	b.batches <- b.batch
	close(b.batches)
	b.batches = nil
	return <-b.done
}

// commit completes the table.
func (b *backgroundTable[T, R]) commit() error {
	if err := b.stop(); err != nil {
		b.table.abandon()
		return err
	}
	return b.table.commit()
}

// abandon leaves no table; a table that was never started is none.
func (b *backgroundTable[T, R]) abandon() {
	if b == nil {
		return
	}
	_ = b.stop() // of a table that nobody wants
	b.table.abandon()
}

// eventsTable is events.parquet in the making.
type eventsTable = backgroundTable[Event, Event]

func createEventsTable(dir string) (*eventsTable, error) {
	return createBackgroundTable(filepath.Join(dir, eventsFile), (*table[Event]).write)
}

// jobsTable is jobs.parquet in the making: the goroutine makes the rows of submissions,
// which must not change any more.
type jobsTable = backgroundTable[*submission, Row]

// createJobsTable starts jobs.parquet. amend, if not nil, looks at every row.
func createJobsTable(dir string, amend func(*Row)) (*jobsTable, error) {
	rows := &rowBuffer{amend: amend}
	return createBackgroundTable(filepath.Join(dir, jobsFile), func(t *table[Row], batch []*submission) error {
		for _, s := range batch {
			if err := rows.add(t, s); err != nil {
				return err
			}
		}
		return rows.write(t)
	})
}

// rowBuffer makes rows, and their requests in one piece of memory.
type rowBuffer struct {
	amend    func(*Row)
	rows     []Row
	requests []byte
	ends     []int // of each row's request
}

// add adds the rows of a submission that was answered, and writes what is there when that
// is much.
func (b *rowBuffer) add(t *table[Row], s *submission) error {
	if !s.answered {
		return nil
	}
	for r := range s.rows {
		b.rows = append(b.rows, Row{})
		r.put(&b.rows[len(b.rows)-1])
		if !s.heard && r == &s.first {
			b.requests = jobjson.Append(b.requests, r.job)
		}
		b.ends = append(b.ends, len(b.requests))
		if len(b.rows) < batchSize {
			continue
		}
		if err := b.write(t); err != nil {
			return err
		}
	}
	return nil
}

// write writes the rows.
func (b *rowBuffer) write(t *table[Row]) error {
	requests, begin := string(b.requests), 0
	for i, end := range b.ends {
		row := &b.rows[i]
		row.Request = requests[begin:end]
		begin = end
		if b.amend != nil {
			b.amend(row)
		}
	}
	err := t.write(b.rows)
	b.rows, b.requests, b.ends = b.rows[:0], b.requests[:0], b.ends[:0]
	return err
}
