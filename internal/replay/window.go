package replay

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// NewWindow describes the window of a workload that has one to a resource manager.
func NewWindow(w *workload.Workload) rm.Window {
	win := rm.Window{Begin: w.Begin(), Start: w.Start, Named: namedFirst(w)}
	win.Open, win.Later = workload.ReservationsAt(w.Reservations, w.Start)
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			win.Users = append(win.Users, job.User)
		}
	}
	slices.Sort(win.Users)
	win.Users = slices.Compact(win.Users)
	return win
}

// namedFirst is when the first of the jobs that pend when the window begins was submitted
// to each reservation.
func namedFirst(w *workload.Workload) map[string]hpc.Time {
	named := map[string]hpc.Time{}
	for _, job := range w.Jobs.All() {
		if job.Reservation == "" || job.Submit > w.Start || w.Preset(job) {
			continue
		}
		for name := range strings.SplitSeq(job.Reservation, ",") {
			if at, known := named[name]; !known || job.Submit < at {
				named[name] = job.Submit
			}
		}
	}
	return named
}

// presets says of each preset job, by its ID, whether it runs. It is nil for a workload
// without a window.
type presets map[string]bool

func newPresets(w *workload.Workload) presets {
	if w.Start == 0 {
		return nil
	}
	p := presets{}
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			p[job.ID] = false
		}
	}
	return p
}

// note notes that a job has started, or that its run is over.
func (p presets) note(job string, runs bool) {
	if _, preset := p[job]; preset {
		p[job] = runs
	}
}

// waiting are the preset jobs that do not run: that have not started, or run no more.
func (p presets) waiting() []string {
	var list []string
	for id, runs := range p {
		if !runs {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
