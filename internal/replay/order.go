package replay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// ordered is a [Controller] that submits a job after the jobs in its dependency, because a resource manager refuses a
// dependency on a job that has not been submitted. In a log the order is right, but users who react may submit jobs in
// another order, and a replay on real Slurm submits preset jobs only at their starts. If the submission of a job waits
// for a preset job's submission, the job loses no age in Slurm, because age counts from when the dependencies are met.
// The job only loses its place among jobs of the same priority, but the job's wait is shorter than the recorded wait
// ([Result.Postponed]).
type ordered struct {
	Controller
	w           *workload.Workload
	presetsWait bool               // see [rm.Capabilities]
	names       map[int][]int      // for each job, the jobs that its dependency names
	at          map[int]hpc.Time   // submit times of jobs that name jobs, or that are named
	held        map[int]Submission // submissions that wait for a job that they name
	after       map[int][]int      // for each job, the jobs whose submissions wait for it
	// late says for each job by how much its submission is later than its controller decided, because a
	// preset job is submitted later than recorded.
	late map[int]time.Duration
}

// ownName is the user and the name of jobs. Singletons with the same ownName wait for each other.
type ownName struct{ user, name string }

// inOrder wraps a controller, if a job's dependency names an earlier job of the workload.
func inOrder(w *workload.Workload, c Controller, presetsWait bool) Controller {
	names := make(map[int][]int)
	var index map[string]int
	var presets map[ownName][]int
	for i, job := range w.Jobs.All() {
		if job.Dependency == "" || w.Preset(job) {
			continue
		}
		if index == nil {
			index, presets = make(map[string]int, w.Jobs.Len()), map[ownName][]int{}
			for k, other := range w.Jobs.All() {
				index[other.ID] = k
				if w.Preset(other) {
					own := ownName{other.User, other.Name}
					presets[own] = append(presets[own], k)
				}
			}
		}
		// The resource manager refuses a dependency that has a mistake or names an unknown job.
		deps, err := sbatch.ParseDependency(job.Dependency)
		if err != nil {
			continue
		}
		for _, dep := range deps.List {
			if dep.Type == "singleton" && job.Submit < w.Start {
				names[i] = append(names[i], presets[ownName{job.User, job.Name}]...)
				continue
			}
			k, known := index[dep.Job]
			if !known {
				array, _, _ := strings.Cut(dep.Job, "_")
				k, known = index[array]
			}
			if known && k < i {
				names[i] = append(names[i], k)
			}
		}
	}
	if len(names) == 0 {
		return c
	}
	o := &ordered{c, w, presetsWait, names, map[int]hpc.Time{}, map[int]Submission{}, map[int][]int{},
		map[int]time.Duration{}}
	for _, list := range names {
		for _, k := range list {
			o.after[k] = nil
		}
	}
	return o
}

// Begin implements [Controller].
func (o *ordered) Begin() Decisions { return o.sorted(o.Controller.Begin()) }

// Event implements [Controller].
func (o *ordered) Event(event *Event) Decisions { return o.sorted(o.Controller.Event(event)) }

func (o *ordered) sorted(d Decisions) Decisions {
	d.Submit = o.sort(d.Submit)
	return d
}

// sort returns the submissions that may be made now. Each submission is followed by the
// submissions that waited for it.
func (o *ordered) sort(list []Submission) []Submission {
	var out []Submission
	for len(list) > 0 {
		s := list[0]
		list = list[1:]
		if waits := o.missing(&s); waits >= 0 {
			o.held[s.Job] = s
			o.after[waits] = append(o.after[waits], s.Job)
			continue
		}
		out = append(out, s)
		waiting, named := o.after[s.Job]
		if !named {
			continue
		}
		o.at[s.Job] = s.At
		if job := o.w.Jobs.At(s.Job); o.w.Preset(job) && !o.presetsWait {
			o.at[s.Job] = job.Recorded.Start
		}
		o.after[s.Job] = nil
		for _, job := range waiting {
			list = append(list, o.held[job])
			delete(o.held, job)
		}
	}
	return out
}

// missing moves a submission after the submissions of the jobs that it names. If the submit time of a named
// job is not known yet, missing returns this job, and otherwise -1.
func (o *ordered) missing(s *Submission) int {
	for _, k := range o.names[s.Job] {
		at, known := o.at[k]
		if !known {
			return k
		}
		if at <= s.At {
			continue
		}
		if o.late[k] > 0 || o.w.Preset(o.w.Jobs.At(k)) {
			o.late[s.Job] += at.Sub(s.At)
		}
		s.At = at
	}
	return -1
}

// report adds to a result the jobs that were submitted late.
func (o *ordered) report(result *Result) {
	for _, job := range slices.Sorted(maps.Keys(o.late)) {
		result.Postponed = append(result.Postponed, o.w.Jobs.At(job).ID)
		result.PostponedBy = max(result.PostponedBy, o.late[job])
	}
}

// LastOf returns the latest instant of the jobs that a dependency names; 0 if no named job has an instant.
func LastOf(instants map[string]hpc.Time, dependency string) (last hpc.Time) {
	if len(instants) == 0 {
		return 0
	}
	deps, _ := sbatch.ParseDependency(dependency) // the resource manager reports mistakes
	for _, d := range deps.List {
		array, _, _ := d.Task()
		last = max(last, instants[d.Job], instants[array])
	}
	return last
}
