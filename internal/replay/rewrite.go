package replay

import (
	"fmt"
	"maps"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Rewriting makes a controller whose submissions are those of another one, with every job
// changed by the rewriters, in their order and after the changes of the controller itself.
func Rewriting(c Controller, rewriters ...Rewriter) Controller {
	switch len(rewriters) {
	case 0:
		return c
	case 1:
		return &rewriting{c, rewriters[0]}
	}
	return &rewriting{c, chain(rewriters)}
}

func chain(rewriters []Rewriter) Rewriter {
	return func(job *hpc.Job) {
		for _, rewrite := range rewriters {
			rewrite(job)
		}
	}
}

type rewriting struct {
	Controller
	rewrite Rewriter
}

// Begin implements [Controller].
func (r *rewriting) Begin() Decisions { return r.add(r.Controller.Begin()) }

// Event implements [Controller].
func (r *rewriting) Event(event *Event) Decisions { return r.add(r.Controller.Event(event)) }

func (r *rewriting) add(d Decisions) Decisions {
	for i := range d.Submit {
		s := &d.Submit[i]
		if s.Rewrite == nil {
			s.Rewrite = r.rewrite
		} else {
			s.Rewrite = chain([]Rewriter{s.Rewrite, r.rewrite})
		}
	}
	return d
}

// Performance makes a rewriter for processors that are so many times as fast: run times are
// divided by the factor, which is above 0, and time limits stay.
func Performance(factor float64) Rewriter {
	scaled := func(d time.Duration) time.Duration {
		if d == hpc.Unlimited {
			return d
		}
		return time.Duration(min(float64(d)/factor, float64(hpc.Unlimited/2)))
	}
	return func(job *hpc.Job) {
		job.RunTime = scaled(job.RunTime)
		job.TaskRunTimes = maps.Clone(job.TaskRunTimes)
		for task, d := range job.TaskRunTimes {
			job.TaskRunTimes[task] = scaled(d)
		}
	}
}

// FixedPriorities gives every job the priority that it had when the workload was recorded,
// where that is known. So the resource manager does not compute the order of the queue.
type FixedPriorities struct {
	// Unknown counts the jobs without a recorded priority, though they had started: a job
	// that is cancelled before it starts has none.
	Unknown int
}

// NewFixedPriorities makes them for a resource manager, and fails for one whose order does
// not go by priorities.
func NewFixedPriorities(can rm.Capabilities) (*FixedPriorities, error) {
	if !can.FixedPriorities {
		return nil, fmt.Errorf("fixed priorities: %s does not order jobs by the priorities that they are submitted with (Slurm does)", can.Name)
	}
	return &FixedPriorities{}, nil
}

// Rewrite is the [Rewriter].
func (f *FixedPriorities) Rewrite(job *hpc.Job) {
	if job.Recorded == nil || job.Recorded.Priority == 0 {
		own := job.Priority != nil && job.AsOperator
		if !own && (job.Recorded == nil || job.Recorded.Start != 0) {
			f.Unknown++
		}
		return
	}
	priority := job.Recorded.Priority
	job.Priority, job.AsOperator = &priority, true
}
