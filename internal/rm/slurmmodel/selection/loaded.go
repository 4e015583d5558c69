package selection

// leastLoaded takes the nodes that have the largest shares of their CPUs free, lighter ones first
// (_eval_nodes_lln). Until 26.05 each look at a node leaves the job no more of it than it needs then.
func (p *pick) leastLoaded(nodes Bits) bool {
	p.most = p.mostByTasks()
	if done, ok := p.required(nodes); done || !ok {
		return ok
	}
	named := p.t.request.Required
	classes := p.classes(nodes)
	nodes.Reset()
	if named != nil {
		copy(nodes, named)
	}
	for k := range classes {
		if named != nil {
			classes[k].nodes.AndNot(named)
		}
		for last := -1; ; {
			i, cpus := p.mostFree(classes[k].nodes, last)
			if i < 0 {
				break
			}
			classes[k].nodes.Clear(i)
			if cpus == 0 {
				continue
			}
			if p.m.Since2411 && !p.m.Since2605 && len(p.t.request.Devices) > 0 {
				p.t.rooms[i].cpus = cpus // in the next attempt, too (eval_nodes_gres)
			}
			if !p.take(i, cpus) {
				continue
			}
			last = p.t.rooms[i].free
			nodes.Set(i)
			if p.done() || p.most == 0 {
				return p.served()
			}
		}
	}
	return p.served()
}

// mostFree returns the node of a set that has the largest share of its CPUs free, the first one of equal
// ones, with the number of CPUs that it offers; -1 if no node serves. A node that has as many as the last one taken
// ends the search. Since 26.05 slurmctld takes the number from the node at which it has looked last.
func (p *pick) mostFree(set Bits, last int) (best, looked int) {
	best = -1
	for i := range set.All {
		if p.t.rooms[i].cpus == 0 {
			continue
		}
		cpus := p.offer(i)
		looked = cpus
		if !p.m.Since2605 && cpus > 0 {
			cpus = p.use(i, cpus)
		}
		if cpus == 0 {
			continue
		}
		p.has[i] = cpus
		if best < 0 || p.t.rooms[best].free*p.m.Nodes[i].CPUs < p.t.rooms[i].free*p.m.Nodes[best].CPUs {
			if best = i; p.t.rooms[i].free == last {
				break
			}
		}
	}
	if best >= 0 && !p.m.Since2605 {
		looked = p.has[best]
	}
	return best, looked
}
