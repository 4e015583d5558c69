// Package intake is the way of documents into a data directory: they are durable in a journal before
// they are acknowledged, and a goroutine moves them from there into the store.
//
// The store notes in the same transaction how far it got, so that each document of the journal is
// applied exactly once, wherever the process was killed. Segments of the journal are removed when
// the database has written a checkpoint behind them.
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

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/journal"
	"rmreplay/internal/accounting/store"
)

// Arrival is a document that came.
type Arrival struct {
	Source   store.Source
	Index    string // name of the index that it was sent to
	Document []byte // as it came
}

// Options configures [Open].
type Options struct {
	// Cluster stands for the cluster in documents that name none. If it is empty, the name of the
	// index does.
	Cluster string
	Store   store.Options
	Journal journal.Options
	// Now returns the time of an arrival.
	Now func() time.Time
	// Report is told of errors that the intake overcomes by itself, such as a full disk. It may be nil.
	Report func(err error)
}

// writer is the part of a [store.Store] that takes documents.
type writer interface {
	Apply(ctx context.Context, entries []store.Entry) (store.Outcome, error)
	ApplyAll(ctx context.Context, next func() (*store.Part, error)) (store.Outcome, error)
}

// Intake is an open data directory.
type Intake struct {
	opts    Options
	store   *store.Store
	to      writer // the store
	journal *journal.Journal
	cancel  context.CancelFunc
	done    chan struct{} // closed when apply has ended
	rolling chan struct{} // closed when rollUp has ended

	mu      sync.Mutex
	applied int64
	moved   chan struct{} // closed when applied changes
	hurry   chan struct{} // has an element when somebody waits
	total   store.Outcome // since it was opened
	fault   error         // why the store cannot be written now
}

// Open opens a data directory, and makes it if necessary.
func Open(ctx context.Context, dir string, opts Options) (*Intake, error) {
	in, err := open(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	in.start(ctx)
	return in, nil
}

// open is Open without the goroutines.
func open(ctx context.Context, dir string, opts Options) (*Intake, error) {
	s, err := store.Open(ctx, dir, opts.Store)
	if err != nil {
		return nil, err
	}
	applied, err := s.Applied(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	j, err := journal.Open(filepath.Join(dir, "journal"), applied, opts.Journal)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if opts.Report == nil {
		opts.Report = func(error) {}
	}
	for _, torn := range j.Torn() {
		what := "the journal ended in a record that is not whole, which nobody was told is safe"
		if torn.Inner {
			what = "the journal cannot be read in the middle, where acknowledged documents may be (accounting reconcile finds the jobs that are missing)"
		}
		opts.Report(fmt.Errorf("%s: %d bytes are now in %s", what, torn.Bytes, torn.Path))
	}
	return &Intake{
		opts: opts, store: s, to: s, journal: j, applied: applied, done: make(chan struct{}), rolling: make(chan struct{}),
		moved: make(chan struct{}), hurry: make(chan struct{}, 1),
	}, nil
}

// start starts the goroutines, which [Intake.Close] ends.
func (in *Intake) start(ctx context.Context) {
	ctx, in.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go in.apply(ctx)
	go in.rollUp(ctx)
}

// Store returns the store.
func (in *Intake) Store() *store.Store { return in.store }

// Accept makes documents durable and returns the number of the last one. With an error none is kept, unless it
// is [journal.ErrSlow]: if the disk confirms them later, the client's repetitions are duplicates.
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

// ClusterOf returns the name that stands for the cluster in documents of an index that name none.
func (in *Intake) ClusterOf(index string) string { return cmp.Or(in.opts.Cluster, index) }

// Wait waits until the store has the document of a number.
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

// Status is how far the store is behind.
type Status struct {
	Received int64         // number of the last durable document
	Applied  int64         // number of the last one that the store has
	Journal  int64         // bytes
	Outcome  store.Outcome // since the data directory was opened
	Fault    error         // why the store cannot be written now; documents are kept in the journal meanwhile
}

// Status returns how far the store is behind.
func (in *Intake) Status() Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	return Status{in.journal.Last(), in.applied, in.journal.Size(), in.total, in.fault}
}

// Close stops. What the store does not have stays in the journal.
func (in *Intake) Close() error {
	in.cancel()
	<-in.done
	<-in.rolling
	return errors.Join(in.journal.Close(), in.store.Close())
}

const (
	// A transaction of many rows costs less for each, and one of a row group least.
	batchEntries = store.RowGroup
	batchBytes   = 256 << 20
	// A transaction is made of parts, so that not all of its documents are in memory.
	partEntries = batchEntries / 12
	partBytes   = 16 << 20
	// pause is between transactions, unless somebody waits or there is enough for a row group: a transaction
	// costs milliseconds, however small it is.
	pause     = 200 * time.Millisecond
	longPause = 30 * time.Second // between attempts after errors
	// mostRemovable is how many segments of the journal are removed at once: each time the database writes a
	// checkpoint before.
	mostRemovable = 4
	// mostFailures is how often a transaction fails without the disk's part before a document is thought to be
	// the cause, and how often that document is then tried alone.
	mostFailures = 3
)

// apply is the goroutine that moves documents into the store.
func (in *Intake) apply(ctx context.Context) {
	defer close(in.done)
	r := in.journal.NewReader(in.applied)
	defer func() { _ = r.Close() }() // it has only read
	var p *parts                     // of the next transaction, if it is being read
	refused := int64(0)              // the last document of a transaction that the store refused
	failures := 0                    // of transactions from the same document on, without the disk's part
	for wait := pause; ; {
		if p == nil {
			p = newParts(ctx, in, r)
		}
		last, err := in.applyNext(ctx, p, refused)
		applied := in.Status().Applied
		if err != nil || ctx.Err() != nil {
			p.stop()
			if ctx.Err() != nil {
				return
			}
			_ = r.Close()
			p, r = nil, in.journal.NewReader(applied)
		} else {
			p = p.after
		}
		if err == nil || store.Outside(err) {
			failures = 0
		} else if failures++; last > refused && (store.Refused(err) || failures >= mostFailures) {
			refused, failures = last, 0
			continue
		}
		in.mu.Lock()
		in.fault = err
		in.mu.Unlock()
		if err != nil {
			in.opts.Report(err)
			wait = min(2*wait, longPause)
		} else if wait = pause; in.journal.Last()-applied >= batchEntries {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-in.hurry:
			timer.Stop()
		case <-ctx.Done():
			return
		}
	}
}

// applyNext waits for records, applies a transaction of them, and removes segments that are not needed any
// more. It returns the number of the last one. Up to the document refused, each part has a transaction of
// its own, in which [Intake.applyPart] looks for the document at fault.
func (in *Intake) applyNext(ctx context.Context, p *parts, refused int64) (last int64, err error) {
	p.wait()
	var out store.Outcome
	if in.Status().Applied < refused {
		out, err = in.applyParts(ctx, p)
	} else {
		out, err = in.to.ApplyAll(ctx, func() (*store.Part, error) { return p.next(ctx) })
	}
	if err != nil {
		return p.last, err
	}
	in.mu.Lock()
	in.applied = p.last
	in.total.Add(out)
	close(in.moved)
	in.moved = make(chan struct{})
	in.mu.Unlock()
	if in.journal.Removable(p.last) >= mostRemovable {
		if err := in.store.Checkpoint(ctx); err != nil {
			in.opts.Report(err) // the segments stay until the next one
			return p.last, nil
		}
		return p.last, in.journal.Prune(p.last)
	}
	return p.last, nil
}

// rollEvery is how often days are rolled up that are over.
const rollEvery = 10 * time.Second

// rollUp is the goroutine that rolls days up, while the store is not behind.
func (in *Intake) rollUp(ctx context.Context) {
	defer close(in.rolling)
	for {
		for more := true; more && ctx.Err() == nil; {
			if status := in.Status(); status.Applied < status.Received {
				break
			}
			var err error
			if more, err = in.store.RollUp(ctx, in.opts.Now()); err != nil && ctx.Err() == nil {
				in.opts.Report(err)
			}
		}
		timer := time.NewTimer(rollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// applyParts applies each part in a transaction of its own.
func (in *Intake) applyParts(ctx context.Context, p *parts) (out store.Outcome, err error) {
	for {
		part, err := p.next(ctx)
		if err != nil || part == nil {
			return out, err
		}
		part.Free() // its entries may be taken apart
		more, err := in.applyPart(ctx, part.Entries)
		if err != nil {
			return out, err
		}
		out.Add(more)
	}
}

// applyPart applies entries. If they fail, and not because of the disk, it halves them until it has found the
// one at fault, of which then only the document is kept. If that fails, too, the entry was not the cause.
func (in *Intake) applyPart(ctx context.Context, entries []store.Entry) (out store.Outcome, err error) {
	if len(entries) == 1 {
		return in.applyOne(ctx, &entries[0])
	}
	out, err = in.to.Apply(ctx, entries)
	if err == nil || store.Outside(err) {
		return out, err
	}
	half := len(entries) / 2
	if out, err = in.applyPart(ctx, entries[:half]); err != nil {
		return out, err
	}
	rest, err := in.applyPart(ctx, entries[half:])
	out.Add(rest)
	return out, err
}

// applyOne applies an entry, or else its document alone. An error that may pass, such as one about the memory
// that queries use, too, must come several times.
func (in *Intake) applyOne(ctx context.Context, e *store.Entry) (out store.Outcome, err error) {
	for tries := 1; ; tries++ {
		out, err = in.to.Apply(ctx, []store.Entry{*e})
		if err == nil || store.Outside(err) {
			return out, err
		}
		if store.Refused(err) || tries == mostFailures {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	in.opts.Report(fmt.Errorf("document %d: only its text is kept: %w", e.Seq, err))
	e.Job = document.Unstorable(e.Document, e.Job.Cluster)
	return in.to.Apply(ctx, []store.Entry{*e})
}

// parse reads records on all processors.
func parse(records []journal.Record) ([]store.Entry, error) {
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

// mostAhead is how long after its arrival a job that Slurm sends may have ended: clocks differ, by no more
// than a day. The pages' periods count back from the newest end, so one in the future would empty them.
const mostAhead = 24 * time.Hour

// An envelope is a version, the arrival in nanoseconds since 1970, three texts with their lengths
// before them (source, index, cluster), and the document.
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

func decode(r journal.Record) (store.Entry, error) {
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
	e := store.Entry{
		Seq: r.Number, Arrived: time.Unix(0, nano).UTC(), Source: store.Source(words[0]), Index: words[1],
		Document: text, Job: document.Parse(text, words[2]),
	}
	if e.Source.Sent() {
		e.Job.EndBy(e.Arrived.Add(mostAhead))
	}
	return e, nil
}
