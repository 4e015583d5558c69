package workload

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// What it means that the tasks of an array are several jobs.
const (
	// NoteArrayLimit counts arrays of which not more than some number of tasks may run at
	// once. Each job that has tasks of one has that limit for itself.
	NoteArrayLimit = "array_limit_in_parts"
	// NoteDependencyParts counts dependencies on an array that its parts cannot stand for:
	// some task failed, which one that is not among them did; each task after its own, which
	// has become a job; or one of several conditions.
	NoteDependencyParts = "dependency_on_parts"
)

// arrayPart is a job that stands for some tasks of an array.
type arrayPart struct {
	job   *hpc.Job
	tasks []int // ascending, once they are all known
	alone bool  // one task, as a job that is no array
}

// task is what a dependency on one of its tasks names.
func (p *arrayPart) task(i int) string {
	if p.alone {
		return p.job.ID
	}
	return p.job.ID + "_" + strconv.Itoa(i)
}

// endsWell reports whether all of its tasks are to end well.
func (p *arrayPart) endsWell() bool {
	return p.job.CancelAfter == 0 && !slices.ContainsFunc(p.tasks, func(i int) bool {
		d, ends := occupied(p.job.RunTimeOf(i), p.job.TimeLimit)
		return !ends || d < p.job.RunTimeOf(i) || p.job.ExitCodeOf(i) != 0
	})
}

// arrayParts are the jobs that stand for the tasks of arrays, by what the arrays are called.
type arrayParts map[string][]*arrayPart

func (a arrayParts) add(array string, p *arrayPart) { a[array] = append(a[array], p) }

// limited counts the arrays of several jobs that limit how many of their tasks run at once.
func (a arrayParts) limited() (n int) {
	for _, parts := range a {
		if len(parts) > 1 && slices.ContainsFunc(parts, func(p *arrayPart) bool { return strings.ContainsRune(p.job.Array, '%') }) {
			n++
		}
	}
	return n
}

// depend says what a dependency on an array, or on a task of one, becomes: nothing, if none
// of its tasks is left. oneOf says that it is one of several conditions of which one is enough.
// isArray is false where the dependency is on none of the arrays, exact where what it becomes
// is not quite the same.
func (a arrayParts) depend(d sbatch.Dependency, oneOf bool) (list []sbatch.Dependency, isArray, exact bool) {
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
				if _, has := slices.BinarySearch(p.tasks, task); has {
					on(p.task(task), kind)
				}
			}
			return list, true, true
		}
		suffix = strings.TrimPrefix(d.Job, id)
	}
	exact = len(parts) < 2
	failing := slices.ContainsFunc(parts, func(p *arrayPart) bool { return !p.endsWell() })
	switch {
	case exact:
	case oneOf:
		parts = []*arrayPart{slices.MaxFunc(parts, func(p, q *arrayPart) int { return cmp.Compare(p.job.Recorded.End, q.job.Recorded.End) })}
	default:
		exact = kind != "afternotok" && kind != "aftercorr"
	}
	for _, p := range parts {
		name, kind := p.job.ID, kind
		if !p.alone {
			name += suffix
		}
		if kind == "afternotok" && failing && p.endsWell() {
			kind = "afterany" // another one fails
		}
		on(name, kind)
	}
	return list, true, exact
}

// rewrite gives a job the dependencies on what stands for the arrays that it depends on, and
// drops those on jobs that are not known. known returns what a job is called, which is empty
// for such a one. It returns how many it dropped, and for how many another one is not quite
// the same. A dependency that cannot be read stays as it is.
func (a arrayParts) rewrite(job *hpc.Job, known func(id string) string) (gone, inexact int) {
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
		kept = nil // one of them is enough
	}
	deps.List = kept
	job.Dependency = deps.String()
	return gone, inexact
}

// BeginWhenEligible keeps a job whose dependencies had all been fulfilled before the window's
// start from being eligible earlier than it was, since its age counts from then. It reports
// whether there was anything to do.
func BeginWhenEligible(job *hpc.Job, start hpc.Time) bool {
	r := job.Recorded
	if r == nil || job.Hold || r.Start != 0 && r.Start < start {
		return false
	}
	delay := r.Eligible.Sub(job.Submit)
	if delay <= job.Begin {
		return false
	}
	job.Begin = delay
	return true
}

// SplitArrays makes jobs of their own, called ARRAY_TASK, of the tasks of arrays that are
// recorded to run at an instant, and leaves out those that had ended by then. Who depends on
// an array depends on what is left of it. It returns how many jobs it added or changed. An
// array of whose single tasks nothing is recorded stays as it is.
func SplitArrays(w *Workload, at hpc.Time) (n int) {
	arrays := make(arrayParts)
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
			if p.alone {
				running = append(running, p.job)
			} else {
				w.Jobs.Set(i, p.job)
			}
		}
	}
	if len(arrays) == 0 {
		return 0
	}
	w.Jobs.Delete(func(job *hpc.Job) bool {
		parts, split := arrays[job.ID]
		return split && !slices.ContainsFunc(parts, func(p *arrayPart) bool { return !p.alone })
	})
	for _, job := range running {
		w.Jobs.Append(job)
	}
	w.note(NoteArrayLimit, arrays.limited())
	for i, job := range w.Jobs.All() {
		if job.Dependency != "" {
			_, inexact := arrays.rewrite(job, func(id string) string { return id })
			w.note(NoteDependencyParts, inexact)
			w.Jobs.Set(i, job)
		}
	}
	w.sort()
	return n
}

// note adds to the counts of rules.
func (w *Workload) note(rule string, n int) {
	if n == 0 {
		return
	}
	if w.Rules == nil {
		w.Rules = make(map[string]int)
	}
	w.Rules[rule] += n
}

// splitArray is SplitArrays for one array, which it may change. The part that is no task
// alone, if there is one, is the last.
func splitArray(job *hpc.Job, at hpc.Time) (parts []*arrayPart, split bool) {
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
			parts = append(parts, &arrayPart{job: taskOf(job, task), tasks: []int{task}, alone: true})
		default:
			left = append(left, task)
		}
	}
	if len(left) == len(array.Tasks) {
		return nil, false
	}
	if len(left) > 0 {
		reduce(job, left)
		parts = append(parts, &arrayPart{job: job, tasks: left})
	}
	return parts, true
}

// taskOf is a task of an array as a job of its own.
func taskOf(array *hpc.Job, task int) *hpc.Job {
	job, fate := *array, array.Recorded.OfTask(task)
	job.ID += "_" + strconv.Itoa(task)
	job.Array, job.Recorded = "", &fate
	job.RunTime, job.ExitCode = array.RunTimeOf(task), array.ExitCodeOf(task)
	job.TaskRunTimes, job.TaskExitCodes = nil, nil
	return &job
}

// reduce leaves of an array some of its tasks, of each of which it is known whether it
// started, and whether it ended.
func reduce(job *hpc.Job, left []int) {
	_, limit, limited := strings.Cut(job.Array, "%")
	if job.Array = indexList(left); limited {
		job.Array += "%" + limit
	}
	r := job.Recorded
	keepTasks(job.TaskRunTimes, left)
	keepTasks(job.TaskExitCodes, left)
	keepTasks(r.TaskStarts, left)
	keepTasks(r.TaskEnds, left)
	keepTasks(r.TaskNodes, left)
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

// indexList writes ascending indices as sbatch takes them: "0-3,7".
func indexList(list []int) string {
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
