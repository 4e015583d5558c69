package selection

import "slices"

// anyTasks stands for no limit of a node's tasks.
const anyTasks = 1 << 31

// offer returns how many CPUs of a node the job can use (_select_cores). For a job with generic
// resources it also says which cores they leave.
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
	cpus := at.cpus
	for k := range r.Devices {
		if cpus, most = p.offerDevices(node, &r.Devices[k], cpus, least, most); most == 0 {
			return 0
		}
	}
	if len(r.Devices) > 0 {
		cpus = min(cpus, most*r.CPUsPerTask)
	}
	return cpus
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

// offerDevices leaves the job the cores close to the generic resources, as many as its tasks need, and
// takes them evenly from the sockets (gres_select_filter_sock_core).
func (p *pick) offerDevices(node int, d *DeviceRequest, cpus, least, most int) (int, int) {
	r, n, at := p.t.request, &p.m.Nodes[node], &p.t.rooms[node]
	free := p.t.devicesFor(p.m, d, node)
	drop := func(s, count int) {
		for range count {
			at.cores[s]--
			if at.count()*n.Threads < cpus {
				cpus -= n.Threads
			}
		}
	}
	fewest := (max(least, 1)*r.CPUsPerTask + n.Threads - 1) / n.Threads
	everywhere := free[p.m.stride]
	order := make([]int, len(at.cores))
	for s := range order {
		order[s] = s
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(at.cores[b]) - int(at.cores[a]) })
	needed := make([]bool, len(at.cores))
	total, sufficient := everywhere, false
	for _, s := range order {
		if everywhere+free[s] == 0 && p.first {
			drop(s, min(int(at.cores[s]), max(0, at.count()-fewest)))
		}
		if p.first && at.cores[s] == 0 {
			continue
		}
		total += free[s]
		if !sufficient {
			needed[s] = true
		}
		sufficient = sufficient || everywhere == 0 && total >= d.Count
	}
	if total == 0 || total < d.Count {
		return 0, 0
	}
	if p.first {
		for s := range at.cores {
			if !needed[s] {
				drop(s, int(at.cores[s]))
			}
		}
	}
	if most == anyTasks {
		return cpus, most
	}
	per := r.cpusPerCore(n)
	var cores int
	for ; ; most-- {
		if cores = (most*r.CPUsPerTask + per - 1) / per; cores <= at.count() {
			break
		}
		if most <= least {
			return 0, 0
		}
	}
	p.spare(at, needed, cores, drop)
	return cpus, most
}

// spare takes the cores from the job that it does not need.
func (p *pick) spare(at *room, needed []bool, cores int, drop func(s, count int)) {
	if !p.first {
		for s := range at.cores {
			if !needed[s] {
				drop(s, min(int(at.cores[s]), max(0, at.count()-cores)))
			}
		}
	}
	for at.count() > cores {
		fullest := -1
		for s := range at.cores {
			if needed[s] && at.cores[s] > 0 && (fullest < 0 || at.cores[s] > at.cores[fullest]) {
				fullest = s
			}
		}
		if fullest < 0 {
			return
		}
		drop(fullest, 1)
	}
}
