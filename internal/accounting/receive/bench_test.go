package receive_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/store/storetest"
)

// documents returns the number of documents in a round of BenchmarkBulk: RMREPLAY_BENCH_DOCUMENTS,
// by default 100,000.
func documents(b *testing.B) int {
	text := os.Getenv("RMREPLAY_BENCH_DOCUMENTS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkBulk measures documents that two clients send in bulk requests of 5,000. It reports the
// rate of acknowledgements, the rate at which documents reach the store, and the CPU time of
// clients, server and store together.
func BenchmarkBulk(b *testing.B) {
	const each = 5000
	n := documents(b)
	var bodies [][]byte
	for first := 0; first < n; first += each {
		var body bytes.Buffer
		for i := range min(each, n-first) {
			body.WriteString("{\"index\":{}}\n")
			body.Write(storetest.Entry(int64(first + i + 1)).Document)
			body.WriteByte('\n')
		}
		bodies = append(bodies, body.Bytes())
	}
	var acknowledged, all time.Duration
	b.ResetTimer()
	before := processorTime(b)
	for range b.N {
		server, in := serve(b, nil)
		begin := time.Now()
		var next atomic.Int64
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(bodies) {
						return
					}
					response, err := http.Post(server.URL+"/slurm/_bulk", "application/x-ndjson", bytes.NewReader(bodies[i]))
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
						b.Error(response.Status, err)
					}
					response.Body.Close()
				}
			})
		}
		group.Wait()
		acknowledged += time.Since(begin)
		if err := in.Wait(context.Background(), in.Status().Received); err != nil {
			b.Fatal(err)
		}
		all += time.Since(begin)
		if out := in.Status().Outcome; out.Added != n {
			b.Errorf("%+v", out)
		}
	}
	total := float64(n * b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total/acknowledged.Seconds(), "acknowledged/s")
	b.ReportMetric(total/all.Seconds(), "stored/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/total, "cpu-us/document")
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

// BenchmarkPost measures requests with one durable document each, from 64 clients.
func BenchmarkPost(b *testing.B) {
	server, _ := serve(b, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var next atomic.Int64
	before := processorTime(b)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			response, err := client.Post(server.URL+"/slurm/_doc", "application/json", bytes.NewReader(storetest.Entry(next.Add(1)).Document))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusCreated {
				b.Fatal(response.Status, err)
			}
			response.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/document")
}
