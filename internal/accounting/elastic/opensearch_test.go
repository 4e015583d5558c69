package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"rmreplay/internal/accounting/elastic"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// send forwards a store to an index of a real cluster.
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

// TestOpenSearch checks that the pages of a real cluster have the same numbers as those of a store with the
// same jobs: of an index with documents of this program, and of one with Slurm's documents whose types the
// cluster has found out by itself.
func TestOpenSearch(t *testing.T) {
	node := servertest.NewOpenSearch(t)
	t.Run("lists", func(t *testing.T) { testLists(t, node) })
	for _, c := range []struct {
		name    string
		derived bool
		shards  string
		absent  []string
	}{
		{"program", true, "", nil},
		{"plugin", false, `{"settings":{"number_of_shards":3}}`, []string{"waits", "requested", "reasons"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, 900, c.derived)
			if c.shards != "" {
				node.Ask(http.MethodPut, "/"+c.name, c.shards, nil)
			}
			send(t, s, node, c.name, c.derived)
			cluster, err := elastic.New(elastic.Options{URL: node.URL + "/" + c.name})
			if err != nil {
				t.Fatal(err)
			}
			want, got := pages(t, s, nil), pages(t, s, cluster)
			equal(t, want, got, c.absent)
			anyCase(t, want, got)
		})
	}
}

// testLists lists more jobs than a request gets, from three shards.
func testLists(t *testing.T, node *servertest.OpenSearch) {
	const jobs = 11_000
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
	for _, sort := range []string{"jobid", "elapsed_s", "user_name"} { // many jobs have the same value of the last ones
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
