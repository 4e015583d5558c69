package weights_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/weights"
)

// TestLowBytes: two lists of the lowest bytes are equal if and only if these bytes are, and a list restores the bytes
// of its sets, and nothing else.
func TestLowBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	different := 0
	for range 2000 {
		n := 1 + rng.IntN(150)
		w, set, other := weights.New(n), nodeset.New(n), nodeset.New(n)
		for i := range n {
			w.Put(i, rng.Uint64N(1<<20))
			set.Put(i, rng.IntN(4) > 0)
			other.Put(i, rng.IntN(4) > 0)
		}
		before, list := slices.Clone(w.All()), w.AppendLow([]uint64{7}, set, other)
		same := true
		for range rng.IntN(3) {
			i, low := rng.IntN(n), uint8(rng.IntN(256))
			same = same && (!set.Has(i) || !other.Has(i) || uint64(low) == before[i]&0xff)
			w.PutLow(i, low)
		}
		changed := slices.Clone(w.All())
		if now := w.AppendLow([]uint64{7}, set, other); slices.Equal(now, list) != same {
			t.Fatalf("%d nodes: the lists are equal: %v, the bytes: %v", n, !same, same)
		}
		if !same {
			different++
		}
		w.SetLow(set, other, list[1:])
		for i := range n {
			want := changed[i]
			if set.Has(i) && other.Has(i) {
				want = before[i]
			}
			if w.Of(i) != want {
				t.Fatalf("node %d of %d weighs %#x, want %#x", i, n, w.Of(i), want)
			}
		}
		if now := w.AppendLow([]uint64{7}, set, other); !slices.Equal(now, list) {
			t.Fatalf("%d nodes: the restored bytes differ from the list", n)
		}
	}
	if different < 300 {
		t.Errorf("only %d cases have other bytes", different)
	}
}
