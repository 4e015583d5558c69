// Package unmet finds jobs that never start, because a job that they depend on ended in a way that does not fulfil the
// dependency. slurmctld does not report such waiting jobs. A realization of a forecast that waited for the starts of
// such jobs would end only after a day without an event.
package unmet

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Jobs are the jobs of one realization.
type Jobs struct {
	workload *workload.Workload
	// after has the conditions on the end of each job.
	after map[string][]condition
	// open has all jobs of the workload, in order, and stuck has the jobs that never start.
	open, stuck []string
}

// condition is a dependency of a job on the end of another job.
type condition struct {
	job      string // the job that waits
	since    hpc.Time
	task     int // the task of the other job; -1 for any task
	succeeds bool
}

// New returns the jobs of a workload.
func New(w *workload.Workload) *Jobs {
	u := &Jobs{workload: w, after: map[string][]condition{}}
	ids := map[string]bool{}
	for _, job := range w.Jobs.All() {
		ids[job.ID] = true
		u.open = append(u.open, job.ID)
	}
	for _, job := range w.Jobs.All() {
		if job.Dependency == "" {
			continue
		}
		dependencies, err := sbatch.ParseDependency(job.Dependency)
		if err != nil || dependencies.Any && len(dependencies.List) > 1 {
			continue // one of several conditions is enough
		}
		for _, d := range dependencies.List {
			on, task := d.Job, -1
			if id, index, ok := d.Task(); ok && !ids[on] {
				on, task = id, index
			}
			switch {
			case d.Type == "afterok":
				u.after[on] = append(u.after[on], condition{job.ID, job.Submit, task, true})
			case d.Type == "afternotok" && (task >= 0 || ids[on]):
				u.after[on] = append(u.after[on], condition{job.ID, job.Submit, task, false})
			}
		}
	}
	return u
}

// Any reports whether any job has a condition on the end of another job.
func (u *Jobs) Any() bool { return len(u.after) > 0 }

// Ended processes the end of a job, or of a task of an array, and returns the jobs that never
// start. task is -1 for a job that is not an array.
func (u *Jobs) Ended(job string, task int, state hpc.State, at hpc.Time) []string {
	return u.Add(u.Broken(job, task, state, at))
}

// Broken returns the jobs with a condition that can no longer be fulfilled after the end of a job, or of a task of an
// array. A job that is submitted later does not count, because the resource manager may have removed the ended job by
// then.
func (u *Jobs) Broken(job string, task int, state hpc.State, at hpc.Time) (stuck []string) {
	for _, c := range u.after[job] {
		if (c.task < 0 || c.task == task) && c.since <= at && c.fails(task, state) {
			stuck = append(stuck, c.job)
		}
	}
	return stuck
}

// fails reports whether the condition can no longer be fulfilled after the end of a job or task. An array succeeds if
// all its tasks succeed, so after a single failed task afterok cannot be fulfilled. afternotok needs one failed task,
// so it is still possible after a task that succeeds.
func (c *condition) fails(task int, state hpc.State) bool {
	if c.succeeds {
		return state != hpc.Completed
	}
	return state == hpc.Completed && (task < 0 || c.task >= 0)
}

// Add adds jobs that never start. It returns these jobs, and all jobs that never start because they depend on one of
// these jobs.
func (u *Jobs) Add(stuck []string) []string {
	if len(stuck) == 0 {
		return nil
	}
	u.stuck = replay.NeverStart(u.workload, u.open, append(u.stuck, stuck...))
	return u.stuck
}
