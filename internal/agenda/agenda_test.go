package agenda

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

// TestOrder checks that the entries come out in order after any order of Put.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Agenda[string]
		var kept []Entry[string]
		for seq := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(kept) > 0 && rapid.Bool().Draw(t, "take") {
				slices.SortFunc(kept, func(x, y Entry[string]) int {
					return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Seq, y.Seq))
				})
				if a.Next() != kept[0].At {
					t.Fatalf("next at %v, want %v", a.Next(), kept[0].At)
				}
				if got := a.Pop(); got != kept[0] {
					t.Fatalf("got %+v, want %+v", got, kept[0])
				}
				kept = kept[1:]
				continue
			}
			e := Entry[string]{
				At: hpc.Time(rapid.IntRange(0, 5).Draw(t, "at")), Class: rapid.Uint8Range(0, 2).Draw(t, "class"), Seq: seq,
				What: rapid.StringN(0, 3, 3).Draw(t, "what"),
			}
			kept = append(kept, e)
			a.Put(e)
		}
		if len(a) != len(kept) {
			t.Fatalf("%d entries, want %d", len(a), len(kept))
		}
	})
	if at := (Agenda[int])(nil).Next(); at != hpc.Never {
		t.Errorf("an empty agenda has something at %v", at)
	}
}
