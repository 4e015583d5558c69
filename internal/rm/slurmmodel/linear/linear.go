// Package linear chooses whole nodes for a job like Slurm's select/linear. It does not know which nodes are
// free: the caller gives it the nodes to choose from.
package linear

import (
	"strings"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/series"
)

// Plugin is the value of SelectType.
const Plugin = "select/linear"

// IsConfigured reports whether slurm.conf chooses the plugin.
func IsConfigured(get keys.Get) bool { return strings.EqualFold(keys.Value(get, "SelectType"), Plugin) }

// Cluster is the hardware that a choice depends on. It does not change.
type Cluster struct {
	// Nodes are in Slurm's order.
	Nodes []hardware.Node
	// Switches are the switches of topology/tree if choices follow it; otherwise nil. Optional is
	// TopologyParam=TopoOptional, Dragonfly is TopologyParam=Dragonfly.
	Switches            []hardware.Switch
	Optional, Dragonfly bool
	// Kinds are the nodes with the same hardware, weight and features, in the order of slurm.conf.
	Kinds []nodeset.Set
}

// Counts are numbers of nodes: the job needs Min, may have Max, and gets Wanted if possible.
type Counts struct{ Min, Max, Wanted int }

// choice is a choice in progress.
type choice struct {
	*Cluster
	r      *hardware.Request
	c      Counts
	cpus   map[int]int // CPUs that count for the job, by node of the set
	chosen nodeset.Set

	left, nodes, most int // CPUs and nodes still wanted, and nodes that the job may still get
}

// Choose returns the nodes of a set that a job gets; nil if the set does not suffice (_job_test in
// select_linear.c). The result scattered says that the job uses more leaf switches than it waits for.
func (l *Cluster) Choose(r *hardware.Request, set nodeset.Set, c Counts) (chosen nodeset.Set, scattered bool) {
	if set.Count() < c.Min || !set.Contains(r.Required) {
		return nil, false
	}
	p := choice{
		Cluster: l, r: r, c: c, cpus: map[int]int{}, chosen: nodeset.New(len(l.Nodes)),
		left: r.MinCPUs, nodes: max(c.Min, c.Wanted), most: c.Max,
	}
	for i := range set.All {
		p.cpus[i] = CPUs(r, &l.Nodes[i])
	}
	var ok bool
	if len(l.Switches) > 0 && (!l.Optional || r.Switches > 0) {
		ok, scattered = p.tree(set)
	} else {
		ok = p.flat(set)
	}
	if !ok {
		return nil, false
	}
	return p.chosen, scattered
}

// CPUs returns how many CPUs of a node count for a job (_get_avail_cpus). With --ntasks-per-core they may be
// more than the node has.
func CPUs(r *hardware.Request, n *hardware.Node) int {
	cpus := n.CPUs
	if r.TasksPerCore > 0 {
		cpus = max(cpus, n.CoreCount()*r.TasksPerCore*r.CPUsPerTask)
	}
	if r.TasksPerNode > 0 {
		cpus = min(cpus, r.TasksPerNode*r.CPUsPerTask)
	}
	return cpus
}

// CountCPUs returns the CPUs of nodes.
func (l *Cluster) CountCPUs(nodes nodeset.Set) (sum int) {
	for i := range nodes.All {
		sum += l.Nodes[i].CPUs
	}
	return sum
}

// take gives a node to the job.
func (p *choice) take(node int) {
	p.chosen.Set(node)
	p.left -= p.cpus[node]
	p.nodes--
	p.most--
}

// done reports whether the job has all that it wants.
func (p *choice) done() bool { return p.nodes <= 0 && p.left <= 0 }

// enough reports whether a number of nodes is enough (_enough_nodes).
func (p *choice) enough(nodes int) bool { return nodes >= p.nodes-max(0, p.c.Wanted-p.c.Min) }

// flat takes nodes of the series that fits best, then of the next best. If nodes differ in CPUs and small
// nodes may not suffice, it takes the largest nodes.
func (p *choice) flat(set nodeset.Set) bool {
	d := series.Divider{Contiguous: true}
	fewest, differ := -1, false
	for i := range set.All {
		differ = differ || fewest >= 0 && p.cpus[i] != fewest
		if fewest < 0 || p.cpus[i] < fewest {
			fewest = p.cpus[i]
		}
		if p.r.Required != nil && p.r.Required.Has(i) && p.most > 0 {
			d.Name(i, 0)
			p.take(i)
		} else {
			d.Add(i, p.cpus[i], 0)
		}
	}
	list := d.All()
	switch {
	case differ && p.left > fewest*p.nodes:
		p.takeLargest(set)
	case p.r.Contiguous && p.apart(list):
		return p.finished()
	case p.takeSeries(list):
		return true
	}
	return p.finished()
}

// finished reports whether the job has what it needs.
func (p *choice) finished() bool { return p.left <= 0 && p.enough(0) }

// apart reports whether nodes that the job names are in several series.
func (p *choice) apart(list []series.Series) bool {
	with := 0
	for i := range list {
		if list[i].Required >= 0 {
			with++
		}
	}
	return with > 1
}

// takeLargest takes nodes with the most CPUs, the last of them first.
func (p *choice) takeLargest(set nodeset.Set) {
	for p.most > 0 && !p.done() {
		largest := -1
		for i := range set.All {
			if !p.chosen.Has(i) && (largest < 0 || p.cpus[i] >= p.cpus[largest]) {
				largest = i
			}
		}
		if largest < 0 {
			return
		}
		p.take(largest)
	}
}

// takeSeries takes nodes of the series that fits best, then of the next best. For --contiguous it takes nodes
// of one series, if this series suffices; slurmctld then does not count the taken CPUs. It returns true if the
// job has what it wants.
func (p *choice) takeSeries(list []series.Series) bool {
	sufficient := func(s *series.Series) bool { return s.CPUs >= p.left && p.enough(s.Nodes) }
	for p.most > 0 {
		best := series.Best(list, p.r.Contiguous, p.r.Required != nil, sufficient)
		if best == nil || p.r.Contiguous && !sufficient(best) {
			break
		}
		for _, i := range best.Order() {
			if p.most <= 0 || p.done() {
				break
			}
			if !p.chosen.Has(i) {
				p.take(i)
			}
		}
		if p.done() || p.r.Contiguous {
			return true
		}
		best.Nodes, best.CPUs = 0, 0
	}
	return false
}
