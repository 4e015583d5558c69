package linear_test

import (
	"fmt"
	"strings"
	"testing"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/linear"
)

// cluster returns nodes with these numbers of CPUs.
func cluster(cpus ...int) *linear.Cluster {
	l := &linear.Cluster{}
	for _, n := range cpus {
		l.Nodes = append(l.Nodes, hardware.Node{Sockets: 1, Cores: n, Threads: 1, CPUs: n, Memory: 1000 * int64(n)})
	}
	return l
}

// set returns a set of nodes from a text such as "0 1 2".
func set(l *linear.Cluster, text string) nodeset.Set {
	s := nodeset.New(len(l.Nodes))
	for word := range strings.FieldsSeq(text) {
		var i int
		_, _ = fmt.Sscan(word, &i)
		s.Set(i)
	}
	return s
}

// show is the opposite of set; "none" for a job that gets no nodes.
func show(s nodeset.Set) string {
	if s == nil {
		return "none"
	}
	var words []string
	for i := range s.All {
		words = append(words, fmt.Sprint(i))
	}
	return strings.Join(words, " ")
}

// leaves gives a cluster a top switch and leaves of this number of nodes.
func leaves(l *linear.Cluster, of int) *linear.Cluster {
	top := hardware.Switch{Nodes: nodeset.New(len(l.Nodes)), Level: 1, Parent: len(l.Nodes) / of}
	for i := range l.Nodes {
		if i%of == 0 {
			l.Switches = append(l.Switches, hardware.Switch{Nodes: nodeset.New(len(l.Nodes)), Parent: top.Parent})
		}
		l.Switches[i/of].Nodes.Set(i)
		top.Nodes.Set(i)
	}
	l.Switches = append(l.Switches, top)
	return l
}

// TestChoose checks which nodes a job gets.
func TestChoose(t *testing.T) {
	same := func() *linear.Cluster { return cluster(4, 4, 4, 4, 4, 4, 4, 4) }
	mixed := cluster(4, 4, 16, 16, 4)
	count := func(n int) linear.Counts { return linear.Counts{Min: n, Max: 500000, Wanted: n} }
	for _, c := range []struct {
		what  string
		l     *linear.Cluster
		r     hardware.Request
		c     linear.Counts
		from  string
		want  string
		apart bool
	}{
		{"the smallest series that suffices", same(), hardware.Request{MinCPUs: 8}, count(1), "0 1 2 4 5 7", "4 5", false},
		{"the largest series, then others", same(), hardware.Request{MinCPUs: 20}, count(1), "0 1 2 4 5 7", "0 1 2 4 5", false},
		{"too few CPUs", same(), hardware.Request{MinCPUs: 20}, count(1), "0 1 2 4", "none", false},
		{"too few nodes", same(), hardware.Request{MinCPUs: 1}, count(3), "0 1", "none", false},
		{"at most one node", same(), hardware.Request{MinCPUs: 8}, linear.Counts{Min: 1, Max: 1, Wanted: 1}, "0 1", "none", false},
		{"as many nodes as wanted, of small series first", same(), hardware.Request{MinCPUs: 1}, linear.Counts{Min: 1, Max: 3, Wanted: 3}, "0 2 3 5", "0 2 5", false},
		{"fewer than wanted", same(), hardware.Request{MinCPUs: 1}, linear.Counts{Min: 1, Max: 3, Wanted: 3}, "0 2", "0 2", false},
		{"nodes around the named one", same(), hardware.Request{MinCPUs: 12, Required: set(same(), "2")}, count(1), "0 1 2 3 5 6 7", "1 2 3", false},
		{"a named node that is busy", same(), hardware.Request{MinCPUs: 1, Required: set(same(), "2")}, count(1), "0 1", "none", false},
		{"contiguous nodes", same(), hardware.Request{MinCPUs: 12, Contiguous: true}, count(1), "0 1 3 4 5", "3 4 5", false},
		{"no contiguous nodes", same(), hardware.Request{MinCPUs: 16, Contiguous: true}, count(1), "0 1 3 4 5", "none", false},
		{"named nodes apart", same(), hardware.Request{MinCPUs: 20, Contiguous: true, Required: set(same(), "0 4")}, count(1), "0 1 3 4 5", "none", false},
		{"tasks on each node", same(), hardware.Request{MinCPUs: 4, TasksPerNode: 2, CPUsPerTask: 1}, count(1), "0 1 2", "0 1", false},
		{"the first node, if small nodes suffice", mixed, hardware.Request{MinCPUs: 4}, count(1), "0 1 2 3 4", "0", false},
		{"the last of the largest nodes", mixed, hardware.Request{MinCPUs: 8}, count(1), "0 1 2 3 4", "3", false},
		{"the largest nodes", mixed, hardware.Request{MinCPUs: 34}, count(1), "0 1 2 3 4", "2 3 4", false},
		{"the leaf with fewer nodes", leaves(same(), 4), hardware.Request{MinCPUs: 8}, count(1), "0 1 2 4 5", "4 5", false},
		{"leaves with few CPUs first", leaves(same(), 4), hardware.Request{MinCPUs: 16}, count(1), "0 1 2 4 5", "0 1 4 5", false},
		{"more leaves than asked for", leaves(same(), 4), hardware.Request{MinCPUs: 16, Switches: 1, Patient: true}, count(1), "0 1 2 4 5", "0 1 4 5", true},
		{"the leaf of the named node", leaves(same(), 4), hardware.Request{MinCPUs: 8, Required: set(same(), "1")}, count(1), "0 1 2 4 5", "0 1", false},
	} {
		c.r.CPUsPerTask = max(1, c.r.CPUsPerTask)
		got, apart := c.l.Choose(&c.r, set(c.l, c.from), c.c)
		if show(got) != c.want || apart != c.apart {
			t.Errorf("%s: %s, scattered %v, want %s, %v", c.what, show(got), apart, c.want, c.apart)
		}
	}
	fly := leaves(same(), 4)
	fly.Dragonfly = true
	if got, _ := fly.Choose(&hardware.Request{MinCPUs: 20}, set(fly, "0 1 2 3 4 5"), count(1)); show(got) != "0 1 2 4 5" {
		t.Errorf("Dragonfly: %s, want nodes of each leaf in turn", show(got))
	}
	optional := leaves(same(), 4)
	optional.Optional = true
	if got, _ := optional.Choose(&hardware.Request{MinCPUs: 16}, set(optional, "0 1 2 4 5"), count(1)); show(got) != "0 1 2 4" {
		t.Errorf("TopoOptional: %s, want nodes without regard to switches", show(got))
	}
}

// TestLightest checks that a job gets heavier nodes only if the lighter ones do not suffice.
func TestLightest(t *testing.T) {
	l := cluster(4, 4, 4, 4, 4)
	l.Kinds = []nodeset.Set{set(l, "0 1"), set(l, "2 3"), set(l, "4")}
	weights := []uint64{9, 9, 1, 1, 9}
	for _, c := range []struct {
		nodes, named string
		wanted       int
		switches     int
		want         string
	}{
		{"0 1 2 3 4", "", 1, 0, "2 3, 0 1 2 3, 0 1 2 3 4"},
		{"0 1 2 3 4", "", 3, 0, "0 1 2 3, 0 1 2 3 4"},
		{"0 1 2 3 4", "0", 1, 0, "0 2 3, 0 1 2 3, 0 1 2 3 4"},
		{"0 1 2 3 4", "", 1, 2, "2 3, 0 1 2 3 4"},
		{"2", "", 4, 0, "2"},
	} {
		l.Switches = make([]hardware.Switch, c.switches)
		var got []string
		counts := linear.Counts{Min: 1, Max: 9, Wanted: c.wanted}
		for nodes := range l.Lightest(set(l, c.nodes), set(l, c.named), weights, counts) {
			got = append(got, show(nodes))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("of %s with %q, %d wanted: %s, want %s", c.nodes, c.named, c.wanted, strings.Join(got, ", "), c.want)
		}
	}
}

// TestUsable checks the memory and the GPUs that a job needs on whole nodes.
func TestUsable(t *testing.T) {
	l := cluster(4, 8, 4)
	l.Nodes[2].Memory, l.Nodes[2].MemSpecLimit = 3000, 1000
	half := func(from int) hardware.Device {
		cores := nodeset.New(8)
		for c := range 4 {
			cores.Set(from + c)
		}
		return hardware.Device{Kind: "gpu", Count: 2, BySocket: []int{2}, Cores: cores}
	}
	l.Nodes[0].Devices = []hardware.Device{{Kind: "gpu", Count: 2}}
	l.Nodes[1].Devices = []hardware.Device{half(0), half(4)}
	gpus := func(n int) []hardware.DeviceRequest { return []hardware.DeviceRequest{{Kind: "gpu", Count: n}} }
	for _, c := range []struct {
		what  string
		r     hardware.Request
		count bool
		want  string
	}{
		{"memory that does not count", hardware.Request{Memory: 9999}, false, "0 1 2"},
		{"memory", hardware.Request{Memory: 3500}, true, "0 1"},
		{"memory for all CPUs of the node", hardware.Request{Memory: 800, MemoryPerCPU: true}, true, "0 1"},
		{"the memory of the first node", hardware.Request{}, true, "0 1"},
		{"GPUs", hardware.Request{Devices: gpus(1)}, false, "0"},
		{"GPUs close to all cores", hardware.Request{Devices: gpus(2)}, false, "0 1"},
		{"all GPUs", hardware.Request{Devices: gpus(4)}, false, "1"},
		{"too many GPUs", hardware.Request{Devices: gpus(5)}, false, ""},
	} {
		if got := show(l.Usable(&c.r, set(l, "0 1 2"), c.count)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
