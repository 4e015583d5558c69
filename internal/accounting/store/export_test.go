package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

func filled(t *testing.T, n int64) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "a % 'directory'"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := storetest.Fill(context.Background(), s, 1, n); err != nil {
		t.Fatal(err)
	}
	return s
}

func count(t *testing.T, s *store.Store, query string) (n int64) {
	t.Helper()
	if err := s.Read(context.Background(), func(v *store.Snapshot) error { return v.One(query, nil, &n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExport(t *testing.T) {
	ctx := context.Background()
	s := filled(t, 3000)
	for _, format := range []store.Table{store.Parquet, store.CSV} {
		path, jobs, err := s.Export(ctx, store.Filter{Where: "cpus > 64 -- and more"}, format)
		if err != nil {
			t.Fatal(err)
		}
		if want := count(t, s, "SELECT count(*) FROM jobs WHERE cpus > 64"); jobs != want || want == 0 {
			t.Errorf("%s: %d jobs, want %d", format, jobs, want)
		}
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Error(info, err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	from := storetest.Begin.Add(time.Hour)
	to := from.Add(20 * time.Minute)
	n := int64(0)
	last := int64(0)
	err := s.Documents(ctx, store.Filter{From: from, To: to, Clusters: []string{"vale", "it's"}}, func(d *store.Stored) error {
		if string(d.Document) != string(storetest.Entry(d.Seq).Document) || d.Seq <= last {
			t.Errorf("document %d: %s", d.Seq, d.Document)
		}
		n, last = n+1, d.Seq
		return nil
	})
	if want := count(t, s, "SELECT count(*) FROM jobs WHERE submit_time < '2024-03-01 01:20:00' AND end_time >= '2024-03-01 01:00:00'"); err != nil || n != want || n == 0 {
		t.Errorf("%d documents, want %d: %v", n, want, err)
	}
	if err := s.Documents(ctx, store.Filter{Where: "no_column = 1"}, func(*store.Stored) error { return nil }); err == nil {
		t.Error("a condition over a column that does not exist was taken")
	}
	escaped := filepath.Join(t.TempDir(), "escaped")
	for _, where := range []string{"true); DELETE FROM jobs; --", "true); COPY jobs TO '" + escaped + "'; --"} {
		if err := s.Documents(ctx, store.Filter{Where: where}, func(*store.Stored) error { return nil }); err == nil {
			t.Errorf("%s: no error", where)
		}
	}
	if count(t, s, "SELECT count(*) FROM jobs") != 3000 {
		t.Error("a condition removed jobs")
	}
	if _, err := os.Stat(escaped); err == nil {
		t.Error("a condition wrote a file")
	}
}

func TestBackup(t *testing.T) {
	ctx := context.Background()
	s := filled(t, 2000)
	path, err := s.Backup(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Rename(path, filepath.Join(dir, "jobs.duckdb")); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Fill(ctx, s, 2001, 2500); err != nil { // the store goes on
		t.Fatal(err)
	}
	copied, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if n := count(t, copied, "SELECT count(*) FROM jobs SEMI JOIN documents USING (seq) WHERE id = cluster || ':' || jobid || ':' || run"); n != 2000 {
		t.Errorf("%d jobs in the copy", n)
	}
	if err := storetest.Fill(ctx, copied, 1, 2100); err != nil {
		t.Fatal(err)
	}
	if n := count(t, copied, "SELECT count(*) FROM jobs"); n != 2100 {
		t.Errorf("%d jobs in the copy after it went on", n)
	}
}
