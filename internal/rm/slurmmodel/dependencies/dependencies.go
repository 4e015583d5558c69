// Package dependencies keeps and tests the dependencies of jobs like slurmctld (test_job_dependency
// in job_scheduler.c).
package dependencies

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec/sbatch"
)

// State is the result of testing a dependency.
type State uint8

// The states of a dependency. A failed dependency can never be met.
const (
	Unmet State = iota
	Met
	Failed
)

// Progress is the state of a job, a task or an array.
type Progress struct {
	Pending, Complete, Well bool
	Started                 int64 // latest start of its tasks, in seconds since 1970
}

// Job is a job on which others depend.
type Job interface {
	comparable
	// Progress returns the state of a task, or of all tasks together if task is -1. known is false
	// if slurmctld has no record of the task.
	Progress(task int) (p Progress, known bool)
	// IsArray reports whether the job is an array.
	IsArray() bool
	// Gone reports whether slurmctld no longer has a record of the job, or has refused the job.
	Gone() (forgotten, refused bool)
}

// Needs are the dependencies of a job.
type Needs[J Job] struct {
	list []need[J]
	any  bool // one met dependency is enough
}

// need is one dependency.
type need[J Job] struct {
	kind  string
	on    J   // the zero value for a singleton
	task  int // task of an array, or -1 for the whole array
	delay int64
	state State
}

// Read reads the text of --dependency. The function find returns the job with an ID. Dependencies
// on jobs that slurmctld has forgotten are met. Read returns nil for an empty text. The error
// names a dependency that cannot be read, or an unknown or refused job: without its number, sbatch cannot
// name it.
func Read[J Job](text string, find func(id string) (J, bool)) (*Needs[J], error) {
	if text == "" {
		return nil, nil
	}
	deps, err := sbatch.ParseDependency(text)
	if err != nil {
		return nil, fmt.Errorf("dependency %s: %w", text, err)
	}
	n := &Needs[J]{any: deps.Any}
	for _, d := range deps.List {
		one := need[J]{kind: d.Type, task: -1, delay: int64(d.DelayMinutes) * 60}
		if d.Job != "" {
			var known bool
			if one.on, known = find(d.Job); !known {
				array, task, _ := strings.Cut(d.Job, "_")
				if one.on, known = find(array); known {
					if _, err := fmt.Sscan(task, &one.task); err != nil {
						return nil, fmt.Errorf("dependency %s: %q is not a task", text, task)
					}
				}
			}
			if !known {
				return nil, fmt.Errorf("dependency %s on job %s, which has not been submitted", text, d.Job)
			}
			if _, refused := one.on.Gone(); refused {
				return nil, fmt.Errorf("dependency %s on job %s, which was rejected", text, d.Job)
			}
		}
		n.list = append(n.list, one)
	}
	return n, nil
}

// Clone returns a copy, for a task that becomes a job of its own.
func (n *Needs[J]) Clone() *Needs[J] {
	if n == nil {
		return nil
	}
	return &Needs[J]{list: slices.Clone(n.list), any: n.any}
}

// Corresponds reports whether each task depends on the same task of another array (aftercorr).
func (n *Needs[J]) Corresponds() bool {
	return n != nil && slices.ContainsFunc(n.list, func(one need[J]) bool { return one.kind == "aftercorr" })
}

// NamesForgotten reports whether an afterok or afternotok names a job that slurmctld has forgotten.
// Since 23.02 slurmctld refuses jobs with such a dependency.
func (n *Needs[J]) NamesForgotten() bool {
	var none J
	return n != nil && slices.ContainsFunc(n.list, func(one need[J]) bool {
		if one.kind != "afterok" && one.kind != "afternotok" || one.on == none {
			return false
		}
		forgotten, _ := one.on.Gone()
		return forgotten
	})
}

// WaitsFor reports whether all dependencies must be met, and one of them is on a job in the set.
func (n *Needs[J]) WaitsFor(jobs map[J]bool) bool {
	return n != nil && !n.any && slices.ContainsFunc(n.list, func(one need[J]) bool { return jobs[one.on] })
}

// Test tests the dependencies of a task, or of a job if task is -1. The parameter now is in
// seconds since 1970. The function singleton returns the state of a singleton dependency.
func (n *Needs[J]) Test(task int, now int64, singleton func() State) State {
	oneMet, oneFailed, oneUnmet := false, false, false
	for i := range n.list {
		one := &n.list[i]
		if one.state == Unmet {
			if one.kind == "singleton" {
				one.state = singleton()
			} else {
				one.state = one.test(task, now)
			}
		}
		oneMet = oneMet || one.state == Met
		oneFailed = oneFailed || one.state == Failed
		oneUnmet = oneUnmet || one.state == Unmet
	}
	switch {
	case n.any && oneMet, !n.any && !oneFailed && !oneUnmet:
		return Met
	case !n.any && oneFailed, n.any && !oneUnmet:
		return Failed
	}
	return Unmet
}

// test tests one dependency.
func (n *need[J]) test(task int, now int64) State {
	p, known := n.on.Progress(n.task)
	if n.kind == "aftercorr" && task >= 0 && n.on.IsArray() {
		if own, has := n.on.Progress(task); has {
			p, known = own, true
		}
	}
	if !known { // slurmctld has forgotten the job
		return Met
	}
	switch n.kind {
	case "after":
		if !p.Pending && (n.delay == 0 || p.Complete || p.Started+n.delay <= now) {
			return Met
		}
	case "afterany":
		if p.Complete {
			return Met
		}
	case "afterok", "aftercorr":
		if p.Complete {
			return either(p.Well)
		}
	case "afternotok":
		if p.Complete {
			return either(!p.Well)
		}
	default:
		return Met
	}
	return Unmet
}

func either(good bool) State {
	if good {
		return Met
	}
	return Failed
}
