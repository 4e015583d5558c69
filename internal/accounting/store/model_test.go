package store_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/accounting/engine/enginetest"
	"rmreplay/internal/accounting/rollup"
	"rmreplay/internal/accounting/store"
)

func options(rows int) store.Options {
	return store.WithPartRows(store.Options{Engine: enginetest.Program(), Readers: 2}, rows)
}

// model is a slow and obvious implementation of a store.
type model struct {
	rows   map[string]*store.Entry // by id
	counts store.Outcome
}

func (m *model) apply(e *store.Entry) {
	id := store.ID(&e.Job)
	old := m.rows[id]
	switch {
	case old == nil:
		m.counts.Added++
	case old.Source.Sent() && !e.Source.Sent():
		m.counts.Kept++
		return
	case old.Job.Finished() && !e.Job.Finished(), bytes.Equal(old.Document, e.Document):
		m.counts.Duplicate++
		return
	default:
		m.counts.Replaced++
	}
	m.rows[id] = e
	if e.Source.Sent() || e.Job.Start.IsZero() || e.Job.Submit.IsZero() {
		return
	}
	waited := fmt.Sprintf("%s:%d:%d", e.Job.Cluster, e.Job.JobID, -e.Job.Submit.Unix())
	if w := m.rows[waited]; w != nil && w.Job.State == "PENDING" && w.Job.Start.IsZero() && w.Job.End.IsZero() {
		delete(m.rows, waited)
		m.counts.Replaced++
		m.counts.Added--
	}
}

func (m *model) sorted() []*store.Entry {
	return slices.SortedFunc(maps.Values(m.rows), func(a, b *store.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
}

// randomEntry returns a document of one of few jobs, so that many documents describe the same run.
func randomEntry(rng *rand.Rand, seq int64, jobs int) store.Entry {
	id := rng.IntN(jobs)
	submit := time.Date(2024, 3, 1+id%20, id%24, 0, 0, 0, time.UTC)
	source := []store.Source{store.Received, store.Received, store.Received, store.Imported, store.Reconciled, store.FromRun}[rng.IntN(6)]
	text := fmt.Sprintf(`{"jobid":%d,"cluster":"%s","username":"user%d","@submit":"%s"`, id, []string{"vale", "moor"}[id%2], id%7, submit.Format("2006-01-02T15:04:05"))
	switch kind := rng.IntN(8); {
	case kind == 0 && !source.Sent():
		text += `,"state":"PENDING"`
	case kind == 1: // the start of a run
		text += fmt.Sprintf(`,"@start":"%s","nodes":"n1"`, submit.Add(time.Hour).Format("2006-01-02T15:04:05"))
	default:
		start := submit.Add(time.Duration(1+rng.IntN(2)) * time.Hour)
		text += fmt.Sprintf(`,"@start":"%s","@end":"%s","elapsed":600,"nodes":"n1","total_cpus":4,"total_nodes":1,"state":"%s","time_limit":%d`,
			start.Format("2006-01-02T15:04:05"), start.Add(10*time.Minute).Format("2006-01-02T15:04:05"), []string{"COMPLETED", "FAILED"}[rng.IntN(2)], 600+rng.IntN(2))
	}
	text += "}"
	if rng.IntN(200) == 0 {
		text = "no json " + fmt.Sprint(rng.IntN(3))
	}
	return store.ParseArrival(seq, time.Date(2024, 4, 1, 0, 0, 0, int(seq)*1000, time.UTC), source, "index", "vale", []byte(text))
}

// TestModel does random operations on a store with small parts and on a slow and obvious model. It kills the store at
// random and then applies, like a journal, all entries that were not durable. Both must always have the same jobs.
func TestModel(t *testing.T) {
	seeds := uint64(3)
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testModel(t, seed) })
	}
}

func testModel(t *testing.T, seed uint64) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(seed, 1))
	opts := options(20 + rng.IntN(400))
	jobs := 30 + rng.IntN(2000)
	dir := t.TempDir()
	s := open(t, dir, opts)
	defer func() { _ = s.Close() }()
	m := &model{rows: map[string]*store.Entry{}}
	var journal []store.Entry // all entries, in order of arrival
	var expired time.Time
	for range 60 {
		what := rng.IntN(20)
		if lost := s.Lost(); len(lost) > 0 {
			t.Fatalf("rows are gone that no part has: %v", lost)
		}
		switch {
		case what < 14:
			var entries []store.Entry
			for range 1 + rng.IntN(200) {
				e := randomEntry(rng, int64(len(journal))+1, jobs)
				journal, entries = append(journal, e), append(entries, e)
				m.apply(&journal[len(journal)-1])
			}
			if rng.IntN(4) == 0 { // as if the caller did not know which entries were applied
				entries = append(slices.Clone(journal[max(0, len(journal)-len(entries)-10):len(journal)-len(entries)]), entries...)
			}
			if _, err := s.Apply(ctx, entries); err != nil {
				t.Fatal(err)
			}
		case what < 16:
			if _, err := s.CompactOnce(); err != nil {
				t.Fatal(err)
			}
		case what == 16:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = reopen(t, dir, opts, journal)
		case what == 17: // the process is killed
			other := copyOf(t, dir)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, dir = reopen(t, other, opts, journal), other
		case what == 18 && rng.IntN(3) == 0:
			expired = time.Date(2024, 3, 1+rng.IntN(10), 12, 0, 0, 0, time.UTC)
			want := 0
			for id, e := range m.rows {
				if !e.Job.End.IsZero() && e.Job.End.Before(expired) && e.Source != store.FromRun {
					want++
					delete(m.rows, id)
				}
			}
			if n, err := s.Expire(ctx, expired); err != nil || n != int64(want) {
				t.Fatalf("%d expired, want %d: %v", n, want, err)
			}
			// A journal may drop entries that are durable.
		default:
			checkModel(t, s, m, rng)
		}
	}
	checkModel(t, s, m, rng)
	v := s.View()
	defer v.Close()
	found, err := v.Verify(ctx, func(int, int) {})
	if err != nil || len(found.Problems) > 0 || found.Jobs != int64(len(m.rows)) {
		t.Error(found, err)
	}
	parts, fresh, gone := s.Shape()
	t.Logf("%d documents, %d jobs, %d parts, %d batches, %d rows gone", len(journal), len(m.rows), parts, fresh, gone)
}

// copyOf returns a copy of a directory in use, with the files that a killed process would leave.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	list := func() []byte {
		text, err := os.ReadFile(filepath.Join(dir, "store.json"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for range 100 { // files appear and disappear meanwhile
		other, before := t.TempDir(), list()
		if err := os.CopyFS(other, os.DirFS(dir)); err == nil && bytes.Equal(before, list()) {
			return other
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the directory never rests")
	return ""
}

func open(t *testing.T, dir string, opts store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reopen opens a store and applies the entries that a journal would still have.
func reopen(t *testing.T, dir string, opts store.Options, journal []store.Entry) *store.Store {
	t.Helper()
	s := open(t, dir, opts)
	if _, err := s.Apply(t.Context(), journal[s.Durable():]); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkModel compares everything that the store returns with the model.
func checkModel(t *testing.T, s *store.Store, m *model, rng *rand.Rand) {
	t.Helper()
	v := s.View()
	defer v.Close()
	want := m.sorted()
	at := 0
	err := v.Each(t.Context(), store.Filter{}, func(d *store.Stored) error {
		if at >= len(want) || d.Seq != want[at].Seq || !bytes.Equal(d.Document, want[at].Document) || d.Source != want[at].Source {
			return fmt.Errorf("document %d is %d %s %q; the model has %d %s %q", at, d.Seq, d.Source, d.Document, want[min(at, len(want)-1)].Seq, want[min(at, len(want)-1)].Source, want[min(at, len(want)-1)].Document)
		}
		at++
		return nil
	})
	if err != nil || at != len(want) {
		t.Fatalf("%d documents, want %d: %v", at, len(want), err)
	}
	clusters := map[string]int64{}
	for _, e := range want {
		clusters[e.Job.Cluster]++
	}
	if sum := s.Summary(); sum.Jobs != int64(len(want)) || !maps.Equal(sum.Clusters, clusters) {
		t.Fatalf("%+v, want %d jobs of %v", sum, len(want), clusters)
	}
	for range 5 {
		if len(want) == 0 {
			break
		}
		e := want[rng.IntN(len(want))]
		if text, ok, err := v.Document(e.Seq); err != nil || !ok || !bytes.Equal(text, e.Document) {
			t.Fatalf("document %d: %q %v %v", e.Seq, text, ok, err)
		}
	}
	checkEngine(t, v, want)
}

// checkEngine compares the rows and the precomputed counts that an engine sees with the model.
func checkEngine(t *testing.T, v *store.View, want []*store.Entry) {
	t.Helper()
	err := v.Ask(t.Context(), func(q *store.Snapshot) error {
		rows, err := q.Query("SELECT seq, id, state, end_time, document FROM jobs ORDER BY seq")
		if err != nil {
			return err
		}
		defer rows.Close()
		at := 0
		for ; rows.Next(); at++ {
			var seq int64
			var id string
			var state, end any
			var text []byte
			if err := rows.Scan(&seq, &id, &state, &end, &text); err != nil {
				return err
			}
			if at >= len(want) || seq != want[at].Seq || id != store.ID(&want[at].Job) || !bytes.Equal(text, want[at].Document) {
				return fmt.Errorf("row %d is %s, arrival %d", at, id, seq)
			}
		}
		if at != len(want) || rows.Err() != nil {
			return fmt.Errorf("%d rows, want %d: %w", at, len(want), rows.Err())
		}
		for name, r := range rollup.Rollups {
			var different int
			const day = "(epoch_us(end_time) // 86400000000)::INTEGER AS day"
			counted := r.Counted("tight", "true", day, "cluster")
			if err := q.Scan("SELECT count(*) FROM (SELECT sum(jobs) AS n FROM daily_"+name+") a, (SELECT sum(jobs) AS n FROM ("+counted+")) b WHERE a.n IS DISTINCT FROM b.n", nil, &different); err != nil {
				if slices.Contains(r.Measures, "jobs") {
					return fmt.Errorf("%s: %w", name, err)
				}
				continue
			}
			if different != 0 {
				return fmt.Errorf("rollup %s: the cells have another number of jobs", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
