package receive_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"rmreplay/internal/accounting/store/storetest"
)

// BenchmarkBulk measures documents that come in bulk requests of 5,000: how many a second are
// acknowledged, and how many a second the database has.
func BenchmarkBulk(b *testing.B) {
	const each = 5000
	server, in := serve(b, nil)
	var bodies [][]byte
	for r := range 10 {
		var body bytes.Buffer
		for n := range int64(each) {
			body.WriteString("{\"index\":{}}\n")
			body.Write(storetest.Entry(int64(r)*each + n + 1).Document)
			body.WriteByte('\n')
		}
		bodies = append(bodies, body.Bytes())
	}
	b.ResetTimer()
	requests := 0
	for b.Loop() {
		response, err := http.Post(server.URL+"/slurm/_bulk", "application/x-ndjson", bytes.NewReader(bodies[requests%len(bodies)]))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(response.Status, err)
		}
		response.Body.Close()
		requests++
	}
	b.ReportMetric(float64(requests*each)/b.Elapsed().Seconds(), "acknowledged/s")
	if err := in.Wait(context.Background(), in.Status().Received); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(requests*each)/b.Elapsed().Seconds(), "stored/s")
}

// BenchmarkPost measures single durable documents of 64 clients.
func BenchmarkPost(b *testing.B) {
	server, _ := serve(b, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var next atomic.Int64
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
}
