package replay

import "rmreplay/internal/agenda"

// input is one thing that the workload does; its sequence is its place in the workload's
// list of its class. What changes the machine comes before what asks for it, and a job is
// submitted before it is cancelled.
type input = agenda.Entry[struct{}]

// The classes of inputs.
const (
	nodeEvent uint8 = iota
	reservation
	action
	submission
	cancellation
)

// ofWindow is the place of what a window does at its beginning and at its end.
const ofWindow = -1
