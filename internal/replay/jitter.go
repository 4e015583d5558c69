package replay

import (
	"math/rand/v2"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// jitter is a [Controller] that moves the submissions of another controller.
type jitter struct {
	Controller
	by     time.Duration
	seed   uint64
	latest map[int]hpc.Time // see latestOf
}

// latestOf returns the latest submission of each array of which tasks run when the window begins: the first start of
// such a task. The keys are indices in the workload.
func latestOf(w *workload.Workload) map[int]hpc.Time {
	arrays, latest := arraysOf(w), map[int]hpc.Time{}
	for i, job := range w.Jobs.All() {
		for _, task := range arrays[job.ID] {
			if at, known := latest[i]; !known || task.Recorded.Start < at {
				latest[i] = task.Recorded.Start
			}
		}
	}
	return latest
}

// Begin implements [Controller].
func (j *jitter) Begin() Decisions { return j.move(j.Controller.Begin()) }

// Event implements [Controller].
func (j *jitter) Event(event *Event) Decisions { return j.move(j.Controller.Event(event)) }

// move computes each job's jitter from the seed and the job only, so it does not depend on other
// jobs. Submissions recorded in whole seconds stay in whole seconds.
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
