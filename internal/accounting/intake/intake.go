// Package intake receives documents for a data directory. It acknowledges a document when the document is on disk, in
// a journal. A goroutine then moves the document into the store.
//
// The store records which document of the journal it contains last. So each document in the journal is applied exactly
// once, even if the process is killed. A segment of the journal is removed when all its documents are in the store's
// parts.
package intake

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/wal"
)

// Arrival is a document that was received.
type Arrival struct {
	Source   store.Source
	Index    string // name of the index that Slurm sent the document to
	Document []byte // unchanged, as received
}

// Options configures [Open].
type Options struct {
	// Cluster is the cluster of documents that do not name a cluster. If it is empty, the name of
	// the index is used.
	Cluster string
	Store   store.Options
	Journal wal.Options
	// Now returns the current time.
	Now func() time.Time
	// Report is called with errors that the intake recovers from, such as a full disk. It may be
	// nil.
	Report func(err error)
}

// Intake is an open data directory.
type Intake struct {
	opts    Options
	store   *store.Store
	journal *wal.Log
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine apply has ended

	mu      sync.Mutex
	applied int64
	moved   chan struct{} // closed when applied changes
	hurry   chan struct{} // has an element when Wait is called
	total   store.Outcome // since the data directory was opened
	fault   error         // why the last attempt to write the store failed; nil if it succeeded
}

// Open opens a data directory, and creates the directory if necessary.
func Open(ctx context.Context, dir string, opts Options) (*Intake, error) {
	in, err := open(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	in.start(ctx)
	return in, nil
}

// open does the work of Open, without starting goroutines.
func open(ctx context.Context, dir string, opts Options) (*Intake, error) {
	if opts.Report == nil {
		opts.Report = func(error) {}
	}
	opts.Store.Report = opts.Report
	s, err := store.Open(ctx, dir, opts.Store)
	if err != nil {
		return nil, err
	}
	applied := s.Applied()
	opts.Journal.Kind = "accounting"
	j, err := wal.Open(filepath.Join(dir, "journal"), applied, opts.Journal)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for _, torn := range j.Torn() {
		what := "the journal ended in an incomplete record that was never acknowledged"
		if torn.Inner {
			what = "the journal is damaged in the middle, so acknowledged documents may be lost (accounting reconcile finds " +
				"the jobs that are missing)"
		}
		opts.Report(fmt.Errorf("%s: %d bytes were moved to %s", what, torn.Bytes, torn.Path))
	}
	return &Intake{
		opts: opts, store: s, journal: j, applied: applied, done: make(chan struct{}),
		moved: make(chan struct{}), hurry: make(chan struct{}, 1),
	}, nil
}

// start starts the goroutine apply, which [Intake.Close] ends.
func (in *Intake) start(ctx context.Context) {
	ctx, in.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go in.apply(ctx)
}

// Store returns the store.
func (in *Intake) Store() *store.Store { return in.store }

// Accept makes documents durable and returns the number of the last document. On error, no
// document is stored. After [wal.ErrSlow], however, documents may be stored. Retries of the
// client are deduplicated.
func (in *Intake) Accept(arrivals ...Arrival) (last int64, err error) {
	if len(arrivals) == 0 {
		return 0, nil
	}
	now := in.opts.Now()
	payloads := make([][]byte, len(arrivals))
	for i, a := range arrivals {
		payloads[i] = encode(a, in.ClusterOf(a.Index), now)
	}
	first, err := in.journal.Append(payloads...)
	return first + int64(len(arrivals)) - 1, err
}

// ClusterOf returns the cluster for documents of an index that do not name a cluster.
func (in *Intake) ClusterOf(index string) string { return cmp.Or(in.opts.Cluster, index) }

// Wait waits until the store has the document with a number.
func (in *Intake) Wait(ctx context.Context, number int64) error {
	select {
	case in.hurry <- struct{}{}:
	default:
	}
	for {
		in.mu.Lock()
		applied, moved := in.applied, in.moved
		in.mu.Unlock()
		if applied >= number {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the store: %w", ctx.Err())
		case <-in.done:
			return errors.New("waiting for the store: it is closed")
		}
	}
}

// Status says how far the store is behind the journal.
type Status struct {
	Received int64         // number of the last durable document
	Applied  int64         // number of the last document that the store has
	Journal  int64         // size of the journal in bytes
	Outcome  store.Outcome // since the data directory was opened
	Fault    error         // why the store cannot be written at present; the journal keeps the documents
}

// Status returns the intake's [Status].
func (in *Intake) Status() Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	return Status{in.journal.Last(), in.applied, in.journal.Size(), in.total, in.fault}
}

// Remove removes the jobs that a filter chooses, also from the journal, and returns the number of
// jobs.
func (in *Intake) Remove(ctx context.Context, f store.Filter) (jobs int64, err error) {
	if err := in.journal.Turn(); err != nil {
		return 0, err
	}
	if err := in.Wait(ctx, in.journal.Last()); err != nil {
		return 0, err
	}
	if jobs, err = in.store.Remove(ctx, f); err != nil {
		return jobs, err
	}
	return jobs, in.journal.Prune(in.store.Durable())
}

// Anonymize replaces the documents of the jobs that a filter chooses, and returns the number of
// jobs. anonymous returns the new document for a stored document. The stored documents are
// removed, also from the journal. Jobs that arrive during the call are not changed. After an
// error, the call can be repeated.
func (in *Intake) Anonymize(
	ctx context.Context, f store.Filter, anonymous func(d *store.Stored) ([]byte, error),
) (jobs int64, err error) {
	if err := in.journal.Turn(); err != nil {
		return 0, err
	}
	f.Through = in.journal.Last()
	if err := in.Wait(ctx, f.Through); err != nil {
		return 0, err
	}
	v := in.store.View()
	defer v.Close()
	var batch []Arrival
	size := 0
	send := func() error {
		_, err := in.Accept(batch...)
		jobs += int64(len(batch))
		batch, size = batch[:0], 0
		return err
	}
	err = v.Each(ctx, f, func(d *store.Stored) error {
		text, err := anonymous(d)
		if err != nil {
			return fmt.Errorf("document %d: %w", d.Seq, err)
		}
		batch, size = append(batch, Arrival{d.Source, d.Index, text}), size+len(text)
		if len(batch) < batchEntries && size < batchBytes {
			return nil
		}
		return send()
	})
	if err == nil {
		err = send()
	}
	if err == nil {
		_, err = in.Remove(ctx, f)
	}
	return jobs, err
}

// Close stops the intake. Documents that are not yet in the store remain in the journal.
func (in *Intake) Close() error {
	in.cancel()
	<-in.done
	return errors.Join(in.journal.Close(), in.store.Close())
}

const (
	// The store writes a file per batch. A larger batch takes less time per document, but more
	// memory.
	batchEntries = 8192
	batchBytes   = 16 << 20
	// pause is the time between batches, unless Wait was called or a full batch is ready. Writing
	// even a small file takes milliseconds.
	pause     = 200 * time.Millisecond
	longPause = 30 * time.Second // the longest time between attempts after errors
)

// batch is a batch of documents read from the journal.
type batch struct {
	entries []store.Entry
	err     error
}

// apply is the goroutine that moves documents into the store. Meanwhile another goroutine reads the
// next batch.
func (in *Intake) apply(ctx context.Context) {
	defer close(in.done)
	for wait := pause; ctx.Err() == nil; {
		err := in.applyFrom(ctx, in.Status().Applied, &wait)
		if err == nil || ctx.Err() != nil {
			continue
		}
		in.mu.Lock()
		in.fault = err
		in.mu.Unlock()
		in.opts.Report(err)
		in.rest(ctx, wait)
		wait = min(2*wait, longPause)
	}
}

// applyFrom applies the documents after number applied, until an error or the end of ctx. Each
// success resets wait, the pause after errors.
func (in *Intake) applyFrom(ctx context.Context, applied int64, wait *time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	ahead := make(chan batch)
	go in.read(ctx, applied, ahead)
	defer func() {
		cancel()
		for range ahead { // until the goroutine read ends because ctx ended
		}
	}()
	for b := range ahead {
		if b.err != nil {
			return b.err
		}
		if err := in.applyBatch(ctx, b.entries); err != nil {
			return err
		}
		*wait = pause
		if in.journal.Last()-in.Status().Applied < batchEntries {
			in.rest(ctx, pause)
		}
	}
	return nil
}

// rest waits, but returns at once if Wait is called.
func (in *Intake) rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-in.hurry:
	case <-ctx.Done():
	}
}

// read reads the documents after a number, until ctx ends or the journal cannot be read.
func (in *Intake) read(ctx context.Context, after int64, to chan<- batch) {
	defer close(to)
	r := in.journal.NewReader(after)
	defer func() { _ = r.Close() }() // the journal was only read
	for {
		records, err := r.Read(ctx, batchEntries, batchBytes)
		b := batch{err: err}
		if err == nil {
			b.entries, b.err = parse(records)
		}
		select {
		case to <- b:
		case <-ctx.Done():
			return
		}
		if b.err != nil {
			return
		}
	}
}

// applyBatch applies documents, and removes segments of the journal that are no longer needed.
func (in *Intake) applyBatch(ctx context.Context, entries []store.Entry) error {
	out, err := in.store.Apply(ctx, entries)
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.applied = entries[len(entries)-1].Seq
	in.total.Add(out)
	in.fault = nil
	close(in.moved)
	in.moved = make(chan struct{})
	in.mu.Unlock()
	return in.journal.Prune(in.store.Durable())
}

// parse decodes records, in parallel on all processors.
func parse(records []wal.Record) ([]store.Entry, error) {
	entries := make([]store.Entry, len(records))
	errs := make([]error, len(records))
	var group sync.WaitGroup
	workers := runtime.NumCPU()
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(records); i += workers {
				entries[i], errs[i] = decode(records[i])
			}
		})
	}
	group.Wait()
	return entries, errors.Join(errs...)
}

// An envelope consists of a version, the time of the arrival in nanoseconds since 1970, three
// texts, each after its length (source, index, cluster), and the document.
const envelope = 1

func encode(a Arrival, cluster string, now time.Time) []byte {
	text := make([]byte, 0, len(a.Document)+len(a.Source)+len(a.Index)+len(cluster)+32)
	text = append(text, envelope)
	text = binary.AppendVarint(text, now.UnixNano())
	for _, s := range []string{string(a.Source), a.Index, cluster} {
		text = binary.AppendUvarint(text, uint64(len(s)))
		text = append(text, s...)
	}
	return append(text, a.Document...)
}

func decode(r wal.Record) (store.Entry, error) {
	fault := func() error {
		return fmt.Errorf("reading the journal: record %d: not an envelope of version %d", r.Number, envelope)
	}
	text := r.Payload
	if len(text) == 0 || text[0] != envelope {
		return store.Entry{}, fault()
	}
	nano, n := binary.Varint(text[1:])
	if n <= 0 {
		return store.Entry{}, fault()
	}
	text = text[1+n:]
	var words [3]string
	for i := range words {
		length, n := binary.Uvarint(text)
		if n <= 0 || length > uint64(len(text)-n) {
			return store.Entry{}, fault()
		}
		words[i], text = string(text[n:n+int(length)]), text[n+int(length):]
	}
	return store.ParseArrival(r.Number, time.Unix(0, nano).UTC(), store.Source(words[0]), words[1], words[2], text), nil
}
