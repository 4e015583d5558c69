package slurmmodel

import (
	"slices"
	"syscall"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/answers"
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
	if !e.mayEnd(j) {
		return
	}
	p := e.inPreemption(j)
	switch fate := e.preempt.Stop(p, by, e.second()); fate {
	case preemption.Warned:
		e.endAt(j, p.End)
		e.terminate(j)
	case preemption.Leaves, preemption.Returns:
		e.vacate(j, hpc.Preempted, true, fate == preemption.Returns)
	}
}

// terminate sends SIGCONT and SIGTERM to a job, whose script ends as in a replay.
func (e *Engine) terminate(j *job) {
	e.agents.Send(e.now, len(j.alloc.Parts))
	e.at(e.agents.Send(e.now, len(j.alloc.Parts)), nodesAnswer, func() {
		e.terminated.Come(e.asleep(), j, answers.Throttle(e.agents.Many(e.now)))
	})
}

// serve serves the message about a terminated job's script or about a node that is due, and reports whether one is.
func (e *Engine) serve() bool {
	switch {
	case e.terminated.Next() <= e.now:
		j := e.terminated.Serve(answers.Throttle(e.agents.Many(e.now)))
		if j.state == running && e.mayEnd(j) {
			if !e.rules.Since2411 { // the record does not say so of a job that counts as preempted
				j.signal = int(syscall.SIGTERM)
			}
			e.complete(j)
		}
	case e.departures.Line.Next() <= e.now:
		e.serveNode()
	default:
		return false
	}
	return true
}
