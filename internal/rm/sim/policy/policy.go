// Package policy has the scheduling policies of the simulator, each with its source.
//
// [New] finds a policy by its name on the command line. Other programs can use any [sim.Policy]
// of their own; docs/SIMULATOR.md builds one.
package policy

import (
	"fmt"
	"strings"

	"rmreplay/internal/rm/sim"
)

// named is a policy under its name on the command line.
type named struct {
	name, doc string
	make      sim.NewPolicy
}

// all are the policies without options, in the order of the help.
func all() []named {
	list := []named{
		{"fcfs", "first come, first served: the head of the queue holds up all others", FCFS},
		{"easy", "EASY backfilling by the rules of \"Replay with Feedback\" (FGCS 2024)", EASY},
		{"easy-textbook", "EASY backfilling of Mu'alem and Feitelson (2001)", Textbook(TieRules{})},
		{"conservative", "conservative backfilling: every job has a reservation", Conservative},
	}
	for _, o := range orders {
		list = append(list, named{o.name, "EASY, queue by " + o.doc, o.policy})
	}
	for _, p := range ioPolicies {
		list = append(list, named{p.name, p.doc, WithFileSystem(p.options)})
	}
	return list
}

// Info describes a policy for people.
type Info struct{ Name, Doc string }

// List describes the policies that [New] knows.
func List() []Info {
	var list []Info
	for _, n := range all() {
		list = append(list, Info{n.name, n.doc})
	}
	return list
}

// Names are the names that [New] knows.
func Names() []string {
	var names []string
	for _, n := range all() {
		names = append(names, n.name)
	}
	return names
}

// New returns the policy of a name. The name easy-textbook may have tie rules after a colon, as
// [TieRules] describes them: "easy-textbook:extra=first,end=before". The policies that plan with a
// file system have the options of [IOOptions]: "io-aware:track-nodes,estimate=x2".
func New(spec string) (sim.NewPolicy, error) {
	name, options, hasOptions := strings.Cut(spec, ":")
	for _, n := range all() {
		switch {
		case n.name != name:
		case !hasOptions:
			return n.make, nil
		case name == "easy-textbook":
			ties, err := parseTies(options)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", spec, err)
			}
			return Textbook(ties), nil
		case ioOptions(name) != nil:
			chosen, err := parseIO(*ioOptions(name), options)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", spec, err)
			}
			return WithFileSystem(chosen), nil
		default:
			return nil, fmt.Errorf("%s: %s has no options", spec, name)
		}
	}
	return nil, fmt.Errorf("%q: not a policy (want %s)", name, strings.Join(Names(), ", "))
}

// parseTies reads the options of easy-textbook.
func parseTies(options string) (TieRules, error) {
	var ties TieRules
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "extra=first":
			ties.ExtraFirst = true
		case "extra=all":
			ties.ExtraFirst = false
		case "end=before":
			ties.EndBefore = true
		case "end=by":
			ties.EndBefore = false
		default:
			return ties, fmt.Errorf("%q: not a tie rule (want extra=all, extra=first, end=by or end=before)", option)
		}
	}
	return ties, nil
}
