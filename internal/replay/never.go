package replay

import (
	"slices"

	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// NeverStart returns those jobs of the list pending that can never start, in the order of the list. The
// list has the jobs that a replay gave up ([Result.Undrained]). The parameter never has jobs whose
// dependencies can never be met. NeverStart also returns jobs that wait for such a job.
func NeverStart(w *workload.Workload, pending, never []string) []string {
	if len(never) == 0 {
		return nil
	}
	open, stuck := make(map[string]bool, len(pending)), make(map[string]bool, len(never))
	for _, id := range pending {
		open[id] = true
	}
	for _, id := range never {
		stuck[id] = true
	}
	// A job depends only on earlier jobs of the workload, so one pass over the jobs is enough. Singletons
	// with the same user and name wait for the first of them that is pending.
	names := map[ownName]bool{}
	for _, job := range w.Jobs.All() {
		if !open[job.ID] {
			continue
		}
		own := ownName{job.User, job.Name}
		if !stuck[job.ID] && job.Dependency != "" && waitsFor(job.Dependency, open, stuck, job.Name != "" && names[own]) {
			stuck[job.ID] = true
		}
		if stuck[job.ID] {
			names[own] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pending), func(id string) bool { return !stuck[id] })
}

// waitsFor reports whether a dependency waits for a job that can never start. singleton says that
// an earlier job with the same user and name can never start.
func waitsFor(spec string, open, stuck map[string]bool, singleton bool) bool {
	deps, err := sbatch.ParseDependency(spec)
	if err != nil {
		return false
	}
	waits := false
	for _, d := range deps.List {
		id := d.Job
		if array, _, _ := d.Task(); !open[id] {
			id = array
		}
		switch {
		case stuck[id] || d.Type == "singleton" && singleton:
			waits = true
		case deps.Any && open[id]: // the dependency may still be met
			return false
		}
	}
	return waits
}
