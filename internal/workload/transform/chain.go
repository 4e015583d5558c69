package transform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// LongestLimit lowers time limits that exceed a maximum to this maximum, for the jobs of a partition. The partition
// "*" is for all jobs. The limit then ends a job that needs more time. A job without a time limit gets the maximum if
// its partition's DefaultTime (or MaxTime, without a DefaultTime) is longer. If this limit is unknown, the job stays
// unchanged, and a note counts such jobs. Preset jobs keep their limits, as running jobs do when a site lowers
// MaxTime; a note has the number of preset jobs with longer limits. A job that names several partitions keeps its
// limit if it may run in another partition; a note counts these jobs. The error says that the maximum is not positive.
func LongestLimit(partition string, longest time.Duration) (Step, error) {
	if longest <= 0 || longest == hpc.Unlimited {
		return Step{}, fmt.Errorf("%s: not a positive time limit (want, for example, 12h)", hpc.FormatDuration(longest))
	}
	text := "--max-time-limit "
	if partition != "*" {
		text += partition + "="
	}
	return Step{text + hpc.FormatDuration(longest), func(w *workload.Workload, env *Environment) error {
		preset, unknown, several := 0, 0, 0
		named := map[string]bool{}
		for i, job := range w.Jobs.All() {
			limit, in := cmp.Or(job.TimeLimit, env.defaultTime(job.Partition)), strings.Split(job.Partition, ",")
			for _, name := range in {
				named[name] = true
			}
			switch {
			case partition != "*" && !slices.Contains(in, partition):
			case limit == 0:
				unknown++
			case limit <= longest:
			case w.Preset(job):
				preset++
			case partition != "*" && len(in) > 1:
				several++
			default:
				setLimit(job, longest)
				w.Jobs.Set(i, job)
			}
		}
		for _, kept := range []struct {
			n   int
			why string
		}{{unknown, "jobs without a time limit keep the limit of their partition"}, {preset, "jobs that run when the window begins keep longer limits"},
			{several, "jobs that may run in another partition keep longer limits"}} {
			if kept.n > 0 {
				env.note("%s: %d", kept.why, kept.n)
			}
		}
		if partition == "*" {
			return nil
		}
		return env.checkPartition(partition, named)
	}}, nil
}

// Chains replaces each job that runs longer than a time limit allows by a chain of jobs, as users with checkpoints do.
// Each part gets the time limit longest, and depends on the previous part by afterok. checkpoint is the time that a
// part takes to write its state, and also the time that the next part takes to read it. Only the first part reads no
// state, and only the last part writes none, so n parts compute for less than n*(longest - 2*checkpoint) +
// 2*checkpoint.
//
// The first part keeps the job's ID and its dependencies. The other parts are submitted at the
// same instant, and are named ID~2, ID~3, ... Jobs that depend on the job's end depend on the last
// part. If the job's time limit ended the job, a time limit also ends the last part. Arrays and
// preset jobs are not changed; a note has their number. The error says which argument is out of
// range.
func Chains(longest, checkpoint time.Duration) (Step, error) {
	switch {
	case longest <= 0 || longest == hpc.Unlimited:
		return Step{}, fmt.Errorf("%s: not a positive time limit (want, for example, 12h)", hpc.FormatDuration(longest))
	case checkpoint <= 0 || 2*checkpoint >= longest:
		return Step{}, fmt.Errorf("%s for a checkpoint: want more than 0, and less than half of the time limit %s",
			hpc.FormatDuration(checkpoint), hpc.FormatDuration(longest))
	}
	text := fmt.Sprintf("--chain %s --checkpoint %s", hpc.FormatDuration(longest), hpc.FormatDuration(checkpoint))
	return Step{text, func(w *workload.Workload, env *Environment) error {
		c := chains{longest: longest, checkpoint: checkpoint, taken: map[string]bool{}, last: map[string]string{},
			later: map[string]bool{}}
		return c.apply(w, env)
	}}, nil
}

// chains is one use of [Chains].
type chains struct {
	longest, checkpoint time.Duration
	taken               map[string]bool   // IDs of jobs
	last                map[string]string // the last part, by the ID of the job that was replaced
	later               map[string]bool   // IDs of the parts that are not the first
}

func (c *chains) apply(w *workload.Workload, env *Environment) error {
	for _, job := range w.Jobs.All() {
		c.taken[job.ID] = true
	}
	arrays, preset := 0, 0
	var added []*hpc.Job
	for i := range w.Jobs.Len() {
		job := w.Jobs.At(i)
		total := job.RunTime
		if job.TimeLimit > 0 {
			total = min(total, job.TimeLimit)
		}
		switch {
		case job.Array == "" && total <= c.longest, total == hpc.Unlimited:
			continue
		case job.Array != "":
			if longest, _ := longestRun(job); longest > c.longest {
				arrays++
			}
			continue
		case w.Preset(job):
			preset++
			continue
		}
		parts := c.parts(job, total)
		if len(added)+len(parts) > maxJobs-w.Jobs.Len() {
			return fmt.Errorf("more than %d jobs (want a longer time limit)", maxJobs)
		}
		w.Jobs.Set(i, parts[0])
		added = append(added, parts[1:]...)
	}
	for _, part := range added {
		w.Jobs.Append(part)
	}
	for i, job := range w.Jobs.All() {
		if c.rewrite(job) {
			w.Jobs.Set(i, job)
		}
	}
	if len(added) > 0 {
		env.note("each later part waits for the part before it, and this dependency counts in its wait")
	}
	if arrays > 0 {
		env.note("arrays whose tasks run longer stay as they are: %d", arrays)
	}
	if preset > 0 {
		env.note("jobs that run when the window begins stay as they are: %d", preset)
	}
	return nil
}

// parts cuts a job that runs for total.
func (c *chains) parts(job *hpc.Job, total time.Duration) []*hpc.Job {
	timedOut := job.RunTime != total || job.TimeLimit == total
	id, code := job.ID, job.ExitCode
	job.Recorded = nil // the parts were never recorded
	var list []*hpc.Job
	for left, read := total, time.Duration(0); ; read = c.checkpoint {
		part := *job
		setLimit(&part, c.longest)
		if len(list) > 0 {
			part.ID = freeName(id, c.taken)
			c.later[part.ID] = true
			part.Dependency = "afterok:" + list[len(list)-1].ID
			part.Begin = 0
		}
		list = append(list, &part)
		if read+left < c.longest {
			part.RunTime, part.ExitCode = read+left, code
			if timedOut {
				setLimit(&part, part.RunTime)
				part.RunTime = hpc.Unlimited
			}
			c.last[id] = part.ID
			return list
		}
		part.RunTime, part.ExitCode = c.longest-c.checkpoint, 0
		left -= part.RunTime - read
	}
}

// rewrite makes a job depend on the last part of a chain, if it depends on the end of the job that
// the chain replaces. It reports whether the job depends on a chain.
func (c *chains) rewrite(job *hpc.Job) bool {
	deps, err := sbatch.ParseDependency(job.Dependency)
	if job.Dependency == "" || c.later[job.ID] || err != nil {
		return false // Slurm refuses a dependency that cannot be read
	}
	changed := false
	for i, d := range deps.List {
		last, replaced := c.last[d.Job]
		if replaced && d.Type != "after" { // "after" waits for a start, here of the first part
			deps.List[i].Job, changed = last, true
		}
	}
	if changed {
		job.Dependency = deps.String()
	}
	return changed
}
