package selection

// Prefer makes nodes of a set heavier if limits on nodes do not prefer them, but prefer others of their
// kind in the set (_build_node_list). It follows [Tester.Weigh]. preferred is nil for none.
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
