package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/elastic"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// send forwards a store's documents to an index of a real cluster.
func send(t *testing.T, s *store.Store, node *servertest.OpenSearch, index string, derived bool) {
	t.Helper()
	f, err := forward.New(s, forward.Options{
		URL: node.URL + "/" + index, Dir: t.TempDir(), Derived: derived, Idle: time.Millisecond, Report: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	for begin := time.Now(); f.Status().Position < s.Applied() && time.Since(begin) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if status := f.Status(); status.Position < s.Applied() || status.Refused > 0 {
		t.Fatalf("%+v, want position %d", status, s.Applied())
	}
	node.Ask(http.MethodPost, "/"+index+"/_refresh", "", nil)
}

// TestOpenSearch checks a real cluster of three nodes. The first tests use only one of them, because
// the others would repeat its work.
func TestOpenSearch(t *testing.T) {
	for _, release := range servertest.Releases(servertest.OpenSearch2) {
		t.Run(release, func(t *testing.T) {
			nodes := servertest.NewCluster(t, release, 3)
			node, others := nodes[0], `{"transient":{"cluster.routing.allocation.exclude._name":%s}}`
			node.Ask(http.MethodPut, "/_cluster/settings", fmt.Sprintf(others, `"node1,node2"`), nil)
			t.Run("lists", func(t *testing.T) { testLists(t, node) })
			// The pages show the same numbers for a store and for a cluster with the same jobs: in an
			// index with documents from this program, and in an index with Slurm's documents, whose
			// types the cluster has guessed.
			t.Run("program", func(t *testing.T) { testPages(t, node, "program", true) })
			t.Run("plugin", func(t *testing.T) {
				node.Ask(http.MethodPut, "/plugin", `{"settings":{"number_of_shards":3}}`, nil)
				testPages(t, node, "plugin", false, "waits", "requested", "reasons")
			})
			node.Ask(http.MethodDelete, "/lists,program,plugin", "", nil) // nothing else is to be copied below
			node.Ask(http.MethodPut, "/_cluster/settings", fmt.Sprintf(others, "null"), nil)
			t.Run("lost", func(t *testing.T) { testNodeLost(t, nodes) })
		})
	}
}

// testPages compares the pages of an index with the pages of the store that was sent there. The
// index lacks some panels.
func testPages(t *testing.T, node *servertest.OpenSearch, index string, derived bool, absent ...string) {
	s := newStore(t, 900, derived)
	send(t, s, node, index, derived)
	cluster, err := elastic.New(elastic.Options{URL: node.URL + "/" + index})
	if err != nil {
		t.Fatal(err)
	}
	want, got := pages(t, s, nil), pages(t, s, cluster)
	equal(t, want, got, absent)
	anyCase(t, want, got)
	for _, page := range []string{"0", "20", "21"} { // the last pages have the jobs that never ran
		path := "panels/table?last=all&columns=jobid,start_time&sort=-start_time&rows=40&page=" + page
		a, _ := inTime(t, want, path)
		b, _ := inTime(t, got, path)
		if problem := different(a, b, "table"); problem != "" || len(a.Rows) != 40 {
			t.Errorf("%s: %d rows: %s", path, len(a.Rows), problem)
		}
	}
}

// testNodeLost sends jobs to an index of three shards with one replica each, in a cluster of three
// nodes, and kills a node meanwhile. The pages must show an error or at most the jobs sent so far.
// In the end they must show the numbers of the store, first with two nodes, and then with three.
func testNodeLost(t *testing.T, nodes []*servertest.OpenSearch) {
	const jobs, part = 1200, 100
	node, lost := nodes[0], nodes[2]
	node.Ask(http.MethodPut, "/_index_template/copies", `{"index_patterns":["copies"],"template":{"settings":{"number_of_shards":3,"number_of_replicas":1}}}`, nil)
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := forward.New(s, forward.Options{URL: node.URL + "/copies", Dir: t.TempDir(), Derived: true, Idle: time.Millisecond, Longest: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	defer func() { cancel(); <-done }()
	cluster, err := elastic.New(elastic.Options{URL: node.URL + "/copies"})
	if err != nil {
		t.Fatal(err)
	}
	got := pages(t, s, cluster)
	shown, refused := int64(0), 0
	for first := int64(1); first <= jobs; first += part {
		if first == jobs/2+1 {
			lost.Kill()
		}
		if err := storetest.Fill(t.Context(), s, first, first+part-1); err != nil {
			t.Fatal(err)
		}
		p, status := get(t, got, "panels/summary?last=all")
		switch {
		case status != http.StatusOK:
			refused++
		case len(p.Rows) > 0:
			n, _ := p.Rows[0][0].(float64)
			// The number may be lower than before: a replica that replaces a lost shard was
			// refreshed at another time.
			if int64(n) >= first+part {
				t.Errorf("the pages show %v jobs, and %d were sent", n, first+part-1)
			}
			shown = max(shown, int64(n))
		}
		for begin := time.Now(); first < jobs/2 && f.Status().Position < first; time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%+v", f.Status())
			}
		}
	}
	arrived := func(health string) {
		t.Helper()
		for begin := time.Now(); f.Status().Position < jobs; time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > 5*time.Minute {
				t.Fatalf("%+v", f.Status())
			}
		}
		node.Ask(http.MethodGet, "/_cluster/health/copies?timeout=5m&wait_for_status="+health, "", nil)
		numbers := make(map[string]int64, jobs)
		for n := int64(1); n <= jobs; n++ {
			e := storetest.Entry(n)
			numbers[store.ID(&e.Job)] = n
		}
		node.Each("copies", func(d servertest.Document) {
			e := storetest.Entry(numbers[d.ID])
			if text, _, _ := strings.Cut(string(d.Source), `,"`+forward.Member+`":`); text+"}" != string(e.Document) {
				t.Errorf("%s: %s", d.ID, d.Source)
			}
			delete(numbers, d.ID) // each document may occur only once
		})
		if len(numbers) > 0 || f.Status().Refused > 0 {
			t.Errorf("%d documents are missing: %+v", len(numbers), f.Status())
		}
		want, got := pages(t, s, nil), pages(t, s, cluster) // new servers, because the others have cached the range of time
		for _, panel := range []string{"summary", "users", "groups", "waits", "utilization", "week"} {
			a, _ := get(t, want, "panels/"+panel+"?last=all")
			b, status := get(t, got, "panels/"+panel+"?last=all")
			if problem := different(a, b, panel); status != http.StatusOK || problem != "" {
				t.Errorf("%s: %d %s %s", panel, status, b.Error, problem)
			}
		}
	}
	if shown == 0 {
		t.Error("the pages did not show a job while they came")
	}
	arrived("yellow")
	lost.Start()
	arrived("green")
	t.Logf("%d attempts were repeated, %d of %d questions refused", f.Status().Retries, refused, jobs/part)
}

// testLists lists more jobs than fit into one request, from three shards.
func testLists(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 5_500
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := storetest.Fill(t.Context(), s, 1, jobs); err != nil {
		t.Fatal(err)
	}
	node.Ask(http.MethodPut, "/lists", `{"settings":{"number_of_shards":3}}`, nil)
	send(t, s, node, "lists", true)
	cluster, err := elastic.New(elastic.Options{URL: node.URL + "/lists"})
	if err != nil {
		t.Fatal(err)
	}
	for _, sort := range []string{"jobid", "elapsed_s", "user_name"} { // in the last two, many jobs have equal values
		list, err := cluster.Jobs(t.Context(), question.Page{Sort: sort, Most: 50_000, Columns: []string{"jobid"}})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, job := range list {
			seen[fmt.Sprint(job.Values[0])] = true
		}
		if len(list) != jobs || len(seen) != jobs {
			t.Errorf("by %s: %d jobs, %d different ones, want %d", sort, len(list), len(seen), jobs)
		}
	}
	if job, err := cluster.Job(t.Context(), "lists/nobody"); job != nil || err != nil {
		t.Errorf("%v, %v", job, err)
	}
}
