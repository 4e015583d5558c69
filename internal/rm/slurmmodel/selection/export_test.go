package selection

// Occupied returns a copy of a state in which each node counts as one with a job, so that tests take no short cut.
func (m *Machine) Occupied(s *State) *State {
	to := m.NewState()
	s.CopyTo(to)
	for i := range m.Nodes {
		to.busy.Set(i)
	}
	return to
}

// Unknown forgets which nodes have their own weights.
func (x *Tester) Unknown() { x.own.Reset() }

// Search makes a test with RunNow without its short cut for nodes whose free cores cannot serve the job.
func (x *Tester) Search(s *State, r *Request, set Bits, c Counts) *Allocation {
	nodes := set.Clone()
	if x.usable(s, r, nodes); nodes.Count() < c.Min {
		return nil
	}
	return x.search(s, r, nodes, c, RunNow, false)
}

// Distribute gives nodes with CPUs their tasks. It returns the CPUs and the tasks of each.
func (m *Machine) Distribute(r *Request, cpus []int) (got, tasks []int) {
	t := &test{request: r, work: newWork(m)}
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
