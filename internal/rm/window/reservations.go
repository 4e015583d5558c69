// Package window has the manoeuvre with which a resource manager comes to the state in
// which a workload's window begins. Real Slurm and the simulator share it, so that both
// make the same reservations.
//
// Virtual time starts before the window (the pre-roll). Each preset job is submitted when
// it started in reality, on the nodes that it had, and ends when it ended. The jobs that
// were pending when the window began are submitted when they were, so that they have
// their age. Until the window begins, a reservation of all nodes, the barrier, keeps them
// waiting; the preset jobs run in it.
//
// RM-Replay starts all preset jobs in one burst instead, which costs it 22 virtual
// minutes (Martinasso et al., SC'18, section V).
package window

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Reservation is the name of the barrier. The engines leave it out of what they report.
const Reservation = workload.WindowReservation

// Plan returns the reservations to be made for a window, as
// [rm.ResourceManager.PlanWindow] does, from the instant now on.
func Plan(w rm.Window, now hpc.Time) []hpc.ReservationEvent {
	return append([]hpc.ReservationEvent{barrier(w, now)}, Reservations(w)...)
}

// barrier must be made before any job is submitted. Reservations last whole minutes, so it
// may begin a little in the past. Its flags let the preset jobs run on beyond its end (FLEX),
// let other reservations be made at their own time (OVERLAP), and let preset jobs run into
// one of those for maintenance (MAINT).
func barrier(w rm.Window, now hpc.Time) hpc.ReservationEvent {
	minutes := (w.Start.Sub(now) + time.Minute - 1) / time.Minute * time.Minute
	users := w.Users
	if len(users) == 0 {
		users = []string{"root"} // a reservation needs someone
	}
	return hpc.ReservationEvent{At: now, Action: "create", Reservation: hpc.Reservation{
		Name: Reservation, Start: w.Start.Add(-minutes), Duration: minutes, Nodes: "ALL",
		Users: users, Flags: []string{
			slurmspec.FlagFlex, slurmspec.FlagOverlap, slurmspec.FlagMaint, slurmspec.FlagIgnoreJobs, slurmspec.FlagNoHold,
		},
	}}
}

// Reservations are the workload's reservations as an engine makes them. Those that are
// open when the window begins are made when virtual time begins, as they are at the
// window's start. Later, Slurm would refuse one on whose nodes a preset job runs that may run
// into it, and it would have refused a pending job that names one.
//
// A reservation whose nodes the resource manager chooses, or that has none, is made when
// it was, because what runs by then matters to it. It is made earlier only where a job
// names it earlier.
func Reservations(w rm.Window) []hpc.ReservationEvent {
	open, later := slices.Clone(w.Open), slices.Clone(w.Later)
	cut := map[string]time.Duration{} // by how much a reservation begins later than it did
	for i := range open {
		r := &open[i]
		at := max(r.At, w.Begin)
		if first, waited := w.Named[r.Name]; r.Nodes != "" || waited && first < r.At {
			at = w.Begin
		}
		if r.Nodes != "" {
			// A preset job, which runs in the barrier, must not make Slurm refuse an update.
			r.Flags = append(slices.Clip(r.Flags), slurmspec.FlagIgnoreJobs)
		}
		cut[r.Name] = fit(r, at, w.Start)
	}
	slices.SortStableFunc(open, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
	for i := range later {
		switch r := &later[i]; {
		case r.Action != "update":
			delete(cut, r.Name)
		case r.Start == 0 && r.Duration > 0 && r.Duration != hpc.Unlimited: // counts from the start
			r.Duration = max(r.Duration-cut[r.Name], time.Second)
		}
	}
	return append(open, later...)
}

// fit makes a reservation one that can be created at an instant, and returns by how much
// later it begins then. Slurm creates no reservation that began long ago. Three kinds begin
// no earlier than the window: those that end by themselves while nobody uses them
// (PURGE_COMP), those whose jobs the barrier does not keep back (MAINT), and those without
// nodes of their own, which would find none beside the barrier. One that recurs keeps its
// hours, and begins the first time that it can.
func fit(r *hpc.ReservationEvent, at, start hpc.Time) (later time.Duration) {
	earliest := at
	switch {
	case r.HasFlag(slurmspec.FlagTimeFloat): // its start stays as far off
		r.Start, r.At = r.Start.Add(at.Sub(r.At)), at
		return 0
	case r.Nodes == "", r.HasFlag(slurmspec.FlagMaint, "MAINTENANCE", slurmspec.FlagPurgeComp):
		earliest = start
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

// oldestStart is how long ago a reservation may have begun that Slurm creates
// (MAX_RESV_DELAY in reservation.c).
const oldestStart = 10 * time.Minute

// Job returns a preset job as it is played, in the barrier. What decided once when and where
// it would start (dependencies, begin time, hold, other reservations) is left out.
func Job(job *hpc.Job) *hpc.Job {
	p := *job
	r := job.Recorded
	p.Submit = r.Start
	p.NodeList, p.Exclude, p.Contiguous = r.Nodes, "", false
	if n, err := hostlist.Count(r.Nodes); err == nil { // what is wrong is Validate's to say
		p.MinNodes, p.MaxNodes = n, n
	}
	p.Reservation = Reservation
	p.Dependency, p.Begin, p.Deadline, p.Hold, p.Switches = "", 0, 0, false, 0
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
