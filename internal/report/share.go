package report

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"rmreplay/internal/report/lanes"
	"rmreplay/internal/run"
)

// shareNodes finds the processors of the nodes. It gives each job a part of the rows of its nodes in proportion to its processors there, so that jobs that
// share a node are drawn one above the other. For nodes whose processors are not known, shareNodes takes the largest
// number of processors that jobs held there at the same time. Jobs that were suspended at some time do not count.
func (g *Gantt) shareNodes(c *run.Cluster, known map[string]int) {
	held, most := make([]float64, len(g.nodes)), make([]float64, len(g.nodes))
	g.capacity = make([]float64, len(g.nodes))
	for i, name := range g.nodes {
		g.capacity[i] = cmp.Or(float64(known[name]), math.Inf(1))
	}
	for i := range g.jobs {
		g.jobs[i].level = g.level(&g.jobs[i])
	}
	g.sweep(func(job *occupation, starts bool) {
		n := map[bool]float64{true: job.level, false: -job.level}[starts]
		if job.row.Suspended > 0 || math.IsInf(job.level, 1) {
			return
		}
		for node := range job.nodes() {
			held[node] += n
			most[node] = max(most[node], held[node])
		}
	})
	for i := range g.capacity {
		if math.IsInf(g.capacity[i], 1) {
			g.capacity[i] = cmp.Or(most[i], float64(c.Processors)/float64(max(1, c.Nodes)), 1)
		}
	}
	g.divideRows()
}

// level returns the number of processors that a job has on each of its nodes. Nodes with fewer processors belong to
// the job completely, and so do all nodes of a job whose processors are not known: then level returns infinity.
func (g *Gantt) level(job *occupation) float64 {
	for level := 0.0; ; {
		left, larger := float64(job.row.Processors), 0.0
		for node := range job.nodes() {
			if g.capacity[node] > level {
				larger++
			} else {
				left -= g.capacity[node]
			}
		}
		next := left / larger
		if !(next > level) { // or no node is larger
			return cmp.Or(level, math.Inf(1))
		}
		level = next
	}
}

// divideRows assigns lanes, in the order of the jobs' starts.
func (g *Gantt) divideRows() {
	rows := make([]lanes.Row, len(g.nodes))
	g.sweep(func(job *occupation, starts bool) {
		var divided []nodeRange
		for _, r := range job.ranges {
			for node := r.first; node < r.first+r.count; node++ {
				share := job.level / g.capacity[node]
				if !starts {
					rows[node].End(r.lanes, share)
					continue
				}
				divided = appendNode(divided, node, rows[node].Start(share))
			}
		}
		if starts {
			job.ranges = divided
		}
	})
}

// nodes returns the indices of a job's nodes.
func (o *occupation) nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range o.ranges {
			for node := r.first; node < r.first+r.count; node++ {
				if !yield(node) {
					return
				}
			}
		}
	}
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
