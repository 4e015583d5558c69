package topology

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
)

// Older translates the file for a release before 25.05: into the value of TopologyPlugin and the lines of topology.conf
// (none for topology/flat). The error says why the release has no equivalent. A release before 25.05 has one topology
// for the whole cluster, fewer plugins, and stricter rules for switches and blocks.
func (f *File) Older(release slurmspec.Release, c Cluster) (plugin string, lines []string, err error) {
	t := f.Topologies[0]
	for partition, name := range c.Partitions {
		if name != t.Name {
			return "", nil, fmt.Errorf("partition %s has the topology %s, but Slurm %s has only one topology for all partitions",
				partition, name, release.Series())
		}
	}
	if c.OwnPlaces && t.Plugin != "topology/flat" {
		return "", nil, fmt.Errorf("slurm.conf has Topology= for nodes, but slurmctld reads it only since 25.05")
	}
	switch {
	case t.Plugin == "topology/flat":
		return t.Plugin, nil, nil
	case t.Plugin == "topology/tree":
		lines, err = t.switches(release)
	case t.Plugin == "topology/block" && release.Since(slurmspec.R2311):
		lines, err = t.blocks(release, c)
	default:
		err = fmt.Errorf("%s is not in Slurm %s", t.Plugin, release.Series())
	}
	return t.Plugin, lines, err
}

func line(key, value, attribute, list string) string {
	return key + "=" + syntax.Quote(value) + " " + attribute + "=" + syntax.Quote(list)
}

func (t *Topology) switches(release slurmspec.Release) (lines []string, err error) {
	for _, g := range t.Groups {
		switch {
		case g.Nodes != "":
			lines = append(lines, line("SwitchName", g.Name, "Nodes", g.Nodes))
		case g.Children != "":
			lines = append(lines, line("SwitchName", g.Name, "Switches", g.Children))
		default:
			return nil, fmt.Errorf(
				"switch %s has neither nodes nor children, and slurmctld %s does not start with such a switch", g.Name,
				release.Series())
		}
	}
	return lines, nil
}

// blocks returns the lines for topology/block. The planning base is the first of BlockSizes. Without sizes, the
// planning base is the number of nodes of the first block. 23.11 has BlockLevels in place of BlockSizes: level n means
// 2ⁿ times the first block's size.
func (t *Topology) blocks(release slurmspec.Release, c Cluster) (lines []string, err error) {
	base := 0
	if len(t.Sizes) > 0 {
		base = t.Sizes[0]
	}
	for i, g := range t.Groups {
		names, err := c.expand(g)
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", g.Name, err)
		}
		count := len(slices.DeleteFunc(names, func(name string) bool { return !c.Known(name) }))
		if base == 0 {
			base = count
		}
		if count == 0 || count < base {
			return nil, fmt.Errorf(
				"block %s has %d nodes, and slurmctld %s does not start if a block has fewer than the base of %d", g.Name, count,
				release.Series(), max(base, 1))
		}
		if i == 0 && count != base && !release.Since(slurmspec.R2405) {
			return nil, fmt.Errorf("the base is %d nodes, but slurmctld %s always uses the size of the first block "+
				"as the base (%s has %d nodes)", base, release.Series(), g.Name, count)
		}
		lines = append(lines, line("BlockName", g.Name, "Nodes", g.Nodes))
	}
	if len(t.Sizes) == 0 {
		return lines, nil
	}
	sizes := make([]string, len(t.Sizes))
	for i, size := range t.Sizes {
		sizes[i] = strconv.Itoa(size)
	}
	if release.Since(slurmspec.R2405) {
		return append(lines, "BlockSizes="+strings.Join(sizes, ",")), nil
	}
	levels := make([]string, len(t.Sizes))
	for i, size := range t.Sizes {
		levels[i] = strconv.Itoa(bits.TrailingZeros(uint(size / base)))
	}
	return append(lines, "BlockLevels="+strings.Join(levels, ",")), nil
}
