package conf

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/topology"
	"rmreplay/internal/rm/slurm/conf/values"
	"rmreplay/internal/slurmspec"
)

// usesTopologyFile reports whether the site's topology plugin reads topology.conf.
func (c *Cluster) usesTopologyFile() bool {
	return c.is("TopologyPlugin", "topology/tree") || c.is("TopologyPlugin", "topology/hypercube")
}

// leaveOutTopology drops the topology plugin if the directory lacks its file, because slurmctld would not start.
func (c *Cluster) leaveOutTopology() {
	const key = "TopologyPlugin"
	s, _ := c.statement(key)
	if c.Topology != nil || c.TopologyYAML != nil || !c.usesTopologyFile() && !c.is(key, "topology/block") {
		return
	}
	c.warn(s, "%s=%s is left out: it needs topology.conf, which is not beside slurm.conf; jobs are placed as if there "+
		"were no switches (to place jobs by switches, copy that file from the site's machine)", key, s.Value)
	c.Statements = slices.DeleteFunc(c.Statements, func(s Statement) bool { return strings.EqualFold(s.Key, key) })
	c.changed = append(c.changed, Change{Key: key, From: s.Value, Reason: topologyConf + " is not beside slurm.conf"})
}

// checkTopology compares topology.yaml with the nodes or, if the topology plugin reads it, topology.conf. It warns
// of unknown names and of nodes without a switch: Slurm never gives a job two nodes that no switch connects.
func (c *Cluster) checkTopology() (err error) {
	switch {
	case c.TopologyYAML != nil:
		c.topology, err = topology.Parse(topologyYAML, c.TopologyYAML)
	case !c.usesTopologyFile():
		return nil
	default:
		c.topology, err = c.switches()
	}
	if err != nil {
		return err
	}
	found, err := c.topology.Check(c.places())
	c.Warnings = append(append(c.Warnings, c.topology.Warnings...), found...)
	return err
}

// switches returns the switches of topology.conf.
func (c *Cluster) switches() (*topology.File, error) {
	var groups []topology.Group
	for _, s := range c.Topology {
		nodes, hasNodes := s.Get("Nodes")
		children, hasSwitches := s.Get("Switches")
		if hasNodes == hasSwitches {
			return nil, s.errorf("switch %s: both Nodes= and Switches=, or neither (want one of them)", s.Value)
		}
		groups = append(groups, topology.Group{Name: s.Value, Nodes: nodes, Children: children, At: fmt.Sprintf("%s:%d", s.File, s.Line)})
	}
	return topology.Tree(topologyConf, groups)
}

// places returns the nodes and partitions against which topologies are checked.
func (c *Cluster) places() topology.Cluster {
	p := topology.Cluster{
		Known: func(name string) bool { _, ok := c.nodeIndex[name]; return ok }, Expand: c.expand,
		Partitions: map[string]string{}, OwnPlaces: c.TopologyYAML != nil && c.hasAttribute("NodeName", "Topology"),
	}
	for _, n := range c.Nodes {
		p.Nodes = append(p.Nodes, n.Name)
	}
	for _, s := range c.all("PartitionName") {
		if name, ok := s.Get("Topology"); ok && c.TopologyYAML != nil {
			p.Partitions[s.Value] = name
		}
	}
	return p
}

func (c *Cluster) hasAttribute(key, attribute string) bool {
	return slices.ContainsFunc(c.all(key), func(s Statement) bool { _, ok := s.Get(attribute); return ok })
}

// topology translates topology.yaml into TopologyPlugin and a topology.conf, for a release that
// does not read topology.yaml.
func (t *translation) topology() {
	c := t.a.cluster
	if c.TopologyYAML == nil {
		return
	}
	if t.a.release.Since(slurmspec.R2505) {
		if plugin := c.topology.Missing(t.a.release); plugin != "" {
			t.a.errs = append(t.a.errs, fmt.Errorf("%s: Slurm %s has no %s", topologyYAML, t.a.release.Series(), plugin))
		}
		return
	}
	plugin, lines, err := c.topology.Older(t.a.release, c.places())
	if err != nil {
		t.a.errs = append(t.a.errs, fmt.Errorf("%s: slurmctld reads it since 25.05, and the files of %s cannot express the same topology: %w",
			topologyYAML, t.a.release.Series(), err))
		return
	}
	t.find(Statement{}, topologyYAML, "", topologyConf, fmt.Sprintf("slurmctld reads %s since 25.05; TopologyPlugin=%s and %s have the same effect", topologyYAML, plugin, topologyConf))
	site, _ := c.statement("TopologyPlugin")
	t.out = slices.DeleteFunc(t.out, func(s Statement) bool { return strings.EqualFold(s.Key, "TopologyPlugin") })
	t.change(site, "TopologyPlugin", site.Value, plugin, "the plugin of "+topologyYAML)
	t.out = append(t.out, t.value(Statement{Key: "TopologyPlugin", Value: plugin}, rulesByKey["topologyplugin"]))
	if t.a.topologyConf = []byte{}; lines != nil {
		t.a.topologyConf = []byte("# The site's " + topologyYAML + "\n" + strings.Join(lines, "\n") + "\n")
	}
}

// topology returns the statements of topology.conf. The host lists in the statements have a form that the release
// reads.
func (a *adapter) topology() []Statement {
	out := slices.Clone(a.cluster.Topology)
	for i := range out {
		out[i].Attributes = slices.Clone(out[i].Attributes)
		for j, attribute := range out[i].Attributes {
			if strings.EqualFold(attribute.Key, "Nodes") {
				out[i].Attributes[j].Value = values.HostList(attribute.Value, a.release)
			}
		}
	}
	return out
}
