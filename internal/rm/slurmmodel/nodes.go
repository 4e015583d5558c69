package slurmmodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/slurmspec"
)

// SetNode implements [rm.ResourceManager] (update_node in node_mgr.c). slurmctld looks at its queue and its
// reservations afterwards, also if it refuses the event.
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

// setNodes changes the nodes of an event, up to the first one that slurmctld does not know. Those whose state
// cannot change so stay as they are.
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
			default: // it registers by itself
				e.up.Set(i)
				e.available.Set(i)
			}
		default:
			return fmt.Errorf("%q: not a state (want down, fail, drain or resume)", ev.State)
		}
	}
	return refused
}

// register puts the nodes into service that were drained: when they are resumed, slurmctld does not use them until
// they register, which it asks of them in the next turn of the background loop (_require_node_reg in node_mgr.c).
func (e *Engine) register() {
	e.available.Or(e.returning)
	e.returning.Reset()
	e.touch()
	e.loops.queued = true
}

// loseJobs ends the runs of the jobs on a node that went down, in slurmctld's order
// (kill_running_job_by_node_name in job_mgr.c).
func (e *Engine) loseJobs(node int) {
	for _, j := range slices.Clone(e.list) {
		if j.state != running || !j.alloc.Nodes.Has(node) {
			continue
		}
		e.vacate(j, hpc.NodeFail, true, j.preemption.Requeue)
	}
}

// requeue puts a job back into the queue whose nodes are free again (batch_requeue_fini in job_mgr.c). It is
// not eligible until its credential has expired on the nodes. Since 24.11 it gets a new priority.
func (e *Engine) requeue(j *job, how hpc.State) {
	now := e.second()
	outcome := e.outcome(j, how)
	outcome.End = hpc.Unix(j.end)
	e.emit(j, rm.Requeue, "", outcome)
	j.state, j.alloc, j.startedAt, j.estimate, j.end, j.totalCPUs = pending, nil, 0, 0, 0, 0
	j.reason, j.noted = slurmspec.NoReason, slurmspec.NoReason
	j.restarts++
	j.preemption.Renew()
	j.times = gang.Times{}
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
		e.hold(j, reasonMaxRequeue)
	}
	e.touch()
}

// credentialLife is for how many seconds a job's credential is valid (cred_expire of AuthInfo).
const credentialLife = 120
