package selection

import (
	"cmp"
	"slices"
)

// series is a row of successive nodes that can serve the job. They have the same weight, except for
// --contiguous.
type series struct {
	first, last int
	nodes, cpus int
	required    int // the first node of the series that the job names, or -1
	weight      uint64
	devices     []int // resources of the nodes for each request that is for the whole job
}

// consecutive takes nodes from the series that fits best, then from the next best (_eval_nodes).
func (p *pick) consecutive(nodes Bits) bool {
	if done, ok := p.required(nodes); done || !ok {
		return ok
	}
	list := p.series(nodes)
	if named := p.t.request.Required; named != nil {
		copy(nodes, named)
	} else {
		nodes.Reset()
	}
	for p.most > 0 {
		best := p.best(list)
		if best == nil || p.t.request.Contiguous && !p.sufficient(best) {
			break
		}
		p.takeSeries(best, nodes)
		if p.done() {
			return true
		}
		best.nodes, best.cpus = 0, 0
	}
	return p.cpus <= 0 && p.enough(0) && p.hasDevices(nil)
}

// series divides the candidates into series.
func (p *pick) series(nodes Bits) []series {
	var list []series
	current := series{required: -1}
	end := func() {
		if current.nodes > 0 {
			list = append(list, current)
		}
		current = series{required: -1}
	}
	previous := -2
	for i := range nodes.All {
		named := p.t.request.Required != nil && p.t.request.Required.Has(i)
		if !named {
			if p.has[i] = p.offer(i); p.has[i] == 0 {
				continue
			}
		}
		weight := p.t.weights[i]
		if i != previous+1 || !p.t.request.Contiguous && current.nodes > 0 && weight != current.weight {
			end()
		}
		previous = i
		if current.nodes == 0 {
			current.first = i
		}
		current.last = i
		if named {
			if current.required < 0 {
				current.required = i
			}
			continue
		}
		current.nodes++
		current.cpus += p.has[i]
		current.weight = weight
		current.devices = p.addDevices(current.devices, i)
	}
	end()
	return list
}

func (p *pick) sufficient(s *series) bool {
	return s.cpus >= p.cpus && p.enough(s.nodes) && p.hasDevices(s.devices)
}

// best returns the series that fits the rest of the job best, or nil.
func (p *pick) best(list []series) *series {
	var best *series
	contiguous := p.t.request.Contiguous
	for i := range list {
		s := &list[i]
		if s.nodes == 0 || contiguous && p.t.request.Required != nil && s.required < 0 {
			continue
		}
		better := best == nil || best.required < 0 && s.required >= 0 || s.weight < best.weight
		if !better && s.weight == best.weight {
			enough, was := p.sufficient(s), p.sufficient(best)
			better = enough && !was || enough && s.cpus < best.cpus || !enough && s.cpus > best.cpus
		}
		if !better && contiguous {
			better = p.sufficient(s) && !p.sufficient(best)
		}
		if better {
			best = s
		}
	}
	return best
}

// takeSeries takes nodes of a series until the job has enough.
func (p *pick) takeSeries(s *series, nodes Bits) {
	if s.required >= 0 {
		p.takeUpAndDown(s, nodes)
		return
	}
	first, last := s.first, s.last
	if p.nodes <= 1 {
		if i := p.tightest(first, last, nodes); i >= 0 {
			first, last = i, i
		}
	}
	for i := first; i <= last && p.most > 0 && !p.done(); i++ {
		cpus := p.has[i]
		if nodes.Has(i) || cpus == 0 || p.most == 1 && cpus < p.cpus {
			continue
		}
		if p.take(i, cpus) {
			nodes.Set(i)
		}
	}
}

// takeUpAndDown takes the nodes after the node that the job names, then the nodes before it.
func (p *pick) takeUpAndDown(s *series, nodes Bits) {
	var order []int
	for i := s.required; i <= s.last; i++ {
		order = append(order, i)
	}
	for i := s.required - 1; i >= s.first; i-- {
		order = append(order, i)
	}
	for _, i := range order {
		if p.most == 0 || p.done() {
			return
		}
		if !nodes.Has(i) && p.has[i] > 0 && p.take(i, p.has[i]) {
			nodes.Set(i)
		}
	}
}

// tightest returns the node with the fewest CPUs that can serve the job alone, or -1.
func (p *pick) tightest(first, last int, nodes Bits) int {
	best := -1
	for i := first; i <= last; i++ {
		if nodes.Has(i) || p.has[i] == 0 || p.has[i] < p.cpus || !p.hasDevices(p.addDevices(nil, i)) {
			continue
		}
		if best < 0 || p.has[i] < p.has[best] {
			if best = i; p.has[i] == p.cpus {
				break
			}
		}
	}
	return best
}

// ordered takes nodes in the order of the function less, until the job has enough.
func (p *pick) ordered(nodes Bits, less func(a, b int) int) bool {
	p.most = p.maxByTasks()
	if done, ok := p.required(nodes); done || !ok {
		return ok
	}
	order := p.candidates(nodes)
	slices.SortStableFunc(order, less)
	for _, i := range order {
		if p.most == 0 || p.done() {
			break
		}
		if p.take(i, p.has[i]) {
			nodes.Set(i)
		}
	}
	return p.served()
}

// candidates returns the nodes that can serve the job, except those that the job names. Only the
// nodes that the job names stay in the set.
func (p *pick) candidates(nodes Bits) []int {
	var order []int
	for i := range nodes.All {
		if named := p.t.request.Required; named != nil && named.Has(i) {
			continue
		}
		nodes.Clear(i)
		if p.has[i] = p.offer(i); p.has[i] > 0 {
			order = append(order, i)
		}
	}
	return order
}

// byWeight compares weights.
func (p *pick) byWeight(a, b int) int { return cmp.Compare(p.t.weights[a], p.t.weights[b]) }

// busyFirst orders by weight, then nodes with jobs first (_eval_nodes_busy).
func (p *pick) busyFirst(a, b int) int {
	if by := p.byWeight(a, b); by != 0 {
		return by
	}
	x, y := p.t.state.Idle(a), p.t.state.Idle(b)
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// lastFirst orders by weight, then the last node first (_eval_nodes_serial).
func (p *pick) lastFirst(a, b int) int {
	if by := p.byWeight(a, b); by != 0 {
		return by
	}
	return b - a
}
