package storetest_test

import (
	"context"
	"testing"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestGenerate checks that generated jobs look like received ones, in every column that both have.
func TestGenerate(t *testing.T) {
	ctx, n := context.Background(), int64(5000)
	dir := t.TempDir()
	if err := storetest.Generate(ctx, dir, n); err != nil {
		t.Fatal(err)
	}
	made, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	sent, err := store.Open(ctx, "", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sent.Close()
	if err := storetest.Fill(ctx, sent, 1, n); err != nil {
		t.Fatal(err)
	}
	const query = `SELECT count(*), count(DISTINCT id), median(elapsed_s), median(wait_s), count(DISTINCT user_name) > 100, min(cpu_hours) >= 0,
		(SELECT count(*) FROM jobs j JOIN documents d USING (seq) WHERE json_extract_string(decode(d.document), '$.jobid')::BIGINT = j.jobid),
		(SELECT max(seq) FROM applied) FROM jobs`
	type summary struct {
		jobs, ids, documents, applied int64
		elapsed, wait                 float64
		users, hours                  bool
	}
	look := func(s *store.Store) (v summary) {
		err := s.Read(ctx, func(snapshot *store.Snapshot) error {
			return snapshot.One(query, nil, &v.jobs, &v.ids, &v.elapsed, &v.wait, &v.users, &v.hours, &v.documents, &v.applied)
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, v := range []summary{look(made), look(sent)} {
		if v.jobs != n || v.ids != n || v.documents != n || v.applied != n || !v.users || !v.hours || v.elapsed < 2000 || v.elapsed > 3500 || v.wait < 1000 || v.wait > 1500 {
			t.Errorf("%+v", v)
		}
	}
}
