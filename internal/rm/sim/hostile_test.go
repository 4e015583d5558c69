package sim_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

// TestAbsurdRequests checks that requests which overflow a number are rejected.
func TestAbsurdRequests(t *testing.T) {
	ask := func(change func(*hpc.Job)) *hpc.Job { return job("a", 0, 1, 10, 10, change) }
	c := cluster()
	c.CountMemory = true
	for name, j := range map[string]*hpc.Job{
		"tasks":          ask(func(j *hpc.Job) { j.Tasks, j.CPUsPerTask = 14, 1<<62 }),
		"processors":     ask(func(j *hpc.Job) { j.Tasks, j.CPUsPerTask = 1<<32, 1<<32 }),
		"nodes":          ask(func(j *hpc.Job) { j.Tasks, j.MinNodes, j.TasksPerNode = 0, math.MaxInt, 2 }),
		"nodes and more": ask(func(j *hpc.Job) { j.Tasks, j.MinNodes, j.TasksPerNode = 0, 1<<32, 1<<32 }),
		"many tasks":     ask(func(j *hpc.Job) { j.Tasks = math.MaxInt }),
	} {
		for _, cfg := range []sim.Config{{Processors: 14, Policy: policy.EASY}, {Cluster: c, Policy: policy.Conservative}} {
			t.Run(name, func(t *testing.T) {
				events := play(t, cfg, submissions([]*hpc.Job{j}), time.Hour)
				if len(events) != 1 || events[0].Kind != "rejected" {
					t.Errorf("\n%s", story(events))
				}
			})
		}
	}
	for name, j := range map[string]*hpc.Job{
		"memory":     ask(func(j *hpc.Job) { j.MemPerCPU, j.CPUsPerTask = math.MaxInt64/2+1, 2 }),
		"GPU memory": ask(func(j *hpc.Job) { j.MemPerGPU, j.GPUsPerNode = math.MaxInt64/2+1, "2" }),
		"GPU CPUs":   ask(func(j *hpc.Job) { j.CPUsPerGPU, j.GPUsPerNode = math.MaxInt64/2+1, "2" }),
		"GPUs":       ask(func(j *hpc.Job) { j.GPUsPerTask, j.CPUsPerGPU = "2147483647", math.MaxInt }),
	} {
		t.Run(name, func(t *testing.T) {
			events := play(t, sim.Config{Cluster: c, Policy: policy.EASY}, submissions([]*hpc.Job{j}), time.Hour)
			if len(events) != 1 || events[0].Kind != "rejected" {
				t.Errorf("\n%s", story(events))
			}
		})
	}
}

// TestNodeNamedTwice checks that a node that a partition names twice is one node.
func TestNodeNamedTwice(t *testing.T) {
	c := cluster()
	c.Partitions[0].Nodes = []string{"n1", "n2", "n1"}
	checkStory(t, sim.Config{Cluster: c, Policy: policy.FCFS}, submissions([]*hpc.Job{job("a", 0, 8, 10, 10), job("b", 0, 12, 10, 10)}), `
0 rejected b (asks for more than its permitted nodes have)
0 started a on n[1-2]
10 ended a COMPLETED
`)
}

// TestWholeNodesOfOtherSizes checks that a job that gets whole nodes starts on the small node,
// although on the large node it would hold more processors than are free.
func TestWholeNodesOfOtherSizes(t *testing.T) {
	c := &sim.Cluster{WholeNodes: true, Nodes: []hpc.Node{{Name: "large", CPUs: 8}, {Name: "small", CPUs: 2, Weight: 1}}}
	for _, name := range []string{"easy", "conservative", "fcfs"} {
		made, err := policy.New(name)
		if err != nil {
			t.Fatal(err)
		}
		checkStory(t, sim.Config{Cluster: c, Policy: made}, submissions([]*hpc.Job{job("a", 0, 1, 10, 10), job("b", 0, 1, 10, 10)}), `
0 started a on large
0 started b on small
10 ended a COMPLETED
10 ended b COMPLETED
`)
	}
}

// TestBefore1970 checks negative instants.
func TestBefore1970(t *testing.T) {
	const epoch = -1000 * hpc.Second
	e, err := sim.New(sim.Config{Processors: 1, Policy: policy.EASY, Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	j := job("a", 0, 1, 10, 20)
	j.Submit = epoch
	if err := e.Submit(j); err != nil {
		t.Fatal(err)
	}
	for e.Now() < 0 {
		events, err := e.AdvanceTo(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.Outcome != nil && ev.Outcome.State == hpc.Completed && ev.At == epoch.Add(10*time.Second) {
				return
			}
		}
	}
	t.Error("the job has not ended after 10 s")
}

// TestInterrupted checks that a simulation whose queue takes hours at one instant can be
// interrupted.
func TestInterrupted(t *testing.T) {
	c := &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 1}}}
	e, err := sim.New(sim.Config{Cluster: c, Policy: policy.EASY, Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	j := job("a", 0, 1, 10, 10)
	j.Array = "1-200000"
	if err := e.Submit(j); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	for err == nil {
		_, err = e.AdvanceTo(ctx, at(1))
	}
	if d := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || d > 20*time.Second {
		t.Errorf("%v after %s", err, d)
	}
}
