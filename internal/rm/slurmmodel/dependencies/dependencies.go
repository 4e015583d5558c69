// Package dependencies has the dependencies of jobs as slurmctld keeps and tests them (test_job_dependency in
// job_scheduler.c).
package dependencies

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec/sbatch"
)

// State is what has become of a dependency.
type State uint8

// The states of a dependency.
const (
	Unmet State = iota
	Met
	Failed
)

// Progress is how far a job, a task or an array is.
type Progress struct {
	Pending, Complete, Well bool
	Started                 int64 // when its last task started, in seconds since 1970
}

// Job is a job on which others depend.
type Job interface {
	comparable
	// Progress returns how far a task is, or all tasks for -1. It reports false if slurmctld has no record of it.
	Progress(task int) (p Progress, known bool)
	// IsArray reports whether the job is an array, and IsForgotten whether slurmctld has no record of it any more.
	IsArray() bool
	IsForgotten() bool
}

// Needs are the dependencies of a job.
type Needs[J Job] struct {
	list []need[J]
	any  bool // one is enough
}

// need is one dependency.
type need[J Job] struct {
	kind  string
	on    J   // the zero value for a singleton
	task  int // of an array, or -1 for all of it
	delay int64
	state State
}

// Read reads the dependencies of a job. find returns the jobs that they name. Dependencies on jobs that slurmctld has
// forgotten are met. It returns nil if there are none. The error names a dependency that cannot be read, or an unknown
// job.
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
						return nil, fmt.Errorf("dependency %s: %q is no task", text, task)
					}
				}
			}
			if !known {
				return nil, fmt.Errorf("dependency %s on job %s, which has not been submitted", text, d.Job)
			}
		}
		n.list = append(n.list, one)
	}
	return n, nil
}

// Clone returns a copy for another record of the job.
func (n *Needs[J]) Clone() *Needs[J] {
	if n == nil {
		return nil
	}
	return &Needs[J]{list: slices.Clone(n.list), any: n.any}
}

// Corresponds reports whether each task of an array depends on the same task of another array (aftercorr).
func (n *Needs[J]) Corresponds() bool {
	return n != nil && slices.ContainsFunc(n.list, func(one need[J]) bool { return one.kind == "aftercorr" })
}

// NamesForgotten reports whether slurmctld refuses the dependencies since 23.02, because it has forgotten the
// job of an afterok or afternotok.
func (n *Needs[J]) NamesForgotten() bool {
	var none J
	return n != nil && slices.ContainsFunc(n.list, func(one need[J]) bool {
		return (one.kind == "afterok" || one.kind == "afternotok") && one.on != none && one.on.IsForgotten()
	})
}

// WaitsFor reports whether all dependencies have to be met, and one is on a job of a set.
func (n *Needs[J]) WaitsFor(jobs map[J]bool) bool {
	return n != nil && !n.any && slices.ContainsFunc(n.list, func(one need[J]) bool { return jobs[one.on] })
}

// Test evaluates the dependencies of a task, or of a job with task -1, at a second. singleton answers for jobs of the
// same user and name.
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

// test evaluates one dependency.
func (n *need[J]) test(task int, now int64) State {
	p, known := n.on.Progress(n.task)
	if n.kind == "aftercorr" && task >= 0 && n.on.IsArray() {
		if own, has := n.on.Progress(task); has {
			p, known = own, true
		}
	}
	if !known { // slurmctld has forgotten it
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
