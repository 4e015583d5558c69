// Package calendar divides the range of time of a chart at round instants of a time zone.
package calendar

import (
	"math"
	"time"
)

// steps are the possible distances of instants, in seconds.
var steps = []int64{
	60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400,
	14 * 86400, 28 * 86400, 56 * 86400, 364 * 86400,
}

// even reports whether all steps of the given length, in seconds, contain about the same number of figures. intervals
// are the possible times between two figures. A step must be a multiple of each interval, or at least ten times as
// long as the interval.
func even(step int64, intervals []time.Duration) bool {
	for _, every := range intervals {
		n := float64(step) / every.Seconds()
		if n < 0.99 || n < 10 && math.Abs(n-math.Round(n)) > 0.05 {
			return false
		}
	}
	return true
}

// most is the highest number of steps in a range.
const most = 100

// Divide returns ascending instants and the seconds between them. The first instant is not after from, and
// the last instant is not before until, even if from and until are equal. The step is the smallest step
// that divides the range into at most 100 steps and for which the function even returns true. Steps of a
// day or more follow the zone's days, so they can be an hour shorter or longer. Weeks begin on Monday.
func Divide(from, until time.Time, zone *time.Location, intervals []time.Duration) (step int64, edges []time.Time) {
	span := int64(until.Sub(from) / time.Second)
	step = steps[len(steps)-1]
	for _, s := range steps {
		if span/s <= most-2 && even(s, intervals) {
			step = s
			break
		}
	}
	_, offset := from.In(zone).Zone()
	monday := int64(3 * 86400) // so that weeks begin on Monday
	if step%(7*86400) != 0 {
		monday = 0
	}
	local := func(t time.Time) int64 {
		if step >= 86400 {
			_, o := t.In(zone).Zone()
			return t.Unix() + int64(o) + monday
		}
		return t.Unix() + int64(offset)
	}
	first := local(from) / step
	for k := first; ; k++ {
		var edge time.Time
		if step >= 86400 {
			wall := time.Unix(k*step-monday, 0).UTC()
			edge = time.Date(wall.Year(), wall.Month(), wall.Day(), 0, 0, 0, 0, zone)
		} else {
			edge = time.Unix(k*step-int64(offset), 0)
		}
		if edges = append(edges, edge); len(edges) > 1 && !edge.Before(until) || len(edges) > 2*most {
			break
		}
	}
	if last := len(edges) - 1; edges[last].Before(until) {
		edges[last] = until
	}
	return step, edges
}
