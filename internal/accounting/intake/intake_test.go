package intake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/journal"
	"rmreplay/internal/accounting/store"
)

// TestBacklog opens data directories whose journals have documents for two transactions of several parts in
// several segments: jobs that come again in the same part and in others, and some whose last document
// differs. Each job must be there once, with its last document.
func TestBacklog(t *testing.T) {
	const jobs = 50_000 // of three documents each: more than a row group together
	dir := t.TempDir()
	j, err := journal.Open(filepath.Join(dir, "journal"), 0, journal.Options{SegmentBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	text := func(job int, name string) []byte {
		return fmt.Appendf(nil, `{"jobid":%d,"cluster":"vale","job_name":%q,"nodes":"n1","state":"COMPLETED","@submit":"2024-02-29T00:00:00","@start":"2024-02-29T01:00:00","@end":%q}`,
			job, name, end.Add(time.Duration(job)*time.Minute).Format("2006-01-02T15:04:05"))
	}
	var payloads [][]byte
	for round := range 3 {
		for job := 1; job <= jobs; job++ {
			name := "first"
			if round == 2 && job%10 == 1 {
				name = "last"
			}
			payloads = append(payloads, encode(Arrival{Source: store.Received, Index: "slurm", Document: text(job, name)}, "vale", end.Add(jobs*time.Minute)))
			if round == 0 && job%10 == 0 { // again at once
				payloads = append(payloads, payloads[len(payloads)-1])
			}
		}
	}
	for part := range slices.Chunk(payloads, 10_000) {
		if _, err := j.Append(part...); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	in, err := Open(ctx, dir, Options{Now: time.Now, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Wait(ctx, int64(len(payloads))); err != nil {
		t.Fatal(err)
	}
	if got, want := in.Status().Outcome, (store.Outcome{Added: jobs, Duplicate: 2 * jobs, Replaced: jobs / 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var rows, different, last, documents, superseded, duplicates int64
	err = in.Store().Read(ctx, func(v *store.Snapshot) error {
		return v.One(`SELECT count(*), count(DISTINCT jobid), count(*) FILTER (job_name = 'last'), (SELECT count(*) FROM documents d JOIN jobs j USING (seq) WHERE contains(decode(d.document), '"last"')),
			(SELECT count(*) FROM superseded), (SELECT documents FROM counts WHERE rule = 'duplicate') FROM jobs`, nil, &rows, &different, &last, &documents, &superseded, &duplicates)
	})
	if err != nil || rows != jobs || different != jobs || last != jobs/10 || documents != jobs/10 || superseded != jobs/10 || duplicates != 2*jobs {
		t.Error(rows, different, last, documents, superseded, duplicates, err)
	}
}

// TestFutureEnd checks that an end more than a day after its arrival is a bad value of documents that Slurm
// sent, and of no others.
func TestFutureEnd(t *testing.T) {
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	ctx := context.Background()
	in, err := Open(ctx, t.TempDir(), Options{Now: func() time.Time { return now }, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var last int64
	for i, source := range []store.Source{store.Received, store.Kafka, store.Imported, store.Reconciled, store.FromRun} {
		for k, ahead := range []time.Duration{24 * time.Hour, 24*time.Hour + time.Second} {
			text := fmt.Appendf(nil, `{"jobid":%d,"cluster":"vale","nodes":"n1","state":"COMPLETED","@start":"2024-03-01T01:00:00","@end":%q}`,
				2*i+k+1, now.Add(ahead).Format("2006-01-02T15:04:05"))
			if last, err = in.Accept(Arrival{Source: source, Index: "slurm", Document: text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := in.Wait(ctx, last); err != nil {
		t.Fatal(err)
	}
	var marked, others string
	err = in.Store().Read(ctx, func(v *store.Snapshot) error {
		return v.One(`SELECT string_agg(jobid, ' ' ORDER BY jobid) FILTER (marks = 'bad_value' AND end_time IS NULL AND elapsed_s IS NULL),
			string_agg(jobid, ' ' ORDER BY jobid) FILTER (marks IS NULL AND end_time IS NOT NULL) FROM jobs`, nil, &marked, &others)
	})
	if err != nil || marked != "2 4" || others != "1 3 5 6 7 8 9 10" {
		t.Errorf("marked: %s; not marked: %s (want 2 4 and the others): %v", marked, others, err)
	}
}

// faulty is a store that fails while fault returns an error for an entry.
type faulty struct {
	*store.Store
	fault func(e *store.Entry) error
}

func (f faulty) Apply(ctx context.Context, entries []store.Entry) (store.Outcome, error) {
	return f.ApplyAll(ctx, func() (*store.Part, error) {
		p := &store.Part{Entries: entries}
		entries = nil
		return p, nil
	})
}

func (f faulty) ApplyAll(ctx context.Context, next func() (*store.Part, error)) (store.Outcome, error) {
	return f.Store.ApplyAll(ctx, func() (*store.Part, error) {
		p, err := next()
		if err != nil || p == nil {
			return p, err
		}
		for i := range p.Entries {
			if err := f.fault(&p.Entries[i]); err != nil {
				p.Free()
				return nil, err
			}
		}
		return p, nil
	})
}

// TestFaultyDocument opens a data directory whose journal has a document that the store cannot take. It keeps
// only the text of that one, and all of the others. A full disk is no document's fault, however long it lasts,
// and neither is a failure of the store that passes.
func TestFaultyDocument(t *testing.T) {
	const documents, marked = 500, 321
	memory, disk := errors.New("Out of Memory Error: could not allocate block"), errors.New("TransactionContext Error: Failed to commit: Could not write file: No space left on device")
	for _, c := range []struct {
		name    string
		err     error
		passes  int // the attempt at the document that succeeds; 0 for none
		refused string
	}{
		{"memory", memory, 0, "321"},
		{"a fatal error", errors.New("INTERNAL Error: Attempted to access index 7 within vector of size 7"), 0, "321"},
		{"full disk", disk, 12, ""},
		{"memory for a while", memory, 14, ""}, // the document's second attempt alone
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			in, err := open(ctx, t.TempDir(), Options{Now: time.Now, Report: func(err error) { t.Log(err) }})
			if err != nil {
				t.Fatal(err)
			}
			attempts := 0
			in.to = faulty{in.store, func(e *store.Entry) error {
				if e.Seq != marked || e.Job.Marks&document.Refused != 0 {
					return nil
				}
				if attempts++; attempts == c.passes {
					c.err = nil
				}
				return c.err
			}}
			arrivals := make([]Arrival, documents)
			for i := range arrivals {
				arrivals[i] = Arrival{Source: store.Received, Index: "slurm", Document: fmt.Appendf(nil, `{"jobid":%d,"@submit":"2024-03-01T00:00:00"}`, i+1)}
			}
			last, err := in.Accept(arrivals...)
			if err != nil {
				t.Fatal(err)
			}
			in.start(ctx)
			defer in.Close()
			for start := time.Now(); in.Status().Applied < last; {
				if time.Since(start) > time.Minute {
					t.Fatalf("after a minute: %+v", in.Status())
				}
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // asks not to wait long
				_ = in.Wait(short, last)
				cancel()
			}
			var jobs, texts int64
			var refused string
			err = in.Store().Read(ctx, func(v *store.Snapshot) error {
				return v.One(`SELECT count(*) FILTER (jobid > 0), coalesce(string_agg(seq, ' ') FILTER (contains(marks, 'refused')), ''), (SELECT count(*) FROM documents) FROM jobs`, nil, &jobs, &refused, &texts)
			})
			want := int64(documents)
			if c.refused != "" {
				want--
			}
			if err != nil || jobs != want || texts != documents || refused != c.refused {
				t.Errorf("%d jobs and %d documents, refused: %q (want %d, %d, %q): %v", jobs, texts, refused, want, documents, c.refused, err)
			}
		})
	}
}

// TestApplyParts applies part for part what a transaction of several parts was refused.
func TestApplyParts(t *testing.T) {
	const n = 2*partEntries + 7
	dir, ctx := t.TempDir(), context.Background()
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(filepath.Join(dir, "journal"), 0, journal.Options{SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(j.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}()
	payloads := make([][]byte, n)
	for i := range payloads {
		payloads[i] = encode(Arrival{Source: store.Received, Index: "slurm", Document: fmt.Appendf(nil, `{"jobid":%d,"@submit":"2024-03-01T00:00:00"}`, i+1)}, "vale", time.Now())
	}
	if _, err := j.Append(payloads...); err != nil {
		t.Fatal(err)
	}
	in := &Intake{opts: Options{Now: time.Now, Report: func(err error) { t.Error(err) }}, store: s, to: s, journal: j, moved: make(chan struct{})}
	r := j.NewReader(0)
	defer r.Close()
	last, err := in.applyNext(ctx, newParts(ctx, in, r), n)
	if err != nil || last != n || in.Status().Outcome != (store.Outcome{Added: n}) {
		t.Error(last, in.Status().Outcome, err)
	}
	if seq, err := s.Applied(ctx); err != nil || seq != n {
		t.Error(seq, err)
	}
}
