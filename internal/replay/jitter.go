package replay

import (
	"math/rand/v2"
	"time"
)

// jitter is a [Controller] that moves the submissions of another one.
type jitter struct {
	Controller
	by   time.Duration
	seed uint64
}

// Begin implements [Controller].
func (j *jitter) Begin() Decisions { return j.move(j.Controller.Begin()) }

// Event implements [Controller].
func (j *jitter) Event(event *Event) Decisions { return j.move(j.Controller.Event(event)) }

// move draws for every job by itself, so that one job's part does not depend on what
// happened to the others. Submissions are recorded in whole seconds and stay so.
func (j *jitter) move(d Decisions) Decisions {
	for i := range d.Submit {
		s := &d.Submit[i]
		draw := 2*rand.New(rand.NewPCG(j.seed, uint64(s.Job))).Float64() - 1
		s.At = s.At.Add(time.Duration(draw * float64(j.by)).Round(time.Second))
	}
	return d
}
