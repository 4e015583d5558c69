package intake

import (
	"context"

	"rmreplay/internal/accounting/journal"
	"rmreplay/internal/accounting/store"
)

// parts reads the documents of a transaction from the journal: one part while the one before it is applied,
// and the first part of the next transaction while this one ends.
type parts struct {
	in    *Intake
	r     *journal.Reader
	ahead chan part // takes the part that was read
	out   bool      // whether a part was asked for that next has not returned
	last  int64     // number of the last document that next returned
	after *parts    // of the next transaction, if the journal has a full one

	// Of the goroutine that reads.
	entries, bytes int // how many more the transaction may have
	read           int64
}

type part struct {
	*store.Part
	err error
}

// newParts begins to read the first part of a transaction.
func newParts(ctx context.Context, in *Intake, r *journal.Reader) *parts {
	p := &parts{in: in, r: r, ahead: make(chan part, 1), out: true, entries: batchEntries, bytes: batchBytes}
	go p.fetch(ctx)
	return p
}

// fetch reads a part and parses it.
func (p *parts) fetch(ctx context.Context) {
	records, err := p.r.Read(ctx, min(p.entries, partEntries), min(p.bytes, partBytes))
	if err != nil {
		p.ahead <- part{err: err}
		return
	}
	p.entries -= len(records)
	for _, r := range records {
		p.read = r.Number
		p.bytes -= len(r.Payload)
	}
	entries, err := parse(records)
	if err != nil {
		p.ahead <- part{err: err}
		return
	}
	p.ahead <- part{Part: store.NewPart(entries)}
}

// wait waits for the part that next will return.
func (p *parts) wait() {
	if p.out {
		p.ahead <- <-p.ahead
	}
}

// next returns the next part, and none at the end: when the transaction has enough, or the journal has no
// more. It is a function for [store.Store.ApplyAll].
func (p *parts) next(ctx context.Context) (*store.Part, error) {
	if !p.out {
		return nil, nil
	}
	got := <-p.ahead
	p.out = false
	if got.err != nil || len(got.Entries) == 0 {
		return nil, got.err
	}
	p.last = got.Entries[len(got.Entries)-1].Seq
	switch waiting := p.in.journal.Last() - p.read; {
	case p.entries > 0 && p.bytes > 0 && waiting > 0:
		p.out = true
		go p.fetch(ctx)
	case waiting >= batchEntries:
		p.after = newParts(ctx, p.in, p.r)
	}
	return got.Part, nil
}

// stop waits for the goroutine that reads, also for the next transaction, and forgets what it has read.
func (p *parts) stop() {
	for ; p != nil; p = p.after {
		if p.out {
			if got := <-p.ahead; got.Part != nil {
				got.Free()
			}
			p.out = false
		}
	}
}
