package selection

import "slices"

// room is what one node offers to a job.
type room struct {
	ok      bool
	cpus    int     // CPUs that the job may use; after the job takes the node, CPUs that it uses
	devices int     // generic resources that the job may use
	wealth  int     // set by appraise; used to leave out poor nodes
	free    int     // CPUs of all free cores
	cores   []int16 // usable cores by socket
	kept    []int16 // cores before generic resources reduced them
	// open are the cores with which slurmctld begins when it looks at the node again; since 24.11, before that empty.
	open   []int16
	offers []offered // for each request of generic resources
	// tasks is the number of tasks for which the node has room. minCPUs is the number of CPUs that
	// these tasks need. Both are set for jobs with generic resources.
	tasks, minCPUs int
}

// usable removes nodes from a set on which the job finds less memory than it needs at least, too few generic
// resources or exclusive jobs (_verify_node_state).
func (m *Machine) usable(s *State, r *Request, least int64, set Bits) {
	idle := m.CountMemory || len(r.Devices) > 0 // idle nodes may have too few resources, too
	for i := set.Next(0); i >= 0; i = set.Next(i + 1) {
		if (idle || s.busy.Has(i)) && !m.serves(s, r, i, least) {
			set.Clear(i)
		}
	}
}

// serves reports whether the job can use a node.
func (m *Machine) serves(s *State, r *Request, node int, least int64) bool {
	n := &s.nodes[node]
	if m.CountMemory && (n.memory < least || least == 0 && n.memory < m.Nodes[node].Memory) ||
		n.jobs > 0 && (!m.admits(s, r, node) || r.Exclusive && m.devicesUsed(s, node)) {
		return false
	}
	return len(r.Devices) == 0 || m.HasDevices(s, r, node)
}

// devicesUsed reports whether generic resources of a node are in use.
func (m *Machine) devicesUsed(s *State, node int) bool {
	width := m.slots * (m.stride + 1)
	return slices.ContainsFunc(s.devices[node*width:(node+1)*width], func(n int16) bool { return n > 0 })
}

// HasDevices reports whether a node has enough free generic resources for a request.
func (m *Machine) HasDevices(s *State, r *Request, node int) bool {
	for k := range r.Devices {
		if len(m.Nodes[node].Devices) == 0 {
			return false
		}
		if m.countDevices(s, &r.Devices[k], node) < r.Devices[k].Least() {
			return false
		}
	}
	return true
}

// countDevices returns how many free generic resources of a node match a request.
func (m *Machine) countDevices(s *State, d *DeviceRequest, node int) int {
	n := 0
	for i := range m.Nodes[node].Devices {
		have := &m.Nodes[node].Devices[i]
		if !d.Wants(have) {
			continue
		}
		if have.BySocket == nil {
			n += have.Count
		}
		n += sum(have.BySocket)
		at := (node*m.slots + i) * (m.stride + 1)
		for _, used := range s.devices[at : at+m.stride+1] {
			n -= int(used)
		}
	}
	return n
}

// devicesFor returns the free generic resources of a node that match a request, by socket. The last
// number is for resources close to no socket. The result is valid until the next call.
func (t *test) devicesFor(m *Machine, d *DeviceRequest, node int) []int {
	total, one := t.work.free, t.work.one
	clear(total)
	for i := range m.Nodes[node].Devices {
		if !d.Wants(&m.Nodes[node].Devices[i]) {
			continue
		}
		m.freeDevices(t.state, node, i, t.anew, one)
		for k := range one {
			total[k] += one[k]
		}
	}
	return total
}

func sum[N int | int16](list []N) (n int) {
	for _, v := range list {
		n += int(v)
	}
	return n
}

// lookAll looks at all nodes of a set and removes those that cannot serve the job. Most nodes offer
// the same as the node before; for them, lookAll copies the result.
func (m *Machine) lookAll(t *test, nodes Bits) {
	before := -1
	for i := range nodes.All {
		if before >= 0 && m.alike(t, before, i) {
			t.rooms[i].copy(&t.rooms[before])
		} else {
			m.look(t, i)
		}
		if before = i; !t.rooms[i].ok {
			nodes.Clear(i)
		}
	}
}

// alike reports whether two nodes offer the same to the job.
func (m *Machine) alike(t *test, a, b int) bool {
	s, stride := t.state, m.stride
	return m.kinds[a] == m.kinds[b] && len(t.request.Devices) == 0 &&
		(t.allCores || slices.Equal(s.free[a*stride:(a+1)*stride], s.free[b*stride:(b+1)*stride])) &&
		(t.anew || s.nodes[a].memory == s.nodes[b].memory) &&
		(t.allCores || slices.Equal(s.limited.Of(t.request.Partition, a), s.limited.Of(t.request.Partition, b)))
}

// copy copies what another node offers to a job without generic resources.
func (at *room) copy(other *room) {
	at.ok, at.cpus, at.devices, at.wealth, at.free = other.ok, other.cpus, other.devices, other.wealth, other.free
	at.cores = at.cores[:len(other.cores)]
	copy(at.cores, other.cores)
}

// look computes a node's offer to a job (can_job_run_on_node). With anew, the node counts as empty.
// With allCores, all cores count as free, but used memory and generic resources do not (test 0).
func (m *Machine) look(t *test, node int) {
	r, n, at := t.request, &m.Nodes[node], &t.rooms[node]
	at.ok, at.devices = false, 0
	at.cores = at.cores[:n.Sockets]
	for k := range n.Sockets {
		at.cores[k] = int16(n.Cores)
		if !t.allCores {
			at.cores[k] = t.state.free[node*m.stride+k]
		}
	}
	most := m.allow(t, node)
	at.free = at.count() * n.Threads
	if most == 0 || !m.takeCPUs(t, n, at) {
		return
	}
	at.cpus = min(at.cpus, most)
	per := 1
	switch {
	case r.TasksPerNode > 0:
		per = r.TasksPerNode
	case r.Overcommit:
	case r.MaxNodes == 1 && r.Tasks > 0:
		per = r.Tasks
	}
	if at.cpus < per*r.CPUsPerTask {
		return
	}
	if len(r.Devices) > 0 && !m.lookDevices(t, node) {
		return
	}
	if m.CountMemory {
		m.limitByMemory(t, node)
	}
	if m.Since2411 {
		at.open = append(at.open[:0], at.cores...)
	}
	m.appraise(at)
	at.ok = at.cpus > 0
}

// appraise sets how rich a node is: its CPUs and generic resources that the job may use, added
// (avail_res_cnt) or, since 26.05, multiplied (avail_res_prod).
func (m *Machine) appraise(at *room) {
	if at.wealth = at.cpus + at.devices; m.Since2605 {
		at.wealth = at.cpus * max(1, at.devices)
	}
}

// takeCPUs counts the CPUs that the job may use on the free cores (_allocate_sc). It returns false
// if there are too few.
func (m *Machine) takeCPUs(t *test, n *Node, at *room) bool {
	r, usable := t.request, 0
	for k := range at.cores {
		if at.cores[k] < int16(max(1, r.CoresPerSocket)) {
			at.cores[k] = 0
			continue
		}
		usable++
	}
	if usable < max(1, r.SocketsPerNode) {
		return false
	}
	per := r.CPUsPerCore(n)
	tasks := 0
	at.cpus = 0
	for k := range at.cores {
		cpus := int(at.cores[k]) * per
		at.cpus += cpus
		if r.TasksPerSocket > 0 {
			cpus = min(cpus, r.TasksPerSocket)
		}
		tasks += cpus
	}
	if at.cpus < r.MinCPUsPerNode || at.cpus == 0 {
		return false
	}
	if r.TasksPerNode > 0 && tasks < r.TasksPerNode && !r.Overcommit {
		return false
	}
	if r.TasksPerSocket > 0 {
		for k := range at.cores {
			at.cores[k] = min(at.cores[k], int16((r.TasksPerSocket*r.CPUsPerTask+per-1)/per))
		}
		at.cpus = at.count() * per
	}
	if m.Since2411 && len(r.Devices) == 0 {
		return at.limitToTasks(t, per, tasks)
	}
	at.cpus = r.CPUsOf(at.count(), per)
	return true
}

// limitToTasks limits the job's CPUs and cores on a node to those that its tasks on this node use, as slurmctld does
// since 24.11. It leaves the cores of the first sockets usable. It returns false if there are too few.
func (at *room) limitToTasks(t *test, per, tasks int) bool {
	r := t.request
	if r.TasksPerNode > 0 && !r.Sharing.Alone && !t.dedicated {
		tasks = min(tasks, r.TasksPerNode)
	}
	tasks, cores := r.Occupy(at.cpus, per, tasks)
	at.cpus = tasks * r.CPUsPerTask
	for s := range at.cores {
		at.cores[s] = int16(min(int(at.cores[s]), cores))
		cores -= int(at.cores[s])
	}
	return at.cpus > 0 && at.cpus >= r.MinCPUsPerNode
}

// limitByMemory reduces the CPUs to those for which there is free memory.
func (m *Machine) limitByMemory(t *test, node int) {
	r, n, at := t.request, &m.Nodes[node], &t.rooms[node]
	free := n.Memory
	if !t.anew {
		free = t.state.nodes[node].memory
	}
	if !r.MemoryPerCPU {
		if r.Memory > free {
			at.cpus = 0
		}
		return
	}
	if r.Exclusive && r.Memory*int64(at.cpus) > free {
		at.cpus = 0
	}
	if step, memory := r.MemoryStep(n, m.ByCPU); memory*int64(at.cpus) > free {
		if over := at.cpus - int(max(0, free)/memory); over > 0 {
			at.cpus = max(0, at.cpus-(over+step-1)/step*step)
		}
	}
	if r.CPUsPerTask > 1 {
		at.cpus -= at.cpus % r.CPUsPerTask
	}
	if at.cpus < r.TasksPerNode {
		at.cpus = 0
	}
}
