package selection

// Weigh gives nodes of a set the weights of slurm.conf again (_sync_node_weight). Of nodes of one kind of which
// limits of nodes prefer only some, the others are heavier (_build_node_list).
func (x *Tester) Weigh(set, preferred Bits, kinds []Bits) {
	for i := range set.All {
		x.Weights[i] = x.Nodes[i].Weight<<8 | 0xff
	}
	if preferred == nil {
		return
	}
	for _, kind := range kinds {
		others := kind.Clone()
		others.And(set)
		all := others.Count()
		others.AndNot(preferred)
		if n := others.Count(); n == 0 || n == all {
			continue
		}
		for i := range others.All {
			x.Weights[i] += 1 << 8
		}
	}
}

// Memory returns the memory of an allocation in MiB.
func (a *Allocation) Memory() (sum int64) {
	for i := range a.Parts {
		sum += a.Parts[i].Memory
	}
	return sum
}
