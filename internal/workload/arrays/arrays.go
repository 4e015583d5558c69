// Package arrays divides job arrays into several jobs and rewrites the dependencies on them. An
// array must be divided if some of its tasks run at the start of a window while others wait, or if
// its tasks have different requests.
package arrays

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// The notes count properties of an array that several jobs cannot express together.
const (
	// NoteLimit counts arrays with a limit on how many of their tasks run at once. Each of the jobs
	// that replace the array gets the whole limit. Slurm and the model of slurmctld still count the
	// running tasks.
	NoteLimit = "array_limit_in_parts"
	// NoteDependency counts dependencies on an array that are only approximated: afternotok,
	// aftercorr, and lists in which one condition suffices ("?").
	NoteDependency = "dependency_on_parts"
)

// Part is a job that represents some tasks of an array.
type Part struct {
	Job   *hpc.Job
	Tasks []int // the tasks, in ascending order once all of them have been added
	Alone bool  // the part is one task, as a job that is not an array
}

// task returns the name of task i of the part in a dependency.
func (p *Part) task(i int) string {
	if p.Alone {
		return p.Job.ID
	}
	return p.Job.ID + "_" + strconv.Itoa(i)
}

// endsWell reports whether all tasks of the part end with exit code 0.
func (p *Part) endsWell() bool {
	return p.Job.CancelAfter == 0 && !slices.ContainsFunc(p.Tasks, func(i int) bool {
		d, ends := workload.Occupied(p.Job.RunTimeOf(i), p.Job.TimeLimit)
		return !ends || d < p.Job.RunTimeOf(i) || p.Job.ExitCodeOf(i) != 0
	})
}

// Parts are the jobs that represent the tasks of arrays, by the ID of the array.
type Parts map[string][]*Part

// Add adds a part of an array.
func (a Parts) Add(array string, p *Part) { a[array] = append(a[array], p) }

// Limited returns the number of arrays that became several jobs and that limit how many of
// their tasks run at once.
func (a Parts) Limited() (n int) {
	for _, parts := range a {
		if len(parts) > 1 && slices.ContainsFunc(parts, func(p *Part) bool {
			return strings.ContainsRune(p.Job.Array,
				'%')
		}) {
			n++
		}
	}
	return n
}

// depend returns the dependencies that replace a dependency on an array or on a task of an array.
// The list is empty if no task is left. The parameter oneOf is true if one of several conditions
// suffices. The result isArray is false if the dependency is not on one of the arrays. The result
// exact is false if the result is an approximation.
func (a Parts) depend(d sbatch.Dependency, oneOf bool) (list []sbatch.Dependency, isArray, exact bool) {
	on := func(name, kind string) {
		d.Job, d.Type = name, kind
		list = append(list, d)
	}
	kind, suffix := d.Type, ""
	parts, isArray := a[d.Job]
	if !isArray {
		id, task, ok := d.Task()
		if parts, isArray = a[id]; !isArray || !ok {
			return nil, false, true
		}
		if task >= 0 {
			for _, p := range parts {
				if _, has := slices.BinarySearch(p.Tasks, task); has {
					on(p.task(task), kind)
				}
			}
			return list, true, true
		}
		suffix = strings.TrimPrefix(d.Job, id)
	}
	exact = len(parts) < 2
	failing := slices.ContainsFunc(parts, func(p *Part) bool { return !p.endsWell() })
	switch {
	case exact:
	case oneOf:
		parts = []*Part{slices.MaxFunc(parts, func(p, q *Part) int {
			return cmp.Compare(p.Job.Recorded.End,
				q.Job.Recorded.End)
		})}
	default:
		exact = kind != "afternotok" && kind != "aftercorr"
	}
	for _, p := range parts {
		name, kind := p.Job.ID, kind
		if !p.Alone {
			name += suffix
		}
		if kind == "afternotok" && failing && p.endsWell() {
			kind = "afterany" // the condition needs only one failed task, and another task fails
		}
		on(name, kind)
	}
	return list, true, exact
}

// Rewrite replaces a job's dependencies on arrays by dependencies on their parts, and drops
// dependencies on unknown jobs. The function known returns the ID of a job, or "" for an unknown
// job. Rewrite returns how many dependencies it dropped and how many it approximated. It changes
// nothing if the dependency cannot be read.
func (a Parts) Rewrite(job *hpc.Job, known func(id string) string) (gone, inexact int) {
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return 0, 0
	}
	var kept []sbatch.Dependency
	for _, d := range deps.List {
		list, isArray, exact := a.depend(d, deps.Any)
		if !isArray && d.Job != "" {
			d.Job = known(d.Job)
		}
		if !isArray && (d.Job != "" || d.Type == "singleton") {
			list = []sbatch.Dependency{d}
		}
		if !exact {
			inexact++
		}
		if len(list) == 0 {
			gone++
		}
		kept = append(kept, list...)
	}
	if deps.Any && gone > 0 {
		kept = nil // one fulfilled condition is enough
	}
	deps.List = kept
	job.Dependency = deps.String()
	return gone, inexact
}

// BeginWhenEligible gives a begin time (--begin) to a job whose dependencies had all been fulfilled
// before the window's start. The begin time is the instant at which the job became eligible,
// because slurmctld counts the job's age from its begin time. BeginWhenEligible reports whether it
// changed the job.
func BeginWhenEligible(job *hpc.Job, start hpc.Time) bool {
	r := job.Recorded
	if r == nil || job.Hold || r.Start != 0 && r.Start < start {
		return false
	}
	delay := r.Eligible.Sub(job.Submit)
	if delay <= job.Begin {
		return false
	}
	record := *r
	record.BeginMade = true
	job.Begin, job.Recorded = delay, &record
	return true
}

// Split divides each array with a task that, according to the record, runs or has ended at an instant. Each running
// task becomes its own job, called ARRAY_TASK. Split removes the tasks that have ended, and rewrites the dependencies
// on a divided array. It returns how many jobs it added or changed. An array stays unchanged if the record does not
// have its single tasks.
func Split(w *workload.Workload, at hpc.Time) (n int) {
	arrays := make(Parts)
	var running []*hpc.Job
	for i, job := range w.Jobs.All() {
		if job.Array == "" || job.Recorded == nil {
			continue
		}
		array := w.Jobs.At(i)
		parts, split := splitArray(array, at)
		if !split {
			continue
		}
		arrays[array.ID] = parts
		n += len(parts)
		for _, p := range parts {
			if p.Alone {
				running = append(running, p.Job)
			} else {
				w.Jobs.Set(i, p.Job)
			}
		}
	}
	if len(arrays) == 0 {
		return 0
	}
	w.Jobs.Delete(func(job *hpc.Job) bool {
		parts, split := arrays[job.ID]
		return split && !slices.ContainsFunc(parts, func(p *Part) bool { return !p.Alone })
	})
	for _, job := range running {
		w.Jobs.Append(job)
	}
	w.Note(NoteLimit, arrays.Limited())
	for i, job := range w.Jobs.All() {
		if job.Dependency != "" {
			_, inexact := arrays.Rewrite(job, func(id string) string { return id })
			w.Note(NoteDependency, inexact)
			w.Jobs.Set(i, job)
		}
	}
	w.Sort()
	return n
}

// splitArray is [Split] for one array, which it may change. At most the last element of the result
// parts has several tasks.
func splitArray(job *hpc.Job, at hpc.Time) (parts []*Part, split bool) {
	r := job.Recorded
	array, err := hpc.ParseArray(job.Array)
	if err != nil || r.TaskStarts == nil && r.TaskEnds == nil {
		return nil, false
	}
	var left []int
	for _, task := range array.Tasks {
		switch start, end := r.TaskStarts[task], r.TaskEnds[task]; {
		case end != 0 && end <= at:
		case start != 0 && start < at:
			parts = append(parts, &Part{Job: taskOf(job, task), Tasks: []int{task}, Alone: true})
		default:
			left = append(left, task)
		}
	}
	if len(left) == len(array.Tasks) {
		return nil, false
	}
	if len(left) > 0 {
		reduce(job, left)
		parts = append(parts, &Part{Job: job, Tasks: left})
	}
	return parts, true
}

// taskOf returns a task of an array as its own job.
func taskOf(array *hpc.Job, task int) *hpc.Job {
	job, fate := *array, array.Recorded.OfTask(task)
	job.ID += "_" + strconv.Itoa(task)
	job.Array, job.Recorded = "", &fate
	job.RunTime, job.ExitCode = array.RunTimeOf(task), array.ExitCodeOf(task)
	job.TaskRunTimes, job.TaskExitCodes = nil, nil
	return &job
}

// reduce removes all tasks except the tasks in the list left. The record must have the start and
// the end of each task that started or ended.
func reduce(job *hpc.Job, left []int) {
	_, limit, limited := strings.Cut(job.Array, "%")
	if job.Array = IndexList(left); limited {
		job.Array += "%" + limit
	}
	r := job.Recorded
	keepTasks(job.TaskRunTimes, left)
	keepTasks(job.TaskExitCodes, left)
	keepTasks(r.TaskStarts, left)
	keepTasks(r.TaskEnds, left)
	keepTasks(r.TaskNodes, left)
	keepTasks(r.TaskStates, left)
	keepTasks(r.TaskUsedMemory, left)
	keepTasks(r.TaskMovedBytes, left)
	keepTasks(r.TaskEligible, left)
	keepTasks(r.TaskProcessors, left)
	keepTasks(r.TaskPriorities, left)
	keepTasks(r.TaskInterruptions, left)
	if r.TaskEligible != nil && len(r.TaskEligible) == 0 {
		r.Eligible, r.TaskEligible = 0, nil
	}
	r.Start, r.End = 0, 0
	for _, task := range left {
		r.Start, r.End = earlier(r.Start, r.TaskStarts[task]), max(r.End, r.TaskEnds[task])
	}
	if len(r.TaskEnds) < len(left) {
		r.End = 0
	}
}

func keepTasks[V any](tasks map[int]V, left []int) {
	maps.DeleteFunc(tasks, func(task int, _ V) bool {
		_, in := slices.BinarySearch(left, task)
		return !in
	})
}

// IndexList writes ascending indices in sbatch's form: "0-3,7".
func IndexList(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}

// Same reports whether two tasks can belong to one job. The limit on the number of running tasks may be known for only
// one of the two jobs.
func Same(a, b *hpc.Job) bool {
	x, y := a.Request, b.Request
	if x.Array == "" || y.Array == "" {
		x.Array, y.Array = "", ""
	}
	return a.Submit == b.Submit && a.CancelAfter == b.CancelAfter && reflect.DeepEqual(x, y)
}

// Join adds tasks of the array to the part. The parameter task is a job with the behaviour and the record of these
// tasks.
func (p *Part) Join(task *hpc.Job, tasks []int) {
	job := p.Job
	for _, i := range tasks {
		differs(&job.TaskRunTimes, i, task.RunTime, job.RunTime)
		differs(&job.TaskExitCodes, i, task.ExitCode, job.ExitCode)
	}
	p.Record(task, tasks)
	p.Tasks = append(p.Tasks, tasks...)
	job.Array = cmp.Or(job.Array, task.Array)
	whole, part := job.Recorded, task.Recorded
	whole.Eligible = earlier(whole.Eligible, part.Eligible)
	if part.Start != 0 && earlier(whole.Start, part.Start) != whole.Start {
		whole.Start, whole.Priority, whole.Processors = part.Start, part.Priority, part.Processors
	}
	whole.End = max(whole.End, part.End)
	whole.Nodes, whole.UsedMemory, whole.MovedBytes = "", 0, 0 // each task has its own values
	p.states(part.State, tasks)
}

// states records the state of the added tasks. If the tasks have different states, the array itself
// has no state.
func (p *Part) states(state hpc.State, added []int) {
	whole := p.Job.Recorded
	if whole.State == state && whole.TaskStates == nil {
		return
	}
	if whole.TaskStates == nil {
		for _, i := range p.Tasks[:len(p.Tasks)-len(added)] {
			differs(&whole.TaskStates, i, whole.State, "")
		}
	}
	for _, i := range added {
		differs(&whole.TaskStates, i, state, "")
	}
	whole.State = ""
}

// Record sets the recorded fate of some tasks of the part. When all tasks are recorded,
// [hpc.Recorded.Unify] drops the values that all tasks share.
func (p *Part) Record(task *hpc.Job, tasks []int) {
	whole, part := p.Job.Recorded, task.Recorded
	interrupted := part.Interruptions
	whole.Interruptions = hpc.Interruptions{} // each task has its own interruptions
	if !interrupted.IsEmpty() && whole.TaskInterruptions == nil {
		whole.TaskInterruptions = make(map[int]hpc.Interruptions)
	}
	for _, i := range tasks {
		differs(&whole.TaskEligible, i, part.Eligible, 0)
		differs(&whole.TaskStarts, i, part.Start, 0)
		if part.Start != 0 {
			differs(&whole.TaskProcessors, i, part.Processors, 0)
			differs(&whole.TaskPriorities, i, part.Priority, 0)
		}
		differs(&whole.TaskEnds, i, part.End, 0)
		differs(&whole.TaskNodes, i, part.Nodes, "")
		differs(&whole.TaskUsedMemory, i, part.UsedMemory, 0)
		differs(&whole.TaskMovedBytes, i, part.MovedBytes, 0)
		if !interrupted.IsEmpty() {
			whole.TaskInterruptions[i] = interrupted
		}
	}
}

// earlier returns the earlier of two instants. An instant of 0 is not known.
func earlier(a, b hpc.Time) hpc.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// differs records a task's value if it differs from the array's.
func differs[V comparable](tasks *map[int]V, task int, value, ofArray V) {
	if value == ofArray {
		return
	}
	if *tasks == nil {
		*tasks = make(map[int]V)
	}
	(*tasks)[task] = value
}
