package replay

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// NewWindow describes a workload's window for a resource manager. The workload must have a window.
func NewWindow(w *workload.Workload) rm.Window {
	win := rm.Window{Begin: w.Begin(), Start: w.Start, Named: namedFirst(w), Arrays: w.CutArrays()}
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

// BeforeWindow returns a text for users about what is played before a workload's window, and why. The text is empty if
// nothing is played before the window.
func BeforeWindow(w *workload.Workload) string {
	jobs := 0
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			jobs++
		}
	}
	begin := w.Begin()
	if begin >= w.Start || jobs == 0 {
		return ""
	}
	const layout = "2006-01-02 15:04 MST"
	return fmt.Sprintf("plays %s to %s before the window, to start the %s when the window begins",
		begin.Std().UTC().Format(layout), w.Start.Std().UTC().Format(layout),
		quantity.Counted(jobs, "job that runs", "jobs that run"))
}

// namedFirst returns, for each reservation, when the first job that names it is submitted. It
// considers only jobs that are pending when the window begins.
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

// presets says for each preset job, by ID, whether it runs. It is nil if the workload has no
// window.
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

// note records that a preset job has started or stopped. It ignores other jobs.
func (p presets) note(job string, runs bool) {
	if _, preset := p[job]; preset {
		p[job] = runs
	}
}

// waiting returns the preset jobs that do not run, because they have not started or have ended.
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

// barrier recognizes reasons that come from the barrier reservation, which keeps jobs from
// starting before a workload's window (package rm/window). slurmctld does not change a job's
// reason until it looks at the job again, which may be minutes after the end of this reservation.
// Up to the instant barrier, no other reservation can be the reason, because the workload has no
// maintenance until then.
type barrier hpc.Time

func newBarrier(w *workload.Workload) barrier {
	if w.Start == 0 {
		return 0
	}
	until := hpc.Never
	for i := range w.Reservations {
		if r := &w.Reservations[i]; r.HasFlag(slurmspec.FlagMaint, "MAINTENANCE") {
			until = min(until, r.At)
		}
	}
	for i := range w.Actions { // a command may make a reservation
		until = min(until, w.Actions[i].At)
	}
	return barrier(until)
}

// withoutReason removes the reason from the event of a pending job if the reason comes from the barrier
// reservation: whether the job also waits for something else is not known.
func (b barrier) withoutReason(ev *rm.Event) {
	if ev.At < hpc.Time(b) && ev.Reason == slurmspec.NotAvailable.Because(slurmspec.ForMaintenance) {
		ev.Reason = ""
	}
}

// Difference is a difference between a run and its record that comes from the start in a window.
type Difference struct {
	Code, Text    string
	AffectsResult bool // the run is not valid
	Count         int
}

// OfWindow returns two kinds of differences: preset jobs that ran at the window's begin in the
// record but not in the run, and jobs that waited for preset jobs.
func (r *Result) OfWindow() (list []Difference) {
	if n := len(r.LatePresets); n > 0 {
		text := fmt.Sprintf("%d %s when the window began, but only in the record and not in this run: %s", n,
			quantity.Plural(n, "job ran", "jobs ran"), Few(r.LatePresets, 5))
		list = append(list, Difference{"preset-late", text, true, n})
	}
	if n := len(r.Postponed); n > 0 {
		text := fmt.Sprintf("the waits of %d %s are too short, by up to %v, because the run submitted the jobs late: they "+
			"depend on jobs that ran when the window began, and those are submitted only at their starts: %s", n,
			quantity.Plural(n, "job", "jobs"), r.PostponedBy, Few(r.Postponed, 5))
		list = append(list, Difference{"submitted-late", text, false, n})
	}
	return list
}

// Few returns the first n elements of a list, and how many more there are.
func Few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
}
