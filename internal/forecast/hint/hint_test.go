package hint

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// machine answers like `forecast serve`.
func machine(stale bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"forecast":{"at":"2024-03-05T12:00:00Z","age_s":60,"stale":%v},"occupancy":null,"submitted_now":[
			{"partition":"batch","size":"1 node","at":"2024-03-05T12:00:00Z","nodes":1,"p10_wait_s":0,"p50_wait_s":600,"p90_wait_s":7200},
			{"partition":"batch","size":"2-8 nodes","at":"2024-03-05T12:00:00Z","nodes":4,"p10_wait_s":0,"p50_wait_s":null,"p90_wait_s":null,"beyond_s":86400},
			{"partition":"gpu","size":"1 node","at":"2024-03-05T12:00:00Z","nodes":1,"p10_wait_s":null,"p50_wait_s":null,"p90_wait_s":null,"why":"x"}]}`, stale)
	}
}

// TestLine: the hint has the limit with its risk, and the expected start. A part is missing if its
// service has no answer.
func TestLine(t *testing.T) {
	var asked Job
	p90 := 3700.0
	predict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Jobs []Job }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Jobs) != 1 {
			t.Errorf("%v %v", err, q)
		}
		asked = q.Jobs[0]
		_, _ = fmt.Fprintf(w, `{"predictions":[{"p10_s":1,"p50_s":2,"p90_s":%v}]}`, p90)
	}))
	defer predict.Close()
	good := httptest.NewServer(machine(false))
	defer good.Close()
	stale := httptest.NewServer(machine(true))
	defer stale.Close()
	const limit = "--time=01:05:00 is enough for 9 of 10 jobs like this one, and kills 1 of 10"
	const start = "a job of 1 node in batch is expected to start in 10 min (9 of 10 within 2 h)"
	job := Job{Name: "a\"b", User: "ann", Partition: "batch", Nodes: 1, Limit: 43200}
	for _, tt := range []struct {
		name    string
		servers Servers
		job     Job
		want    string
	}{
		{"both", Servers{predict.URL, good.URL}, job, limit + "; " + start},
		{"only the limit", Servers{predict.URL, ""}, job, limit},
		{"only the start", Servers{"", good.URL}, job, start},
		{"a stale forecast", Servers{"", stale.URL}, job, ""},
		{"a short limit", Servers{predict.URL, ""}, Job{Partition: "batch", Limit: 4500}, ""},
		{"no limit", Servers{predict.URL, ""}, Job{Partition: "batch"}, limit},
		{"after the horizon", Servers{"", good.URL}, Job{Partition: "batch", Nodes: 4}, "a job of 2-8 nodes in batch is expected to start later than in 1 d"},
		{"never", Servers{"", good.URL}, Job{Partition: "gpu"}, ""},
		{"an unknown partition", Servers{"", good.URL}, Job{Partition: "x"}, ""},
		{"several partitions and none named", Servers{"", good.URL}, Job{}, ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if got := tt.servers.Line(ctx, &tt.job); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		cancel()
	}
	if (Servers{predict.URL, ""}).Line(t.Context(), &job); asked != job {
		t.Errorf("asked about %+v", asked)
	}
}

// TestAway: a service that hangs, refuses, sends something else or answers byte by byte does not
// delay the hint beyond its time limit.
func TestAway(t *testing.T) {
	end := make(chan struct{})
	handler := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"refusing": closed, "no address": "::", "no socket": "/nonexistent/socket",
		"hanging": handler(func(http.ResponseWriter, *http.Request) { <-end }),
		"garbage": handler(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x00")) }),
		"null":    handler(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) }),
		"failing": handler(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"x"}`, http.StatusInternalServerError)
		}),
		"slow": handler(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush() // the client may have gone
				time.Sleep(5 * time.Millisecond)
			}
		}),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		line := (Servers{address, address}).Line(ctx, &Job{Partition: "batch", Limit: 3600})
		if took := time.Since(began); line != "" || took > 5*time.Second { // 100 ms, on a machine that others use
			t.Errorf("%s: %q after %v", name, line, took)
		}
		cancel()
	}
	close(end)
}
