package selection

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/series"
)

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
		best := series.Best(list, p.t.request.Contiguous, p.t.request.Required != nil, p.sufficient)
		if best == nil || p.t.request.Contiguous && !p.sufficient(best) {
			break
		}
		p.takeSeries(best, nodes)
		if p.done() {
			return true
		}
		best.Nodes, best.CPUs = 0, 0
	}
	return p.cpus <= 0 && p.enough(0) && p.hasDevices(nil)
}

// series divides the candidates into series.
func (p *pick) series(nodes Bits) []series.Series {
	d := series.Divider{Contiguous: p.t.request.Contiguous}
	for i := range nodes.All {
		if named := p.t.request.Required; named != nil && named.Has(i) {
			d.Name(i, p.t.weights.Of(i))
		} else if p.has[i] = p.offer(i); p.has[i] > 0 {
			s := d.Add(i, p.has[i], p.t.weights.Of(i))
			s.Devices = p.addDevices(s.Devices, i)
		}
	}
	return d.All()
}

func (p *pick) sufficient(s *series.Series) bool {
	return s.CPUs >= p.cpus && p.enough(s.Nodes) && p.hasDevices(s.Devices)
}

// takeSeries takes nodes of a series until the job has enough.
func (p *pick) takeSeries(s *series.Series, nodes Bits) {
	order := s.Order()
	if s.Required < 0 && p.nodes <= 1 {
		if i := p.tightest(s.First, s.Last, nodes); i >= 0 {
			order = []int{i}
		}
	}
	for _, i := range order {
		if p.most <= 0 || p.done() {
			return
		}
		cpus := p.has[i]
		if nodes.Has(i) || cpus == 0 || s.Required < 0 && p.most == 1 && cpus < p.cpus {
			continue
		}
		if p.take(i, cpus) {
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
func (p *pick) byWeight(a, b int) int { return cmp.Compare(p.t.weights.Of(a), p.t.weights.Of(b)) }

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
