package conf

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/conf/values"
)

// usesTopologyFile reports whether the site's topology plugin reads topology.conf.
func (c *Cluster) usesTopologyFile() bool {
	return c.is("TopologyPlugin", "topology/tree") || c.is("TopologyPlugin", "topology/hypercube")
}

// checkTopology checks topology.conf against the nodes, for the plugins that read the file. It
// warns of unknown names and of nodes without a switch, as Slurm does. They matter because Slurm
// never runs a job on nodes without a common switch.
func (c *Cluster) checkTopology() error {
	if !c.usesTopologyFile() || c.TopologyYAML != nil {
		return nil
	}
	if c.Topology == nil {
		s, _ := c.statement("TopologyPlugin")
		return s.errorf("TopologyPlugin=%s needs a topology.conf beside slurm.conf", s.Value)
	}
	onSwitch := make(map[string]bool)
	switches := make(map[string]bool)
	for _, s := range c.Topology {
		if switches[s.Value] {
			return s.errorf("switch %s is defined twice", s.Value)
		}
		switches[s.Value] = true
		if err := c.checkSwitch(s, onSwitch); err != nil {
			return err
		}
	}
	if err := c.checkSwitchChildren(switches); err != nil {
		return err
	}
	var lost []string
	for _, n := range c.Nodes {
		if !onSwitch[n.Name] {
			lost = append(lost, n.Name)
		}
	}
	if len(lost) > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("topology.conf: no switch has %s", hostlist.Compress(lost)))
	}
	return nil
}

func (c *Cluster) checkSwitch(s Statement, onSwitch map[string]bool) error {
	nodes, hasNodes := s.Get("Nodes")
	_, hasSwitches := s.Get("Switches")
	if hasNodes == hasSwitches {
		return s.errorf("switch %s: want either Nodes= or Switches=", s.Value)
	}
	if !hasNodes {
		return nil
	}
	if strings.EqualFold(nodes, "ALL") {
		for _, n := range c.Nodes {
			onSwitch[n.Name] = true
		}
		return c.charge(len(c.Nodes))
	}
	names, err := c.expand(nodes)
	if err != nil {
		return s.errorf("switch %s: Nodes=%s: %w", s.Value, shorten(nodes), err)
	}
	if unknown := c.unknownNodes(names); len(unknown) > 0 {
		c.warn(s, "switch %s: no such node: %s; Slurm ignores it", s.Value, hostlist.Compress(unknown))
	}
	for _, name := range names {
		onSwitch[name] = true
	}
	return nil
}

func (c *Cluster) checkSwitchChildren(switches map[string]bool) error {
	for _, s := range c.Topology {
		expr, ok := s.Get("Switches")
		if !ok {
			continue
		}
		children, err := c.expand(expr)
		if err != nil {
			return s.errorf("switch %s: Switches=%s: %w", s.Value, shorten(expr), err)
		}
		for _, child := range children {
			if !switches[child] || child == s.Value {
				return s.errorf("switch %s: no such switch: %s", s.Value, child)
			}
		}
	}
	return nil
}

// topology returns the statements of topology.conf with host lists that the release reads.
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
