package transform

import (
	"fmt"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// PredictedLimits lowers the time limits to predicted run times. The function predict returns a
// run time in seconds for each job of the workload, in order; 0 means unknown. text is the step's
// entry in the workload.
//
// The new limit is the prediction, rounded up to a full minute as Slurm rounds limits, and at least a minute. The step
// never raises a limit. A job without a limit gets the prediction as its limit. A job without a prediction keeps its
// limit. Jobs that run when the window begins keep their limits, because the limits were set before the jobs started.
// The notes say how many jobs each rule concerns, how many jobs run longer than their new limit, and how much work
// these jobs lose.
func PredictedLimits(text string, predict func(*workload.Workload) ([]float64, error)) Step {
	return Step{text, func(w *workload.Workload, env *Environment) error {
		seconds, err := predict(w)
		if err != nil {
			return err
		}
		var c limitCounts
		for i, job := range w.Jobs.All() {
			limit := minutes(seconds[i])
			switch old := job.TimeLimit; {
			case w.Preset(job):
				c.preset++
				continue
			case !(seconds[i] > 0):
				c.unknown++
				continue
			case old > 0 && old != hpc.Unlimited && limit >= old:
				c.kept++
				continue
			case old <= 0 || old == hpc.Unlimited:
				c.without++
			}
			c.lost(job, limit)
			setLimit(job, limit)
			w.Jobs.Set(i, job)
			c.changed++
		}
		c.note(env)
		return nil
	}}
}

// minutes returns seconds, rounded up to a full minute from 1 on.
func minutes(seconds float64) time.Duration {
	const most = float64(math.MaxInt64 / time.Minute)
	return time.Duration(min(max(math.Ceil((seconds-rounding)/60), 1), most)) * time.Minute
}

// limitCounts counts the jobs that each rule of [PredictedLimits] concerns.
type limitCounts struct {
	changed, kept, without, unknown, preset int

	killed    int     // jobs that run longer than the new limit, but not longer than the old one
	earlier   int     // jobs that run longer than the old limit, too
	coreHours float64 // the work of the killed jobs until they are killed
}

// lost counts the tasks of a job that a new limit kills, and the work that they lose.
func (c *limitCounts) lost(job *hpc.Job, limit time.Duration) {
	run, ends := longestRun(job)
	switch {
	case !ends || job.TimeLimit > 0 && run >= job.TimeLimit:
		c.earlier++
	case run > limit:
		c.killed++
		tasks := max(job.Tasks, job.MinNodes*max(job.TasksPerNode, 1), 1)
		c.coreHours += float64(tasks) * float64(max(job.CPUsPerTask, 1)) * limit.Hours()
	}
}

func (c *limitCounts) note(env *Environment) {
	for _, n := range []struct {
		count int
		what  string
	}{
		{c.kept, "jobs whose prediction is not below their limit keep it"},
		{c.without, "jobs without a limit get one"},
		{c.unknown, "jobs without a prediction keep their limits"},
		{c.preset, "jobs that run when the window begins keep their limits"},
		{c.earlier, "jobs that reached their old limit are ended earlier"},
	} {
		if n.count > 0 {
			env.note("%s: %d", n.what, n.count)
		}
	}
	if c.killed > 0 {
		env.note("jobs that would have ended by themselves and are killed by their new limit: %d (%.1f %% of the changed "+
			"ones), after %s core-hours",
			c.killed, 100*float64(c.killed)/float64(c.changed), fmt.Sprintf("%.4g", c.coreHours))
	}
}
