package slurmmodel

import (
	"cmp"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/slurmspec"
)

// independent reports whether a job may start, and sets its begin time when it first may (job_independent
// in job_mgr.c).
func (e *Engine) independent(j *job) bool {
	now := e.second()
	switch j.reason {
	case slurmspec.HeldByUser, slurmspec.HeldByAdmin, slurmspec.NeverSatisfied, reasonReservationDeleted, reasonMaxRequeue:
		return false
	}
	switch e.testNeeds(j) {
	case dependencies.Unmet:
		if j.begin < now {
			j.begin = 0
		}
		j.reason = reasonDependency
		return false
	case dependencies.Failed:
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
func (e *Engine) testNeeds(j *job) dependencies.State {
	if j.dependent = j.needs != nil; !j.dependent {
		return dependencies.Met
	}
	state := j.needs.Test(j.task, e.second(), func() dependencies.State { return e.testSingleton(j) })
	switch state {
	case dependencies.Met:
		j.needs, j.dependent = nil, false
	case dependencies.Unmet:
		e.account.dependent(j)
	}
	return state
}

// Progress returns how far a task is, or all tasks for -1 (test_job_array_complete and so on). It reports false if
// slurmctld has no record of it. The record of tasks that were cancelled before they had records of their own counts
// as pending until it is forgotten.
func (s *submission) Progress(task int) (p dependencies.Progress, known bool) {
	p.Complete, p.Well = true, task >= 0 || s.array == nil || !s.array.failed
	for _, j := range s.jobs {
		if task >= 0 && j.task != task && !slices.Contains(j.tasks, task) {
			continue
		}
		known = true
		p.Pending = p.Pending || j.state == pending || task < 0 && j.isHead()
		p.Complete = p.Complete && j.state == ended
		p.Well = p.Well && j.state == ended && j.well
		p.Started = max(p.Started, j.startedAt.UnixSeconds())
	}
	return p, known
}

// IsArray implements [dependencies.Job].
func (s *submission) IsArray() bool { return s.array != nil }

// IsForgotten implements [dependencies.Job].
func (s *submission) IsForgotten() bool { return s.gone }

// testSingleton looks for jobs of the same user and name that run, or were submitted earlier.
func (e *Engine) testSingleton(j *job) dependencies.State {
	name := cmp.Or(j.of.job.Name, j.of.job.ID)
	for _, other := range e.list {
		sibling := other.of == j.of && j.array != nil
		if other == j || sibling || other.of.job.User != j.of.job.User || cmp.Or(other.of.job.Name, other.of.job.ID) != name {
			continue
		}
		if other.state == running || other.state == completing || other.state == pending && other.number < j.number {
			return dependencies.Unmet
		}
	}
	return dependencies.Met
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
	j.reason = slurmspec.NeverSatisfied
	if !j.hopeless {
		j.hopeless = true
		e.emit(j, rm.Dependency, slurmspec.NeverSatisfied.String(), nil)
	}
}
