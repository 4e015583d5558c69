package demand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// randomMachine returns an empty machine on which some nodes have GPUs.
func randomMachine(rng *rand.Rand) (m *selection.Machine, servers *demand.Servers, nodes selection.Bits) {
	m = &selection.Machine{CountMemory: rng.IntN(2) == 0, LeastLoaded: rng.IntN(4) == 0, Since2411: rng.IntN(2) == 0}
	m.Since2605 = m.Since2411 && rng.IntN(2) == 0
	n := 1 + rng.IntN(12)
	configs, place, nodes := make([]hpc.Node, n), map[string]int{}, selection.NewBits(n)
	for i := range n {
		node := selection.Node{
			Name: fmt.Sprintf("n%d", i), Sockets: 1 + rng.IntN(2), Cores: 4, Threads: 1 + rng.IntN(2), Memory: 1000, Weight: 1,
		}
		node.CPUs = node.Sockets * node.Cores * node.Threads
		if count := rng.IntN(3); count > 0 {
			node.Devices = []selection.Device{{Kind: "gpu", Type: "a", Count: count}}
		}
		m.Nodes = append(m.Nodes, node)
		configs[i].Name, place[node.Name] = node.Name, i
		nodes.Set(i)
	}
	m.Prepare()
	return m, demand.NewServers(m, configs, place), nodes
}

// TestRoom checks that a job does not fit on a set that Room calls too small, and that Room and a
// test leave the weights of nodes unchanged.
func TestRoom(t *testing.T) {
	tooFew, fits := map[bool]int{}, 0 // by whether the job asks for GPUs
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, servers, nodes := randomMachine(rng)
		r := selection.Request{MinCPUs: 1 + rng.IntN(60), CPUsPerTask: 1, MinCPUsPerNode: 1, Memory: 10}
		r.Exclusive = rng.IntN(4) == 0
		if rng.IntN(2) == 0 {
			r.Devices = []selection.DeviceRequest{{Kind: "gpu", Count: 1 + rng.IntN(2)}}
		}
		set := nodes.Clone()
		for range rng.IntN(10) {
			set.Clear(rng.IntN(len(m.Nodes)))
		}
		c := selection.Counts{Min: 1 + rng.IntN(3), Max: 500000}
		c.Wanted = c.Min
		x := selection.NewTester(m)
		x.Weigh(nodes)
		weights := slices.Clone(x.Weights.All())
		able, least := servers.Room(&r, nodes, c.Min)
		alloc, _ := x.WillRun(m.NewState(), &r, set, c, &selection.Horizon{
			Now: 100, Since2411: m.Since2411, Since2605: m.Since2605, Begin: 100,
		})
		if set.CountAnd(able) >= least {
			if alloc != nil {
				fits++
			}
			continue
		}
		if set.Count() >= c.Min { // Room needs more than the number of nodes to tell
			tooFew[len(r.Devices) > 0]++
		}
		if alloc != nil {
			t.Fatalf("seed %d: %+v fits on %v, and needs %d nodes of %v", seed, r, alloc.Nodes, least, able)
		}
		if !m.Since2411 && !slices.Equal(x.Weights.All(), weights) {
			t.Errorf("seed %d: the test of %+v changes the weights of nodes", seed, r)
		}
	}
	if tooFew[false] < 200 || tooFew[true] < 200 || fits < 200 {
		t.Errorf("%d sets are too small, %d for jobs with GPUs, and on %d jobs fit", tooFew[false], tooFew[true], fits)
	}
}

// TestRoomOfClass compares the nodes of jobs with a class, which Room stores, with those of the same
// jobs without a class.
func TestRoomOfClass(t *testing.T) {
	differ := 0
	for seed := range uint64(200) {
		m, servers, _ := randomMachine(rand.New(rand.NewPCG(seed, 2)))
		x := selection.NewTester(m)
		var sets []selection.Bits
		for count := range 6 {
			r := selection.Request{MinCPUs: 1, CPUsPerTask: 1, MinCPUsPerNode: 1}
			r.Devices = []selection.DeviceRequest{{Kind: "gpu", Count: 1 + count%3}}
			nodes, _ := servers.Nodes(demand.Demand{}.With(&r))
			want, _ := servers.Room(&r, nodes, 1)
			x.Classify(&r)
			if got, _ := servers.Room(&r, nodes, 1); !got.Equal(want) {
				t.Fatalf("seed %d: %d GPUs are on nodes %v, want %v", seed, 1+count%3, got, want)
			}
			sets = append(sets, want)
		}
		if !sets[0].Equal(sets[1]) {
			differ++
		}
	}
	if differ < 50 {
		t.Errorf("one GPU and two GPUs are on different nodes of %d machines only", differ)
	}
}

// TestNodesOfMemory has two nodes with 32,000 MiB and 16,000 MiB. Of memory for each CPU, only backfill counts the
// memory of all CPUs on a node.
func TestNodesOfMemory(t *testing.T) {
	m := &selection.Machine{Nodes: []selection.Node{
		{Name: "a", Sockets: 1, Cores: 4, Threads: 1, CPUs: 4, Memory: 32000},
		{Name: "b", Sockets: 1, Cores: 4, Threads: 1, CPUs: 4, Memory: 16000},
	}}
	m.Prepare()
	servers := demand.NewServers(m, []hpc.Node{{Name: "a"}, {Name: "b"}}, map[string]int{"a": 0, "b": 1})
	for _, c := range []struct {
		memory int64
		perCPU bool
		want   string
	}{
		{16000, false, "[0 1] [0 1]"}, {20000, false, "[0] [0]"}, {8000, true, "[0 1] [0 1]"}, {16000, true, "[0 1] [0]"},
		{20000, true, "[0] []"}, {40000, true, "[] []"},
	} {
		r := selection.Request{MinCPUs: 6, CPUsPerTask: 2, MinCPUsPerNode: 2, Memory: c.memory, MemoryPerCPU: c.perCPU}
		all, forBackfill := servers.Nodes(demand.Demand{}.With(&r))
		if got := fmt.Sprint(slices.Collect(all.All), slices.Collect(forBackfill.All)); got != c.want {
			t.Errorf("memory %d, for each CPU %v: nodes %s, want %s", c.memory, c.perCPU, got, c.want)
		}
	}
}

// TestNodesOfThreads has nodes with one thread for each core, with two threads, and with two threads if CPUs are cores.
func TestNodesOfThreads(t *testing.T) {
	configs := []hpc.Node{
		{Name: "a", CPUs: 4}, {Name: "b", ThreadsPerCore: 2, CPUs: 8}, {Name: "c", ThreadsPerCore: 2, CPUs: 4},
	}
	m, place := &selection.Machine{}, map[string]int{"a": 0, "b": 1, "c": 2}
	for i, c := range configs {
		m.Nodes = append(m.Nodes, selection.Node{
			Name: c.Name, Sockets: 1, Cores: 4, Threads: c.CPUs / 4, CPUs: c.CPUs, Memory: 1000,
		})
		configs[i].CoresPerSocket = 4
	}
	m.Prepare()
	servers := demand.NewServers(m, configs, place)
	for _, c := range []struct {
		threads, tasks int
		want           string
	}{
		{0, 0, "[0 1 2]"}, {1, 0, "[0 1 2]"}, {2, 0, "[1]"}, {3, 0, "[]"}, {1, 1, "[0 1 2]"}, {2, 1, "[1 2]"}, {3, 1, "[]"},
	} {
		r := selection.Request{
			MinCPUs: 1, CPUsPerTask: 1, MinCPUsPerNode: 1, ThreadsPerCore: c.threads, TasksPerCore: c.tasks,
		}
		nodes, _ := servers.Nodes(demand.FromRequest(&r, &rpc.JobDesc{MinTmpDisk: slurmspec.NoVal}))
		if got := fmt.Sprint(slices.Collect(nodes.All)); got != c.want {
			t.Errorf("--threads-per-core=%d --ntasks-per-core=%d: nodes %s, want %s", c.threads, c.tasks, got, c.want)
		}
	}
}
