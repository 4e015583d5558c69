package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// realizations returns a set of recorded runs whose jobs wait at random. Each run lacks a job that other runs
// have, rejects a job, and has its own order of jobs.
func realizations(t *testing.T, name string, runs int) *run.Set {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(runs), 7))
	s := &run.Set{Dir: name}
	for k := range runs {
		var jobs []*hpc.Job
		for i := range 12 {
			submit := monday.Add(time.Duration(i%3+random.IntN(2)) * time.Minute)
			j := &hpc.Job{ID: fmt.Sprint("j", i), Submit: submit, Request: hpc.Request{User: fmt.Sprint("u", i%3), Tasks: 1 + i%4}}
			start := submit.Add(time.Duration(random.IntN(600)) * time.Second)
			j.Recorded = &hpc.Recorded{Start: start, End: start.Add(time.Minute), State: hpc.Completed, Nodes: fmt.Sprintf("n%d", 1+i%4)}
			if i == k%12 {
				continue
			}
			if i == (k+5)%12 {
				j.Recorded = &hpc.Recorded{State: hpc.Rejected}
			}
			jobs = append(jobs, j)
		}
		random.Shuffle(len(jobs), func(a, b int) { jobs[a].Submit, jobs[b].Submit = jobs[b].Submit, jobs[a].Submit })
		r, err := run.FromWorkload(&workload.Workload{Epoch: monday, MachineNodes: 4, MachineProcessors: 16, Jobs: workload.JobsOf(jobs...)})
		if err != nil {
			t.Fatal(err)
		}
		r.Dir = fmt.Sprintf("%s/realization-%03d", name, k+1)
		s.Runs = append(s.Runs, r)
	}
	return s
}

// TestUnread compares sets whose runs are read one by one with the same sets in memory.
func TestUnread(t *testing.T) {
	opts := Options{By: []metrics.By{metrics.ByUser, metrics.BySize}, EveryJob: true, Fairness: true}
	for _, sizes := range [][]int{{1, 6}, {6, 1}, {4, 5, 3}} {
		var loaded, lazy []Set
		for i, n := range sizes {
			set := realizations(t, fmt.Sprint("s", i), n)
			whole, err := Load(set)
			if err != nil {
				t.Fatal(err)
			}
			later, err := unread(set)
			if err != nil {
				t.Fatal(err)
			}
			loaded, lazy = append(loaded, whole), append(lazy, later)
		}
		a, err := Compare(loaded, opts)
		if err != nil {
			t.Fatal(err)
		}
		b, err := analyse(t.Context(), lazy, opts)
		if err != nil {
			t.Fatal(err)
		}
		if a.Pairs[0].Jobs.Matched == 0 || a.Distances == nil {
			t.Fatalf("sets of %v have nothing in common", sizes)
		}
		if x, y := text(t, a), text(t, b); x != y {
			t.Errorf("sets of %v:\n%s", sizes, cmp.Diff(x, y))
		}
		tables, err := tabulate(t.Context(), lazy, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, runs := range tables {
			for k := range runs[1:] {
				if r := &runs[k+1]; r.Rows != nil || r.byKey != nil || r.Jobs+r.Rejected != 11 {
					t.Errorf("%s: %d rows, of which %d are kept", r.Name, r.Jobs+r.Rejected, len(r.Rows))
				}
			}
		}
	}
}

func TestUnreadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set, err := unread(realizations(t, "s", 3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := analyse(ctx, []Set{set, set}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func text(t *testing.T, c *Comparison) string {
	t.Helper()
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
