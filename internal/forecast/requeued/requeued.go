// Package requeued gives jobs that wait after a requeue the instant from which they may start again.
package requeued

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// longest is the longest wait after a lost run that counts as slurmctld's own. slurmctld waits until the job's
// credential has expired on the nodes (batch_requeue_fini in job_mgr.c): 2 min, unless AuthInfo sets cred_expire. After
// a longer time somebody has released the job, which is not known when it is requeued.
const longest = 5 * time.Minute

// Delay sets the begin times of those pending jobs of a window that were requeued shortly before an instant. The record
// is the workload with all runs of the jobs. An array changes only if all of its waiting tasks were requeued.
func Delay(window, record *workload.Workload, at hpc.Time) {
	lost := map[string]map[int]hpc.Time{} // the list reuses the memory of jobs
	for _, job := range record.Jobs.All() {
		if r := job.Recorded; r != nil && job.Submit < at && (len(r.LostRuns) > 0 || r.TaskInterruptions != nil) {
			lost[job.ID] = map[int]hpc.Time{}
			for _, task := range hpc.TasksOf(job) {
				lost[job.ID][task] = eligible(r.OfTask(task).LostRuns, at)
			}
		}
	}
	if len(lost) == 0 {
		return
	}
	for i, job := range window.Jobs.All() {
		times := lost[job.ID]
		if times == nil || window.Preset(job) {
			continue
		}
		var first hpc.Time
		for k, task := range hpc.TasksOf(job) {
			if again := times[task]; k == 0 || again < first {
				first = again
			}
		}
		if first > job.Submit.Add(job.Begin) {
			job.Begin = first.Sub(job.Submit)
			window.Jobs.Set(i, job)
		}
	}
}

// eligible returns when a job may start again after a run that was lost before an instant. It returns 0 if it may start
// at the instant.
func eligible(lost []hpc.LostRun, at hpc.Time) (again hpc.Time) {
	for _, run := range lost {
		if run.End < at && run.EligibleAgain > at && run.EligibleAgain <= run.End.Add(longest) {
			again = run.EligibleAgain
		}
	}
	return again
}
