package ioaware

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Tracker is an integer step function of time: the amount of a resource that is in use. The zero
// value is 0 at all times.
type Tracker struct {
	initial int64
	steps   []step // by time; neighbours differ in value
}

// step is a value from an instant until the next step.
type step struct {
	at    hpc.Time
	value int64
}

// NewTracker returns a function with the same value at all times.
func NewTracker(value int64) *Tracker { return &Tracker{initial: value} }

// Initial returns the value before the first step.
func (t *Tracker) Initial() int64 { return t.initial }

// At returns the value at an instant.
func (t *Tracker) At(at hpc.Time) int64 {
	i, found := t.search(at)
	if found {
		i++
	}
	return t.before(i)
}

// Add adds v to the function between two instants. The second instant, until, is excluded.
func (t *Tracker) Add(from, until hpc.Time, v int64) {
	if v == 0 || from >= until {
		return
	}
	first := t.split(from)
	last := len(t.steps)
	if until != hpc.Never {
		last = t.split(until)
	}
	for i := first; i < last; i++ {
		t.steps[i].value += v
	}
	if until != hpc.Never {
		t.merge(last)
	}
	t.merge(first)
}

// RemoveTillEnd subtracts v from the function at an instant and at all later instants.
func (t *Tracker) RemoveTillEnd(from hpc.Time, v int64) { t.Add(from, hpc.Never, -v) }

// Shift adds v at all times.
func (t *Tracker) Shift(v int64) {
	t.initial += v
	for i := range t.steps {
		t.steps[i].value += v
	}
}

// WhenBelow returns the earliest instant from which the function is below v for the duration d. The parameter after is
// the earliest possible result. WhenBelow returns [hpc.Never] if there is no such instant.
func (t *Tracker) WhenBelow(after hpc.Time, d time.Duration, v int64) hpc.Time {
	i, found := t.search(after)
	if found {
		i++
	}
	for start := after; ; i++ { // at the instant start, the function has the value before step i
		for t.before(i) >= v {
			if i == len(t.steps) {
				return hpc.Never
			}
			start = t.steps[i].at
			i++
		}
		end := start.Add(d)
		for i < len(t.steps) && t.steps[i].at < end && t.steps[i].value < v {
			i++
		}
		if i == len(t.steps) || t.steps[i].at >= end {
			return start
		}
	}
}

// search returns the index of the first step at or after an instant, and whether a step is exactly
// there.
func (t *Tracker) search(at hpc.Time) (int, bool) {
	return slices.BinarySearchFunc(t.steps, at, func(s step, at hpc.Time) int { return cmp.Compare(s.at, at) })
}

// before returns the value before a step.
func (t *Tracker) before(i int) int64 {
	if i == 0 {
		return t.initial
	}
	return t.steps[i-1].value
}

// split returns the index of the step at an instant, and inserts the step if it is missing.
func (t *Tracker) split(at hpc.Time) int {
	i, found := t.search(at)
	if !found {
		t.steps = slices.Insert(t.steps, i, step{at, t.before(i)})
	}
	return i
}

// merge removes a step that does not change the value.
func (t *Tracker) merge(i int) {
	if i < len(t.steps) && t.steps[i].value == t.before(i) {
		t.steps = slices.Delete(t.steps, i, i+1)
	}
}
