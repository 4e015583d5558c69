package sim_test

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

// TestFirstInQueue checks that a start's outcome says since when the job was the first in its
// queue, under each policy, on a pool and on nodes. Of four processors, job a has all, b needs
// all, and c and d need one each.
func TestFirstInQueue(t *testing.T) {
	cluster := &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 2}, {Name: "n2", CPUs: 2}}}
	jobs := []*hpc.Job{
		job("a", 0, 4, 10, 10), job("b", 1, 4, 10, 10), job("c", 2, 1, 30, 30), job("d", 3, 1, 5, 5),
	}
	for _, name := range policy.Names() {
		for machine, cfg := range map[string]sim.Config{"pool": {Processors: 4}, "nodes": {Cluster: cluster}} {
			var err error
			if cfg.Policy, err = policy.New(name); err != nil {
				t.Fatal(err)
			}
			waited := 0
			for _, e := range play(t, cfg, submissions(jobs), time.Hour) {
				if e.Kind == rm.Waiting {
					t.Errorf("%s, %s: job %s waits: %s; the queue explains it", name, machine, e.Job, e.Reason)
				}
				o := e.Outcome
				if e.Kind != rm.Started || o.Start == o.Eligible {
					continue
				}
				waited++
				if o.First < o.Eligible || o.First > o.Start {
					t.Errorf("%s, %s: job %s was the first at %s, eligible %s, started %s", name, machine, e.Job, o.First, o.Eligible, o.Start)
				}
				if name == "fcfs" || name == "easy" || name == "conservative" || name == "easy-textbook" {
					want := map[string]hpc.Time{"b": at(1), "c": at(10), "d": at(20)}[e.Job]
					if e.Job == "d" && name != "fcfs" && o.First > o.Start || e.Job != "d" && o.First != want {
						t.Errorf("%s, %s: job %s was the first at %s, want %s", name, machine, e.Job, o.First, want)
					}
				}
			}
			if waited < 2 {
				t.Errorf("%s, %s: %d jobs waited", name, machine, waited)
			}
		}
	}
}

// TestOvertaken checks that a job is no longer the first if a shorter job comes before it in the
// order of the queue.
func TestOvertaken(t *testing.T) {
	sjf, err := policy.New("sjf")
	if err != nil {
		t.Fatal(err)
	}
	jobs := []*hpc.Job{job("a", 0, 4, 10, 10), job("long", 1, 4, 50, 50), job("short", 5, 4, 5, 5)}
	first := map[string]hpc.Time{}
	for _, e := range play(t, sim.Config{Processors: 4, Policy: sjf}, submissions(jobs), time.Hour) {
		if e.Kind == rm.Started {
			first[e.Job] = e.Outcome.First
		}
	}
	if first["short"] != at(5) || first["long"] != at(10) || first["a"] != 0 {
		t.Errorf("%v", first)
	}
}
