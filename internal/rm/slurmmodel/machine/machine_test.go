package machine

import (
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// TestConsumableCPUs checks which units of SelectTypeParameters count as CPUs.
func TestConsumableCPUs(t *testing.T) {
	for value, want := range map[string]bool{"CR_CPU": true, "cr_cpu_memory,CR_LLN": true, "CR_Core_Memory": false} {
		get := func(key string) (string, bool) { return value, key == "SelectTypeParameters" }
		m, err := New(get, slurmspec.R2205, []hpc.Node{{Name: "n1", CPUs: 4}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.ByCPU != want {
			t.Errorf("%s: CPUs are the unit: %v, want %v", value, m.ByCPU, want)
		}
	}
}

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
