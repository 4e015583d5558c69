// Package lanes divides the row of a node in a chart among the jobs that share the node.
package lanes

import "math"

// Part is the part of a node's row that a job has: consecutive lanes, from the top. The zero value is the whole row.
type Part struct{ First, Count uint8 }

// count is the number of lanes of each row.
const count = 64

// A job that has at least the share whole of a node's processors has all lanes of the node's row.
const whole = 0.98

// Row is the row of a node. The share of its lanes that have a job is the share of the node's processors that jobs
// hold, as far as jobs' ends leave no gaps. Jobs with less than the processors of a lane have a lane together.
type Row struct {
	held  float64        // share of the node's processors
	loads [count]float32 // the jobs' shares of the processors of each lane
}

// little is less than any job's share of a lane's processors, and more than the errors of sums.
const little = 1e-4

// Start returns the lanes of a job that starts with a share of the node's processors. The lanes are free, unless the
// row has too few free lanes.
func (r *Row) Start(share float64) Part {
	r.held += min(share, 1)
	p := r.choose(share)
	r.add(p, share)
	return p
}

// End removes a job from its lanes. It must get the share of [Row.Start].
func (r *Row) End(p Part, share float64) {
	r.held = max(0, r.held-min(share, 1))
	r.add(p, -share)
}

func (r *Row) choose(share float64) Part {
	if share >= whole {
		return Part{}
	}
	wants := float32(count * share)
	if wants < 1 {
		for i, load := range r.loads {
			if load > little && load+wants <= 1+little {
				return Part{uint8(i), 1}
			}
		}
	}
	busy := 0
	for _, load := range r.loads {
		if load > little {
			busy++
		}
	}
	n := int(math.Round(count*min(r.held, 1))) - busy // earlier roundings count, too
	for n := max(n, 1); n > 0; n /= 2 {
		if p, load := r.least(n); load <= little {
			return p
		}
	}
	p, _ := r.least(max(1, int(wants)))
	return p
}

// least returns the first n consecutive lanes whose load is smallest, and this load.
func (r *Row) least(n int) (p Part, load float32) {
	load = math.MaxFloat32
	for i := 0; i+n <= count; i++ {
		sum := float32(0)
		for _, one := range r.loads[i : i+n] {
			sum += one
		}
		if sum < load {
			p, load = Part{uint8(i), uint8(n)}, sum
		}
	}
	return p, load
}

// add adds the share of a job to its lanes.
func (r *Row) add(p Part, share float64) {
	if p == (Part{}) {
		p.Count, share = count, math.Copysign(1, share)
	}
	each := float32(count * share / float64(p.Count))
	for i := p.First; i < p.First+p.Count; i++ {
		r.loads[i] += each
	}
}

// Share returns the lanes as fractions of the row.
func (p Part) Share() (low, high float64) {
	if p == (Part{}) {
		return 0, 1
	}
	return float64(p.First) / count, float64(p.First+p.Count) / count
}
