package search_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/store"
)

var update = flag.Bool("update", false, "write the answers into testdata/requests")

// recorded is a request that a client sent, and this server's answer.
type recorded struct {
	Request struct {
		Method      string            `json:"method"`
		Path        string            `json:"path"`
		ContentType string            `json:"content_type,omitempty"`
		Lines       []json.RawMessage `json:"lines,omitempty"` // lines of the body
	} `json:"request"`
	Status int `json:"status"`
	Answer any `json:"answer"`
}

// TestRequests sends requests of real clients and compares the answers. Grafana's requests come
// from its Elasticsearch data source (grafana/grafana, pkg/tsdb/elasticsearch and
// public/app/plugins/datasource/elasticsearch).
func TestRequests(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var jobs []job
	for i := 1; i <= 24; i++ {
		d := job(clientDocument(i))
		d["jobid"], d["arrived"] = float64(i), now.Format(arrivalStamp)
		jobs = append(jobs, d)
	}
	f := newIndexed(t, s, jobs, 1, "vale")
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no requests", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var r recorded
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			var body bytes.Buffer
			for _, line := range r.Request.Lines {
				if err := json.Compact(&body, line); err != nil {
					t.Fatal(err)
				}
				body.WriteByte('\n')
			}
			request := httptest.NewRequest(r.Request.Method, r.Request.Path, &body)
			request.Header.Set("Content-Type", r.Request.ContentType)
			w := httptest.NewRecorder()
			f.mux.ServeHTTP(w, request)
			var answer any
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			forgetTimes(answer)
			if !*update {
				if difference := cmp.Diff(r.Answer, answer); difference != "" || w.Code != r.Status {
					t.Errorf("status %d (want %d)\n%s", w.Code, r.Status, difference)
				}
				return
			}
			r.Status, r.Answer = w.Code, answer
			if text, err = json.MarshalIndent(r, "", " "); err == nil {
				err = os.WriteFile(name, append(text, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// forgetTimes removes the durations of searches.
func forgetTimes(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "took")
		for _, x := range v {
			forgetTimes(x)
		}
	case []any:
		for _, x := range v {
			forgetTimes(x)
		}
	}
}
