package selection

import (
	"rmreplay/internal/rm/slurmmodel/cores"
	"rmreplay/internal/rm/slurmmodel/distribution"
	"rmreplay/internal/rm/slurmmodel/hardware"
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
			p.Memory = r.Memory * int64(r.Usable(n, p.CPUs, m.ByCPU))
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
		switch {
		case r.OwnsNodes():
			a.CPUs += n.CPUs
			continue
		case m.ByCPU:
			a.CPUs += p.CPUs
			continue
		}
		taken, left := cores.Of(r, n, m.BlockCores).Count(t.rooms[p.Node].cores, p.CPUs)
		if left > 0 && m.Since2605 && !r.Overcommit {
			r.Stuck = true
			return nil
		}
		a.CPUs += taken * n.Threads
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

// distribute sets the tasks and the CPUs of each part. Since 24.11 it returns false if tasks lack CPUs or generic
// resources.
func (m *Machine) distribute(t *test, parts []Part) bool {
	r := t.request
	nodes := t.work.shares[:0]
	for i := range parts {
		p, at := &parts[i], &t.rooms[parts[i].Node]
		n := distribution.Node{
			Threads: m.Nodes[p.Node].Threads, CPUs: p.CPUs, Room: at.tasks, MinCPUs: at.minCPUs, Served: hardware.AnyTasks,
		}
		for k := range r.Devices {
			if per := r.Devices[k].PerTask; per > 0 {
				n.Served = min(n.Served, at.offers[k].total/per)
			}
		}
		nodes = append(nodes, n)
	}
	ok := distribution.Tasks(r, nodes, m.Since2411, m.Since2605)
	for i := range parts {
		parts[i].CPUs, parts[i].tasks = nodes[i].CPUs, nodes[i].Tasks
	}
	t.work.shares = nodes
	return ok
}

// takeCores takes cores of a node for the part's CPUs. It returns the number of CPUs that get no core.
func (m *Machine) takeCores(r *Request, at *room, p *Part) int {
	n := &m.Nodes[p.Node]
	left := cores.Of(r, n, m.BlockCores || m.ByCPU).Take(p.cores, at.cores, p.CPUs)
	if m.ByCPU {
		return 0 // slurmctld only logs an error (_block_sync_core_bitmap)
	}
	p.CPUs = p.countCores() * n.Threads
	return left
}
