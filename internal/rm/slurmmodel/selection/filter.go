package selection

import (
	"cmp"
	"math"
	"slices"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// filter fits a node to one request for generic resources, as slurmctld does since 24.11
// (_foreach_gres_filter_sock_core).
type filter struct {
	*fitting
	d       *DeviceRequest
	o       *offered
	per     int // CPUs of each core that the job may use
	cpusPer int // CPUs of each resource
	limit   int // maximum of resources for the job on the node; 0 for no maximum
	total   int // number of resources for the job on the node
	sockets int // number of sockets that the job needs
}

// filter fits the node to request number k. If the node has too little, f.most becomes 0.
func (f *fitting) filter(k int) {
	r, first := f.p.t.request, f.p.first
	d, o, step := &r.Devices[k], &f.at.offers[k], f.least
	if first && o.unfiltered == 0 {
		o.unfiltered = o.total
	} else if o.unfiltered > 0 {
		o.total = o.unfiltered
	}
	x := filter{fitting: f, d: d, o: o, per: f.n.Threads, cpusPer: d.CPUs()}
	if r.ThreadsPerCore > 0 {
		x.per = min(x.per, r.ThreadsPerCore)
	}
	if x.setLimit(f.p.devices(k)); f.most == 0 {
		return
	}
	if x.cpusPer == 0 && first {
		x.cpusPer = d.EstimateCPUs(r)
	}
	x.lookAtSockets()
	if x.limitTasks(step); f.most == 0 {
		return
	}
	if first && x.sockets < len(f.at.cores) {
		for s := range f.at.cores {
			if !f.needed[s] {
				x.close(s, int(f.at.cores[s]))
			}
		}
	}
	if f.most == hardware.AnyTasks {
		if x.cpusPer > 0 {
			o.total = min(o.total, f.cpus/x.cpusPer)
		}
		return
	}
	cores := x.cores()
	if cores > f.at.count() {
		f.most = 0
		return
	}
	x.keep(cores)
	if x.cpusPer > 0 {
		if o.total = min(o.total, f.cpus/x.cpusPer); max(d.Count, d.PerTask) > o.total {
			f.most = 0
		}
	}
	o.total = min(o.total, x.total)
	if d.CPUs() > 0 {
		f.cpusPer = true
		f.minCores = min(f.minCores, cores)
	}
}

// setLimit limits the job's resources on the node (_set_max_gres). The parameter have is the number on other nodes.
func (x *filter) setLimit(have int) {
	f, d, r := x.fitting, x.d, x.p.t.request
	sockets := max(1, r.SocketsPerNode)
	rest := 0
	switch {
	case d.PerJob == 0:
	case have < d.PerJob:
		if rest = d.PerJob - have - max(f.p.least-1, 0); rest < 0 { // slurmctld's number is unsigned
			rest = math.MaxInt
		}
	case d.Count > 0:
		rest = d.Count
	default:
		rest = max(1, d.PerTask, d.PerSocket*sockets)
	}
	if f.p.m.Since2605 && d.PerTask > 0 && f.most != hardware.AnyTasks {
		if d.PerTask*f.least > rest {
			f.most = 0
			return
		}
		rest = min(rest, d.PerTask*f.most)
	}
	if x.limit = x.o.most; rest > 0 {
		x.limit = min(x.limit, rest)
	}
	if x.limit > 0 && max(d.Count, d.PerSocket*sockets) > x.limit {
		f.most = 0
		return
	}
	if d.Count > 0 && d.PerTask > 0 {
		tasks := d.Count / d.PerTask
		switch {
		case tasks == 0 || tasks > f.most || tasks < f.least:
			f.most = 0
		case f.most > tasks:
			f.most = x.limit
		}
	}
}

// lookAtSockets finds the sockets that the job needs, those with most cores first, and how many
// resources the job can have. The first attempt drops cores of sockets without resources.
func (x *filter) lookAtSockets() {
	at, first := x.at, x.p.first
	fewest := (max(x.least, 1)*x.p.t.request.CPUsPerTask + x.per - 1) / x.per
	order := make([]int, len(at.cores))
	for s := range order {
		order[s] = s
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at.cores[b], at.cores[a]) })
	total, sufficient := x.o.any, false
	for _, s := range order {
		here := x.o.bySocket[s]
		if first && x.cpusPer > 0 {
			here = min(here, int(at.cores[s])*x.per/x.cpusPer)
		}
		if reach := x.o.any + here; reach == 0 || x.d.PerSocket > reach {
			if x.d.PerSocket > reach {
				x.o.total -= x.o.bySocket[s]
				x.o.bySocket[s] = 0
			}
			if first {
				x.close(s, min(int(at.cores[s]), max(0, at.count()-fewest)))
			}
		}
		if first && at.cores[s] == 0 {
			continue
		}
		total += here
		if !sufficient && here > 0 || x.o.any > 0 {
			x.needed[s] = true
			x.sockets++
		}
		if x.limit > 0 && total >= x.limit || x.d.Count > 0 && total >= x.d.Count {
			sufficient = true
		}
	}
	x.total = total
}

// limitTasks limits the resources, and drops tasks that would not get their resources.
func (x *filter) limitTasks(step int) {
	f, d, r := x.fitting, x.d, x.p.t.request
	if x.cpusPer > 0 {
		most := f.cpus / x.cpusPer
		if x.limit > 0 {
			most = min(most, x.limit)
		}
		x.limit = most
		x.total = min(x.total, most)
	}
	if x.limit > 0 {
		x.total = min(x.total, x.limit)
	}
	if d.Count > 0 {
		x.total = min(x.total, d.Count)
	}
	if x.total == 0 || max(d.Count, d.PerTask) > x.total {
		f.most = 0
	}
	if x.cpusPer > 0 && x.total > 0 {
		if cpus := x.cpusPer * x.total; cpus < f.least*r.CPUsPerTask || cpus < r.MinCPUsPerNode {
			f.most = f.least
		} else {
			f.most = min(f.most, cpus/r.CPUsPerTask)
		}
	}
	if d.PerTask > 0 {
		f.most = min(f.most, x.total/d.PerTask)
		if d.Count == 0 {
			x.total = min(x.total, f.most*d.PerTask)
		}
	}
	if f.most != hardware.AnyTasks {
		f.most = f.most / step * step
	}
}

// cores returns how many cores the tasks and resources need. If the node has fewer cores, the function cores drops
// tasks.
func (x *filter) cores() int {
	f, d, r := x.fitting, x.d, x.p.t.request
	each := r.CPUsPerTask
	if r.TasksPerCore == 1 && each%x.per != 0 {
		each = (each/x.per + 1) * x.per
	}
	cores := f.most * each
	for f.most >= f.least {
		if cores = (cores + x.per - 1) / x.per; cores <= f.at.count() {
			break
		}
		f.most--
		cores = f.most * each
		if d.Count == 0 && d.PerTask > 0 {
			x.total = min(x.total, f.most*d.PerTask)
		}
	}
	if x.cpusPer == 0 {
		return cores
	}
	devices := max(1, x.total)
	switch {
	case d.Count > 0:
		devices = d.Count
	case d.PerSocket > 0:
		devices = d.PerSocket * x.sockets
	case d.PerTask > 0:
		devices = d.PerTask * f.most
	}
	f.most = min(f.most, devices*x.cpusPer)
	return max(cores, (devices*x.cpusPer+x.per-1)/x.per)
}

// keep reduces the job's cores to the given number, spread over the sockets that the job needs.
func (x *filter) keep(cores int) {
	at := x.at
	if !x.p.first && x.sockets < len(at.cores) {
		for s := range at.cores {
			if !x.needed[s] {
				x.drop(s, min(int(at.cores[s]), max(0, at.count()-cores)))
			}
		}
	}
	for x.sockets > 0 && at.count() > cores {
		s := x.fullest()
		if s < 0 {
			return
		}
		x.drop(s, 1)
	}
}

// close drops cores of a socket, also for further looks at the node.
func (x *filter) close(s, count int) {
	if len(x.at.open) > 0 {
		x.at.open[s] = max(0, x.at.open[s]-int16(count))
	}
	x.drop(s, count)
}

// drop drops cores of a socket. If slurmctld looks at the node again, it has them again, unless all were dropped.
func (x *filter) drop(s, count int) {
	if count == 0 {
		return
	}
	if x.at.cores[s] -= int16(count); x.at.cores[s] == 0 && len(x.at.open) > 0 {
		x.at.open[s] = 0
	}
	x.cpus = min(x.cpus, x.at.count()*x.per)
}

// takeForTasks counts, for requests for the whole job, the resources that the job's tasks on a node take. It
// returns how many CPUs the job takes; 0 if the job does not use the node (eval_nodes_gres).
func (p *pick) takeForTasks(node, cpus int) int {
	if p.totals == nil || cpus == 0 {
		return cpus
	}
	r, at := p.t.request, &p.t.rooms[node]
	saved := max(p.least-1, 0)
	tasks := p.tasksLeft - saved
	if !r.Overcommit {
		if most := cpus / r.CPUsPerTask; most < tasks {
			saved += tasks - most
			tasks = most
		}
	}
	tasks = max(tasks, 1)
	used := tasks
	if used < at.tasks {
		for k := range r.Devices {
			if d := &r.Devices[k]; d.PerTask > 0 && d.Count == 0 {
				at.offers[k].total = min(at.offers[k].total, used*d.PerTask)
			}
		}
		at.tasks = used
	}
	used = min(used, at.tasks)
	least := r.CPUsPerTask
	if !r.Overcommit {
		least *= used
	}
	least = max(least, r.MinCPUsPerNode)
	p.tasksLeft = tasks + saved
	if used == 0 || cpus < least {
		at.cpus = 0
		return 0
	}
	cpus = p.addTotals(at, cpus, least)
	p.tasksLeft -= used
	at.cpus = cpus
	return cpus
}

// addTotals adds a node's resources to the job's, and returns the job's CPUs there (gres_sched_add).
func (p *pick) addTotals(at *room, cpus, least int) int {
	with := 0
	for k := range p.totals {
		d, o := &p.t.request.Devices[k], &at.offers[k]
		if d.PerJob == 0 {
			continue
		}
		n := o.total
		if d.CPUsPer > 0 {
			n = min(n, cpus/d.CPUsPer)
			with = max(with, n*d.CPUsPer)
		}
		fewest := max(1, d.Count)
		if d.PerTask > 0 {
			fewest = n
		}
		if rest := d.PerJob - p.totals[k]; rest > 0 {
			n = min(n, rest)
		}
		o.total = max(n, fewest)
		p.totals[k] += o.total
	}
	if with > least && with < cpus {
		return with
	}
	return cpus
}
