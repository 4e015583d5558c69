// Package machine makes the machine of package selection from slurm.conf and topology.conf.
package machine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/linear"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Switch is a line of topology.conf. It has either nodes or switches.
type Switch struct {
	Name            string
	Nodes, Switches []string
}

// Add sets a machine's nodes, in slurmctld's order, and its switches. The error names a switch that
// is wrong.
func Add(m *selection.Machine, nodes []hpc.Node, switches []Switch) error {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b hpc.Node) int { return hostlist.Natural(a.Name, b.Name) })
	for _, n := range nodes {
		m.Nodes = append(m.Nodes, newNode(n))
	}
	if len(m.Nodes) == 0 {
		return errors.New("a cluster without nodes (want at least one)")
	}
	return addSwitches(m, switches)
}

// newNode returns the hardware of a node of slurm.conf.
func newNode(n hpc.Node) selection.Node {
	out := selection.Node{
		Name: n.Name, Sockets: max(1, n.Sockets), Cores: max(1, n.CoresPerSocket), Threads: max(1, n.ThreadsPerCore),
		CPUs: n.CPUs, Memory: n.RealMemory - n.MemSpecLimit, MemSpecLimit: n.MemSpecLimit, Weight: uint64(n.Weight),
	}
	if n.CPUs == out.Sockets*out.Cores { // CPUs are cores, even if cores have threads
		out.Threads = 1
	}
	for _, g := range n.GRES {
		out.Devices = append(out.Devices, newDevice(g, &out))
	}
	return out
}

// newDevice returns a generic resource. It is at the socket of the first of its cores.
func newDevice(g hpc.GRES, n *selection.Node) selection.Device {
	d := selection.Device{Kind: g.Name, Type: g.Type, Count: int(g.Count), ByType: g.Type != "" && !g.File}
	first, _, _ := strings.Cut(strings.ReplaceAll(g.Cores, "-", ","), ",")
	if core, err := strconv.Atoi(first); err == nil && g.Cores != "" {
		d.BySocket = make([]int, n.Sockets)
		d.BySocket[min(core/n.Cores, n.Sockets-1)] = d.Count
		d.Cores = closeCores(g.Cores, n.CoreCount())
	}
	return d
}

// closeCores returns the cores of an index list of gres.conf, such as "0-15", of a node with this number of
// cores.
func closeCores(list string, cores int) selection.Bits {
	set := selection.NewBits(cores)
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		for c := first; err == nil && c <= min(last, cores-1); c++ {
			set.Set(c)
		}
	}
	return set
}

// addSwitches sets the machine's switches.
func addSwitches(m *selection.Machine, lines []Switch) error {
	if len(lines) == 0 {
		return nil
	}
	index, place := map[string]int{}, map[string]int{}
	for i := range m.Nodes {
		place[m.Nodes[i].Name] = i
	}
	for i, line := range lines {
		index[line.Name] = i
		m.Switches = append(m.Switches, selection.Switch{Name: line.Name, Nodes: selection.NewBits(len(m.Nodes)), Parent: i})
	}
	var fill func(i, depth int) error
	fill = func(i, depth int) error {
		s := &m.Switches[i]
		if depth > len(lines) {
			return fmt.Errorf("switch %s is below itself", s.Name)
		}
		for _, name := range lines[i].Nodes {
			// slurmctld ignores nodes that are not in slurm.conf (_node_name2bitmap in
			// topology_tree.c).
			if at, known := place[name]; known {
				s.Nodes.Set(at)
			}
		}
		for _, name := range lines[i].Switches {
			child, known := index[name]
			if !known {
				return fmt.Errorf("switch %s has switch %s, which topology.conf does not have", s.Name, name)
			}
			if err := fill(child, depth+1); err != nil {
				return err
			}
			m.Switches[child].Parent = i
			s.Level = max(s.Level, m.Switches[child].Level+1)
			s.Nodes.Or(m.Switches[child].Nodes)
		}
		return nil
	}
	for i := range lines {
		if err := fill(i, 0); err != nil {
			return fmt.Errorf("reading topology.conf: %w", err)
		}
	}
	return nil
}

// New returns the machine of a slurm.conf. The error says what is wrong with its nodes or switches.
func New(get keys.Get, release slurmspec.Release, nodes []hpc.Node, switches []Switch) (*selection.Machine, error) {
	rules := parameters.RulesOf(release)
	params := strings.ToUpper(keys.Value(get, "SelectTypeParameters"))
	m := &selection.Machine{
		Since2411: rules.Since2411, Since2605: rules.Since2605,
		CountMemory: strings.Contains(params, "MEMORY"), ByCPU: strings.Contains(params, "CR_CPU"),
		BlockCores:  strings.Contains(params, "CR_CORE_DEFAULT_DIST_BLOCK"),
		LeastLoaded: strings.Contains(params, "CR_LLN"), PackSerial: keys.OptionsOf(get).Has("pack_serial_at_end"),
		TreeOptional: strings.Contains(strings.ToLower(keys.Value(get, "TopologyParam")), "topooptional"),
		Dragonfly:    strings.Contains(strings.ToLower(keys.Value(get, "TopologyParam")), "dragonfly"),
	}
	if err := Add(m, nodes, switches); err != nil {
		return nil, err
	}
	m.Prepare()
	if linear.IsConfigured(get) {
		m.Linear = &linear.Cluster{
			Nodes: m.Nodes, Switches: m.Switches, Optional: m.TreeOptional, Dragonfly: m.Dragonfly,
			Kinds: Kinds(nodes, func(name string) int {
				return slices.IndexFunc(m.Nodes, func(n selection.Node) bool { return n.Name == name })
			}),
		}
	}
	return m, nil
}
