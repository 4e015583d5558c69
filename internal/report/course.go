package report

import (
	"math"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// frame is the period that the figures over time show. Runs on other dates than the first run are
// shown on the first run's dates.
type frame struct {
	from, to hpc.Time
	base     hpc.Time // the first run's origin
	zone     *time.Location
	moved    bool // whether some run is on other dates
}

// If the origins of two runs differ by more than otherDates, the runs are on different dates.
const otherDates = 24 * time.Hour

// newFrame returns the period of all runs. The period is empty without jobs.
func newFrame(sets []compare.Set, zone *time.Location) frame {
	f := frame{zone: zone, base: origin(&sets[0].Runs[0])}
	for _, s := range sets {
		for i := range s.Runs {
			r := &s.Runs[i]
			if len(r.Rows) == 0 {
				continue
			}
			shift := f.shift(r)
			f.moved = f.moved || shift != 0
			if from := origin(r).Add(shift); f.from == 0 || from < f.from {
				f.from = from
			}
			f.to = max(f.to, ending(r).Add(shift))
		}
	}
	return f
}

// shift returns the duration that is added to a run's instants to convert them to the first run's
// dates.
func (f *frame) shift(r *compare.Realization) time.Duration {
	if gap := f.base.Sub(origin(r)); gap > otherDates || gap < -otherDates {
		return gap
	}
	return 0
}

func (f *frame) empty() bool { return f.to <= f.from }

// width is the length of a bin in seconds.
func (f *frame) width() float64 { return f.to.Sub(f.from).Seconds() / bins }

// points are the middles of the bins, in seconds since 1970.
func (f *frame) points() []float64 {
	x := make([]float64, bins)
	for i := range x {
		x[i] = f.from.Seconds() + f.width()*(float64(i)+0.5)
	}
	return x
}

// curve sums up values that are constant in a period. The method add takes equally long for long and
// for short periods.
type curve struct {
	part [bins + 1]float64 // sums of value x covered share, for periods that cover a part of the bin
	step [bins + 1]float64 // changes of the sum of the values whose periods cover the whole bin
}

// add adds a value from one position to another. The unit of positions is a bin.
func (c *curve) add(from, to, value float64) {
	from, to = min(max(from, 0), bins), min(max(to, 0), bins)
	if !(to > from) {
		return
	}
	first, last := int(from), int(to)
	if first == last {
		c.part[first] += value * (to - from)
		return
	}
	c.part[first] += value * (float64(first+1) - from)
	c.step[first+1] += value
	c.step[last] -= value
	c.part[last] += value * (to - float64(last))
}

// values returns the mean of each bin.
func (c *curve) values() []float64 {
	out := make([]float64, bins)
	sum := 0.0
	for i := range out {
		sum += c.step[i]
		out[i] = max(0, sum+c.part[i])
	}
	return out
}

// course has values of a run over time, as the mean of each bin.
type course struct {
	processors, running, queued, gpus []float64
	parts                             [][]float64 // processors of each group of jobs
	longest                           metrics.Point
	full                              float64 // share of the time in which at least fullShare of the processors are in use
}

// fullShare is the share of a machine's processors from which on the machine counts as full.
const fullShare = 0.95

// courseOf computes the course of a run. The function group returns the number of a job's group,
// from 0.
func (f *frame) courseOf(r *compare.Realization, groups int, group func(*run.Row) int) course {
	var out course
	shift, width := f.shift(r), f.width()
	place := func(t hpc.Time) float64 {
		if t == 0 {
			return bins
		}
		return t.Add(shift).Sub(f.from).Seconds() / width
	}
	points := metrics.Timeline(r.Rows)
	var processors, running, queued, gpus curve
	busy, full := 0.0, 0.0
	capacity := fullShare * float64(r.Manifest.Cluster.Processors)
	for i, p := range points {
		end := f.to.Add(-shift)
		if i+1 < len(points) {
			end = points[i+1].At
		}
		a, b := place(p.At), place(end)
		processors.add(a, b, float64(p.Processors))
		running.add(a, b, float64(p.Running))
		queued.add(a, b, float64(p.Queued))
		if p.Queued > out.longest.Queued {
			out.longest = p
		}
		if i+1 == len(points) {
			break
		}
		seconds := end.Sub(p.At).Seconds()
		if busy > 0 || p.Running > 0 {
			busy += seconds
		}
		if capacity > 0 && float64(p.Processors) >= capacity {
			full += seconds
		}
	}
	if out.full = math.NaN(); busy > 0 && capacity > 0 {
		out.full = full / busy
	}
	parts := make([]curve, groups)
	var held []run.Segment
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.State == hpc.Rejected {
			continue
		}
		held = row.AppendHeld(held[:0])
		devices := float64(metrics.GPUs(row))
		for _, s := range held {
			a, b := place(s.Start), place(s.End)
			parts[group(row)].add(a, b, float64(s.Processors))
			if devices > 0 {
				gpus.add(a, b, devices)
			}
		}
	}
	out.processors, out.running, out.queued, out.gpus = processors.values(), running.values(), queued.values(),
		gpus.values()
	for i := range parts {
		out.parts = append(out.parts, parts[i].values())
	}
	return out
}

// courses are the courses of all runs of all sets, with the groups of their jobs.
type courses struct {
	frame
	by     metrics.By // the property by which jobs are grouped
	groups []string   // the largest groups, and "others" if there are more
	sets   [][]course
}

// listedGroups is the largest number of groups with separate colours.
const listedGroups = 6

// newCourses computes the courses of all runs. It groups jobs by their partition if there are at
// least two partitions, or otherwise by their account if there are at least two accounts.
func newCourses(sets []compare.Set, overviews []*metrics.Overview, zone *time.Location) *courses {
	c := &courses{frame: newFrame(sets, zone)}
	if c.empty() {
		return c
	}
	index := make(map[string]int)
	for _, by := range []metrics.By{metrics.ByPartition, metrics.ByAccount} {
		if c.groups = largest(overviews, by); len(c.groups) > 1 {
			c.by = by
			break
		}
		c.groups = nil
	}
	for i, name := range c.groups {
		index[name] = i
	}
	others := len(c.groups)
	if others > listedGroups {
		others = listedGroups
		c.groups = append(c.groups[:listedGroups], "others")
	}
	of := groupOf(c.by)
	group := func(row *run.Row) int {
		if at, ok := index[of(row)]; ok {
			return min(at, others)
		}
		return others
	}
	for _, s := range sets {
		var list []course
		for i := range s.Runs {
			list = append(list, c.courseOf(&s.Runs[i], others+1, group))
		}
		c.sets = append(c.sets, list)
	}
	return c
}

// largest returns the names of the groups of all sets, in descending order of processor seconds.
func largest(overviews []*metrics.Overview, by metrics.By) []string {
	sum := make(map[string]float64)
	var names []string
	for _, o := range overviews {
		for _, u := range o.Usage[by] {
			if u.ProcessorSeconds == 0 {
				continue
			}
			if _, ok := sum[u.Name]; !ok {
				names = append(names, u.Name)
			}
			sum[u.Name] += u.ProcessorSeconds
		}
	}
	sortBy(names, func(name string) float64 { return -sum[name] })
	return names
}

// groupOf returns the function that names the group of a job.
func groupOf(by metrics.By) func(*run.Row) string {
	if by == metrics.ByPartition {
		return func(r *run.Row) string { return r.Partition }
	}
	return func(r *run.Row) string { return r.Account }
}

// lines returns a value of the courses as one series for each set.
func (c *courses) lines(sets []compare.Set, value func(*compare.Realization, *course) []float64) []figure.Series {
	x := c.points()
	var out []figure.Series
	for k, s := range sets {
		var lines [][]float64
		for i := range s.Runs {
			lines = append(lines, value(&s.Runs[i], &c.sets[k][i]))
		}
		out = append(out, figure.NewSeries(setName(k, s), x, lines))
	}
	return out
}
