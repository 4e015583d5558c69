package nodeset_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/rm/nodeset"
)

// TestSet compares sets with maps.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "nodes")
		draw := func(name string) (nodeset.Set, map[int]bool) {
			set, want := nodeset.New(n), map[int]bool{}
			for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, name) {
				in := rapid.Bool().Draw(t, "in")
				if set.Put(i, in); in {
					want[i] = true
				} else {
					delete(want, i)
				}
			}
			return set, want
		}
		a, inA := draw("a")
		b, inB := draw("b")
		check := func(name string, set nodeset.Set, keep func(i int) bool) {
			var want []int
			for i := range n {
				if keep(i) {
					want = append(want, i)
				}
			}
			if got := slices.Collect(set.All); !slices.Equal(got, want) || set.Count() != len(want) {
				t.Fatalf("%s: %v, want %v", name, got, want)
			}
		}
		check("a", a, func(i int) bool { return inA[i] })
		and, or, without := a.Clone(), a.Clone(), a.Clone()
		and.And(b)
		or.Or(b)
		without.AndNot(b)
		check("and", and, func(i int) bool { return inA[i] && inB[i] })
		check("or", or, func(i int) bool { return inA[i] || inB[i] })
		check("without", without, func(i int) bool { return inA[i] && !inB[i] })
		if got, want := a.Overlaps(b), and.Count() > 0; got != want || a.CountAnd(b) != and.Count() {
			t.Fatalf("overlap %v of %d nodes, want %v of %d", got, a.CountAnd(b), want, and.Count())
		}
		if got, want := a.Sparse().Overlaps(b), and.Count() > 0; got != want {
			t.Fatalf("as a sparse set: overlap %v, want %v", got, want)
		}
		if a.Contains(b) != (or.Count() == a.Count()) || a.Equal(b) != maps.Equal(inA, inB) {
			t.Fatalf("%v contains %v: %v, is equal: %v", inA, inB, a.Contains(b), a.Equal(b))
		}
		if a.Equal(b) != (a.Hash() == b.Hash()) { // 64 bits, of at most some thousand draws
			t.Fatalf("%v and %v are spread to %#x and %#x", inA, inB, a.Hash(), b.Hash())
		}
		var both []int
		for i := a.NextAnd(b, 0); i >= 0; i = a.NextAnd(b, i+1) {
			both = append(both, i)
		}
		if want := slices.Collect(and.All); !slices.Equal(both, want) {
			t.Fatalf("one after the other in both: %v, want %v", both, want)
		}
		for i := range n {
			if a.Has(i) != inA[i] {
				t.Fatalf("node %d is in the set: %v, want %v", i, a.Has(i), inA[i])
			}
		}
		a.Reset()
		check("empty", a, func(int) bool { return false })
	})
}
