package workload

import (
	"slices"

	"rmreplay/internal/hpc"
)

// CutArrays returns, by ID, the arrays with some tasks that run when the window begins and others that wait. The
// values have the running tasks by their numbers. In the workload each running task is a job of its own, ID_TASK.
func (w *Workload) CutArrays() map[string]map[int]*hpc.Job {
	running := map[string]map[int]*hpc.Job{}
	for i, job := range w.Jobs.All() {
		array, task, ok := hpc.SplitTask(job.ID)
		if !ok || job.Array != "" || !w.Preset(job) {
			continue
		}
		if running[array] == nil {
			running[array] = map[int]*hpc.Job{}
		}
		running[array][task] = w.Jobs.At(i)
	}
	arrays := map[string]map[int]*hpc.Job{}
	for _, job := range w.Jobs.All() {
		tasks, cut := running[job.ID]
		if !cut || job.Array == "" {
			continue
		}
		if array, err := hpc.ParseArray(job.Array); err == nil && !slices.ContainsFunc(array.Tasks, func(task int) bool {
			return tasks[task] != nil
		}) {
			arrays[job.ID] = tasks
		}
	}
	return arrays
}

// LatestSubmissions returns, for each array of [Workload.CutArrays], the first start of a task that runs when the
// window begins. The array was submitted before that instant. The keys are indices of the arrays in the workload.
func (w *Workload) LatestSubmissions() map[int]hpc.Time {
	arrays, latest := w.CutArrays(), map[int]hpc.Time{}
	for i, job := range w.Jobs.All() {
		for _, task := range arrays[job.ID] {
			if at, known := latest[i]; !known || task.Recorded.Start < at {
				latest[i] = task.Recorded.Start
			}
		}
	}
	return latest
}
