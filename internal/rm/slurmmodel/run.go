package slurmmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurmmodel/agents"
	"rmreplay/internal/rm/slurmmodel/answers"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/owners"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// start starts a job on its nodes.
func (e *Engine) start(j *job, alloc *selection.Allocation, byBackfill bool) {
	if j.isHead() {
		e.split(j)
	}
	now := e.second()
	j.state, j.alloc, j.startedAt, j.estimate, j.reason = running, alloc, e.now, now, slurmspec.NoReason
	if j.limit == noMinutes {
		j.limit = endless
		for _, m := range []int64{j.part.MaxMinutes, j.part.DefaultMinutes} {
			if m >= 0 {
				j.limit = m
			}
		}
		j.endless = j.limit == endless
	}
	j.end = now + j.limit*60
	j.among.running++
	e.owners.Add(j)
	e.tester.Add(e.state, alloc)
	j.licensed, _ = e.licenses.Choose(j.licenses)
	e.licenses.Take(j.licensed)
	if j.sharing.Alone() {
		e.departures.Close(alloc.Nodes, true)
	}
	e.run(j)
	e.account.begin(j)
	e.touch()
	e.stats.Started++
	if byBackfill {
		e.stats.BackfilledJobs++
	}
	outcome := e.outcome(j, hpc.Running)
	if outcome.Parts = e.account.points(j); e.gang != nil { // with gang scheduling, run times are not whole seconds
		outcome.Start = e.now
	}
	e.emit(j, rm.Started, "", outcome)
	if e.gang != nil {
		e.gang.Start(j, j.part.index, alloc.Turn.Cores)
	}
	e.planEnd(j, e.agents.Launch(e.now, len(alloc.Parts), e.par.AllocProlog))
}

// Holder implements [owners.Holder].
func (j *job) Holder() owners.Job {
	held := owners.Job{User: j.of.job.User, Owns: j.owns || j.part.ExclusiveUser, End: j.end}
	held.Completing = j.state == completing
	if j.alloc != nil {
		held.Nodes = j.alloc.Nodes
	}
	return held
}

// run adds a job to the lists of running jobs: by the ends of their time limits, then by place in the list.
func (e *Engine) run(j *job) {
	e.tester.Changed(j.alloc.Nodes)
	at, _ := slices.BinarySearchFunc(e.running, j, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.end, b.end), comparePlaces(a, b))
	})
	e.running = slices.Insert(e.running, at, j)
	e.horizon = slices.Insert(e.horizon, at, selection.Running{
		Allocation: j.alloc, Nodes: j.alloc.Nodes.Sparse(), End: j.end, Licensed: j.licensed,
	})
}

// planEnd sets the timer for the end of a job whose script begins at an instant.
func (e *Engine) planEnd(j *job, begin hpc.Time) {
	work := j.of.job
	j.times.Begun, j.times.End = true, 0
	j.endTimer++
	if alloc := j.alloc; j.times.Suspended {
		e.at(begin, nodesAnswer, func() { e.stopScript(j, alloc) })
	}
	run := work.RunTimeOf(j.task)
	if run == hpc.Unlimited && work.EndAt == 0 {
		return
	}
	end := max(work.EndAt, begin)
	latencyFrom := end
	if work.EndAt == 0 {
		end, latencyFrom = begin.Add(run), begin
	}
	j.times.End = end.Add(nodes.ExitLatency(j.number, latencyFrom))
	e.endScript(j, j.times.End)
}

// endScript sets the timer for the end of a job's script. If end is 0, the script never ends.
func (e *Engine) endScript(j *job, end hpc.Time) {
	if end == 0 {
		return
	}
	j.endTimer++
	generation := j.endTimer
	e.at(end.Add(throttled), jobEnds, func() {
		if j.state == running && j.endTimer == generation && e.mayEnd(j) {
			e.complete(j)
		}
	})
}

// complete handles a job whose script has ended (job_complete in job_mgr.c).
func (e *Engine) complete(j *job) {
	how, requeue := hpc.Completed, false
	e.stats.Completed++
	switch {
	case e.rules.Since2411 && j.preemption.Told != 0: // the job's grace time has begun
		how, requeue = hpc.Preempted, e.preempt.Retry(&j.preemption)
	case j.signal != 0 || j.of.job.ScriptExit(j.task) != 0:
		how = hpc.Failed
	case !j.endless && j.end+e.par.OverTimeLimit < e.second():
		how = hpc.TimedOut
	}
	e.vacate(j, how, false, requeue)
}

// vacate removes a running job from its nodes. With requeue the job returns to the queue. The nodes
// become free when they have answered. If all nodes are down, the job is over at once.
func (e *Engine) vacate(j *job, how hpc.State, killed, requeue bool) {
	e.tester.Changed(j.alloc.Nodes)
	at := slices.Index(e.running, j)
	e.running, e.horizon = slices.Delete(e.running, at, at+1), slices.Delete(e.horizon, at, at+1)
	e.tester.Remove(e.state, j.alloc)
	j.state, j.end = completing, e.second()
	switch {
	case j.times.Suspended:
		j.end = j.times.Since
	case j.sharing.Alone():
		e.departures.Close(j.alloc.Nodes, false)
	}
	j.among.running--
	a := answers.Expect(j.alloc.Nodes, e.up, killed, e.par.Epilog)
	answering := a.All()
	e.account.end(j)
	e.touch()
	over := func() {
		e.owners.Remove(j)
		e.licenses.Return(j.licensed)
		if e.gang != nil {
			e.gang.End(j, j.part.index)
		}
		if requeue {
			e.requeue(j, how)
		} else {
			e.finish(j, how, "")
		}
	}
	if answering.Next(0) < 0 {
		over()
		return
	}
	e.await(e.departures.Begin(j.end, answering, j.part.nodes, over), a)
}

// await plans when the nodes of an ending job answer slurmctld.
func (e *Engine) await(d *answers.Departure, a answers.Answers) {
	told := e.agents.Send(e.now, a.Telling.Count()+a.Others.Count())
	if a.Others.Next(0) >= 0 {
		class := nodesAnswer
		if told.Add(a.Delay) > e.now {
			class = agentsLook
		}
		e.at(told.Add(a.Delay), class, func() {
			if e.departures.Answer(d, a.Others) {
				e.at(e.now.Add(agents.Nap), agentsLook, func() { e.loops.queued = true })
			}
		})
	}
	if a.Telling.Next(0) >= 0 {
		e.at(told, nodesAnswer, func() {
			e.departures.Tell(e.asleep(), d, a.Telling, e.agents.Many(e.now))
		})
	}
}

// serveNode serves a node's message. After the last message about a job, slurmctld requests a pass.
func (e *Engine) serveNode() {
	switch many := e.agents.Many(e.now); {
	case !e.departures.Serve(many):
	case many || e.par.Deferred:
		e.loops.queued = true
	default:
		e.request(false)
	}
}

func (e *Engine) finish(j *job, how hpc.State, reason string) {
	if j.state == ended {
		return
	}
	e.account.forget(j)
	for _, task := range j.ends() {
		one := j
		if len(j.tasks) > 0 {
			copied := *j
			copied.task, one = task, &copied
		}
		outcome := e.outcome(one, how)
		outcome.End = hpc.Unix(e.second())
		if j.state == pending && reason != "" {
			outcome.Priority = 0 // the job is cancelled because of a dependency
		}
		if j.state != pending {
			outcome.End = hpc.Unix(j.end)
			if outcome.Signal = j.signal; how == hpc.Failed && j.signal == 0 {
				outcome.ExitCode = j.of.job.ScriptExit(task)
			}
		}
		e.emit(one, rm.Ended, reason, outcome)
	}
	if j.state == pending {
		j.end = e.second()
	}
	j.state = ended
	j.well = how == hpc.Completed
	if a := j.array; a != nil && !j.well {
		a.failed = true
	}
	e.remove(j)
	e.over, e.firstOver = append(e.over, j), min(e.firstOver, j.end)
	e.touch()
}

// ends returns the tasks of a record; [-1] for a job that is not an array.
func (j *job) ends() []int {
	if len(j.tasks) > 0 {
		return j.tasks
	}
	return []int{j.task}
}

// enforceLimits kills the jobs whose time limits are over, in slurmctld's order (job_time_limit).
func (e *Engine) enforceLimits() {
	now := e.second()
	over := func(j *job) bool {
		return !j.endless && j.end <= now-e.par.OverTimeLimit || j.reservation.Over(now, e.par.ReservationOverRun)
	}
	for _, j := range e.runningInList(func(j *job) bool { return j.preemption.Told == 0 && !over(j) }) {
		switch {
		case j.state != running || j.times.Suspended:
		case j.preemption.Told != 0:
			e.stop(j, "")
		case over(j) && e.mayEnd(j):
			e.vacate(j, hpc.TimedOut, true, false)
		}
	}
}

// runningInList returns the running jobs that are not excluded, in the order of slurmctld's list.
func (e *Engine) runningInList(excluded func(*job) bool) []*job {
	var list []*job
	for _, j := range e.running {
		if !excluded(j) {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, comparePlaces)
	return list
}

func comparePlaces(a, b *job) int { return cmp.Compare(a.place, b.place) }

// purge removes the records of jobs that ended long ago (purge_old_job), and records this change
// ([Engine.touch]). The record with an array's number stays as long as a task has a record.
func (e *Engine) purge() {
	now := e.second()
	for _, j := range e.pendingJobs() {
		if e.rules.Since2411 && j.state == pending && !e.meetsDeadline(j) {
			continue
		}
		if j.state == pending && j.reason != slurmspec.NeverSatisfied && e.testNeeds(j) == dependencies.Failed {
			e.neverSatisfied(j)
		}
	}
	if e.firstOver > now-e.par.MinJobAge {
		return
	}
	slices.SortFunc(e.over, comparePlaces)
	kept := e.over[:0]
	e.firstOver = math.MaxInt64
	for _, j := range e.over {
		heads := j.array != nil && j.number == j.of.number && (j.array.running > 0 || len(j.of.jobs) > 1)
		if heads || j.end > now-e.par.MinJobAge {
			kept = append(kept, j)
			e.firstOver = min(e.firstOver, j.end)
			continue
		}
		delete(e.byNumber, j.number)
		j.of.jobs = slices.DeleteFunc(j.of.jobs, func(other *job) bool { return other == j })
		j.of.gone = len(j.of.jobs) == 0
		e.touch()
	}
	clear(e.over[len(kept):])
	e.over = kept
}

// hold sets a job's priority to 0, so that it cannot start.
func (e *Engine) hold(j *job, reason slurmspec.Reason) {
	j.priority = 0
	e.setReason(j, reason)
}

// SetNode implements [rm.ResourceManager] (update_node in node_mgr.c). Even if slurmctld refuses
// the event, it then looks at its queue and reservations.
func (e *Engine) SetNode(ev hpc.NodeEvent) error {
	done := rm.Event{At: e.now, Kind: rm.NodeState, Task: -1, Reason: ev.Nodes + " " + ev.State}
	if ev.Reason != "" {
		done.Reason += ": " + ev.Reason
	}
	if err := e.setNodes(ev); err != nil {
		done.Reason = e.refuse(done.Reason, err)
	}
	e.events = append(e.events, done)
	e.touch()
	e.loops.queued, e.loops.validate = true, true
	return nil
}

// setNodes changes the nodes of an event, up to the first node that slurmctld does not know. It
// skips nodes whose state does not allow the change.
func (e *Engine) setNodes(ev hpc.NodeEvent) (refused error) {
	names, err := hostlist.Expand(ev.Nodes)
	if err != nil {
		return err
	}
	for _, name := range names {
		i, known := e.place[name]
		if !known {
			return fmt.Errorf("there is no node %s", name)
		}
		switch strings.ToLower(ev.State) {
		case "down", "fail":
			e.up.Clear(i)
			e.available.Clear(i)
			e.returning.Clear(i)
			e.loseJobs(i)
		case "drain":
			e.available.Clear(i)
			e.returning.Clear(i)
		case "resume":
			switch {
			case e.available.Has(i), e.returning.Has(i):
				refused = cmp.Or(refused, fmt.Errorf("node %s is in service", name))
			case e.up.Has(i):
				e.returning.Set(i)
			default: // a node that is down registers by itself
				e.up.Set(i)
				e.available.Set(i)
			}
		default:
			return fmt.Errorf("%q: not a state (want down, fail, drain or resume)", ev.State)
		}
	}
	return refused
}

// register returns resumed nodes to service. slurmctld uses such nodes only after they register. The
// background loop requests their registration in its next turn (_require_node_reg in node_mgr.c).
func (e *Engine) register() {
	e.available.Or(e.returning)
	e.returning.Reset()
	e.touch()
	e.loops.queued = true
}

// loseJobs ends the jobs on a node that went down, in slurmctld's order
// (kill_running_job_by_node_name in job_mgr.c). Jobs that may be requeued return to the queue.
func (e *Engine) loseJobs(node int) {
	for _, j := range slices.Clone(e.list) {
		if j.state != running || !j.alloc.Nodes.Has(node) {
			continue
		}
		e.vacate(j, hpc.NodeFail, true, j.preemption.Requeue)
	}
}

// requeue returns a job to the queue when its nodes are free (batch_requeue_fini in job_mgr.c). The
// job is eligible when its credential has expired on the nodes. Since 24.11 it gets a new priority.
func (e *Engine) requeue(j *job, how hpc.State) {
	now := e.second()
	outcome := e.outcome(j, how)
	outcome.End = hpc.Unix(j.end)
	e.emit(j, rm.Requeue, "", outcome)
	j.reservation.Release()
	j.state, j.alloc, j.startedAt, j.estimate, j.end, j.totalCPUs = pending, nil, 0, 0, 0, 0
	e.returned = true
	j.reason, j.noted, j.told = slurmspec.NoReason, slurmspec.NoReason, told{}
	j.restarts++
	j.preemption.Renew()
	j.times = gang.Times{}
	const credentialLife = 120 // seconds for which a job's credential is valid (cred_expire of AuthInfo)
	if j.begin <= now {
		j.begin = now + credentialLife + 1
	}
	if j.submit == now {
		now++
	}
	j.submit, j.accrue = now, 0
	e.account.requeue(j)
	if e.rules.Since2411 && j.priority > 0 {
		e.account.setPriority(j)
	}
	if e.preempt.TooMany(&j.preemption) {
		e.hold(j, reasons.MaxRequeue)
	}
	e.touch()
}
