package rpc

import "rmreplay/internal/slurmspec"

// Step ids that stand for something else than a numbered step (slurm.h). They are
// what running jobs and signals are named with.
const (
	StepPending     = uint32(0xfffffffd) // SLURM_PENDING_STEP
	StepExtern      = uint32(0xfffffffc) // SLURM_EXTERN_CONT
	StepBatch       = uint32(0xfffffffb) // SLURM_BATCH_SCRIPT
	StepInteractive = uint32(0xfffffffa) // SLURM_INTERACTIVE_STEP
)

// StepID names a step of a job, or with [slurmspec.NoVal] as Step the whole job.
type StepID struct {
	Job, Step uint32
	// HetComponent is slurmspec.NoVal but for the components of heterogeneous steps.
	HetComponent uint32
}

func (d *decoder) stepID() StepID {
	return StepID{Job: d.u32("job id"), Step: d.u32("step id"), HetComponent: d.u32("step component")}
}

func (e *encoder) stepID(s StepID) {
	e.u32(s.Job)
	e.u32(s.Step)
	e.u32(s.HetComponent)
}

// Batch names the batch script of a job, as a node lists it among what runs there.
func Batch(job uint32) StepID {
	return StepID{Job: job, Step: StepBatch, HetComponent: slurmspec.NoVal}
}

// Run is a value for so many nodes in a row: Slurm's form of per-node lists.
type Run struct {
	Value uint64
	Nodes uint32
}

// CPUs adds up the values of all nodes.
func CPUs(runs []Run) int {
	var n uint64
	for _, r := range runs {
		n += r.Value * uint64(r.Nodes)
	}
	return int(n)
}

// BatchLaunch is a batch script for the first node of a job. The node is to answer
// with [ResponseRC] 0 at once and to send [BatchComplete] when the script has ended.
// A rejection, any other code than 0, ends the job
// (_thread_per_group_rpc in slurmctld/agent.c).
type BatchLaunch struct {
	JobID    uint32
	HetJobID uint32 // 0 if the job is not a component of a heterogeneous one
	UID, GID uint32
	UserName string // empty unless the controller sends it
	// Partition, Account, QOS and Reservation are where the job runs.
	Partition, Account, QOS, Reservation string
	Tasks                                uint32
	MinMemory                            uint64 // per node, or per CPU with its top bit set; MiB
	JobMemory                            uint64 // limit on this node, MiB; 0 for none
	Overcommit                           bool
	// ArrayJobID and ArrayTaskID say which task of which array this is; ArrayJobID is
	// 0 and ArrayTaskID [slurmspec.NoVal] if it is none.
	ArrayJobID, ArrayTaskID uint32
	CPUsPerTask             uint16
	RestartCount            uint16
	CoreSpec                uint16
	// CPUsPerNode are the allocated CPUs of the job's nodes, in the order of Nodes.
	CPUsPerNode []Run
	// Nodes is the host list of the job's nodes; the script runs on the first.
	Nodes                          string
	Script, WorkDir                string
	StdErr, StdIn, StdOut          string
	Args, Environment, SpankJobEnv []string
	// Credential is the job's credential.
	Credential Credential
}

// DecodeBatchLaunch reads the body of a [RequestBatchLaunch]. It follows
// _unpack_batch_job_launch_msg (slurm_protocol_pack.c), which reads the fields in
// the same order in all three versions but for the container (not in 20.11), the
// checkpoint directories (only there) and the credential's version (only in 22.05).
func DecodeBatchLaunch(v Version, body []byte) (*BatchLaunch, error) {
	d := decoderOf(v, "a batch launch", body)
	m := d.protocol.batchLaunch(d)
	return m, d.finish()
}

// launchFields are the fields of a batch launch that not every version has.
type launchFields struct {
	container         bool
	checkpointDirs    bool
	credentialVersion bool // the credential is preceded by its version
}

func (f launchFields) read(d *decoder) *BatchLaunch {
	m := &BatchLaunch{
		JobID:    d.u32("job id"),
		HetJobID: d.u32("het job id"),
		UID:      d.u32("uid"),
		GID:      d.u32("gid"),
		UserName: d.str("user name"),
	}
	d.u32s("gids")
	m.Partition = d.str("partition")
	m.Tasks = d.u32("tasks")
	m.MinMemory = d.u64("minimum memory")
	d.u8("open mode")
	m.Overcommit = d.u8("overcommit") != 0
	m.ArrayJobID = d.u32("array job id")
	m.ArrayTaskID = d.u32("array task id")
	d.str("accounting frequency")
	if f.container {
		d.str("container")
	}
	d.u16("cpu bind type")
	m.CPUsPerTask = d.u16("cpus per task")
	m.RestartCount = d.u16("restart count")
	m.CoreSpec = d.u16("core spec")
	if groups := d.u32("cpu groups"); groups != 0 {
		m.CPUsPerNode = d.runs16("cpus per node")
	}
	d.str("alias list")
	d.str("cpu bind")
	m.Nodes = d.str("nodes")
	m.Script = d.str("script")
	m.WorkDir = d.str("work dir")
	if f.checkpointDirs {
		d.str("checkpoint dir")
		d.str("restart dir")
	}
	m.StdErr = d.str("stderr")
	m.StdIn = d.str("stdin")
	m.StdOut = d.str("stdout")
	d.u32("argument count")
	m.Args = d.strs("arguments")
	m.SpankJobEnv = d.strs("spank environment")
	d.u32("environment count")
	m.Environment = d.strs("environment")
	m.JobMemory = d.u64("job memory")
	if f.credentialVersion {
		m.Credential = d.credentialOf(Version(d.u16("credential version")))
	} else {
		m.Credential = d.credential()
	}
	d.selectInfo()
	m.Account = d.str("account")
	m.QOS = d.str("qos")
	m.Reservation = d.str("reservation")
	d.u32("profile")
	d.str("tres bind")
	d.str("tres freq")
	return m
}

// runs16 reads two arrays of the same length: 16-bit values and how many nodes have
// each of them.
func (d *decoder) runs16(field string) []Run {
	values, reps := d.u16s(field), d.u32s(field+" repetitions")
	if d.err == nil && len(values) != len(reps) {
		d.fail("%s has %d values and %d repetitions", field, len(values), len(reps))
	}
	if d.err != nil {
		return nil
	}
	runs := make([]Run, len(values))
	for i := range values {
		runs[i] = Run{Value: uint64(values[i]), Nodes: reps[i]}
	}
	return runs
}

func (d *decoder) runs64(field string) []Run {
	values, reps := d.u64s(field), d.u32s(field+" repetitions")
	if d.err == nil && len(values) != len(reps) {
		d.fail("%s has %d values and %d repetitions", field, len(values), len(reps))
	}
	if d.err != nil {
		return nil
	}
	runs := make([]Run, len(values))
	for i := range values {
		runs[i] = Run{Value: values[i], Nodes: reps[i]}
	}
	return runs
}

// selectInfo skips the select plugin's data: the plugin's id, and nothing more for
// every plugin but the retired ones for Cray machines (select.c).
func (d *decoder) selectInfo() { d.u32("select plugin") }

// PrologLaunch tells a node that a job is about to run there
// (PrologFlags=Alloc). The node is to answer with [ResponseRC] 0 at once, and to send
// [PrologComplete] when its prolog has ended; the job's script is launched only then
// (_rpc_prolog in slurmd/req.c).
type PrologLaunch struct {
	JobID, HetJobID uint32
	UID, GID        uint32
	UserName        string
	Nodes           string // the job's nodes
	WorkDir         string
	Credential      Credential
}

// DecodePrologLaunch reads the body of a [RequestLaunchProlog]. It follows
// _unpack_prolog_launch_msg (slurm_protocol_pack.c); versions before 22.05 have the
// partition in addition.
func DecodePrologLaunch(v Version, body []byte) (*PrologLaunch, error) {
	d := decoderOf(v, "a prolog launch", body)
	m := d.protocol.prologLaunch(d)
	return m, d.finish()
}

// prologFields are the fields of a prolog launch that not every version has.
type prologFields struct{ partition bool }

func (f prologFields) read(d *decoder) *PrologLaunch {
	d.gresAlloc()
	m := &PrologLaunch{
		JobID:    d.u32("job id"),
		HetJobID: d.u32("het job id"),
		UID:      d.u32("uid"),
		GID:      d.u32("gid"),
	}
	d.str("alias list")
	m.Nodes = d.str("nodes")
	if f.partition {
		d.str("partition")
	}
	d.str("stderr")
	d.str("stdout")
	m.WorkDir = d.str("work dir")
	d.u16("x11")
	d.str("x11 host")
	d.u16("x11 port")
	d.str("x11 cookie")
	d.str("x11 target")
	d.u16("x11 target port")
	d.strs("spank environment")
	m.Credential = d.credential()
	m.UserName = d.str("user name")
	return m
}

// KillJob tells the nodes of a job to end it. Every one of the four types is
// answered with [ResponseRC] 0 at once. What follows (slurmd/req.c):
//
//   - [RequestTerminateJob]: the job's script is sent SIGTERM, and after KillWait
//     seconds SIGKILL; then each node runs its epilog and sends [EpilogComplete]. It
//     is also what comes when the script has ended by itself. A node where nothing of
//     the job runs and that has no epilog may answer [slurmspec.ErrKillJobAlreadyComplete]
//     instead, which counts as its epilog complete.
//   - [RequestKillTimelimit], [RequestKillPreempted]: the same, after a note to the
//     script's standard error (_rpc_timelimit). The job is already in its final
//     state, or back in the queue, and only waits for the epilogs.
//   - [RequestAbortJob]: SIGKILL at once; no step or batch completion is sent, the
//     epilog runs and is reported (_rpc_abort_job).
//
// slurmctld repeats the message to nodes whose epilog is not reported.
type KillJob struct {
	StepID   StepID
	HetJobID uint32
	// State is the job's state with its flags (enum job_states in slurm.h).
	State uint32
	UID   uint32
	GID   uint32
	// Nodes is the host list of the nodes that are still to end the job.
	Nodes string
	// Start is when the job started and Time when the message was made, in seconds
	// since the Unix epoch.
	Start, Time int64
	// Details says in words why, for the job's standard error.
	Details string
	// DerivedExit and Exit are the job's exit codes as wait(2) gives them;
	// Exit is [slurmspec.Infinite] in versions that do not say.
	DerivedExit, Exit uint32
	WorkDir           string
	// Credential is nil if the message carries none.
	Credential *Credential
}

// JobState is the state without its flags.
func (m *KillJob) JobState() uint32 { return m.State & 0xff }

// DecodeKillJob reads the body of a [RequestTerminateJob], [RequestKillTimelimit],
// [RequestKillPreempted] or [RequestAbortJob]. It follows _unpack_kill_job_msg
// (slurm_protocol_pack.c).
func DecodeKillJob(v Version, body []byte) (*KillJob, error) {
	d := decoderOf(v, "a job kill", body)
	m := d.protocol.killJob(d)
	return m, d.finish()
}

// killFields are the fields of a kill message that not every version has.
type killFields struct {
	credential bool // it begins with a credential, details and exit codes
	workDir    bool
}

func (f killFields) read(d *decoder) *KillJob {
	m := &KillJob{Exit: slurmspec.Infinite}
	if f.credential {
		if d.u8("credential flag") != 0 {
			c := d.credential()
			m.Credential = &c
		}
		m.Details = d.str("details")
		m.DerivedExit = d.u32("derived exit code")
		m.Exit = d.u32("exit code")
	}
	d.gresAlloc()
	m.StepID = d.stepID()
	m.HetJobID = d.u32("het job id")
	m.State = d.u32("job state")
	m.UID = d.u32("uid")
	m.GID = d.u32("gid")
	m.Nodes = d.str("nodes")
	d.selectInfo()
	d.strs("spank environment")
	m.Start = d.time("start time")
	m.Time = d.time("time")
	if f.workDir {
		m.WorkDir = d.str("work dir")
	}
	return m
}

// Suspend is to stop or to continue the processes of a job. The nodes answer with
// [ResponseRC] 0 and send nothing later (_rpc_suspend_job in slurmd/req.c).
type Suspend struct {
	JobID uint32
	// Resume says to continue them.
	Resume bool
	// Indefinite says that the suspension is by an administrator, not by gang
	// scheduling, so the job's CPUs are freed.
	Indefinite bool
	CoreSpec   uint16
}

// DecodeSuspend reads the body of a [RequestSuspendInt]. It follows
// _unpack_suspend_int_msg (slurm_protocol_pack.c). What a switch plugin adds at the
// end (none of those in use does) is not read.
func DecodeSuspend(_ Version, body []byte) (*Suspend, error) {
	d := newDecoder("a suspend request", body)
	m := &Suspend{
		Indefinite: d.u8("indefinite") != 0,
		CoreSpec:   d.u16("core spec"),
		JobID:      d.u32("job id"),
	}
	const suspend, resume = 0, 1 // enum suspend_opts
	switch op := d.u16("operation"); op {
	case suspend:
	case resume:
		m.Resume = true
	default:
		d.fail("operation %d is neither suspend (0) nor resume (1)", op)
	}
	return m, d.err
}

// Flags of [Signal] and [KillRequest] (slurm.h).
const (
	KillBatch      = uint16(1 << 0) // KILL_JOB_BATCH: only the batch script
	KillArray      = uint16(1 << 1) // KILL_JOB_ARRAY: every task of an array
	KillStepsOnly  = uint16(1 << 2) // KILL_STEPS_ONLY: the steps, not the batch script
	KillFull       = uint16(1 << 3) // KILL_FULL_JOB: all steps and the batch script
	KillFedRequeue = uint16(1 << 4) // KILL_FED_REQUEUE
	KillHurry      = uint16(1 << 5) // KILL_HURRY: no burst buffer stage-out
	KillOOM        = uint16(1 << 6) // KILL_OOM: for want of memory
	KillNoSiblings = uint16(1 << 7) // KILL_NO_SIBS: not those in other clusters
	KillResv       = uint16(1 << 8) // KILL_JOB_RESV: the warning only if a reservation wants the nodes
)

// Signal is a signal for the processes of a job: that of a user's
// "scancel --signal", or the warning before the time limit that "sbatch --signal"
// asked for. It ends no job by itself; whether the script survives it is the script's
// affair. The nodes answer with [ResponseRC] 0, or with ESRCH (3) if nothing is there
// to be signalled, which the controller also takes for success.
type Signal struct {
	StepID StepID
	Flags  uint16 // Kill constants
	Signal uint16 // a signal(7) number, or one of Slurm's own from 990 up
}

// DecodeSignal reads the body of a [RequestSignalTasks] or [RequestTerminateTasks].
// It follows _unpack_cancel_tasks_msg (slurm_protocol_pack.c).
func DecodeSignal(_ Version, body []byte) (*Signal, error) {
	d := newDecoder("a signal request", body)
	m := &Signal{StepID: d.stepID(), Flags: d.u16("flags"), Signal: d.u16("signal")}
	return m, d.finish()
}

// Reboot asks for the reboot of nodes. It is not answered; a node that went through
// it registers again with a boot time after the request (_rpc_reboot in
// slurmd/req.c, validate_node_specs in node_mgr.c).
type Reboot struct {
	Nodes     string
	Features  string // node features to boot with
	NextState uint32 // state after the reboot, or [slurmspec.NoVal]
	Flags     uint16
	Reason    string
}

// DecodeReboot reads the body of a [RequestRebootNodes]. It follows
// _unpack_reboot_msg (slurm_protocol_pack.c).
func DecodeReboot(_ Version, body []byte) (*Reboot, error) {
	d := newDecoder("a reboot request", body)
	m := &Reboot{
		Features:  d.str("features"),
		Flags:     d.u16("flags"),
		NextState: d.u32("next state"),
		Nodes:     d.str("nodes"),
		Reason:    d.str("reason"),
	}
	return m, d.finish()
}

// Notify is a message of "scontrol notify" for a job's standard error. It is not
// answered.
type Notify struct {
	StepID  StepID
	Message string
}

// DecodeNotify reads the body of a [RequestJobNotify]. It follows
// _unpack_job_notify (slurm_protocol_pack.c).
func DecodeNotify(_ Version, body []byte) (*Notify, error) {
	d := newDecoder("a job notification", body)
	m := &Notify{StepID: d.stepID(), Message: d.str("message")}
	return m, d.finish()
}
