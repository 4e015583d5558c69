package slurmmodel

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
)

// needs are the dependencies of a job.
type needs struct {
	list []need
	any  bool // one is enough
}

// need is one dependency.
type need struct {
	kind  string
	on    *submission
	task  int // of an array, or -1 for all of it
	delay int64
	state needState
}

type needState uint8

const (
	unmet needState = iota
	met
	failed
)

// needsOf reads the dependencies of a job. Those on jobs that slurmctld has forgotten are met.
func (e *Engine) needsOf(text string) (*needs, error) {
	if text == "" {
		return nil, nil
	}
	deps, err := sbatch.ParseDependency(text)
	if err != nil {
		return nil, fmt.Errorf("dependency %s: %w", text, err)
	}
	n := &needs{any: deps.Any}
	for _, d := range deps.List {
		one := need{kind: d.Type, task: -1, delay: int64(d.DelayMinutes) * 60}
		if d.Job != "" {
			on := e.byID[d.Job]
			if on == nil {
				array, task, _ := strings.Cut(d.Job, "_")
				if on = e.byID[array]; on != nil {
					if _, err := fmt.Sscan(task, &one.task); err != nil {
						return nil, fmt.Errorf("dependency %s: %q is no task", text, task)
					}
				}
			}
			if on == nil {
				return nil, fmt.Errorf("dependency %s on job %s, which has not been submitted", text, d.Job)
			}
			one.on = on
		}
		n.list = append(n.list, one)
	}
	return n, nil
}

// namesForgotten reports whether slurmctld refuses the dependencies since 23.02, because it has forgotten the
// job of an afterok or afternotok.
func (n *needs) namesForgotten() bool {
	return n != nil && slices.ContainsFunc(n.list, func(one need) bool {
		return (one.kind == "afterok" || one.kind == "afternotok") && one.on != nil && one.on.gone
	})
}

// independent reports whether a job may start, and sets its begin time when it first may (job_independent
// in job_mgr.c).
func (e *Engine) independent(j *job) bool {
	now := e.second()
	switch j.reason {
	case reasonHeldUser, reasonHeldAdmin, reasonNeverSatisfied, reasonReservationDeleted:
		return false
	}
	switch e.testNeeds(j) {
	case unmet:
		if j.begin < now {
			j.begin = 0
		}
		e.setReason(j, reasonDependency)
		return false
	case failed:
		e.neverSatisfied(j)
		return false
	}
	if j.reason == reasonDependency {
		j.reason = slurmspec.NoReason
	}
	if !e.arrayMayStart(j) {
		return false
	}
	if j.begin > now {
		j.reason = reasonBeginTime
		return false
	}
	if !e.inReservation(j) {
		j.reason = reasonReservation
		return false
	}
	if j.begin == 0 && j.priority != 0 {
		j.begin = now
	} else if j.reason == reasonBeginTime {
		j.reason = slurmspec.NoReason
	}
	j.eligible = j.begin
	return true
}

// arrayMayStart reports whether fewer tasks of the job's array run than may run (job_array_start_test).
func (e *Engine) arrayMayStart(j *job) bool {
	a := j.of.array
	if a == nil || a.limit == 0 || a.running < a.limit {
		return true
	}
	if j.begin <= e.second() {
		j.begin = 0
	}
	j.reason = reasonArrayLimit
	return false
}

// testNeeds evaluates the dependencies of a job (test_job_dependency in job_scheduler.c).
func (e *Engine) testNeeds(j *job) needState {
	if j.needs == nil {
		return met
	}
	oneMet, oneFailed, oneUnmet := false, false, false
	for i := range j.needs.list {
		n := &j.needs.list[i]
		if n.state == unmet {
			n.state = e.testNeed(j, n)
		}
		oneMet = oneMet || n.state == met
		oneFailed = oneFailed || n.state == failed
		oneUnmet = oneUnmet || n.state == unmet
	}
	switch {
	case j.needs.any && oneMet, !j.needs.any && !oneFailed && !oneUnmet:
		j.needs = nil
		return met
	case !j.needs.any && oneFailed, j.needs.any && !oneUnmet:
		return failed
	}
	e.account.dependent(j)
	return unmet
}

// testNeed evaluates one dependency.
func (e *Engine) testNeed(j *job, n *need) needState {
	if n.kind == "singleton" {
		return e.testSingleton(j)
	}
	if n.on.gone {
		return met
	}
	task := n.task
	if n.kind == "aftercorr" && j.task >= 0 && n.on.array != nil {
		task = j.task
	}
	pendingOnes, complete, well, started := 0, true, true, int64(0)
	for _, other := range n.on.jobs {
		if task >= 0 && other.task != task && !slices.Contains(other.tasks, task) {
			continue
		}
		switch {
		case other.state == pending:
			pendingOnes++
			complete = false
		case other.state != ended:
			complete = false
		}
		well = well && other.state == ended && other.well
		started = max(started, other.startedAt.UnixSeconds())
	}
	switch n.kind {
	case "after":
		switch {
		case pendingOnes > 0:
		case n.delay == 0 || complete:
			return met
		case started+n.delay <= e.second():
			return met
		}
	case "afterany":
		if complete {
			return met
		}
	case "afterok", "aftercorr":
		if complete {
			return either(well)
		}
	case "afternotok":
		if complete {
			return either(!well)
		}
	default:
		return met
	}
	return unmet
}

// isHopeless reports whether a job waits for ever, given others that do.
func (j *job) isHopeless(others map[*submission]bool) bool {
	if j.reason == reasonNeverSatisfied {
		return true
	}
	if j.needs == nil || j.needs.any {
		return false
	}
	for _, n := range j.needs.list {
		if n.on != nil && others[n.on] {
			return true
		}
	}
	return false
}

func either(good bool) needState {
	if good {
		return met
	}
	return failed
}

// testSingleton looks for jobs of the same user and name that run, or were submitted earlier.
func (e *Engine) testSingleton(j *job) needState {
	for _, other := range e.list {
		sibling := other.of == j.of && j.of.array != nil
		if other == j || sibling || other.of.job.User != j.of.job.User || other.name() != j.name() {
			continue
		}
		if other.state == running || other.state == completing || other.state == pending && other.number < j.number {
			return unmet
		}
	}
	return met
}

func (j *job) name() string {
	if j.of.job.Name == "" {
		return j.of.job.ID
	}
	return j.of.job.Name
}

// neverSatisfied cancels a job whose dependencies can never be met, or leaves it pending
// (handle_invalid_dependency).
func (e *Engine) neverSatisfied(j *job) {
	kill := e.par.KillInvalidDepend
	if asked := j.of.job.KillOnInvalidDep; asked != nil {
		kill = *asked
	}
	if kill {
		e.finish(j, hpc.Cancelled, "DependencyNeverSatisfied")
		return
	}
	if j.reason != reasonNeverSatisfied {
		j.reason = reasonNeverSatisfied
		e.emit(j, rm.Dependency, reasonNeverSatisfied.String(), nil)
	}
}
