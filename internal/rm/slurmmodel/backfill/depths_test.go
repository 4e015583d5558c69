package backfill

import (
	"testing"

	"rmreplay/internal/rm"
)

// TestDepths counts jobs of two users in a partition. A job that exceeds the limit of its user does
// not count in the partition.
func TestDepths(t *testing.T) {
	d := Depths{User: 2, Partition: 3}
	for i, want := range []struct {
		user string
		why  rm.Backfill
	}{
		{"ann", ""}, {"ann", ""}, {"ann", rm.UserDepth}, {"ann", rm.UserDepth}, {"bob", ""}, {"bob", rm.PartitionDepth},
		{"ann", rm.PartitionDepth},
	} {
		if got := d.Beyond(want.user, "all"); got != want.why {
			t.Errorf("job %d, of %s: %q, want %q", i+1, want.user, got, want.why)
		}
	}
}
