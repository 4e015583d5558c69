package selection

// offer returns how many CPUs of a node the job can use (_select_cores). It also removes cores that
// the job cannot use together with its generic resources.
func (p *pick) offer(node int) int {
	if at := &p.t.rooms[node]; len(p.t.request.Devices) > 0 {
		return p.offerWithDevices(node)
	} else if at.cpus >= p.leastCPUs {
		return at.cpus
	}
	return 0
}

// offerWithDevices is offer for a job with generic resources.
func (p *pick) offerWithDevices(node int) int {
	r, at := p.t.request, &p.t.rooms[node]
	least, most := r.TasksOn(&p.m.Nodes[node], p.c.Min)
	if !r.Overcommit {
		tasks := at.cpus / r.CPUsPerTask
		if tasks < least {
			return 0
		}
		most = min(most, tasks)
	}
	if p.m.Since2605 && r.Tasks > 0 {
		most = min(most, r.Tasks)
	}
	return p.offerDevices(node, at.cpus, least, most)
}
