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
		e.corresponding = e.corresponding || one.kind == "aftercorr"
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
		j.reason = reasonDependency
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
	a := j.array
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
	j.dependent = j.needs != nil
	if !j.dependent {
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
		j.needs, j.dependent = nil, false
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
	p, known := n.on.progress(n.task)
	if n.kind == "aftercorr" && j.task >= 0 && n.on.array != nil {
		if own, has := n.on.progress(j.task); has {
			p, known = own, true
		}
	}
	if !known { // slurmctld has forgotten it
		return met
	}
	switch n.kind {
	case "after":
		if !p.pending && (n.delay == 0 || p.complete || p.started+n.delay <= e.second()) {
			return met
		}
	case "afterany":
		if p.complete {
			return met
		}
	case "afterok", "aftercorr":
		if p.complete {
			return either(p.well)
		}
	case "afternotok":
		if p.complete {
			return either(!p.well)
		}
	default:
		return met
	}
	return unmet
}

// progress is how far a job, a task or an array is.
type progress struct {
	pending, complete, well bool
	started                 int64 // when its last task started
}

// progress returns how far a task is, or all tasks for -1 (test_job_array_complete and so on). It reports false if
// slurmctld has no record of it. The record of tasks that were cancelled before they had records of their own counts
// as pending until it is forgotten.
func (s *submission) progress(task int) (p progress, known bool) {
	p.complete, p.well = true, task >= 0 || s.array == nil || !s.array.failed
	for _, j := range s.jobs {
		if task >= 0 && j.task != task && !slices.Contains(j.tasks, task) {
			continue
		}
		known = true
		p.pending = p.pending || j.state == pending || task < 0 && j.isHead()
		p.complete = p.complete && j.state == ended
		p.well = p.well && j.state == ended && j.well
		p.started = max(p.started, j.startedAt.UnixSeconds())
	}
	return p, known
}

// isHopeless reports whether a job waits for ever, given others that do.
func (j *job) isHopeless(others map[*submission]bool) bool {
	if j.hopeless {
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
		sibling := other.of == j.of && j.array != nil
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

// neverSatisfied cancels a job whose dependencies can never be met, or leaves it pending (handle_invalid_dependency).
func (e *Engine) neverSatisfied(j *job) {
	kill := e.par.KillInvalidDepend
	if asked := j.of.job.KillOnInvalidDep; asked != nil {
		kill = *asked
	}
	if kill {
		e.finish(j, hpc.Cancelled, "DependencyNeverSatisfied")
		return
	}
	j.reason = reasonNeverSatisfied
	if !j.hopeless {
		j.hopeless = true
		e.emit(j, rm.Dependency, reasonNeverSatisfied.String(), nil)
	}
}
