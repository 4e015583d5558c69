package generate

import (
	"math"
	"math/rand/v2"
	"time"
)

// The classes of Table I of Martinasso et al., "RM-Replay" (SC'18): jobs by nodes and by
// duration. A class of durations excludes its lower bound and includes its upper bound.
var (
	sizeClasses = [9]struct{ low, high int }{
		{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 32}, {33, 64}, {65, 128}, {129, 1000},
	}
	durationClasses = [6]struct{ low, high time.Duration }{
		{0, time.Hour}, {1 * time.Hour, 2 * time.Hour}, {2 * time.Hour, 4 * time.Hour},
		{4 * time.Hour, 8 * time.Hour}, {8 * time.Hour, 16 * time.Hour}, {16 * time.Hour, 24 * time.Hour},
	}
)

// tableI has the number of jobs of 6 October 2017 by size, then by duration: 6,025 in all.
var tableI = [9][6]int{
	{1611, 159, 122, 102, 287, 245},
	{413, 6, 6, 8, 8, 9},
	{1110, 52, 12, 25, 86, 55},
	{277, 14, 30, 17, 50, 48},
	{525, 33, 12, 25, 58, 62},
	{145, 16, 76, 10, 6, 20},
	{77, 27, 4, 9, 72, 18},
	{50, 3, 2, 0, 5, 7},
	{7, 0, 1, 2, 1, 0},
}

// maxNodeHours bounds the node-hours of all jobs except the three largest, which section V.B
// names: two jobs of 23.5 hours on 120 nodes and one job of 20 hours on 128.
const maxNodeHours = 2500 // node-hours

var largest = [3]struct {
	nodes   int
	runTime time.Duration
}{{120, 23*time.Hour + 30*time.Minute}, {120, 23*time.Hour + 30*time.Minute}, {128, 20 * time.Hour}}

// draft is a job that is being made. It has its cell of the table (a class of sizes and of
// durations), and random numbers that decide its size and duration within the cell. [draft.shape]
// can bend these numbers, so that all drafts together reach a wanted load without a new draw.
type draft struct {
	size, duration int     // the cell
	u, v           float64 // the position in the cell
	timesOut       bool
	// Two exponentially distributed numbers, for the weighted choices of preset jobs and of multicore jobs.
	presetChance, mcChance float64
	key                    float64 // key of the current sort

	nodes   int
	runTime time.Duration
	pinned  bool // shape does not change the draft

	partition  string
	kind       kind
	maxRunTime time.Duration // the partition's limit, if it is less than a day
	age        time.Duration // of a preset job: how long it has run at the window's start
	taken      []int         // of a preset job: its nodes
}

// newDraft draws a draft of a cell.
func newDraft(rng *rand.Rand, size, duration int) *draft {
	d := &draft{size: size, duration: duration}
	d.u, d.v = rng.Float64(), rng.Float64()
	d.presetChance, d.mcChance = rng.ExpFloat64(), rng.ExpFloat64()
	d.timesOut = rng.Float64() < timeoutShares[duration]
	return d
}

// timeoutShares is the share of the jobs of each duration class that end at their time limit. The share grows with the
// duration, because no job can ask for more than a day.
var timeoutShares = [6]float64{0.03, 0.05, 0.06, 0.10, 0.20, 0.25}

// table draws a draft for every job of Table I, in random order.
func table(rng *rand.Rand) []*draft {
	var list []*draft
	for size, row := range tableI {
		for duration, n := range row {
			for range n {
				list = append(list, newDraft(rng, size, duration))
			}
		}
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// more draws n drafts with cells in the same proportions as in the list like.
func more(rng *rand.Rand, like []*draft, n int) []*draft {
	list := make([]*draft, n)
	order := rng.Perm(len(like))
	for i := range list {
		d := like[order[i%len(order)]]
		list[i] = newDraft(rng, d.size, d.duration)
	}
	return list
}

// neutral is the bend that leaves the numbers of a draft unchanged.
const neutral = 0.5

// shape gives the draft its nodes and its run time. The parameter bend is between 0 and 1: a
// higher bend makes the job larger and longer within its cell.
func (d *draft) shape(bend float64) {
	class := durationClasses[d.duration]
	d.nodes = d.bentSize(bend)
	power := math.Exp(2 * (neutral - bend))
	if d.duration == 0 {
		power *= shortPower
	}
	span := class.high - class.low
	d.runTime = (class.low + time.Duration(math.Pow(d.v, power)*float64(span))).Truncate(time.Second) + time.Second
	most := time.Duration(maxNodeHours / float64(d.nodes) * float64(time.Hour))
	d.runTime = min(d.runTime, most, class.high-limitMargin(class.high)).Round(time.Second)
	if d.timesOut {
		d.toLimit()
	}
}

// shortPower makes most jobs of the first class much shorter than half an hour: the mean of
// an hour times v^2.5 is 17 minutes.
const shortPower = 2.5

// limitMargin returns the smallest allowed difference between two times: the time limit at which a job's duration
// class ends, and the run time of a job that ends on its own.
func limitMargin(high time.Duration) time.Duration {
	if high == 24*time.Hour {
		return 10 * time.Minute
	}
	return 0
}

// bentSize returns the draft's number of nodes. Except in the last class, it prefers the largest
// number of the class, which is a power of two.
func (d *draft) bentSize(bend float64) int {
	class := sizeClasses[d.size]
	low, high := class.low, class.high
	if hours := durationClasses[d.duration].low.Hours(); hours > 0 {
		high = max(low, min(high, int(maxNodeHours/(1.05*hours))))
	}
	if d.size == len(sizeClasses)-1 {
		ratio := float64(high) / float64(low)
		return min(high, int(float64(low)*math.Pow(ratio, math.Pow(d.u, 1.5-bend))))
	}
	round := 0.2 + 0.6*bend
	if d.u < round || low == high {
		return high
	}
	return low + int((d.u-round)/(1-round)*float64(high-low))
}

// toLimit replaces the run time by a time limit that people ask for.
func (d *draft) toLimit() {
	class := durationClasses[d.duration]
	var fits []habit
	for _, h := range habits {
		if h.limit > class.low && h.limit <= class.high && h.limit.Hours()*float64(d.nodes) <= maxNodeHours {
			fits = append(fits, h)
		}
	}
	if len(fits) == 0 {
		d.timesOut = false
		return
	}
	d.runTime = fits[int(d.v*float64(len(fits)))].limit
}

// work returns the node-hours of the job.
func (d *draft) work() float64 { return float64(d.nodes) * d.runTime.Hours() }

// habit is a time limit that people ask for, and its frequency.
type habit struct {
	limit time.Duration
	share float64
}

// habits are the time limits of Fig. 9: 6, 8, 9, 10 and 12 hours recur, and many jobs ask
// for the maximum of a day.
var habits = []habit{
	{10 * time.Minute, 3}, {15 * time.Minute, 3}, {20 * time.Minute, 2}, {30 * time.Minute, 10},
	{1 * time.Hour, 14}, {2 * time.Hour, 5}, {3 * time.Hour, 2}, {4 * time.Hour, 5}, {5 * time.Hour, 1},
	{6 * time.Hour, 9}, {8 * time.Hour, 6}, {9 * time.Hour, 3}, {10 * time.Hour, 5}, {12 * time.Hour, 12},
	{16 * time.Hour, 1}, {20 * time.Hour, 1}, {24 * time.Hour, 28},
}
