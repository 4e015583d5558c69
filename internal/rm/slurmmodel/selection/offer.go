package selection

// anyTasks stands for no limit of a node's tasks.
const anyTasks = 1 << 31

// offer returns how many CPUs of a node the job can use (_select_cores). For a job with generic
// resources it also removes the cores that the job cannot use with them.
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

// tasks returns how many tasks of the job a node has at least and at most.
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
