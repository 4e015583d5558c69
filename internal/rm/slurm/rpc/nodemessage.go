package rpc

import "rmreplay/internal/slurmspec"

// NodeRegistration is the body of a [MessageNodeRegistration]: a node's hardware, and the steps
// that run on it. A node sends a registration when its slurmd starts, and after each
// [RequestNodeRegistration]. The registration is a separate message, not the answer.
//
// slurmctld compares the registration with slurm.conf (validate_node_specs in node_mgr.c). slurmctld drains a node with
// fewer CPUs, less memory or fewer generic resources than slurm.conf says. slurmctld also compares Steps with its own
// jobs (validate_jobs_on_node in job_mgr.c). slurmctld requeues or fails a job that Steps lacks, and aborts a job that
// slurmctld does not know.
type NodeRegistration struct {
	// Time is the node's current time. Start is when its slurmd started. Both are in seconds since
	// the Unix epoch.
	Time, Start int64
	// Status is 0, or the error number of a failed prolog or slurmd.
	Status uint32
	// FeaturesActive and FeaturesAvailable are the features of node feature plugins. Features from slurm.conf are not in
	// these two fields.
	FeaturesActive, FeaturesAvailable string
	// Host is the host name. Node is the node's name in slurm.conf.
	Host, Node string
	Arch, OS   string
	// Sockets is the number on the whole node, Cores the number per socket, and Threads the number per
	// core.
	CPUs, Boards, Sockets, Cores, Threads uint16
	// CPUSpecList lists the CPUs that are reserved for the system.
	CPUSpecList string
	Memory      uint64 // MiB
	TmpDisk     uint32 // MiB
	UpTime      uint32 // seconds since the node booted
	// ConfHash is the hash of the node's slurm.conf. slurmctld complains about a hash that differs
	// from its own, unless DebugFlags has NO_CONF_HASH.
	ConfHash   uint32
	CPULoad    uint32 // hundredths
	FreeMemory uint64 // MiB
	// Steps are the steps that run on the node. The job's first node lists its batch script
	// as [Batch].
	Steps []StepID
	GRES  []GRES
	// Version is slurmd's release, "22.05.8".
	Version string
}

func (m *NodeRegistration) append(e *encoder) { e.protocol.own.nodeRegistration(e, m) }

// registrationFields are the fields of a registration that only some versions have.
type registrationFields struct {
	instance bool // the site's note about the node, and the cloud's name and type for it
}

// append follows _pack_node_registration_status_msg (slurm_protocol_pack.c). The block of generic
// resources must be present even if the node has none: a registration without the block crashes
// slurmctld.
func (f registrationFields) append(e *encoder, m *NodeRegistration) {
	e.Time(m.Time)
	e.Time(m.Start)
	e.U32(m.Status)
	if f.instance {
		e.Str("")
	}
	e.Str(m.FeaturesActive)
	e.Str(m.FeaturesAvailable)
	e.Str(m.Host)
	if f.instance {
		e.Str("")
		e.Str("")
	}
	e.Str(m.Node)
	e.Str(m.Arch)
	e.Str(m.CPUSpecList)
	e.Str(m.OS)
	e.U16(m.CPUs)
	e.U16(m.Boards)
	e.U16(m.Sockets)
	e.U16(m.Cores)
	e.U16(m.Threads)
	e.U64(m.Memory)
	e.U32(m.TmpDisk)
	e.U32(m.UpTime)
	e.U32(m.ConfHash)
	e.U32(m.CPULoad)
	e.U64(m.FreeMemory)
	e.U32(uint32(len(m.Steps)))
	for _, s := range m.Steps {
		e.stepID(s)
	}
	e.U16(0) // flags: the node does not ask for the list of TRES
	e.gresBlock(m.GRES)
	e.protocol.energy(e)
	e.Str(m.Version)
	e.U8(0) // not a dynamic node
	e.Str("")
	e.Str("")
}

// appendEnergy appends the energy data of a node without sensors (acct_gather_energy_pack in
// slurm_acct_gather_energy.c).
func appendEnergy(e *encoder) {
	e.U64(0)
	e.U32(0)
	e.U64(0)
	e.U32(0)
	e.U64(0)
	e.Time(0)
}

// EpilogComplete is the body of a [MessageEpilogComplete]: the epilog of a job has ended on a
// node. The job is complete when all its nodes have sent this message.
type EpilogComplete struct {
	JobID uint32
	// Code is 0, or an error (slurmspec.ErrEpilogFailed) that drains the node.
	Code slurmspec.Errno
	Node string
}

func (m *EpilogComplete) append(e *encoder) { e.protocol.own.epilogComplete(e, m) }

// appendEpilogComplete follows _pack_epilog_comp_msg (slurm_protocol_pack.c).
func appendEpilogComplete(e *encoder, m *EpilogComplete) {
	e.U32(m.JobID)
	e.U32(uint32(m.Code))
	e.Str(m.Node)
}

// BatchComplete is the body of a [RequestCompleteBatchScript]: a job's script has ended. The
// job's first node sends it.
type BatchComplete struct {
	JobID uint32
	// Status is the script's status as wait(2) gives it; see [slurmspec.ExitCode.Wait].
	Status uint32
	// Code is 0, or the error that prevented the script from running. Some errors requeue the job and
	// drain the node (_slurm_rpc_complete_batch_script in proc_req.c).
	Code slurmspec.Errno
	UID  uint32 // the job's user
	Node string
}

func (m *BatchComplete) append(e *encoder) { e.protocol.own.batchComplete(e, m) }

// appendBatchComplete follows _pack_complete_batch_script_msg (slurm_protocol_pack.c).
func appendBatchComplete(e *encoder, m *BatchComplete) {
	// A slurmd without a gather plugin sends no accounting data either (jobacctinfo_pack in
	// slurm_jobacct_gather.c).
	e.U8(0)
	e.U32(m.JobID)
	e.U32(m.Status)
	e.U32(uint32(m.Code))
	e.U32(m.UID)
	e.Str(m.Node)
}

// PrologComplete is the body of a [RequestCompleteProlog]: the prolog of a job has ended on a
// node.
type PrologComplete struct {
	JobID uint32
	Node  string
	// Code is 0, or an error that drains the node and requeues the job.
	Code slurmspec.Errno
}

func (m *PrologComplete) append(e *encoder) { e.protocol.own.prologComplete(e, m) }

// appendPrologComplete follows _pack_complete_prolog_msg (slurm_protocol_pack.c).
func appendPrologComplete(e *encoder, m *PrologComplete) {
	e.U32(m.JobID)
	e.Str(m.Node)
	e.U32(uint32(m.Code))
}

// StepComplete is the body of a [RequestStepComplete]: a step has ended on some of its nodes.
// Batch jobs use this message only for the extern step (PrologFlags=Contain).
type StepComplete struct {
	StepID StepID
	// First and Last are the ranks, within the step, of the first and last node that ended.
	First, Last uint32
	Status      uint32 // as wait(2) gives it
}

func (m *StepComplete) append(e *encoder) { e.protocol.own.stepComplete(e, m) }

// stepCompleteFields are the fields of the message that only some versions have.
type stepCompleteFields struct {
	stepManager bool // whether the message goes to the job's step manager
}

// append follows _pack_step_complete_msg (slurm_protocol_pack.c).
func (f stepCompleteFields) append(e *encoder, m *StepComplete) {
	e.stepID(m.StepID)
	e.U32(m.First)
	e.U32(m.Last)
	e.U32(m.Status)
	e.U8(0) // no accounting data
	if f.stepManager {
		e.U8(0)
	}
}

// AppendRC appends the body of a [ResponseRC] to dst; it is the same in all versions. It
// follows _pack_return_code_msg (slurm_protocol_pack.c).
func AppendRC(dst []byte, code slurmspec.Errno) []byte {
	e := newEncoder(dst, nil)
	e.U32(uint32(code))
	return e.Bytes
}

// Ping is the body of a [ResponsePing], which answers a [RequestPing] and a
// [RequestNodeRegistration]. Only version 26.05 of the message has the node's name, and no node
// answers in that version.
type Ping struct {
	Node       string // the node that answers
	Load       uint32 // hundredths
	FreeMemory uint64 // MiB
}

func (m Ping) appendAnswer(e *encoder) { e.protocol.ping(e, m) }

// appendPing follows _pack_ping_slurmd_resp (slurm_protocol_pack.c).
func appendPing(e *encoder, m Ping) {
	e.U32(m.Load)
	e.U64(m.FreeMemory)
}

// skipPing skips the body that appendPing appends.
func skipPing(d *decoder) { d.Take(4+8, "return body") }

// AcctGather is the body of a [ResponseAcctGatherUpdate] of a node without energy sensors. The
// body contains the node's name, so [Reply] needs a separate body for each node.
type AcctGather struct {
	Node string
}

// appendAnswer follows _pack_acct_gather_node_resp_msg (slurm_protocol_pack.c). A slurmd
// without sensors reports one empty sensor (_rpc_acct_gather_update in slurmd/req.c).
func (m AcctGather) appendAnswer(e *encoder) {
	e.Str(m.Node)
	e.U16(1)
	e.protocol.energy(e)
}
