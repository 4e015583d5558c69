package replay

import (
	"math/rand/v2"
	"time"

	"rmreplay/internal/hpc"
)

// jitter is a [Controller] that moves the submissions of another controller.
type jitter struct {
	Controller
	by     time.Duration
	seed   uint64
	latest map[int]hpc.Time // of arrays, by their indices in the workload ([workload.Workload.LatestSubmissions])
}

// Begin implements [Controller].
func (j *jitter) Begin() Decisions { return j.move(j.Controller.Begin()) }

// Event implements [Controller].
func (j *jitter) Event(event *Event) Decisions { return j.move(j.Controller.Event(event)) }

// move adds jitter to submissions. A job's jitter depends only on the seed and the job, not on other jobs.
// Submissions recorded in whole seconds stay in whole seconds.
func (j *jitter) move(d Decisions) Decisions {
	for i := range d.Submit {
		s := &d.Submit[i]
		draw := 2*rand.New(rand.NewPCG(j.seed, uint64(s.Job))).Float64() - 1
		s.At = s.At.Add(time.Duration(draw * float64(j.by)).Round(time.Second))
		if latest, cut := j.latest[s.Job]; cut {
			s.At = min(s.At, latest)
		}
	}
	return d
}
