package reservations

import (
	"fmt"
	"slices"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// chooseNodes chooses a number of nodes for a reservation, from its partition or the default
// partition (_select_nodes). It takes nodes that another reservation has at the same time only after all
// other nodes, and only if the new reservation has the flag OVERLAP or MAINT. From 24.11 to 25.11 it also
// takes such nodes if the other reservation has one of these flags. Before 24.11 a reservation may get fewer
// nodes than it asks for.
func (l *List) chooseNodes(r *Reservation, count int) error {
	all, name, known := l.cluster.PartitionNodes(r.Partition)
	if !known {
		return fmt.Errorf("invalid partition name specified: %s", r.Partition)
	}
	r.Partition, r.named, r.allNodes = name, false, false
	r.flags &^= partNodes
	chosen := l.pick(r, all, count)
	if n := chosen.Count(); n == 0 || n < count && l.Since2411 {
		return fmt.Errorf("fewer than the requested %d nodes are free", count)
	}
	r.Nodes = chosen
	return nil
}

// pick chooses a number of nodes of a set for a reservation, or fewer if the set has too few
// (_pick_nodes_ordered).
func (l *List) pick(r *Reservation, among selection.Bits, count int) selection.Bits {
	available := among.Clone()
	available.And(l.cluster.Available())
	unreserved, shared := available.Clone(), available.Clone()
	for _, o := range l.all {
		if o == r || !meet(r, o) {
			continue
		}
		unreserved.AndNot(o.Nodes)
		if !o.has(maint | overlap) {
			shared.AndNot(o.Nodes)
		}
	}
	pools := []selection.Bits{unreserved}
	if l.Shares {
		pools = append(pools, shared)
	}
	if r.has(maint | overlap) {
		pools = append(pools, available)
	}
	if r.has(maint) {
		pools = append(pools, among.Clone())
	}
	chosen := l.cluster.none()
	for _, pool := range pools {
		pool.AndNot(chosen)
		if left := count - chosen.Count(); left > 0 && pool.Next(0) >= 0 {
			if some := l.pickCount(r, pool, min(left, pool.Count())); some != nil {
				chosen.Or(some)
			}
		}
	}
	return chosen
}

// pickCount chooses nodes that have no jobs when the reservation begins (_pick_node_cnt). With
// IGNORE_JOBS it also takes nodes with running jobs, but disturbs as few jobs as it can.
func (l *List) pickCount(r *Reservation, pool selection.Bits, count int) selection.Bits {
	if pool.Count() == count && r.has(ignoreJobs) {
		return l.cluster.Choose(pool, count, r.Start)
	}
	free := pool.Clone()
	held := l.cluster.HeldAfter(r.Start-1, nil)
	for _, nodes := range held {
		free.AndNot(nodes)
	}
	if free.Count() >= count {
		return l.cluster.Choose(free, count, r.Start)
	}
	if !r.has(ignoreJobs) {
		return nil
	}
	for _, nodes := range held {
		some := pool.Clone()
		some.And(nodes)
		free.Or(some)
		if free.Count() >= count {
			return l.cluster.Choose(free, count, r.Start)
		}
	}
	return nil
}

// Choose chooses nodes of a set as slurmctld does before 24.11 (select_p_resv_test). Without switches it takes the
// first nodes. Otherwise it finds the lowest and smallest switch with enough nodes. If one leaf below that switch has
// enough nodes, Choose takes this leaf; otherwise it takes the fullest leaves first. Choose returns nil if no switch
// has enough nodes.
func Choose(switches []selection.Switch, pool selection.Bits, count int) selection.Bits {
	chosen := make(selection.Bits, len(pool))
	if len(switches) == 0 {
		take(chosen, pool, count)
		return chosen
	}
	number := make([]int, len(switches))
	best := -1
	for i := range switches {
		number[i] = pool.CountAnd(switches[i].Nodes)
		if number[i] < count {
			continue
		}
		if best < 0 || switches[i].Level < switches[best].Level ||
			switches[i].Level == switches[best].Level && number[i] < number[best] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	for i := range switches {
		if switches[i].Level != 0 || !switches[best].Nodes.Contains(switches[i].Nodes) {
			number[i] = 0
		}
	}
	for left := count; left > 0; left = count - chosen.Count() {
		leaf := bestLeaf(number, left)
		if leaf < 0 {
			return nil
		}
		some := pool.Clone()
		some.And(switches[leaf].Nodes)
		take(chosen, some, left)
		number[leaf] = 0
	}
	return chosen
}

// bestLeaf returns the smallest leaf that has at least as many nodes as the parameter left says,
// or otherwise the largest leaf. The parameter number is the number of nodes of each leaf. The
// result is -1 if all are 0.
func bestLeaf(number []int, left int) int {
	best := -1
	for i, n := range number {
		switch {
		case n == 0:
		case best < 0, n >= left && number[best] < left, n >= left && n < number[best], n < left && n > number[best]:
			best = i
		}
	}
	return best
}

// take adds the first nodes of one set to another, as many as the parameter count says.
func take(to, from selection.Bits, count int) {
	for i := range from.All {
		if count == 0 {
			return
		}
		to.Set(i)
		count--
	}
}

// replaceNodes replaces nodes that are out of service, if slurmctld chose the reservation's nodes
// (_validate_node_choice).
func (l *List) replaceNodes(r *Reservation) {
	if r.named || r.has(static) {
		return
	}
	available := l.cluster.Available()
	kept := r.Nodes.Clone()
	kept.And(available)
	lost := r.Nodes.Count() - kept.Count()
	if lost == 0 {
		return
	}
	among, _, known := l.cluster.PartitionNodes(r.Partition)
	if !known {
		return
	}
	among = slices.Clone(among)
	among.And(available)
	among.AndNot(r.Nodes)
	if more := l.pick(r, among, lost); more.Count() == lost {
		kept.Or(more)
		r.Nodes = kept
	}
}

// Select chooses nodes as for a job that shares no nodes (_resv_select, since 24.11). It returns
// nil if the set has too few nodes.
func Select(
	x *selection.Tester, s *selection.State, among selection.Bits, count int, h *selection.Horizon,
) selection.Bits {
	r := selection.Request{MinCPUs: count, CPUsPerTask: 1, MinCPUsPerNode: 1, MaxNodes: count, Exclusive: true}
	alloc, _ := x.WillRun(s, &r, among, selection.Counts{Min: count, Max: count, Wanted: count}, h)
	if alloc == nil {
		return nil
	}
	return alloc.Nodes
}
