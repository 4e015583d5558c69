package selection

// spread takes as many nodes as the job wants and puts one task on each. It then adds tasks to
// these nodes in turn, and takes more nodes while tasks are left (_eval_nodes_spread in 26.05).
func (p *pick) spread(nodes Bits) bool {
	r := p.t.request
	s := spreading{p: p, used: make([]int, len(p.m.Nodes)), cpus: p.cpus, wanted: p.nodes, most: uint32(p.maxByTasks())}
	for i := range nodes.All {
		if p.has[i] = p.offer(i); p.has[i] == 0 {
			continue
		}
		if r.Required != nil && r.Required.Has(i) {
			if s.most == 0 {
				p.t.advice = noHope
				return false
			}
			s.add(i)
		}
	}
	classes := p.classes(nodes)
	for more := s.most > 0; more; {
		before := s.most
		for k := range classes {
			s.addOf(classes[k].nodes)
		}
		s.fill()
		if s.wanted == 0 {
			s.wanted++
		}
		more = (s.cpus > 0 || !p.hasDevices(nil)) && s.most > 0 && s.most != before
	}
	s.fill()
	nodes.Reset()
	for i, used := range s.used {
		if used > 0 && p.take(i, max(used, r.MinCPUsPerNode)) {
			nodes.Set(i)
		}
	}
	return p.least <= 0 && p.cpus <= 0 && p.hasDevices(nil)
}

// spreading counts the CPUs that the job uses on each node.
type spreading struct {
	p            *pick
	used         []int
	cpus, wanted int // CPUs and nodes still needed
	// most is how many nodes the job may still get. It is unsigned, as in slurmctld.
	most uint32
}

// addOf puts a task on each node of a weight until the job has enough nodes. If the job has enough nodes
// already, slurmctld still takes one node of each heavier weight.
func (s *spreading) addOf(nodes Bits) {
	for i := range nodes.All {
		if s.used[i] > 0 || s.p.has[i] == 0 {
			continue
		}
		if s.add(i); s.most == 0 || s.wanted <= 0 {
			return
		}
	}
}

// add takes a node and puts one task on it.
func (s *spreading) add(node int) {
	s.used[node] = s.p.t.request.CPUsPerTask
	s.cpus -= s.used[node]
	s.wanted--
	s.most--
}

// fill adds tasks to the nodes in turn, as long as they fit.
func (s *spreading) fill() {
	for room := true; room && s.cpus > 0; {
		room = false
		for i, used := range s.used {
			if used > 0 && used < s.p.has[i] && s.cpus > 0 {
				s.used[i] += s.p.t.request.CPUsPerTask
				s.cpus -= s.p.t.request.CPUsPerTask
				room = true
			}
		}
	}
}
