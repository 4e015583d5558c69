package forward_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/store"
)

// mapper is a cluster that also accepts mappings.
type mapper struct {
	cluster
	mu      sync.Mutex
	asked   []string // paths of the PUT requests
	bodies  []string
	answers []int // statuses of the responses to the next requests for mappings; then 200
}

func (m *mapper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		m.cluster.ServeHTTP(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a truncated body is not JSON
	m.asked, m.bodies = append(m.asked, r.URL.Path), append(m.bodies, string(body))
	status := http.StatusOK
	if len(m.answers) > 0 {
		status, m.answers = m.answers[0], m.answers[1:]
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":{"type":"resource_already_exists_exception","reason":"it exists"}}`)
}

// TestDerived checks that documents get the additional values of the store. It also checks that
// each index gets a mapping before its first document: a new index for all fields, and an existing
// index for the program's own fields.
func TestDerived(t *testing.T) {
	s := newStore(t, 3)
	long := strings.Repeat("x", 40_000)
	for i, text := range []string{
		`{"jobid":7,"@submit":"2024-03-01T10:00:00","@start":"2024-03-01T10:01:00","@end":"2024-03-01T11:01:00","nodes":"n1","total_cpus":4,"total_nodes":2,"time_limit":7200,"tres_alloc":"gres/gpu=2","exit_code":"3:9"}`,
		`{}`, `{"jobid":8,"rmreplay":{"cluster":"other"}}`, `{"jobid":9,"script":"` + long + `"}`, `{"jobid":10,"job_name":"rmreplay","cluster":"vale","x":{"cluster":"y"}}`,
	} {
		job := document.Parse([]byte(text), "dale")
		entry := store.Entry{Seq: int64(4 + i), Arrived: time.Date(2024, 3, 2, 1, 2, 3, 4e6, time.UTC), Source: store.Imported, Index: "dale", Document: []byte(text), Job: job}
		if _, err := s.Apply(t.Context(), []store.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	m := &mapper{cluster: cluster{documents: map[string]string{}}, answers: []int{503, 200, 400, 200}}
	server := httptest.NewServer(m)
	defer server.Close()
	f, err := forward.New(s, forward.Options{URL: server.URL, Dir: t.TempDir(), Derived: true, Idle: time.Millisecond, Longest: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if status := until(t, f, 8); status.Refused != 0 || status.Sent != 8 {
		t.Errorf("%+v", status)
	}
	if got := strings.Join(m.asked, " "); got != "/slurm /slurm /dale /dale/_mapping" {
		t.Errorf("mappings of %s", got)
	}
	var made struct {
		Mappings struct {
			Properties map[string]struct {
				Type       string `json:"type"`
				Index      *bool  `json:"index"`
				Properties map[string]struct{ Type string }
			} `json:"properties"`
		} `json:"mappings"`
	}
	if err := json.Unmarshal([]byte(m.bodies[1]), &made); err != nil {
		t.Fatal(err)
	}
	all := made.Mappings.Properties
	for name, want := range map[string]string{"@end": "date", "username": "keyword", "elapsed": "long", "cpu_hours": "double", "exit_code": "keyword", "nodes": "keyword"} {
		if all[name].Type != want {
			t.Errorf("%s is mapped as %q, want %q", name, all[name].Type, want)
		}
	}
	for name, want := range map[string]string{"wait_s": "long", "gpu_hours": "double", "limit_used": "double", "arrived": "date", "id": "keyword", "cluster": "keyword", "exit_code": "long"} {
		if got := all[forward.Member].Properties[name].Type; got != want {
			t.Errorf("%s.%s is mapped as %q, want %q", forward.Member, name, got, want)
		}
	}
	if i := all["script"].Index; i == nil || *i {
		t.Error("scripts are indexed, which a long one does not survive")
	}
	var sent struct {
		JobID    int            `json:"jobid"`
		CPUHours float64        `json:"cpu_hours"`
		Cluster  string         `json:"cluster"`
		Rmreplay map[string]any `json:"rmreplay"`
	}
	read := func(id string) {
		t.Helper()
		sent.Rmreplay, sent.Cluster = nil, ""
		if err := json.Unmarshal([]byte(m.documents["dale/"+id]), &sent); err != nil {
			t.Fatalf("%s: %v: %.200s", id, err, m.documents["dale/"+id])
		}
	}
	read("dale:7:1709287260")
	for name, want := range map[string]any{
		"cluster": "dale", "id": "dale:7:1709287260", "wait_s": 60.0, "gpus": 2.0, "gpu_hours": 2.0, "node_hours": 2.0, "limit_used": 50.0, "exit_code": 3.0, "exit_signal": 9.0,
		"source": "imported", "arrived": "2024-03-02T01:02:03.004Z", "mem_mib": nil,
	} {
		if got := sent.Rmreplay[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, ok := sent.Rmreplay["user_name"]; ok || sent.JobID != 7 || sent.Cluster != "dale" || sent.CPUHours != 4 {
		t.Errorf("%v", sent)
	}
	seen := 0
	for id, text := range m.documents {
		switch {
		case strings.HasPrefix(id, "dale/dale:8:"):
			seen++
			if read(strings.TrimPrefix(id, "dale/")); len(sent.Rmreplay) != 1 || sent.Rmreplay["cluster"] != "other" || sent.Cluster != "other" {
				t.Errorf("a document that came through another server: %+v", sent)
			}
		case strings.HasPrefix(id, "dale/vale:10:"):
			seen++
			if read(strings.TrimPrefix(id, "dale/")); sent.Rmreplay["cluster"] != "vale" || sent.Cluster != "vale" || strings.Count(text, `"cluster"`) != 3 {
				t.Errorf("a job with the name of the member: %s", text)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of the last documents were sent", seen)
	}
}
