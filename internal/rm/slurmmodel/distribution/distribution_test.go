package distribution_test

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/distribution"
	"rmreplay/internal/rm/slurmmodel/hardware"
)

// A job with one task and --ntasks-per-node=2 has room for one task on its CPU: this suffices in 24.11, not in 26.05.
func TestTasks(t *testing.T) {
	r := &hardware.Request{Tasks: 1, OwnTasks: true, TasksPerNode: 2, MinCPUs: 1, CPUsPerTask: 1}
	for _, since2605 := range []bool{false, true} {
		nodes := []distribution.Node{{Threads: 1, CPUs: 1, Room: 1, Served: hardware.AnyTasks}}
		if ok := distribution.Tasks(r, nodes, true, since2605); ok == since2605 || nodes[0].Tasks != 1 || nodes[0].CPUs != 1 {
			t.Errorf("since 26.05 %v: %v, %+v", since2605, ok, nodes[0])
		}
	}
	r = &hardware.Request{Tasks: 3, OwnTasks: true, MinCPUs: 6, CPUsPerTask: 2}
	nodes := []distribution.Node{{Threads: 2, CPUs: 4, Served: hardware.AnyTasks}, {Threads: 2, CPUs: 4, Served: hardware.AnyTasks}}
	if !distribution.Tasks(r, nodes, true, false) || nodes[0].Tasks+nodes[1].Tasks != 3 || nodes[0].CPUs+nodes[1].CPUs != 6 {
		t.Errorf("three tasks on two nodes: %+v", nodes)
	}
}
