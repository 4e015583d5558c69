package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// window is how a replay comes to the state in which the workload's window begins.
//
// The clock starts early enough (the pre-roll). Each preset job is submitted when it
// started in reality, on the nodes that it had, and ends when it ended. The jobs that
// were pending when the window began are submitted when they were, so that they have
// their age; until the window begins, a reservation keeps all nodes for the preset
// jobs, which are in it. Its flags let them run on beyond its end (FLEX), let other
// reservations be made at their own time (OVERLAP), and let preset jobs run into such
// a one for maintenance (MAINT).
//
// RM-Replay starts all preset jobs in one burst instead, which costs it 22 virtual
// minutes (Martinasso et al., SC'18, section V).
type window struct {
	start hpc.Time
	users []string
	waits map[string]bool // of each preset job whether it does not run
}

// newWindow is nil for a workload without a window.
func newWindow(w *workload.Workload) *window {
	if w.Start == 0 {
		return nil
	}
	win := &window{start: w.Start, waits: map[string]bool{}}
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			win.waits[job.ID] = true
			win.users = append(win.users, job.User)
		}
	}
	slices.Sort(win.users)
	win.users = slices.Compact(win.users)
	return win
}

// barrier is the reservation that keeps the machine for the preset jobs. It must be
// made before any job is submitted. Reservations last whole minutes, so it may begin a
// little in the past.
func (w *window) barrier(now hpc.Time) hpc.ReservationEvent {
	minutes := (w.start.Sub(now) + time.Minute - 1) / time.Minute * time.Minute
	users := w.users
	if len(users) == 0 {
		users = []string{"root"} // a reservation needs someone
	}
	return hpc.ReservationEvent{At: now, Action: "create", Reservation: hpc.Reservation{
		Name: workload.WindowReservation, Start: w.start.Add(-minutes), Duration: minutes, Nodes: "ALL",
		Users: users, Flags: []string{"FLEX", "OVERLAP", "MAINT", "IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"},
	}}
}

// Reservations are the workload's reservations as a replay makes them. Those that there
// are when a window begins are made, as they are then, when the clock starts. Later,
// Slurm would refuse one on whose nodes a preset job runs that may run into it, and a
// pending job that names it would have been refused before.
//
// One whose nodes are the resource manager's to choose, or that has none, is made when it
// was: what runs by then matters to it. Only a job that names it makes it come earlier.
func Reservations(w *workload.Workload) []hpc.ReservationEvent {
	if w.Start == 0 {
		return w.Reservations
	}
	open, rest := workload.ReservationsAt(w.Reservations, w.Start)
	begin, named := w.Begin(), namedFirst(w)
	cut := map[string]time.Duration{} // what a reservation begins later than it did
	for i := range open {
		r := &open[i]
		at := max(r.At, begin)
		if first, waited := named[r.Name]; r.Nodes != "" || waited && first < r.At {
			at = begin
		}
		if r.Nodes != "" {
			// Not to be refused an update because of a preset job, which is in the window's.
			r.Flags = append(slices.Clip(r.Flags), "IGNORE_JOBS")
		}
		cut[r.Name] = fit(r, at, w.Start)
	}
	slices.SortStableFunc(open, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
	for i := range rest {
		switch r := &rest[i]; {
		case r.Action != "update":
			delete(cut, r.Name)
		case r.Start == 0 && r.Duration > 0 && r.Duration != hpc.Unlimited: // counts from the start
			r.Duration = max(r.Duration-cut[r.Name], time.Second)
		}
	}
	return append(open, rest...)
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

// fit makes a reservation one that can be created at an instant, and returns by how much
// later it begins. Slurm makes none that began long ago. What would end by itself while it
// is not used (PURGE_COMP), has jobs that the window's reservation does not keep back
// (MAINT), or would find no node beside that one, begins no earlier than the window does.
// One that comes again keeps its hours, from the first time that it can.
func fit(r *hpc.ReservationEvent, at, window hpc.Time) (later time.Duration) {
	earliest := at
	switch {
	case r.HasFlag("TIME_FLOAT"): // its start is as far off as ever
		r.Start, r.At = r.Start.Add(at.Sub(r.At)), at
		return 0
	case r.Nodes == "", r.HasFlag("MAINT", "MAINTENANCE", "PURGE_COMP"):
		earliest = window
	}
	r.At = at
	if r.Start != 0 && r.Recurring() {
		for r.Start < at.Add(-oldestStart) {
			r.Start = r.Start.Add(workload.UntilNext(&r.Reservation))
		}
	}
	if r.Start == 0 || r.Start >= earliest || r.Recurring() {
		return 0
	}
	later = earliest.Sub(r.Start)
	r.Start = earliest
	if r.Duration > 0 && r.Duration != hpc.Unlimited {
		r.Duration -= later
	}
	return later
}

// oldestStart is how long ago a reservation may have begun that Slurm makes
// (MAX_RESV_DELAY in reservation.c).
const oldestStart = 10 * time.Minute

// runs notes that a job has started, or that its run is over.
func (w *window) runs(job string, runs bool) {
	if w == nil {
		return
	}
	if _, preset := w.waits[job]; preset {
		w.waits[job] = !runs
	}
}

// waiting are the preset jobs that do not run: that have not started, or run no more.
func (w *window) waiting() []string {
	var list []string
	for id, waits := range w.waits {
		if waits {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// presetLead is how long before its start a preset job is submitted to a resource manager
// that is a daemon. slurmctld looks once a second, at whatever part of it, for jobs to start:
// it is to look between the submission and the end of the second in which the job started,
// and not in the second before. A job that starts early may reach its time limit early.
const presetLead = 100 * time.Microsecond

// preset is a preset job as it is played. What decided once when and where it would
// start (dependencies, begin time, hold, other reservations) is left out.
func preset(job *hpc.Job, lead time.Duration) *hpc.Job {
	p := *job
	r := job.Recorded
	p.Submit = r.Start.Add(-lead)
	p.NodeList, p.Exclude, p.Contiguous = r.Nodes, "", false
	if n, err := hostlist.Count(r.Nodes); err == nil { // what is wrong is Validate's to say
		p.MinNodes, p.MaxNodes = n, n
	}
	p.Reservation = workload.WindowReservation
	p.Dependency, p.Begin, p.Deadline, p.Hold, p.Switches = "", 0, 0, false, 0
	priority := hpc.TopPriority
	p.Priority, p.AsOperator = &priority, true
	if p.EndAt != 0 || p.RunTime == hpc.Unlimited {
		return &p
	}
	p.EndAt = r.Start.Add(p.RunTime)
	if r.End > p.EndAt && r.State != hpc.TimedOut {
		// It was suspended for a while, which its time limit did not count.
		p.EndAt = r.End
		if took := r.End.Sub(r.Start); p.TimeLimit > 0 && took > p.TimeLimit {
			p.TimeLimit = (took + time.Minute - 1) / time.Minute * time.Minute
		}
	}
	return &p
}
