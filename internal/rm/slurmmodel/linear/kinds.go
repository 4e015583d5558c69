package linear

import (
	"cmp"
	"iter"
	"slices"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/hardware"
)

// Lightest gives the sets of nodes that slurmctld tests for a job one after the other (_pick_best_nodes in
// node_scheduler.c): the nodes of the lightest kind, these and the nodes of the next kind, and so on. It leaves
// out sets with too few nodes, except for the last one. The nodes that the job names are in each set.
func (l *Cluster) Lightest(set, named nodeset.Set, weights []uint64, c Counts) iter.Seq[nodeset.Set] {
	type kind struct {
		weight uint64
		nodes  nodeset.Set
	}
	var kinds []kind
	for _, of := range l.Kinds {
		for i := of.NextAnd(set, 0); i >= 0; i = of.NextAnd(set, i+1) {
			at := slices.IndexFunc(kinds, func(k kind) bool { return k.weight == weights[i] && of.Contains(k.nodes) })
			if at < 0 {
				at, kinds = len(kinds), append(kinds, kind{weights[i], nodeset.New(len(l.Nodes))})
			}
			kinds[at].nodes.Set(i)
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(a.weight, b.weight) })
	return func(yield func(nodeset.Set) bool) {
		nodes := nodeset.New(len(l.Nodes))
		nodes.Or(named)
		for k := range kinds {
			nodes.Or(kinds[k].nodes)
			more := k+1 < len(kinds)
			together := more && len(l.Switches) > 1 && kinds[k].weight == kinds[k+1].weight
			if together || more && nodes.Count() < max(c.Min, c.Wanted) {
				continue
			}
			if !yield(nodes) {
				return
			}
		}
	}
}

// Usable returns the nodes of a set that a job could use if they had no other jobs (_job_count_bitmap). With
// countMemory, a job with memory per CPU needs it for all CPUs of a node, and a job that does not request
// memory needs as much on each node as the first node has.
func (l *Cluster) Usable(r *hardware.Request, set nodeset.Set, countMemory bool) nodeset.Set {
	nodes, memory := set.Clone(), r.Memory
	for i := range nodes.All {
		n := &l.Nodes[i]
		if !HasDevices(r, n) {
			nodes.Clear(i)
			continue
		}
		if memory == 0 {
			memory = n.Memory + n.MemSpecLimit
		}
		need := memory
		if r.MemoryPerCPU && r.Memory > 0 {
			need *= int64(n.CPUs)
		}
		if countMemory && need > n.Memory {
			nodes.Clear(i)
		}
	}
	return nodes
}
