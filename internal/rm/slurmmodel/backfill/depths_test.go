package backfill

import (
	"testing"

	"rmreplay/internal/rm"
)

// TestDepths counts jobs of two users in a partition. A job that exceeds the limit of its user does
// not count in the partition.
func TestDepths(t *testing.T) {
	var d Depths
	d.Begin(2, 3, 0)
	for i, want := range []struct {
		user string
		why  rm.Backfill
	}{
		{"ann", ""}, {"ann", ""}, {"ann", rm.UserDepth}, {"ann", rm.UserDepth}, {"bob", ""}, {"bob", rm.PartitionDepth},
		{"ann", rm.PartitionDepth},
	} {
		var depth *Depth
		if got := d.Beyond(&depth, want.user, "all", true); got != want.why {
			t.Errorf("job %d, of %s: %q, want %q", i+1, want.user, got, want.why)
		}
	}
}

// TestDepthOfAJob counts a job of two partitions, in two cycles with different limits.
func TestDepthOfAJob(t *testing.T) {
	var d Depths
	var depth *Depth
	for _, limit := range []int{1, 2} {
		d.Begin(0, 0, limit)
		for i := range limit + 1 {
			for _, partition := range []string{"all", "large"} {
				want := rm.Backfill("")
				if i == limit {
					want = rm.UserDepth
				}
				if got := d.Beyond(&depth, "ann", partition, true); got != want {
					t.Errorf("limit %d, partition %s, try %d: %q, want %q", limit, partition, i+1, got, want)
				}
			}
		}
	}
}

// TestUncounted checks that a job in a magnetic reservation is compared with the limits, but not counted.
func TestUncounted(t *testing.T) {
	var d Depths
	d.Begin(1, 0, 0)
	var depth *Depth
	for _, want := range []struct {
		count bool
		why   rm.Backfill
	}{{false, ""}, {true, ""}, {false, rm.UserDepth}, {true, rm.UserDepth}} {
		if got := d.Beyond(&depth, "ann", "all", want.count); got != want.why {
			t.Errorf("count %v: %q, want %q", want.count, got, want.why)
		}
	}
}
