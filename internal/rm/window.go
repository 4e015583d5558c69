package rm

import "rmreplay/internal/hpc"

// Window says how the window of a workload begins: on a machine that is already at work.
type Window struct {
	// Start is when the window begins. Virtual time begins earlier, at Begin, so that the
	// machine comes into that state.
	Begin, Start hpc.Time
	// Users are those of the preset jobs, which run when the window begins, in order.
	Users []string
	// Open are the reservations that there are when the window begins, as they are then;
	// At is when each was made. Later is what happens to reservations after that.
	Open, Later []hpc.ReservationEvent
	// Named is when the first of the jobs that pend when the window begins was submitted
	// to each reservation.
	Named map[string]hpc.Time
}
