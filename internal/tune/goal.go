package tune

import (
	"math"
	"slices"

	"rmreplay/internal/metrics"
)

// Goal names the metric that a setting should improve, and the constraints on other metrics.
type Goal struct {
	Metric      string // a key of [metrics.Figures]
	Lower       bool   // a lower value is better
	Constraints []Constraint
}

// Constraint limits how much worse than the site's own setting another setting may be in a metric.
type Constraint struct {
	Metric string
	// By groups the jobs. If it is set, each group must fulfil the constraint. If it is not set, all
	// jobs together must fulfil it.
	By metrics.By
	// Lower says that a lower value is better, so that a higher value is worse.
	Lower bool
	// Limit is the largest allowed worsening. It is a share of the site's value if Relative is set,
	// and otherwise a value in the metric's unit.
	Limit    float64
	Relative bool
	// Ignore is a worsening in the metric's unit that is always allowed, for example one second.
	// Without it, a group with almost no waits could break a relative limit.
	Ignore float64
}

// Quantity is a number that a constraint limits.
type Quantity struct {
	Constraint int    // its index in the goal
	Group      string // the group of jobs; empty for all jobs
}

// Measurement has the results of a run with a setting.
type Measurement struct {
	Objective float64
	Limited   map[Quantity]float64
	// Started is the number of jobs that started, for each quantity in Limited. Means such as the mean wait are over
	// these jobs.
	Started map[Quantity]int
	// Failure says why the run has no result: it failed, is not valid, or lacks a value of the
	// objective. It is empty for a good run.
	Failure string
}

// worsening returns how much worse b is than a. The parameter lower says that lower values are
// better.
func worsening(lower bool, a, b float64) float64 {
	if lower {
		return b - a
	}
	return a - b
}

// excess returns how far a setting's mean is beyond the limit, divided by the allowed worsening. It
// returns 0 if the setting fulfils the constraint.
func (c *Constraint) excess(site, other float64) float64 {
	worse := worsening(c.Lower, site, other)
	if !(worse > c.Ignore) {
		return 0
	}
	allowed := c.allowed(site)
	if worse <= allowed*(1+1e-12) {
		return 0
	}
	// The divisor is never 0: even if no worsening is allowed, the result is finite and a smaller
	// worsening ranks first.
	return (worse - allowed) / max(allowed, c.Ignore, 1e-9*math.Abs(site), 1e-9)
}

// allowed returns the allowed worsening in the metric's unit, without Ignore.
func (c *Constraint) allowed(site float64) float64 {
	if c.Relative {
		return c.Limit * math.Abs(site)
	}
	return c.Limit
}

// violation returns how much a setting violates the constraints. It uses the blocks on which both
// this setting and the site's own setting have run. It returns 0 if the setting fulfils all
// constraints, and infinity if a run failed.
func (g *Goal) violation(site, other map[int]Measurement, blocks []int) float64 {
	total := 0.0
	for _, b := range blocks {
		if other[b].Failure != "" {
			return math.Inf(1)
		}
	}
	for _, x := range g.exceeded(site, other, blocks) {
		total += x.excess
	}
	return total
}

// Exceeded is a constraint that a setting breaks on the blocks on which it ran, for a group of jobs. Its numbers are
// means over these blocks.
type Exceeded struct {
	Metric  string        `json:"metric"`
	By      metrics.By    `json:"by,omitempty"`
	Group   string        `json:"group,omitempty"`
	Site    metrics.Float `json:"site"`
	Value   metrics.Float `json:"value"`
	Allowed metrics.Float `json:"allowed"` // worsening, in the metric's unit

	excess float64 // of [Constraint.excess]
}

// exceeded returns the constraints that a setting breaks.
func (g *Goal) exceeded(site, other map[int]Measurement, blocks []int) (list []Exceeded) {
	sums := map[Quantity]*[3]float64{} // the sums for the site and for the other setting, and the number of blocks
	for _, b := range blocks {
		a, c := site[b], other[b]
		for q, v := range a.Limited {
			w, both := c.Limited[q]
			if !both {
				continue
			}
			if sums[q] == nil {
				sums[q] = &[3]float64{}
			}
			sums[q][0] += v
			sums[q][1] += w
			sums[q][2]++
		}
	}
	for _, q := range g.quantities(sums) {
		c := &g.Constraints[q.Constraint]
		own, its := sums[q][0]/sums[q][2], sums[q][1]/sums[q][2]
		if excess := c.excess(own, its); excess > 0 {
			list = append(list, Exceeded{c.Metric, c.By, q.Group, metrics.Float(own), metrics.Float(its),
				metrics.Float(max(c.allowed(own), c.Ignore)), excess})
		}
	}
	return list
}

// quantities returns the keys in a fixed order, so that sums do not depend on the order of a map.
func (g *Goal) quantities(sums map[Quantity]*[3]float64) []Quantity {
	list := make([]Quantity, 0, len(sums))
	for q := range sums {
		list = append(list, q)
	}
	slices.SortFunc(list, g.compareQuantities)
	return list
}

// mean returns the mean of the objective over blocks; NaN if a run failed.
func mean(of map[int]Measurement, blocks []int) float64 {
	sum := 0.0
	for _, b := range blocks {
		if of[b].Failure != "" {
			return math.NaN()
		}
		sum += of[b].Objective
	}
	return sum / float64(len(blocks))
}
