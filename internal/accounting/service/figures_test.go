package service_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestFigures reads the metrics of a server that received documents, refused some, and answered
// questions.
func TestFigures(t *testing.T) {
	server := start(t, filepath.Join(t.TempDir(), "data"), freeAddress(t))
	for _, n := range []int64{1, 2, 2} {
		if status, body, err := post(server.address, synthetic(n)); err != nil || status != 201 {
			t.Fatal(status, body, err)
		}
	}
	get := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + server.address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, text := get("/_refresh"); status != http.StatusOK { // waits until the store has all documents
		t.Fatal(status, text)
	}
	for path, want := range map[string]int{"/_ui/api/v1/panels/summary": 200, "/_search?sice=1": 400} {
		if status, text := get(path); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	status, text := get("/metrics")
	if status != http.StatusOK {
		t.Fatal(status, text)
	}
	for _, line := range []string{
		"rmreplay_accounting_documents_received_total 3",
		"rmreplay_accounting_documents_waiting 0",
		`rmreplay_accounting_documents_total{outcome="new"} 2`,
		`rmreplay_accounting_documents_total{outcome="duplicate"} 1`,
		`rmreplay_accounting_requests_total{code="201",kind="documents"} 3`,
		`rmreplay_accounting_requests_total{code="400",kind="questions"} 1`,
		`rmreplay_accounting_question_seconds_count{outcome="answered"} `,
		`rmreplay_accounting_question_seconds_count{outcome="busy"} 0`,
		"rmreplay_accounting_store_fault 0",
		"go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
