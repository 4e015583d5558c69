package rpc

import (
	"fmt"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// KillRequest is the body of the message [RequestKillJob], which scancel sends. slurmctld answers
// with a [ResponseRC].
type KillRequest struct {
	// Job is the job as users write it: "12", "12_3" (a task of an array), "12_[1-5]", "12_*", "12+1"
	// (a component of a heterogeneous job).
	Job    string
	Signal uint16 // SIGKILL (9) ends the job, pending or running
	Flags  uint16 // Kill constants
}

func (m *KillRequest) append(e *encoder) { e.protocol.own.killRequest(e, m) }

// appendKillRequest follows _pack_job_step_kill_msg (slurm_protocol_pack.c) and
// slurm_kill_job2 (api/cancel.c).
func appendKillRequest(e *encoder, m *KillRequest) {
	e.stepID(StepID{Job: slurmspec.NoVal, Step: slurmspec.NoVal, HetComponent: slurmspec.NoVal})
	e.Str(m.Job)
	e.Str("") // sibling cluster
	e.U16(m.Signal)
	e.U16(m.Flags)
}

// SuspendRequest is the body of a [RequestSuspend], by which an administrator suspends or resumes
// a job. slurmctld answers with a [ResponseRC].
type SuspendRequest struct {
	Job    string // as in [KillRequest]
	Resume bool
}

func (m *SuspendRequest) append(e *encoder) { e.protocol.own.suspendRequest(e, m) }

// appendSuspendRequest follows _pack_suspend_msg (slurm_protocol_pack.c).
func appendSuspendRequest(e *encoder, m *SuspendRequest) {
	e.Bool16(m.Resume)
	e.U32(slurmspec.NoVal)
	e.Str(m.Job)
}

// RequeueRequest is the body of a [RequestJobRequeue]. slurmctld answers with a [ResponseRC].
type RequeueRequest struct {
	Job string // as in [KillRequest]
}

func (m *RequeueRequest) append(e *encoder) { e.protocol.own.requeueRequest(e, m) }

// appendRequeueRequest follows _pack_job_requeue_msg (slurm_protocol_pack.c).
func appendRequeueRequest(e *encoder, m *RequeueRequest) {
	e.U32(slurmspec.NoVal)
	e.Str(m.Job)
	e.U32(0)
}

// Shutdown is the body of a [RequestShutdown] to slurmctld. slurmctld saves its state, answers
// with [ResponseRC] 0 and exits (slurmctld_shutdown_type_t in slurm_protocol_defs.h). The bodies
// of a [RequestPing] and a [RequestReconfigure] are empty.
type Shutdown uint16

// What a shutdown ends.
const (
	ShutdownAll        Shutdown = 0 // slurmctld and the slurmd of all nodes
	ShutdownController Shutdown = 2 // slurmctld alone
)

// append follows _pack_shutdown_msg (slurm_protocol_pack.c).
func (s Shutdown) append(e *encoder) { e.U16(uint16(s)) }

// NodeUpdate is the body of a [RequestUpdateNode]: it changes the state of nodes, as "scontrol
// update node" does. slurmctld answers with a [ResponseRC].
type NodeUpdate struct {
	Nodes  string // host list
	State  uint32 // Node constants of slurmspec; [slurmspec.NoVal] leaves the state
	Reason string // required for down, drain and failing
}

// NewNodeUpdate returns the update for a node event of a workload. Slurm does not distinguish between a node that is
// taken down and a node that fails: both end the node's jobs. The reason becomes one line, because sacctmgr prints each
// outage on one line. An unknown state is an error.
func NewNodeUpdate(event hpc.NodeEvent) (*NodeUpdate, error) {
	m := &NodeUpdate{Nodes: event.Nodes, Reason: strings.TrimSpace(slurmspec.OneLine(event.Reason))}
	switch event.State {
	case "down", "fail":
		m.State = slurmspec.NodeDown
	case "drain":
		m.State = slurmspec.NodeDrain
	case "resume":
		m.State = slurmspec.NodeResume
	default:
		return nil, fmt.Errorf("node event: state %q is not known (want down, drain, resume or fail)", event.State)
	}
	if m.Reason == "" && m.State != slurmspec.NodeResume {
		m.Reason = "workload: " + event.State
	}
	return m, nil
}

func (m *NodeUpdate) append(e *encoder) { e.protocol.own.nodeUpdate(e, m) }

// nodeUpdateFields are the fields of a node's update that only some versions have.
type nodeUpdateFields struct {
	certificate bool
	instance    bool // the cloud's name and type of the node
	reasonUID   bool // the user who gives the reason, in place of the time at which the node resumes
}

// append follows _pack_update_node_msg (slurm_protocol_pack.c).
func (f nodeUpdateFields) append(e *encoder, m *NodeUpdate) {
	strs := func(n int) {
		for range n {
			e.Str("")
		}
	}
	if f.certificate {
		strs(1)
	}
	strs(1)  // comment
	e.U32(0) // cpu bind
	strs(4)  // extra, features, active features, gres
	if f.instance {
		strs(2)
	}
	strs(2) // address, host name
	e.Str(m.Nodes)
	e.U32(m.State)
	e.Str(m.Reason)
	if f.reasonUID {
		e.U32(0) // user of the reason: slurmctld takes the sender
	} else {
		e.U32(slurmspec.NoVal) // resume after
	}
	e.U32(slurmspec.NoVal) // weight
}
