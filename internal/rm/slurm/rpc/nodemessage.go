package rpc

import "rmreplay/internal/slurmspec"

// NodeRegistration is how a node tells slurmctld what it is and what runs on it. It
// is the node's answer, in a message of its own, to [RequestNodeRegistration], and
// what a daemon sends when it starts. The controller compares it with slurm.conf: a
// node with fewer CPUs, less memory or fewer generic resources than configured is
// drained, a job of the controller's that Steps lacks is requeued or failed, and one
// that the controller does not know is aborted (validate_node_specs,
// validate_jobs_on_node in node_mgr.c and job_mgr.c).
type NodeRegistration struct {
	// Time is the node's time and Start when its daemon started, in seconds since the
	// Unix epoch.
	Time, Start int64
	// Status is 0, or the error number with which a prolog or the daemon failed.
	Status uint32
	// Features are those active and available on the node; only node feature plugins
	// use them, and they stay empty for features from slurm.conf.
	FeaturesActive, FeaturesAvailable string
	// Host and Node are the host's and the node's name.
	Host, Node string
	Arch, OS   string
	// The hardware. Sockets is the node's total, Cores per socket, Threads per core.
	CPUs, Boards, Sockets, Cores, Threads uint16
	// CPUSpecList is the host list of CPUs that are reserved for the system.
	CPUSpecList string
	Memory      uint64 // MiB
	TmpDisk     uint32 // MiB
	UpTime      uint32 // seconds since the node booted
	// ConfHash is the hash of the node's slurm.conf; anything else than the
	// controller's is complained about unless DebugFlags has NO_CONF_HASH.
	ConfHash   uint32
	CPULoad    uint32 // hundredths
	FreeMemory uint64 // MiB
	// Steps are the steps that run on the node, a batch script as [Batch]. It is
	// listed by the job's first node only.
	Steps []StepID
	GRES  []GRES
	// Version is the daemon's release, "22.05.8".
	Version string
}

// Flags of a generic resource in a node's registration (gres.h).
const (
	GRESHasFile   = uint32(1 << 1) // GRES_CONF_HAS_FILE: backed by device files
	GRESHasType   = uint32(1 << 2) // GRES_CONF_HAS_TYPE
	GRESCountOnly = uint32(1 << 3) // GRES_CONF_COUNT_ONLY: no plugin to load
	GRESLoaded    = uint32(1 << 4) // GRES_CONF_LOADED
	GRESEnvNVML   = uint32(1 << 5) // GRES_CONF_ENV_NVML, what gpus without AutoDetect get
	GRESEnvRSMI   = uint32(1 << 6)
	GRESEnvOpenCL = uint32(1 << 7)
	GRESEnvDef    = uint32(1 << 8)
)

// GRES is one line of a node's generic resources, as its gres.conf has them: for a
// resource with files one record per File= line, since Cores and Links differ.
type GRES struct {
	Name  string // "gpu"
	Type  string // "a100", or empty
	Count uint64
	// CPUs is the number of cores on the node, and Cores the list of those that the
	// resource is close to ("0-15"); empty for all.
	CPUs  uint32
	Cores string
	Links string // "-1,16" and so on; empty for none
	Flags uint32 // GRES constants
}

// GRESPluginID is the number by which Slurm names a generic resource: the bytes of
// its name, shifted by 0, 8, 16, 24, 0... bits, added up (gres_build_id in gres.c).
func GRESPluginID(name string) uint32 {
	var id uint32
	for i := range len(name) {
		id += uint32(name[i]) << (8 * (i % 4))
	}
	return id
}

// Append appends the body of a [MessageNodeRegistration] in version 22.05 to dst. It
// follows _pack_node_registration_status_msg (slurm_protocol_pack.c), the block of
// generic resources gres_node_config_pack (gres.c). The block is there even without
// any resource: slurmctld crashes over a registration that lacks it.
func (m *NodeRegistration) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.time(m.Time)
	e.time(m.Start)
	e.u32(m.Status)
	e.str(m.FeaturesActive)
	e.str(m.FeaturesAvailable)
	e.str(m.Host)
	e.str(m.Node)
	e.str(m.Arch)
	e.str(m.CPUSpecList)
	e.str(m.OS)
	e.u16(m.CPUs)
	e.u16(m.Boards)
	e.u16(m.Sockets)
	e.u16(m.Cores)
	e.u16(m.Threads)
	e.u64(m.Memory)
	e.u32(m.TmpDisk)
	e.u32(m.UpTime)
	e.u32(m.ConfHash)
	e.u32(m.CPULoad)
	e.u64(m.FreeMemory)
	e.u32(uint32(len(m.Steps)))
	for _, s := range m.Steps {
		e.stepID(s)
	}
	e.u16(0) // flags: no answer with the list of TRES is wanted
	gres := appendGRES(nil, m.GRES)
	e.u32(uint32(len(gres)))
	e.mem(gres)
	e.energy()
	e.str(m.Version)
	e.u8(0) // not a dynamic node
	e.str("")
	e.str("")
	return e.b
}

func appendGRES(dst []byte, records []GRES) []byte {
	e := encoder{b: dst}
	e.u16(uint16(V2205))
	e.u16(uint16(len(records)))
	for _, g := range records {
		e.u32(gresMagic)
		e.u64(g.Count)
		e.u32(g.CPUs)
		e.u32(g.Flags)
		e.u32(GRESPluginID(g.Name))
		e.str(g.Cores)
		e.str(g.Links)
		e.str(g.Name)
		e.str(g.Type)
		e.str("") // unique id
	}
	return e.b
}

// energy appends the energy data of a node that measures none
// (acct_gather_energy_pack in slurm_acct_gather_energy.c).
func (e *encoder) energy() {
	e.u64(0)
	e.u32(0)
	e.u64(0)
	e.u32(0)
	e.u64(0)
	e.time(0)
}

// EpilogComplete says that nothing of a job is left on a node. When all nodes have
// said so the job has completed.
type EpilogComplete struct {
	JobID uint32
	// Code is 0, or an [slurmspec.Errno] (slurmspec.ErrEpilogFailed) that drains the node.
	Code slurmspec.Errno
	Node string
}

// Append appends the body of a [MessageEpilogComplete] to dst. It follows
// _pack_epilog_comp_msg (slurm_protocol_pack.c).
func (m *EpilogComplete) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.u32(m.JobID)
	e.u32(uint32(m.Code))
	e.str(m.Node)
	return e.b
}

// BatchComplete says that a job's script has ended; its first node sends it.
type BatchComplete struct {
	JobID uint32
	// Status is the script's status as wait(2) gives it, as [slurmspec.ExitCode.Wait] makes it.
	Status uint32
	// Code is 0, or the [slurmspec.Errno] with which the script could not be run; some requeue
	// the job and drain the node (_slurm_rpc_complete_batch_script in proc_req.c).
	Code slurmspec.Errno
	UID  uint32 // the job's user
	Node string
}

// Append appends the body of a [RequestCompleteBatchScript] to dst, without
// accounting data, which is what a daemon without a gather plugin sends. It follows
// _pack_complete_batch_script_msg (slurm_protocol_pack.c).
func (m *BatchComplete) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.u8(0) // no accounting data (jobacctinfo_pack in slurm_jobacct_gather.c)
	e.u32(m.JobID)
	e.u32(m.Status)
	e.u32(uint32(m.Code))
	e.u32(m.UID)
	e.str(m.Node)
	return e.b
}

// PrologComplete says that the prolog of a job has ended on a node.
type PrologComplete struct {
	JobID uint32
	Node  string
	// Code is 0, or an error that drains the node and requeues the job.
	Code slurmspec.Errno
}

// Append appends the body of a [RequestCompleteProlog] in version 22.05 to dst. It
// follows _pack_complete_prolog_msg (slurm_protocol_pack.c).
func (m *PrologComplete) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.u32(m.JobID)
	e.str(m.Node)
	e.u32(uint32(m.Code))
	return e.b
}

// StepComplete says that a step has ended on some of its nodes; of those that a node
// runs for a batch job only the extern step (PrologFlags=Contain) is reported so.
type StepComplete struct {
	StepID StepID
	// First and Last are the ranks of the step's nodes that it is for.
	First, Last uint32
	Status      uint32 // as wait(2) gives it
}

// Append appends the body of a [RequestStepComplete] to dst. It follows
// _pack_step_complete_msg (slurm_protocol_pack.c).
func (m *StepComplete) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.stepID(m.StepID)
	e.u32(m.First)
	e.u32(m.Last)
	e.u32(m.Status)
	e.u8(0)
	return e.b
}

// AppendRC appends the body of a [ResponseRC] to dst. It follows
// _pack_return_code_msg (slurm_protocol_pack.c).
func AppendRC(dst []byte, code slurmspec.Errno) []byte {
	e := encoder{b: dst}
	e.u32(uint32(code))
	return e.b
}

// AppendPing appends the body of a [ResponsePing] to dst: the node's load in
// hundredths and its free memory in MiB. It follows _pack_ping_slurmd_resp
// (slurm_protocol_pack.c).
func AppendPing(dst []byte, load uint32, freeMemory uint64) []byte {
	e := encoder{b: dst}
	e.u32(load)
	e.u64(freeMemory)
	return e.b
}

// AppendAcctGather appends the body of a [ResponseAcctGatherUpdate] of a node without
// energy sensors to dst. The body names its node, so the entries that [Reply] makes for
// forwarded nodes need one of their own. It follows _pack_acct_gather_node_resp_msg
// (slurm_protocol_pack.c); slurmd reports one empty sensor then
// (_rpc_acct_gather_update in slurmd/req.c).
func AppendAcctGather(dst []byte, node string) []byte {
	e := encoder{b: dst}
	e.str(node)
	e.u16(1)
	e.energy()
	return e.b
}

// Answer gives what a healthy node answers to a request of slurmctld: the type and
// the body of its reply. ok is false for the types that slurmd does not answer
// (slurmctld closes the connection as soon as it has sent them). It follows
// slurmd_req and the functions that it calls in slurmd/req.c:
//
//	request                     answer
//	REGISTRATION, PING          RESPONSE_PING_SLURMD; a registration also sends
//	                            MESSAGE_NODE_REGISTRATION_STATUS
//	ACCT_GATHER_UPDATE          RESPONSE_ACCT_GATHER_UPDATE
//	BATCH_JOB_LAUNCH, PROLOG    RESPONSE_SLURM_RC 0, later COMPLETE_BATCH_SCRIPT or
//	                            COMPLETE_PROLOG
//	TERMINATE, ABORT, KILL_*    RESPONSE_SLURM_RC 0, later EPILOG_COMPLETE
//	SUSPEND_INT, SIGNAL_TASKS,  RESPONSE_SLURM_RC 0
//	TERMINATE_TASKS, HEALTH_CHECK
//	RECONFIGURE*, SHUTDOWN,     none
//	REBOOT_NODES, JOB_NOTIFY
//	anything else               RESPONSE_SLURM_RC EINVAL
//
// node, load (hundredths) and freeMemory (MiB) are the node's own.
func Answer(request Type, node string, load uint32, freeMemory uint64) (typ Type, body []byte, ok bool) {
	switch request {
	case RequestNodeRegistration, RequestPing:
		return ResponsePing, AppendPing(nil, load, freeMemory), true
	case RequestAcctGatherUpdate:
		return ResponseAcctGatherUpdate, AppendAcctGather(nil, node), true
	case RequestBatchLaunch, RequestLaunchProlog,
		RequestTerminateJob, RequestAbortJob, RequestKillTimelimit, RequestKillPreempted,
		RequestSuspendInt, RequestSignalTasks, RequestTerminateTasks, RequestHealthCheck:
		return ResponseRC, AppendRC(nil, 0), true
	case RequestReconfigure, RequestReconfigureWithConfig, RequestShutdown,
		RequestRebootNodes, RequestJobNotify:
		return 0, nil, false
	}
	const einval = 22
	return ResponseRC, AppendRC(nil, einval), true
}
