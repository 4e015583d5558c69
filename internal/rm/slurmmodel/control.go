package slurmmodel

import (
	"errors"
	"slices"
	"syscall"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/answers"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Do implements [rm.ResourceManager].
func (e *Engine) Do(c rm.Command) error {
	if err := e.Can().Check(c); err != nil {
		return err
	}
	e.throttle()
	s := e.byID[c.Job]
	if s == nil {
		e.events = append(e.events, at(e.now, c.Unknown()))
		return nil
	}
	changed, over := false, false
	for _, j := range slices.Backward(slices.Clone(s.jobs)) { // slurmctld begins with the newest record of an array
		if !slices.ContainsFunc(j.ends(), c.For) {
			continue
		}
		if j.state == ended || j.state == completing {
			over = true
			continue
		}
		changed = true
		e.change(j, c)
	}
	if c.Kind == rm.Cancel {
		if changed && !over { // if a task of the array is over, slurmctld does not count the request
			e.stats.Cancelled++
		}
		return nil // the event of the job's end tells the caller
	}
	var refused error
	if !changed {
		refused = errors.New("the job has ended")
	}
	e.events = append(e.events, at(e.now, c.Done(s.index, s.number, refused)))
	return nil
}

func at(now hpc.Time, ev rm.Event) rm.Event {
	ev.At = now
	return ev
}

// change carries out a command on one job record.
func (e *Engine) change(j *job, c rm.Command) {
	e.touch()
	switch c.Kind {
	case rm.Cancel:
		e.cancel(j, c)
		return
	case rm.Hold:
		if j.state == pending {
			e.hold(j, slurmspec.HeldByAdmin)
		}
	case rm.Release:
		if j.state == pending && j.priority == 0 {
			j.reason, j.priority = slurmspec.NoReason, 1
			j.direct = false
			e.account.setPriority(j)
		}
	case rm.SetPriority:
		if j.state == pending {
			j.priority, j.direct, j.perPart = c.Priority, true, nil
		}
	case rm.SetTimeLimit:
		e.setLimit(j, c)
	}
	e.loops.queued = true
}

// cancel ends a job like scancel. The cancellation of a pending job does not make a scheduler run.
func (e *Engine) cancel(j *job, c rm.Command) {
	if j.state == running {
		e.vacate(j, hpc.Cancelled, true, false)
		return
	}
	if len(j.tasks) > 0 && len(c.Tasks) > 0 {
		e.cancelTasks(j, c)
		return
	}
	e.finish(j, hpc.Cancelled, "")
}

// cancelTasks cancels tasks of an array that have no record of their own.
func (e *Engine) cancelTasks(j *job, c rm.Command) {
	all, rest := j.tasks, slices.DeleteFunc(slices.Clone(j.tasks), c.For)
	if len(rest) == 0 {
		e.finish(j, hpc.Cancelled, "")
		return
	}
	j.tasks = rest
	for _, t := range all {
		if !c.For(t) {
			continue
		}
		one := *j
		one.task = t
		outcome := e.outcome(&one, hpc.Cancelled)
		outcome.End = e.now
		e.emit(&one, rm.Ended, "", outcome)
	}
}

func (e *Engine) setLimit(j *job, c rm.Command) {
	minutes, err := slurmspec.Minutes(c.TimeLimit)
	if err != nil {
		return
	}
	j.limit = int64(minutes)
	if j.endless = minutes == slurmspec.Infinite; j.endless {
		j.limit = endless
	}
	if j.state == running {
		e.endAt(j, j.estimate+j.limit*60)
	}
}

// endAt sets when the time limit of a running job ends, in seconds since 1970.
func (e *Engine) endAt(j *job, end int64) {
	at := slices.Index(e.running, j)
	e.running, e.horizon = slices.Delete(e.running, at, at+1), slices.Delete(e.horizon, at, at+1)
	j.end = end
	e.run(j)
}

// inPreemption updates the record of a job that package preemption works on, and returns it.
func (e *Engine) inPreemption(j *job) *preemption.Job {
	p := &j.preemption
	p.QOS, p.Partition, p.Priority, p.Start = j.account.qos, j.part.preempt, j.priority, j.estimate
	p.Allocation, p.End, p.Place = j.alloc, j.end, j.place
	p.Alone = j.sharing.Alone() && !j.times.Suspended
	return p
}

// candidates returns the running jobs that a job may preempt, in the order in which slurmctld tries
// them (slurm_find_preemptable_jobs in preempt.c).
func (e *Engine) candidates(j *job, mode selection.Mode) (list []*preemption.Job) {
	if e.preempt == nil {
		return nil
	}
	by, now := e.inPreemption(j), e.second()
	renew := mode != selection.TestOnly && e.gang != nil && e.preempt.RenewExempt(e.tester, now)
	for _, other := range e.running {
		p := e.inPreemption(other)
		if renew && !other.times.Suspended {
			e.preempt.Exempt(e.tester, p, now)
		}
		if e.preempt.MayBePreempted(p, by, now) {
			list = append(list, p)
		}
	}
	e.preempt.Order(list)
	return list
}

// beforeByPreemption compares records of a queue: a job comes before jobs that it may preempt.
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

// takeNodes preempts the jobs whose nodes a job needs. The job starts in a later pass
// (_preempt_jobs in node_scheduler.c).
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

// stop preempts a running job. A job with a grace time gets a warning only, and a new end.
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

// terminate sends SIGCONT and SIGTERM to a job. As in a replay, SIGTERM ends the job's script.
func (e *Engine) terminate(j *job) {
	e.agents.Send(e.now, len(j.alloc.Parts))
	e.at(e.agents.Send(e.now, len(j.alloc.Parts)), nodesAnswer, func() {
		e.terminated.Come(e.asleep(), j, answers.Throttle(e.agents.Many(e.now)))
	})
}

// serve serves one due message: a terminated script has ended, or a node is free. After a script's
// end, the job's nodes answer at once, unless slurmctld also serves a node's message now.
func (e *Engine) serve() bool {
	switch {
	case e.terminated.Next() <= e.now:
		j := e.terminated.Serve(answers.Throttle(e.agents.Many(e.now)))
		if j.state == running && e.mayEnd(j) {
			if !e.rules.Since2411 { // since 24.11 the record of a preempted job does not name the signal
				j.signal = int(syscall.SIGTERM)
			}
			e.complete(j)
			for e.departures.Line.Next() > e.now && e.timers.Next() <= e.now && e.timers[0].Class == nodesAnswer {
				e.timers.Pop().What()
			}
		}
	case e.departures.Line.Next() <= e.now:
		e.serveNode()
	default:
		return false
	}
	return true
}

// beginSharing sets up how jobs share cores: with OverSubscribe, and in gang scheduling.
func (e *Engine) beginSharing(m *selection.Machine) {
	var parts []rows.Partition
	shared := false
	for _, p := range e.parts {
		p.index, shared = m.AddPartition(p.CPULimit, p.GPUs), shared || p.Sharing.Shares()
		parts = append(parts, rows.Partition{Tier: p.Tier, Kept: p.preempt.Keeps(), Rows: p.Sharing.Jobs})
	}
	s := gang.Read(e.cfg.Get, e.rules, parts, shared)
	if m.Turns, m.Turn, m.Gang, e.slice = s.Rows, s.Search, s.Gang, s.Slice; s.Gang {
		e.gang = gang.New(parts, m.Cores(), gang.Actions[*job]{
			Halt:     e.halt,
			Evict:    func(j *job) { e.vacate(j, hpc.Preempted, true, e.preempt.Returns(&j.preemption)) },
			Suspends: func(j *job) bool { return !e.preempt.Leaves(e.inPreemption(j)) },
		})
	}
}

// halt suspends a running job for gang scheduling, or resumes it (job_suspend in job_mgr.c).
func (e *Engine) halt(j *job, goOn bool) {
	if j.state != running || j.times.Suspended != goOn {
		return
	}
	if !goOn {
		j.times.Suspend(e.second(), j.estimate)
	} else if end := j.times.Resume(e.second(), j.limit*60); j.preemption.Told == 0 && !j.endless {
		e.endAt(j, end)
	}
	e.touch()
	if j.sharing.Alone() {
		e.departures.Close(j.alloc.Nodes, goOn)
	}
	begun, alloc := j.times.Begun, j.alloc
	e.at(e.agents.Send(e.now, len(alloc.Parts)), nodesAnswer, func() {
		switch {
		case !begun || j.state != running || j.alloc != alloc || j.times.Stopped != goOn:
		case goOn:
			e.endScript(j, j.times.GoOn(e.now))
			e.emit(j, rm.Resume, "", nil)
		default:
			e.stopScript(j, alloc)
		}
	})
}

// stopScript stops a suspended job's script. slurmd first waits for its launch (_launch_complete_wait in req.c).
func (e *Engine) stopScript(j *job, alloc *selection.Allocation) {
	if j.state == running && j.alloc == alloc && j.times.Suspended && !j.times.Stopped {
		j.times.Stop(e.now)
		j.endTimer++
		e.emit(j, rm.Suspend, "", nil)
	}
}
