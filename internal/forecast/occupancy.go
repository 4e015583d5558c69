package forecast

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Occupancy is the number of nodes that jobs are expected to occupy: at the instant of a forecast,
// and after each further Step.
type Occupancy struct {
	Step       float64             `json:"step_s"`
	Partitions []PartitionOccupied `json:"partitions"`
	// Reservations are the reservations that begin before the last instant and end after the first instant.
	Reservations []Reserved `json:"reservations"`
	// Out is how many nodes are down, drained or failed at the instant of the forecast. A forecast assumes that they
	// stay out of service.
	Out int `json:"out_of_service"`
}

// Reserved is a reservation of nodes.
type Reserved struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	// End is nil for a reservation without an end.
	End *time.Time `json:"end"`
	// Nodes is the number of reserved nodes; 0 for all nodes.
	Nodes int `json:"nodes"`
}

// PartitionOccupied has the quantiles of the nodes that jobs of a partition occupy. A node that several jobs share
// counts once.
type PartitionOccupied struct {
	// Partition is "" for all partitions together.
	Partition string    `json:"partition"`
	P10       []float64 `json:"p10"`
	P50       []float64 `json:"p50"`
	P90       []float64 `json:"p90"`
}

// maxInstants is the largest number of instants of an occupancy. It equals the number of bits of a [mask].
const maxInstants = 192

// mask has a bit for each instant.
type mask [maxInstants / 64]uint64

// grid are the instants of an occupancy.
type grid struct {
	from hpc.Time
	step time.Duration
	n    int
}

// grid returns the instants of the occupancy. No instant is after the horizon.
func (o *Options) grid(at hpc.Time) grid {
	span := o.Occupancy
	if o.Horizon != 0 {
		span = min(span, o.Horizon)
	}
	step := max((span / maxInstants).Truncate(time.Second), time.Minute)
	return grid{at, step, min(int(span/step), maxInstants)}
}

// use has the instants at which jobs occupy a node, by partition and node name.
type use map[string]map[string]*mask

// occupied records which nodes the jobs of a realization occupy, and when.
type occupied struct {
	grid
	use     use
	running map[Key]placed
}

// placed is a job on its nodes.
type placed struct {
	start            hpc.Time
	partition, nodes string
}

// see records an event of the realization.
func (o *occupied) see(e rm.Event) {
	key := Key{e.Job, e.Task}
	switch e.Kind {
	case rm.Started:
		o.running[key] = placed{e.Outcome.Start, e.Outcome.Partition, e.Outcome.Nodes}
	case rm.Ended, rm.Requeue:
		if p, runs := o.running[key]; runs {
			o.add(p, e.At)
		}
		delete(o.running, key)
	}
}

// finish adds the jobs that still run when a realization ends: each ends after its drawn run time.
func (o *occupied) finish(w *workload.Workload) {
	for _, job := range w.Jobs.All() {
		for _, task := range hpc.TasksOf(job) {
			p, runs := o.running[Key{job.ID, task}]
			if !runs {
				continue
			}
			took := job.RunTime
			if own, differs := job.TaskRunTimes[task]; differs {
				took = own
			}
			if job.TimeLimit > 0 {
				took = min(took, job.TimeLimit)
			}
			end := hpc.Never
			switch {
			case w.Preset(job) && job.EndAt != 0:
				end = job.EndAt
			case took < hpc.Unlimited:
				end = p.start.Add(took)
			}
			o.add(p, end)
		}
	}
}

// add marks the nodes of a job from its start to its end.
func (o *occupied) add(p placed, end hpc.Time) {
	first, last := 0, o.n // last is not included
	if p.start > o.from {
		first = int((p.start.Sub(o.from) + o.step - 1) / o.step)
	}
	if until := (end.Sub(o.from) + o.step - 1) / o.step; end != hpc.Never && until < time.Duration(o.n) {
		last = max(int(until), 0)
	}
	if first >= last {
		return
	}
	var marks mask
	for i := first; i < last; i++ {
		marks[i/64] |= 1 << (i % 64)
	}
	_ = hostlist.Visit(p.nodes, func(name []byte) { // no error: the engine wrote this list
		for _, partition := range []string{"", p.partition} {
			nodes := o.use[partition]
			if nodes == nil {
				nodes = map[string]*mask{}
				o.use[partition] = nodes
			}
			m := nodes[string(name)]
			if m == nil {
				m = &mask{}
				nodes[string(name)] = m
			}
			for i := range m {
				m[i] |= marks[i]
			}
		}
	})
}

// counts returns how many nodes of a partition are occupied at each instant.
func (o *occupied) counts(partition string) []float64 { return count(o.use[partition], o.n) }

// count returns, for each of n instants, the number of nodes whose mask has its bit.
func count(nodes map[string]*mask, n int) []float64 {
	list := make([]float64, n)
	for _, m := range nodes {
		for i, word := range m {
			for ; word != 0; word &= word - 1 {
				list[64*i+bits.TrailingZeros64(word)]++
			}
		}
	}
	return list
}

// occupancy returns the quantiles of the numbers of occupied nodes over the realizations.
func (q *Queue) occupancy(all []*realization, g grid) *Occupancy {
	o := &Occupancy{Step: g.step.Seconds(), Partitions: []PartitionOccupied{}}
	names := map[string]bool{"": true}
	for _, r := range all {
		for partition := range r.occupied.use {
			names[partition] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		lines := make([][]float64, len(all))
		for i, r := range all {
			lines[i] = r.occupied.counts(name)
		}
		p := PartitionOccupied{Partition: name, P10: make([]float64, g.n), P50: make([]float64, g.n),
			P90: make([]float64, g.n)}
		column := make([]hpc.Time, len(all)) // numbers of nodes, as if they were seconds, for [Quantile]
		for i := range g.n {
			for k, line := range lines {
				column[k] = hpc.Unix(int64(line[i]))
			}
			slices.Sort(column)
			p.P10[i], p.P50[i] = float64(Quantile(column, 0.1).UnixSeconds()), float64(Quantile(column, 0.5).UnixSeconds())
			p.P90[i] = float64(Quantile(column, 0.9).UnixSeconds())
		}
		o.Partitions = append(o.Partitions, p)
	}
	o.Reservations, o.Out = q.reserved(g), q.out()
	return o
}

// reserved returns those reservations of a queue that overlap the time of a grid.
func (q *Queue) reserved(g grid) []Reserved {
	list := []Reserved{}
	open, _ := workload.ReservationsAt(q.Workload.Reservations, q.At)
	for i := range open {
		r := &open[i].Reservation
		one := Reserved{Name: r.Name, Start: r.Start.Std(), Nodes: r.NodeCount}
		if r.Duration != 0 && r.Duration < hpc.Unlimited {
			end := r.Start.Add(r.Duration)
			if one.End = instant(end); end <= g.from {
				continue
			}
		}
		if r.Nodes != "" && r.Nodes != "ALL" {
			one.Nodes, _ = hostlist.Count(r.Nodes) // no error: Slurm wrote this list
		}
		if r.Start < g.from.Add(time.Duration(g.n)*g.step) {
			list = append(list, one)
		}
	}
	return list
}

// out counts the nodes that are out of service at the instant of a queue.
func (q *Queue) out() int {
	gone := map[string]bool{}
	for i := range q.Workload.NodeEvents {
		e := &q.Workload.NodeEvents[i]
		if e.At > q.At {
			break
		}
		_ = hostlist.Visit(e.Nodes, func(name []byte) { // no error: Slurm wrote this list
			if e.State == "resume" {
				delete(gone, string(name))
				return
			}
			gone[string(name)] = true
		})
	}
	return len(gone)
}
