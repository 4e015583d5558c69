package selection

import (
	"fmt"

	"rmreplay/internal/hostlist"
)

// Names returns the names of nodes as a host list.
func (m *Machine) Names(nodes Bits) string {
	names := make([]string, 0, nodes.Count())
	for i := range nodes.All {
		names = append(names, m.Nodes[i].Name)
	}
	return hostlist.Compress(names)
}

// CountIdle returns how many nodes of both sets have no jobs.
func (s *State) CountIdle(a, b Bits) (n int) {
	for i := range a.All {
		if b.Has(i) && s.Idle(i) {
			n++
		}
	}
	return n
}

// SetOf returns the nodes of a host list. place has the places of nodes by name.
func (m *Machine) SetOf(list string, place map[string]int) (Bits, error) {
	names, err := hostlist.Expand(list)
	if err != nil {
		return nil, err
	}
	set := NewBits(len(m.Nodes))
	for _, name := range names {
		i, known := place[name]
		if !known {
			return nil, fmt.Errorf("invalid node name specified: %s", name)
		}
		set.Set(i)
	}
	return set, nil
}
