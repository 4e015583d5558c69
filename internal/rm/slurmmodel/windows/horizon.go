package windows

import (
	"sort"

	"rmreplay/internal/rm/nodeset"
)

// Horizon are the parameters of a search for a start in the future.
type Horizon[A any] struct {
	Now int64 // seconds since 1970
	// Running are the running jobs in the order of their ends. Jobs with the same end are in
	// Slurm's order.
	Running []Job[A]
	// Linear is bf_window_linear: each window is Linear seconds longer than the previous window. If
	// Linear is 0, each window is twice as long as the previous window.
	Linear int64
	// PreferBusy is bf_busy_nodes.
	PreferBusy bool
	// GuessedEnd is KillWait + OverTimeLimit. A job whose time limit has ended is expected to end
	// after this many seconds.
	GuessedEnd int64
	// NowOnly says that the search tests only a start now.
	NowOnly bool

	// Until is when the caller's next try would begin; 0 if the caller makes no further try. Before 24.11
	// WillRun reports no start after Until.
	Until int64

	// The following fields are used since 24.11.

	// Since2411 and Since2605 say that the release is 24.11 or newer, and 26.05 or newer.
	Since2411, Since2605 bool
	// Also reports whether a running job that has no node of the set is removed, too; nil if such
	// jobs are never removed.
	Also func(Job[A]) bool
	// Asked says that the previous search had the same parameters, with NowOnly. If so, only the nodes that
	// remained after that search's test get new weights.
	Asked bool
	// Begin is the earliest start.
	Begin int64
}

// AsksNow reports whether a start now is possible.
func (h *Horizon[A]) AsksNow() bool { return !h.Since2411 || h.Begin <= h.Now }

// BeginsLater reports whether the start must be at [Horizon.Begin] or after.
func (h *Horizon[A]) BeginsLater() bool { return h.Since2411 && h.Begin > 0 }

// Ended returns how many running jobs will have ended at Begin; 0 before 24.11.
func (h *Horizon[A]) Ended() int {
	if !h.BeginsLater() {
		return 0
	}
	return sort.Search(len(h.Running), func(k int) bool { return !h.hasEnded(h.Running[k].End) })
}

// hasEnded reports whether a job that ends at a second will have ended when the job may begin.
func (h *Horizon[A]) hasEnded(end int64) bool {
	return h.BeginsLater() && (end < h.Begin || end == h.Begin && h.Since2605)
}

// TooLate reports whether an instant is after Until, so that WillRun reports no start.
func (h *Horizon[A]) TooLate(end int64) bool { return !h.Since2411 && h.Until > 0 && end > h.Until }

// After returns when a job may start that needs the nodes of a job that ends at a second.
func (h *Horizon[A]) After(end int64) int64 {
	if end > h.Now {
		return end
	}
	return max(h.Now+1, end+h.GuessedEnd)
}

// Considered returns how many running jobs end at or before the caller's next try; 0 means all.
func (h *Horizon[A]) Considered() int {
	if !h.Since2411 || h.Until <= 0 {
		return 0
	}
	return sort.Search(len(h.Running), func(k int) bool { return h.Running[k].End > h.Until })
}

// Walk begins to remove running jobs that have nodes of a set and have not ended at Begin.
func (h *Horizon[A]) Walk(set nodeset.Set) Walk[A] {
	w := Walk[A]{Jobs: h.Running[h.Ended():], Set: set, Also: h.Also, Linear: h.Linear}
	if h.Since2411 {
		w.Until = max(0, h.Until)
	}
	return w
}

// EndBefore returns the end after which a job can start on nodes: the end of the job that was removed last.
// In 26.05 it is the end of the last removed job on these nodes, if such a job was removed.
func (h *Horizon[A]) EndBefore(w *Walk[A], nodes nodeset.Set) int64 {
	for last := w.Last; h.Since2605 && last >= 0; last-- {
		if w.Jobs[last].Nodes.Overlaps(nodes) {
			return w.Jobs[last].End
		}
	}
	return w.Jobs[w.Last].End
}
