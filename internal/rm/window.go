package rm

import "rmreplay/internal/hpc"

// Window describes the state of the machine when the window of a workload begins.
type Window struct {
	// Start is when the window begins. Virtual time begins earlier, at Begin, so that the machine can
	// reach its state at Start.
	Begin, Start hpc.Time
	// Users are the users of the preset jobs, sorted. Preset jobs run when the window begins.
	Users []string
	// Open has the reservations that exist when the window begins, in their state at that
	// instant. At is when each was made. Later has the later events of reservations.
	Open, Later []hpc.ReservationEvent
	// Named has, for each reservation, the first submission to it among the jobs that are
	// pending when the window begins.
	Named map[string]hpc.Time
}
