package nodes

import (
	"time"

	"rmreplay/internal/hpc"
)

// Stretch multiplies the rest of the run time of a job's script by a factor. It reports whether
// the script runs.
func (c *Cluster) Stretch(id uint32, factor float64) bool {
	j := c.jobs[id]
	if j == nil || !j.running {
		return false
	}
	if j.script.RunTime == hpc.Unlimited {
		return true
	}
	stretched := func(d time.Duration) time.Duration {
		return time.Duration(min(float64(d)*factor, float64(hpc.Unlimited/2)))
	}
	if j.suspended {
		j.left = stretched(j.left)
		return true
	}
	c.plan(j, later(c.env.Now(), stretched(j.end.Sub(c.env.Now()))))
	return true
}

// SetRunTime sets the run time of a job's script, counted from its launch; with [hpc.Unlimited]
// the script runs until a signal ends it. A script that has already run longer ends now.
// SetRunTime reports whether the script runs.
func (c *Cluster) SetRunTime(id uint32, d time.Duration) bool {
	j := c.jobs[id]
	if j == nil || !j.running {
		return false
	}
	was := j.script.RunTime
	j.script.RunTime, j.script.End = d, 0
	switch {
	case d == hpc.Unlimited:
		j.generation++ // timers set so far no longer end the script
	case j.suspended:
		j.left = max(0, j.left+d-was)
		if was == hpc.Unlimited {
			j.left = max(0, later(j.started, d).Sub(c.env.Now()))
		}
	case was == hpc.Unlimited:
		c.plan(j, c.firstEnd(j, j.started))
	default:
		c.plan(j, later(j.end, d-was))
	}
	return true
}

// later returns t + d, or [hpc.Never] if the sum does not fit into virtual time.
func later(t hpc.Time, d time.Duration) hpc.Time {
	if d > 0 && hpc.Time(d) > hpc.Never-t {
		return hpc.Never
	}
	return t.Add(d)
}
