package slurmmodel

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/slurmspec"
)

// record is an entry of the queue: a job in one of its partitions.
type record struct {
	job      *job
	part     *partition
	priority uint32
	head     bool // the record stands for several tasks
}

// pendingJobs returns the pending jobs in slurmctld's order. It is a copy: tasks of arrays may start
// meanwhile. It holds until the next call.
func (e *Engine) pendingJobs() []*job {
	list := e.pending[:0]
	for _, j := range e.list {
		if j.state == pending {
			list = append(list, j)
		}
	}
	e.pending = list
	return list
}

// buildQueue returns the jobs that may start, in the order in which they are tried (build_job_queue and
// sort_job_queue2 in job_scheduler.c). The queue holds until the next call.
func (e *Engine) buildQueue(forBackfill bool) []record {
	e.splitCorresponding()
	memory := &e.queues[0]
	if forBackfill { // a cycle may last while the main scheduler makes passes
		memory = &e.queues[1]
	}
	unsorted, order := e.unsorted[:0], e.order[:0]
	for _, j := range e.pendingJobs() {
		if j.state != pending {
			continue // its dependency has cancelled it
		}
		e.account.accrue(j)
		if j.preemption.Underway = false; j.array != nil && (forBackfill || !e.rules.Since2411) {
			j.array.preempting = 0
		}
		if r := j.reason; r != slurmspec.NoReason && r != reasonPriority && r != reasonResources && r != j.noted {
			j.noted = r
			e.touch()
		}
		independent := e.independent(j)
		if forBackfill {
			j.estimate = 0
		}
		if j.request.Stuck {
			j.priority = 0
		}
		if j.state == pending && j.priority == 0 && !limits.StaysHeld(j.reason) {
			e.setReason(j, slurmspec.HeldByAdmin)
		}
		if j.state != pending || j.priority == 0 || !independent {
			continue
		}
		for i, p := range j.parts {
			j.part = p
			refused := e.partitionRefuses(j, forBackfill)
			if refused != slurmspec.NoReason || j.reason == reasonTimeLimit || j.reason == reasonNodeLimit {
				e.setReason(j, refused)
			}
			if refused != slurmspec.NoReason {
				continue
			}
			r := record{job: j, part: p, priority: j.priority, head: j.isHead()}
			if j.perPart != nil {
				r.priority = j.perPart[i]
			}
			rank := priority.Rank{
				Reserved: j.reservation != nil, Tier: int32(p.tier), Priority: r.priority,
				Submit: j.submit, Number: j.id(), Task: uint32(j.task), Place: int32(len(unsorted)), // -1 comes last
			}
			order = append(order, rank)
			unsorted = append(unsorted, r)
		}
	}
	if e.preempt == nil {
		slices.SortFunc(order, priority.Rank.Compare)
	} else {
		preemption.Sort(order, func(a, b priority.Rank) int {
			return cmp.Or(e.beforeByPreemption(&unsorted[a.Place], &unsorted[b.Place]), a.Compare(b))
		})
	}
	queue := (*memory)[:0]
	for _, r := range order {
		queue = append(queue, unsorted[r.Place])
	}
	e.unsorted, e.order, *memory = unsorted, order, queue
	return queue
}

// partitionRefuses compares a job with the limits of the partition in which it is considered, and gives it the
// partition's memory if it asks for none (job_limits_check). It returns why the partition does not take the job.
func (e *Engine) partitionRefuses(j *job, forBackfill bool) slurmspec.Reason {
	p, limit := j.part, j.limit
	if forBackfill && j.timeMin > 0 {
		limit = j.timeMin
	}
	asked := j.minNodes
	if !j.implicitMax {
		asked = max(asked, j.maxNodes)
	}
	switch {
	case j.request.MinCPUs > p.cpus:
		return reasonPartitionConfig
	case j.minNodes > p.count, j.minNodes < p.minNodes && !e.account.ignores(j).PartitionMinNodes,
		p.maxNodes > 0 && asked > p.maxNodes && !e.account.ignores(j).PartitionMaxNodes:
		return reasonNodeLimit
	case p.maxMinutes >= 0 && limit > p.maxMinutes && !e.account.ignores(j).PartitionTimeLimit:
		return reasonTimeLimit
	}
	if r := &j.request; !j.ownMemory && (r.Memory != p.memory || r.MemoryPerCPU != p.memoryPerCPU) {
		r.Memory, r.MemoryPerCPU = p.memory, p.memoryPerCPU
		j.capable = e.servers.Of(j.demand.With(r))
	}
	return slurmspec.NoReason
}

// splitCorresponding gives tasks of arrays with an aftercorr dependency records of their own, so that each
// has its own dependency.
func (e *Engine) splitCorresponding() {
	const most = 10 // correspond_after_task_cnt
	if !e.corresponding {
		return
	}
	for _, j := range e.list { // of the present: split adds to its end
		if j.state != pending || !j.isHead() || !j.needs.Corresponds() {
			continue
		}
		for j.isHead() {
			alone := 0
			for _, other := range j.of.jobs {
				if other.state == pending {
					alone++
				}
			}
			if alone >= most {
				break
			}
			j = e.split(j)
		}
	}
}

// split gives the first task of a record a record of its own. The task keeps the place in slurmctld's list
// and gets a new number. The other tasks keep the number and go to the end of the list
// (job_array_split). It returns the record of the other tasks, or the record itself if there was one task.
func (e *Engine) split(j *job) *job {
	task := j.tasks[0]
	if len(j.tasks) == 1 {
		j.task, j.tasks = task, nil
		return j
	}
	rest := *j
	if j.account != nil {
		account := *j.account
		account.job = &rest
		if account.limits != nil {
			limits := *account.limits
			account.limits = &limits
		}
		rest.account = &account
	}
	rest.tasks, rest.place, rest.preemption.Began = j.tasks[1:], e.nextPlace, 0
	e.nextPlace++
	rest.needs = j.needs.Clone()
	j.task, j.tasks, j.number = task, nil, e.nextNumber
	e.nextNumber++
	if len(rest.tasks) == 1 {
		rest.task, rest.tasks = rest.tasks[0], nil
	}
	j.of.jobs = append(j.of.jobs, &rest)
	e.byNumber[rest.number], e.byNumber[j.number] = &rest, j
	e.list = append(e.list, &rest)
	return &rest
}
