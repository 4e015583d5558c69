package amounts_test

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/amounts"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// The memory that limits count for a pending job.
func TestRequestedMemory(t *testing.T) {
	p := partitions.Partition{GPUs: hardware.GPUDefaults{Memory: 700}, CountsGPUs: true}
	p.MaxMemory.NodeMemory = 64000
	newer := p
	newer.CountsDefault = true
	three := func(memory int64) []selection.DeviceRequest {
		return []selection.DeviceRequest{{Kind: "gpu", Count: 3, MemoryPer: memory}}
	}
	for name, c := range map[string]struct {
		r    selection.Request
		p    *partitions.Partition
		want uint64
	}{
		"of each CPU":           {selection.Request{Memory: 100, MemoryPerCPU: true}, &p, 400},
		"all of a node":         {selection.Request{}, &p, 128000},
		"--mem-per-gpu":         {selection.Request{Memory: 100, Devices: three(50)}, &p, 300},
		"DefMemPerGPU":          {selection.Request{Memory: 100, Devices: three(0)}, &p, 200},
		"DefMemPerGPU in 26.05": {selection.Request{Memory: 100, Devices: three(0)}, &newer, 2100},
		"--mem in 26.05":        {selection.Request{Memory: 100, OwnMemory: true, Devices: three(0)}, &newer, 200},
	} {
		table := tres.New("")
		v := table.Vector()
		if amounts.Requested(table, v, &c.r, c.p, 4, 2, 1); v[tres.Memory] != c.want {
			t.Errorf("%s: %d MiB, want %d", name, v[tres.Memory], c.want)
		}
	}
}
