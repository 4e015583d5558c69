package web

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// BenchmarkPanels measures each panel of the default page (the last 30 days), and of everything, in
// a store of a million jobs, or as many millions as RMREPLAY_MILLIONS says. It gives the median and
// the 95th percentile of the query, and of the whole answer with its chart, and the processor time
// of both, on which other programs have less influence.
func BenchmarkPanels(b *testing.B) {
	millions := 1
	if text := os.Getenv("RMREPLAY_MILLIONS"); text != "" {
		var err error
		if millions, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dir := os.Getenv("RMREPLAY_BENCH_STORE") // one that an earlier benchmark has made
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(filepath.Join(dir, "jobs.duckdb")); err != nil {
		if err := storetest.Generate(b.Context(), dir, int64(millions)*1_000_000); err != nil {
			b.Fatal(err)
		}
	}
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	begin, before := time.Now(), processorTime(b)
	for more := true; more; {
		if more, err = s.RollUp(b.Context(), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("rolled up in %v, processor time %v", time.Since(begin), processorTime(b)-before)
	v := &server{store: s, now: time.Now}
	for _, last := range []string{"30d", "all"} {
		for _, p := range panels {
			b.Run(fmt.Sprintf("%dM/%s/%s", millions, last, p.name), func(b *testing.B) {
				r, sizes, err := v.read(b.Context(), url.Values{"last": {last}})
				if err != nil {
					b.Fatal(err)
				}
				var queries, all []float64
				var used, drawn time.Duration
				for b.Loop() {
					v.answers = answers{} // every query is run
					begin, before := time.Now(), processorTime(b)
					a, err := v.ask(b.Context(), p, r, sizes)
					if err != nil {
						b.Fatal(err)
					}
					asked := processorTime(b)
					var own scale
					own.include(a.table)
					one, err := a.part(p.draw, own)
					if err != nil || one == nil {
						b.Fatal(err)
					}
					used, drawn = used+asked-before, drawn+processorTime(b)-asked
					queries = append(queries, float64(a.took.Microseconds())/1000)
					all = append(all, float64(time.Since(begin).Microseconds())/1000)
				}
				b.ReportMetric(float64(used.Microseconds())/1000/float64(len(queries)), "query-cpu-ms/op")
				b.ReportMetric(float64(drawn.Microseconds())/1000/float64(len(queries)), "draw-cpu-ms/op")
				slices.Sort(queries)
				slices.Sort(all)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(queries[len(queries)/2], "query-ms/p50")
				b.ReportMetric(queries[len(queries)*95/100], "query-ms/p95")
				b.ReportMetric(all[len(all)*95/100], "answer-ms/p95")
			})
		}
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
