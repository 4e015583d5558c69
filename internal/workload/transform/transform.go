// Package transform changes workloads. With a changed workload, a simulation shows what would have happened if users
// had known their run times, if jobs had arrived faster, or if there had been more jobs. Each [Step] is one change of a
// workload. [Apply] applies steps in order and notes them in the workload, so that a result can be traced to the
// changes of its input.
//
// Random steps draw from a seed. Each step has its own generator. A step therefore does not depend on the number of
// draws in earlier steps.
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
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
)

// Step is one change of a workload.
type Step struct {
	// Text is the step's entry in [workload.Workload.Transforms]: the command's option with
	// its arguments.
	Text string
	// Apply changes the workload in place. It may change the workload's lists too, because [Apply]
	// copies them.
	Apply func(w *workload.Workload, env *Environment) error
}

// Environment has the data that steps need besides the workload.
type Environment struct {
	Seed uint64
	// Partitions are the partitions of the cluster, or nil if the cluster is unknown.
	Partitions map[string]Partition
	// NodeNames are the names of the cluster's nodes, or nil if the cluster is unknown.
	NodeNames map[string]bool
	// Place gives nodes to the jobs that run when a window begins and whose nodes were not recorded.
	// It returns how many jobs got nodes. If Place is nil, or gives a job no nodes, the window leaves
	// the job out.
	Place func(w *workload.Workload) int
	rng   *rand.Rand
	notes []string // notes of the current step
	// renumbered says that the current step gave all jobs new IDs, and neither added nor removed jobs.
	renumbered bool
}

// note records a side effect of the step.
func (env *Environment) note(format string, args ...any) {
	env.notes = append(env.notes, fmt.Sprintf(format, args...))
}

// Partition has the facts about a partition that steps use.
type Partition struct {
	MaxTime     time.Duration // hpc.Unlimited if there is no limit
	DefaultTime time.Duration // the limit of jobs that do not request a limit; at most MaxTime
	Nodes       int
}

// defaultTime returns the time limit of a job that does not request a limit. For a list of
// partitions it returns the longest of their limits, and 0 if no partition is known.
func (env *Environment) defaultTime(partitions string) (longest time.Duration) {
	for name := range strings.SplitSeq(partitions, ",") {
		longest = max(longest, env.Partitions[name].DefaultTime)
	}
	return longest
}

// checkPartition returns an error for a partition that neither a job nor the cluster has. If only the cluster has the
// partition, checkPartition adds a note. The parameter named has the partitions that jobs name.
func (env *Environment) checkPartition(partition string, named map[string]bool) error {
	if named[partition] {
		return nil
	}
	delete(named, "") // jobs that name no partition
	_, known := env.Partitions[partition]
	switch {
	case known:
		env.note("no job is in partition %s", partition)
		return nil
	case len(named) == 0:
		return fmt.Errorf("no job is in partition %s: no job names a partition", partition)
	}
	return fmt.Errorf("no job is in partition %s (%s)", partition, spelling.Meant(partition, sortedKeys(named)))
}

// Result describes the effect of a step.
type Result struct {
	Step string `json:"step"`
	// By the IDs of jobs: Added and Removed count the IDs that exist only after or only before the step. Changed counts
	// the IDs that exist before and after it, for jobs that differ in any way, such as by a dependency that was dropped.
	Added   int `json:"jobs_added"`
	Removed int `json:"jobs_removed"`
	Changed int `json:"jobs_changed"`
	Jobs    int `json:"jobs"` // the number of jobs after the step
	// Notes are side effects that a user may not expect.
	Notes []string `json:"notes,omitempty"`
}

// Effect says in words how many jobs the step added, removed and changed.
func (r *Result) Effect() string {
	var parts []string
	for _, part := range []struct {
		jobs int
		verb string
	}{{r.Added, "added"}, {r.Removed, "removed"}, {r.Changed, "changed"}} {
		switch {
		case part.jobs == 0:
		case len(parts) == 0:
			parts = append(parts, quantity.Regular(part.jobs, "job")+" "+part.verb)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.jobs, part.verb))
		}
	}
	if len(parts) == 0 {
		return "0 jobs changed"
	}
	return strings.Join(parts, ", ")
}

// count compares the jobs before and after the step.
func (r *Result) count(before, after *workload.Jobs, renumbered bool) {
	if r.Jobs = after.Len(); renumbered {
		r.Changed = r.Jobs
		return
	}
	type occurrence struct { // of an ID: a log may have it several times
		id string
		n  int
	}
	places, met := make(map[occurrence]int, before.Len()), make(map[string]int, before.Len())
	for i, job := range before.All() {
		places[occurrence{job.ID, met[job.ID]}] = i
		met[job.ID]++
	}
	clear(met)
	for i, job := range after.All() {
		one := occurrence{job.ID, met[job.ID]}
		switch was, known := places[one]; {
		case !known:
			r.Added++
		case !after.Same(i, before, was):
			r.Changed++
		}
		delete(places, one)
		met[job.ID]++
	}
	r.Removed = len(places)
}

// Apply applies the steps in order to a copy of the workload. It returns the copy and the effect of
// each step. The error names the step that failed.
func Apply(w *workload.Workload, env Environment, steps ...Step) (*workload.Workload, []Result, error) {
	out := clone(w)
	results := make([]Result, len(steps))
	for i, step := range steps {
		env.rng, env.notes, env.renumbered = rand.New(rand.NewPCG(env.Seed, streamOf(i, step.Text))), nil, false
		before := out.Jobs.Clone()
		if err := step.Apply(out, &env); err != nil {
			return nil, nil, fmt.Errorf("transforming workload: %s: %w", step.Text, err)
		}
		if out.Jobs.Len() < before.Len() { // nobody knows which unusable records belong to the remaining jobs
			out.Unusable = nil
		}
		out.Sort()
		out.Transforms = append(out.Transforms, step.Text)
		results[i] = Result{Step: step.Text, Notes: env.notes}
		results[i].count(&before, &out.Jobs, env.renumbered)
	}
	return out, results, nil
}

// streamOf returns the seed of a step's own random numbers.
func streamOf(i int, text string) uint64 {
	h := fnv.New64a()
	text = strings.Replace(text, "--jitter ", "--shake ", 1) // the former name keeps the draws of a seed unchanged
	_, _ = fmt.Fprintf(h, "%d %s", i, text)                  // a hash never returns an error
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
	out.FileSystems = slices.Clone(w.FileSystems)
	out.Transforms = slices.Clone(w.Transforms)
	out.Rules = maps.Clone(w.Rules)
	return &out
}

// longestRun returns the longest run time of the job's tasks. ok is false if a task runs
// until its time limit ends it.
func longestRun(job *hpc.Job) (longest time.Duration, ok bool) {
	longest = job.RunTime
	for _, d := range job.TaskRunTimes {
		longest = max(longest, d)
	}
	return longest, longest != hpc.Unlimited
}

// caps are the longest time limits that jobs may ask for, by partition.
type caps struct {
	known map[string]Partition
	seen  map[string]time.Duration // the longest time limit of a job
}

// newCaps returns the time limits of the partitions. For a partition without a known limit, newCaps uses the longest
// time limit of a job in that partition, because Slurm accepted that job.
func newCaps(w *workload.Workload, env *Environment) caps {
	c := caps{known: env.Partitions, seen: map[string]time.Duration{}}
	for _, job := range w.Jobs.All() {
		c.seen[job.Partition] = max(c.seen[job.Partition], job.TimeLimit)
	}
	return c
}

// of returns the longest time limit that the job may request. For a job that lists several
// partitions it is the longest limit of these partitions.
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

// rewriteDependency renames the IDs in the job's dependencies. It removes a dependency for which the function rename
// returns an empty ID. A dependency that cannot be read stays, so that Slurm can refuse it. rewriteDependency reports
// whether the job has dependencies left.
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

// renameOthers renames the jobs that a job depends on, and the jobs that preempted it. It drops a
// job without a new name.
func renameOthers(job *hpc.Job, rename func(id string) string) {
	rewriteDependency(job, rename)
	if job.Recorded != nil {
		job.Recorded.RenamePreemptors(func(name string) string { return renameTask(sbatch.Dependency{Job: name}, rename) })
	}
}

// renameTask renames the job in a dependency, which may be a task of an array.
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

// keep removes the unwanted jobs and the dependencies on them, because these count as fulfilled. It
// returns the number of removed jobs.
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

// origin returns the instant from which the workload's times count: the window's start, or
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

// lowerEpoch moves the epoch to the earliest submission if that is before the epoch.
func lowerEpoch(w *workload.Workload) {
	if w.Start != 0 {
		return // submissions before the window may be before the epoch
	}
	for i := range w.Jobs.Len() {
		w.Epoch = min(w.Epoch, w.Jobs.Submit(i))
	}
}
