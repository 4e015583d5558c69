// Package overtime finds jobs that end at their time limits in a run, and that ran longer in the record.
package overtime

import (
	"fmt"
	"iter"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Ended returns a warning about jobs that were COMPLETED in the record after they had run well past their time
// limits, and that end at these limits in the run. If most jobs do, the limits are probably wrong, for example in
// another unit. A workload whose limits were changed on purpose has such jobs, too. Run times
// are divided by speed.
func Ended(w *workload.Workload, speed float64, rows iter.Seq[*run.Row]) []run.Warning {
	type long struct {
		hpc.Behaviour
		hpc.Recorded
		limit time.Duration
	}
	past := map[string]long{}
	for _, job := range w.Jobs.All() {
		if job.Recorded == nil || job.Recorded.Start == 0 || job.TimeLimit <= 0 || job.TimeLimit == hpc.Unlimited {
			continue
		}
		longest := job.RunTime
		for _, d := range job.TaskRunTimes {
			longest = max(longest, d)
		}
		if longest-hpc.Overtime > job.TimeLimit {
			past[job.ID] = long{job.Behaviour, *job.Recorded, job.TimeLimit}
		}
	}
	if len(past) == 0 {
		return nil
	}
	n, ended := 0, 0
	for row := range rows {
		if row.Start == 0 || row.State != hpc.Completed && row.State != hpc.TimedOut {
			continue
		}
		ended++
		job, found := past[row.Job]
		if !found || job.OfTask(row.Task).State != hpc.Completed {
			continue
		}
		asked, ran := job.RunTimeOf(row.Task), row.End.Sub(row.Start)-row.Suspended
		if asked != hpc.Unlimited && asked-hpc.Overtime > job.limit &&
			float64(ran+hpc.Overtime) < float64(asked)/speed {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s at the time limit: on record %s COMPLETED after longer runs (check the workload's time "+
		"limits, in a table's map the unit of time_limit; with --time-limit twice-run-time, no job reaches its limit)",
		quantity.Plural(n, "1 job ended", fmt.Sprint(n, " jobs ended")), quantity.Plural(n, "it was", "they were"))
	const many = 2 // in logs of other resource managers up to a sixth of the jobs are such jobs (HPC2N)
	affects := n*many >= ended && !transform.ChangesLimits(w.Transforms)
	return []run.Warning{{Code: run.EndsAtLimit, Text: text, AffectsResult: affects}}
}
