package replay

import (
	"cmp"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// expectation says how long a job runs at most, if no further command changes the job.
type expectation struct {
	runTime time.Duration // the longest run time of its tasks
	limit   time.Duration // 0 if the job does not request a limit
}

func expectationOf(job *hpc.Job) expectation {
	e := expectation{job.RunTime, job.TimeLimit}
	for _, d := range job.TaskRunTimes {
		e.runTime = max(e.runTime, d)
	}
	return e
}

// change applies a command to the expectation. It ignores commands that may be refused or that
// shorten the run time: the expectation only limits how long the replay waits.
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

// expectation returns the expectation of a job after its rewriting and commands.
func (p *player) expectation(index int) expectation {
	if e, changed := p.expected[index]; changed {
		return e
	}
	if p.rewritten != nil && p.rewritten[index] != nil {
		return expectationOf(p.rewritten[index])
	}
	p.workload.Jobs.Get(index, &p.job)
	return expectationOf(&p.job)
}

// lastEnd returns the latest expected end of the jobs that run at an instant. It ignores jobs that
// do not end by themselves and have no time limit.
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
