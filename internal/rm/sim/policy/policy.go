// Package policy has the scheduling policies of the simulator, each with its source.
package policy

import (
	"fmt"
	"strings"

	"rmreplay/internal/rm/sim"
)

// named is a policy under its name on the command line.
type named struct {
	name string
	make sim.NewPolicy
}

var all = []named{
	{"fcfs", FCFS},
	{"easy", EASY},
}

// Names are the names that [New] knows.
func Names() []string {
	var names []string
	for _, n := range all {
		names = append(names, n.name)
	}
	return names
}

// New returns the policy of a name.
func New(name string) (sim.NewPolicy, error) {
	for _, n := range all {
		if n.name == name {
			return n.make, nil
		}
	}
	return nil, fmt.Errorf("%q: not a policy (want %s)", name, strings.Join(Names(), ", "))
}
