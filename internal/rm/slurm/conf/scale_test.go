package conf

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

func scaleSite(t *testing.T, site string, factor float64) *Cluster {
	t.Helper()
	c, err := mustOpen(t, filepath.Join("testdata", site)).Scale(factor)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func nodesOf(c *Cluster) string {
	return hostlist.Compress(names(c.Nodes))
}

func names(nodes []hpc.Node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	return list
}

// TestScale scales nodes of several kinds. Partitions, node sets, switches and gres.conf change
// with the nodes.
func TestScale(t *testing.T) {
	for _, tt := range []struct {
		site   string
		factor float64
		nodes  string
		of     map[string]string // nodes of partitions
	}{
		// v1 and v2 are in different partitions, so each is the last of its kind and stays.
		{"gpu", 0.5, "c[01-06],g1,v[1-2]", map[string]string{"cpu": "c[01-06]", "gpu": "g1,v1", "all": "c[01-06],g1,v[1-2]"}},
		{"gpu", 0.01, "c01,g1,v[1-2]", map[string]string{"cpu": "c01", "gpu": "g1,v1", "all": "c01,g1,v[1-2]"}},
		{"gpu", 1.5, "c[01-12],x2-c[01-06],g[1-2],x2-g1,v[1-2],x2-v1",
			map[string]string{"cpu": "c[01-12],x2-c[01-06]", "gpu": "g[1-2],v1,x2-g1,x2-v1", "all": "c[01-12],x2-c[01-06],g[1-2],x2-g1,v[1-2],x2-v1"}},
		// c20 is down, which makes it a kind of its own.
		{"full", 0.5, "c[1-9,20],gpu[1-2]", map[string]string{"main": "c[1-9,20],gpu[1-2]", "gpu": "gpu[1-2]", "maint": "c[1-9,20],gpu[1-2]"}},
		{"full", 3, "c[1-20],x2-c[1-20],x3-c[1-20],gpu[1-4],x2-gpu[1-4],x3-gpu[1-4]", nil},
	} {
		c := scaleSite(t, tt.site, tt.factor)
		if got := nodesOf(c); got != tt.nodes {
			t.Errorf("%s x%g: nodes %s, want %s", tt.site, tt.factor, got, tt.nodes)
		}
		for _, p := range c.Partitions {
			want, given := tt.of[p.Name]
			if got := hostlist.Compress(p.Nodes); given && got != want {
				t.Errorf("%s x%g: partition %s has %s, want %s", tt.site, tt.factor, p.Name, got, want)
			}
		}
	}
	before := mustOpen(t, filepath.Join("testdata", "gpu"))
	after := scaleSite(t, "gpu", 2)
	i, _ := after.Node("x2-g2")
	j, _ := before.Node("g2")
	copied, original := after.Nodes[i], before.Nodes[j]
	copied.Name = original.Name
	if !slices.EqualFunc(copied.GRES, original.GRES, func(a, b hpc.GRES) bool { return a == b }) || copied.RealMemory != original.RealMemory {
		t.Errorf("the copy is %+v, of %+v", copied, original)
	}
}

// TestScaleTopology: Scale removes switches without nodes, and then switches with only removed
// switches below them.
func TestScaleTopology(t *testing.T) {
	c, err := openMemory(map[string]string{
		"/slurm.conf": "ClusterName=t\nTopologyPlugin=topology/tree\nNodeName=n[1-8] CPUs=4\nPartitionName=p Nodes=n[1-8]\n",
		"/topology.conf": "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[4-6]\nSwitchName=c Nodes=n[7-8]\n" +
			"SwitchName=ab Switches=a,b\nSwitchName=cc Switches=c\nSwitchName=top Switches=ab,cc\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	half, err := c.Scale(0.5)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range half.Topology {
		got = append(got, s.String())
	}
	want := []string{"SwitchName=a Nodes=n[1-3]", "SwitchName=b Nodes=n4", "SwitchName=ab Switches=a,b", "SwitchName=top Switches=ab"}
	if !slices.Equal(got, want) {
		t.Errorf("switches %q, want %q", got, want)
	}
	double, err := half.Scale(2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := double.Topology[0].String(), "SwitchName=a Nodes=n[1-3],x2-n[1-3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(c.Nodes) != 8 || c.Topology[0].String() != "SwitchName=a Nodes=n[1-3]" {
		t.Error("the cluster that was scaled is another one now")
	}
}

// TestScaleIsReported: the changes of a scaled cluster include the changes of Scale, with file and
// line.
func TestScaleIsReported(t *testing.T) {
	adapted, err := Adapt(scaleSite(t, "gpu", 0.5), slurmspec.R2205, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range adapted.Changes {
		if strings.Contains(c.Reason, "scaled by 0.5") {
			got = append(got, c.Key+": "+c.From+" -> "+c.To)
		}
	}
	want := []string{
		"NodeName: c[01-12] -> c[01-06]", "NodeName: g[1-2] -> g1",
		"NodeName: g[1-2] -> g1", "NodeName: g[1-2] -> g1", "NodeName: g[1-2] -> g1", // of gres.conf
		"SwitchName=leaf2: c[07-12],g2,v2 -> v2",
		"NodeSet: gpus -> ", "PartitionName=cpu Nodes: c[01-12] -> c[01-06]", "PartitionName=gpu Nodes: gpus,v1 -> g1,v1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	for _, factor := range []float64{0, -1, math.Inf(1), math.NaN()} {
		if _, err := mustOpen(t, filepath.Join("testdata", "gpu")).Scale(factor); err == nil {
			t.Errorf("factor %g: no error", factor)
		}
	}
}
