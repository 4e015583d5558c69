package replay

import (
	"slices"
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
// jobs, which are in it. Its flags let them run on beyond its end (FLEX), and let other
// reservations be made at their own time (OVERLAP).
//
// RM-Replay starts all preset jobs in one burst instead, which costs it 22 virtual
// minutes (Martinasso et al., SC'18, section V).
type window struct {
	start hpc.Time
	users []string
	open  map[string]bool // preset jobs that have not started
}

// barrierName is the reservation of the preset jobs.
const barrierName = "rmreplay_window"

// newWindow is nil for a workload on which nothing happens before the window.
func newWindow(w *workload.Workload) *window {
	if w.Start == 0 {
		return nil
	}
	win := &window{start: w.Start, open: map[string]bool{}}
	early := false
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			win.open[job.ID] = true
			win.users = append(win.users, job.User)
		}
		early = early || job.Submit < w.Start
	}
	if !early {
		return nil
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
		Name: barrierName, Start: w.start.Add(-minutes), Duration: minutes, Nodes: "ALL",
		Users: users, Flags: []string{"FLEX", "OVERLAP", "IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"},
	}}
}

func (w *window) started(job string) {
	if w != nil {
		delete(w.open, job)
	}
}

// waiting are the preset jobs that have not started.
func (w *window) waiting() []string {
	var list []string
	for id := range w.open {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// presetLead is how long before its start a preset job is submitted to a resource manager
// that is a daemon: an idle slurmctld starts a job in the second after its submission.
const presetLead = time.Second

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
	p.Reservation = barrierName
	p.Dependency, p.Begin, p.Deadline, p.Hold, p.Switches = "", 0, 0, false, 0
	priority := hpc.TopPriority
	p.Priority, p.AsOperator = &priority, true
	if p.EndAt == 0 && p.RunTime != hpc.Unlimited {
		p.EndAt = r.Start.Add(p.RunTime)
	}
	return &p
}
