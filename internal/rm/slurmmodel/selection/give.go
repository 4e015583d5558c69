package selection

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// giveDevices gives a job its generic resources on each of its nodes (gres_select_filter_select_and_set). An exclusive
// job gets all resources of its nodes. Since 24.11 it returns false if there are too few.
func (m *Machine) giveDevices(t *test, a *Allocation) bool {
	r := t.request
	if !m.Since2411 && !r.Exclusive {
		a.anyType = hardware.AnyType(r.Devices)
	}
	for i := range a.Parts {
		p := &a.Parts[i]
		if m.Since2411 && len(r.Devices) > 0 && p.countCores() == 0 {
			return false // a node that has no task
		}
		if n := &m.Nodes[p.Node]; len(n.Devices) > 0 && (len(r.Devices) > 0 || r.Exclusive) {
			p.devices = make([]int16, m.slots*(m.stride+1))
		}
		if r.Exclusive && p.devices != nil {
			m.giveAll(t, p)
		}
	}
	for k := range r.Devices {
		if r.Exclusive && m.Since2411 && m.lacks(a, &r.Devices[k]) ||
			!r.Exclusive && m.giveRequested(t, a, k) > 0 && m.Since2411 {
			return false
		}
	}
	if r.MemoryPerDevice == 0 || !m.CountMemory {
		return true
	}
	for i := range a.Parts {
		for k := range m.Nodes[a.Parts[i].Node].Devices {
			if m.Nodes[a.Parts[i].Node].Devices[k].Kind == "gpu" {
				a.Parts[i].Memory += int64(a.Parts[i].Devices(m, k)) * r.MemoryPerDevice
			}
		}
	}
	return true
}

// lacks reports whether whole nodes have fewer resources than a job requests in total. It returns false if slurmctld
// only counts the resources.
func (m *Machine) lacks(a *Allocation, d *DeviceRequest) bool {
	if d.PerJob == 0 || d.Count+d.PerSocket+d.PerTask > 0 {
		return false
	}
	have := 0
	for i := range a.Parts {
		p := &a.Parts[i]
		if m.counted(p.Node, d.Kind) {
			return false
		}
		for k := range m.Nodes[p.Node].Devices {
			if d.Wants(&m.Nodes[p.Node].Devices[k]) {
				have += p.Devices(m, k)
			}
		}
	}
	return have < d.PerJob
}

func (m *Machine) giveAll(t *test, p *Part) {
	width := m.stride + 1
	free := make([]int, width)
	for i := range m.Nodes[p.Node].Devices {
		m.freeDevices(t.state, p.Node, i, true, free)
		for k, c := range free {
			p.devices[i*width+k] = int16(c)
		}
	}
}

// giveRequested gives a job the resources of request number k. It returns how many resources for
// the whole job are missing; 0 if slurmctld only counts such resources. Since 26.05, if a node
// lacks resources that the job requests per socket, it returns how many are missing there.
func (m *Machine) giveRequested(t *test, a *Allocation, k int) (left int) {
	d := &t.request.Devices[k]
	left = d.PerJob
	for i := range a.Parts {
		p := &a.Parts[i]
		switch {
		case d.Count > 0 && m.Since2411:
			have := m.giveEvenly(t, p, d, d.Count)
			m.giveAny(t, p, d, d.Count-have)
		case d.Count > 0:
			m.giveNode(t, p, d)
		case d.PerSocket > 0 && m.Since2411:
			if missing := m.giveSockets(t, p, d); missing > 0 && m.Since2605 {
				return missing
			}
		case d.PerSocket > 0:
			for _, s := range m.socketsFor(t, p, d) {
				n := m.give(t, p, d, d.PerSocket, s)
				m.give(t, p, d, d.PerSocket-n, m.stride)
			}
		case d.PerTask > 0:
			m.giveTasks(t, p, d)
		case m.counted(p.Node, d.Kind):
			most := left - (len(a.Parts) - 1 - i)
			if most < 0 { // slurmctld's number is unsigned, so the job gets all free resources
				most = m.Nodes[p.Node].CountFor(d)
			}
			left -= m.giveAny(t, p, d, most)
		case m.Since2411:
			most := t.rooms[p.Node].offers[k].total
			if rest := left - (len(a.Parts) - 1 - i); rest >= 0 { // slurmctld compares it as an unsigned number
				most = min(most, rest)
			}
			left -= m.giveClose(t, p, d, most)
		default:
			left -= m.giveShare(t, p, d, left-(len(a.Parts)-1-i))
		}
	}
	if d.Count+d.PerSocket+d.PerTask > 0 {
		return 0
	}
	counted := false
	for i := range a.Parts { // then resources that are not close to cores of the job
		if m.counted(a.Parts[i].Node, d.Kind) {
			counted = true
			continue
		}
		left -= m.giveAny(t, &a.Parts[i], d, left)
	}
	if counted {
		return 0
	}
	return left
}

// counted reports whether slurmctld only counts a node's resources of a kind (no cores, no types).
func (m *Machine) counted(node int, kind string) bool {
	return !slices.ContainsFunc(m.Nodes[node].Devices, func(of Device) bool {
		return of.Kind == kind && (of.Type != "" || of.BySocket != nil)
	})
}

// giveNode gives a job the resources that it requests per node, as slurmctld does before 24.11 (_set_node_bits): one
// resource of each socket in use, then more resources of these sockets, then others.
func (m *Machine) giveNode(t *test, p *Part, d *DeviceRequest) {
	have := m.give(t, p, d, min(1, d.Count), m.stride)
	used := func(most int) {
		for s := range p.cores {
			if p.cores[s] > 0 {
				have += m.give(t, p, d, min(most, d.Count-have), s)
			}
		}
	}
	used(1)
	have += m.give(t, p, d, d.Count-have, m.stride)
	used(d.Count)
	m.giveAny(t, p, d, d.Count-have)
}

// giveTasks gives a job the resources for its tasks on a node, first resources close to the tasks (_set_task_bits).
func (m *Machine) giveTasks(t *test, p *Part, d *DeviceRequest) {
	r, tasks, have := t.request, 0, 0
	for s := range p.cores {
		per := m.Nodes[p.Node].Threads
		if r.TasksPerCore > 0 {
			per = r.TasksPerCore
		}
		here := min(int(p.cores[s])*per, p.tasks-tasks)
		if r.TasksPerSocket > 0 {
			here = min(here, r.TasksPerSocket)
		}
		tasks += here
		have += m.give(t, p, d, tasks*d.PerTask-have, s)
	}
	m.giveAny(t, p, d, tasks*d.PerTask-have)
}

// giveShare gives a job resources that are close to its cores, at most the number most, for a request for the whole
// job. If no resource is close, giveShare gives one resource of another socket (_set_job_bits1). giveShare returns how
// many resources it gave.
func (m *Machine) giveShare(t *test, p *Part, d *DeviceRequest, most int) int {
	if d.CPUsPer > 0 {
		most = min(most, p.countCores()*m.Nodes[p.Node].Threads/d.CPUsPer)
	}
	have := m.give(t, p, d, most, m.stride)
	for s := range p.cores {
		if p.cores[s] > 0 {
			have += m.give(t, p, d, most-have, s)
		}
	}
	for s := range p.cores {
		if p.cores[s] == 0 && have == 0 {
			have = m.give(t, p, d, 1, s)
		}
	}
	return have
}

// giveEvenly gives a job resources up to the number want, as slurmctld does since 24.11 (_set_node_bits,
// _set_job_bits1): first resources of each socket in use in proportion to its cores, then resources close to no socket,
// then more resources of the sockets in use. It returns how many it gave.
func (m *Machine) giveEvenly(t *test, p *Part, d *DeviceRequest, want int) (have int) {
	perCore := float64(want) / float64(p.countCores())
	for s, cores := range p.cores {
		have += m.give(t, p, d, min(want-have, int(float64(cores)*perCore)), s)
	}
	have += m.give(t, p, d, want-have, m.stride)
	for s, cores := range p.cores {
		if cores > 0 {
			have += m.give(t, p, d, want-have, s)
		}
	}
	return have
}

// giveClose gives resources for a request for the whole job, as slurmctld does since 24.11: at
// least one, and at most the number most. It returns how many it gave.
func (m *Machine) giveClose(t *test, p *Part, d *DeviceRequest, most int) int {
	if d.CPUsPer > 0 {
		per := m.Nodes[p.Node].Threads
		if r := t.request; r.ThreadsPerCore > 0 {
			per = min(per, r.ThreadsPerCore)
		}
		most = min(most, p.countCores()*per/d.CPUsPer)
	}
	if have := m.giveEvenly(t, p, d, max(1, most)); have > 0 {
		return have
	}
	return m.giveAny(t, p, d, 1)
}

// giveSockets gives a job the resources that it requests per socket, as slurmctld does since 24.11
// (_set_sock_bits). It returns how many resources are missing.
func (m *Machine) giveSockets(t *test, p *Part, d *DeviceRequest) (missing int) {
	sockets := m.socketsFor(t, p, d)
	want, have := len(sockets)*d.PerSocket, 0
	for _, s := range sockets {
		have += m.give(t, p, d, d.PerSocket, s)
	}
	have += m.give(t, p, d, want-have, m.stride)
	for _, s := range sockets {
		have += m.give(t, p, d, want-have, s)
	}
	return want - have - m.giveAny(t, p, d, want-have)
}

// socketsFor returns the sockets of which a job gets the resources that it requests per socket: those
// with cores of the job and, if they are too few, also sockets with free resources.
func (m *Machine) socketsFor(t *test, p *Part, d *DeviceRequest) (sockets []int) {
	for s, cores := range p.cores {
		if cores > 0 {
			sockets = append(sockets, s)
		}
	}
	for s := 0; s < len(p.cores) && len(sockets) < t.request.SocketsPerNode; s++ {
		if p.cores[s] == 0 && m.freeAt(t, p.Node, d, s) >= d.PerSocket {
			sockets = append(sockets, s)
		}
	}
	slices.Sort(sockets)
	return sockets
}

// freeAt returns how many free resources for a request are close to a socket.
func (m *Machine) freeAt(t *test, node int, d *DeviceRequest, socket int) (free int) {
	out := make([]int, m.stride+1)
	for i := range m.Nodes[node].Devices {
		if d.Wants(&m.Nodes[node].Devices[i]) {
			m.freeDevices(t.state, node, i, false, out)
			free += out[socket]
		}
	}
	return free
}

// countCores returns how many cores the part has.
func (p *Part) countCores() int { return sum(p.cores) }

// giveAny gives a job resources of a node, at most the number most, from any socket. It returns how many it gave.
func (m *Machine) giveAny(t *test, p *Part, d *DeviceRequest, most int) int {
	have := m.give(t, p, d, most, m.stride)
	for s := range m.Nodes[p.Node].Sockets {
		have += m.give(t, p, d, most-have, s)
	}
	return have
}

// give gives a job resources of one socket of a node, at most the number most. Socket m.stride stands for resources
// that are close to no socket. give returns how many resources it gave.
func (m *Machine) give(t *test, p *Part, d *DeviceRequest, most, socket int) (have int) {
	width := m.stride + 1
	free := make([]int, width)
	for i := range m.Nodes[p.Node].Devices {
		if !d.Wants(&m.Nodes[p.Node].Devices[i]) {
			continue
		}
		m.freeDevices(t.state, p.Node, i, false, free)
		n := max(0, min(most-have, free[socket]-int(p.devices[i*width+socket])))
		p.devices[i*width+socket] += int16(n)
		have += n
	}
	return have
}
