package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// BenchmarkApply measures how many documents a second the database takes in transactions of several sizes,
// without the journal, and the processor time. A round has 400,000 documents, or as many as
// RMREPLAY_BENCH_DOCUMENTS says.
func BenchmarkApply(b *testing.B) {
	n := 400_000
	if text := os.Getenv("RMREPLAY_BENCH_DOCUMENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	entries := make([]store.Entry, n)
	for i := range entries {
		entries[i] = storetest.Entry(int64(i + 1))
	}
	for _, each := range []int{1000, 20_000, 50_000, store.RowGroup} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			var took, used time.Duration
			var bytes int64
			for range b.N {
				dir := b.TempDir()
				s, err := store.Open(b.Context(), dir, store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				begin, before := time.Now(), processorTime(b)
				for first := 0; first < n; first += each {
					if _, err := s.Apply(b.Context(), entries[first:min(first+each, n)]); err != nil {
						b.Fatal(err)
					}
				}
				took, used = took+time.Since(begin), used+processorTime(b)-before
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(filepath.Join(dir, "jobs.duckdb"))
				if err != nil {
					b.Fatal(err)
				}
				bytes = info.Size()
			}
			total := float64(n * b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(total/took.Seconds(), "documents/s")
			b.ReportMetric(float64(used.Microseconds())/total, "cpu-us/document")
			b.ReportMetric(float64(bytes)/float64(n), "bytes/document")
		})
	}
}

// processorTime returns what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
