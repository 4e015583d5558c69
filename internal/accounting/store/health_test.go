package store_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// healthKey identifies a sample: its cluster, and its minute since the beginning.
type healthKey struct {
	cluster string
	minute  int
}

func (k healthKey) at() time.Time { return storetest.Begin.Add(time.Duration(k.minute) * time.Minute) }

// sample returns figures whose values differ from the values of all other samples.
func sample(k healthKey, version int64) store.Health {
	h := store.Health{Cluster: k.cluster, At: k.at(), Interval: time.Minute, Threads: int64(k.minute),
		Pending: version, Table: -version}
	h.Main, h.Backfill = store.Cycles{Count: 1, Longest: time.Duration(k.minute) * time.Millisecond},
		store.Cycles{Tried: version, Queue: int64(k.minute)}
	for i := range k.minute % 3 {
		h.Counts = append(h.Counts, store.HealthCount{Kind: store.Requests, Name: fmt.Sprint("REQUEST_", i),
			Count: version, Micros: int64(k.minute)})
	}
	return h
}

// TestHealth adds and replaces figures at random, and lets old figures expire. The figures are in several files. An
// engine always sees the same figures as a slow and obvious model, also after the process is killed and the store
// opened again.
func TestHealth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	defer func() { _ = s.Close() }()
	for name, kind := range map[string]string{"vale": "site", "what-if": "run"} { // moor is not described
		if err := s.SetCluster(store.Cluster{Name: name, Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	clusters := []string{"vale", "moor", "what-if"}
	model := make(map[healthKey]int64) // version of each sample
	most := 0                          // highest number of files
	for round := range 40 {
		switch round % 10 {
		case 9:
			before := healthKey{"", rng.IntN(1500)}
			want := int64(0)
			for k := range model {
				if k.minute < before.minute && k.cluster != "what-if" {
					want++
					delete(model, k)
				}
			}
			if removed, err := s.ExpireHealth(before.at()); err != nil || removed != want {
				t.Fatalf("%d removed, want %d: %v", removed, want, err)
			}
		case 4:
			killed := copyOf(t, dir)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, dir = open(t, killed, options(1000)), killed
		case 7:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, options(1000))
		default:
			var list []store.Health
			for _, cluster := range clusters[:1+rng.IntN(3)] {
				first, step, n := rng.IntN(8000), 1+rng.IntN(3), 1+rng.IntN(500)
				for k := range model {
					if k.cluster == cluster && k.minute >= first && k.minute <= first+step*(n-1) {
						delete(model, k)
					}
				}
				for i := range n {
					k := healthKey{cluster, first + i*step}
					model[k] = int64(round)
					list = append(list, sample(k, int64(round)))
				}
			}
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			if err := s.AddHealth(list...); err != nil {
				t.Fatal(err)
			}
		}
		files, err := os.ReadDir(filepath.Join(dir, "health"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(files))
		if round%4 == 3 {
			checkHealth(t, s, model)
		}
	}
	checkHealth(t, s, model)
	if most < 3 || len(model) < 4000 {
		t.Errorf("%d samples, and never more than %d files", len(model), most)
	}
}

// checkHealth compares what an engine sees with a model.
func checkHealth(t *testing.T, s *store.Store, model map[healthKey]int64) {
	t.Helper()
	keys := make([]healthKey, 0, len(model))
	counts := 0
	for k := range model {
		keys = append(keys, k)
		counts += k.minute % 3
	}
	slices.SortFunc(keys, func(a, b healthKey) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.minute, b.minute))
	})
	err := s.Read(t.Context(), func(v *store.Snapshot) error {
		rows, err := v.Query(`SELECT h.cluster, h.until, interval_us, threads, pending, bf_table, main_longest_us, bf_tried,
			bf_queue,
			(SELECT count(*) FROM health_counts c WHERE c.cluster = h.cluster AND c.until = h.until AND c.kind = 'rpc'
				AND c.count = h.pending AND c.us = h.threads)
			FROM health h ORDER BY h.cluster, h.until`)
		if err != nil {
			return err
		}
		defer rows.Close()
		at := 0
		for ; rows.Next(); at++ {
			var got healthRow
			var until time.Time
			if err := rows.Scan(&got.cluster, &until, &got.interval, &got.threads, &got.pending, &got.table, &got.longest,
				&got.tried, &got.queue, &got.counts); err != nil {
				return err
			}
			if at >= len(keys) {
				return fmt.Errorf("more than %d samples", len(keys))
			}
			k, version := keys[at], model[keys[at]]
			minute := int64(k.minute)
			want := healthRow{k.cluster, 60_000_000, minute, version, -version, minute * 1000, version, minute, minute % 3}
			if got != want || !until.Equal(k.at()) {
				return fmt.Errorf("%+v at %v, want %+v at %v", got, until, want, k.at())
			}
		}
		var all int
		if at != len(keys) || rows.Err() != nil {
			return fmt.Errorf("%d samples, want %d: %w", at, len(keys), rows.Err())
		}
		if err := v.Scan("SELECT count(*) FROM health_counts", nil, &all); err != nil || all != counts {
			return fmt.Errorf("%d counts, want %d: %w", all, counts, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type healthRow struct {
	cluster                                                          string
	interval, threads, pending, table, longest, tried, queue, counts int64
}
