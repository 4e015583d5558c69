package driver

import (
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// served counts the nodes a, b and c. The nodes a and b are in the pool x.
func served(nodes iter.Seq[string]) (all int, uses map[string]int) {
	uses = map[string]int{}
	for n := range nodes {
		switch n {
		case "a", "b":
			uses["x"]++
			all++
		case "c":
			all++
		}
	}
	return all, uses
}

// TestBookings: a node counts as reserved once at a time, in however many reservations it is.
func TestBookings(t *testing.T) {
	type uses = map[string]int
	for _, c := range []struct {
		what     string
		list     []Reservation
		want     []ioaware.Reserved
		overlaps []ioaware.Reserved // expected for a job on the nodes a and d
	}{
		{"none", nil, []ioaware.Reserved{}, nil},
		{"apart", []Reservation{{5, 9, []string{"a", "c"}}, {1, 3, []string{"a", "a", "d"}}}, []ioaware.Reserved{
			{From: 1, Until: 3, Nodes: 1, Uses: uses{"x": 1}, Idle: uses{"x": 1}},
			{From: 5, Until: 9, Nodes: 2, Uses: uses{"x": 1}, Idle: uses{}},
		}, []ioaware.Reserved{
			{From: 1, Until: 3, Nodes: -1, Uses: uses{"x": -1}, Idle: uses{"x": -1}},
			{From: 5, Until: 9, Nodes: -1, Uses: uses{"x": -1}, Idle: uses{}},
		}},
		{"overlapping and touching", []Reservation{{1, 4, []string{"a", "b"}}, {2, 3, []string{"a"}}, {4, 6, []string{"b"}}}, []ioaware.Reserved{
			{From: 1, Until: 4, Nodes: 1, Uses: uses{"x": 1}, Idle: uses{"x": 1}},
			{From: 1, Until: 6, Nodes: 1, Uses: uses{"x": 1}, Idle: uses{"x": 1}},
		}, []ioaware.Reserved{{From: 1, Until: 4, Nodes: -1, Uses: uses{"x": -1}, Idle: uses{"x": -1}}}},
		{"without an end", []Reservation{{1, hpc.Never, []string{"c"}}}, []ioaware.Reserved{{From: 1, Until: hpc.Never, Nodes: 1, Uses: uses{}, Idle: uses{}}}, nil},
	} {
		booked := Book(c.list)
		if diff := cmp.Diff(c.want, booked.Reserved(served)); diff != "" {
			t.Errorf("%s: reserved (-want +got)\n%s", c.what, diff)
		}
		if diff := cmp.Diff(c.overlaps, booked.Overlaps([]string{"a", "d"}, served)); diff != "" {
			t.Errorf("%s: overlaps (-want +got)\n%s", c.what, diff)
		}
	}
}

// TestBookingsCountNodes: at every instant, Reserved counts each node that is in a reservation
// once.
func TestBookingsCountNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Reservation {
			begin := rapid.Int64Range(0, 20).Draw(t, "begin")
			return Reservation{hpc.Time(begin), hpc.Time(begin + rapid.Int64Range(1, 9).Draw(t, "length")), rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c"})).Draw(t, "nodes")}
		}), 0, 6).Draw(t, "reservations")
		booked := Book(list)
		for at := hpc.Time(0); at < 30; at++ {
			nodes, ends := map[string]bool{}, hpc.Never
			for _, r := range list {
				for _, n := range r.Nodes {
					nodes[n] = nodes[n] || r.Begin <= at && at < r.End
				}
			}
			want, got := 0, 0
			for _, is := range nodes {
				if is {
					want++
				}
			}
			for _, r := range booked.Reserved(served) {
				if ends = min(ends, r.Until); r.From <= at && at < r.Until {
					got += r.Nodes
				}
			}
			if got != want || booked.NextEnd() != ends {
				t.Fatalf("at %d: %d nodes, want %d; next end %d, want %d", at, got, want, booked.NextEnd(), ends)
			}
		}
	})
}
