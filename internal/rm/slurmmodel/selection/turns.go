package selection

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// turn adds the cores of an allocation to the rows, or removes them.
func (m *Machine) turn(s *State, a *Allocation, add bool) {
	if s.rows == nil || a.Turn == nil {
		return
	}
	if add {
		s.rows.Add(a.Turn)
	} else {
		s.rows.Remove(a.Turn)
	}
	m.countFree(s, s.rows.Used())
}

// admits reports whether the modes of a node's jobs let the job use the node (_verify_node_state, _is_node_busy).
func (m *Machine) admits(s *State, r *Request, node int) bool {
	shares := &s.nodes[node].shares
	return shares.Admits(r.Sharing.Mode, func(all bool) bool {
		return s.rows != nil && (!m.Since2411 || !s.copied && shares.Counting()) &&
			s.rows.Busy(m.Turn.ByQOS, r.Partition, all, m.first[node], m.first[node+1], m.Since2411 && !m.Since2605)
	})
}

// sharesCores reports whether a job that finds too few free cores may share cores with other jobs. Before 26.05,
// slurmctld also looks for such cores for jobs that need whole nodes.
func (m *Machine) sharesCores(r *Request) bool {
	mode := r.Sharing.Mode
	return m.Turns != nil && (m.Gang || mode == sharing.Shared || mode == sharing.Whole && !m.Since2605)
}

// Suspend removes the cores of a suspended job. The job keeps its memory and its generic resources.
func (m *Machine) Suspend(s *State, a *Allocation) { m.turn(s, a, false) }

// countFree recounts a state's free cores, given the cores in use.
func (m *Machine) countFree(s *State, used rows.Cores) {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		s.cores[i] = 0
		for k := range n.Sockets {
			free := int16(n.Cores - rows.Count(used, m.first[i]+k*n.Cores, n.Cores))
			s.free[i*m.stride+k] = free
			s.cores[i] += free
		}
	}
}

// place chooses the cores of an allocation: the first free cores of each socket.
func (m *Machine) place(s *State, r *Request, a *Allocation, used rows.Cores) {
	if a == nil || s.rows == nil || len(a.Parts) == 0 {
		return
	}
	if used == nil {
		used = s.rows.Used()
	}
	n := len(a.Parts)
	a.Turn = &rows.Job{Partition: r.Partition, CPUs: max(r.MinCPUs, n*max(1, r.TasksPerNode, r.MinCPUsPerNode))}
	for i := range a.Parts {
		p := &a.Parts[i]
		n, c := &m.Nodes[p.Node], m.first[p.Node]
		for _, want := range p.cores {
			for range n.Cores {
				if want > 0 && (r.Exclusive || !used.Has(c)) {
					a.Turn.Cores = append(a.Turn.Cores, c)
					want--
				}
				c++
			}
		}
	}
}

// takeTurns looks for nodes on which the job can share cores with jobs that are suspended for it,
// or that it alternates with.
func (x *Tester) takeTurns(t *test, usable Bits, mode Mode) *Allocation {
	s, r := t.state, t.request
	view := *s
	view.free, view.cores = slices.Clone(s.free), slices.Clone(s.cores)
	t.state = &view
	defer func() { t.state = s }()
	nodes := NewBits(len(x.Nodes))
	turn := x.Turn
	turn.Partition, turn.Extra, turn.Stopped, turn.Exempt = r.Partition, x.Extra, x.Stopped, x.Exempt
	turn.Shares = r.Sharing.Mode == sharing.Shared
	return rows.Find(s.rows, turn, func(used, except rows.Cores) (*Allocation, bool) {
		x.countFree(&view, used)
		copy(nodes, usable)
		for i := range usable.All {
			for c := x.first[i]; r.Exclusive && c < x.first[i+1]; c++ {
				if used.Has(c) && !except.Has(c) {
					nodes.Clear(i)
					break
				}
			}
		}
		if !x.choose(t, nodes) {
			return nil, false
		}
		if t.scattered {
			return nil, true
		}
		a := x.result(t, nodes, mode)
		x.place(s, r, a, used)
		return a, true
	})
}
