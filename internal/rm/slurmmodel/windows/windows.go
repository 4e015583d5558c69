// Package windows has the windows in which backfill takes running jobs away, to find when a job could start
// (_will_run_test in cons_common/job_test.c, _future_run_test in 24.11).
package windows

import "rmreplay/internal/rm/nodeset"

// Job is a running job.
type Job interface {
	// Ends returns when the job will have reached its time limit, in seconds since 1970.
	Ends() int64
	// Has reports whether the job has a node of a set.
	Has(set nodeset.Set) bool
}

// Walk goes through running jobs that have nodes of a set, a window at a time.
type Walk[J Job] struct {
	Jobs []J // in the order of their ends
	Set  nodeset.Set
	// Linear is bf_window_linear: each window is longer than the one before by so many seconds; 0 doubles it.
	Linear int64
	// Until is when the jobs do not matter any more; 0 for never.
	Until int64

	// Gone is how many jobs with nodes of the set have left, and Last the index of the job that left last.
	Gone, Last int

	at             int // the next job
	window, anchor int64
}

const (
	firstWindow = 30
	// mostRemovals bounds the jobs that leave in a round: with more of them it makes no test.
	mostRemovals = 200
)

// Next goes to the end of the next window after which there is a test. It calls leave, unless it is nil, for each job
// that has nodes of the set. It reports false if there is no further window.
func (w *Walk[J]) Next(leave func(J)) bool {
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
		for grown := false; !grown || w.isOver(); grown = true {
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

// round lets the jobs of a window leave. It reports true if they are too many for a test.
func (w *Walk[J]) round(leave func(J)) bool {
	for removed := 0; w.at < len(w.Jobs); {
		job := w.Jobs[w.at]
		if w.Until > 0 && job.Ends() > w.Until {
			w.at = len(w.Jobs)
			break
		}
		w.at++
		if !job.Has(w.Set) {
			continue
		}
		if w.anchor == 0 {
			w.anchor = job.Ends() + firstWindow - job.Ends()%firstWindow
		}
		w.Gone++
		w.Last = w.at - 1
		if leave != nil {
			leave(job)
		}
		if w.isOver() {
			break
		}
		if w.at < len(w.Jobs) {
			if removed++; removed > mostRemovals+1 {
				return true
			}
		}
	}
	return false
}

// isOver reports whether the next job ends after the window.
func (w *Walk[J]) isOver() bool {
	return w.at < len(w.Jobs) && w.Jobs[w.at].Ends() > w.anchor+max(w.window, firstWindow)
}
