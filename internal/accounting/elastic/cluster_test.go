package elastic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/elastic"
	_ "rmreplay/internal/accounting/engine/enginetest" // an engine for the stores in these tests
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/web"
)

var users = []string{"alice", "bob", `o'hara`, `a*b?c\d"e`, "ünal", "u u", "Alice"}

// randomEntry draws a job that ended within about 40 days. Some jobs lack members, or never ran.
// As in reality, Slurm's documents always have total_nodes, and have cpu_hours if they have
// total_cpus. Imported documents never have cpu_hours.
func randomEntry(r *rand.Rand, seq int64, imported bool) store.Entry {
	submit := time.Date(2024, 3, 10, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(40*86400)) * time.Second)
	start := submit.Add(time.Duration(r.ExpFloat64()*7200) * time.Second)
	end := start.Add(time.Duration(r.ExpFloat64()*20000) * time.Second)
	const layout = "2006-01-02T15:04:05"
	nodes := "n1"
	if r.IntN(15) == 0 {
		nodes, end = "(null)", start
	}
	parts := []string{
		fmt.Sprintf(`"jobid":%d`, seq), fmt.Sprintf(`"cluster":"c%d"`, r.IntN(3)), fmt.Sprintf(`"nodes":%q`, nodes), fmt.Sprintf(`"elapsed":%d`, end.Sub(start)/time.Second),
		fmt.Sprintf(`"@start":%q`, start.Format(layout)), fmt.Sprintf(`"@end":%q`, end.Format(layout)),
	}
	for _, maybe := range []string{
		fmt.Sprintf(`"@submit":%q,"@eligible":%[1]q`, submit.Format(layout)),
		fmt.Sprintf(`"state":%q`, []string{"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PENDING", "DEADLINE"}[r.IntN(6)]), fmt.Sprintf(`"username":%q`, users[r.IntN(len(users))]),
		fmt.Sprintf(`"account":"a%d"`, r.IntN(12)), fmt.Sprintf(`"partition":"p%d"`, r.IntN(4)), fmt.Sprintf(`"qos":"q%d"`, r.IntN(3)), fmt.Sprintf(`"job_name":"n%d"`, r.IntN(30)),
		fmt.Sprintf(`"total_cpus":%d`, r.IntN(200)), fmt.Sprintf(`"total_nodes":%d`, r.IntN(20)), fmt.Sprintf(`"time_limit":%d`, 60*r.IntN(600)),
		fmt.Sprintf(`"exit_code":"%d:%d"`, r.IntN(3), r.IntN(2)*9), `"tres_alloc":"gres/gpu=2,mem=4G"`, `"script":"#!/bin/sh\necho <script>"`,
	} {
		if r.IntN(12) > 0 {
			parts = append(parts, maybe)
		}
	}
	if text := strings.Join(parts, ","); !imported && !strings.Contains(text, "total_nodes") {
		parts = append(parts, `"total_nodes":3`)
	}
	text := []byte("{" + strings.Join(parts, ",") + "}")
	if hours := document.Parse(text, "").CPUHours; !imported && hours.Known {
		text = append(text[:len(text)-1], fmt.Sprintf(`,"cpu_hours":%.6f}`, hours.Value)...)
	}
	return store.Entry{Seq: seq, Arrived: end, Source: store.Received, Index: "slurm", Document: text, Job: document.Parse(text, "slurm")}
}

// newStore returns a store with random jobs.
func newStore(t *testing.T, jobs int64, imported bool) *store.Store {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := rand.New(rand.NewPCG(3, 4))
	var entries []store.Entry
	for seq := range jobs {
		entries = append(entries, randomEntry(r, seq+1, imported))
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	return s
}

// pages serves the pages of a store, or of another source.
func pages(t *testing.T, s *store.Store, jobs web.Source) *httptest.Server {
	mux := http.NewServeMux()
	web.Register(mux, s, jobs)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// mapped simulates a site's cluster: this program's API with changed fields.
type mapped struct {
	api http.Handler
	// caps changes a response to _field_caps. names renames the fields in requests accordingly.
	caps  func(fields map[string]any)
	names *strings.Replacer
}

func (m *mapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.names != nil {
		body = []byte(m.names.Replace(string(body)))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.HasSuffix(r.URL.Path, "/_field_caps") {
		m.api.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	m.api.ServeHTTP(answer, r)
	var caps struct {
		Indices any            `json:"indices"`
		Fields  map[string]any `json:"fields"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &caps); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	m.caps(caps.Fields)
	_ = json.NewEncoder(w).Encode(caps) // an error means that the client has disconnected
}

// capability describes a field of one type in a response to _field_caps.
func capability(kind string) map[string]any {
	return map[string]any{kind: map[string]any{"type": kind, "aggregatable": kind != "text", "searchable": true}}
}

// derived maps the columns that the plugin's documents lack to their names in the API.
func derived() map[string]string {
	names := map[string]string{"limit_used": "limit_used"}
	for _, c := range store.Columns {
		if forward.Derived(c) {
			names[c.Name] = query.NameOf(c)
		}
	}
	return names
}

// stock makes the fields like those of an index that the plugin itself fills: with dynamic
// mapping, strings become texts with sub-fields.
func stock(fields map[string]any) {
	for _, name := range derived() {
		delete(fields, name)
	}
	for name, types := range fields {
		if _, ok := types.(map[string]any)["keyword"]; ok && !strings.HasSuffix(name, ".keyword") {
			fields[name] = capability("text")
		}
	}
}

// enriched makes the fields like those of an index to which this program forwarded documents.
func enriched(fields map[string]any) {
	for column, name := range derived() {
		if types, ok := fields[name]; ok {
			fields[forward.Member+"."+column] = types
			delete(fields, name)
		}
	}
	fields[forward.Member+".id"], fields[forward.Member+".cluster"] = capability("keyword"), capability("keyword")
}

func enrichedNames() *strings.Replacer {
	pairs := []string{`"` + forward.Member + `.id"`, `"_id"`, `"` + forward.Member + `.cluster"`, `"cluster"`}
	for column, name := range derived() {
		pairs = append(pairs, `"`+forward.Member+"."+column+`"`, `"`+name+`"`)
	}
	return strings.NewReplacer(pairs...)
}

// newCluster returns a cluster that serves a store's jobs.
func newCluster(t *testing.T, s *store.Store, change func(m *mapped)) *elastic.Cluster {
	mux := http.NewServeMux()
	search.Register(mux, s, search.Options{})
	m := &mapped{api: mux, caps: func(map[string]any) {}}
	change(m)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	c, err := elastic.New(elastic.Options{URL: server.URL + "/slurm"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// panel is a panel's response.
type panel struct {
	Columns []struct{ Name string }
	Rows    [][]any
	Notes   []string
	Error   string
}

func get(t *testing.T, server *httptest.Server, path string) (p panel, status int) {
	t.Helper()
	answer, err := server.Client().Get(server.URL + receive.Pages + "api/v1/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
		t.Fatalf("%s: %s: %v", path, answer.Status, err)
	}
	return p, answer.StatusCode
}

// inTime returns the result of get. If the question exceeded its time limit, which can happen on a
// busy machine, it asks up to two more times.
func inTime(t *testing.T, server *httptest.Server, path string) (p panel, status int) {
	t.Helper()
	for range 3 {
		if p, status = get(t, server, path); status != http.StatusServiceUnavailable || !strings.Contains(p.Error, "took too long") {
			break
		}
		t.Logf("%s: %s", path, p.Error)
	}
	return p, status
}

// different describes how two panels differ. It ignores the last digits of numbers. It also ignores
// sums that the store does not know and that are 0 on a cluster without jobs.
func different(want, got panel, name string) string {
	if len(want.Columns) != len(got.Columns) {
		return fmt.Sprintf("columns %v, want %v", got.Columns, want.Columns)
	}
	if len(want.Rows) != len(got.Rows) {
		return fmt.Sprintf("%d rows, want %d: %v, want %v", len(got.Rows), len(want.Rows), got.Rows, want.Rows)
	}
	for i, row := range want.Rows {
		for k, v := range row {
			if name == "table" && k == 0 {
				continue // the column with the place of the job differs
			}
			other := got.Rows[i][k]
			a, ok := v.(float64)
			b, known := other.(float64)
			if ok && known {
				if math.Abs(a-b) > 1e-4+1e-7*math.Abs(a) {
					return fmt.Sprintf("row %d, %s: %v, want %v", i, want.Columns[k].Name, b, a)
				}
				continue
			}
			if fmt.Sprint(v) != fmt.Sprint(other) {
				return fmt.Sprintf("row %d, %s: %v, want %v", i, want.Columns[k].Name, other, v)
			}
		}
	}
	return ""
}

// randomRequest draws a request's parameters. If computed, it may use filters on columns that only
// some clusters have.
func randomRequest(r *rand.Rand, computed bool) url.Values {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	values := url.Values{"zone": {pick("UTC", "Europe/Zurich", "Asia/Kathmandu", "America/New_York")}}
	switch r.IntN(3) {
	case 0:
		values.Set("last", pick("all", "30d", "5d", "90d"))
	case 1:
		from := time.Date(2024, 3, 8+r.IntN(20), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		values.Set("from", from.Format(time.RFC3339))
		values.Set("until", from.Add(time.Duration(1+r.IntN(30*86400))*time.Second).Format(time.RFC3339))
	}
	filters := []string{
		"state=FAILED", "state!=COMPLETED", "user_name=alice", "user_name=" + users[3], "user_name!=" + users[2], "qos=", "qos!=", "account=a1", "account=a2", "elapsed_s>=3600", "nodes<8", "cpus>64",
		"end_time<2024-04-01", "start_time>=2024-03-20T10:00", "cluster=c1", "jobid<=700", "nodes!=3", "limit_s=3600", "job_name>n2", "submit_time=", "nodes>2.5", "nodes=2.5", "cpu_hours<1.5",
	}
	queries := []string{
		"alice", "user_name:(alice OR bob) -state:FAILED", "job_name:n1*", `job_name:n?`, "elapsed_s>2h OR cpus:[1 TO 20]", `user_name:"a*b?c\\d\"e"`, "NOT (qos:q1 account:a3)", "qos:*", "17", `"u u"`, `a*b`, "@end>2024-03-30",
	}
	if computed {
		filters = append(filters, "wait_s>600", "gpus=2", "limit_used>=50", "limit_used<50", "exit_code=1", "exit_code=0", "exit_signal!=", "mem_mib>=4096", "source=received")
		queries = append(queries, "wait_s<1h gpu_hours>1", "limit_used<5e1", "-exit_code:0")
	}
	for range r.IntN(3) {
		values.Add("f", pick(filters...))
	}
	if r.IntN(2) == 0 {
		values.Set("q", pick(queries...))
	}
	return values
}

var names = []string{"summary", "jobs", "utilization", "shares", "users", "accounts", "waits", "reasons", "groups", "runs", "sizes", "requested", "limits", "waste", "exits", "week", "partitions", "names", "table"}

// TestEqual checks with random requests that the pages show the same numbers for a store and for
// three clusters with the same jobs. One cluster has documents from this program, one has
// documents from the plugin itself, and one is this program's own API.
func TestEqual(t *testing.T) {
	s := newStore(t, 900, false)
	want := pages(t, s, nil)
	for _, c := range []struct {
		name   string
		change func(m *mapped)
		absent []string // panels that are impossible there
	}{
		{"own API", func(*mapped) {}, nil},
		{"through the program", func(m *mapped) { m.caps, m.names = enriched, enrichedNames() }, nil},
		{"of the plugin", func(m *mapped) { m.caps = stock }, []string{"waits", "requested", "reasons"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := pages(t, s, newCluster(t, s, c.change))
			equal(t, want, got, c.absent)
			if c.name == "own API" {
				anyCase(t, want, got)
			}
		})
	}
}

// equal compares the responses of two servers to random requests. The second server lacks the
// panels in absent. With RMREPLAY_LONG_TESTS, it sends more requests.
func equal(t *testing.T, want, got *httptest.Server, absent []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, uint64(len(absent))))
	rows, requests := 0, 5
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		requests = 60
	}
	for range requests {
		values := randomRequest(r, absent == nil)
		for _, name := range names {
			if name == "table" {
				values.Set("columns", "jobid,cluster,user_name,state,wait_s,gpus,limit_used,submit_time,mem_mib,exit_code,hour")
				sorts := []string{"jobid", "-elapsed_s", "user_name", "-end_time", "start_time", "-start_time"}
				if absent == nil {
					sorts = append(sorts, "exit_code", "-limit_used")
				}
				values.Set("sort", sorts[r.IntN(len(sorts))])
				values.Set("rows", "40")
				values.Set("page", fmt.Sprint(r.IntN(3)))
			}
			path := "panels/" + name + "?" + values.Encode()
			a, status := inTime(t, want, path)
			b, other := inTime(t, got, path)
			if status != http.StatusOK || other != http.StatusOK {
				t.Errorf("%s: %d %s, want %d %s", path, other, b.Error, status, a.Error)
				continue
			}
			if slices.Contains(absent, name) {
				if len(b.Rows) > 0 || !strings.Contains(strings.Join(b.Notes, " "), "Slurm itself") {
					t.Errorf("%s: %+v, want a note", path, b)
				}
				continue
			}
			if absent != nil {
				forget(&a, &b, name)
			}
			if name == "table" {
				sortTies(&a, &b)
			}
			if problem := different(a, b, name); problem != "" {
				t.Errorf("%s: %s", path, problem)
			}
			rows += len(a.Rows)
		}
	}
	if rows < 500 {
		t.Errorf("only %d rows were compared", rows)
	}
}

// TestMixedIndex uses an index with documents from the plugin and forwarded documents, some of
// which did not name their cluster. Each job must have the same cluster as in the store.
func TestMixedIndex(t *testing.T) {
	open := func() *store.Store {
		s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	add := func(s *store.Store, seq int64, text, cluster string) {
		entry := store.Entry{Seq: seq, Arrived: time.Unix(1, 0), Source: store.Received, Index: "slurm", Document: []byte(text), Job: document.Parse([]byte(text), cluster)}
		if _, err := s.Apply(t.Context(), []store.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	site, index := open(), open()
	add(index, 1, `{"jobid":1,"cluster":"vale","@end":"2024-03-01T10:00:00"}`, "")
	add(site, 1, `{"jobid":2,"@end":"2024-03-01T10:00:00"}`, "dale")
	add(site, 2, `{"jobid":3,"cluster":"vale","@end":"2024-03-01T10:00:00"}`, "dale")
	bulk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		items := []any{}
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var action struct{ Index json.RawMessage }
			if i%2 == 1 {
				add(index, int64(i+2), line, "another")
			} else if err := json.Unmarshal([]byte(line), &action); err == nil && action.Index != nil {
				var item map[string]any
				_ = json.Unmarshal(action.Index, &item) // the member is an object
				item["status"] = http.StatusCreated
				items = append(items, map[string]any{"index": item})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items}) // an error means that the client has disconnected
	}))
	defer bulk.Close()
	f, err := forward.New(site, forward.Options{URL: bulk.URL, Dir: t.TempDir(), Derived: true, Idle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	for f.Status().Sent < 2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if f.Status().Sent != 2 {
		t.Fatal(f.Status())
	}
	c := newCluster(t, index, func(m *mapped) {
		m.caps = func(fields map[string]any) {
			stock(fields)
			fields["cluster"], fields[forward.Member+".cluster"] = capability("keyword"), capability("keyword")
		}
	})
	answer, err := c.Ask(t.Context(), question.Question{By: []question.Key{question.Values{Column: "cluster", Most: 10}}, Measures: []question.Measure{{Kind: question.Count}}})
	if err != nil || fmt.Sprint(answer[0].Rows) != "[[vale 2] [dale 1]]" {
		t.Errorf("%+v, %v", answer, err)
	}
	answer, err = c.Ask(t.Context(), question.Question{Where: question.Compare{Column: "cluster", Op: "=", Value: "vale"}, Measures: []question.Measure{{Kind: question.Count}}})
	if err != nil || fmt.Sprint(answer[0].Rows) != "[[2]]" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// anyCase compares searches that ignore the case of letters outside of ASCII.
func anyCase(t *testing.T, want, got *httptest.Server) {
	t.Helper()
	for _, q := range []string{"ÜNAL", "Ün?L", "ü*", `user_name:"ünAl"`, "ö*", `Ü\*`} {
		path := "panels/summary?" + url.Values{"last": {"all"}, "q": {q}}.Encode()
		a, status := get(t, want, path)
		b, other := get(t, got, path)
		if status != http.StatusOK || other != http.StatusOK || fmt.Sprint(a.Rows[0][0]) != fmt.Sprint(b.Rows[0][0]) {
			t.Errorf("%s: %d %v %s, want %d %v", q, other, b.Rows, b.Error, status, a.Rows)
		}
	}
}

// forget removes from a what the plugin's documents lack: GPU hours, sums of waits, and which jobs
// exceeded their limits. The cluster must not show numbers for these.
func forget(a, b *panel, name string) {
	if name == "groups" { // removes the sums of waits and their parts
		a.Columns = a.Columns[:5]
		for i, row := range a.Rows {
			a.Rows[i] = row[:5]
			row[2] = nil
		}
		for _, p := range []*panel{a, b} {
			slices.SortFunc(p.Rows, func(x, y []any) int { return strings.Compare(x[0].(string), y[0].(string)) })
		}
	}
	said := slices.ContainsFunc(b.Notes, func(n string) bool {
		return strings.Contains(n, "the Elasticsearch cluster cannot leave these jobs out")
	})
	for k, c := range a.Columns {
		if !said || !strings.HasPrefix(c.Name, "unused") {
			continue
		}
		for i := range min(len(a.Rows), len(b.Rows)) {
			all, _ := a.Rows[i][k].(float64)
			if less, known := b.Rows[i][k].(float64); known && less <= all+1e-3 { // jobs beyond their limits reduce the sum
				a.Rows[i][k] = less
			}
		}
	}
	column := map[string]int{"summary": 10}[name]
	if column == 0 {
		return
	}
	for i := range a.Rows {
		a.Rows[i][column] = nil
	}
}

// sortTies sorts the rows of both tables by the job number, because requests do not decide the
// order of ties.
func sortTies(a, b *panel) {
	for _, p := range []*panel{a, b} {
		slices.SortStableFunc(p.Rows, func(x, y []any) int { return int(x[1].(float64) - y[1].(float64)) })
	}
}
