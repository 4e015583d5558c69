package queues

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/priority"
)

// TestSort checks the order of the records of two jobs: first those of reservations, the earliest
// reservation of a job first, then by priority. With preemption another comparison comes first.
func TestSort(t *testing.T) {
	var q Queue[string]
	fill := func() {
		q.Clear()
		for _, one := range []struct {
			name     string
			reserved bool
			priority uint32
			number   uint64
			begin    uint32
		}{
			{"a", false, 5, 1, 0}, {"a late", true, 5, 1, 200}, {"a early", true, 5, 1, 100}, {"a also", true, 5, 1, 100},
			{"b", false, 9, 2, 0}, {"b early", true, 9, 2, 100},
		} {
			q.Add(one.name, priority.Rank{
				Urgency: priority.Urgency(one.reserved, 1, one.priority), Number: one.number, Begin: one.begin,
			})
		}
	}
	check := func(want ...string) {
		t.Helper()
		if q.Len() != len(want) {
			t.Fatalf("the queue has %d records", q.Len())
		}
		for i := range want {
			if q.At(i) != want[i] {
				t.Errorf("record %d is %q, want %q", i, q.At(i), want[i])
			}
		}
	}
	fill()
	q.Sort(false, nil)
	check("b early", "a early", "a also", "a late", "b", "a")
	fill()
	q.Sort(true, func(a, b *string) int {
		switch {
		case *a == "a" && *b != "a":
			return -1
		case *b == "a" && *a != "a":
			return 1
		}
		return 0
	})
	check("a", "b early", "a early", "a also", "a late", "b")
}
