package cores

import (
	"slices"
	"testing"
)

// TestTake has nodes with several sockets.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		job    Job
		usable []int16
		cpus   int
		want   []int16
		left   int
	}{
		{"in turn", Job{CPUsPerCore: 1}, []int16{4, 4}, 3, []int16{2, 1}, 0},
		{"in turn, with a full socket", Job{CPUsPerCore: 1}, []int16{0, 4}, 3, []int16{0, 3}, 0},
		{"whole tasks", Job{CPUsPerCore: 1, Packs: 3}, []int16{4, 4}, 6, []int16{3, 3}, 0},
		{"block: the socket that just fits", Job{CPUsPerCore: 1, Block: true}, []int16{4, 2}, 2, []int16{0, 2}, 0},
		{"block: none fits", Job{CPUsPerCore: 1, Block: true}, []int16{2, 3}, 4, []int16{1, 3}, 0},
		{"block: equal sockets", Job{CPUsPerCore: 2, Block: true}, []int16{4, 4}, 5, []int16{3, 0}, 0},
		{"block: a core for one task", Job{CPUsPerCore: 2, Block: true, Alone: 3}, []int16{4, 4}, 6, []int16{4, 0}, 0},
		{"whole tasks, a core for one task", Job{CPUsPerCore: 2, Packs: 3, Alone: 3}, []int16{2, 2}, 6, []int16{2, 2}, 0},
		{"whole tasks, a rest for one task", Job{CPUsPerCore: 2, Packs: 3, Alone: 3}, []int16{1, 3}, 6, []int16{1, 3}, 0},
		{"a task on two sockets", Job{CPUsPerCore: 2, Packs: 3, Alone: 3}, []int16{1, 1}, 3, []int16{1, 1}, 0},
		{"too few", Job{CPUsPerCore: 1, Block: true}, []int16{1, 1}, 3, []int16{1, 1}, 1},
	} {
		taken := make([]int16, len(c.usable))
		if left := c.job.Take(taken, c.usable, c.cpus); left != c.left || !slices.Equal(taken, c.want) {
			t.Errorf("%s: the job takes %v, and %d CPUs get no core; want %v and %d", c.name, taken, left, c.want, c.left)
		}
		if n, left := c.job.Count(c.usable, c.cpus); n != sum(c.want) || left != c.left {
			t.Errorf("%s: Count returns %d cores and %d CPUs, want %d and %d", c.name, n, left, sum(c.want), c.left)
		}
	}
}
