// Package window brings a resource manager into the state in which a workload's window begins.
// Real Slurm and the simulator share it, so both make the same reservations.
//
// Virtual time starts before the window (the pre-roll). Each preset job is submitted at its recorded
// start, on its recorded nodes, and ends at its recorded end. Jobs that were pending when the window began
// are submitted at their recorded instants, which gives them the right age in the queue. A reservation of
// all nodes, the barrier, keeps them pending until the window begins. The preset jobs run in the barrier.
//
// RM-Replay instead starts all preset jobs in one burst, which takes 22 virtual minutes
// (Martinasso et al., SC'18, section V).
package window

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Reservation is the name of the barrier. The engines leave it out of their events.
const Reservation = workload.WindowReservation

// Plan returns the reservations for a window as [rm.ResourceManager.PlanWindow] does. The
// parameter now is the current virtual time.
func Plan(w rm.Window, now hpc.Time) []hpc.ReservationEvent {
	return append([]hpc.ReservationEvent{barrier(w, now)}, Reservations(w)...)
}

// barrier returns the reservation of all nodes until the window begins. It must be made before
// any job is submitted. Reservations last whole minutes, so it may begin a little in the past.
// With FLEX, preset jobs may run beyond its end. With OVERLAP, other reservations can be made.
// With MAINT, preset jobs may run into a reservation for maintenance.
func barrier(w rm.Window, now hpc.Time) hpc.ReservationEvent {
	minutes := (w.Start.Sub(now) + time.Minute - 1) / time.Minute * time.Minute
	users := w.Users
	if len(users) == 0 {
		users = []string{"root"} // Slurm refuses a reservation without users
	}
	return hpc.ReservationEvent{At: now, Action: "create", Reservation: hpc.Reservation{
		Name: Reservation, Start: w.Start.Add(-minutes), Duration: minutes, Nodes: "ALL",
		Users: users, Flags: []string{
			slurmspec.FlagFlex, slurmspec.FlagOverlap, slurmspec.FlagMaint, slurmspec.FlagIgnoreJobs, slurmspec.FlagNoHold,
		},
	}}
}

// Reservations returns the workload's reservations as an engine makes them. If a reservation is open when the window
// begins, the engine makes it as soon as virtual time begins, in its state at the window's start. Later, Slurm would
// refuse the reservation, because preset jobs on its nodes may run into it. By then Slurm would also have refused
// pending jobs that name the reservation.
//
// A reservation without named nodes is made at its recorded instant, because the resource manager's choice of nodes
// depends on the running jobs. A reservation without named nodes is made earlier only if a job names it earlier.
func Reservations(w rm.Window) []hpc.ReservationEvent {
	open, later := slices.Clone(w.Open), slices.Clone(w.Later)
	cut := map[string]time.Duration{} // how much later than recorded a reservation begins
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
		case r.Start == 0 && r.Duration > 0 && r.Duration != hpc.Unlimited: // the duration counts from the recorded start
			r.Duration = max(r.Duration-cut[r.Name], time.Second)
		}
	}
	return append(open, later...)
}

// fit changes a reservation to a form that Slurm can create at a given instant, and returns the delay
// of its start. Slurm refuses a reservation that began long ago. Three kinds begin no earlier than the
// window: reservations that end early while no job uses them (PURGE_COMP), reservations whose jobs may
// run in spite of the barrier (MAINT), and reservations without named nodes, for which the barrier
// leaves no nodes. A recurring reservation keeps its hours and begins at its first possible time.
func fit(r *hpc.ReservationEvent, at, start hpc.Time) (later time.Duration) {
	earliest := at
	switch {
	case r.HasFlag(slurmspec.FlagTimeFloat): // its start is always the same time after the current time
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

// oldestStart is how long before its creation a reservation may begin (MAX_RESV_DELAY in Slurm's
// reservation.c).
const oldestStart = 10 * time.Minute

// TopPriority is above every priority that slurmctld computes.
const TopPriority = uint32(math.MaxInt32)

// OperatorsJob returns a preset job as an operator submits it to Slurm: the result of [Job], with a priority that
// puts the job before all other jobs.
func OperatorsJob(job *hpc.Job) *hpc.Job {
	p, priority := Job(job), TopPriority
	p.Priority, p.AsOperator = &priority, true
	return p
}

// Job returns a preset job as an engine plays it, in the barrier. It omits the options that
// decided when and where the job started: dependencies, begin time, hold, other reservations.
func Job(job *hpc.Job) *hpc.Job {
	p := *job
	r := job.Recorded
	p.Submit = r.Start
	p.NodeList, p.Exclude, p.Contiguous = r.Nodes, "", false
	if n, err := hostlist.Count(r.Nodes); err == nil { // workload.Validate reports an error
		p.MinNodes, p.MaxNodes = n, n
	}
	p.Reservation = Reservation
	p.Dependency, p.Begin, p.Deadline, p.Hold, p.Switches = "", 0, 0, false, 0
	if p.EndAt != 0 || p.RunTime == hpc.Unlimited {
		return &p
	}
	p.EndAt = r.Start.Add(p.RunTime)
	if r.End > p.EndAt && r.State != hpc.TimedOut {
		// The job's suspension does not count towards its time limit.
		p.EndAt = r.End
		if took := r.End.Sub(r.Start); p.TimeLimit > 0 && took > p.TimeLimit {
			p.TimeLimit = (took + time.Minute - 1) / time.Minute * time.Minute
		}
	}
	return &p
}
