package selection

// leastLoaded takes the nodes with the largest free share of their CPUs, lighter nodes first
// (_eval_nodes_lln). Before 26.05, looking at a node lowers its offer to the job's remaining needs.
func (p *pick) leastLoaded(nodes Bits) bool {
	p.most = p.maxByTasks()
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
			i, cpus := p.freest(classes[k].nodes, last)
			if i < 0 {
				break
			}
			classes[k].nodes.Clear(i)
			if cpus == 0 {
				continue
			}
			if p.m.Since2411 && !p.m.Since2605 && len(p.t.request.Devices) > 0 {
				p.t.rooms[i].cpus = cpus // stays for the next attempt (eval_nodes_gres)
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

// freest returns the node of a set with the largest free share of its CPUs, and how many CPUs this node offers; -1 if
// no node can serve the job. Of equal nodes it returns the first. The parameter last is the number of free CPUs of the
// previously taken node. If the best node so far also has this number of free CPUs, the search ends. Since 26.05 the
// result looked is the number of CPUs of the last node that slurmctld looked at.
func (p *pick) freest(set Bits, last int) (best, looked int) {
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
