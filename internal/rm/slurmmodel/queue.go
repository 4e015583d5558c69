package slurmmodel

import (
	"cmp"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/rm/slurmmodel/queues"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/slurmspec"
)

// record is an entry of the queue: a job in one of its partitions.
type record struct {
	job      *job
	part     *partition
	priority uint32
	head     bool                      // the job is a record of several tasks
	magnetic *reservations.Reservation // in which the job is tried without naming it; nil for its own or none
}

// queue has the jobs that may start.
type queue = queues.Queue[record]

// rank returns the place of a record in slurmctld's order.
func (r *record) rank() priority.Rank {
	k := priority.Rank{
		Urgency: priority.Urgency(r.job.reservation.Of != nil || r.magnetic != nil, r.part.Tier, r.priority),
		Submit:  r.job.submit, Number: uint64(r.job.id())<<32 | uint64(uint32(r.job.task)), // task -1 comes last
	}
	if r.magnetic != nil {
		k.Begin = uint32(r.magnetic.Start)
	}
	return k
}

// pendingJobs returns the pending jobs in slurmctld's order. Jobs that become pending while the caller reads the list
// are not in it. The list is valid until the next call.
func (e *Engine) pendingJobs() []*job {
	from, list := e.pending, e.pending[:0]
	if e.returned {
		from, e.returned = e.list, false
	}
	for _, j := range from {
		if j.state == pending {
			list = append(list, j)
		}
	}
	e.pending = list
	return list
}

// buildQueue returns the jobs that may start, in slurmctld's order (build_job_queue and
// sort_job_queue2 in job_scheduler.c). The next call for the same scheduler overwrites the queue.
func (e *Engine) buildQueue(forBackfill bool) *queue {
	e.splitCorresponding()
	q := &e.queues[0]
	if forBackfill { // the main scheduler may make passes during a cycle
		q = &e.queues[1]
	}
	q.Clear()
	for _, j := range e.pendingJobs() {
		if j.state != pending {
			continue // a failed dependency has cancelled the job
		}
		if forBackfill {
			j.estimate = 0
		}
		e.account.accrue(j) // may split tasks off, whose records are not visited
		if j.preemption.Underway = false; j.array != nil && (forBackfill || !e.rules.Since2411) {
			j.array.preempting = 0
		}
		if r := j.reason; r != slurmspec.NoReason && r != reasons.Priority && r != reasons.Resources && r != j.noted {
			j.noted = r
			e.touch()
		}
		independent := e.independent(j)
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
			if refused != slurmspec.NoReason || partitions.KeepsReason(j.reason) {
				e.setReason(j, refused)
			}
			if refused != slurmspec.NoReason {
				continue
			}
			r := record{job: j, part: p, priority: j.priority, head: j.isHead()}
			if j.perPart != nil {
				r.priority = j.perPart[i]
			}
			q.Add(r, r.rank())
			if j.reservation.Of == nil {
				for _, r.magnetic = range e.reservations.Magnetic(func() reservations.Who { return e.who(j) }) {
					q.Add(r, r.rank())
				}
			}
		}
	}
	q.Sort(e.preempt != nil, e.beforeByPreemption)
	return q
}

// partitionRefuses returns why a job's partition does not take the job (job_limits_check), or
// NoReason. A job that asks for no memory is given the partition's default.
func (e *Engine) partitionRefuses(j *job, forBackfill bool) slurmspec.Reason {
	p, ask := j.part, j.ask()
	if forBackfill && j.timeMin > 0 {
		ask.Minutes = j.timeMin
	}
	if j.implicitMax {
		ask.MaxNodes = 0
	}
	if why := p.Refuse(&ask); why != slurmspec.NoReason {
		return why
	}
	if j.request.Restore(); p.MaxMemory.Most > 0 {
		return e.fitMemory(j)
	}
	if r := &j.request; !j.ownMemory && (r.Memory != p.Memory || r.MemoryPerCPU != p.MemoryPerCPU) {
		r.Memory, r.MemoryPerCPU = p.Memory, p.MemoryPerCPU
		j.capable, j.fillable = e.servers.Nodes(j.demand.With(r))
	}
	return slurmspec.NoReason
}

// fitMemory fits a job's request to the limit of memory of its partition, or returns why it does not fit.
func (e *Engine) fitMemory(j *job) slurmspec.Reason {
	if j.fitted == j.part && j.request.MemoryPerDevice == 0 {
		return slurmspec.NoReason
	}
	r, why := j.part.FitMemory(&j.original, j.ownMemory, j.sharing.Exclusive, j.minNodes, j.maxNodes)
	if why == slurmspec.NoReason {
		e.tester.Refit(&r, &j.request)
		j.request, j.fitted = r, j.part
		j.capable, j.fillable = e.servers.Nodes(j.demand.With(&r))
	}
	return why
}

// ask returns what a job asks of its partition.
func (j *job) ask() partitions.Ask {
	return partitions.Ask{
		CPUs: j.original.MinCPUs, MinNodes: j.minNodes, MaxNodes: j.maxNodes, Minutes: j.limit, AnyTime: j.byAdmin,
		QOS: j.account.qos,
	}
}

// splitCorresponding gives the tasks of arrays with an aftercorr dependency records of their own,
// so that each task has its own dependency.
func (e *Engine) splitCorresponding() {
	const most = 10 // correspond_after_task_cnt
	if !e.corresponding {
		return
	}
	for _, j := range e.list { // split appends to e.list; the loop goes over the old list
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

// split makes the first task of a record a job of its own (job_array_split): this task keeps the
// place in slurmctld's list and gets a new number. The other tasks keep the number and go to the
// list's end. split returns their record, or the old record if it had one task.
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
	rest.needs, rest.request.Counted = j.needs.Clone(), false
	j.task, j.tasks, j.number = task, nil, e.nextNumber
	e.nextNumber++
	if len(rest.tasks) == 1 {
		rest.task, rest.tasks = rest.tasks[0], nil
	}
	j.of.jobs = append(j.of.jobs, &rest)
	e.byNumber[rest.number], e.byNumber[j.number] = &rest, j
	e.add(&rest)
	return &rest
}

// independent reports whether a job is not held, its dependencies are met and its begin time has
// come (job_independent in job_mgr.c). It sets the begin time of a job that may now start.
func (e *Engine) independent(j *job) bool {
	now := e.second()
	switch j.reason {
	case slurmspec.HeldByUser, slurmspec.HeldByAdmin, slurmspec.NeverSatisfied, reasons.ReservationDeleted,
		reasons.MaxRequeue:
		return false
	}
	switch e.testNeeds(j) {
	case dependencies.Unmet:
		if j.begin < now {
			j.begin = 0
		}
		j.reason = reasons.Dependency
		return false
	case dependencies.Failed:
		e.neverSatisfied(j)
		return false
	}
	if j.reason == reasons.Dependency {
		j.reason = slurmspec.NoReason
	}
	switch {
	case !e.arrayMayStart(j):
		return false
	case j.begin > now:
		j.reason = reasons.BeginTime
		return false
	case !e.inReservation(j):
		j.reason = reasons.Reservation
		return false
	}
	if j.begin == 0 && j.priority != 0 {
		j.begin = now
	} else if j.reason == reasons.BeginTime {
		j.reason = slurmspec.NoReason
	}
	j.eligible = j.begin
	return true
}

// arrayMayStart reports whether the array's limit allows one more task (job_array_start_test).
func (e *Engine) arrayMayStart(j *job) bool {
	a := j.array
	if a == nil || a.limit == 0 || a.running < a.limit {
		return true
	}
	if j.begin <= e.second() {
		j.begin = 0
	}
	j.reason = reasons.ArrayLimit
	return false
}

// testNeeds tests the dependencies of a job (test_job_dependency in job_scheduler.c).
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

// Progress implements [dependencies.Job] (test_job_array_complete and so on). If tasks that
// share a record were cancelled, this record counts as pending until slurmctld forgets it.
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

// Gone implements [dependencies.Job].
func (s *submission) Gone() (forgotten, refused bool) { return s.gone, s.refused }

// testSingleton looks for jobs of the same user and name that run or were submitted earlier.
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

// neverSatisfied cancels a job whose dependencies can never be met, or lets it wait for ever.
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

// told is what was last reported about a pending job.
type told struct {
	planned  bool // backfill had planned a start of the job
	reason   slurmspec.Reason
	words    string
	backfill rm.Backfill
}

// tell reports pending jobs with a new reason, or with a first plan or a new result of backfill. It
// runs after a pass, so like squeue it does not see a reason that changes again during the pass.
func (e *Engine) tell() {
	for _, j := range e.pendingJobs() {
		if j.reason == slurmspec.NoReason {
			continue
		}
		now := told{j.told.planned || e.isPlanned(j), j.reason, words.About(j.reason, j.words), j.backfill}
		if now != j.told {
			j.told = now
			e.emit(j, rm.Waiting, j.reason.Because(j.words), e.waiting(j))
		}
	}
}

// isPlanned reports whether backfill has planned a later start for a pending job.
func (e *Engine) isPlanned(j *job) bool { return j.estimate > j.eligible && j.estimate > e.second() }

// waiting returns the report about a pending job.
func (e *Engine) waiting(j *job) *rm.Outcome {
	o := &rm.Outcome{
		State: hpc.Pending, Partition: j.part.Name, Priority: j.priority, Parts: e.account.points(j), Backfill: j.backfill,
	}
	if e.isPlanned(j) {
		o.Start = hpc.Unix(j.estimate)
	}
	return o
}

// At calls f at instant t, after all that slurmctld does at t.
func (e *Engine) At(t hpc.Time, f func()) { e.at(t, questions, f) }

// BeforeReset makes the engine call f before it resets its counters at midnight.
func (e *Engine) BeforeReset(f func()) { e.stats.BeforeReset = f }

// AskStats calls the function answer with slurmctld's counters, as sdiag shows them.
func (e *Engine) AskStats(answer func(*rpc.Stats, error)) {
	s := e.stats.Answer()
	s.Time = e.second()
	for _, j := range e.list {
		switch n := uint32(max(1, len(j.tasks))); j.state {
		case pending:
			s.Pending += n
		case running:
			s.Running++
		}
	}
	answer(s, nil)
}

// points returns the components of a job's priority; nil if the priority is given or 0.
func (a *accounting) points(j *job) []rm.PriorityPart {
	if !a.settings.Multifactor || j.direct || j.priority == 0 {
		return nil
	}
	return j.account.priority.List(a.table)
}

// setReason sets the reason why a job is pending. A new reason counts as a change.
func (e *Engine) setReason(j *job, reason slurmspec.Reason) {
	if j.reason != reason {
		j.reason = reason
		e.touch()
	}
}
