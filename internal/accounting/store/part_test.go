package store_test

import (
	"context"
	"testing"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestPart applies the same documents with rows that are made ahead and without, in parts of several chunks and
// with a remainder. Among them are documents of known jobs, for which such rows are of no use, and a document
// that makes no sense.
func TestPart(t *testing.T) {
	ctx := context.Background()
	var parts [2][][]store.Entry
	for i := range parts {
		first, second := make([]store.Entry, 5000), make([]store.Entry, 4097)
		for k := range first {
			first[k] = storetest.Entry(int64(k + 1))
		}
		for k := range second {
			second[k] = storetest.Entry(int64(len(first) + k + 1))
		}
		odd := &second[7]
		odd.Document = []byte(`{"jobid":"x","comment":"M` + "\xfc" + `ller"}`)
		odd.Job = document.Parse(odd.Document, "vale")
		again := store.Entry{Seq: 9098, Source: store.Received, Document: []byte(`{"again":1}`), Job: first[3].Job}
		parts[i] = [][]store.Entry{first, append(second, again), {storetest.Entry(9099)}}
	}
	var stores [2]*store.Store
	for i, prepare := range []func([]store.Entry) *store.Part{store.NewPart, func(e []store.Entry) *store.Part { return &store.Part{Entries: e} }} {
		s, err := store.Open(ctx, t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
		out, err := s.ApplyAll(ctx, func() (*store.Part, error) {
			if len(parts[i]) == 0 {
				return nil, nil
			}
			entries := parts[i][0]
			parts[i] = parts[i][1:]
			return prepare(entries), nil
		})
		if want := (store.Outcome{Added: 9098, Replaced: 1}); err != nil || out != want {
			t.Fatalf("%+v, want %+v: %v", out, want, err)
		}
	}
	if a, b := digest(t, stores[0]), digest(t, stores[1]); a != b || a.rows != 9098 {
		t.Errorf("%+v, want %+v", a, b)
	}
}

type sums struct{ rows, jobs, documents, superseded, marked int64 }

// digest sums up all columns of all rows, whatever their order.
func digest(t *testing.T, s *store.Store) (d sums) {
	t.Helper()
	err := s.Read(t.Context(), func(v *store.Snapshot) error {
		return v.One(`SELECT count(*), (sum(hash(jobs)) % 1000000007)::BIGINT, (SELECT (sum(hash(documents)) % 1000000007)::BIGINT FROM documents),
			(SELECT (sum(hash(superseded)) % 1000000007)::BIGINT FROM superseded), count(marks) FROM jobs`, nil, &d.rows, &d.jobs, &d.documents, &d.superseded, &d.marked)
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
