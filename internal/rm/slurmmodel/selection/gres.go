package selection

import (
	"cmp"
	"math"
	"slices"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// offered is what a node offers for one request of generic resources (sock_gres_t).
type offered struct {
	bySocket []int // close to each socket's cores
	any      int   // close to no socket
	total    int
	near     int // close to free cores
	most     int // the job's maximum on the node; 0 for no maximum
	// unfiltered is the total before [fitting.filter] lowered it; 0 before the first filter, and before 24.11.
	unfiltered int
}

// limit lowers the job's maximum to the parameter most, if most is not 0 and is lower than the
// maximum. It reports whether the maximum changed.
func (o *offered) limit(most int) bool {
	lower := most > 0 && (o.most == 0 || most < o.most)
	if lower {
		o.most = most
	}
	return lower
}

// lookDevices counts the generic resources that the job may have on a node. It returns false if
// there are too few. A node with more GPUs close to free cores gets a lower weight.
func (m *Machine) lookDevices(t *test, node int) bool {
	r, at := t.request, &t.rooms[node]
	at.devices = 0
	at.offers = slices.Grow(at.offers[:0], len(r.Devices))[:len(r.Devices)]
	near := 0
	for k := range r.Devices {
		d, o := &r.Devices[k], &at.offers[k]
		free := t.devicesFor(m, d, node)
		*o = offered{bySocket: append(o.bySocket[:0], free[:m.Nodes[node].Sockets]...), any: free[m.stride], total: sum(free)}
		if !o.limitBySocket(d) || !m.limitOffer(t, node, d, o) {
			return false
		}
		if d.Kind == "gpu" {
			at.devices += o.total
			if o.most > 0 {
				o.near = min(o.near, o.most)
			}
			near += o.near
		}
	}
	t.weights.PutLow(node, 0xff-uint8(min(near, 0xff)))
	return true
}

// limitBySocket limits each socket's resources to the number that the job requests per socket. It
// reports whether the remaining resources are enough (_build_sock_gres_by_topo).
func (o *offered) limitBySocket(d *DeviceRequest) bool {
	if o.total == 0 {
		return false
	}
	for s, n := range o.bySocket {
		if d.PerSocket == 0 {
			break
		}
		keep := d.PerSocket
		if n < keep {
			keep = 0
		}
		o.total -= n - keep
		o.bySocket[s] = keep
	}
	return o.total >= max(d.Count, d.PerTask)
}

// limitOffer limits the resources to those for which the node has CPUs and memory. It reports
// whether the remaining resources are enough (gres_select_filter_remove_unusable).
func (m *Machine) limitOffer(t *test, node int, d *DeviceRequest, o *offered) bool {
	r, n, at := t.request, &m.Nodes[node], &t.rooms[node]
	least := max(1, d.Count)
	if r.Exclusive {
		least = o.total
	}
	least = max(least, d.PerSocket*max(1, r.FilledSockets(t.counts.Min)), d.PerTask*r.TasksPerNode)
	if d.CPUs() > 0 && at.cpus/d.CPUs() < max(1, d.Count, d.PerTask, d.PerSocket) {
		return false
	}
	byMemory := 0
	if d.Memory() > 0 && m.CountMemory {
		free := n.Memory
		if !t.anew {
			free = t.state.nodes[node].memory
		}
		if byMemory = int(free / d.Memory()); byMemory == 0 {
			return false
		}
		o.most = byMemory
	}
	o.near = o.total
	for s := range at.cores {
		if at.cores[s] == 0 {
			o.near -= o.bySocket[s]
		}
	}
	if !r.Exclusive && !o.limit(d.Count) {
		o.limit(d.PerJob)
	}
	if d.CPUs() > 0 {
		byCPUs := at.count() * n.Threads / d.CPUs()
		if byCPUs == 0 {
			return false
		}
		o.limit(byCPUs)
	}
	if byMemory > 0 {
		o.total = min(o.total, byMemory)
	}
	return o.total >= least && (o.most == 0 || o.most >= least)
}

// fitting chooses those cores of a node that are close to the job's generic resources, as many as
// the job's tasks need (gres_select_filter_sock_core).
type fitting struct {
	p           *pick
	n           *Node
	at          *room
	cpus        int
	least, most int // tasks
	needed      []bool

	cpusPer  bool // the job gives CPUs for each resource
	minCores int  // cores that the resources need; since 24.11
}

// offerDevices returns how many CPUs of a node the job can use together with its generic resources.
// The parameter cpus is how many CPUs the job could use without generic resources.
func (p *pick) offerDevices(node, cpus, least, most int) int {
	r, at := p.t.request, &p.t.rooms[node]
	f := fitting{
		p: p, n: &p.m.Nodes[node], at: at, cpus: cpus, least: least, most: most, needed: make([]bool, len(at.cores)),
		minCores: math.MaxInt,
	}
	if p.m.Since2411 {
		copy(at.cores, at.open)
	}
	for _, bySocket := range []bool{true, false} { // requests per socket come first
		for k := range r.Devices {
			if r.Devices[k].PerSocket > 0 != bySocket {
				continue
			}
			if p.m.Since2411 {
				f.filter(k)
			} else {
				f.device(k)
			}
			if f.most == 0 {
				return 0
			}
		}
	}
	at.tasks, at.minCPUs = f.most, 0
	if f.minCores < math.MaxInt {
		at.minCPUs = f.minCores * r.CPUsPerCore(f.n)
	}
	if f.cpusPer {
		return f.cpus
	}
	return min(f.cpus, f.most*r.CPUsPerTask)
}

// device fits the node to one of the requests. If the node does not have enough, most becomes 0.
func (f *fitting) device(k int) {
	d, o, step := &f.p.t.request.Devices[k], &f.at.offers[k], f.least
	f.cpusPer = f.cpusPer || d.CPUs() > 0
	limit := o.most
	if rest := d.PerJob - f.p.devices(k); rest > 0 && limit > 0 {
		limit = min(limit, rest)
	}
	if limit > 0 && max(d.Count, d.PerSocket*max(1, f.p.t.request.SocketsPerNode)) > limit {
		f.most = 0
		return
	}
	if d.Count > 0 && d.PerTask > 0 {
		tasks := d.Count / d.PerTask
		if tasks == 0 || tasks > f.most || tasks < f.least {
			f.most = 0
			return
		}
		f.most = limit
	}
	total, sockets := f.sockets(d, o, limit)
	if d.CPUs() > 0 {
		total = min(total, f.cpus/d.CPUs())
		if limit > 0 {
			total = min(total, limit)
		}
	}
	if total == 0 || max(d.Count, d.PerTask) > total {
		f.most = 0
		return
	}
	if d.PerTask > 0 {
		f.most = min(f.most, total/d.PerTask)
	}
	if f.most != hardware.AnyTasks {
		f.most = f.most / step * step
	}
	if f.p.first && f.most > 0 {
		for s := range f.at.cores {
			if !f.needed[s] {
				f.drop(s, int(f.at.cores[s]))
			}
		}
	}
	if f.most > 0 && f.most != hardware.AnyTasks {
		f.keep(f.cores(d, total, sockets))
	}
	if d.CPUs() > 0 {
		if o.total = min(o.total, f.cpus/d.CPUs()); f.most != hardware.AnyTasks && max(d.Count, d.PerTask) > o.total {
			f.most = 0
		}
	}
}

// sockets finds the sockets that the job needs, those with most cores first. It returns how many resources the job can
// have, and on how many sockets. The first attempt drops cores of sockets without resources.
func (f *fitting) sockets(d *DeviceRequest, o *offered, limit int) (total, sockets int) {
	r, at, first := f.p.t.request, f.at, f.p.first
	fewest := (max(f.least, 1)*r.CPUsPerTask + f.n.Threads - 1) / f.n.Threads
	order := make([]int, len(at.cores))
	for s := range order {
		order[s] = s
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at.cores[b], at.cores[a]) })
	total, sufficient := o.any, false
	for _, s := range order {
		here := o.bySocket[s]
		if first && d.CPUs() > 0 {
			here = min(here, int(at.cores[s])*f.n.Threads/d.CPUs())
		}
		if reach := o.any + here; reach == 0 || d.PerSocket > reach {
			if d.PerSocket > reach {
				o.total -= o.bySocket[s]
				o.bySocket[s] = 0
			}
			if first {
				f.drop(s, min(int(at.cores[s]), max(0, at.count()-fewest)))
			}
		}
		if first && at.cores[s] == 0 {
			continue
		}
		total += here
		if !sufficient {
			f.needed[s] = true
			sockets++
		}
		sufficient = sufficient || o.any == 0 && (limit > 0 && total >= limit || d.Count > 0 && total >= d.Count)
	}
	return total, sockets
}

// cores returns how many cores the tasks and resources need. If the node has fewer cores, the function cores drops
// tasks.
func (f *fitting) cores(d *DeviceRequest, total, sockets int) int {
	r, per := f.p.t.request, f.n.Threads
	if r.ThreadsPerCore > 0 {
		per = min(per, r.ThreadsPerCore)
	}
	each := r.CPUsPerTask
	if r.TasksPerCore == 1 && each%per != 0 {
		each = (each/per + 1) * per
	}
	cores := (f.most*each + per - 1) / per
	for ; cores > f.at.count() && f.most >= f.least; cores = (f.most*each + per - 1) / per {
		f.most--
	}
	if f.most < f.least {
		f.most = 0
	}
	if d.CPUs() == 0 {
		return cores
	}
	devices := total
	switch {
	case d.Count > 0:
		devices = d.Count
	case d.PerSocket > 0:
		devices = d.PerSocket * sockets
	case d.PerTask > 0:
		devices = d.PerTask * f.most
	}
	return max(cores, (devices*d.CPUs()+f.n.Threads-1)/f.n.Threads)
}

// keep reduces the job's cores to the given number, spread over the sockets that the job needs.
func (f *fitting) keep(cores int) {
	if cores > f.at.count() {
		f.most = 0
	}
	if f.most == 0 {
		return
	}
	if !f.p.first {
		for s := range f.at.cores {
			if !f.needed[s] {
				f.drop(s, min(int(f.at.cores[s]), max(0, f.at.count()-cores)))
			}
		}
	}
	for left := f.at.count(); left > cores; left-- {
		s := f.fullest()
		if s < 0 {
			return
		}
		f.drop(s, 1)
	}
}

func (f *fitting) fullest() int {
	fullest := -1
	for s, cores := range f.at.cores {
		if f.needed[s] && cores > 0 && (fullest < 0 || cores > f.at.cores[fullest]) {
			fullest = s
		}
	}
	return fullest
}

func (f *fitting) drop(s, count int) {
	left := f.at.count()
	for range count {
		if left--; left*f.n.Threads < f.cpus {
			f.cpus -= f.n.Threads
		}
	}
	f.at.cores[s] -= int16(count)
}

// devices returns how many resources the job already has for request number k, if the request is for the whole job.
func (p *pick) devices(k int) int {
	if p.totals == nil {
		return 0
	}
	return p.totals[k]
}

// beginDevices prepares a pick for requests for the whole job, and for CPUs per resource.
func (p *pick) beginDevices() {
	r, job := p.t.request, 0
	for k := range r.Devices {
		d := &r.Devices[k]
		if d.PerJob > 0 && p.totals == nil {
			p.totals = make([]int, len(r.Devices))
			p.nodes = min(p.c.Min, p.c.Wanted)
		}
		if d.CountedCPUs() == 0 {
			continue
		}
		node := 1
		switch {
		case d.Count > 0:
			node = d.Count
		case d.PerSocket > 0:
			node = d.PerSocket * max(1, r.SocketsPerNode)
		case d.PerTask > 0:
			node = d.PerTask * r.TasksPerNode
		}
		p.cpusForDevices = max(p.cpusForDevices, node*d.CountedCPUs())
		tasks := Request{Tasks: max(1, r.TasksPerNode) * p.c.Min, SocketsPerNode: r.SocketsPerNode}
		job = max(job, d.On(&tasks, p.c.Min)*d.CountedCPUs())
	}
	p.maximum = max(p.maximum, job, p.cpusForDevices*p.nodes)
	p.tasksLeft = p.maximum
	switch {
	case r.Overcommit || r.CPUsPerTask == 1:
	case r.TasksPerNode > 0:
		p.tasksLeft = r.TasksPerNode * p.most
	default:
		p.tasksLeft /= r.CPUsPerTask
	}
}

// takeDevices counts the resources that the job takes on a node for requests for the whole job. It
// returns how many CPUs the job takes there (gres_sched_add).
func (p *pick) takeDevices(node, cpus int) int {
	if p.m.Since2411 {
		return p.takeForTasks(node, cpus)
	}
	if p.totals == nil || cpus == 0 {
		return cpus
	}
	with := 0
	for k := range p.totals {
		d, n := &p.t.request.Devices[k], p.t.rooms[node].offers[k].total
		if d.PerJob == 0 {
			continue
		}
		if d.CPUsPer > 0 {
			n = min(n, cpus/d.CPUsPer)
			with = max(with, n*d.CPUsPer)
		}
		p.totals[k] += n
	}
	if with > 0 {
		return with
	}
	return cpus
}

// hasDevices reports whether the job has all resources of its requests for the whole job (gres_sched_test,
// gres_sched_sufficient). The parameter further has resources on further nodes, which count, too; nil without further
// nodes.
func (p *pick) hasDevices(further []int) bool {
	for k := range p.totals {
		have := p.totals[k]
		if further != nil {
			have += further[k]
		}
		if have < p.t.request.Devices[k].PerJob {
			return false
		}
	}
	return true
}

// addDevices adds a node's offers for requests for the whole job (gres_sched_consec).
func (p *pick) addDevices(to []int, node int) []int {
	if p.totals == nil {
		return nil
	}
	if to == nil {
		to = make([]int, len(p.totals))
	}
	for k := range to {
		to[k] += p.t.rooms[node].offers[k].total
	}
	return to
}
