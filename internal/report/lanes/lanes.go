// Package lanes divides the row of a node in a chart among the jobs that share the node.
package lanes

import "math/bits"

// Part is the part of a node's row that a job has: consecutive lanes, from the top. The zero value is the whole row.
type Part struct{ First, Count uint8 }

// row is the number of lanes of each row.
const row = 64

// A job that has at least the share whole of a node's processors has all lanes of the node's row.
const whole = 0.98

// Of returns free lanes for a job that has a share of a node's processors. The parameter busy has the lanes of other
// jobs ([Part.Mask]).
func Of(share float64, busy uint64) Part {
	if share >= whole {
		return Part{}
	}
	return free(busy, max(1, uint8(row*share)))
}

// Share returns the lanes as fractions of the row.
func (p Part) Share() (low, high float64) {
	if p == (Part{}) {
		return 0, 1
	}
	return float64(p.First) / row, float64(p.First+p.Count) / row
}

// Mask has a bit for each lane.
func (p Part) Mask() uint64 {
	if p == (Part{}) {
		return 1<<row - 1
	}
	return (1<<p.Count - 1) << p.First
}

// free returns count consecutive free lanes. If there are no such lanes, free returns count/2 lanes, or count/4, and
// so on. If no lane is free, the result overlaps other jobs.
func free(busy uint64, count uint8) Part {
	for n := count; n > 0; n /= 2 {
		free := ^busy
		for i := uint8(1); i < n; i++ {
			free &= ^busy >> i
		}
		if free != 0 {
			return Part{uint8(bits.TrailingZeros64(free)), n}
		}
	}
	return Part{0, count}
}
