package sim_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
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
				if e.Kind == rm.Waiting && slices.Contains([]string{"fcfs", "easy", "conservative", "easy-textbook"}, name) {
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
// order of the queue, and the first again when the shorter job has started.
func TestOvertaken(t *testing.T) {
	sjf, err := policy.New("sjf")
	if err != nil {
		t.Fatal(err)
	}
	jobs := []*hpc.Job{job("a", 0, 4, 10, 10), job("long", 1, 4, 50, 50), job("short", 5, 4, 5, 5)}
	first, changes := map[string]hpc.Time{}, []string{}
	for _, e := range play(t, sim.Config{Processors: 4, Policy: sjf}, submissions(jobs), time.Hour) {
		switch e.Kind {
		case rm.Started:
			first[e.Job] = e.Outcome.First
		case rm.Waiting:
			changes = append(changes, fmt.Sprint(e.Job, " ", e.At.Sub(at(0)).Seconds(), " ", e.Reason))
		}
	}
	if first["short"] != at(5) || first["long"] != at(1) || first["a"] != 0 {
		t.Errorf("%v", first)
	}
	if want := []string{"long 5 Priority", "long 10 Resources"}; !slices.Equal(changes, want) {
		t.Errorf("%q, want %q", changes, want)
	}
}

// TestPlacesInQueue checks at each second whether a waiting job is the first. Under easy-textbook the jobs wait in the
// order of their submission, so jobs with a begin time take the first place from later jobs. Under the others they wait
// in the order in which they became eligible.
func TestPlacesInQueue(t *testing.T) {
	lost := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		var jobs []*hpc.Job
		for i := range 30 {
			length := 1 + random.IntN(60)
			j := job(fmt.Sprint(i), 4*i, 1+random.IntN(4), length, length)
			if random.IntN(3) == 0 {
				j.Begin = time.Duration(random.IntN(200)) * time.Second
			}
			jobs = append(jobs, j)
		}
		for _, name := range []string{"easy-textbook", "fcfs", "conservative"} {
			cfg := sim.Config{Processors: 4}
			var err error
			if cfg.Policy, err = policy.New(name); err != nil {
				t.Fatal(err)
			}
			started, changes := map[string]rm.Outcome{}, map[string][]rm.Event{}
			for _, e := range play(t, cfg, submissions(jobs), time.Hour) {
				if e.Kind == rm.Started {
					started[e.Job] = *e.Outcome
				}
				if e.Kind == rm.Waiting {
					changes[e.Job] = append(changes[e.Job], e)
					lost++
				}
			}
			if name != "easy-textbook" {
				slices.SortStableFunc(jobs, func(a, b *hpc.Job) int {
					return cmp.Compare(started[a.ID].Eligible, started[b.ID].Eligible)
				})
			}
			for now := at(0); now < at(3000); now = now.Add(time.Second) {
				ahead := false // an earlier job waits
				for _, j := range jobs {
					o := started[j.ID]
					if now < o.Eligible || now >= o.Start {
						continue
					}
					first := now >= o.First
					for _, e := range changes[j.ID] {
						if e.At <= now {
							first = e.Reason == "Resources"
						}
					}
					if first == ahead {
						t.Fatalf("seed %d, %s, %s: job %s is the first: %t, want %t", seed, name, now, j.ID, first, !ahead)
					}
					ahead = true
				}
			}
		}
	}
	if lost < 20 {
		t.Errorf("%d changes of the first place", lost)
	}
}
