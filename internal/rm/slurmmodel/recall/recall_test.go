package recall_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"rmreplay/internal/rm/slurmmodel/recall"
)

// TestTable compares a table with a map, on questions that begin alike, and clears both at times.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table recall.Table[string]
	want := map[string]string{}
	hits := 0
	for step := range 200_000 {
		if rng.IntN(40_000) == 0 {
			table.Clear()
			clear(want)
		}
		words := make([]uint64, rng.IntN(6))
		for k := range words {
			words[k] = uint64(rng.IntN(6))
		}
		key := fmt.Sprint(words)
		answer, isNew := table.Find(words)
		if _, known := want[key]; known == isNew {
			t.Fatalf("step %d: question %s is new: %v", step, key, isNew)
		}
		if isNew {
			*answer = fmt.Sprint(step)
			want[key] = *answer
		} else {
			hits++
		}
		if *answer != want[key] {
			t.Fatalf("step %d: question %s has the answer %s, want %s", step, key, *answer, want[key])
		}
		if table.Len() != len(want) {
			t.Fatalf("step %d: %d answers, want %d", step, table.Len(), len(want))
		}
		clear(words) // the table must have its own copy
	}
	if hits < 100_000 {
		t.Errorf("only %d questions came again", hits)
	}
}
