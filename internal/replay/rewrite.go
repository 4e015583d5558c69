package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Rewriting makes a controller with the decisions of c. The rewriter of c changes each job first, and the
// given rewriters change the job afterwards, in their order.
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

// Performance makes a rewriter for faster or slower processors. It divides run times by the
// parameter factor, which must be above 0, and does not change time limits.
func Performance(factor float64) Rewriter {
	scaled := func(d time.Duration) time.Duration {
		if d == hpc.Unlimited {
			return d
		}
		return time.Duration(min(float64(d)/factor, float64(hpc.Unlimited/2)))
	}
	return func(job *hpc.Job) {
		job.RunTime = scaled(job.RunTime)
		job.IO = slices.Clone(job.IO) // the volume of I/O stays, so faster nodes demand more bandwidth
		for i := range job.IO {
			p := &job.IO[i]
			p.Duration = scaled(p.Duration)
			p.Rate = int64(min(float64(p.Rate)*factor, math.MaxInt64/2))
		}
		if job.TaskRunTimes == nil {
			return
		}
		job.TaskRunTimes = maps.Clone(job.TaskRunTimes)
		for task, d := range job.TaskRunTimes {
			job.TaskRunTimes[task] = scaled(d)
		}
	}
}

// TwiceRunTime is a rewriter that raises each time limit to twice the run time, as in the simulations of "Replay with
// Feedback" (FGCS 2024). With the raised limits, no job is killed by its limit. The limit of a job does not change if
// the job ends only because of its limit. If [Performance] is used, too, TwiceRunTime must come first, because it
// refers to the recorded run time.
func TwiceRunTime(job *hpc.Job) {
	switch {
	case job.RunTime == hpc.Unlimited:
	case job.RunTime > hpc.Unlimited/2:
		job.TimeLimit = hpc.Unlimited
	default:
		job.TimeLimit = max(2*job.RunTime, job.TimeLimit)
	}
}

// FixedPriorities gives every job its recorded priority, if it has one. The resource manager then
// does not compute priorities.
type FixedPriorities struct {
	// Unknown is the number of jobs that have neither a recorded priority nor a priority that an operator gave. Unknown
	// leaves out jobs that never started in the record: such jobs were cancelled or rejected.
	Unknown int
}

// NewFixedPriorities makes the rewriter. It returns an error if the resource manager cannot order
// jobs by given priorities.
func NewFixedPriorities(can rm.Capabilities) (*FixedPriorities, error) {
	if !can.FixedPriorities {
		return nil, fmt.Errorf(
			"fixed priorities: %s does not order jobs by the priorities that they are submitted with (Slurm does)", can.Name)
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
