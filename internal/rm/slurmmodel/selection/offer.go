package selection

// anyTasks is the number of tasks if it is not limited.
const anyTasks = 1 << 31

// offer returns how many CPUs of a node the job can use (_select_cores). It also removes cores that
// the job cannot use together with its generic resources.
func (p *pick) offer(node int) int {
	r, at := p.t.request, &p.t.rooms[node]
	least, most := p.tasks(node)
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
	if len(r.Devices) > 0 {
		return p.offerDevices(node, at.cpus, least, most)
	}
	return at.cpus
}

// tasks returns the smallest and largest number of tasks that the job may have on a node.
func (p *pick) tasks(node int) (least, most int) {
	r, n := p.t.request, &p.m.Nodes[node]
	switch {
	case r.TasksPerNode > 0:
		return r.TasksPerNode, r.TasksPerNode
	case r.TasksPerSocket > 0:
		return r.TasksPerSocket, r.TasksPerSocket * n.Sockets
	case r.TasksPerCore > 0:
		return r.TasksPerCore, r.TasksPerCore * n.Sockets * n.Cores
	case r.MaxNodes == 1 && r.Tasks > 0:
		return r.Tasks, r.Tasks
	case r.MaxNodes != 1 && (r.Tasks == 1 || r.Tasks > 0 && r.Tasks == p.c.Min && r.Tasks == r.MaxNodes):
		return 1, 1
	}
	return 1, anyTasks
}
