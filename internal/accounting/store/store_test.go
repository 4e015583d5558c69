package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// filled returns a store of n synthetic jobs in parts of 1000 rows. The directory's name must be quoted in SQL.
func filled(t *testing.T, n int64) *store.Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "a % 'directory'"), options(1000))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := storetest.Fill(t.Context(), s, 1, n); err != nil {
		t.Fatal(err)
	}
	return s
}

// count asks an engine for a number.
func count(t *testing.T, s *store.Store, query string) (n int64) {
	t.Helper()
	if err := s.Read(t.Context(), func(v *store.Snapshot) error { return v.Scan(query, nil, &n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestApplied checks that a store that was closed and opened skips entries that were applied before.
func TestApplied(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	if err := storetest.Fill(t.Context(), s, 1, 300); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, options(1000))
	defer s.Close()
	if s.Applied() != 300 || s.Durable() != 300 {
		t.Errorf("arrival %d is applied, and %d durable", s.Applied(), s.Durable())
	}
	out, err := s.Apply(t.Context(), storetest.Entries(250, 320))
	if err != nil || out != (store.Outcome{Added: 20, Skipped: 51}) {
		t.Errorf("%+v %v", out, err)
	}
	if s.Applied() != 320 || count(t, s, "SELECT count(DISTINCT id) FROM jobs") != 320 || count(t, s,
		"SELECT count(*) FROM jobs") != 320 {
		t.Error(s.Applied())
	}
}

// TestBatches applies the same documents one by one, in batches, and all at once. The rows are the same.
func TestBatches(t *testing.T) {
	const jobs = 1500
	entries := storetest.Entries(1, jobs)
	odd := store.ParseArrival(jobs+1, storetest.Begin, store.Received, "vale", "vale",
		[]byte(`{"jobid":"x","comment":"M`+"\xfc"+`ller"}`))
	again := store.ParseArrival(jobs+2, storetest.Begin, store.Received, "vale", "vale", append(entries[3].Document,
		' '))
	entries = append(entries, odd, again)
	type sums struct{ rows, all, marked int64 }
	var want sums
	for _, each := range []int{len(entries), 333, 7} {
		s := open(t, t.TempDir(), options(500))
		defer s.Close()
		var out store.Outcome
		for batch := range slices.Chunk(entries, each) {
			o, err := s.Apply(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			out.Add(o)
		}
		if out != (store.Outcome{Added: jobs + 1, Replaced: 1}) {
			t.Errorf("batches of %d: %+v", each, out)
		}
		var got sums
		err := s.Read(t.Context(), func(v *store.Snapshot) error {
			return v.Scan("SELECT count(*), (sum(hash(jobs)) % 1000000007)::BIGINT, count(marks) FROM jobs", nil, &got.rows,
				&got.all, &got.marked)
		})
		if err != nil {
			t.Fatal(err)
		}
		if want.rows == 0 {
			want = got
		}
		if got != want || got.rows != jobs+1 || got.marked != 1 {
			t.Errorf("batches of %d: %+v, want %+v", each, got, want)
		}
	}
}

// digest returns a checksum of each of the store's permanent files.
func digest(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	sums := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sums[path] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// hostile returns queries that write, reach files of others or change settings.
func hostile(dir, escaped string) []string {
	return []string{
		"DELETE FROM jobs", "UPDATE jobs SET state = 'x'", "INSERT INTO jobs SELECT * FROM jobs", "DROP TABLE jobs",
		"SELECT * FROM read_text('/etc/passwd')",
		"COPY jobs TO '" + escaped + "'", "COPY (SELECT 1) TO '" + filepath.Join(dir, "jobs", "00000001.parquet") + "'",
		"COPY (SELECT 1) TO '" + filepath.Join(dir, "store.json") + "'", "SELECT * FROM read_text('" + filepath.Join(dir,
			"store.json") + "')",
		"ATTACH '" + escaped + "' AS x", "EXPORT DATABASE '" + escaped + "'", "SET enable_external_access = true",
		"SET memory_limit = '100GB'",
		"SET allowed_directories = ['/']", "SET temp_directory = '/'", "INSTALL httpfs", "LOAD httpfs",
	}
}

// TestSnapshot checks that a read sees one state while the store is written, and does not delay the writer. Hostile
// queries cannot write, read files outside of the store, or change settings: the bytes of all files stay the same.
func TestSnapshot(t *testing.T) {
	s := filled(t, 1500)
	err := s.Read(t.Context(), func(v *store.Snapshot) error {
		var before, after int
		if err := v.Scan("SELECT count(*) FROM jobs", nil, &before); err != nil {
			return err
		}
		if err := storetest.Fill(t.Context(), s, 1501, 2600); err != nil { // the writer does not wait for this read
			return err
		}
		if err := s.Seal(); err != nil { // the read's files remain
			return err
		}
		if err := v.Scan("SELECT count(document) FROM jobs", nil, &after); err != nil {
			return err
		}
		if before != 1500 || after != 1500 {
			t.Errorf("the read sees %d, then %d jobs", before, after)
		}
		return nil
	})
	if err != nil || count(t, s, "SELECT count(*) FROM jobs") != 2600 {
		t.Fatal(err)
	}
	for did := true; did; { // until no work is left
		if did, err = s.CompactOnce(); err != nil {
			t.Fatal(err)
		}
	}
	escaped := filepath.Join(t.TempDir(), "escaped")
	before := digest(t, s.Dir())
	for _, query := range hostile(s.Dir(), escaped) {
		err := s.Read(t.Context(), func(v *store.Snapshot) error {
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
		v := s.View()
		if err := v.Each(t.Context(), store.Filter{Where: "true); " + query + "; --"},
			func(*store.Stored) error { return nil }); err == nil {
			t.Errorf("in a condition: %s: no error", query)
		}
		v.Close()
	}
	// During a question, an engine may have tables of its own. They disappear with the question.
	for range 2 {
		_ = s.Read(t.Context(), func(v *store.Snapshot) error { // the query may be refused
			rows, err := v.Query("CREATE OR REPLACE TEMP VIEW jobs AS SELECT 1 AS seq")
			if err != nil {
				return err
			}
			return rows.Close()
		})
	}
	if _, err := os.Stat(escaped); err == nil {
		t.Error("a query wrote a file")
	}
	if after := digest(t, s.Dir()); !maps.Equal(before, after) {
		t.Error("files have changed")
	}
	if n := count(t, s, "SELECT count(DISTINCT jobid) FROM jobs WHERE state IS NOT NULL"); n != 2600 {
		t.Errorf("%d jobs are left", n)
	}
}

// TestLimits checks that a query ends when it exceeds its limit of time or memory, and that the store still works.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		query string
		want  error
		limit time.Duration
	}{
		{"SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3", engine.ErrTime,
			300 * time.Millisecond},
		{"SELECT len(list(repeat('x', 1000) || a.range)) FROM range(10000000) a", engine.ErrMemory, time.Minute},
	} {
		opts := options(1000)
		opts.ReadTime, opts.Memory, opts.Readers = c.limit, 64, 1
		s := open(t, t.TempDir(), opts)
		defer s.Close()
		var n int64
		begin := time.Now()
		err := s.Read(t.Context(), func(v *store.Snapshot) error { return v.Scan(c.query, nil, &n) })
		if !errors.Is(err, c.want) || time.Since(begin) > c.limit+10*time.Second {
			t.Errorf("%s: %v after %v, want %v", c.query, err, time.Since(begin), c.want)
		}
		if err := storetest.Fill(t.Context(), s, 1, 10); err != nil {
			t.Error(err)
		}
		v := s.View()
		defer v.Close()
		if text, ok, err := v.Document(7); err != nil || !ok || string(text) != string(storetest.Entry(7).Document) {
			t.Errorf("%q %v %v", text, ok, err)
		}
		if errors.Is(c.want, engine.ErrMemory) && count(t, s, "SELECT count(*) FROM jobs") != 10 {
			t.Error("the store does not answer")
		}
	}
}

// TestVacant checks that a directory with files of others is refused and remains unchanged.
func TestVacant(t *testing.T) {
	mode := func(dir string) os.FileMode {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for name, refused := range map[string]bool{"passwd": true, "lost+found": false, ".snapshot": false, "tmp": false,
		"journal": false} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, name), 0o700)); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), dir, options(1000))
		if refused {
			if err == nil || !strings.Contains(err.Error(), name) || mode(dir) != 0o755 {
				t.Errorf("beside %s: %v, and the mode is %o", name, err, mode(dir))
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("beside %s there is more now: %v %v", name, entries, err)
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

// TestTemporary checks that the next process that has the lock removes files of a killed process. If a directory of
// the store is a symbolic link, the store is refused, and the files in the link's target remain.
func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	if err := errors.Join(storetest.Fill(t.Context(), s, 1, 10), s.Close()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, kind := range []string{"tmp", "fresh", "jobs", "keys", "cells", "gone", "health", "health_counts"} {
		left = append(left, filepath.Join(dir, kind, "left"))
	}
	put := func() {
		for _, path := range left {
			if err := os.WriteFile(path, []byte("a part"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func() (n int) {
		for _, path := range left {
			if _, err := os.Stat(path); err == nil {
				n++
			}
		}
		return n
	}
	put()
	s = open(t, dir, options(1000))
	if there() > 0 {
		t.Errorf("%d of %d files are left", there(), len(left))
	}
	put()
	if other, err := store.Open(t.Context(), dir, options(1000)); err == nil {
		t.Fatal("opened twice", other.Close())
	}
	if there() != len(left) {
		t.Error("a process without the lock removes files")
	}
	if n := count(t, s, "SELECT count(*) FROM jobs"); n != 10 {
		t.Errorf("%d jobs", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"tmp", "fresh"} {
		other, path := t.TempDir(), filepath.Join(dir, kind)
		foreign := filepath.Join(other, "foreign")
		if err := errors.Join(os.WriteFile(foreign, nil, 0o600), os.RemoveAll(path), os.Symlink(other, path)); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), dir, options(1000))
		if err == nil {
			_ = s.Close()
		}
		if _, statErr := os.Stat(foreign); err == nil || !strings.Contains(err.Error(), "not a directory") ||
			statErr != nil {
			t.Errorf("%s is a link: %v, %v", kind, err, statErr)
		}
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused opens a store that another process has open, a store that does not exist, and stores that cannot be
// read. Each error says why.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	var locked *store.LockedError
	if _, err := store.Open(t.Context(), dir, options(1000)); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Error(err)
	}
	if err := errors.Join(storetest.Fill(t.Context(), s, 1, 10), s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), storetest.Entries(11, 12)); err == nil {
		t.Error("a store that is closed takes jobs")
	}
	if err := s.Read(t.Context(), func(*store.Snapshot) error { return nil }); err == nil {
		t.Error("a store that is closed answers")
	}
	if err := store.Exists(t.TempDir()); !errors.Is(err, store.ErrAbsent) {
		t.Error(err)
	}
	if err := store.Exists(dir); err != nil {
		t.Error(err)
	}
	manifest := filepath.Join(dir, "store.json")
	whole, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Replace(string(whole), fmt.Sprintf(`"format": %d`, store.Format), fmt.Sprintf(`"format": %d`,
			store.Format+1), 1): "a newer version",
		string(whole[:len(whole)/2]): "store.json", "": "store.json",
	} {
		if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := digest(t, dir)
		other, err := store.Open(t.Context(), dir, options(1000))
		if err == nil {
			_ = other.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v, want %s", err, want)
		}
		after := digest(t, dir)
		delete(before, filepath.Join(dir, "lock"))
		delete(after, filepath.Join(dir, "lock"))
		if !maps.Equal(before, after) {
			t.Error("a store that is refused has changed")
		}
	}
	if err := os.WriteFile(manifest, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, options(1000))
	defer s.Close()
	if n := count(t, s, "SELECT count(*) FROM jobs"); n != 10 {
		t.Errorf("%d jobs", n)
	}
}

// TestExpire checks that old jobs and their documents are removed permanently, except for jobs of runs. The jobs do
// not return if the process is then killed and reads its journal again.
func TestExpire(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(200))
	if err := storetest.Fill(t.Context(), s, 1, 500); err != nil {
		t.Fatal(err)
	}
	middle := storetest.Begin.Add(20 * time.Minute)
	const before = "end_time < '2024-03-01 00:20:00'"
	old := count(t, s, "SELECT count(*) FROM jobs WHERE "+before)
	text := bytes.Replace(storetest.Entry(1).Document, []byte(`"cluster":"vale"`), []byte(`"cluster":"what-if"`), 1)
	text = regexp.MustCompile(`"@end":"[^"]*"`).ReplaceAll(text, []byte(`"@end":"2024-03-01T00:19:59"`))
	run := store.ParseArrival(501, storetest.Begin, store.FromRun, "", "what-if", text)
	if _, err := s.Apply(t.Context(), []store.Entry{run}); err != nil {
		t.Fatal(err)
	}
	// A job's document is replaced in several batches, and several times in one batch.
	first := count(t, s, "SELECT min(jobid) FROM jobs WHERE cluster = 'vale' AND "+before)
	seq := int64(501)
	for _, documents := range []int{1, 1, 3, 2} {
		var entries []store.Entry
		for range documents {
			seq++
			again := storetest.Entry(first)
			again.Seq, again.Document = seq, fmt.Appendf(nil, `{"document":%d}`, seq)
			entries = append(entries, again)
		}
		if out, err := s.Apply(t.Context(), entries); err != nil || out.Replaced != documents {
			t.Fatal(out, err)
		}
	}
	content := func() store.Content { v := s.View(); defer v.Close(); return v.Content() }
	was := content()
	n, err := s.Expire(t.Context(), middle)
	if err != nil || n != old || n == 0 {
		t.Errorf("%d of %d removed: %v", n, old, err)
	}
	if content() == was {
		t.Error("an answer that was kept before would be taken for one of now")
	}
	if n, err := s.Expire(t.Context(), middle); err != nil || n != 0 {
		t.Errorf("%d are removed again: %v", n, err)
	}
	check := func(s *store.Store) {
		t.Helper()
		if n := count(t, s, "SELECT count(*) FROM jobs"); n != 501-old || s.Summary().Jobs != n {
			t.Errorf("%d jobs are left, the summary has %d, want %d", n, s.Summary().Jobs, 501-old)
		}
		if count(t, s, "SELECT count(*) FROM jobs WHERE "+before) != 1 || count(t, s,
			"SELECT count(*) FROM jobs WHERE source = 'run' AND seq = 501") != 1 {
			t.Error("the run's job has gone")
		}
		v := s.View()
		defer v.Close()
		for _, gone := range []int64{first, 502, seq} {
			if text, ok, err := v.Document(gone); ok || err != nil {
				t.Errorf("document %d is still there: %q %v", gone, text, err)
			}
		}
		if text, ok, err := v.Document(500); err != nil || !ok || string(text) != string(storetest.Entry(500).Document) {
			t.Errorf("document 500: %q %v", text, err)
		}
		found, err := v.Verify(t.Context(), func(int, int) {})
		if err != nil || len(found.Problems) > 0 {
			t.Errorf("%+v %v", found, err)
		}
	}
	check(s)
	killed := copyOf(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, killed, options(200))
	defer again.Close()
	if durable := again.Durable(); durable != seq {
		t.Errorf("arrival %d is durable, want %d: what has expired would come again", durable, seq)
	}
	check(again)
}

// TestRemove removes a user's jobs, including jobs that have just arrived, and documents of the
// user that were replaced by another user's documents.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(200))
	if err := storetest.Fill(t.Context(), s, 1, 450); err != nil {
		t.Fatal(err)
	}
	const name = "user007"
	replaced := count(t, s, "SELECT min(seq) FROM jobs WHERE user_name = 'user007'")
	other := storetest.Entry(replaced)
	text := bytes.ReplaceAll(other.Document, []byte(name), []byte("user008"))
	if _, err := s.Apply(t.Context(), []store.Entry{store.ParseArrival(451, storetest.Begin, store.Received, "slurm", "vale", text)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), store.Filter{Where: "true"}); err == nil {
		t.Error("a condition in SQL is accepted")
	}
	want := count(t, s, "SELECT count(*) FROM jobs WHERE user_name = 'user007'")
	n, err := s.Remove(t.Context(), store.Filter{Users: []string{name, "nobody"}})
	if err != nil || n != want || n == 0 {
		t.Errorf("%d of %d removed: %v", n, want, err)
	}
	check := func(s *store.Store) {
		t.Helper()
		if n := count(t, s, "SELECT count(*) FROM jobs"); n != 450-want || s.Summary().Jobs != n {
			t.Errorf("%d jobs are left, the summary has %d, want %d", n, s.Summary().Jobs, 450-want)
		}
		v := s.View()
		defer v.Close()
		for seq := range int64(452) {
			if text, _, err := v.Document(seq); err != nil || bytes.Contains(text, []byte(name)) {
				t.Errorf("document %d: %q %v", seq, text, err)
			}
		}
		if found, err := v.Verify(t.Context(), func(int, int) {}); err != nil || len(found.Problems) > 0 {
			t.Errorf("%+v %v", found, err)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, options(200))
	defer again.Close()
	check(again)
}

// TestID parses ids.
func TestID(t *testing.T) {
	job := document.Job{Cluster: "a:b", JobID: 17, Run: -1709251200}
	cluster, id, run, ok := store.ParseID(store.ID(&job))
	if !ok || cluster != job.Cluster || id != job.JobID || run != job.Run {
		t.Error(cluster, id, run, ok)
	}
	for _, text := range []string{"", "17", "a:17", "a:x:1", "a:1:", "a:1:99999999999999999999"} {
		if _, _, _, ok := store.ParseID(text); ok {
			t.Errorf("%q is not an id", text)
		}
	}
}

// TestCancelled cancels reads at random instants while jobs arrive. It checks that other readers still get answers,
// and that all states and files are released in the end.
func TestCancelled(t *testing.T) {
	s := open(t, t.TempDir(), options(300))
	defer s.Close()
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(20_000))*time.Microsecond)
				var n int
				_ = s.Read(ctx, func(v *store.Snapshot) error {
					return v.Scan("SELECT count(DISTINCT document) FROM jobs", nil,
						&n)
				}) // the time may be over
				cancel()
			}
		})
	}
	for first := int64(1); first <= 2000; first += 40 {
		if _, err := s.Apply(t.Context(), storetest.Entries(first, first+39)); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	for range 8 {
		group.Go(func() {
			var n int
			err := s.Read(t.Context(),
				func(v *store.Snapshot) error { return v.Scan("SELECT count(DISTINCT document) FROM jobs", nil, &n) })
			if err != nil || n != 2000 {
				t.Errorf("%d jobs: %v", n, err)
			}
		})
	}
	group.Wait()
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	for did := true; did; {
		var err error
		if did, err = s.CompactOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir(), "fresh")); err != nil || len(left) > 0 {
		t.Errorf("files that nobody needs are left: %v %v", left, err)
	}
	parts, _, _ := s.Shape()
	if files, err := os.ReadDir(filepath.Join(s.Dir(), "jobs")); err != nil || len(files) != parts {
		t.Errorf("%d files of %d parts: %v", len(files), parts, err)
	}
}
