package wal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/wal"
)

func open(t testing.TB, dir string, after int64, opts wal.Options) *wal.Log {
	t.Helper()
	j, err := wal.Open(dir, after, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// all returns the records after a number.
func all(t testing.TB, j *wal.Log, after int64) (records []wal.Record) {
	t.Helper()
	r := j.NewReader(after)
	defer r.Close()
	for len(records) == 0 || records[len(records)-1].Number < j.Last() {
		if j.Last() <= after {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		some, err := r.Read(ctx, 7, 1<<20)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, some...)
	}
	return records
}

// TestTurn checks that all records before a turn can be removed, and that the log then continues.
func TestTurn(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 0, wal.Options{})
	for round := range 3 {
		if _, err := j.Append([]byte("secret"), []byte("another secret")); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second turn finds an empty segment
			if err := j.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Prune(j.Last()); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Errorf("round %d: %v %v", round, files, err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(filepath.Join(dir, f.Name())); err != nil || bytes.Contains(text, []byte("secret")) {
				t.Errorf("round %d: %s has %q, %v", round, f.Name(), text, err)
			}
		}
	}
	if first, err := j.Append([]byte("x")); first != 7 || err != nil {
		t.Error(first, err)
	}
	if records := all(t, j, 6); len(records) != 1 || string(records[0].Payload) != "x" {
		t.Errorf("%+v", records)
	}
}

// TestRestarts checks that a log keeps its records over restarts, new segments and pruning.
func TestRestarts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "rmreplay-journal-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		opts := wal.Options{Kind: "test", SegmentBytes: 200}
		want, pruned := []string{}, int64(0)
		for range rapid.IntRange(1, 4).Draw(rt, "sessions") {
			j, err := wal.Open(dir, pruned, opts)
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 5).Draw(rt, "appends") {
				var payloads [][]byte
				for range rapid.IntRange(1, 4).Draw(rt, "records") {
					text := fmt.Sprintf("%d %s", len(want)+1, rapid.StringN(0, 60, 60).Draw(rt, "text"))
					payloads, want = append(payloads, []byte(text)), append(want, text)
				}
				first, err := j.Append(payloads...)
				if err != nil || first != int64(len(want)-len(payloads)+1) {
					t.Fatalf("append: first %d, %v", first, err)
				}
			}
			if pruned < j.Last() {
				pruned = rapid.Int64Range(pruned, j.Last()).Draw(rt, "pruned")
				if err := j.Prune(pruned); err != nil {
					t.Fatal(err)
				}
			}
			for i, r := range all(t, j, pruned) {
				if r.Number != pruned+int64(i)+1 || string(r.Payload) != want[r.Number-1] {
					rt.Fatalf("record %d: %d %q", i, r.Number, r.Payload)
				}
			}
			if j.Last() != int64(len(want)) || len(j.Torn()) > 0 {
				rt.Fatalf("last %d of %d, torn %v", j.Last(), len(want), j.Torn())
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTorn checks that a log that was cut or changed at any byte keeps all records before that
// byte. It must also keep the records after a record whose checksum or payload has changed. It
// must move the rest to a file, and accept new records.
func TestTorn(t *testing.T) {
	made := t.TempDir()
	j := open(t, made, 0, wal.Options{Kind: "test"})
	for i := range 5 {
		if _, err := j.Append(fmt.Appendf(nil, "record %d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(made, "*.segment"))
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	const head, record = 32, 8 + 8
	for at := range len(whole) {
		for _, change := range []bool{false, true} {
			text := append([]byte(nil), whole[:at]...)
			if change {
				text = append(append([]byte(nil), whole...), 0)[:len(whole)]
				text[at] ^= 0x40
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(files[0])), text, 0o600); err != nil {
				t.Fatal(err)
			}
			j := open(t, dir, 0, wal.Options{Kind: "test"})
			whole := int64(max(at-head, 0) / record) // records before the byte
			last, away := whole, int64(len(text))-head-whole*record
			if at < head {
				away = int64(len(text))
			}
			// If the length of the damaged record can be read, and this record is not the last, the
			// records after it are kept.
			inner := change && at >= head && (at-head)%record >= 4 && whole < 4
			if inner {
				last, away = 5, record
			}
			if j.Last() != last {
				t.Fatalf("at byte %d, changed %v: last record %d, want %d", at, change, j.Last(), last)
			}
			for _, torn := range j.Torn() {
				info, err := os.Stat(torn.Path)
				if err != nil || info.Size() != torn.Bytes || torn.Inner != inner {
					t.Fatal(torn, err)
				}
				away -= torn.Bytes
			}
			if away != 0 {
				t.Fatalf("at byte %d of %d, changed %v: %d bytes too few were moved away", at, len(text), change, away)
			}
			if first, err := j.Append([]byte("later")); err != nil || first != last+1 {
				t.Fatal(first, err)
			}
			var want []string
			for n := range last {
				if n != whole {
					want = append(want, fmt.Sprintf("%d record %[1]d", n+1))
				}
			}
			want = append(want, fmt.Sprintf("%d later", last+1))
			for range 2 { // opening the log again gives the same
				var got []string
				for _, r := range all(t, j, 0) {
					got = append(got, fmt.Sprintf("%d %s", r.Number, r.Payload))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("at byte %d, changed %v: %q, want %q", at, change, got, want)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = open(t, dir, 0, wal.Options{Kind: "test"})
			}
			if len(j.Torn()) != 0 {
				t.Fatalf("at byte %d, changed %v: torn again: %v", at, change, j.Torn())
			}
		}
	}
}

// TestGap checks that a reader skips records in a middle segment that cannot be read.
func TestGap(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 0, wal.Options{Kind: "test", SegmentBytes: 60})
	for i := range 6 {
		if _, err := j.Append(fmt.Appendf(nil, "the record number %d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.segment"))
	if len(files) != 3 {
		t.Fatal(files)
	}
	if err := os.Truncate(files[1], 40); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, 0, wal.Options{Kind: "test"})
	var numbers []int64
	for _, r := range all(t, j, 0) {
		numbers = append(numbers, r.Number)
	}
	if fmt.Sprint(numbers) != "[1 2 5 6]" || len(j.Torn()) != 1 || !j.Torn()[0].Inner {
		t.Error(numbers, j.Torn())
	}
	if got := all(t, j, 3); len(got) != 2 {
		t.Error(got)
	}
}

// TestOpenBehind opens a log after its first segment, which is damaged. The segment is not read,
// and can be removed.
func TestOpenBehind(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 0, wal.Options{Kind: "test", SegmentBytes: 60})
	for i := range 6 {
		if _, err := j.Append(fmt.Appendf(nil, "the record number %d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.segment"))
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, 2, wal.Options{Kind: "test"})
	if got := all(t, j, 2); len(got) != 4 || got[0].Number != 3 || len(j.Torn()) != 0 || j.Last() != 6 || j.Removable(2) != 1 || j.Removable(5) != 2 {
		t.Error(got, j.Torn(), j.Last(), j.Removable(2), j.Removable(5))
	}
	if err := j.Prune(2); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.segment")); len(left) != 2 {
		t.Error(left)
	}
}

// TestConcurrent checks that records of many goroutines get different numbers, and that a reader
// sees each record.
func TestConcurrent(t *testing.T) {
	j := open(t, t.TempDir(), 41, wal.Options{Kind: "test", SegmentBytes: 4096})
	const workers, each = 16, 25
	var group sync.WaitGroup
	var mu sync.Mutex
	given := map[int64]string{}
	for w := range workers {
		group.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d of %d", i, w)
				first, err := j.Append([]byte(text), []byte(text+"!"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				given[first], given[first+1] = text, text+"!"
				mu.Unlock()
			}
		})
	}
	r := j.NewReader(41)
	defer r.Close()
	var got []wal.Record
	for len(got) < 2*workers*each {
		records, err := r.Read(context.Background(), 50, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, records...)
	}
	group.Wait()
	for i, record := range got {
		if record.Number != int64(42+i) || given[record.Number] != string(record.Payload) {
			t.Fatalf("record %d: %d %q, want %q", i, record.Number, record.Payload, given[record.Number])
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append([]byte("late")); !errors.Is(err, wal.ErrClosed) {
		t.Error(err)
	}
}

// BenchmarkAppend measures single durable records of 64 concurrent clients.
func BenchmarkAppend(b *testing.B) {
	j := open(b, b.TempDir(), 0, wal.Options{Kind: "test"})
	payload := make([]byte, 1000)
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := j.Append(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
