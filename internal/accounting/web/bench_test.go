package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/embedded"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
	"rmreplay/internal/chromium"
)

// benchStore makes a store of RMREPLAY_MILLIONS million jobs (default 1), with rollups of its days.
func benchStore(b *testing.B) (dir string, millions int) {
	b.Helper()
	millions = 1
	if text := os.Getenv("RMREPLAY_MILLIONS"); text != "" {
		var err error
		if millions, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dir = os.Getenv("RMREPLAY_BENCH_STORE") // a store that an earlier benchmark made
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(filepath.Join(dir, "store.json")); err != nil {
		if err := storetest.Generate(b.Context(), dir, int64(millions)*1_000_000); err != nil {
			b.Fatal(err)
		}
	}
	return dir, millions
}

func openStore(b *testing.B, dir string) *store.Store {
	b.Helper()
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkPanels measures each panel for the last 30 days (the default) and for all jobs. It uses
// no filter, a filter that rollups can answer, and two filters that need the jobs themselves. The
// store has RMREPLAY_MILLIONS million jobs (default 1). The results are the median and the 95th
// percentile of the query and of the whole response with its chart. The CPU times of both depend
// less on other programs.
func BenchmarkPanels(b *testing.B) {
	dir, millions := benchStore(b)
	s := openStore(b, dir)
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	v := newServer(s, nil)
	for _, asked := range []url.Values{
		{"last": {"30d"}},
		{"last": {"all"}},
		{"last": {"all"}, "f": {"partition=gpu"}},
		{"last": {"30d"}, "q": {"user_name:user007 nodes>=2"}},
		{"last": {"all"}, "q": {"job_name:step1* elapsed_s>3600"}},
	} {
		for _, p := range panels {
			b.Run(fmt.Sprintf("%dM/%s/%s", millions, asked.Encode(), p.name), func(b *testing.B) {
				r, sizes, err := v.read(b.Context(), asked)
				if err != nil {
					b.Fatal(err)
				}
				var queries, all []float64
				var used, drawn time.Duration
				for b.Loop() {
					v.jobs = embedded.New(s) // the new source has kept no answers
					if _, err := v.findSizes(b.Context()); err != nil {
						b.Fatal(err)
					}
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

// processorTime returns the CPU time that this process has used, in user and kernel mode.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkColdStart measures the time from opening a closed store to the answer of the first
// panel, and to the answers of all panels of the default page, one after the other. The store's
// files may be in the page cache.
func BenchmarkColdStart(b *testing.B) {
	dir, millions := benchStore(b)
	b.Run(fmt.Sprintf("%dM", millions), func(b *testing.B) {
		var opened, first, all time.Duration
		for range b.N {
			begin := time.Now()
			s := openStore(b, dir)
			opened += time.Since(begin)
			v := newServer(s, nil)
			for i, p := range panels {
				r, sizes, err := v.read(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := v.ask(b.Context(), p, r, sizes); err != nil {
					b.Fatal(err)
				}
				if i == 0 {
					first += time.Since(begin)
				}
			}
			all += time.Since(begin)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(0, "ns/op")
		for name, sum := range map[string]time.Duration{"opened-ms": opened, "first-panel-ms": first, "all-panels-ms": all} {
			b.ReportMetric(float64(sum.Microseconds())/1000/float64(b.N), name)
		}
	})
}

// BenchmarkFirstView measures the first view of a page in Chromium, from the navigation until all
// panels are drawn. The server has no kept answers.
func BenchmarkFirstView(b *testing.B) {
	dir, millions := benchStore(b)
	browser := chromium.Open(b)
	b.Run(fmt.Sprintf("%dM", millions), func(b *testing.B) {
		var views []float64
		for range b.N {
			s := openStore(b, dir)
			mux := http.NewServeMux()
			Register(mux, s, nil)
			server := httptest.NewServer(mux)
			tab := browser.Tab(b)
			tab.OpenURL(server.URL + receive.Pages)
			var took float64
			tab.Eval(`new Promise((done) => { const look = () => document.body.dataset.loaded === location.search && !document.querySelector("[aria-busy]") ?
				requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look); look(); })`, &took)
			views = append(views, took)
			server.Close()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(views)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(views[len(views)/2], "view-ms/p50")
		b.ReportMetric(views[len(views)*95/100], "view-ms/p95")
	})
}
