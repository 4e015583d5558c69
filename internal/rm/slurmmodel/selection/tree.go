package selection

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// tree takes nodes by topology/tree (_eval_nodes_topo): the lightest nodes below the best switch,
// from few leaves that are close to each other. Since 24.11, if the job would use more leaves than
// it asks for and accepts fewer nodes, tree tries again with fewer nodes.
func (p *pick) tree(nodes Bits) bool {
	if !p.m.Since2411 {
		return p.tree1(nodes)
	}
	all := nodes.Clone()
	ok := p.tree1(nodes)
	for ok && p.t.scattered && p.c.Wanted > p.c.Min {
		p.c.Wanted--
		p = newPick(p.m, p.t, p.c, p.first)
		copy(nodes, all)
		p.t.scattered = false
		ok = p.tree1(nodes)
	}
	return ok
}

func (p *pick) tree1(nodes Bits) bool {
	best, s, over, ok := p.enter(nodes, func(classes []class, s *switches) int { return p.top(nodes, classes, s) })
	if over {
		return ok
	}
	if !p.takeLeaves(best, nodes, s) {
		return false
	}
	p.countLeaves(nodes)
	return true
}

// enter takes the nodes that a job names, and light nodes below the switch that the function top
// returns. It returns the nodes to choose the rest from, and the switches. The result over says
// that the choice has ended with the result ok.
func (p *pick) enter(nodes Bits, top func(classes []class, s *switches) int) (best Bits, s *switches, over, ok bool) {
	if done, ok := p.required(nodes); done || !ok {
		p.countLeaves(nodes)
		return nil, s, true, ok
	}
	classes := p.classes(nodes)
	s = p.switches(nodes)
	at := top(classes, s)
	if at < 0 {
		p.t.advice = noHope
		return nil, s, true, false
	}
	within := p.t.work.within
	copy(within, p.m.Switches[at].Nodes)
	within.And(nodes)
	named := p.t.request.Required
	if named != nil && !within.Contains(named) {
		return nil, s, true, false
	}
	nodes.Reset()
	if named != nil {
		copy(nodes, named)
		s.mark(named)
	}
	best, light, ok := p.lightest(classes, within)
	if !ok {
		p.t.advice = noHope
		return nil, s, true, false
	}
	p.t.advice = withoutOneTaken
	if !p.takeLight(light, nodes, s) {
		return nil, s, true, false
	}
	best.Or(nodes)
	return best, s, false, true
}

// switches is the state of the switches during a choice.
type switches struct {
	m     *Machine
	used  []bool
	nodes []int // number of nodes below each switch that the job could get
	cpus  []int // number of CPUs below each switch when the choice began; 0 before 24.11
	dist  []int // sum of the distances from each switch to the switches in use
}

func newSwitches(m *Machine) switches {
	n := len(m.Switches)
	return switches{m: m, used: make([]bool, n), nodes: make([]int, n), cpus: make([]int, n), dist: make([]int, n)}
}

// switches begins a choice. The result is valid until the next call.
func (p *pick) switches(nodes Bits) *switches {
	s := &p.t.work.switches
	clear(s.used)
	clear(s.nodes)
	clear(s.cpus)
	clear(s.dist)
	if p.m.Since2411 {
		for i := range p.m.Switches {
			for node := range nodes.All {
				if p.m.Switches[i].Nodes.Has(node) {
					s.cpus[i] += p.t.rooms[node].cpus
				}
			}
		}
	}
	return s
}

// mark marks the switches above one of the nodes as used.
func (s *switches) mark(nodes Bits) {
	for i := range s.m.Switches {
		s.used[i] = s.used[i] || s.m.Switches[i].Nodes.Overlaps(nodes)
	}
}

// taken subtracts taken nodes from the counts of a leaf and of all switches above.
func (s *switches) taken(leaf, count int) {
	if !s.m.Since2411 {
		return
	}
	for i := leaf; ; i = s.m.Switches[i].Parent {
		s.nodes[i] = max(0, s.nodes[i]-count)
		if s.m.Switches[i].Parent == i {
			return
		}
	}
}

func (s *switches) addDistance(from int) {
	for i, d := range s.m.Switches[from].Distance {
		s.dist[i] = min(hardware.Far, s.dist[i]+d)
	}
}

// countLeaves sets scattered if the job still waits for switches and would use too many leaves.
func (p *pick) countLeaves(nodes Bits) {
	if p.t.request.Switches == 0 || !p.t.request.Patient {
		return
	}
	leaves := 0
	for i := range p.m.Switches {
		if s := &p.m.Switches[i]; s.Level == 0 && s.Nodes.Overlaps(nodes) {
			leaves++
		}
	}
	p.t.scattered = leaves > p.t.request.Switches
}

// class has the candidates of one weight.
type class struct {
	weight uint64
	nodes  Bits
}

// classes returns candidates by weight, lightest first. The result is valid until the next call.
func (p *pick) classes(nodes Bits) []class {
	list := p.t.work.classes[:0]
	at := 0
	for i := range nodes.All {
		w := p.t.weights.Of(i)
		if at == len(list) || list[at].weight != w { // most nodes have the weight of the node before
			at = slices.IndexFunc(list, func(c class) bool { return c.weight == w })
		}
		if at < 0 {
			at = len(list)
			list = slices.Grow(list, 1)[:at+1] // reuses the set of an earlier call
			if list[at].weight = w; list[at].nodes == nil {
				list[at].nodes = NewBits(len(p.m.Nodes))
			}
			list[at].nodes.Reset()
		}
		list[at].nodes.Set(i)
	}
	p.t.work.classes = list
	slices.SortFunc(list, func(a, b class) int { return cmp.Compare(a.weight, b.weight) })
	return list
}

// top returns the switch below which nodes are chosen, or -1. If the job names nodes, the result is the highest switch
// above a named node. Otherwise the result is the highest switch that has enough nodes and has the lightest nodes.
func (p *pick) top(nodes Bits, classes []class, of *switches) int {
	top, lightest := -1, uint64(0)
	named := p.t.request.Required
	for i := range p.m.Switches {
		s := &p.m.Switches[i]
		if named != nil {
			if s.Nodes.Overlaps(named) && (top < 0 || s.Level > p.m.Switches[top].Level) {
				top = i
			}
			continue
		}
		if !p.enough(s.Nodes.CountAnd(nodes)) || p.m.Since2411 && p.cpus > of.cpus[i] {
			continue
		}
		at := slices.IndexFunc(classes, func(c class) bool { return c.nodes.Overlaps(s.Nodes) })
		if at < 0 {
			continue
		}
		w := classes[at].weight
		if top < 0 || s.Level >= p.m.Switches[top].Level && w <= lightest {
			top, lightest = i, w
		}
	}
	return top
}

// lightest adds the nodes of the lightest weight to the set best, then the nodes of the next weight, and so on. It ends
// when best can serve the job; since 24.11, when best also has as many nodes as the job wants. The result light has the
// nodes of best without those of the last weight. Both sets are valid until the next call.
func (p *pick) lightest(classes []class, within Bits) (best, light Bits, ok bool) {
	best, light = p.t.work.best, p.t.work.light
	best.Reset()
	cpus, count := 0, 0
	var devices []int
	for k := range classes {
		copy(light, best)
		for i := classes[k].nodes.NextAnd(within, 0); i >= 0; i = classes[k].nodes.NextAnd(within, i+1) {
			if p.has[i] > 0 {
				continue
			}
			if p.has[i] = p.offer(i); p.has[i] == 0 {
				continue
			}
			best.Set(i)
			cpus += p.has[i]
			count++
			devices = p.addDevices(devices, i)
		}
		ok = ok || cpus >= p.cpus && p.enough(count) && p.hasDevices(devices)
		if ok && (!p.m.Since2411 || count >= p.nodes && cpus >= p.cpus) {
			break
		}
	}
	return best, light, ok
}

// takeLight takes all nodes of the set light. It returns false if the job may get no further nodes.
func (p *pick) takeLight(light, nodes Bits, s *switches) bool {
	taken := false
	for i := range light.All {
		if p.most == 0 {
			break
		}
		if !p.take(i, p.has[i]) {
			light.Clear(i)
			continue
		}
		taken = true
	}
	if taken {
		nodes.Or(light)
		s.mark(light)
	}
	return p.most > 0
}

// takeLeaves takes the other nodes: from leaves in use first, then from the best leaf, and so on.
func (p *pick) takeLeaves(best, nodes Bits, s *switches) bool {
	for i := range p.m.Switches {
		s.nodes[i] = p.m.Switches[i].Nodes.CountAnd(best)
	}
	total := 0
	for i := range p.m.Switches {
		if !s.used[i] || p.m.Switches[i].Level != 0 {
			continue
		}
		before := nodes.Count()
		if p.takeLeaf(i, best, nodes) {
			return true
		}
		total += nodes.Count() - before
		s.taken(i, total)
	}
	for i := range p.m.Switches {
		if s.used[i] {
			s.addDistance(i)
		}
	}
	for before := p.nodes + 1; before != p.nodes; {
		before = p.nodes
		next := -1
		for i := range p.m.Switches {
			if !s.used[i] && p.m.Switches[i].Level == 0 {
				next = p.betterLeaf(s, i, next)
			}
		}
		if next < 0 {
			break
		}
		s.addDistance(next)
		if p.takeLeaf(next, best, nodes) {
			return true
		}
		s.taken(next, s.nodes[next])
		s.nodes[next] = 0
	}
	return p.served()
}

// takeLeaf takes the nodes of a leaf in order. It returns true if the job has all that it wants.
func (p *pick) takeLeaf(leaf int, best, nodes Bits) bool {
	reached := p.m.Switches[leaf].Nodes
	for i := reached.NextAnd(best, 0); i >= 0 && p.most != 0; i = reached.NextAnd(best, i+1) {
		if nodes.Has(i) || p.has[i] == 0 || !p.take(i, p.has[i]) {
			continue
		}
		if nodes.Set(i); p.done() {
			return true
		}
	}
	return false
}

// betterLeaf returns the better of two leaves, leaf and best. The parameter best is the best leaf
// so far, or -1 (_topo_choose_best_switch).
func (p *pick) betterLeaf(s *switches, leaf, best int) int {
	if best < 0 || s.dist[leaf] >= hardware.Far || s.nodes[leaf] == 0 {
		if s.nodes[leaf] > 0 && s.dist[leaf] < hardware.Far {
			return leaf
		}
		return best
	}
	better, fits := p.compareSwitches(s, leaf, best)
	closer := better >= 0
	if p.m.Since2411 {
		closer = fits
	}
	if s.dist[leaf] < s.dist[best] && closer || s.dist[leaf] == s.dist[best] && better > 0 {
		return leaf
	}
	return best
}

// compareSwitches returns a number above 0 if switch i is better for the rest of the job than switch j, and below 0 if
// it is worse. If neither switch has enough nodes, compareSwitches compares the switches above them. The result fits
// reports whether switch i, or the switch above it that decided, has enough nodes.
func (p *pick) compareSwitches(s *switches, i, j int) (better int, fits bool) {
	suffices := func(i int) bool { return s.nodes[i] >= p.nodes && (!p.m.Since2411 || s.cpus[i] >= p.cpus) }
	for {
		fits = suffices(i)
		other := suffices(j)
		switch {
		case fits && other && s.nodes[i] != s.nodes[j]:
			return s.nodes[j] - s.nodes[i], fits
		case fits && other:
			return p.m.Switches[j].Level - p.m.Switches[i].Level, fits
		case fits:
			return 1, fits
		case other:
			return -1, fits
		}
		up, over := p.m.Switches[i].Parent, p.m.Switches[j].Parent
		if up == i && over == j || up == over {
			break
		}
		i, j = up, over
	}
	if s.nodes[i] != s.nodes[j] {
		return s.nodes[i] - s.nodes[j], fits
	}
	return p.m.Switches[j].Level - p.m.Switches[i].Level, fits
}
