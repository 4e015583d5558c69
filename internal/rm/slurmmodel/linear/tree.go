package linear

import "rmreplay/internal/rm/nodeset"

// leaves has the leaf switches below the switch that the job's nodes are chosen from, by index.
type leaves struct {
	nodes     []int // nodes that the job could still get; 0 for a switch that is not such a leaf
	cpus      []int // CPUs of the nodes below each switch
	used      []int // nodes that the job has
	reachable []nodeset.Set
	count     int // leaves taken, for --switches
}

// tree takes nodes by topology/tree (_job_test_topo, _job_test_dfly): below the lowest switch that suffices,
// of two such switches the one with fewer nodes, from the leaves with the fewest CPUs.
func (p *choice) tree(set nodeset.Set) (ok, scattered bool) {
	s, ok := p.leaves(set)
	if !ok || p.r.Required != nil && p.r.Required.Count() > p.c.Max {
		return false, false
	}
	if p.r.Required != nil {
		p.takeNamed(s)
	}
	switches := p.r.Switches
	if p.Dragonfly && switches > 1 { // slurmctld ignores more than one
		switches = 0
	}
	for p.most >= 0 && !p.done() {
		leaf := p.bestLeaf(s)
		if leaf < 0 {
			break
		}
		p.takeLeaf(s, leaf, p.Dragonfly)
		s.count++
		scattered = switches > 0 && p.r.Patient && s.count > switches
	}
	return p.most >= 0 && p.left <= 0 && p.chosen.Count() >= p.c.Min, scattered
}

// leaves finds the leaves to choose from. It returns false if no switch suffices.
func (p *choice) leaves(set nodeset.Set) (*leaves, bool) {
	n := len(p.Switches)
	s := &leaves{nodes: make([]int, n), cpus: make([]int, n), used: make([]int, n), reachable: make([]nodeset.Set, n)}
	best := -1
	for i := range p.Switches {
		s.reachable[i] = p.Switches[i].Nodes.Clone()
		s.reachable[i].And(set)
		for node := range s.reachable[i].All {
			s.cpus[i] += p.cpus[node]
		}
		if s.reachable[i].Contains(p.r.Required) {
			s.nodes[i] = s.reachable[i].Count()
		}
		if s.cpus[i] < p.left || s.nodes[i] < p.c.Min {
			continue
		}
		level := p.Switches[i].Level
		if best < 0 || level < p.Switches[best].Level || level == p.Switches[best].Level && s.nodes[i] < s.nodes[best] {
			best = i
		}
	}
	if best < 0 {
		return nil, false
	}
	for i := range p.Switches {
		if s.nodes[i] = 0; p.Switches[i].Level == 0 && s.reachable[best].Contains(s.reachable[i]) {
			s.nodes[i] = s.reachable[i].Count()
		}
	}
	return s, true
}

// takeNamed takes the nodes that the job names. Without Dragonfly it then takes other nodes of their leaves.
func (p *choice) takeNamed(s *leaves) {
	for i := range s.nodes {
		if p.most < 0 || s.nodes[i] == 0 || !s.reachable[i].Overlaps(p.r.Required) {
			continue
		}
		for node := range p.r.Required.All {
			if !s.reachable[i].Has(node) {
				continue
			}
			s.reachable[i].Clear(node)
			s.nodes[i]--
			s.cpus[i] -= p.cpus[node]
			if !p.chosen.Has(node) {
				s.used[i]++
				p.take(node)
			}
		}
	}
	for i := range s.nodes {
		if p.most < 0 || p.done() {
			return
		}
		if s.used[i] > 0 && !p.Dragonfly {
			p.takeLeaf(s, i, false)
		}
	}
}

// bestLeaf returns the leaf to take nodes of, or -1: the leaf with the fewest CPUs. For Dragonfly the leaf
// with the fewest nodes of the job comes first.
func (p *choice) bestLeaf(s *leaves) int {
	best := -1
	for i := range s.nodes {
		switch {
		case s.nodes[i] == 0:
		case best < 0, p.Dragonfly && s.used[i] < s.used[best],
			(!p.Dragonfly || s.used[i] == s.used[best]) && s.cpus[i] < s.cpus[best]:
			best = i
		}
	}
	return best
}

// takeLeaf takes nodes of a leaf until the job has all that it wants, or one node only.
func (p *choice) takeLeaf(s *leaves, leaf int, one bool) {
	for node := range s.reachable[leaf].All {
		if p.chosen.Has(node) {
			continue
		}
		s.used[leaf]++
		p.take(node)
		if one {
			s.reachable[leaf].Clear(node)
			s.nodes[leaf]--
			s.cpus[leaf] -= p.cpus[node]
			return
		}
		if p.most < 0 || p.done() {
			break
		}
	}
	s.nodes[leaf] = 0
}
