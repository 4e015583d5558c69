package slurmmodel

import (
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/preemption"
)

// inPreemption returns what preemption reads of a job.
func (e *Engine) inPreemption(j *job) *preemption.Job {
	p := &j.preemption
	p.QOS, p.Partition, p.Priority, p.Start = j.account.qos, j.part.preempt, j.priority, j.estimate
	p.Allocation, p.End, p.Place, p.Exclusive = j.alloc, j.end, j.place, j.exclusive
	return p
}

// candidates returns the running jobs that a job may preempt, in the order in which they are tried
// (slurm_find_preemptable_jobs in preempt.c).
func (e *Engine) candidates(j *job) (list []*preemption.Job) {
	if e.preempt == nil {
		return nil
	}
	by, now := e.inPreemption(j), e.second()
	for _, other := range e.running {
		if p := e.inPreemption(other); e.preempt.MayBePreempted(p, by, now) {
			list = append(list, p)
		}
	}
	e.preempt.Order(list)
	return list
}

// beforeByPreemption compares two records of a queue: one that could preempt the other comes first.
func (e *Engine) beforeByPreemption(a, b *record) int {
	one, other := *e.inPreemption(a.job), *e.inPreemption(b.job)
	one.Partition, other.Partition = a.part.preempt, b.part.preempt
	switch {
	case e.preempt.Before(&one, &other):
		return -1
	case e.preempt.Before(&other, &one):
		return 1
	}
	return 0
}

// takeNodes stops the jobs whose nodes a job needs. The job starts in a later pass (_preempt_jobs in
// node_scheduler.c).
func (e *Engine) takeNodes(j *job, victims []*preemption.Job) {
	if !e.preempt.Begin(&j.preemption, e.second()) {
		return
	}
	for _, v := range victims {
		at := slices.IndexFunc(e.running, func(other *job) bool { return &other.preemption == v })
		e.stop(e.running[at], taskOf(j).Name())
	}
	if j.array != nil {
		j.array.preempting++
	}
}

// stop preempts a running job, or tells it so if it has a grace time.
func (e *Engine) stop(j *job, by string) {
	p := e.inPreemption(j)
	leaves, requeue := e.preempt.Stop(p, by, e.second())
	switch {
	case leaves:
		e.vacate(j, hpc.Preempted, true, requeue && e.mayRequeue(j))
	case p.End != j.end:
		e.endAt(j, p.End)
	}
}

// preempts reports whether as many tasks of an array wait for nodes of preempted jobs as may run, or be planned.
func (a *array) preempts(planned int) bool {
	return a.preempting >= planned || a.limit > 0 && a.preempting >= a.limit
}
