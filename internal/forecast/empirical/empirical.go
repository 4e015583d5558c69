// Package empirical has distributions of weighted run times.
package empirical

import (
	"cmp"
	"slices"
	"sort"
)

// Mass is the weight of a run time in a distribution. The run time is in seconds.
type Mass struct{ Seconds, Weight float64 }

// Sorted sorts masses by their run times, and returns them.
func Sorted(masses []Mass) []Mass {
	slices.SortFunc(masses, func(a, b Mass) int {
		switch { // no value is NaN, and this is faster than cmp.Compare
		case a.Seconds < b.Seconds:
			return -1
		case a.Seconds > b.Seconds:
			return 1
		}
		return cmp.Compare(a.Weight, b.Weight)
	})
	return masses
}

// Points is the largest number of run times that describe a group's distribution.
const Points = 512

// Thin returns a distribution of at most [Points] run times: neighbouring run times become their mean. Each job
// of a queue has a distribution. Without Thin, the distributions of five thousand jobs would take a gigabyte.
func Thin(masses []Mass) []Mass {
	if len(masses) <= Points {
		return masses
	}
	total := 0.0
	for _, m := range masses {
		total += m.Weight
	}
	list := make([]Mass, 0, Points)
	var one Mass // Seconds is a weighted sum until the point is complete
	passed := 0.0
	for i, m := range masses {
		one.Seconds += m.Seconds * m.Weight
		one.Weight += m.Weight
		passed += m.Weight
		if one.Weight > 0 && (passed >= total*float64(len(list)+1)/Points || i == len(masses)-1) {
			list = append(list, Mass{one.Seconds / one.Weight, one.Weight})
			one = Mass{}
		}
	}
	return list
}

// Distribution is a distribution of run times in ascending order. Each run time is the quantile at the middle of its
// share of the weight. The first run time is the quantile 0, and the last run time is the quantile 1. Other quantiles
// are interpolated.
type Distribution struct {
	seconds, places []float64
	limit           float64 // in seconds; 0 without a limit
}

// New makes a distribution of masses, which are ascending and not empty. limit is the time limit in seconds, or 0.
func New(masses []Mass, limit float64) Distribution {
	e := Distribution{make([]float64, len(masses)), make([]float64, len(masses)), limit}
	for i, m := range masses {
		e.seconds[i] = m.Seconds
		if i > 0 {
			e.places[i] = e.places[i-1] + (masses[i-1].Weight+m.Weight)/2
		}
	}
	return e
}

// QuantileAfter returns the quantile q, from 0 to 1, of the whole run time in seconds of a job that has run for
// elapsed seconds so far. A job that has run longer than all run times of the distribution runs until its limit.
// Without a limit, its whole run time is twice its run time so far.
func (e Distribution) QuantileAfter(q, elapsed float64) float64 {
	last := len(e.seconds) - 1
	if elapsed > e.seconds[last] {
		return max(elapsed, cmp.Or(e.limit, 2*elapsed))
	}
	passed := interpolate(e.seconds, e.places, elapsed)
	return max(elapsed, interpolate(e.places, e.seconds, passed+q*(e.places[last]-passed)))
}

// Longest returns the longest run time in seconds.
func (e Distribution) Longest() float64 { return e.seconds[len(e.seconds)-1] }

// Longer returns the share of run times that are longer than a number of seconds.
func (e Distribution) Longer(seconds float64) float64 {
	last := len(e.seconds) - 1
	if seconds >= e.seconds[last] || e.places[last] == 0 {
		return 0
	}
	return 1 - interpolate(e.seconds, e.places, seconds)/e.places[last]
}

// interpolate returns the value at x of the line through points whose xs ascend. Outside of the points it is the
// value of the nearest point. If several points have the same x, the last point counts.
func interpolate(xs, ys []float64, x float64) float64 {
	i := 0
	if len(xs) > 0 && xs[0] <= x { // often x is 0
		i = sort.Search(len(xs), func(i int) bool { return xs[i] > x })
	}
	switch i {
	case 0:
		return ys[0]
	case len(xs):
		return ys[i-1]
	}
	return ys[i-1] + (x-xs[i-1])/(xs[i]-xs[i-1])*(ys[i]-ys[i-1])
}
