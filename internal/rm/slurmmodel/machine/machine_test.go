package machine

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// TestSwitchesWithStrangeNodes checks that a switch does not get nodes that are not in slurm.conf.
func TestSwitchesWithStrangeNodes(t *testing.T) {
	m := &selection.Machine{Nodes: []selection.Node{{Name: "n1"}, {Name: "n2"}}}
	err := addSwitches(m, []Switch{
		{Name: "leaf", Nodes: []string{"n2", "n3"}}, {Name: "top", Switches: []string{"leaf"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Switches {
		if s.Nodes.Has(0) || !s.Nodes.Has(1) {
			t.Errorf("switch %s has nodes %v, want n2 alone", s.Name, s.Nodes)
		}
	}
}
