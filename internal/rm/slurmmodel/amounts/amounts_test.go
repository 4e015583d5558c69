package amounts

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// TestRequestedMemory has jobs that ask for memory of two nodes, or for all their memory.
func TestRequestedMemory(t *testing.T) {
	m := &selection.Machine{Nodes: []selection.Node{{Memory: 100}, {Memory: 200}, {Memory: 300}}}
	partition := selection.NewBits(3)
	partition.Set(1)
	partition.Set(2)
	table := tres.New("")
	for _, c := range []struct {
		name string
		r    selection.Request
		want uint64
	}{
		{"for each node", selection.Request{Memory: 10}, 20},
		{"for each CPU", selection.Request{Memory: 10, MemoryPerCPU: true}, 40},
		{"none for each CPU", selection.Request{MemoryPerCPU: true}, 0},
		{"all memory", selection.Request{}, 400},
		{"for each GPU", selection.Request{MemoryPerDevice: 10}, 0},
	} {
		v := table.Vector()
		Requested(table, v, m, partition, &c.r, 4, 2)
		if v[tres.Memory] != c.want {
			t.Errorf("%s: the job asks for %d MiB, want %d", c.name, v[tres.Memory], c.want)
		}
	}
}
