package finished

import (
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Recorded returns what happened to the job, for the workload.
func (r *Job) Recorded() *hpc.Recorded {
	fate := &hpc.Recorded{
		Eligible: r.Eligible, Start: r.Start, End: r.End, State: r.State,
		Nodes: r.NodeList, Processors: r.AllocCPUs, MovedBytes: r.MovedBytes,
		Interruptions: r.Interruptions,
	}
	if r.Priority != nil {
		fate.Priority = *r.Priority
	}
	if r.AllocCPUs > 0 {
		fate.UsedMemory = (r.UsedMemory/1024 + int64(r.AllocCPUs) - 1) / int64(r.AllocCPUs)
	}
	return fate
}

// RecordedArray returns what happened to a job array, for the workload. tasks are the records of
// its tasks, or one record of the whole array if it was rejected. The array ended when all its
// tasks had ended.
func RecordedArray(tasks []Job) *hpc.Recorded {
	whole := &hpc.Recorded{State: tasks[0].State}
	open, mixed := false, false
	var numbers []int
	for i := range tasks {
		task := tasks[i].Recorded()
		if task.State != whole.State {
			whole.State, mixed = "", true
		}
		if task.Eligible != 0 && (whole.Eligible == 0 || task.Eligible < whole.Eligible) {
			whole.Eligible = task.Eligible
		}
		if task.Start != 0 && (whole.Start == 0 || task.Start < whole.Start) {
			whole.Start, whole.Priority, whole.Processors = task.Start, task.Priority, task.Processors
		}
		whole.End = max(whole.End, task.End)
		open = open || task.End == 0
		if number := tasks[i].ArrayTask; number >= 0 {
			numbers = append(numbers, number)
			set(&whole.TaskEligible, number, task.Eligible)
			set(&whole.TaskStarts, number, task.Start)
			if task.Start != 0 {
				set(&whole.TaskProcessors, number, task.Processors)
				set(&whole.TaskPriorities, number, task.Priority)
			}
			set(&whole.TaskEnds, number, task.End)
			set(&whole.TaskNodes, number, task.Nodes)
			set(&whole.TaskUsedMemory, number, task.UsedMemory)
			set(&whole.TaskMovedBytes, number, task.MovedBytes)
			if !task.IsEmpty() {
				if whole.TaskInterruptions == nil {
					whole.TaskInterruptions = make(map[int]hpc.Interruptions)
				}
				whole.TaskInterruptions[number] = task.Interruptions
			}
		}
	}
	if open {
		whole.End = 0
	}
	for i := range tasks {
		if number := tasks[i].ArrayTask; mixed && number >= 0 {
			set(&whole.TaskStates, number, tasks[i].State)
		}
	}
	whole.Unify(numbers)
	return whole
}

// OtherLimit returns the time limit that the tasks of a job had, if it differs from the requested limit. The
// result is 0 if the tasks' limit equals the requested one, or if the tasks had different limits. It returns
// hpc.Unlimited if the tasks had no limit. A trace cannot express a finite limit of nearly 292 years, so such a
// limit is shortened to hpc.Unlimited less two seconds.
func OtherLimit(requested time.Duration, tasks []Job) time.Duration {
	limit := tasks[0].TimeLimit
	switch {
	case limit == requested || slices.ContainsFunc(tasks, func(r Job) bool { return r.TimeLimit != limit }):
		return 0
	case limit == hpc.Unlimited:
		return limit
	}
	return min(limit, hpc.Unlimited-2*time.Second)
}

// set sets the value of a task, unless the value is zero.
func set[V comparable](tasks *map[int]V, task int, value V) {
	var zero V
	if value == zero {
		return
	}
	if *tasks == nil {
		*tasks = make(map[int]V)
	}
	(*tasks)[task] = value
}
