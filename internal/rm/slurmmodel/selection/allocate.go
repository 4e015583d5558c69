package selection

import "slices"

// allocate makes the allocation of a job on the chosen nodes: it distributes tasks over nodes, and CPUs
// over sockets (dist_tasks).
func (m *Machine) allocate(t *test, nodes Bits) *Allocation {
	r := t.request
	a := &Allocation{Nodes: nodes, Whole: r.Whole, Parts: make([]Part, 0, nodes.Count())}
	for i := range nodes.All {
		a.Parts = append(a.Parts, Part{Node: i, CPUs: t.rooms[i].cpus})
	}
	whole := r.Exclusive || r.Whole // no other job shares its nodes (NODE_CR_RESERVED)
	if !whole && !m.distribute(t, a) {
		return nil
	}
	cores := make([]int16, m.stride*len(a.Parts))
	for i := range a.Parts {
		p := &a.Parts[i]
		n := &m.Nodes[p.Node]
		p.cores = cores[i*m.stride : i*m.stride+n.Sockets : (i+1)*m.stride]
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
			p.Memory = r.Memory * int64(r.usable(n, p.CPUs))
		default:
			p.Memory = r.Memory
		}
	}
	if !m.giveDevices(t, a) {
		return nil
	}
	return a
}

// distribute gives each node its CPUs: a task for each node, then the tasks that fill a core, and the
// rest a core at a time in turn (dist_tasks_compute_c_b). It reports false if tasks lack CPUs or generic resources,
// which is asked since 24.11.
func (m *Machine) distribute(t *test, a *Allocation) bool {
	r := t.request
	want := max(len(a.Parts), len(a.Parts)*r.TasksPerNode, r.MinCPUs, len(a.Parts)*r.MinCPUsPerNode)
	for k := range r.Devices {
		want = max(want, r.Devices[k].On(r, len(a.Parts))*r.Devices[k].CPUsPer)
	}
	if !r.Overcommit && r.CPUsPerTask > 1 {
		if r.TasksPerNode == 0 {
			want /= r.CPUsPerTask
		} else {
			want = r.TasksPerNode * len(a.Parts)
		}
	}
	strict := m.Since2411 && len(r.Devices) > 0
	if strict && r.Tasks > 0 && r.TasksPerNode == 0 {
		want = r.Tasks
	}
	want = max(want, 1)
	d := distribution{t: t, parts: a.Parts, have: t.work.have, left: want, strict: strict}
	room := false
	for n := range a.Parts {
		d.have[n], a.Parts[n].CPUs = a.Parts[n].CPUs, 0
		if d.left > 0 && d.have[n] > 0 {
			d.add(n)
			room = room || a.Parts[n].CPUs < d.have[n]
		}
	}
	for n := range a.Parts {
		for range a.Parts[n].CPUs % m.Nodes[a.Parts[n].Node].Threads / r.CPUsPerTask {
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
		for n := range a.Parts {
			for range max(1, m.Nodes[a.Parts[n].Node].Threads/r.CPUsPerTask) {
				if d.left == 0 || !full && !d.fits(n) {
					break
				}
				d.add(n)
				room = room || d.have[n]-a.Parts[n].CPUs >= r.CPUsPerTask
			}
		}
		full = full || !room
	}
	return true
}

// fill distributes further tasks since 24.11, and gives nodes the CPUs that their generic resources need.
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

// distribution is a distribution of tasks in progress.
type distribution struct {
	t     *test
	parts []Part
	have  []int // CPUs that each node offers
	left  int   // tasks without a node
	// strict says that a node gets no more tasks than its generic resources serve, since 24.11.
	strict bool
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

// takeCores takes the cores of a node's sockets: whole tasks from one socket, and the rest from all in
// turn (_cyclic_sync_core_bitmap), or from one socket after the other (_block_sync_core_bitmap). It returns for how
// many CPUs there are no cores.
func (m *Machine) takeCores(r *Request, at *room, p *Part) int {
	n := &m.Nodes[p.Node]
	per := r.cpusPerCore(n)
	cpus := p.CPUs
	take := func(s int) {
		p.cores[s]++
		cpus = max(0, cpus-per)
	}
	switch {
	case m.BlockCores || r.BlockCores:
		for s := range p.cores {
			for cpus > 0 && p.cores[s] < at.cores[s] {
				take(s)
			}
		}
	case r.CPUsPerTask > 1 && r.TasksPerSocket == 0:
		for s := range p.cores {
			pack := int(at.cores[s]) * per
			for pack -= pack % r.CPUsPerTask; pack > 0 && cpus > 0 && p.cores[s] < at.cores[s]; pack = max(0, pack-per) {
				take(s)
			}
		}
	}
	for before := cpus + 1; cpus > 0 && cpus < before; {
		before = cpus
		for s := range p.cores {
			if cpus > 0 && p.cores[s] < at.cores[s] {
				take(s)
			}
		}
	}
	cores := 0
	for _, c := range p.cores {
		cores += int(c)
	}
	p.CPUs = cores * n.Threads
	return cpus
}
