package run

import (
	"path/filepath"

	"rmreplay/internal/jobjson"
)

const (
	// batchSize is the number of values in a batch.
	batchSize = 1024
	// waitingBatches is the maximum number of batches that wait to be written.
	waitingBatches = 4
)

// backgroundTable writes a table in its own goroutine during the run. put writes batches of T as rows of type R. The
// owner must call commit or abandon, which end the goroutine. commit returns the goroutine's error.
//
// The owner and the goroutine reuse the batches. Without reuse, the batches for the events of the
// KTH log would need 17 MiB.
type backgroundTable[T, R any] struct {
	table *table[R]
	put   func(*table[R], []T) error
	batch []T        // filled by add
	full  chan []T   // batches for the goroutine; nil after stop
	used  chan []T   // batches that the goroutine has written, for reuse
	done  chan error // receives the goroutine's error when the goroutine ends
	// written, if not nil, is called with each value that the goroutine has written. The calls are made in add.
	written func(T)
}

// createBackgroundTable starts the table at path.
func createBackgroundTable[T, R any](path string, put func(*table[R], []T) error) (*backgroundTable[T, R], error) {
	t, err := createTable[R](path)
	if err != nil {
		return nil, err
	}
	b := &backgroundTable[T, R]{
		table: t, put: put, batch: make([]T, 0, batchSize),
		full: make(chan []T, waitingBatches), used: make(chan []T, waitingBatches+1), done: make(chan error, 1),
	}
	for range waitingBatches {
		b.used <- nil
	}
	go b.run(b.full) // an argument, because stop sets b.full to nil
	return b, nil
}

func (b *backgroundTable[T, R]) run(full <-chan []T) {
	var err error
	for batch := range full {
		if err == nil {
			err = b.put(b.table, batch)
		}
		b.used <- batch
	}
	b.done <- err
}

// add appends to the table. The goroutine reads what v points to, so the caller must not change it afterwards.
func (b *backgroundTable[T, R]) add(v T) {
	if b.batch = append(b.batch, v); len(b.batch) < batchSize {
		return
	}
	b.full <- b.batch
	if b.batch = <-b.used; b.batch == nil {
		b.batch = make([]T, 0, batchSize)
	}
	if b.written != nil {
		for _, v := range b.batch {
			b.written(v)
		}
	}
	clear(b.batch) // so that the garbage collector frees what the values refer to
	b.batch = b.batch[:0]
}

// stop ends the goroutine and returns its error.
func (b *backgroundTable[T, R]) stop() error {
	if b.full == nil {
		return nil
	}
	b.full <- b.batch
	close(b.full)
	b.full = nil
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

// abandon removes the table. A nil table was never started.
func (b *backgroundTable[T, R]) abandon() {
	if b == nil {
		return
	}
	_ = b.stop() // the table is removed anyway
	b.table.abandon()
}

// eventsTable writes events.parquet.
type eventsTable = backgroundTable[Event, Event]

func createEventsTable(dir string) (*eventsTable, error) {
	return createBackgroundTable(filepath.Join(dir, eventsFile), (*table[Event]).write)
}

// jobsTable writes jobs.parquet. Its goroutine makes the rows of submissions that can no longer change.
type jobsTable = backgroundTable[*submission, Row]

// createJobsTable starts jobs.parquet. If amend is not nil, the goroutine calls it with every row.
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

// rowBuffer collects rows. It stores all their requests in one string.
type rowBuffer struct {
	amend    func(*Row)
	rows     []Row
	requests []byte
	ends     []int // the end of each row's request
}

// add adds the rows of an answered submission. An array may have many tasks, so add writes the
// buffer whenever it has batchSize rows.
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

// write writes the rows and empties the buffer.
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
