package report

import (
	"cmp"
	"math/bits"
	"slices"

	"rmreplay/internal/run"
)

// lanes are the part of a node's row that a job has: consecutive lanes, from the top. The zero
// value is the whole row.
type lanes struct{ first, count uint8 }

// rowLanes is the number of lanes of each row.
const rowLanes = 64

// A job that has at least the share whole of a node's processors has all lanes of the node's row.
const whole = 0.98

// share returns the lanes as fractions of the row.
func (l lanes) share() (low, high float64) {
	if l == (lanes{}) {
		return 0, 1
	}
	return float64(l.first) / rowLanes, float64(l.first+l.count) / rowLanes
}

// shareNodes gives each job a part of the rows of its nodes in proportion to its processors there, so that jobs that
// share a node are drawn one above the other. A record does not have each node's processors. shareNodes estimates
// them as the largest number of processors that jobs held there at the same time, but at least as the average of the
// cluster's nodes. Jobs that were suspended at some time do not count.
func (g *Gantt) shareNodes(c *run.Cluster) {
	average := 0.0
	if c.Nodes > 0 {
		average = float64(c.Processors) / float64(c.Nodes)
	}
	held, capacity := make([]float64, len(g.nodes)), make([]float64, len(g.nodes))
	shared := false
	g.sweep(func(job *occupation, starts bool) {
		n := job.processorsPerNode()
		if job.row.Suspended > 0 {
			n = 0
		} else if !starts {
			n = -n
		}
		for _, r := range job.ranges {
			for node := r.first; node < r.first+r.count; node++ {
				held[node] += n
				capacity[node] = max(capacity[node], average, held[node])
				shared = shared || starts && held[node] < whole*capacity[node]
			}
		}
	})
	if shared {
		g.divideRows(capacity)
	}
}

// divideRows assigns lanes, in the order of the jobs' starts.
func (g *Gantt) divideRows(capacity []float64) {
	busy := make([]uint64, len(g.nodes)) // lanes of each node
	g.sweep(func(job *occupation, starts bool) {
		n := job.processorsPerNode()
		if !starts {
			for _, r := range job.ranges {
				for node := r.first; node < r.first+r.count; node++ {
					busy[node] &^= r.lanes.mask()
				}
			}
			return
		}
		var divided []nodeRange
		for _, r := range job.ranges {
			for node := r.first; node < r.first+r.count; node++ {
				l := lanes{}
				if n > 0 && n < whole*capacity[node] {
					l = freeLanes(busy[node], max(1, uint8(rowLanes*n/capacity[node])))
				}
				busy[node] |= l.mask()
				divided = appendNode(divided, node, l)
			}
		}
		job.ranges = divided
	})
}

// mask has a bit for each lane.
func (l lanes) mask() uint64 {
	if l == (lanes{}) {
		return 1<<rowLanes - 1
	}
	return (1<<l.count - 1) << l.first
}

// freeLanes returns count consecutive free lanes. If there are no such lanes, freeLanes returns count/2 lanes, or
// count/4, and so on. If no lane is free, the result overlaps other jobs.
func freeLanes(busy uint64, count uint8) lanes {
	for n := count; n > 0; n /= 2 {
		free := ^busy
		for i := uint8(1); i < n; i++ {
			free &= ^busy >> i
		}
		if free != 0 {
			return lanes{uint8(bits.TrailingZeros64(free)), n}
		}
	}
	return lanes{0, count}
}

// processorsPerNode returns a job's average processors on a node; 0 if they are not known.
func (o *occupation) processorsPerNode() float64 {
	nodes := 0
	for _, r := range o.ranges {
		nodes += r.count
	}
	return float64(o.row.Processors) / float64(max(1, nodes))
}

// sweep calls visit for the starts and ends of all jobs in order of time. At one instant, ends come before starts.
// sweep leaves out jobs with a run time of 0.
func (g *Gantt) sweep(visit func(job *occupation, starts bool)) {
	byStart, byEnd := make([]*occupation, 0, len(g.jobs)), make([]*occupation, 0, len(g.jobs))
	for i := range g.jobs {
		if job := &g.jobs[i]; job.end > job.start {
			byStart, byEnd = append(byStart, job), append(byEnd, job)
		}
	}
	slices.SortStableFunc(byStart, func(a, b *occupation) int { return cmp.Compare(a.start, b.start) })
	slices.SortStableFunc(byEnd, func(a, b *occupation) int { return cmp.Compare(a.end, b.end) })
	for _, job := range byStart {
		for byEnd[0].end <= job.start {
			visit(byEnd[0], false)
			byEnd = byEnd[1:]
		}
		visit(job, true)
	}
}
