package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload/sbatch"
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
// of its tasks is left. any says that it is one of several conditions of which one is enough.
// isArray is false where the dependency is on none of the arrays; exact, where what it becomes
// is not quite the same.
func (a arrayParts) depend(d sbatch.Dependency, any bool) (list []sbatch.Dependency, isArray, exact bool) {
	on := func(name, kind string) {
		d.Job, d.Type = name, kind
		list = append(list, d)
	}
	kind := d.Type
	parts, suffix := a[d.Job], ""
	if parts == nil {
		id, task, ok := d.Task()
		if parts = a[id]; parts == nil || !ok {
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
	exact = len(parts) == 1
	failing := slices.ContainsFunc(parts, func(p *arrayPart) bool { return !p.endsWell() })
	switch {
	case exact:
	case any:
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
