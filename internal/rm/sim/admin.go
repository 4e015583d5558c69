package sim

import (
	"errors"
	"fmt"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// errNoNodes is the error of node and reservation events on a pool.
var errNoNodes = errors.New("the machine is a pool of processors and has no nodes")

// SetNode implements [rm.ResourceManager]. If a node goes down, its jobs are requeued; a job with
// --no-requeue ends in state NODE_FAIL.
func (e *Engine) SetNode(ev hpc.NodeEvent) error {
	done := rm.Event{Kind: rm.NodeState, Task: -1, Reason: ev.Nodes + " " + ev.State}
	if ev.Reason != "" {
		done.Reason += ": " + ev.Reason
	}
	if err := e.setNodes(ev); err != nil {
		done.Reason = e.refuse(done.Reason, err)
	}
	e.report(done)
	e.freed = true
	return nil
}

// refuse records that an event could not be carried out, and returns the event's description.
func (e *Engine) refuse(what string, err error) string {
	reason := "refused: " + what + ": " + err.Error()
	e.refused = append(e.refused, fmt.Sprintf("at %s, %s", e.Now(), reason))
	return reason
}

// Refused describes the events of nodes and reservations that could not be carried out.
func (e *Engine) Refused() []string { return e.refused }

func (e *Engine) setNodes(ev hpc.NodeEvent) error {
	n := e.machine.nodes
	if n == nil {
		return errNoNodes
	}
	names, err := hostlist.Expand(ev.Nodes)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, known := n.index[name]; !known {
			return fmt.Errorf("there is no node %s", name)
		}
	}
	e.machine.freed++
	for _, name := range names {
		d := &n.list[n.index[name]]
		switch strings.ToLower(ev.State) {
		case "down", "fail":
			d.down = true
			e.loseJobs(d, name)
		case "drain":
			d.drain = true
		case "resume":
			d.down, d.drain = false, false
		default:
			return fmt.Errorf("%q: not a state (want down, fail, drain or resume)", ev.State)
		}
		n.out.Put(n.index[name], !d.usable())
	}
	return nil
}

// loseJobs ends the runs of jobs on a node that went down, and cancels the policy's reservations
// there. Jobs with --no-kill continue if they have other nodes.
func (e *Engine) loseJobs(d *node, name string) {
	var jobs []*Job
	for _, s := range d.stays {
		jobs = append(jobs, s.job)
	}
	for _, j := range jobs {
		switch {
		case j.reserved:
			e.machine.Unreserve(j)
		case j.Request.NoKill && len(j.placement.nodes) > 1:
		case j.Request.Requeue != nil && !*j.Request.Requeue:
			e.finish(j, hpc.NodeFail, "")
		default:
			e.requeue(j, "node "+name+" went down")
		}
	}
}

// Reserve implements [rm.ResourceManager].
func (e *Engine) Reserve(ev hpc.ReservationEvent) error {
	done := rm.Event{Kind: rm.Reserved, Task: -1, Reason: ev.Action + " " + ev.Name}
	err := errNoNodes
	if n := e.machine.nodes; n != nil {
		e.machine.freed++
		err = n.change(ev)
	}
	if err != nil {
		done.Reason = e.refuse(done.Reason, err)
	}
	e.report(done)
	e.freed = true
	if err == nil && ev.Action != "delete" {
		// More jobs may fit after the reservation's start or end, so the policy is called then.
		r := e.machine.nodes.find(ev.Name)
		wake := func() { e.freed = true }
		e.timers.add(max(r.start, e.Now()), machineChanges, nil, wake)
		e.timers.add(max(r.end, e.Now()), machineChanges, nil, wake)
	}
	return nil
}
