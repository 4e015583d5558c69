package selection

// dragonfly takes nodes by topology/tree with TopologyParam=Dragonfly (_eval_nodes_dfly). It first tries one leaf: the
// leaf in use, or else the leaf with the most nodes. If one leaf does not have enough nodes, dragonfly takes nodes of
// all leaves in turn.
func (p *pick) dragonfly(nodes Bits) bool {
	best, s, over, ok := p.enter(nodes, func([]class, *switches) int { return p.highest(nodes) })
	if over {
		return ok
	}
	if leaf := p.onlyLeaf(s, best); leaf >= 0 && p.leafSuffices(leaf, best, nodes) && p.takeLeaf(leaf, best, nodes) {
		p.countLeaves(nodes)
		return true
	}
	ok = p.takeInTurn(best, nodes)
	p.countLeaves(nodes)
	return ok
}

// highest returns the highest switch above a candidate or, if the job names nodes, above a named
// node; -1 if there is none.
func (p *pick) highest(nodes Bits) int {
	if named := p.t.request.Required; named != nil {
		nodes = named
	}
	top := -1
	for i := range p.m.Switches {
		s := &p.m.Switches[i]
		if s.Nodes.Overlaps(nodes) && (top < 0 || s.Level > p.m.Switches[top].Level) {
			top = i
		}
	}
	return top
}

// onlyLeaf returns the leaf in use. If several leaves are in use, onlyLeaf returns -1. If no leaf is in use, onlyLeaf
// returns the leaf with the most nodes.
func (p *pick) onlyLeaf(s *switches, best Bits) int {
	used, largest, most := -1, -1, 0
	for i := range p.m.Switches {
		if p.m.Switches[i].Level != 0 {
			continue
		}
		if s.used[i] {
			if used >= 0 {
				return -1
			}
			used = i
		}
		if n := p.m.Switches[i].Nodes.CountAnd(best); largest < 0 || n > most {
			largest, most = i, n
		}
	}
	if used >= 0 {
		return used
	}
	return largest
}

// leafSuffices reports whether the nodes of a leaf are enough for the rest of the job.
func (p *pick) leafSuffices(leaf int, best, nodes Bits) bool {
	cpus, count := 0, 0
	var devices []int
	of := p.m.Switches[leaf].Nodes
	for i := of.NextAnd(best, 0); i >= 0; i = of.NextAnd(best, i+1) {
		if !nodes.Has(i) && p.has[i] > 0 {
			cpus += p.has[i]
			count++
			devices = p.addDevices(devices, i)
		}
	}
	return cpus >= p.cpus && p.enough(count) && p.hasDevices(devices)
}

// takeInTurn takes one node of each leaf in turn until the job has all that it wants.
func (p *pick) takeInTurn(best, nodes Bits) bool {
	next := make([]int, len(p.m.Switches)) // by leaf, index of the next node to look at
	for taken := true; taken; {
		taken = false
		for i := range p.m.Switches {
			if p.m.Switches[i].Level != 0 || next[i] < 0 {
				continue
			}
			leaf := p.m.Switches[i].Nodes
			node := leaf.NextAnd(best, next[i])
			for node >= 0 && (nodes.Has(node) || p.has[node] == 0) {
				node = leaf.NextAnd(best, node+1)
			}
			if next[i] = node; node < 0 {
				continue
			}
			next[i]++
			if !p.take(node, p.has[node]) {
				continue
			}
			nodes.Set(node)
			taken = true
			switch {
			case p.done():
				return true
			case p.most == 0:
				return false
			}
		}
	}
	return p.served()
}
