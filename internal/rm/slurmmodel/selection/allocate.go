package selection

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/cores"
)

// allocate makes the allocation of a job on the chosen nodes: it distributes the tasks over the
// nodes, and the CPUs over the sockets (dist_tasks).
func (m *Machine) allocate(t *test, nodes Bits) *Allocation {
	r := t.request
	a := &Allocation{Nodes: nodes, Sharing: r.Sharing, Partition: r.Partition, Parts: make([]Part, 0, nodes.Count())}
	var ok bool
	if a.Parts, ok = m.share(t, nodes, a.Parts); !ok {
		return nil
	}
	whole := r.OwnsNodes()
	all := make([]int16, m.stride*len(a.Parts))
	for i := range a.Parts {
		p := &a.Parts[i]
		n := &m.Nodes[p.Node]
		p.cores = all[i*m.stride : i*m.stride+n.Sockets : (i+1)*m.stride]
		if whole {
			for s := range p.cores {
				p.cores[s] = int16(n.Cores)
			}
			a.CPUs += n.CPUs
		} else {
			if left := m.takeCores(r, &t.rooms[p.Node], p); left > 0 && m.Since2605 && !r.Overcommit {
				r.Stuck = true
				return nil
			}
			a.CPUs += p.CPUs
		}
		switch {
		case !m.CountMemory, r.MemoryPerDevice > 0:
		case r.Memory == 0:
			p.Memory = n.Memory
		case r.MemoryPerCPU:
			p.Memory = r.Memory * int64(r.Usable(n, p.CPUs))
		default:
			p.Memory = r.Memory
		}
	}
	if !m.giveDevices(t, a) {
		return nil
	}
	return a
}

// outline returns the allocation of a job without GRES. The allocation has nodes and a number of CPUs, but no parts.
func (m *Machine) outline(t *test, nodes Bits) *Allocation {
	r := t.request
	a := &Allocation{Nodes: nodes, Sharing: r.Sharing}
	var ok bool
	if t.work.parts, ok = m.share(t, nodes, t.work.parts[:0]); !ok {
		return nil
	}
	for i := range t.work.parts {
		p := &t.work.parts[i]
		n := &m.Nodes[p.Node]
		if r.OwnsNodes() {
			a.CPUs += n.CPUs
			continue
		}
		per, have := r.CPUsPerCore(n), t.rooms[p.Node].count() // as in takeCores
		want := (p.CPUs + per - 1) / per
		if want > have && m.Since2605 && !r.Overcommit {
			r.Stuck = true
			return nil
		}
		a.CPUs += min(want, have) * n.Threads
	}
	return a
}

// share appends a part for each node, and sets its CPUs. It returns the result of distribute.
func (m *Machine) share(t *test, nodes Bits, parts []Part) ([]Part, bool) {
	for i := range nodes.All {
		parts = append(parts, Part{Node: i, CPUs: t.rooms[i].cpus})
	}
	return parts, t.request.OwnsNodes() || m.distribute(t, parts)
}

// distribute sets the CPUs of each node (dist_tasks_compute_c_b): first for one task, then for as
// many tasks as fill a core. It gives the remaining tasks to the nodes in turn, a core at a time.
// Since 24.11 it returns false if tasks lack CPUs or generic resources.
func (m *Machine) distribute(t *test, parts []Part) bool {
	r := t.request
	strict := m.Since2411 && len(r.Devices) > 0
	d := distribution{t: t, parts: parts, have: t.work.have, strict: strict}
	d.left = r.CountTasks(len(parts), m.Since2411, m.Since2605)
	if d.fillAll() {
		return true
	}
	room := false
	for n := range parts {
		d.have[n], parts[n].CPUs = parts[n].CPUs, 0
		if d.left > 0 && d.have[n] > 0 {
			d.add(n)
			room = room || parts[n].CPUs < d.have[n]
		}
	}
	for n := range parts {
		for range parts[n].CPUs % m.Nodes[parts[n].Node].Threads / r.CPUsPerTask {
			if !d.fits(n) {
				break
			}
			d.add(n)
		}
	}
	if m.Since2411 {
		return d.fill(m)
	}
	if r.Overcommit {
		return true
	}
	for full := !room; d.left > 0; {
		room := false
		for n := range parts {
			for range max(1, m.Nodes[parts[n].Node].Threads/r.CPUsPerTask) {
				if d.left == 0 || !full && !d.fits(n) {
					break
				}
				d.add(n)
				room = room || d.have[n]-parts[n].CPUs >= r.CPUsPerTask
			}
		}
		full = full || !room
	}
	return true
}

// fill distributes the remaining tasks (since 24.11), and gives nodes the CPUs for their GRES.
func (d *distribution) fill(m *Machine) bool {
	r := d.t.request
	perTask := slices.ContainsFunc(r.Devices, func(of DeviceRequest) bool { return of.PerTask > 0 })
	for d.left > 0 && (!r.Overcommit || perTask) {
		room := false
		for n := range d.parts {
			for range max(1, m.Nodes[d.parts[n].Node].Threads/r.CPUsPerTask) {
				if !d.fits(n) {
					break
				}
				d.add(n)
				room = room || d.have[n]-d.parts[n].CPUs >= r.CPUsPerTask
			}
		}
		switch {
		case room || d.left == 0:
		case perTask || !d.strict:
			return false
		default:
			d.strict = false
		}
	}
	for n := 0; n < len(d.parts) && len(r.Devices) > 0; n++ {
		p := &d.parts[n]
		p.CPUs = max(p.CPUs, min(d.have[n], d.t.rooms[p.Node].minCPUs))
	}
	return true
}

// distribution is the state of a distribution of tasks.
type distribution struct {
	t     *test
	parts []Part
	have  []int // CPUs that each node offers
	left  int   // tasks without a node
	// strict says that a node gets at most the tasks that its generic resources serve; since 24.11.
	strict bool
}

// fillAll gives each node as many tasks as it may have, if the sum is the job's number of tasks.
// Otherwise it returns false, and tasks must be distributed one by one.
func (d *distribution) fillAll() bool {
	r, room := d.t.request, 0
	if len(r.Devices) > 0 || r.Overcommit {
		return false
	}
	for n := range d.parts {
		tasks := d.most(n)
		if r.TasksPerNode > 0 && tasks < r.TasksPerNode ||
			r.TasksPerNode == 0 && (tasks == 0 || tasks*r.CPUsPerTask != d.parts[n].CPUs) {
			return false
		}
		room += tasks
	}
	if room != d.left {
		return false
	}
	for n := range d.parts {
		d.parts[n].tasks = d.most(n)
		d.parts[n].CPUs = d.parts[n].tasks * r.CPUsPerTask
	}
	return true
}

// most returns how many tasks a node may have.
func (d *distribution) most(n int) int {
	most := d.parts[n].CPUs / d.t.request.CPUsPerTask
	if per := d.t.request.TasksPerNode; per > 0 {
		most = min(most, per)
	}
	return most
}

func (d *distribution) fits(n int) bool {
	r, p := d.t.request, &d.parts[n]
	if d.left == 0 || d.have[n]-p.CPUs < r.CPUsPerTask || r.TasksPerNode > 0 && p.tasks >= r.TasksPerNode {
		return false
	}
	if d.strict && p.tasks >= d.t.rooms[p.Node].tasks {
		return false
	}
	for k := range r.Devices {
		if per := r.Devices[k].PerTask; per > 0 && p.tasks >= d.t.rooms[p.Node].offers[k].total/per {
			return false
		}
	}
	return true
}

func (d *distribution) add(n int) {
	p := &d.parts[n]
	d.left--
	p.tasks++
	p.CPUs = min(d.have[n], p.CPUs+d.t.request.CPUsPerTask)
}

// takeCores takes cores of a node for the part's CPUs. It returns the number of CPUs that get no core.
func (m *Machine) takeCores(r *Request, at *room, p *Part) int {
	n := &m.Nodes[p.Node]
	job := cores.Job{CPUsPerCore: r.CPUsPerCore(n), Block: m.BlockCores || r.BlockCores}
	if r.CPUsPerTask > 1 && r.TasksPerSocket == 0 {
		job.Packs = r.CPUsPerTask
	}
	left := job.Take(p.cores, at.cores, p.CPUs)
	p.CPUs = p.countCores() * n.Threads
	return left
}
