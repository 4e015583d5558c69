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
