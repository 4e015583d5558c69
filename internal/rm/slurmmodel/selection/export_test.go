package selection

// Occupied returns a copy of a state in which all nodes count as nodes with jobs, so that tests
// take no shortcut.
func (m *Machine) Occupied(s *State) *State {
	to := m.NewState()
	s.CopyTo(to)
	for i := range m.Nodes {
		to.busy.Set(i)
	}
	return to
}

// Unknown makes the tester forget which nodes have the weights of slurm.conf.
func (x *Tester) Unknown() { x.own.Reset() }

// Search makes a test with RunNow, without the shortcut for nodes whose free cores cannot serve the
// job.
func (x *Tester) Search(s *State, r *Request, set Bits, c Counts) *Allocation {
	nodes := set.Clone()
	if x.usable(s, r, r.LeastMemory(), nodes); nodes.Count() < c.Min {
		return nil
	}
	return x.search(s, r, nodes, c, RunNow, false)
}

// Distribute distributes a job's tasks over nodes with these CPUs. It returns each node's CPUs and
// tasks.
func (m *Machine) Distribute(r *Request, cpus []int) (got, tasks []int) {
	t := &test{request: r, work: newWork(m), rooms: make([]room, len(m.Nodes))}
	parts := make([]Part, len(cpus))
	for n, c := range cpus {
		parts[n] = Part{Node: n, CPUs: c}
	}
	m.distribute(t, parts)
	for _, p := range parts {
		got, tasks = append(got, p.CPUs), append(tasks, p.tasks)
	}
	return got, tasks
}

// Tallies removes jobs from a state one after the other. After each it returns whether the nodes of
// a set are full for a request: as the tally knows it, and by looking at all nodes.
func (x *Tester) Tallies(s *State, r *Request, set Bits, least int, jobs []*Allocation) (tallied, looked []bool) {
	s.CopyTo(x.future)
	t := x.newTally(r, set, least)
	for _, a := range jobs {
		t.leave(a)
		nodes := set.Clone()
		x.usable(x.future, r, r.LeastMemory(), nodes)
		tallied, looked = append(tallied, t.fails()), append(looked, x.full(x.future, r, nodes, least))
	}
	return tallied, looked
}
