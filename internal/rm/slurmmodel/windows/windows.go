// Package windows divides the ends of running jobs into windows. Backfill removes the jobs of one
// window after the other to find when a job could start (_will_run_test in cons_common/job_test.c,
// _future_run_test in 24.11).
package windows

import (
	"math"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/licenses"
)

// Job is a running job.
type Job[A any] struct {
	Allocation A
	Nodes      nodeset.Sparse
	// End is when the job's time limit ends, in seconds since 1970.
	End int64
	// Licensed are the licences that the job holds.
	Licensed []licenses.License
}

// Walk removes running jobs that have nodes of a set, a window at a time.
type Walk[A any] struct {
	Jobs []Job[A] // in the order of their ends
	Set  nodeset.Set
	// Also is [Horizon.Also].
	Also func(Job[A]) bool
	// Linear is bf_window_linear: each window is Linear seconds longer than the previous window. If
	// Linear is 0, each window is twice as long as the previous window.
	Linear int64
	// Until is when the walk ends: jobs that end later stay; 0 for no end.
	Until int64

	// Gone is the number of removed jobs. Last is the index of the job that was removed last.
	Gone, Last int

	at             int // index of the next job
	window, anchor int64
}

const (
	firstWindow = 30
	// maxRemovals limits the jobs of a window: after a window with more jobs, slurmctld makes no test.
	maxRemovals = 200
)

// Next removes jobs, window by window, until slurmctld would make a test. slurmctld makes no test after a window with
// too many jobs (see maxRemovals). Next calls the function leave, unless it is nil, for each removed job that
// has nodes of the set. It returns false if there is no further window.
func (w *Walk[A]) Next(leave func(A)) bool {
	for w.at < len(w.Jobs) {
		before := w.Gone
		full := w.round(leave)
		switch {
		case w.Gone == before:
			return false
		case full:
			continue
		}
		w.window = max(w.window, firstWindow)
		next := int64(0) // when the next job ends, in seconds after the anchor
		if w.at < len(w.Jobs) {
			next = w.Jobs[w.at].End - w.anchor
		}
		for grown := false; !grown || next > w.window; grown = true {
			if w.Linear > 0 {
				w.window += w.Linear
			} else {
				w.window *= 2
			}
		}
		return true
	}
	return false
}

// round removes the jobs of a window. It returns true if the window has too many jobs for a test.
func (w *Walk[A]) round(leave func(A)) bool {
	until := w.Until
	if until == 0 {
		until = math.MaxInt64
	}
	for removed := 0; ; {
		at, has := w.next(until)
		if at < 0 {
			w.at = len(w.Jobs)
			return false
		}
		job := &w.Jobs[at]
		if w.anchor == 0 {
			w.anchor = job.End + firstWindow - job.End%firstWindow
		}
		w.Gone++
		w.Last, w.at = at, at+1
		if has && leave != nil {
			leave(job.Allocation)
		}
		if w.isOver() {
			return false
		}
		if removed++; removed > maxRemovals+1 && w.at < len(w.Jobs) {
			return true
		}
	}
}

// next returns the index of the next job to remove, or -1, and whether the job has nodes of the set.
func (w *Walk[A]) next(until int64) (at int, has bool) {
	if w.Also == nil {
		at = overlapping(w.Jobs, w.at, w.Set, until)
		return at, at >= 0
	}
	for at := w.at; at < len(w.Jobs) && w.Jobs[at].End <= until; at++ {
		if has := w.Jobs[at].Nodes.Overlaps(w.Set); has || w.Also(w.Jobs[at]) {
			return at, has
		}
	}
	return -1, false
}

// overlapping returns the index of the next job that has nodes of the set, or -1. Most jobs have none, and a
// short loop without calls is faster.
func overlapping[A any](jobs []Job[A], at int, set nodeset.Set, until int64) int {
	for ; at < len(jobs); at++ {
		job := &jobs[at]
		if job.End > until {
			break
		}
		if job.Nodes.Overlaps(set) {
			return at
		}
	}
	return -1
}

// isOver reports whether the window is over: the next job ends after it.
func (w *Walk[A]) isOver() bool {
	return w.at < len(w.Jobs) && w.Jobs[w.at].End > w.anchor+max(w.window, firstWindow)
}
