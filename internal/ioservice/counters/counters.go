// Package counters computes what jobs read from and wrote to a file system. It reads counters
// sampled by nodes or servers, and totals recorded by profilers or Slurm. From these it computes a
// job's use: the mean and the variance of its rate, and its run time.
//
// A counter decreases only by a reset: when the node boots, or when the file system is mounted
// again. The new value is then the number of bytes since the reset.
package counters

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"rmreplay/internal/hpc"
)

// Cell is the length of an interval. The variance of a rate is computed from its means over such
// intervals.
const Cell = 10 * time.Second

// maxSpan is the longest run time of a job, so that absurd times cannot exhaust the memory.
const maxSpan = 400 * 24 * time.Hour

// Sample is one reading of a counter: the number of bytes that a node, or a job on one server, has
// read and written.
type Sample struct {
	Node   string   // the host, or the server's target
	Alias  string   // another name of the node, such as LDMS's component_id, or ""
	Target string   // distinguishes counters of one node, for example of two mounted file systems
	Job    string   // the job on the node; "" or "0" without a job
	OfJob  bool     // the counter only counts this job's bytes, and started at 0
	Begin  hpc.Time // when a job's counter was 0; 0 if unknown
	Time   hpc.Time
	Bytes  float64 // read and written
}

// Use describes how a job used the file system.
type Use struct {
	Start, End hpc.Time
	RunTime    time.Duration // run time of the job, which can differ from End-Start: see [Store.Job]
	Mean       float64       // bytes per second, over all nodes
	Variance   float64       // variance of the mean rates in intervals of about [Cell], in (bytes per second)²
}

// reading is a sample within its series.
type reading struct {
	time  hpc.Time
	bytes float64
}

// key identifies a series: the samples of one counter.
type key struct{ node, target, job string }

// series has the readings of one counter, in order of time.
type series struct {
	key
	alias    string
	ofJob    bool
	begin    hpc.Time // when a job's counter was 0; 0 if unknown
	readings []reading
}

// span has the times of a job's first and last sample in one series.
type span struct{ first, last hpc.Time }

// Store holds samples and totals. It is not safe for concurrent use.
type Store struct {
	series map[key]*series
	jobs   map[string]map[key]span // by job, the series with its samples
	totals map[string]map[string]Total
	newest hpc.Time
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{series: map[key]*series{}, jobs: map[string]map[key]span{}, totals: map[string]map[string]Total{}}
}

// Add adds a sample. It returns false if the sample is not later than all stored samples of its
// counter.
func (s *Store) Add(x Sample) bool {
	k := key{node: x.Node, target: x.Target}
	if x.OfJob {
		k.job = x.Job
	}
	one := s.series[k]
	if one == nil {
		one = &series{key: k, alias: x.Alias, ofJob: x.OfJob}
		s.series[k] = one
	}
	if n := len(one.readings); n > 0 && x.Time <= one.readings[n-1].time {
		return false
	}
	if x.Begin != 0 {
		one.begin = x.Begin
	}
	one.readings = append(one.readings, reading{x.Time, x.Bytes})
	s.newest = max(s.newest, x.Time)
	if x.Job != "" && x.Job != "0" {
		of := s.jobs[x.Job]
		if of == nil {
			of = map[key]span{}
			s.jobs[x.Job] = of
		}
		seen, known := of[k]
		if !known {
			seen.first = x.Time
		}
		seen.last = x.Time
		of[k] = seen
	}
	return true
}

// Newest returns the time of the latest sample, or 0.
func (s *Store) Newest() hpc.Time { return s.newest }

// Drop removes samples and totals before an instant. In each series, one older sample remains. To
// avoid copying at every call, older samples are removed only when they are a quarter of the
// series.
func (s *Store) Drop(before hpc.Time) {
	for k, one := range s.series {
		from, _ := slices.BinarySearchFunc(one.readings, before, func(r reading,
			t hpc.Time) int {
			return cmp.Compare(r.time, t)
		})
		if from == len(one.readings) {
			delete(s.series, k)
		} else if from > 1 && from >= len(one.readings)/4 {
			one.readings = slices.Clone(one.readings[from-1:])
		}
	}
	for job, of := range s.jobs {
		maps.DeleteFunc(of, func(k key, seen span) bool { return seen.last < before || s.series[k] == nil })
		if len(of) == 0 {
			delete(s.jobs, job)
		}
	}
	for job, files := range s.totals {
		maps.DeleteFunc(files, func(_ string, t Total) bool { return t.End < before })
		if len(files) == 0 {
			delete(s.totals, job)
		}
	}
}

// Rate returns the total rate of all counters between two instants, in bytes per second. For each counter, it uses
// the first and the last sample in this time. Jobs' counters are used only if there are no nodes' counters,
// because both count the same bytes. The result known reports whether a counter has at least two samples.
func (s *Store) Rate(from, to hpc.Time) (rate float64, known bool) {
	rate, known = s.rate(from, to, false)
	if !known {
		rate, known = s.rate(from, to, true)
	}
	return rate, known
}

func (s *Store) rate(from, to hpc.Time, ofJobs bool) (rate float64, known bool) {
	for _, k := range s.keys() {
		one := s.series[k]
		part := within(one.readings, from, to)
		if one.ofJob != ofJobs || len(part) < 2 {
			continue
		}
		known = true
		var bytes float64
		for i := 1; i < len(part); i++ {
			bytes += added(part[i-1], part[i])
		}
		rate += bytes / part[len(part)-1].time.Sub(part[0].time).Seconds()
	}
	return rate, known
}

// keys returns the keys of all series in a fixed order, so that sums are the same in every run.
func (s *Store) keys() []key { return sorted(maps.Keys(s.series)) }

func sorted(keys iter.Seq[key]) []key {
	return slices.SortedFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.target, b.target), cmp.Compare(a.job, b.job))
	})
}

// within returns the readings in [from, to].
func within(readings []reading, from, to hpc.Time) []reading {
	first := sort.Search(len(readings), func(i int) bool { return readings[i].time >= from })
	end := sort.Search(len(readings), func(i int) bool { return readings[i].time > to })
	return readings[first:max(first, end)]
}

// added returns the number of bytes between two readings of a counter.
func added(a, b reading) float64 {
	if b.bytes < a.bytes {
		return b.bytes
	}
	return b.bytes - a.bytes
}

// Job returns the use of a job. If start and end are 0, the samples determine the job's length. It
// is the time from the first to the last sample plus two mean intervals between samples, because
// the job began before the first sample and ended after the last. The result found is true if one
// counter has two samples, or if there are totals.
func (s *Store) Job(id string, start, end hpc.Time) (use Use, found bool) {
	var parts [][]reading
	first, last := hpc.Time(math.MaxInt64), hpc.Time(math.MinInt64)
	for _, k := range sorted(maps.Keys(s.jobs[id])) {
		seen, one := s.jobs[id][k], s.series[k]
		if one == nil {
			continue
		}
		part := within(one.readings, seen.first, seen.last)
		if one.ofJob {
			part = ofJob(part, firstKnown(start, one.begin), end)
		}
		if len(part) == 0 {
			continue
		}
		first, last = min(first, part[0].time), max(last, part[len(part)-1].time)
		parts = append(parts, part)
	}
	if use, found = profile(parts, first, last); !found {
		return s.total(id)
	}
	var intervals, sum float64
	for _, part := range parts {
		intervals += float64(len(part) - 1)
		sum += part[len(part)-1].time.Sub(part[0].time).Seconds()
	}
	use.RunTime = last.Sub(first) + time.Duration(2*sum/intervals*float64(time.Second))
	if start != 0 && end > start {
		use.RunTime = end.Sub(start)
	}
	return use, true
}

func firstKnown(times ...hpc.Time) hpc.Time {
	for _, t := range times {
		if t != 0 {
			return t
		}
	}
	return 0
}

// ofJob completes the readings of a counter that started at 0 with the job. If the job's start is
// unknown, the counter is assumed to start one mean interval before the first reading. All bytes
// belong to the job, so readings after its end are moved to the end.
func ofJob(part []reading, start, end hpc.Time) []reading {
	if len(part) == 0 {
		return nil
	}
	part = slices.Clone(part)
	for i := range part {
		if end != 0 {
			part[i].time = min(part[i].time, end)
		}
	}
	if start == 0 && len(part) > 1 {
		start = part[0].time.Add(-part[len(part)-1].time.Sub(part[0].time) / time.Duration(len(part)-1))
	}
	if start == 0 || start >= part[0].time {
		return part
	}
	return append([]reading{{start, 0}}, part...)
}

// During returns the use of a job that had its nodes exclusively from start to end. It
// interpolates the nodes' counters at both instants. It adds a second to the end, because Slurm's
// times have no fractions. Without samples of a node before and after the job, found is false.
func (s *Store) During(nodes []string, start, end hpc.Time) (use Use, found bool) {
	named := map[string]bool{}
	for _, n := range nodes {
		named[n] = true
	}
	end = end.Add(time.Second)
	var parts [][]reading
	for _, k := range s.keys() {
		one := s.series[k]
		if one.ofJob || !named[one.node] && !named[one.alias] {
			continue
		}
		r := one.readings
		from := max(0, sort.Search(len(r), func(i int) bool { return r[i].time > start })-1)
		to := min(len(r), sort.Search(len(r), func(i int) bool { return r[i].time >= end })+1)
		if from < to {
			parts = append(parts, r[from:to])
		}
	}
	use, found = profile(parts, start, end)
	use.RunTime = end.Sub(start)
	return use, found
}

// profile spreads the bytes between two samples of a counter evenly over the time between them. It
// returns the mean and the variance of the rate over max(1, round(duration/Cell)) cells of [start,
// end].
func profile(parts [][]reading, start, end hpc.Time) (use Use, found bool) {
	length := end.Sub(start)
	if end <= start || length > maxSpan {
		return Use{}, false
	}
	cells := make([]float64, max(1, int(math.RoundToEven(length.Seconds()/Cell.Seconds()))))
	step := length.Seconds() / float64(len(cells))
	for _, part := range parts {
		for i := 1; i < len(part); i++ {
			a, b := part[i-1], part[i]
			if b.time <= start || a.time >= end || b.time < a.time {
				continue
			}
			found = true
			spread(cells, step, a.time.Sub(start).Seconds(), b.time.Sub(start).Seconds(), added(a, b)/step)
		}
	}
	if !found {
		return Use{}, false
	}
	for _, c := range cells {
		use.Mean += c / float64(len(cells))
	}
	for _, c := range cells {
		use.Variance += (c - use.Mean) * (c - use.Mean) / float64(len(cells))
	}
	use.Start, use.End = start, end
	return use, true
}

// spread adds an amount to the cells between two instants, which are in seconds from the beginning
// of the first cell. The part outside of the cells is ignored. If both instants are equal, one
// cell gets the whole amount.
func spread(cells []float64, step, from, to, amount float64) {
	last := len(cells) - 1
	if to <= from {
		cells[min(last, max(0, int(math.Ceil(to/step))-1))] += amount
		return
	}
	for i := max(0, int(from/step)); i <= last && float64(i)*step < to; i++ {
		overlap := min(to, float64(i+1)*step) - max(from, float64(i)*step)
		if overlap > 0 {
			cells[i] += amount * overlap / (to - from)
		}
	}
}

// Total is the number of bytes that a job read and wrote in its whole run time, recorded by a
// profiler or Slurm.
type Total struct {
	Job        string
	Start, End hpc.Time
	Bytes      float64 // read and written
}

// AddTotal adds a total. A job may have several totals with different names, for example one per
// program. A later total replaces an earlier total of the same name.
func (s *Store) AddTotal(name string, t Total) {
	if s.totals[t.Job] == nil {
		s.totals[t.Job] = map[string]Total{}
	}
	s.totals[t.Job][name] = t
}

// total returns the use of a job from its totals. The variance is 0, because totals do not contain
// it.
func (s *Store) total(id string) (use Use, found bool) {
	var bytes float64
	for _, name := range slices.Sorted(maps.Keys(s.totals[id])) {
		t := s.totals[id][name]
		if !found {
			use.Start, use.End = t.Start, t.End
		}
		use.Start, use.End, found = min(use.Start, t.Start), max(use.End, t.End), true
		bytes += t.Bytes
	}
	use.RunTime = use.End.Sub(use.Start)
	if use.RunTime <= 0 {
		return Use{}, false
	}
	use.Mean = bytes / use.RunTime.Seconds()
	return use, true
}
