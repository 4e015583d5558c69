package store_test

import (
	"context"
	"os"
	"testing"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

func TestFill(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	n := int64(20000)
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		n = 1_000_000
	}
	t0 := time.Now()
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(t0))
	t0 = time.Now()
	if err := storetest.Fill(ctx, s, 1, n); err != nil {
		t.Fatal(err)
	}
	t.Log("fill", time.Since(t0))
	t0 = time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log("close", time.Since(t0))
	info, _ := os.Stat(dir + "/jobs.duckdb")
	t.Log("size", info.Size())
	t0 = time.Now()
	s, err = store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(t0))
	defer s.Close()
	for _, q := range []string{"SELECT count(*) FROM jobs", "SELECT count(*) FROM (SELECT user_name, sum(cpu_hours) FROM jobs GROUP BY 1)", "SELECT count(*) FROM (SELECT time_bucket(INTERVAL 1 DAY, end_time), count(*) FROM jobs GROUP BY 1)", "SELECT count(*) FROM jobs WHERE id = 'vale:17:5'"} {
		for range 2 {
			t0 = time.Now()
			var got int64
			if err := s.Read(ctx, func(v *store.Snapshot) error { return v.One(q, nil, &got) }); err != nil {
				t.Fatal(err)
			}
			t.Log(q, got, time.Since(t0))
		}
	}
	var doc []byte
	t0 = time.Now()
	s.Read(ctx, func(v *store.Snapshot) (err error) { doc, _, err = v.Document(17); return err })
	t.Log(string(doc), time.Since(t0))
}
