// Package transform makes another workload of a workload: what would have happened if
// users had known their run times, if the jobs had come faster, if there had been more
// of them. Each [Step] is one such change; [Apply] takes them in order and notes them in
// the workload, so that a result can be traced to what was done to its input.
//
// Random steps draw from a seed, each from a generator of its own, so a step does not
// depend on how much the ones before it drew.
package transform

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Step is one change of a workload.
type Step struct {
	// Text is what [workload.Workload.Transforms] says of it: an option of the command
	// with its arguments.
	Text string
	// Apply changes the workload in place and returns how many jobs it changed, added or
	// removed. The workload and its lists are the step's own.
	Apply func(w *workload.Workload, env *Environment) (int, error)
}

// Environment is what steps need beside the workload.
type Environment struct {
	Seed uint64
	// Partitions are those of the cluster, or nil if it is not known.
	Partitions map[string]Partition
	rng        *rand.Rand
	notes      []string // of the step at hand
}

// note says what the step does beside what it is for.
func (env *Environment) note(format string, args ...any) {
	env.notes = append(env.notes, fmt.Sprintf(format, args...))
}

// Partition is what steps need to know of a partition.
type Partition struct {
	MaxTime time.Duration // hpc.Unlimited without one
	Nodes   int
}

// Result is what a step did.
type Result struct {
	Step    string `json:"step"`
	Changed int    `json:"jobs_changed"`
	Jobs    int    `json:"jobs"` // after it
	// Notes are what one should know of it, but would not expect.
	Notes []string `json:"notes,omitempty"`
}

// Apply takes the steps in order on a copy of the workload, and returns it with what
// each step did. The error names the step.
func Apply(w *workload.Workload, env Environment, steps ...Step) (*workload.Workload, []Result, error) {
	out := clone(w)
	results := make([]Result, len(steps))
	for i, step := range steps {
		env.rng, env.notes = rand.New(rand.NewPCG(env.Seed, streamOf(i, step.Text))), nil
		n, err := step.Apply(out, &env)
		if err != nil {
			return nil, nil, fmt.Errorf("transforming workload: %s: %w", step.Text, err)
		}
		out.Sort()
		out.Transforms = append(out.Transforms, step.Text)
		results[i] = Result{Step: step.Text, Changed: n, Jobs: out.Jobs.Len(), Notes: env.notes}
	}
	return out, results, nil
}

// streamOf gives each step random numbers of its own.
func streamOf(i int, text string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", i, text) // a hash takes everything
	return h.Sum64()
}

// clone copies the workload with its lists.
func clone(w *workload.Workload) *workload.Workload {
	out := *w
	out.Jobs = w.Jobs.Clone()
	out.Reservations = slices.Clone(w.Reservations)
	out.NodeEvents = slices.Clone(w.NodeEvents)
	out.Actions = slices.Clone(w.Actions)
	out.Users = slices.Clone(w.Users)
	out.Usage = slices.Clone(w.Usage)
	out.Transforms = slices.Clone(w.Transforms)
	out.Rules = maps.Clone(w.Rules)
	return &out
}

// longestRun is the longest run time of the job's tasks; ok is false if one of them
// runs until something ends it.
func longestRun(job *hpc.Job) (longest time.Duration, ok bool) {
	longest = job.RunTime
	for _, d := range job.TaskRunTimes {
		longest = max(longest, d)
	}
	return longest, longest != hpc.Unlimited
}

// caps say how long a job may ask for, by partition.
type caps struct {
	known map[string]Partition
	seen  map[string]time.Duration // the longest limit that some job had
}

// newCaps takes the limits of the partitions or, where they are not known, the longest
// limit that a job of the partition has: Slurm did not refuse that one.
func newCaps(w *workload.Workload, env *Environment) caps {
	c := caps{known: env.Partitions, seen: map[string]time.Duration{}}
	for _, job := range w.Jobs.All() {
		c.seen[job.Partition] = max(c.seen[job.Partition], job.TimeLimit)
	}
	return c
}

// of returns the longest limit that the job may ask for. A job that names several
// partitions may ask for the longest of theirs.
func (c caps) of(job *hpc.Job) time.Duration {
	longest := time.Duration(0)
	for name := range strings.SplitSeq(job.Partition, ",") {
		if p, ok := c.known[name]; ok {
			longest = max(longest, p.MaxTime)
		}
	}
	if longest == 0 {
		longest = c.seen[job.Partition]
	}
	if longest == 0 {
		return hpc.Unlimited
	}
	return longest
}

// rewriteDependency gives the job the dependencies that rename makes of the IDs in them;
// one that it returns an empty ID for is dropped. A dependency that cannot be read is left
// as it is, for Slurm to refuse. It reports whether the job has any.
func rewriteDependency(job *hpc.Job, rename func(id string) string) bool {
	if job.Dependency == "" {
		return false
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return true
	}
	kept := deps.List[:0]
	for _, d := range deps.List {
		if d.Job != "" {
			if d.Job = renameTask(d, rename); d.Job == "" {
				continue
			}
		}
		kept = append(kept, d)
	}
	deps.List = kept
	job.Dependency = deps.String()
	return true
}

// renameTask renames the job in a dependency, which may be one task of an array.
func renameTask(d sbatch.Dependency, rename func(string) string) string {
	if id := rename(d.Job); id != "" {
		return id
	}
	if id, _, ok := d.Task(); ok {
		if renamed := rename(id); renamed != "" {
			return renamed + strings.TrimPrefix(d.Job, id)
		}
	}
	return ""
}

// keep removes the jobs that are not to be kept, and the dependencies on them, which
// are taken for fulfilled. It returns how many it removed.
func keep(w *workload.Workload, wanted func(*hpc.Job) bool) int {
	n := w.Jobs.Len()
	w.Jobs.Delete(func(job *hpc.Job) bool { return !wanted(job) })
	if w.Jobs.Len() == n {
		return 0
	}
	ids := make(map[string]bool, w.Jobs.Len())
	for _, job := range w.Jobs.All() {
		ids[job.ID] = true
	}
	known := func(id string) string {
		if ids[id] {
			return id
		}
		return ""
	}
	for i, job := range w.Jobs.All() {
		if rewriteDependency(job, known) {
			w.Jobs.Set(i, job)
		}
	}
	return n - w.Jobs.Len()
}

// origin is the instant from which the workload's times count: the window's start, or
// the first submission.
func origin(w *workload.Workload) hpc.Time {
	if w.Start != 0 || w.Jobs.Len() == 0 {
		return w.Start
	}
	first := w.Jobs.Submit(0)
	for i := range w.Jobs.Len() {
		first = min(first, w.Jobs.Submit(i))
	}
	return first
}

// lowerEpoch moves the epoch back to the earliest submission, if that is before it.
func lowerEpoch(w *workload.Workload) {
	if w.Start != 0 {
		return // what comes before the window may be before the epoch
	}
	for i := range w.Jobs.Len() {
		w.Epoch = min(w.Epoch, w.Jobs.Submit(i))
	}
}
