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

// BenchmarkApply applies documents in batches of several sizes until all are durable, without a journal. It measures
// documents per second and CPU time per document. A round has RMREPLAY_BENCH_DOCUMENTS documents (default 400,000).
func BenchmarkApply(b *testing.B) {
	n := int64(400_000)
	if text := os.Getenv("RMREPLAY_BENCH_DOCUMENTS"); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	entries := storetest.Entries(1, n)
	for _, each := range []int64{100, 1000, 8192, 20_000} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			var took, used time.Duration
			var bytes int64
			for range b.N {
				s, err := store.Open(b.Context(), b.TempDir(), store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				begin, before := time.Now(), processorTime(b)
				for first := int64(0); first < n; first += each {
					if _, err := s.Apply(b.Context(), entries[first:min(first+each, n)]); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Seal(); err != nil {
					b.Fatal(err)
				}
				took, used, bytes = took+time.Since(begin), used+processorTime(b)-before, s.Summary().Bytes
				if s.Durable() != n || s.Summary().Jobs != n {
					b.Fatalf("%+v, want %d jobs", s.Summary(), n)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			total := float64(n) * float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(total/took.Seconds(), "documents/s")
			b.ReportMetric(float64(used.Microseconds())/total, "cpu-us/document")
			b.ReportMetric(float64(bytes)/float64(n), "bytes/document")
		})
	}
}

// BenchmarkOpen measures how long it takes to open a store of RMREPLAY_MILLIONS million jobs (default 1), and to
// answer the first question. RMREPLAY_BENCH_STORE names a directory in which the store is kept for the next time. The
// files are in the kernel's page cache.
func BenchmarkOpen(b *testing.B) {
	millions := int64(1)
	if text := os.Getenv("RMREPLAY_MILLIONS"); text != "" {
		var err error
		if millions, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	dir := os.Getenv("RMREPLAY_BENCH_STORE")
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(filepath.Join(dir, "store.json")); err != nil {
		if err := storetest.Generate(b.Context(), dir, millions*1_000_000); err != nil {
			b.Fatal(err)
		}
	}
	var opened, answered time.Duration
	for b.Loop() {
		begin := time.Now()
		s, err := store.Open(b.Context(), dir, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		opened += time.Since(begin)
		var jobs int64
		if err := s.Read(b.Context(), func(v *store.Snapshot) error {
			return v.Scan("SELECT count(*) FROM jobs", nil,
				&jobs)
		}); err != nil {
			b.Fatal(err)
		}
		answered += time.Since(begin)
		if jobs != millions*1_000_000 || s.Summary().Jobs != jobs {
			b.Fatalf("%d jobs, want %d millions", jobs, millions)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(opened.Milliseconds())/float64(b.N), "open-ms")
	b.ReportMetric(float64(answered.Milliseconds())/float64(b.N), "first-answer-ms")
}

// processorTime returns the CPU time that this process has used, in user and kernel mode.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
