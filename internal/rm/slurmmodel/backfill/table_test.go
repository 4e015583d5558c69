package backfill_test

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/backfill"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// nodes returns a set of the given nodes, out of four.
func nodes(list ...int) selection.Bits {
	set := selection.NewBits(4)
	for _, i := range list {
		set.Set(i)
	}
	return set
}

func TestTableBeginsAndEndsAtMultiplesOfTheResolution(t *testing.T) {
	table := backfill.New(130, 600, 60, nodes(0, 1))
	if got := table.End(); got != 720 {
		t.Errorf("the window ends at %d, want 720", got)
	}
	if !table.Conflicts(nodes(2), 120, 180) || table.Conflicts(nodes(0, 1), 120, 720) {
		t.Error("nodes out of service are free, or those in service are not")
	}
}

func TestReservedNodesAreLeftOutWhileTheyArePlanned(t *testing.T) {
	table := backfill.New(0, 600, 60, nodes(0, 1, 2, 3))
	table.Reserve(nodes(1, 2), 120, 240)
	for _, c := range []struct {
		name       string
		start, end int64
		want       selection.Bits
		later      int64
	}{
		{"before, and on into the reservation", 0, 180, nodes(0, 3), 240},
		{"that ends as the reservation begins: Slurm leaves the nodes out, too", 0, 120, nodes(0, 3), 240},
		{"before", 0, 119, nodes(0, 1, 2, 3), 240},
		{"after", 240, 600, nodes(0, 1, 2, 3), 0},
	} {
		set := nodes(0, 1, 2, 3)
		later := table.Restrict(set, c.start, c.end)
		if !set.Equal(c.want) || later != c.later {
			t.Errorf("a job %s gets %v, and may look again at %d; want %v and %d", c.name, set, later, c.want, c.later)
		}
	}
	if !table.Conflicts(nodes(2), 180, 300) || table.Conflicts(nodes(2), 240, 300) || table.Conflicts(nodes(0), 120, 240) {
		t.Error("a conflict is not that of the planned nodes from 120 to 240")
	}
}

func TestReservationsTakeIntervals(t *testing.T) {
	table := backfill.New(0, 600, 60, nodes(0, 1, 2, 3))
	table.Reserve(nodes(0), 120, 240)
	if got := table.Records(); got != 3 {
		t.Errorf("%d intervals after one reservation, want 3", got)
	}
	table.Reserve(nodes(1), 120, 240) // at the same time: no further interval
	if got := table.Records(); got != 3 {
		t.Errorf("%d intervals after two reservations of the same time, want 3", got)
	}
	table.Reserve(nodes(2), 900, 960) // after the window
	if got := table.Records(); got != 3 {
		t.Errorf("%d intervals after a reservation beyond the window, want 3", got)
	}
	table.Reserve(nodes(3), 300, 300) // 0 s long: it takes one multiple of the resolution
	if !table.Conflicts(nodes(3), 300, 301) || table.Conflicts(nodes(3), 360, 420) {
		t.Error("a reservation of no time does not take one resolution")
	}
}
