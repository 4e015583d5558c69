package nodes

import (
	"time"

	"rmreplay/internal/hpc"
)

// Stretch makes the rest of a script's run time so many times as long. It reports whether
// the script of the job runs.
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

// SetRunTime makes a script run for so long, counted as at its launch; [hpc.Unlimited] until
// it is killed. A script that has run as long ends now. It reports whether the script of the job
// runs.
func (c *Cluster) SetRunTime(id uint32, d time.Duration) bool {
	j := c.jobs[id]
	if j == nil || !j.running {
		return false
	}
	was := j.script.RunTime
	j.script.RunTime, j.script.End = d, 0
	switch {
	case d == hpc.Unlimited:
		j.generation++ // no timer ends it
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

// later is t + d, or [hpc.Never] where that is beyond what virtual time can hold.
func later(t hpc.Time, d time.Duration) hpc.Time {
	if d > 0 && hpc.Time(d) > hpc.Never-t {
		return hpc.Never
	}
	return t.Add(d)
}
