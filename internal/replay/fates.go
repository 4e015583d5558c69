package replay

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// fates records the ends of the jobs on which other jobs depend.
type fates struct {
	of         map[string]*fate // by the name of a job or task
	dependents map[string][]int // indices of the jobs that depend on a job or task, by its name
}

// fate counts the tasks of a job that have not ended, and the tasks that have failed.
type fate struct{ left, failed int }

// fatesOf returns the fates of a workload's jobs before the first job ends.
func fatesOf(w *workload.Workload) fates {
	f := fates{of: map[string]*fate{}, dependents: map[string][]int{}}
	for i, job := range w.Jobs.All() {
		if job.Dependency == "" {
			continue
		}
		deps, _ := sbatch.ParseDependency(job.Dependency) // the resource manager reports mistakes
		for _, d := range deps.List {
			f.dependents[d.Job] = append(f.dependents[d.Job], i)
		}
	}
	if len(f.dependents) == 0 {
		return f
	}
	for _, job := range w.Jobs.All() {
		tasks := hpc.TasksOf(job)
		if f.dependents[job.ID] != nil {
			f.of[job.ID] = &fate{left: len(tasks)}
		}
		if job.Array == "" {
			continue
		}
		for _, task := range tasks {
			if id := name(job.ID, task); f.dependents[id] != nil && f.of[id] == nil {
				f.of[id] = &fate{left: 1}
			}
		}
	}
	return f
}

// ended records the end of a job or task. It returns the indices of the jobs that depend on it.
func (f *fates) ended(event *Event) (dependents []int) {
	if len(f.dependents) == 0 || event.Outcome == nil {
		return nil
	}
	names := []string{event.Event.Job}
	if event.Task >= 0 {
		names = append(names, name(event.Event.Job, event.Task))
	}
	for _, id := range names {
		if one := f.of[id]; one != nil {
			one.left--
			if event.Outcome.State != hpc.Completed {
				one.failed++
			}
			dependents = append(dependents, f.dependents[id]...)
		}
	}
	return dependents
}

// met reports whether the ends of other jobs have met the dependencies of a job. It returns false
// if the job has dependencies on anything else: a start, a delay, a singleton.
func (f *fates) met(job *hpc.Job) bool {
	if job.Dependency == "" {
		return true
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	met := 0
	for i := range deps.List {
		if f.holds(&deps.List[i]) {
			met++
		}
	}
	return err == nil && (met == len(deps.List) || deps.Any && met > 0)
}

// holds reports whether a condition is met.
func (f *fates) holds(d *sbatch.Dependency) bool {
	one := f.of[d.Job]
	if one == nil || one.left > 0 || d.DelayMinutes > 0 {
		return false
	}
	switch d.Type {
	case "afterany":
		return true
	case "afterok":
		return one.failed == 0
	case "afternotok":
		return one.failed > 0
	}
	return false
}
