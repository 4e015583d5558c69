package backfill_test

import (
	"math/rand/v2"
	"testing"

	"rmreplay/internal/rm/slurmmodel/backfill"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// linked is the table in slurmctld's own form: a linked list that each call goes through from its
// start.
type linked struct {
	first      *record
	records    int
	resolution int64
	beyond     bool
}

type record struct {
	begin, end int64
	free       selection.Bits
	next       *record
}

func (t *linked) restrict(set selection.Bits, start, end int64) (later int64) {
	all := set.Clone()
	for i := t.first; i != nil; i = i.next {
		if i.end > start && i.next != nil && later == 0 {
			more := all.Clone()
			more.And(i.next.free)
			now := set.Clone()
			now.And(i.free)
			if !now.Contains(more) {
				later = i.end
			}
		}
		if i.end <= start {
			continue
		}
		if i.begin > end {
			if t.beyond && later == 0 && i.next != nil && i.next.next != nil {
				later = i.next.end
			}
			break
		}
		set.And(i.free)
	}
	return later
}

func (t *linked) conflicts(nodes selection.Bits, start, end int64) bool {
	for i := t.first; i != nil; i = i.next {
		if i.end > start && i.begin < end && !i.free.Contains(nodes) {
			return true
		}
	}
	return false
}

func (t *linked) reserve(nodes selection.Bits, start, end int64) {
	start = max(start, t.first.begin)
	end = max(end, start+t.resolution)
	before, placed := t.first, false
	at := t.first
	for ; at != nil; at = at.next {
		if at.end >= start {
			placed = true
			if at.end > start {
				t.split(at, start)
			}
			break
		}
		before = at
	}
	if !placed {
		return
	}
	var after *record
	for at = at.next; at != nil; at = at.next {
		if end < at.end {
			t.split(at, end)
		}
		at.free.AndNot(nodes)
		if at.end == end {
			after = at.next
			break
		}
	}
	for i := before; i != after && i.next != nil; i = i.next {
		if i.free.Equal(i.next.free) {
			i.end, i.next = i.next.end, i.next.next
			return
		}
	}
}

func (t *linked) split(i *record, at int64) {
	i.next = &record{begin: at, end: i.end, free: i.free.Clone(), next: i.next}
	i.end = at
	t.records++
}

// TestTableIsTheLinkedList compares the table with the linked list in random cycles.
func TestTableIsTheLinkedList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table *backfill.Table
	for cycle := range 300 {
		n := 1 + rng.IntN(130)
		some := func(odds int) selection.Bits {
			set := selection.NewBits(n)
			for i := range n {
				if rng.IntN(odds) == 0 {
					set.Set(i)
				}
			}
			return set
		}
		free, now, resolution := some(1+rng.IntN(2)), int64(rng.IntN(1000)), []int64{1, 60}[rng.IntN(2)]
		const window = 3600
		if table == nil || cycle%50 == 0 {
			table = backfill.New(now, window, resolution, free)
		} else { // reuses a table of as many nodes, or of another number
			table.Begin(now, window, resolution, free)
		}
		slow := &linked{records: 1, resolution: resolution, beyond: cycle%2 == 0}
		slow.first = &record{begin: now / resolution * resolution, end: (now + window) / resolution * resolution, free: free.Clone()}
		table.Beyond = slow.beyond
		type question struct {
			set        selection.Bits
			start, end int64
		}
		pool := make([]question, 5) // few, so that questions are repeated
		for k := range pool {
			start := now + int64(k/3*(rng.IntN(window+200)-100))
			pool[k] = question{some(2), start, start + int64(rng.IntN(window))}
		}
		for step := range 200 {
			start := now - 100 + int64(rng.IntN(window+200))
			end := start + int64(rng.IntN(window))
			set := some(1 + rng.IntN(20))
			switch rng.IntN(3) {
			case 0:
				start, end = start/resolution*resolution, end/resolution*resolution
				slow.reserve(set, start, end)
				table.Reserve(set, start, end)
				if table.Records() != slow.records {
					t.Fatalf("cycle %d, step %d: %d intervals were made, want %d", cycle, step, table.Records(), slow.records)
				}
			case 1:
				if got, want := table.Conflicts(set, start, end), slow.conflicts(set, start, end); got != want {
					t.Fatalf("cycle %d, step %d: a conflict between %d and %d is %v, want %v", cycle, step, start, end, got, want)
				}
			case 2:
				q := pool[rng.IntN(len(pool))]
				start, end = q.start, q.end
				set, want := q.set.Clone(), q.set.Clone()
				wanted := slow.restrict(want, start, end)
				if later := table.Restrict(set, start, end); later != wanted || !set.Equal(want) {
					t.Fatalf("cycle %d, step %d: from %d to %d: %v and %d, want %v and %d", cycle, step, start, end, set, later, want, wanted)
				}
				able, least, span := some(1+rng.IntN(3)), rng.IntN(n+1), int64(rng.IntN(window))
				skipped := wanted
				for later := wanted; later > 0; {
					skipped = later
					rest := q.set.Clone()
					if later = slow.restrict(rest, skipped, skipped+span); rest.CountAnd(able) >= least {
						break
					}
				}
				if got := table.Skip(able, least, wanted, span); got != skipped {
					t.Fatalf("cycle %d, step %d: tries from %d on for %d seconds that need %d nodes go on at %d, want %d",
						cycle, step, wanted, span, least, got, skipped)
				}
			}
		}
	}
}
