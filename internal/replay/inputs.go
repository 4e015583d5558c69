package replay

import "rmreplay/internal/hpc"

// input is one thing that the workload does. Those of one instant go in the order of
// class, then of the workload: what changes the machine comes before what asks for it,
// and a job is submitted before it is cancelled.
type input struct {
	at    hpc.Time
	seq   int32 // its place in the workload's list of its class
	class inputClass
}

type inputClass uint8

const (
	nodeEvent inputClass = iota
	reservation
	action
	submission
	cancellation
)

// ofWindow is the place of what a window does at its beginning and at its end.
const ofWindow = -1

// before is the order of inputs.
func (a *input) before(b *input) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.class != b.class {
		return a.class < b.class
	}
	return a.seq < b.seq
}

// inputs is a binary heap. A rigid replay has every job of the workload in it, so that
// there are no pointers in it for the garbage collector to follow, and no closures.
type inputs []input

func (q *inputs) push(in input) {
	*q = append(*q, in)
	h := *q
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// pop takes out the first input of those that there are.
func (q *inputs) pop() input {
	h := *q
	last := len(h) - 1
	first := h[0]
	h[0] = h[last]
	h = h[:last]
	*q = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&h[i]) {
			return first
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
