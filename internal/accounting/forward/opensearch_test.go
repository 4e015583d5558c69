package forward_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestOpenSearch forwards documents to a real cluster.
func TestOpenSearch(t *testing.T) {
	for _, release := range servertest.Releases(servertest.OpenSearch3) {
		t.Run(release, func(t *testing.T) {
			node := servertest.NewOpenSearch(t, release)
			t.Run("documents", func(t *testing.T) { testDocuments(t, node) })
			t.Run("states", func(t *testing.T) { testStates(t, node) })
			t.Run("types", func(t *testing.T) { testTypes(t, node) })
			t.Run("rollover", func(t *testing.T) { testRollover(t, node) })
			t.Run("watermark", func(t *testing.T) { testWatermark(t, node) })
			t.Run("away", func(t *testing.T) { testAway(t, node) }) // the last test, because it restarts the node
		})
	}
}

// add adds documents to a store, with arrival numbers from first.
func add(t *testing.T, s *store.Store, first int64, index string, documents ...string) {
	t.Helper()
	var entries []store.Entry
	for i, text := range documents {
		entries = append(entries, store.Entry{
			Seq: first + int64(i), Arrived: storetest.Begin, Source: store.Received, Index: index, Document: []byte(text), Job: document.Parse([]byte(text), "c"),
		})
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// same checks that indices have each document of a store once and unchanged, except those with the
// given ids.
func same(t *testing.T, node *servertest.OpenSearch, pattern string, s *store.Store, but ...string) {
	t.Helper()
	want := map[string]string{}
	v := s.View()
	defer v.Close()
	err := v.Each(t.Context(), store.Filter{}, func(d *store.Stored) error {
		e := d.Entry()
		want[store.ID(&e.Job)] = string(e.Document)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range but {
		delete(want, id)
	}
	node.Each(pattern, func(d servertest.Document) {
		if want[d.ID] != string(d.Source) {
			t.Errorf("%s/%s: %s, want %q", d.Index, d.ID, d.Source, want[d.ID])
		}
		delete(want, d.ID) // each document may occur only once
	})
	if len(want) > 0 {
		t.Errorf("%s lacks %d documents", pattern, len(want))
	}
}

// testDocuments sends documents that the cluster refuses, mixed with others, which must arrive
// unchanged.
func testDocuments(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 6000 // more than fit into a request
	s := newStore(t, jobs)
	wide := `{"jobid":6107,"@submit":"2024-03-01T00:00:00"`
	for i := range 1100 {
		wide += fmt.Sprintf(`,"key%d":1`, i)
	}
	refused := []struct{ text, reason string }{ // in the order of the list; the first one is never sent
		{`no JSON`, "not a JSON object"},
		{`{"jobid":6101,"@submit":"2024-03-01T00:00:00","total_cpus":{"a":1}}`, "failed to parse field [total_cpus] of type [long]"},
		{`{"jobid":6102,"@submit":"2024-03-01T00:00:00","@start":"Unknown"}`, "failed to parse field [@start] of type [date]"},
		{`{"jobid":6103,"@submit":"2024-03-01T00:00:00","":1}`, "field name cannot be an empty string"},
		{`{"jobid":6104,"@submit":"2024-03-01T00:00:00","_id":"x"}`, "failed to parse field [_id]"},
		{`{"jobid":6105,"@submit":"2024-03-01T00:00:00","state":"A","state":"B"}`, "Duplicate "},
		{`{"jobid":6106,"@submit":"2024-03-01T00:00:00","deep":` + strings.Repeat(`{"a":`, 30) + `1` + strings.Repeat("}", 30) + `}`, "depth of the field"},
		{wide + "}", "Limit of total fields [1000] has been exceeded"},
		{`{"jobid":1e400,"@submit":"2024-03-01T00:00:00"}`, "failed to parse field [jobid]"},
	}
	seq, ids := int64(jobs), []string{}
	for _, r := range refused { // between documents that are accepted
		add(t, s, seq+1, "slurm", r.text, fmt.Sprintf(`{"jobid":%d,"@submit":"2024-03-02T00:00:00","username":"\ud800 <é>\u0000"}`, seq))
		job := document.Parse([]byte(r.text), "c")
		seq, ids = seq+2, append(ids, store.ID(&job))
	}
	dir := t.TempDir()
	status := until(t, open(t, s, node.URL, dir), seq)
	if status.Refused != int64(len(refused)) || status.Sent != seq-status.Refused || status.Retries != 0 {
		t.Errorf("%+v", status)
	}
	text, err := os.ReadFile(filepath.Join(dir, "forward-refused.jsonl"))
	list := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(list) != len(refused) {
		t.Fatalf("%s, %v", text, err)
	}
	for i, r := range refused {
		if !strings.Contains(list[i], ids[i]) || !strings.Contains(list[i], r.reason) {
			t.Errorf("%s, want %s", list[i], r.reason)
		}
	}
	same(t, node, "slurm", s, ids...)
}

// testStates forwards to indices and clusters in states in which they accept no documents.
func testStates(t *testing.T, node *servertest.OpenSearch) {
	for _, c := range []struct{ name, path, state, mended string }{
		{"no room on the disk", "/NAME/_settings", `{"index.blocks.read_only_allow_delete":true}`, `{"index.blocks.read_only_allow_delete":null}`},
		{"read only", "/NAME/_settings", `{"index.blocks.write":true}`, `{"index.blocks.write":false}`},
		{"no pipeline", "/NAME/_settings", `{"index.default_pipeline":"own"}`, `{"index.default_pipeline":"_none"}`},
		{"too many shards", "/_cluster/settings", `{"transient":{"cluster.max_shards_per_node":1}}`, `{"transient":{"cluster.max_shards_per_node":null}}`},
		{"no new index", "/_cluster/settings", `{"transient":{"action.auto_create_index":"false"}}`, `{"transient":{"action.auto_create_index":null}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := strings.ReplaceAll(c.name, " ", "-")
			path := strings.Replace(c.path, "NAME", name, 1)
			if path != c.path {
				node.Ask(http.MethodPut, "/"+name, "", nil)
			}
			node.Ask(http.MethodPut, path, c.state, nil)
			mended := func() { node.Ask(http.MethodPut, path, c.mended, nil) }
			again(t, node, name, mended)
		})
	}
	t.Run("closed", func(t *testing.T) {
		node.Ask(http.MethodPut, "/closed", "", nil)
		node.Ask(http.MethodPost, "/closed/_close", "", nil)
		again(t, node, "closed", func() { node.Ask(http.MethodPost, "/closed/_open", "", nil) })
	})
	t.Run("alias without an index to write to", func(t *testing.T) {
		node.Ask(http.MethodPut, "/first", `{"aliases":{"nowhere":{}}}`, nil)
		node.Ask(http.MethodPut, "/second", `{"aliases":{"nowhere":{}}}`, nil)
		again(t, node, "nowhere", func() {
			node.Ask(http.MethodPost, "/_aliases", `{"actions":[{"add":{"index":"second","alias":"nowhere","is_write_index":true}}]}`, nil)
		})
	})
	t.Run("data stream", func(t *testing.T) {
		node.Ask(http.MethodPut, "/_index_template/stream", `{"index_patterns":["stream"],"data_stream":{}}`, nil)
		again(t, node, "stream", func() {
			node.Ask(http.MethodPut, "/_cluster/settings", `{"transient":{"action.auto_create_index":"false"}}`, nil)
			node.Ask(http.MethodDelete, "/_data_stream/stream", "", nil)
			node.Ask(http.MethodDelete, "/_index_template/stream", "", nil)
			node.Ask(http.MethodPut, "/_cluster/settings", `{"transient":{"action.auto_create_index":null}}`, nil)
		})
	})
}

// again forwards to an index that accepts documents only after mended was called.
func again(t *testing.T, node *servertest.OpenSearch, index string, mended func()) {
	t.Helper()
	const jobs = 20
	s := newStore(t, jobs)
	f := open(t, s, node.URL+"/"+index, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx, f)
	defer func() { cancel(); <-done }()
	await(t, f, "three attempts", func(s forward.Status) bool { return s.Retries >= 3 || s.Position > 0 })
	mended()
	await(t, f, "all documents", func(s forward.Status) bool { return s.Position == jobs && s.Error == "" })
	if status := f.Status(); status.Refused != 0 {
		t.Errorf("%+v", status)
	}
	same(t, node, index, s)
}

// types returns the types of an index's fields.
func types(node *servertest.OpenSearch, index string) map[string]string {
	var answer map[string]struct {
		Mappings struct {
			Properties map[string]struct{ Type string }
		}
	}
	node.Ask(http.MethodGet, "/"+index+"/_mapping", "", &answer)
	list := map[string]string{}
	for name, property := range answer[index].Mappings.Properties {
		list[name] = property.Type
	}
	return list
}

// testTypes forwards to an index that the cluster maps according to the first document, and to two
// indices with our types: one that a forwarder creates, and one with the template for Slurm's
// plugin.
func testTypes(t *testing.T, node *servertest.OpenSearch) {
	// Slurm's document of a job that never ran has no start.
	never := `{"jobid":1,"@submit":"2024-03-01T00:00:00","@start":"Unknown","exit_code":"0:0","script":"` + strings.Repeat("x", 40000) + `"}`
	s := newStore(t, 0)
	add(t, s, 1, "x", never, `{"jobid":2,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:00:00","exit_code":"0:0"}`)
	until(t, open(t, s, node.URL+"/mapped-by-the-first", t.TempDir()), 2)
	if got := types(node, "mapped-by-the-first"); got["@start"] != "text" || got["exit_code"] != "text" || got["@submit"] != "date" {
		t.Errorf("without types of ours: %v", got)
	}
	f, err := forward.New(s, forward.Options{URL: node.URL + "/derived", Dir: t.TempDir(), Derived: true, Idle: time.Millisecond, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if status := until(t, f, 2); status.Sent != 2 {
		t.Errorf("%+v", status)
	}
	template, err := os.ReadFile(templateFile)
	if err != nil {
		t.Fatal(err)
	}
	node.Ask(http.MethodPut, "/_index_template/slurm", strings.Replace(string(template), `"slurm*"`, `"slurm*","like-slurm"`, 1), nil)
	if status := until(t, open(t, s, node.URL+"/like-slurm", t.TempDir()), 2); status.Sent != 2 {
		t.Errorf("%+v", status)
	}
	same(t, node, "like-slurm", s)
	derived, templated := types(node, "derived"), types(node, "like-slurm")
	if delete(derived, forward.Member); len(templated) < 40 || templated["@start"] != "date" || templated["exit_code"] != "keyword" || !maps.Equal(derived, templated) {
		t.Errorf("%v, want %v", templated, derived)
	}
}

// testRollover forwards to an alias whose write index changes.
func testRollover(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 50
	s := newStore(t, jobs)
	node.Ask(http.MethodPut, "/months-000001", `{"aliases":{"months":{"is_write_index":true}}}`, nil)
	f := open(t, s, node.URL+"/months", t.TempDir())
	until(t, f, jobs)
	node.Ask(http.MethodPost, "/months/_rollover", "", nil)
	if err := storetest.Fill(t.Context(), s, jobs+1, 2*jobs); err != nil {
		t.Fatal(err)
	}
	until(t, f, 2*jobs)
	same(t, node, "months", s)
	if old, next := node.Count("months-000001"), node.Count("months-000002"); old != jobs || next != jobs {
		t.Errorf("%d and %d documents, want %d each", old, next, jobs)
	}
}

// testWatermark forwards to a node whose disk exceeds its watermarks. The node blocks the index,
// and accepts the documents when there is room again.
func testWatermark(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 20
	const settings = `{"transient":{"cluster.routing.allocation.disk.threshold_enabled":%[1]s,"cluster.info.update.interval":%[2]s,
		"cluster.routing.allocation.disk.watermark.low":%[3]s,"cluster.routing.allocation.disk.watermark.high":%[3]s,
		"cluster.routing.allocation.disk.watermark.flood_stage":%[3]s}}`
	set := func(values ...any) {
		t.Helper()
		node.Ask(http.MethodPut, "/_cluster/settings", fmt.Sprintf(settings, values...), nil)
	}
	node.Ask(http.MethodPut, "/watermark", "", nil)
	set("true", `"10s"`, `"1000tb"`)
	var index map[string]struct {
		Settings struct {
			Index struct{ Blocks map[string]string }
		}
	}
	for begin := time.Now(); index["watermark"].Settings.Index.Blocks["read_only_allow_delete"] != "true"; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("the node does not block the index: %+v", index)
		}
		node.Ask(http.MethodGet, "/watermark/_settings", "", &index)
	}
	s := newStore(t, jobs)
	f := open(t, s, node.URL+"/watermark", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx, f)
	defer func() { cancel(); <-done }()
	await(t, f, "three attempts", func(s forward.Status) bool { return s.Retries >= 3 })
	if status := f.Status(); status.Position != 0 || !strings.Contains(status.Error, "disk usage exceeded flood-stage watermark") {
		t.Errorf("%+v", status)
	}
	set("true", `"10s"`, `"1b"`)
	await(t, f, "all documents", func(s forward.Status) bool { return s.Position == jobs && s.Error == "" })
	set("null", "null", "null")
	same(t, node, "watermark", s)
}

// testAway forwards while the node is down, and then to a node with a low limit for the size of
// requests.
func testAway(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 3000
	var reported []string
	s := newStore(t, jobs)
	f, err := forward.New(s, forward.Options{
		URL: node.URL + "/away", Dir: t.TempDir(), Idle: 10 * time.Millisecond, Longest: 100 * time.Millisecond,
		Report: func(err error) { reported = append(reported, err.Error()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	node.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx, f)
	defer func() { cancel(); <-done }()
	await(t, f, "three attempts", func(s forward.Status) bool { return s.Retries >= 3 })
	node.Settings = []string{"indexing_pressure.memory.limit=100kb"}
	node.Start()
	await(t, f, "all documents", func(s forward.Status) bool { return s.Position == jobs && s.Error == "" })
	cancel()
	<-done
	same(t, node, "away", s)
	if len(reported) == 0 || len(reported) > 4 || !strings.Contains(reported[0], "connection refused") {
		t.Errorf("%q", reported)
	}
}
