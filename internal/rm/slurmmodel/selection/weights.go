package selection

// Prefer adds weight to nodes that are not preferred, if the set has preferred nodes of the same
// kind (_build_node_list). It must be called after [Tester.Weigh]. The parameter preferred has the
// nodes of Preferred in package limits, or nil.
func (x *Tester) Prefer(set, preferred Bits, kinds []Bits) {
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
			x.Weights.Put(i, x.Weights.Of(i)+1<<8)
			x.own.Clear(i)
			x.plain.Clear(i)
			x.outside++
		}
	}
}
