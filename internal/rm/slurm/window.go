package slurm

import (
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/window"
)

// presetLead is how long before its start a preset job is submitted. slurmctld looks for jobs
// to start once a second, at some instant within it: it is to look between the submission and the
// end of the second in which the job started, and not in the second before. A job that
// starts early may reach its time limit early.
const presetLead = 100 * time.Microsecond

// topPriority is a priority that no job reaches by itself.
const topPriority = uint32(math.MaxInt32)

// PlanWindow implements [rm.ResourceManager].
func (e *Engine) PlanWindow(w rm.Window) ([]hpc.ReservationEvent, error) {
	return window.Plan(w, e.Now()), nil
}

// WindowReservations are the reservations that are made of a window's: what slurmdbd has
// on record is to be compared with these.
func WindowReservations(w rm.Window) []hpc.ReservationEvent { return window.Reservations(w) }

// SubmitPreset implements [rm.ResourceManager]: an operator submits the job with a priority
// that puts it before all others.
func (e *Engine) SubmitPreset(job *hpc.Job) error {
	preset, priority := window.Job(job), topPriority
	preset.Priority, preset.AsOperator = &priority, true
	return e.Submit(preset)
}

// withoutBarrier takes the name of the window's own reservation out of an event: it is no
// reservation of the workload's.
func withoutBarrier(ev *rm.Event) {
	if ev.Outcome != nil && ev.Outcome.Reservation == window.Reservation {
		ev.Outcome.Reservation = ""
	}
}
