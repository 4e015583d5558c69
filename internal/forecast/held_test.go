package forecast

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

// waiting returns a queue of jobs of one node, all submitted half a year before the instant, behind a job
// that runs on the only node until an hour after the instant.
func waiting(jobs ...*hpc.Job) *Queue {
	now := hpc.Time(20000 * 24 * time.Hour)
	w := &workload.Workload{Epoch: now, Start: now, Source: "held"}
	runs := &hpc.Job{ID: "runs", Submit: now.Add(-180 * 24 * time.Hour), Recorded: &hpc.Recorded{Start: now.Add(-time.Hour), Nodes: "n1", Processors: 4, State: hpc.Running}}
	for i, job := range append([]*hpc.Job{runs}, jobs...) {
		job.MinNodes, job.MaxNodes, job.Tasks, job.TimeLimit = 1, 1, 4, 2*time.Hour
		if i > 0 {
			job.Submit = now.Add(-180*24*time.Hour + time.Duration(i)*time.Second)
			job.Recorded = &hpc.Recorded{Start: now, State: hpc.Pending}
		}
		w.Jobs.Append(job)
	}
	w.NodeEvents = []hpc.NodeEvent{{At: now, Nodes: "n2", State: "drain"}}
	w.Sort()
	return NewQueue(w, &predict.Cases{}, nil, nil)
}

// play simulates the scheduler from a queue on, with time limits as run times, and waits for some
// of the queue's jobs.
func play(t *testing.T, q *Queue, keys []Key) *realization {
	t.Helper()
	opts := Options{RunTimes: FromLimits, Arrivals: NoArrivals, Realizations: 1}
	opts.Engine.Simulator = &experiment.Simulator{Nodes: 2, Processors: 8}
	draw, _, err := q.drawer(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	w, err := draw(0)
	if err != nil {
		t.Fatal(err)
	}
	r := q.watch(w, keys, opts)
	r.horizon = hpc.Never
	if err := r.play(t.Context(), q.spec(w, opts, filepath.Join(t.TempDir(), "run"), 1)); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHeld checks that a realization does not wait for a job that is held or depends on a held job, and that
// such jobs do not make the pre-roll long. Jobs that may start keep their submit times, and so do the jobs
// that they depend on.
func TestHeld(t *testing.T) {
	held := func(id, dependency string) *hpc.Job {
		job := &hpc.Job{ID: id}
		job.Hold, job.Dependency = dependency == "", dependency
		return job
	}
	for name, c := range map[string]struct {
		jobs  []*hpc.Job
		never []string
		preRoll,
		lasts time.Duration // time from the instant until the realization has all starts
	}{
		"only held": {[]*hpc.Job{held("held", ""), held("then", "afterany:held"), held("last", "afterok:then")}, []string{"held", "then", "last"}, time.Hour, 0},
		"a job that depends on a running job starts":   {[]*hpc.Job{held("held", ""), held("then", "afterany:held"), held("may", "afterany:runs")}, []string{"held", "then"}, 180 * 24 * time.Hour, time.Hour},
		"a job whose other dependency suffices starts": {[]*hpc.Job{held("held", ""), held("may", "afterany:held?afterany:runs")}, []string{"held"}, 180 * 24 * time.Hour, time.Hour},
		"a job depends on a task of a held array":      {[]*hpc.Job{{ID: "held", Request: hpc.Request{Hold: true, Array: "1-2"}}, held("then", "afterok:held_1")}, []string{"held", "then"}, time.Hour, 0},
	} {
		q := waiting(c.jobs...)
		r := play(t, q, q.Pending())
		for _, key := range q.Pending() {
			if never := slices.Contains(c.never, key.Job); (r.start(key, q.At) == hpc.Never) != never {
				t.Errorf("%s: %v starts at %s", name, key, r.start(key, q.At))
			}
		}
		if lasted := r.ended.Sub(q.At); lasted > c.lasts+time.Minute {
			t.Errorf("%s: the realization ends %s after the instant, want %s", name, lasted, c.lasts)
		}
		w := q.copy()
		q.shorten(w, Options{Arrivals: NoArrivals})
		if preRoll := q.At.Sub(w.Begin()); preRoll > c.preRoll+time.Minute {
			t.Errorf("%s: the pre-roll takes %s, want at most %s", name, preRoll, c.preRoll)
		}
		var order []string
		for _, job := range w.Jobs.All() {
			if slices.Contains(c.never, job.ID) {
				order = append(order, job.ID)
			}
		}
		if !slices.Equal(order, c.never) {
			t.Errorf("%s: the jobs that never start are submitted in the order %v, want %v", name, order, c.never)
		}
		recorded := q.copy()
		if q.shorten(recorded, Options{Arrivals: Recorded}); q.At.Sub(recorded.Begin()) < 179*24*time.Hour {
			t.Errorf("%s: jobs that somebody may release have other instants", name)
		}
	}
}

// TestWaitsForOne checks that a realization ends when the only job that it waits for has started.
func TestWaitsForOne(t *testing.T) {
	q := waiting(&hpc.Job{ID: "first"}, &hpc.Job{ID: "second"}, &hpc.Job{ID: "third"})
	if r := play(t, q, []Key{{"first", -1}}); r.ended.Sub(q.At) > time.Hour+time.Minute {
		t.Errorf("it ends %s after the instant", r.ended.Sub(q.At))
	}
	if r := play(t, q, q.Pending()); r.ended.Sub(q.At) < 5*time.Hour {
		t.Errorf("for all jobs it ends %s after the instant", r.ended.Sub(q.At))
	}
}
