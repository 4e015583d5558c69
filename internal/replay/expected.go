package replay

import (
	"cmp"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// expectation is how long a job runs at the longest if nothing else happens.
type expectation struct {
	runTime time.Duration // of its longest task
	limit   time.Duration // 0 if it asks for none
}

func expectationOf(job *hpc.Job) expectation {
	e := expectation{job.RunTime, job.TimeLimit}
	for _, d := range job.TaskRunTimes {
		e.runTime = max(e.runTime, d)
	}
	return e
}

// change takes a command into account. One that may be refused, or that makes the run time
// shorter, leaves the expectation as it is: it only says how long to wait.
func (e *expectation) change(c rm.Command) {
	switch c.Kind {
	case rm.SetTimeLimit:
		e.limit = max(e.limit, c.TimeLimit)
	case rm.Stretch:
		if e.runTime != hpc.Unlimited && c.Factor > 1 {
			e.runTime = time.Duration(min(float64(e.runTime)*c.Factor, float64(hpc.Unlimited/2)))
		}
	case rm.SetRunTime:
		e.runTime = max(e.runTime, c.RunTime)
	}
}

// expectation returns that of a job of the workload, as it was submitted and changed.
func (p *player) expectation(index int) expectation {
	if e, changed := p.expected[index]; changed {
		return e
	}
	p.workload.Jobs.Get(index, &p.job)
	return expectationOf(&p.job)
}

// lastEnd is when the last of the jobs that run at an instant ends, if nothing changes
// that. A job without an end of its own and without a time limit is not waited for.
func (p *player) lastEnd(from hpc.Time) hpc.Time {
	last := from
	for _, i := range p.order {
		if p.running[i] == 0 {
			continue
		}
		e := p.expectation(int(i))
		longest := e.runTime
		if longest == hpc.Unlimited {
			longest = cmp.Or(e.limit, p.opts.DefaultLimit)
		}
		if longest != hpc.Unlimited {
			last = max(last, from.Add(longest))
		}
	}
	return last
}
