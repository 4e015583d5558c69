package elastic_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/elastic"
	"rmreplay/internal/accounting/question"
)

// recorded is a cluster that responds to every search in the same way, and keeps the requests.
type recorded struct {
	mu      sync.Mutex
	fields  map[string]any
	status  int
	answer  string
	headers []http.Header
	bodies  []string
}

func (c *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a truncated body is not JSON
	c.headers, c.bodies = append(c.headers, r.Header), append(c.bodies, string(body))
	if strings.HasSuffix(r.URL.Path, "/_field_caps") && c.status != http.StatusUnauthorized {
		_ = json.NewEncoder(w).Encode(map[string]any{"fields": c.fields}) // an error means that the client has disconnected
		return
	}
	w.WriteHeader(c.status)
	_, _ = io.WriteString(w, c.answer)
}

func (c *recorded) open(t testing.TB, opts elastic.Options) *elastic.Cluster {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	opts.URL = server.URL + "/slurm-*,old"
	cluster, err := elastic.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// caps returns the fields of an index with dynamic mapping.
func caps() map[string]any {
	return map[string]any{
		"@end": capability("date"), "@start": capability("date"), "elapsed": capability("long"), "cpu_hours": capability("float"), "total_cpus": capability("long"),
		"username": capability("text"), "username.keyword": capability("keyword"), "account": capability("text"), "state": capability("keyword"),
		"partition": map[string]any{"text": capability("text")["text"], "keyword": capability("keyword")["keyword"]}, "@submit": capability("text"),
	}
}

// TestFaults checks that errors name what a cluster cannot do.
func TestFaults(t *testing.T) {
	ask := func(c *elastic.Cluster, where question.Filter) error {
		_, err := c.Ask(t.Context(), question.Question{Where: where, Measures: []question.Measure{{Kind: question.Count}}})
		return err
	}
	for _, test := range []struct {
		status       int
		answer, want string
	}{
		{401, `{"error":{"type":"security_exception","reason":"missing authentication credentials"},"status":401}`, "security_exception: missing authentication credentials"},
		{400, `{"error":{"type":"search_phase_execution_exception","reason":"all shards failed","root_cause":[{"type":"too_many_buckets_exception","reason":"too many buckets"}]}}`, "too many buckets"},
		{502, "<html>\nproxy</html>", "502 Bad Gateway: <html>"},
		{200, `{"_shards":{"total":5,"failed":2,"failures":[{"reason":{"type":"circuit_breaking_exception","reason":"data too large"}}]}}`, "2 of the Elasticsearch cluster's 5 shards failed: circuit_breaking_exception: data too large"},
		{200, `{"timed_out":true}`, "ended the search because"},
		{200, `hello`, "not the expected JSON"},
		{302, ``, "302 Found"},
	} {
		c := (&recorded{fields: caps(), status: test.status, answer: test.answer}).open(t, elastic.Options{})
		if err := ask(c, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %s: %v, want %q", test.status, test.answer, err, test.want)
		}
	}
	c := (&recorded{fields: caps(), status: 200, answer: `{"hits":{"total":{"value":3}}}`}).open(t, elastic.Options{})
	for column, want := range map[string]string{
		"account": "without a sub-field account.keyword", "partition": "several types in the indices of the Elasticsearch cluster: keyword, text", "submit_time": "of the type text in the Elasticsearch cluster (want date",
		"wait_s": "Slurm itself", "hour": "Slurm itself", "nothing": "no column",
	} {
		err := ask(c, question.Known{Column: column})
		var absent *question.AbsentError
		if err == nil || !strings.Contains(err.Error(), want) || column != "nothing" && !errors.As(err, &absent) {
			t.Errorf("%s: %v, want %q", column, err, want)
		}
	}
	if _, err := c.Jobs(t.Context(), question.Page{Sort: "end_time", From: 9990, Most: 26}); err == nil || !strings.Contains(err.Error(), "first 10000 jobs") {
		t.Errorf("%v", err)
	}
	for url, want := range map[string]string{
		"http://h:9200": "name of an index", "ftp://h/i": "want http", "http://u:secret@h/i": "want them in a file", "http://h/_all": "name of an index", "http://h/a/b": "name of an index", "http://h/i?x": "without ?",
	} {
		if _, err := elastic.New(elastic.Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// TestCredentials checks that requests have the credentials from a file, and that the file must be
// private.
func TestCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(path, []byte("ApiKey abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &recorded{fields: caps(), status: 200, answer: `{}`}
	c := r.open(t, elastic.Options{Credentials: path})
	if _, err := c.Ask(t.Context(), question.Question{Measures: []question.Measure{{Kind: question.Count}}}); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.headers {
		if got := h.Get("Authorization"); got != "ApiKey abc" {
			t.Errorf("Authorization: %q", got)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := elastic.New(elastic.Options{URL: "http://h/i", Credentials: path}); err == nil || !strings.Contains(err.Error(), "others can read") {
		t.Errorf("%v", err)
	}
}

// TestOrder checks that a list can be sorted by a field that some indices lack.
func TestOrder(t *testing.T) {
	r := &recorded{fields: caps(), status: 200, answer: `{"hits":{"hits":[]}}`}
	delete(r.fields, "@submit")
	c := r.open(t, elastic.Options{})
	for column, want := range map[string]string{
		"end_time": `"@end":{"missing":"_last","order":"asc","unmapped_type":"date"}`, "elapsed_s": `"elapsed":{"missing":"_last","order":"asc","unmapped_type":"long"}`,
		"cpu_hours": `"cpu_hours":{"missing":"_last","order":"asc","unmapped_type":"float"}`, "user_name": `"username.keyword":{"missing":"_last","order":"asc","unmapped_type":"keyword"}`,
	} {
		if _, err := c.Jobs(t.Context(), question.Page{Sort: column, Most: 5}); err != nil {
			t.Fatal(err)
		}
		if got := r.bodies[len(r.bodies)-1]; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestOrderOfStarts checks that jobs that never ran come last in a list by start: Slurm's document
// has the time of the end as their start.
func TestOrderOfStarts(t *testing.T) {
	r := &recorded{fields: caps(), status: 200, answer: `{"hits":{"total":{"value":3},"hits":[]}}`}
	r.fields["nodes"], r.fields["jobid"] = capability("keyword"), capability("long")
	delete(r.fields, "@submit")
	c := r.open(t, elastic.Options{})
	if _, err := c.Jobs(t.Context(), question.Page{Sort: "start_time", From: 5, Most: 5}); err != nil {
		t.Fatal(err)
	}
	const ran = `{"bool":{"filter":[{"exists":{"field":"@start"}}],"must_not":[{"terms":{"nodes":["(null)","None assigned",""]}}]}}`
	for i, want := range []string{
		`"from":5,"query":{"bool":{"filter":[{"match_all":{}},` + ran + `]}},"size":5,"sort":[{"@start":`,
		`"from":2,"query":{"bool":{"filter":[{"match_all":{}},{"bool":{"must_not":[` + ran + `]}}]}},"size":5,"sort":[{"jobid":`,
	} {
		if got := r.bodies[len(r.bodies)-2+i]; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// FuzzFilter checks that a reader's text is an error, or becomes a query that contains the text
// only in values. The names of members are constants of this program and names of fields.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][2]string{
		{"user_name:alice state:(FAILED OR TIMEOUT) elapsed_s>2h", "user_name=a"}, {`-(a* OR "b\" c")`, "cpus>=1e2"}, {"@end:[2024-01-01 TO now-1d]", "elapsed_s!="}, {`"},{"match_all":{`, `user_name="}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	r := &recorded{fields: caps(), status: 200, answer: `{}`}
	fields := caps()
	delete(fields, "partition")
	delete(fields, "account")
	delete(fields, "@submit")
	r.fields = fields
	c := r.open(f, elastic.Options{})
	known := map[string]bool{}
	for _, name := range strings.Fields("bool filter must_not should minimum_should_match match_all match_none exists field term range wildcard value case_insensitive gt gte lt lte format _index") {
		known[name] = true
	}
	for name := range fields {
		known[name] = true
	}
	reader := question.Reader{Zone: time.UTC, Now: time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)}
	f.Fuzz(func(t *testing.T, query, term string) {
		var all question.All
		if q, err := reader.Query(query); err == nil {
			all = append(all, q)
		}
		if one, err := question.ParseTerm(term); err == nil {
			if terms, err := reader.Terms([]question.Term{one, one}); err == nil {
				all = append(all, terms)
			}
		}
		if len(all) == 0 {
			return
		}
		text, err := elastic.QueryText(t.Context(), c, all)
		if err != nil {
			return
		}
		if len(text) > 1000*(1+len(query)+len(term)) {
			t.Fatalf("%q and %q become %d bytes", query, term, len(text))
		}
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		members(t, known, tree)
	})
}

// members checks the member names of all objects in v.
func members(t *testing.T, known map[string]bool, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if !known[name] {
				t.Fatalf("a member %q", name)
			}
			members(t, known, below)
		}
	case []any:
		for _, below := range v {
			members(t, known, below)
		}
	}
}
