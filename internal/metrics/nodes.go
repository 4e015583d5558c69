package metrics

import (
	"cmp"
	"slices"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// nodeUse collects on which nodes jobs ran, and when.
type nodeUse struct {
	places  map[string]int32   // the numbers of nodes, from 0, by their names
	lists   map[string][]int32 // the nodes of each host list
	periods []nodePeriod
	counted area // nodes x time of the periods whose nodes have no names
}

// nodePeriod is a period in which a job held nodes.
type nodePeriod struct {
	from, to hpc.Time
	nodes    []int32
}

// addNodes adds the nodes that a job held within T.
func (a *accumulator) addNodes(held []run.Segment) {
	if a.opts.Nodes == 0 {
		return
	}
	unnamed, missing := false, false
	for i := range held {
		s := &held[i]
		d := a.within(s.Start, s.End)
		if d <= 0 {
			continue
		}
		if nodes, ok := a.nodes.listed(s.Nodes); ok {
			from := max(s.Start, a.from)
			a.nodes.periods = append(a.nodes.periods, nodePeriod{from, from.Add(d), nodes})
			continue
		}
		a.nodes.counted.add(d, s.NodeCount)
		unnamed, missing = unnamed || s.NodeCount > 0, missing || s.NodeCount <= 0
	}
	switch {
	case missing:
		a.m.LeftOut[NoNodes]++
	case unnamed:
		a.m.UnnamedNodes++
	}
}

// listed returns the nodes of a host list, or false for a text that is not a host list.
func (u *nodeUse) listed(text string) ([]int32, bool) {
	if nodes, seen := u.lists[text]; seen {
		return nodes, nodes != nil
	}
	if u.lists == nil {
		u.lists, u.places = map[string][]int32{}, map[string]int32{}
	}
	var nodes []int32
	if err := hostlist.Visit(text, func(name []byte) {
		place, seen := u.places[string(name)]
		if !seen {
			place = int32(len(u.places))
			u.places[string(name)] = place
		}
		nodes = append(nodes, place)
	}); err != nil {
		nodes = nil // a record may have a text such as "None assigned"
	}
	u.lists[text] = nodes
	return nodes, nodes != nil
}

// sum returns for how long nodes had jobs, summed over nodes. A node that jobs share counts only
// once. A node without a name counts once for each job.
func (u *nodeUse) sum() area {
	slices.SortFunc(u.periods, func(a, b nodePeriod) int { return cmp.Compare(a.from, b.from) })
	busy, until := u.counted, make([]hpc.Time, len(u.places)) // for each node, the last end of the jobs seen so far
	for i := range u.periods {
		p := &u.periods[i]
		for _, n := range p.nodes {
			if p.to > until[n] {
				busy.add(p.to.Sub(max(p.from, until[n])), 1)
				until[n] = p.to
			}
		}
	}
	return busy
}

// setNodes sets the metrics of nodes. The parameter span is the length of T in seconds.
func (a *accumulator) setNodes(m *Metrics, span float64) {
	m.UsedNodeSeconds, m.IdleNodeSeconds, m.NodeUtilization = NoValue(), NoValue(), NoValue()
	all := span * float64(a.opts.Nodes)
	if all <= 0 || m.LeftOut[NoNodes] > 0 {
		return
	}
	busy := a.nodes.sum()
	used := busy.seconds()
	if m.UnnamedNodes > 0 {
		used = min(used, all)
	}
	m.UsedNodeSeconds, m.IdleNodeSeconds = Float(used), Float(max(0, all-used))
	m.NodeUtilization = ratio(used, all)
}
