package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// rowGroup is how many rows a row group holds at most: large enough to compress
// well, small enough that a writer's memory stays at some tens of MiB.
const rowGroup = 1 << 17

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
	// Snappy costs a tenth of the time of the rest of the encoding, and with
	// dictionaries little is left for a stronger compression to find.
	t.rows = parquet.NewGenericWriter[T](t.buf,
		parquet.Compression(&parquet.Snappy),
		parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.KeyValueMetadata("rmreplay_format", strconv.Itoa(Format)),
	)
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

// writeTable writes a whole table.
func writeTable[T any](path string, rows []T) error {
	t, err := createTable[T](path)
	if err != nil {
		return err
	}
	if err := t.write(rows); err != nil {
		t.abandon()
		return err
	}
	return t.commit()
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

// backgroundTable writes events.parquet from a goroutine of its own while the run goes
// on. The goroutine ends with commit or abandon, one of which must be called; an error
// of the file is commit's to return.
type backgroundTable struct {
	table   *table[Event]
	batches chan []Event
	free    chan []Event // batches that were written
	done    chan error   // the goroutine's error, once
}

// waitingBatches is how many batches of events may wait to be written.
const waitingBatches = 4

func createBackgroundTable(path string) (*backgroundTable, error) {
	t, err := createTable[Event](path)
	if err != nil {
		return nil, err
	}
	b := &backgroundTable{
		table: t, batches: make(chan []Event, waitingBatches),
		free: make(chan []Event, waitingBatches+1), done: make(chan error, 1),
	}
	go b.run(b.batches)
	return b, nil
}

func (b *backgroundTable) run(batches <-chan []Event) {
	var err error
	for batch := range batches {
		if err == nil {
			err = b.table.write(batch)
		}
		select {
		case b.free <- batch:
		default:
		}
	}
	b.done <- err
}

// write hands over a batch, and returns an empty one to fill.
func (b *backgroundTable) write(batch []Event) []Event {
	b.batches <- batch
	select {
	case batch = <-b.free:
		clear(batch) // or the strings of old events would live on
		return batch[:0]
	default:
		return make([]Event, 0, eventBatch)
	}
}

// stop ends the goroutine and returns its error.
func (b *backgroundTable) stop() error {
	if b.batches == nil {
		return nil
	}
	close(b.batches)
	b.batches = nil
	return <-b.done
}

// commit completes the table.
func (b *backgroundTable) commit() error {
	if err := b.stop(); err != nil {
		b.table.abandon()
		return err
	}
	return b.table.commit()
}

// abandon leaves no table.
func (b *backgroundTable) abandon() {
	_ = b.stop() // of a table that nobody wants
	b.table.abandon()
}
