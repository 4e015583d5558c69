package selection

// Prefer makes nodes of a set heavier after [Tester.Weigh]: of nodes of one kind of which limits of nodes prefer
// only some, the others (_build_node_list). preferred is nil for none.
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
			x.Weights[i] += 1 << 8
			x.own.Clear(i)
			x.outside++
		}
	}
}
