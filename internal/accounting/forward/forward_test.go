package forward_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// cluster is a server that stores documents like Elasticsearch, and that can fail in many ways.
type cluster struct {
	mu        sync.Mutex
	documents map[string]string // by index and _id together
	requests  int
	refuse    string // refuses documents that contain this text
	fail      func(n int, w http.ResponseWriter, items []map[string]any) bool
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	var items []map[string]any
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var action struct {
			Index struct {
				Index string `json:"_index"`
				ID    string `json:"_id"`
			} `json:"index"`
		}
		if err := json.Unmarshal(lines.Bytes(), &action); err != nil || !lines.Scan() {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"type":"illegal_argument_exception"},"status":400}`)
			return
		}
		item := map[string]any{"_id": action.Index.ID, "status": 201}
		if c.refuse != "" && strings.Contains(lines.Text(), c.refuse) {
			item["status"], item["error"] = 400, map[string]any{"type": "document_parsing_exception"}
		}
		items = append(items, map[string]any{"index": item})
		item["document"], item["key"] = lines.Text(), action.Index.Index+"/"+action.Index.ID
	}
	if c.fail != nil && c.fail(c.requests, w, items) {
		return
	}
	c.keep(items)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": true, "items": items})
}

// keep stores the documents of items without an error.
func (c *cluster) keep(items []map[string]any) {
	for _, i := range items {
		if item := i["index"].(map[string]any); item["status"] == 201 {
			c.documents[item["key"].(string)] = item["document"].(string)
		}
	}
}

func newStore(t *testing.T, n int64) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := storetest.Fill(context.Background(), s, 1, n); err != nil {
		t.Fatal(err)
	}
	return s
}

// until runs a forwarder until the position is last, and returns its status.
func until(t *testing.T, f *forward.Forwarder, last int64) forward.Status {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := run(ctx, f)
	await(t, f, fmt.Sprintf("position %d", last), func(s forward.Status) bool { return s.Position >= last })
	cancel()
	<-done
	return f.Status()
}

// await waits until the function is returns true for the forwarder's status.
func await(t *testing.T, f *forward.Forwarder, what string, is func(s forward.Status) bool) {
	t.Helper()
	for start := time.Now(); !is(f.Status()); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Minute {
			t.Fatalf("after five minutes: %+v, want %s", f.Status(), what)
		}
	}
}

// run starts a forwarder. It closes the channel when the forwarder has ended.
func run(ctx context.Context, f *forward.Forwarder) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	return done
}

func open(t *testing.T, s *store.Store, url, dir string) *forward.Forwarder {
	t.Helper()
	f, err := forward.New(s, forward.Options{URL: url, Dir: dir, Idle: time.Millisecond, Longest: 4 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFailures lets each of the first requests fail in a different way. In the end the cluster has
// every document once.
func TestFailures(t *testing.T) {
	const jobs = 40
	s := newStore(t, jobs)
	failures := []func(c *cluster, w http.ResponseWriter, items []map[string]any){
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) { w.WriteHeader(http.StatusTooManyRequests) },
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) { w.WriteHeader(http.StatusUnauthorized) },
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) { // like a proxy
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<html>no</html>")
		},
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) {
			_, _ = io.WriteString(w, "<html>hello</html>")
		},
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) {
			_, _ = io.WriteString(w, `{"errors":false}`)
		},
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) {
			_, _ = io.WriteString(w, `{"errors":false,"items":[]}`)
		},
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) { panic(http.ErrAbortHandler) },
		func(_ *cluster, w http.ResponseWriter, _ []map[string]any) {
			http.Redirect(w, &http.Request{Method: "POST", URL: new(url.URL)}, "/", http.StatusFound)
		},
		func(c *cluster, w http.ResponseWriter, items []map[string]any) { // stores the documents, and loses the response
			c.keep(items)
			panic(http.ErrAbortHandler)
		},
		func(c *cluster, w http.ResponseWriter, items []map[string]any) { // sends half of the response
			c.keep(items)
			text, _ := json.Marshal(map[string]any{"items": items})
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = w.Write(text[:len(text)/2])
		},
		func(c *cluster, w http.ResponseWriter, items []map[string]any) { // lets some items fail
			for n, i := range items {
				if n%3 == 1 {
					i["index"].(map[string]any)["status"] = []int{429, 503, 500}[n/3%3]
				}
			}
			c.keep(items)
			_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
		},
		func(c *cluster, w http.ResponseWriter, items []map[string]any) { // responds about other documents
			for _, i := range items {
				i["index"].(map[string]any)["_id"] = "other"
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
		},
	}
	c := &cluster{documents: map[string]string{}, refuse: `"jobid":7,`}
	c.fail = func(n int, w http.ResponseWriter, items []map[string]any) bool {
		if n > len(failures) {
			return false
		}
		failures[n-1](c, w, items)
		return true
	}
	server := httptest.NewServer(c)
	defer server.Close()
	dir := t.TempDir()
	status := until(t, open(t, s, server.URL, dir), jobs)
	if len(c.documents) != jobs-1 || status.Refused != 1 || status.Sent != jobs-1 || status.Retries != int64(len(failures)) || status.Error != "" {
		t.Errorf("the cluster has %d documents, and %+v", len(c.documents), status)
	}
	text, err := os.ReadFile(filepath.Join(dir, "forward-refused.jsonl"))
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "document_parsing_exception") {
		t.Errorf("%s, %v", text, err)
	}
	for n := int64(1); n <= jobs; n++ {
		e := storetest.Entry(n)
		if got := c.documents["slurm/"+store.ID(&e.Job)]; n != 7 && got != string(e.Document) {
			t.Errorf("job %d: %s", n, got)
		}
	}
	// A new process continues at the position; for a new target, it sends all documents.
	before := c.requests
	f := open(t, s, server.URL, dir)
	if f.Status().Position != jobs || f.Status().Refused != 1 {
		t.Errorf("again: %+v", f.Status())
	}
	if err := storetest.Fill(context.Background(), s, jobs+1, jobs+2); err != nil {
		t.Fatal(err)
	}
	until(t, f, jobs+2)
	if len(c.documents) != jobs+1 || c.requests != before+1 {
		t.Errorf("%d documents after %d requests", len(c.documents), c.requests-before)
	}
	c.documents = map[string]string{}
	until(t, open(t, s, server.URL+"/other", dir), jobs+2)
	if e := storetest.Entry(1); len(c.documents) != jobs+1 || c.documents["other/"+store.ID(&e.Job)] == "" {
		t.Errorf("the other index has %d documents", len(c.documents))
	}
}

// TestMendable lets each of the first requests fail, completely or for one document, with an error
// that blames the request although the cause is the index or the cluster. In the end the cluster
// has all documents. If an error with the same type and status is about the document, the document
// is refused.
func TestMendable(t *testing.T) {
	const jobs = 5
	mendable := []struct{ kind, reason string }{
		{"validation_exception", "Validation Failed: 1: this action would add [2] shards, but this cluster currently has [1000]/[1000] maximum normal shards open;"},
		{"index_closed_exception", "closed"}, {"cluster_block_exception", "index [slurm] blocked by: [FORBIDDEN/8/index write (api)];"},
		{"illegal_argument_exception", "pipeline with id [own] does not exist"},
	}
	final := []struct{ kind, reason string }{
		{"illegal_argument_exception", "Limit of total fields [1000] has been exceeded"}, {"illegal_argument_exception", "field [pipeline with id [own] does not exist here]"},
		{"document_parsing_exception", "failed to parse field [@end]"}, {"mapper_parsing_exception", "failed to parse"}, {"strict_dynamic_mapping_exception", "not allowed"},
	}
	send := func(fail func(n int, w http.ResponseWriter, items []map[string]any) bool) (*cluster, forward.Status) {
		c := &cluster{documents: map[string]string{}, fail: fail}
		server := httptest.NewServer(c)
		defer server.Close()
		return c, until(t, open(t, newStore(t, jobs), server.URL, t.TempDir()), jobs)
	}
	c, status := send(func(n int, w http.ResponseWriter, items []map[string]any) bool {
		fault := map[string]any{}
		if i := (n - 1) / 2; i < len(mendable) {
			fault["type"], fault["reason"] = mendable[i].kind, mendable[i].reason
		}
		switch {
		case len(fault) == 0:
			return false
		case n%2 == 0:
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": fault, "status": 400})
			return true
		}
		item := items[0]["index"].(map[string]any)
		item["status"], item["error"] = 400, fault
		return false
	})
	if len(c.documents) != jobs || status.Refused != 0 || status.Retries != int64(2*len(mendable)) {
		t.Errorf("%d documents, %+v", len(c.documents), status)
	}
	for _, f := range final {
		c, status := send(func(n int, _ http.ResponseWriter, items []map[string]any) bool {
			if n == 1 {
				item := items[0]["index"].(map[string]any)
				item["status"], item["error"] = 400, map[string]any{"type": f.kind, "reason": f.reason}
			}
			return false
		})
		if len(c.documents) != jobs-1 || status.Refused != 1 || c.requests != 1 {
			t.Errorf("%s: %d documents after %d requests, %+v", f.reason, len(c.documents), c.requests, status)
		}
	}
}

// TestDisk forwards while the position and the list of refused documents cannot be written. When
// they can be written again, the cluster has each document once.
func TestDisk(t *testing.T) {
	const jobs = 40
	s := newStore(t, jobs)
	c := &cluster{documents: map[string]string{}, refuse: `"jobid":7,`}
	server := httptest.NewServer(c)
	defer server.Close()
	dir := t.TempDir()
	// Directories with the files' names prevent writing even for root, whom the mode of dir would
	// not stop.
	position, list := filepath.Join(dir, "forward.json.new"), filepath.Join(dir, "forward-refused.jsonl")
	for _, path := range []string{position, list} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, s, server.URL, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx, f)
	for _, fault := range []struct{ with, path string }{{"noting a refused document", list}, {"writing the position", position}} {
		await(t, f, fault.with, func(s forward.Status) bool { return strings.Contains(s.Error, fault.with) })
		if status := f.Status(); status.Position != 0 || status.Sent != 0 || status.Refused != 0 {
			t.Errorf("what is not on disk counts: %+v", status)
		}
		if err := os.Remove(fault.path); err != nil {
			t.Fatal(err)
		}
	}
	await(t, f, "all documents", func(s forward.Status) bool { return s.Position == jobs && s.Error == "" })
	cancel()
	<-done
	status := f.Status()
	if len(c.documents) != jobs-1 || status.Sent != jobs-1 || status.Refused != 1 || status.Error != "" {
		t.Errorf("the cluster has %d documents, and %+v", len(c.documents), status)
	}
}

// TestStore checks that reading from a store that fails is tried again.
func TestStore(t *testing.T) {
	s := newStore(t, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := open(t, s, "http://127.0.0.1:1", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx, f)
	await(t, f, "three attempts", func(s forward.Status) bool { return s.Retries >= 3 && strings.Contains(s.Error, "closed") })
	cancel()
	<-done
}

// TestTooLarge sends documents, some of them not JSON, to a cluster with a low limit for the size
// of requests.
func TestTooLarge(t *testing.T) {
	s := newStore(t, 20)
	large := []byte(`{"jobid": 21, "@submit": "2024-03-01T00:00:00",` + "\n" + `"script": "` + strings.Repeat("x", 10000) + `"}`)
	broken, latin := []byte("no JSON"), []byte("{\"jobid\": 23, \"@submit\": \"2024-03-01T00:00:00\",\n\"username\": \"J\xfcrgen\"}")
	var entries []store.Entry
	for i, text := range [][]byte{large, broken, latin} {
		entries = append(entries, store.Entry{Seq: int64(21 + i), Arrived: storetest.Begin, Source: store.Received, Index: "slurm", Document: text, Job: document.Parse(text, "c")})
	}
	if _, err := s.Apply(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
	c := &cluster{documents: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 4000 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		c.ServeHTTP(w, r)
	}))
	defer server.Close()
	status := until(t, open(t, s, server.URL, t.TempDir()), 23)
	if len(c.documents) != 21 || status.Refused != 2 {
		t.Errorf("%d documents, %+v", len(c.documents), status)
	}
	if got := c.documents["slurm/"+store.ID(&entries[2].Job)]; !strings.Contains(got, "Jürgen") {
		t.Errorf("%q", got)
	}
}

// TestBusy sends documents to a cluster that has no room for large requests.
func TestBusy(t *testing.T) {
	const jobs = 3000
	c := &cluster{documents: map[string]string{}}
	busy := 0
	c.fail = func(_ int, w http.ResponseWriter, items []map[string]any) bool {
		if len(items) <= 10 {
			return false
		}
		busy++
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"type":"rejected_execution_exception"},"status":429}`)
		return true
	}
	server := httptest.NewServer(c)
	defer server.Close()
	status := until(t, open(t, newStore(t, jobs), server.URL, t.TempDir()), jobs)
	// Nine requests are too large; after that, one request in 65 tries a larger size.
	if len(c.documents) != jobs || status.Sent != jobs || status.Refused != 0 || busy < 9 || busy > 8+jobs/5/60 {
		t.Errorf("%d documents, %d requests had no room, %+v", len(c.documents), busy, status)
	}
}

// templateFile is the template for indices that Slurm's plugin fills.
const templateFile = "../../../packaging/elasticsearch/index-template.json"

var update = flag.Bool("update", false, "write the index template anew")

// TestTemplate checks that the template has the types that the program gives its own indices.
func TestTemplate(t *testing.T) {
	mappings := map[string]any{"properties": forward.SlurmProperties()}
	want, err := json.MarshalIndent(map[string]any{
		"index_patterns": []string{"slurm*"}, "template": map[string]any{"mappings": mappings},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(templateFile, want, 0o644); err != nil { //nolint:gosec // everybody reads it
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(templateFile); err != nil || string(got) != string(want) {
		t.Errorf("%s differs from the program's types (want make golden): %v", templateFile, err)
	}
}

// TestOwnServer forwards documents to a receiver of this program.
func TestOwnServer(t *testing.T) {
	const jobs = 300
	s := newStore(t, jobs)
	in, err := intake.Open(context.Background(), t.TempDir(), intake.Options{Now: time.Now, Report: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	server := httptest.NewServer(receive.New(in, nil))
	defer server.Close()
	status := until(t, open(t, s, server.URL, t.TempDir()), jobs)
	if err := in.Wait(context.Background(), in.Status().Received); err != nil {
		t.Fatal(err)
	}
	var n, ids int64
	err = in.Store().Read(context.Background(), func(v *store.Snapshot) error {
		return v.Scan("SELECT count(*), count(DISTINCT id) FROM jobs", nil, &n, &ids)
	})
	if err != nil || n != jobs || ids != jobs || status.Refused != 0 {
		t.Errorf("%d jobs with %d ids (want %d), %v, %+v", n, ids, jobs, err, status)
	}
}

func TestOptions(t *testing.T) {
	s := newStore(t, 0)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ url, credentials, want string }{
		{"ftp://x", "", "want http://"}, {"http://", "", "want http://"}, {"http://u:secret@x", "", "want them in a file"},
		{"http://x/a/b", "", "not the name of an index"},
		{"http://x/_bulk", "", "not the name of an index"}, {"http://x/?q=1", "", "without ?"},
		{"http://x:%zz", "", "cannot be parsed"},
		{"http://x", filepath.Join(dir, "absent"), "no such file"}, {"http://x", write("open", "a:b", 0o644), "want 0600"},
		{"http://x", write("bad", "nothing", 0o600), "want one line"},
	} {
		_, err := forward.New(s, forward.Options{URL: c.url, Credentials: c.credentials, Dir: dir})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
	}
	for text, want := range map[string]string{"ann:pa:ss\n": "Basic YW5uOnBhOnNz", "ApiKey abc": "ApiKey abc", "Bearer x": "Bearer x"} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
		f, err := forward.New(newStore(t, 1), forward.Options{URL: server.URL, Credentials: write("good", text, 0o600), Dir: t.TempDir(), Idle: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := run(ctx, f)
		for f.Status().Retries == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		server.Close()
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
