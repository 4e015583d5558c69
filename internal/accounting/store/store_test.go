package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestApplied checks that entries that were applied are skipped, after the store was opened again.
func TestApplied(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.Fill(ctx, s, 1, 300); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(ctx, dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var entries []store.Entry
	for n := int64(250); n <= 320; n++ {
		entries = append(entries, storetest.Entry(n))
	}
	out, err := s.Apply(ctx, entries)
	if err != nil || out.Added != 20 || out.Skipped != 51 {
		t.Errorf("%+v %v", out, err)
	}
	if applied, err := s.Applied(ctx); err != nil || applied != 320 || count(t, s, "SELECT count(DISTINCT id) FROM jobs") != 320 {
		t.Error(applied, err)
	}
}

// TestSnapshot checks that a read sees one state while the store is written, does not keep the writer
// waiting, and cannot write, reach files or change settings.
func TestSnapshot(t *testing.T) {
	ctx := context.Background()
	s := filled(t, 100)
	err := s.Read(ctx, func(v *store.Snapshot) error {
		var before, after int
		if err := v.One("SELECT count(*) FROM jobs", nil, &before); err != nil {
			return err
		}
		if err := storetest.Fill(ctx, s, 101, 200); err != nil { // does not wait for this read
			return err
		}
		if err := v.One("SELECT count(*) FROM jobs", nil, &after); err != nil {
			return err
		}
		if before != 100 || after != 100 {
			t.Errorf("the read sees %d, then %d jobs", before, after)
		}
		return nil
	})
	if err != nil || count(t, s, "SELECT count(*) FROM jobs") != 200 {
		t.Fatal(err)
	}
	escaped := filepath.Join(t.TempDir(), "escaped")
	for _, query := range []string{
		"DELETE FROM jobs", "DROP TABLE jobs", "CREATE TABLE x (y INTEGER)", "SELECT * FROM read_text('/etc/passwd')", "COPY jobs TO '" + escaped + "'",
		"ATTACH '" + escaped + "' AS x", "SET enable_external_access = true", "SET memory_limit = '100GB'", "INSTALL httpfs", "LOAD httpfs",
	} {
		err := s.Read(ctx, func(v *store.Snapshot) error {
			rows, err := v.Query(query)
			if err != nil {
				return err
			}
			for rows.Next() {
			}
			return errors.Join(rows.Err(), rows.Close())
		})
		if err == nil {
			t.Errorf("%s: no error", query)
		}
	}
	if _, err := os.Stat(escaped); err == nil {
		t.Error("a query wrote a file")
	}
	if n := count(t, s, "SELECT count(*) FROM jobs"); n != 200 {
		t.Errorf("%d jobs are left", n)
	}
}

// TestLimits checks that a query ends when its time or its memory is over, and that the store goes on.
func TestLimits(t *testing.T) {
	ctx := context.Background()
	s, err := store.Open(ctx, t.TempDir(), store.Options{ReadTime: 200 * time.Millisecond, Memory: 64, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var n int64
	err = s.Read(ctx, func(v *store.Snapshot) error {
		return v.One("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3", nil, &n)
	})
	if !errors.Is(err, store.ErrReadTime) {
		t.Error(err)
	}
	if err := storetest.Fill(ctx, s, 1, 10); err != nil || count(t, s, "SELECT count(*) FROM jobs") != 10 {
		t.Error(err)
	}
}

// TestVacant checks that a directory with files of others is neither taken nor changed.
func TestVacant(t *testing.T) {
	ctx := t.Context()
	mode := func(dir string) os.FileMode {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for name, refused := range map[string]bool{"passwd": true, "lost+found": false, ".snapshot": false, "tmp": false} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, name), 0o700)); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(ctx, dir, store.Options{})
		if refused {
			if err == nil || !strings.Contains(err.Error(), name) || mode(dir) != 0o755 {
				t.Errorf("beside %s: %v, and the mode is %o", name, err, mode(dir))
			}
			continue
		}
		if err != nil {
			t.Fatalf("beside %s: %v", name, err)
		}
		if err := s.Close(); err != nil || mode(dir) != 0o700 {
			t.Errorf("beside %s: %v, and the mode is %o", name, err, mode(dir))
		}
	}
}

// TestTemporary checks that a writer removes what one that was killed has left, once it has the lock. A reader
// removes nothing, and neither does a writer where the directory is another one.
func TestTemporary(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	left := filepath.Join(dir, "tmp", "backup_X.duckdb")
	opens := func(open func(context.Context, string, store.Options) (*store.Store, error), stays bool) {
		t.Helper()
		if err := os.WriteFile(left, []byte("a copy"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := open(ctx, dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); stays != (err == nil) {
			t.Errorf("%s: %v, want that it stays: %v", left, err, stays)
		}
		if !stays { // of a writer that has the directory open
			if err := os.WriteFile(left, []byte("a copy"), 0o600); err != nil {
				t.Fatal(err)
			}
			if other, err := store.Open(ctx, dir, store.Options{}); err == nil {
				t.Fatal("opened twice", other.Close())
			}
			if _, err := os.Stat(left); err != nil {
				t.Error("a writer without the lock removes files:", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	opens(store.Open, false)
	opens(store.OpenReader, true)
	other := t.TempDir()
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "tmp")), os.Symlink(other, filepath.Join(dir, "tmp"))); err != nil {
		t.Fatal(err)
	}
	opens(store.Open, true)
}

func TestRefused(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var locked *store.LockedError
	if _, err := store.Open(ctx, dir, store.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Error(err)
	}
	if _, err := store.OpenReader(ctx, dir, store.Options{}); !errors.As(err, &locked) {
		t.Error(err)
	}
	if err := storetest.Fill(ctx, s, 1, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := store.OpenReader(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.OpenReader(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(ctx, dir, store.Options{}); !errors.As(err, &locked) || locked.PID != 0 {
		t.Error(err)
	}
	if count(t, first, "SELECT count(*) FROM jobs") != 10 || count(t, second, "SELECT count(*) FROM jobs") != 10 {
		t.Error("the readers see other jobs")
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenReader(ctx, t.TempDir(), store.Options{}); !errors.Is(err, store.ErrAbsent) {
		t.Error(err)
	}
	if _, err := store.Open(ctx, "a?b", store.Options{}); err == nil || !strings.Contains(err.Error(), "question mark") {
		t.Error(err)
	}
}

// TestExpire checks that old jobs go with all their documents, those of runs excepted.
func TestExpire(t *testing.T) {
	s := filled(t, 500)
	middle := storetest.Begin.Add(20 * time.Minute)
	const before = "end_time < '2024-03-01 00:20:00'"
	old := count(t, s, "SELECT count(*) FROM jobs WHERE "+before)
	run := storetest.Entry(1)
	run.Seq, run.Source, run.Job.Cluster, run.Job.End = 501, store.FromRun, "what-if", storetest.Begin
	if _, err := s.Apply(t.Context(), []store.Entry{run}); err != nil {
		t.Fatal(err)
	}
	// A job's documents are replaced in several transactions, and several times in one part.
	first := count(t, s, "SELECT min(jobid) FROM jobs WHERE cluster = 'vale' AND "+before)
	seq, last := int64(501), int64(0)
	for _, documents := range []int{1, 1, 3, 2} {
		var entries []store.Entry
		for range documents {
			seq++
			again := storetest.Entry(first)
			again.Seq, again.Document = seq, fmt.Appendf(nil, `{"document":%d}`, seq)
			entries, last = append(entries, again), seq
		}
		if _, err := s.Apply(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	if superseded := count(t, s, fmt.Sprintf(`SELECT count(*) FROM superseded WHERE "by" = %d`, last)); superseded != 7 {
		t.Errorf("%d documents are superseded by the job's row, want 7", superseded)
	}
	n, err := s.Expire(context.Background(), middle)
	if count(t, s, "SELECT count(*) FROM superseded") != 0 {
		t.Error("superseded documents are left")
	}
	if err != nil || n != old || n == 0 {
		t.Errorf("%d of %d removed: %v", n, old, err)
	}
	if count(t, s, "SELECT count(*) FROM jobs") != 501-old || count(t, s, "SELECT count(*) FROM documents") != 501-old {
		t.Error("jobs and documents do not agree")
	}
	if count(t, s, "SELECT count(*) FROM jobs WHERE "+before) != 1 || count(t, s, "SELECT count(*) FROM documents WHERE seq = 501") != 1 {
		t.Error("the run's job has gone")
	}
}

func TestID(t *testing.T) {
	job := document.Job{Cluster: "a:b", JobID: 17, Run: -1709251200}
	cluster, id, run, ok := store.ParseID(store.ID(&job))
	if !ok || cluster != job.Cluster || id != job.JobID || run != job.Run {
		t.Error(cluster, id, run, ok)
	}
	for _, text := range []string{"", "17", "a:17", "a:x:1", "a:1:", "a:1:99999999999999999999"} {
		if _, _, _, ok := store.ParseID(text); ok {
			t.Errorf("%q is no id", text)
		}
	}
}

// TestCancelled cancels reads and writes at any moment, and checks that none leaves a connection in a transaction:
// the next one to use it would fail, and all after it.
func TestCancelled(t *testing.T) {
	s, err := store.Open(t.Context(), "", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 150 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(1500))*time.Microsecond)
				if i%8 == 0 {
					_ = s.SetCluster(ctx, store.Cluster{Name: "vale"}) // it may be over
				} else {
					_, _ = s.Applied(ctx) // as above
				}
				cancel()
			}
		})
	}
	group.Wait()
	for range 50 {
		group.Go(func() {
			if _, err := s.Applied(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := s.SetCluster(t.Context(), store.Cluster{Name: "moor"}); err != nil {
		t.Error(err)
	}
}
