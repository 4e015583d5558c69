package rm

import "rmreplay/internal/hpc"

// Window describes the state of the machine when the window of a workload begins.
type Window struct {
	// Start is when the window begins. Virtual time begins earlier, at Begin, so that the machine can
	// reach its state at Start.
	Begin, Start hpc.Time
	// Users are the users of the preset jobs, sorted. Preset jobs run when the window begins.
	Users []string
	// Open has the reservations that exist at Start, in their state at Start. The field At of such a reservation is
	// the instant at which it was made. Later has the events of reservations after Start.
	Open, Later []hpc.ReservationEvent
	// Named maps the name of a reservation to the earliest submit time of the jobs that name it and
	// are pending at Start.
	Named map[string]hpc.Time
	// Arrays has the arrays with both running and pending tasks at Start. It maps the ID of each such array to the
	// array's preset tasks by their numbers. Each preset task is a job of its own, called ARRAY_TASK.
	Arrays map[string]map[int]*hpc.Job
}
