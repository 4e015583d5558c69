package windows

import (
	"sort"

	"rmreplay/internal/rm/nodeset"
)

// Horizon are the parameters of a test of the future.
type Horizon[J Job] struct {
	Now int64 // seconds since 1970
	// Running are the running jobs in the order of their ends; jobs of one end in Slurm's order.
	Running []J
	// Linear is bf_window_linear: each window is longer than the one before by so many seconds; 0 doubles it.
	Linear int64
	// PreferBusy is bf_busy_nodes.
	PreferBusy bool
	// A job that should have ended already is expected to end GuessedEnd seconds from now
	// (KillWait + OverTimeLimit).
	GuessedEnd int64
	// NowOnly asks only whether the job can start now.
	NowOnly bool

	// The following hold since 24.11.

	// Since2411 says that the release is 24.11 or newer. Since2605 says so for 26.05.
	Since2411, Since2605 bool
	// Begin is the earliest instant that is asked for. Until is when the next try would begin; 0 for none.
	Begin, Until int64
}

// AsksNow reports whether a start at once is asked for.
func (h *Horizon[J]) AsksNow() bool { return !h.Since2411 || h.Begin <= h.Now }

// BeginsLater reports whether a start at or after [Horizon.Begin] is asked for.
func (h *Horizon[J]) BeginsLater() bool { return h.Since2411 && h.Begin > 0 }

// Ended returns how many running jobs will have ended when the job may begin. Until 24.11 that is not asked.
func (h *Horizon[J]) Ended() int {
	return sort.Search(len(h.Running), func(k int) bool { return !h.HasEnded(h.Running[k].Ends()) })
}

// HasEnded reports whether a job that ends at a second will have ended when the job may begin.
func (h *Horizon[J]) HasEnded(end int64) bool {
	return h.BeginsLater() && (end < h.Begin || end == h.Begin && h.Since2605)
}

// Considered returns how many running jobs end before the next try would begin; 0 for all.
func (h *Horizon[J]) Considered() int {
	if !h.Since2411 || h.Until <= 0 {
		return 0
	}
	return sort.Search(len(h.Running), func(k int) bool { return h.Running[k].Ends() > h.Until })
}

// Walk begins to take running jobs away that have nodes of a set and have not ended when the job may begin.
func (h *Horizon[J]) Walk(set nodeset.Set) Walk[J] {
	w := Walk[J]{Jobs: h.Running[h.Ended():], Set: set, Linear: h.Linear}
	if h.Since2411 {
		w.Until = max(0, h.Until)
	}
	return w
}
