package rows

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/rm/nodeset"
)

// TestCount compares Count with a loop over the cores.
func TestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cores = 300
		set, want := nodeset.New(cores), 0
		for _, c := range rapid.SliceOf(rapid.IntRange(0, cores-1)).Draw(t, "cores") {
			set.Set(c)
		}
		first := rapid.IntRange(0, cores-1).Draw(t, "first")
		n := rapid.IntRange(0, cores-first).Draw(t, "n")
		for c := first; c < first+n; c++ {
			if set.Has(c) {
				want++
			}
		}
		if got := Count(set, first, n); got != want {
			t.Errorf("Count is %d, want %d", got, want)
		}
	})
}

// low and high return jobs of two partitions on eight cores: low has tier 1, and high has tier 10.
func low(cores ...int) *Job  { return &Job{Partition: 0, Cores: cores, CPUs: len(cores)} }
func high(cores ...int) *Job { return &Job{Partition: 1, Cores: cores, CPUs: len(cores)} }

// seek finds n cores: the first that are not in use.
func seek(t *Table, s Search, n int) []int {
	return Find(t, s, func(used, _ Cores) ([]int, bool) {
		var free []int
		for c := range 8 {
			if !used.Has(c) && len(free) < n {
				free = append(free, c)
			}
		}
		return free, len(free) == n
	})
}

// TestFind checks that a job of a high tier gets cores of jobs in lower tiers, avoids them if it
// can, and does not get cores of jobs in its own tier.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []*Job
		of   int
		n    int
		want []int
	}{
		{"a lower tier's cores", []*Job{low(0, 1, 2, 3, 4, 5, 6, 7)}, 1, 3, []int{0, 1, 2}},
		{"free cores before a lower tier's", []*Job{low(0, 1, 2, 3)}, 1, 4, []int{4, 5, 6, 7}},
		{"free cores and a lower tier's", []*Job{low(0, 1, 2, 3)}, 1, 5, []int{0, 1, 2, 3, 4}},
		{"cores of a higher tier", []*Job{high(0, 1, 2, 3)}, 0, 5, nil},
		{"cores of its own tier", []*Job{high(0, 1, 2, 3), low(4, 5, 6, 7)}, 1, 5, nil},
	} {
		table := New(8, []Partition{{Tier: 1, Rows: 1}, {Tier: 10, Rows: 1}}, false)
		for _, j := range c.jobs {
			table.Add(j)
		}
		for _, newer := range []bool{false, true} {
			if got := seek(table, Search{Partition: c.of, ByTier: true, Since2411: newer}, c.n); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// TestCopyAndRemove checks that a copy and its original have different jobs, and that jobs that
// leave free only their own cores.
func TestCopyAndRemove(t *testing.T) {
	for _, count := range []int{1, 2} {
		parts := []Partition{{Tier: 1, Rows: count}, {Tier: 10, Rows: count}}
		table, other := New(8, parts, false), New(8, parts, false)
		a, b, c := low(0, 1), low(2, 3), high(1, 2)
		for _, j := range []*Job{a, b, c} {
			table.Add(j)
		}
		table.CopyTo(other)
		other.Remove(a)
		if got := Count(table.Used(), 0, 8); got != 4 {
			t.Errorf("%d cores are in use, want 4", got)
		}
		if used := other.Used(); used.Has(0) || !used.Has(1) || Count(used, 0, 8) != 3 {
			t.Errorf("in use after the removal: %v", used)
		}
		other.Remove(a) // a second removal does nothing
		other.Remove(b)
		other.Remove(c)
		if got := Count(other.Used(), 0, 8); got != 0 {
			t.Errorf("%d cores are in use, want none", got)
		}
	}
}

// With late, rows that lost a job keep their order until the next test, and Used already has the
// cores that the test finds.
func TestSettle(t *testing.T) {
	for _, late := range []bool{false, true} {
		table := New(8, []Partition{{Tier: 1, Rows: 2}}, late)
		small, large, other := low(0), low(0, 1, 2), low(4)
		for _, j := range []*Job{other, small, large} {
			table.Add(j)
		}
		first := func() *Job { return table.rows[0][0].jobs[0] }
		table.Remove(other)
		if built := first() == large; built == late {
			t.Errorf("late %t: rows are built anew when a job leaves: %t", late, built)
		}
		if got := Count(table.Used(), 0, 8); got != 3 {
			t.Errorf("late %t: %d cores are in use, want 3", late, got)
		}
		if table.Settle(); first() != large {
			t.Errorf("late %t: the rows are not built anew", late)
		}
	}
}

// TestBusy has a job of a partition with two rows on the cores 0 and 1 of eight.
func TestBusy(t *testing.T) {
	table := New(8, []Partition{{Tier: 1, Rows: 2}, {Tier: 1, Rows: 1}}, false)
	table.Add(low(0, 1))
	for _, c := range []struct {
		name            string
		byQOS           bool
		own             int
		all             bool
		first, end      int
		anywhere, wants bool
	}{
		{"for a job of another partition", false, 1, false, 0, 4, false, true},
		{"for a job of the same partition", false, 0, false, 0, 4, false, false},
		{"for a job that needs whole nodes", false, 0, true, 0, 4, false, true},
		{"on other cores", false, 1, false, 4, 8, false, false},
		{"on other cores, in 24.11", false, 1, false, 4, 8, true, true},
		{"with the additional row of preempt/qos", true, 1, false, 0, 4, false, false},
	} {
		if got := table.Busy(c.byQOS, c.own, c.all, c.first, c.end, c.anywhere); got != c.wants {
			t.Errorf("%s: busy is %t, want %t", c.name, got, c.wants)
		}
	}
}
