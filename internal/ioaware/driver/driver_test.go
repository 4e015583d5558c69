package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// fake is a cluster whose scheduler starts released jobs, except those in stuck.
type fake struct {
	now     hpc.Time
	nodes   int
	limit   int64 // licenses
	pending []Pending
	running []Running
	stuck   map[string]bool
	refuses map[string]bool
	log     []string
	starts  map[string]int
}

func (f *fake) State() (State, error) {
	if f.nodes < 0 {
		return State{}, errors.New("no answer")
	}
	s := State{Now: f.now, Cluster: ioaware.Cluster{Nodes: f.nodes, FileSystem: "lustre", Licenses: map[string]ioaware.License{"lustre": {Total: f.limit}}}}
	for _, r := range f.running {
		l := s.Licenses["lustre"]
		l.Used += r.Licenses["lustre"]
		s.Licenses["lustre"] = l
	}
	s.Pending, s.Running = slices.Clone(f.pending), slices.Clone(f.running)
	return s, nil
}

func (f *fake) set(job string, released bool, what string) error {
	f.log = append(f.log, what+" "+job)
	if f.refuses[job] {
		return errors.New("job " + job + " is gone")
	}
	for i := range f.pending {
		if f.pending[i].ID == job {
			f.pending[i].Released = released
		}
	}
	return nil
}

func (f *fake) Release(job string) error { return f.set(job, true, "release") }
func (f *fake) Hold(job string) error    { return f.set(job, false, "hold") }

// advance lets time pass: running jobs end at their limits, and released jobs start.
func (f *fake) advance(d time.Duration) {
	f.now = f.now.Add(d)
	f.running = slices.DeleteFunc(f.running, func(r Running) bool { return r.End <= f.now })
	f.pending = slices.DeleteFunc(f.pending, func(p Pending) bool {
		if !p.Released || f.stuck[p.ID] {
			return false
		}
		f.running = append(f.running, Running{ID: p.ID, Running: ioaware.Running{Job: p.Job, End: f.now.Add(p.Limit)}})
		f.starts[p.ID]++
		return true
	})
}

func newFake(nodes int, limit int64, jobs ...Pending) *fake {
	return &fake{now: 10000 * hpc.Second, nodes: nodes, limit: limit, pending: jobs, stuck: map[string]bool{}, refuses: map[string]bool{}, starts: map[string]int{}}
}

func wants(id string, nodes int, minutes int, licenses int64) Pending {
	return Pending{ID: id, Job: ioaware.Job{Nodes: nodes, Limit: time.Duration(minutes) * time.Minute, Licenses: map[string]int64{"lustre": licenses}}}
}

func aware() *Driver {
	return &Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: 30 * time.Second}
}

// TestReleases: the driver releases the jobs that the plan starts now. In later rounds, released
// jobs that have not started yet count like running jobs.
func TestReleases(t *testing.T) {
	f := newFake(10, 1000, wants("a", 4, 10, 600), wants("b", 4, 10, 600), wants("c", 4, 10, 300), wants("d", 4, 10, 0))
	d := aware()
	round, err := d.Round(f)
	if err != nil || strings.Join(round.Released, " ") != "a c" || !round.Open {
		t.Fatalf("released %q, open %t, %v, want a and c", round.Released, round.Open, err)
	}
	// No job has started yet, but for the plan, the released jobs use their nodes and licenses.
	f.now = f.now.Add(10 * time.Second)
	if round, err = d.Round(f); err != nil || len(round.Released) > 0 {
		t.Errorf("released %q beside jobs in flight, %v", round.Released, err)
	}
	f.advance(time.Second)
	f.advance(12 * time.Minute)
	if round, err = d.Round(f); err != nil || strings.Join(round.Released, " ") != "b d" {
		t.Errorf("released %q when a and c had ended, %v, want b and d", round.Released, err)
	}
}

// TestStuck: a job that does not start after its release is held again, and released again after
// growing pauses. Other jobs start meanwhile. After maxTries, the driver no longer waits for the
// job.
func TestStuck(t *testing.T) {
	f := newFake(4, 1000, wants("stuck", 4, 10, 0), wants("next", 4, 1, 0))
	f.stuck["stuck"] = true
	d := aware()
	open, tries := true, 0
	for range 2 * 60 * 24 {
		round, err := d.Round(f)
		if err != nil {
			t.Fatal(err)
		}
		tries += len(round.Held)
		if open = round.Open; !open {
			break
		}
		f.advance(30 * time.Second)
	}
	if open || tries != maxTries || f.starts["next"] != 1 {
		t.Errorf("open %t, held again %d times, the other job started %d times", open, tries, f.starts["next"])
	}
}

// TestAdopts: a driver finds a job that an earlier driver released. It counts the job's nodes, and
// releases no other job for which they would be needed.
func TestAdopts(t *testing.T) {
	released := wants("a", 4, 10, 0)
	released.Released = true
	f := newFake(4, 1000, released, wants("b", 4, 10, 0))
	round, err := aware().Round(f)
	if err != nil || len(round.Released)+len(round.Held) > 0 || !round.Open {
		t.Errorf("%+v, %v", round, err)
	}
}

func TestFailures(t *testing.T) {
	f := newFake(4, 1000, wants("gone", 1, 10, 0), wants("b", 1, 10, 0))
	f.refuses["gone"] = true
	round, err := aware().Round(f)
	if err != nil || round.Failed == nil || strings.Join(round.Released, " ") != "b" {
		t.Errorf("%+v, %v", round, err)
	}
	f.nodes = -1
	if _, err := aware().Round(f); err == nil {
		t.Error("no error without a state")
	}
}

// TestProperties: running jobs never use more nodes or licenses than exist, and every job starts,
// even if a new driver replaces the driver between rounds.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(rapid.IntRange(1, 8).Draw(t, "nodes"), 1000)
		n := rapid.IntRange(1, 15).Draw(t, "jobs")
		for i := range n {
			f.pending = append(f.pending, wants(fmt.Sprint(i), rapid.IntRange(1, f.nodes).Draw(t, "size"), rapid.IntRange(1, 20).Draw(t, "limit"), rapid.Int64Range(0, 1000).Draw(t, "use")))
		}
		d := aware()
		d.Options.Strategy = rapid.SampledFrom([]ioaware.Strategy{ioaware.Aware, ioaware.TwoGroup}).Draw(t, "strategy")
		for range 3000 {
			if rapid.IntRange(0, 9).Draw(t, "dies") == 0 {
				d = &Driver{Options: d.Options, Patience: d.Patience}
			}
			if _, err := d.Round(f); err != nil {
				t.Fatal(err)
			}
			f.advance(30 * time.Second)
			nodes, use := 0, int64(0)
			for _, r := range f.running {
				nodes, use = nodes+r.Nodes, use+r.Licenses["lustre"]
			}
			if nodes > f.nodes || use > f.limit {
				t.Fatalf("%d nodes of %d, %d licenses of %d", nodes, f.nodes, use, f.limit)
			}
			if len(f.pending) == 0 {
				break
			}
		}
		if len(f.pending) > 0 || len(f.starts) != n {
			t.Fatalf("%d jobs still pend, %d of %d have started", len(f.pending), len(f.starts), n)
		}
	})
}
