package slurmmodel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec"
)

// Submit implements [rm.ResourceManager]. slurmctld answers at once.
func (e *Engine) Submit(work *hpc.Job) error {
	asked := e.now - e.now%hpc.Time(time.Millisecond) // microseconds may pass within an instant
	e.throttle()
	s := &submission{job: work, index: len(e.submissions) + 1}
	e.submissions = append(e.submissions, s)
	e.byID[work.ID] = s
	answer := rm.Event{At: e.now, Kind: rm.Accepted, Job: work.ID, Task: -1, Submission: s.index}
	j, err := e.create(s, asked)
	if err == nil {
		err = reservations.Admit(j.of.job.Reservation != "", j.reservation.Of, e.who(j))
		e.touch()
	}
	if err == nil {
		e.add(j)
		e.byNumber[j.number] = j
		// For a job, e.independent sets the begin time. An array gets its begin time when a queue is built.
		independent := len(j.tasks) == 0 && e.independent(j)
		e.account.prioritize(j)
		tested := !e.par.Deferred && e.departures.Delayed(e.second()) == nil
		if independent && tested && (e.rules.Since2411 || e.licenses.Free(j.licenses)) {
			e.compareWithQueue(j)
		}
		err = e.tryAtSubmission(j)
	}
	if err != nil {
		s.gone, s.refused = true, true
		answer.Kind, answer.Reason = rm.Refused, err.Error()
		e.events = append(e.events, answer)
		e.drop(j)
		return nil
	}
	answer.RMJob = j.number
	e.stats.Submitted += uint32(max(1, len(j.tasks)))
	e.events = append(e.events, answer)
	e.loops.queued = true
	return nil
}

// drop removes a refused job; j is nil if the job has no record.
func (e *Engine) drop(j *job) {
	if j == nil {
		return
	}
	e.account.forget(j)
	e.remove(j)
	delete(e.byNumber, j.number)
	j.of.jobs = nil
}

// compareWithQueue gives a new job the reason Priority if a pending job comes before it
// (_top_priority in job_mgr.c). It first tests the dependencies of pending jobs, which may set begin times.
func (e *Engine) compareWithQueue(j *job) {
	if j.priority == 0 {
		return
	}
	for _, other := range e.pendingJobs() {
		if other == j || other.reservation.Of != j.reservation.Of ||
			partitions.KeepsReason(other.reason) || other.reason == slurmspec.NotAvailable ||
			limits.KeepsBehind(other.reason, e.rules.Since2411) {
			continue
		}
		if least := e.par.BF.MinAge; least > 0 && (other.begin == 0 || e.second()-other.begin < least) {
			continue
		}
		if e.independent(other) && e.precedes(other, j) {
			if j.reason == slurmspec.NoReason {
				j.reason = reasons.Priority
			}
			return
		}
	}
}

// precedes reports whether a pending job comes before a new one. Since 24.11 all partitions of both
// jobs count, and the older of equal jobs comes first (_higher_precedence in job_mgr.c).
func (e *Engine) precedes(other, j *job) bool {
	mine, its, least := []*partition{j.part}, []*partition{other.part}, j.priority+1
	if e.rules.Since2411 {
		mine, its, least = j.parts, other.parts, j.priority
	}
	byTier := func(a, b *partition) int { return cmp.Compare(a.Tier, b.Tier) }
	lowest, highest := slices.MinFunc(mine, byTier).Tier, slices.MaxFunc(its, byTier).Tier
	if highest < lowest || highest == lowest && other.priority < least {
		return false
	}
	return slices.ContainsFunc(mine, func(p *partition) bool {
		return slices.ContainsFunc(its, func(q *partition) bool { return p == q || p.nodes.Overlaps(q.nodes) })
	})
}

// create makes the record of a job (_job_create in job_mgr.c). The error says why slurmctld refuses the job.
func (e *Engine) create(s *submission, asked hpc.Time) (*job, error) {
	work := s.job
	if why, rejected := e.cfg.Rejected[work.ID]; rejected {
		return nil, errors.New(why)
	}
	d, err := (&jobdesc.Submission{
		Request: work.Request, Script: "#!/bin/sh\n", Args: []string{"script"}, Now: asked, Release: e.cfg.Release,
	}).JobDesc()
	if err != nil {
		return nil, err
	}
	j := &job{
		of: s, place: e.nextPlace, task: -1, submit: e.second(), limit: noMinutes, priority: slurmspec.NoVal,
		dependent: true,
	}
	first, _, _ := strings.Cut(d.Reservation, ",") // slurmctld takes the first reservation
	j.reservation.Of, j.licenses = e.reservations.Find(first), licenses.Read(d.Licenses)
	names := d.Partition
	if names == "" && j.reservation.Of != nil {
		names = j.reservation.Of.Partition
	}
	if j.parts, err = e.partitionsOf(names); err == nil {
		j.parts, err = partitions.Open(e.parts, j.parts)
	}
	if err != nil {
		return nil, err
	}
	j.part = j.parts[0]
	j.preemption.Requeue = work.Requeue == nil && e.par.Requeue || work.Requeue != nil && *work.Requeue
	e.describeTimes(j, d)
	if err := e.describeSize(j, d); err != nil {
		return nil, err
	}
	if err := e.describeNodes(j, d); err != nil {
		return nil, err
	}
	e.tester.Classify(&j.request)
	j.original = j.request
	find := func(id string) (*submission, bool) { on, known := e.byID[id]; return on, known }
	if j.needs, err = dependencies.Read(work.Dependency, find); err != nil {
		return nil, err
	}
	e.corresponding = e.corresponding || j.needs.Corresponds()
	in := window.ArrayOf(work)               // jobs outside of arrays share one array, which has no limit
	j.among = cmp.Or(e.arrays[in], &array{}) // a preset task may come before the array's other tasks
	e.arrays[in] = j.among
	if work.Array != "" {
		a, err := hpc.ParseArray(work.Array)
		if err != nil {
			return nil, fmt.Errorf("--array=%s: %w", work.Array, err)
		}
		j.tasks, j.among.limit = a.Tasks, a.Limit
		s.array, j.array = j.among, j.among
	}
	if err := e.account.admit(j); err != nil {
		return nil, err
	}
	if e.rules.RefuseForgotten && j.needs.NamesForgotten() {
		e.nextNumber++ // the refused submission took a number; the engine then submits without these dependencies
	}
	j.number, s.number = e.nextNumber, e.nextNumber
	e.nextNumber++
	e.nextPlace++
	s.jobs = []*job{j}
	return j, nil
}

// partitionsOf returns the partitions of a list, highest tier first.
func (e *Engine) partitionsOf(names string) (list []*partition, err error) {
	if list = e.lists[names]; list == nil {
		if list, err = partitions.Named(e.parts, names); err == nil {
			e.lists[names] = list
		}
	}
	return list, err
}

// describeTimes sets a job's time limits, begin time and deadline.
func (e *Engine) describeTimes(j *job, d *rpc.JobDesc) {
	within := func(p *partition) bool { return p.MaxMinutes < 0 || int64(d.TimeLimit) <= p.MaxMinutes }
	j.byAdmin = j.of.job.Reservation == window.Reservation && d.TimeLimit != slurmspec.NoVal &&
		!slices.ContainsFunc(j.parts, within)
	t := demand.ReadTimes(d, j.byAdmin, j.part.DefaultMinutes, endless)
	j.limit, j.endless, j.timeMin, j.deadline = t.Limit, t.Endless, t.Shortest, d.Deadline
	if d.BeginTime > j.submit {
		j.begin = d.BeginTime
	}
	if d.Priority == 0 {
		j.reason = slurmspec.HeldByUser
	}
}

// describeSize sets a job's numbers of nodes, tasks and CPUs, and its memory.
func (e *Engine) describeSize(j *job, d *rpc.JobDesc) error {
	size, err := demand.Read(d, len(e.tester.Nodes), e.par.MaxSwitchWait, e.rules)
	j.request, j.minNodes, j.maxNodes = size.Request, size.MinNodes, size.MaxNodes
	j.useMinNodes, j.implicitMax, j.sharing = size.UseMinNodes, size.ImplicitMax, size.Sharing
	j.ownMemory, j.switchWait, j.owns = size.OwnMemory, size.SwitchWait, size.ExclusiveUser
	e.owners.Exclusive = e.owners.Exclusive || j.owns
	if !j.ownMemory {
		j.request.Memory, j.request.MemoryPerCPU = j.part.Memory, j.part.MemoryPerCPU
	}
	return err
}

// describeNodes sets the nodes that a job names or excludes, and the nodes that can serve it.
func (e *Engine) describeNodes(j *job, d *rpc.JobDesc) (err error) {
	if d.ReqNodes != "" {
		if j.request.Required, err = e.names.Set(d.ReqNodes, e.place); err != nil {
			return err
		}
		j.minNodes = max(j.minNodes, j.request.Required.Count())
		j.request.MinCPUs = max(j.request.MinCPUs, j.minNodes)
	}
	if d.ExcNodes != "" {
		j.excluded, err = e.names.Set(d.ExcNodes, e.place)
	}
	j.demand, j.brackets = demand.FromRequest(&j.request, d), e.servers.Split(d.Features)
	j.capable, j.fillable = e.servers.Nodes(j.demand)
	return err
}
