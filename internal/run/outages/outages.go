// Package outages says which nodes of a run were out of service, and when, by the events of the run.
package outages

import (
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
)

// Outages are the times when nodes of a run were out of service. The zero Outages has none.
type Outages struct{ changes []change }

// change takes nodes out of service, or returns them to service.
type change struct {
	at    hpc.Time
	names []string
	up    bool
}

// Add adds an event of nodes (rm.NodeState) with its text "NODES STATE" or "NODES STATE: reason". Events are added in
// order of time. A refused event is not added.
func (o *Outages) Add(at hpc.Time, text string) {
	nodes, state, _ := strings.Cut(text, " ")
	state, _, _ = strings.Cut(state, ":")
	if names, err := hostlist.Expand(nodes); err == nil && nodes != "refused:" {
		o.changes = append(o.changes, change{at, names, state == "resume"})
	}
}

// away reports whether a node was out of service at some time between two instants.
func (o *Outages) away(name string, from, to hpc.Time) bool {
	since, down, first := hpc.Time(0), false, true
	for i := range o.changes {
		c := &o.changes[i]
		if !slices.Contains(c.names, name) {
			continue
		}
		switch {
		case c.up && (down || first): // a node that returns without having left was down from the beginning
			if since < to && c.at > from {
				return true
			}
			down = false
		case !c.up && !down:
			since, down = c.at, true
		}
		first = false
	}
	return down && since < to
}

// unavailable precedes the names of the nodes in Slurm's reason for a job whose nodes are not available.
const unavailable = "UnavailableNodes:"

// InService reports whether all nodes that a reason of Slurm calls unavailable were in service between two instants,
// neither down nor drained. The result is true only if this is known: the job later ran on the nodes of the host list
// ran, which has all these nodes, and no event says that one of them was out of service. Nodes that slurm.conf declares
// as down need an event before they run jobs.
func (o *Outages) InService(reason, ran string, from, to hpc.Time) bool {
	_, list, ok := strings.Cut(reason, unavailable)
	if !ok || ran == "" {
		return false
	}
	names, err := hostlist.Expand(list)
	own, ranErr := hostlist.Expand(ran)
	if err != nil || ranErr != nil || len(names) == 0 {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains(own, name) || o.away(name, from, to)
	})
}
