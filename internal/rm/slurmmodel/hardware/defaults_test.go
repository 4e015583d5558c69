package hardware_test

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// gpus returns a request for GPUs, with one CPU for each task.
func gpus(d hardware.DeviceRequest) *hardware.Request {
	d.Kind = "gpu"
	return &hardware.Request{CPUsPerTask: 1, BaseCPUsPerTask: 1, Devices: []hardware.DeviceRequest{d}}
}

func TestGPUDefaults(t *testing.T) {
	of := hardware.GPUDefaults{CPUs: 3, Memory: 1000}
	r := gpus(hardware.DeviceRequest{PerTask: 2})
	other := *r // the record of the other tasks of an array
	if !of.Give(r) || of.Give(r) {
		t.Error("the first test must change the request, and the second must not")
	}
	d := &r.Devices[0]
	if d.CPUs() != 3 || d.CountedCPUs() != 3 || d.Memory() != 1000 || r.MemoryPerDevice != 1000 || r.CPUsPerTask != 6 {
		t.Errorf("with defaults: %+v", r)
	}
	if other.Devices[0].CPUs() != 0 {
		t.Error("the defaults of one task must not change other tasks")
	}
	if r.Restore(); r.CPUsPerTask != 1 {
		t.Errorf("%d CPUs for each task, want 1", r.CPUsPerTask)
	}
	// In another partition the defaults change, but slurmctld's sums keep the first ones.
	of = hardware.GPUDefaults{CPUs: 1}
	if of.Give(r); r.CPUsPerTask != 2 || r.Devices[0].CPUs() != 1 || r.Devices[0].CountedCPUs() != 3 {
		t.Errorf("in another partition: %+v", r)
	}
	if r.MemoryPerDevice != 0 {
		t.Errorf("MemoryPerDevice is %d in a partition without DefMemPerGPU, want 0", r.MemoryPerDevice)
	}
}

// A job's own numbers replace the defaults.
func TestGPUDefaultsOwn(t *testing.T) {
	of := hardware.GPUDefaults{CPUs: 3, Memory: 1000}
	r := gpus(hardware.DeviceRequest{Count: 1, CPUsPer: 2, MemoryPer: 500})
	if of.Give(r); r.Devices[0].CPUs() != 2 || r.MemoryPerDevice != 500 {
		t.Errorf("with --cpus-per-gpu and --mem-per-gpu: %+v", r)
	}
	r = gpus(hardware.DeviceRequest{PerTask: 2})
	r.OwnCPUsPerTask, r.OwnMemory = true, true
	if of.Give(r); r.Devices[0].CPUs() != 0 || r.CPUsPerTask != 1 || r.MemoryPerDevice != 0 {
		t.Errorf("with --cpus-per-task and --mem: %+v", r)
	}
	if r.Devices[0].Memory() != 1000 {
		t.Error("the memory of nodes limits the GPUs also with --mem")
	}
}

func TestCountTasks(t *testing.T) {
	const since = true
	for _, c := range []struct {
		r                    hardware.Request
		since2411, since2605 bool
		want                 int
	}{
		{hardware.Request{Tasks: 1, OwnTasks: true, TasksPerNode: 2, MinCPUs: 1}, since, !since, 1},
		{hardware.Request{Tasks: 1, OwnTasks: true, TasksPerNode: 2, MinCPUs: 1}, since, since, 6},
		{hardware.Request{Tasks: 4, TasksPerNode: 2, MinCPUs: 4}, since, !since, 6},
		{hardware.Request{Tasks: 4, OwnTasks: true, MinCPUs: 8, CPUsPerTask: 1}, since, since, 4},
		{hardware.Request{MinCPUs: 8, CPUsPerTask: 2}, since, since, 4},
		{hardware.Request{Tasks: 1, OwnTasks: true, TasksPerNode: 2, MinCPUs: 1, CPUsPerTask: 1}, !since, !since, 6},
	} {
		if n := c.r.CountTasks(3, c.since2411, c.since2605); n != c.want {
			t.Errorf("%d tasks on 3 nodes, want %d: %+v", n, c.want, c)
		}
	}
}
