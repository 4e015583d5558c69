package rpc

import "rmreplay/internal/slurmspec"

// Special step ids (slurm.h). Lists of running steps and signals use them.
const (
	StepPending     = uint32(0xfffffffd) // SLURM_PENDING_STEP
	StepExtern      = uint32(0xfffffffc) // SLURM_EXTERN_CONT
	StepBatch       = uint32(0xfffffffb) // SLURM_BATCH_SCRIPT
	StepInteractive = uint32(0xfffffffa) // SLURM_INTERACTIVE_STEP
)

// StepID names a step of a job. If Step is [slurmspec.NoVal], StepID names the whole job.
type StepID struct {
	Job, Step uint32
	// HetComponent is [slurmspec.NoVal], except for the components of heterogeneous steps.
	HetComponent uint32
}

func readStepID(d *decoder) StepID {
	return StepID{Job: d.U32("job id"), Step: d.U32("step id"), HetComponent: d.U32("step component")}
}

func appendStepID(e *encoder, s StepID) {
	e.U32(s.Job)
	e.U32(s.Step)
	e.U32(s.HetComponent)
}

// Batch returns the step that represents a job's batch script in a node's list of steps.
func Batch(job uint32) StepID {
	return StepID{Job: job, Step: StepBatch, HetComponent: slurmspec.NoVal}
}

// Run is a value that several consecutive nodes share. Slurm sends lists with a value for each
// node in this form.
type Run struct {
	Value uint64
	Nodes uint32 // the number of nodes that have the value
}

// CPUs returns the sum of the values of all nodes.
func CPUs(runs []Run) int {
	var n uint64
	for _, r := range runs {
		n += r.Value * uint64(r.Nodes)
	}
	return int(n)
}

// BatchLaunch is the body of a [RequestBatchLaunch], with which slurmctld sends a job's batch
// script to the job's first node. The node must answer with [ResponseRC] 0 at once, and send
// [BatchComplete] when the script has ended. Any other code ends the job (_thread_per_group_rpc in
// slurmctld/agent.c).
type BatchLaunch struct {
	JobID    uint32
	HetJobID uint32 // 0 if the job is not a component of a heterogeneous job
	UID, GID uint32
	UserName string // empty unless slurmctld sends it
	// Partition, Account, QOS and Reservation are the names that apply to the job's run.
	Partition, Account, QOS, Reservation string
	Tasks                                uint32
	MinMemory                            uint64 // MiB per node; MiB per CPU if its top bit is set
	JobMemory                            uint64 // limit on this node, MiB; 0 for none
	Overcommit                           bool
	// ArrayJobID and ArrayTaskID name the array and the task. For a job that is not a task,
	// ArrayJobID is 0 and ArrayTaskID is [slurmspec.NoVal].
	ArrayJobID, ArrayTaskID uint32
	CPUsPerTask             uint16
	RestartCount            uint16
	CoreSpec                uint16
	// CPUsPerNode are the allocated CPUs on the job's nodes, in the order of Nodes.
	CPUsPerNode []Run
	// Nodes is the host list of the job's nodes. The script runs on the first node.
	Nodes                          string
	Script, WorkDir                string
	StdErr, StdIn, StdOut          string
	Args, Environment, SpankJobEnv []string
	Credential                     Credential
}

// DecodeBatchLaunch reads the body of a [RequestBatchLaunch]. It follows
// _unpack_batch_job_launch_msg (slurm_protocol_pack.c).
func DecodeBatchLaunch(v Version, body []byte) (*BatchLaunch, error) {
	return decodeIn(v, "a batch launch", body, func(d *decoder) *BatchLaunch { return d.protocol.batchLaunch(d) })
}

// launchFields are the fields of a batch launch that only some versions have.
type launchFields struct {
	user              bool // user and group, which newer versions read from the credential
	container         bool
	checkpointDirs    bool
	aliases           bool
	credentialVersion bool // the version of the credential is sent before the credential
	selectPlugin      bool
	cpuFrequency      bool // the CPU frequency, and whether running out of memory ends a whole step
}

func (f launchFields) read(d *decoder) *BatchLaunch {
	m := &BatchLaunch{JobID: d.U32("job id"), HetJobID: d.U32("het job id")}
	if f.user {
		m.UID, m.GID = d.U32("uid"), d.U32("gid")
		m.UserName = d.Str("user name")
	}
	d.U32s("gids")
	m.Partition = d.Str("partition")
	m.Tasks = d.U32("tasks")
	m.MinMemory = d.U64("minimum memory")
	d.U8("open mode")
	m.Overcommit = d.U8("overcommit") != 0
	m.ArrayJobID = d.U32("array job id")
	m.ArrayTaskID = d.U32("array task id")
	d.Str("accounting frequency")
	if f.container {
		d.Str("container")
	}
	d.U16("cpu bind type")
	m.CPUsPerTask = d.U16("cpus per task")
	m.RestartCount = d.U16("restart count")
	m.CoreSpec = d.U16("core spec")
	if groups := d.U32("cpu groups"); groups != 0 {
		m.CPUsPerNode = d.runs16("cpus per node")
	}
	if f.aliases {
		d.Str("alias list")
	}
	d.Str("cpu bind")
	m.Nodes = d.Str("nodes")
	m.Script = d.Str("script")
	m.WorkDir = d.Str("work dir")
	if f.checkpointDirs {
		d.Str("checkpoint dir")
		d.Str("restart dir")
	}
	m.StdErr = d.Str("stderr")
	m.StdIn = d.Str("stdin")
	m.StdOut = d.Str("stdout")
	d.U32("argument count")
	m.Args = d.Strs("arguments")
	m.SpankJobEnv = d.Strs("spank environment")
	d.U32("environment count")
	m.Environment = d.Strs("environment")
	m.JobMemory = d.U64("job memory")
	if f.credentialVersion {
		m.Credential = d.credentialOf(Version(d.U16("credential version")))
	} else {
		m.Credential = d.credential()
	}
	if !f.user {
		m.UID, m.GID, m.UserName = m.Credential.UID, m.Credential.GID, m.Credential.UserName
	}
	if f.selectPlugin {
		d.selectInfo()
	}
	m.Account = d.Str("account")
	m.QOS = d.Str("qos")
	m.Reservation = d.Str("reservation")
	d.U32("profile")
	d.Str("tres bind")
	d.Str("tres freq")
	if f.cpuFrequency {
		d.Take(3*4, "cpu frequency")
		d.U8("end of the step when out of memory")
	}
	return m
}

// runs16 reads two arrays of the same length: 16-bit values, and the number of nodes with each
// value.
func (d *decoder) runs16(field string) []Run {
	values, reps := d.U16s(field), d.U32s(field+" repetitions")
	if d.Err() == nil && len(values) != len(reps) {
		d.Fail("%s has %d values and %d repetitions", field, len(values), len(reps))
	}
	if d.Err() != nil {
		return nil
	}
	runs := make([]Run, len(values))
	for i := range values {
		runs[i] = Run{Value: uint64(values[i]), Nodes: reps[i]}
	}
	return runs
}

// runs64 reads runs of values of 64 bits.
func (d *decoder) runs64(field string) []Run {
	values, reps := d.U64s(field), d.U32s(field+" repetitions")
	if d.Err() == nil && len(values) != len(reps) {
		d.Fail("%s has %d values and %d repetitions", field, len(values), len(reps))
	}
	if d.Err() != nil {
		return nil
	}
	runs := make([]Run, len(values))
	for i := range values {
		runs[i] = Run{Value: values[i], Nodes: reps[i]}
	}
	return runs
}

// selectInfo skips the select plugin's data. Except for the retired Cray plugins (select.c), the
// data are only the plugin's id.
func (d *decoder) selectInfo() { d.U32("select plugin") }

// PrologLaunch is the body of a [RequestLaunchProlog]: a job is about to run on the node
// (PrologFlags=Alloc). The node must answer with [ResponseRC] 0 at once, and send
// [PrologComplete] when its prolog has ended (_rpc_prolog in slurmd/req.c).
type PrologLaunch struct {
	JobID, HetJobID uint32
	UID, GID        uint32
	UserName        string
	Nodes           string // the job's nodes
	WorkDir         string
	Credential      Credential
}

// DecodePrologLaunch reads the body of a [RequestLaunchProlog]. It follows
// _unpack_prolog_launch_msg (slurm_protocol_pack.c).
func DecodePrologLaunch(v Version, body []byte) (*PrologLaunch, error) {
	return decodeIn(v, "a prolog launch", body, func(d *decoder) *PrologLaunch { return d.protocol.prologLaunch(d) })
}

// prologFields are the fields of a prolog launch that only some versions have.
type prologFields struct {
	partition   bool
	output      bool // the paths of standard error and output
	userName    bool // the user's name, which newer versions read from the credential
	stepManager bool // the job's records, sent only to a node that manages the job's steps
}

func (f prologFields) read(d *decoder) *PrologLaunch {
	d.protocol.skipGRES.allocation(d)
	m := &PrologLaunch{
		JobID:    d.U32("job id"),
		HetJobID: d.U32("het job id"),
		UID:      d.U32("uid"),
		GID:      d.U32("gid"),
	}
	d.Str("alias list")
	m.Nodes = d.Str("nodes")
	if f.partition {
		d.Str("partition")
	}
	if f.output {
		d.Str("stderr")
		d.Str("stdout")
	}
	m.WorkDir = d.Str("work dir")
	d.U16("x11")
	d.Str("x11 host")
	d.U16("x11 port")
	d.Str("x11 cookie")
	d.Str("x11 target")
	d.U16("x11 target port")
	d.Strs("spank environment")
	m.Credential = d.credential()
	m.UserName = m.Credential.UserName
	if f.userName {
		m.UserName = d.Str("user name")
	}
	if f.stepManager && d.U8("step manager flag") != 0 {
		d.Skip("job record", "node records", "partition record")
	}
	return m
}

// KillJob is the body of four messages that end a job on its nodes. A node answers each of them
// with [ResponseRC] 0 at once. The node's later messages depend on the type (slurmd/req.c):
//
//   - [RequestTerminateJob]: slurmd sends SIGTERM to the job's script, and SIGKILL after KillWait
//     seconds. Then the node runs its epilog and sends [EpilogComplete]. slurmctld also sends this
//     message when the script has ended by itself. A node without an epilog that runs nothing of
//     the job may answer [slurmspec.ErrKillJobAlreadyComplete]. slurmctld counts this answer as
//     the node's EpilogComplete.
//   - [RequestKillTimelimit], [RequestKillPreempted]: the same, but first slurmd writes a message
//     to the script's standard error (_rpc_timelimit). slurmctld has put the job into its final
//     state, or back into the queue, and only waits for the epilogs.
//   - [RequestAbortJob]: slurmd sends SIGKILL at once. It does not report the end of steps and of
//     the script. slurmd runs the epilog and reports the epilog's end (_rpc_abort_job).
//
// slurmctld repeats the message to nodes that have not reported the end of their epilog.
type KillJob struct {
	StepID   StepID
	HetJobID uint32
	// State is the job's state with its flags (enum job_states in slurm.h).
	State uint32
	UID   uint32
	GID   uint32
	// Nodes is the host list of the nodes on which the job has not ended yet.
	Nodes string
	// Start is when the job started, and Time is when the message was made, in seconds since the Unix
	// epoch.
	Start, Time int64
	// Details is the reason in words, for the job's standard error.
	Details string
	// DerivedExit and Exit are the job's exit codes as wait(2) gives them. Exit is
	// [slurmspec.Infinite] in versions without it.
	DerivedExit, Exit uint32
	WorkDir           string
	// Credential is nil if the message carries none.
	Credential *Credential
}

// JobState returns the state without its flags.
func (m *KillJob) JobState() uint32 { return m.State & 0xff }

// DecodeKillJob reads the body of a [RequestTerminateJob], [RequestKillTimelimit],
// [RequestKillPreempted] or [RequestAbortJob]. It follows _unpack_kill_job_msg
// (slurm_protocol_pack.c). slurmctld may repeat the message in its own version. The credential
// then still has the node's version, which is the driver's (slurm_cred_pack).
func DecodeKillJob(v Version, body []byte) (*KillJob, error) {
	const what = "a job kill"
	m, err := decodeIn(v, what, body, func(d *decoder) *KillJob { return d.protocol.killJob(d) })
	release, _ := slurmspec.ReleaseOfProtocol(uint16(v))
	node := Version(release.DriverProtocol())
	if err == nil || node == 0 || node == v {
		return m, err
	}
	repeated, wrong := decodeIn(v, what, body, func(d *decoder) *KillJob {
		p := *d.protocol
		p.credential = func(d *decoder) Credential { return d.credentialOf(node) }
		d.protocol = &p
		return p.killJob(d)
	})
	if wrong != nil {
		return nil, err
	}
	return repeated, nil
}

// killFields are the fields of a kill message that only some versions have.
type killFields struct {
	credential   bool // the message begins with a credential, details and exit codes
	selectPlugin bool
	workDir      bool
}

func (f killFields) read(d *decoder) *KillJob {
	m := &KillJob{Exit: slurmspec.Infinite}
	if f.credential {
		if d.U8("credential flag") != 0 {
			c := d.credential()
			m.Credential = &c
		}
		m.Details = d.Str("details")
		m.DerivedExit = d.U32("derived exit code")
		m.Exit = d.U32("exit code")
	}
	d.protocol.skipGRES.allocation(d)
	m.StepID = d.stepID()
	m.HetJobID = d.U32("het job id")
	m.State = d.U32("job state")
	m.UID = d.U32("uid")
	m.GID = d.U32("gid")
	m.Nodes = d.Str("nodes")
	if f.selectPlugin {
		d.selectInfo()
	}
	d.Strs("spank environment")
	m.Start = d.Time("start time")
	m.Time = d.Time("time")
	if f.workDir {
		m.WorkDir = d.Str("work dir")
	}
	return m
}

// Suspend is the body of a [RequestSuspendInt], with which slurmctld stops or continues the
// processes of a job. The nodes answer with [ResponseRC] 0 and send nothing later
// (_rpc_suspend_job in slurmd/req.c).
type Suspend struct {
	JobID uint32
	// Resume continues the processes; otherwise they stop.
	Resume bool
	// Indefinite is set if an administrator suspends the job, which frees its CPUs. Gang scheduling
	// does not set it. Versions since 23.11 do not have it.
	Indefinite bool
	CoreSpec   uint16 // up to 23.02
}

// DecodeSuspend reads the body of a [RequestSuspendInt]. It follows _unpack_suspend_int_msg
// (slurm_protocol_pack.c). The decoder cannot read the data that a switch plugin may append, but
// no plugin in use appends any.
func DecodeSuspend(v Version, body []byte) (*Suspend, error) {
	return decodeIn(v, "a suspend request", body, func(d *decoder) *Suspend {
		m := d.protocol.suspend(d)
		d.Take(d.Left(), "switch plugin's data")
		return m
	})
}

func readSuspend(d *decoder) *Suspend {
	m := &Suspend{
		Indefinite: d.U8("indefinite") != 0,
		CoreSpec:   d.U16("core spec"),
		JobID:      d.U32("job id"),
	}
	m.Resume = d.resume()
	return m
}

// readSuspend2311 follows the layout since 23.11.
func readSuspend2311(d *decoder) *Suspend {
	return &Suspend{JobID: d.U32("job id"), Resume: d.resume()}
}

// resume reads the operation of a suspend request: true to continue, false to stop.
func (d *decoder) resume() bool {
	const suspend, resume = 0, 1 // enum suspend_opts
	op := d.U16("operation")
	if op != suspend && op != resume {
		d.Fail("operation %d is neither suspend (0) nor resume (1)", op)
	}
	return op == resume
}

// Flags of [Signal] and [KillRequest] (slurm.h).
const (
	KillBatch      = uint16(1 << 0) // KILL_JOB_BATCH: only the batch script
	KillArray      = uint16(1 << 1) // KILL_JOB_ARRAY: every task of an array
	KillStepsOnly  = uint16(1 << 2) // KILL_STEPS_ONLY: the steps, not the batch script
	KillFull       = uint16(1 << 3) // KILL_FULL_JOB: all steps and the batch script
	KillFedRequeue = uint16(1 << 4) // KILL_FED_REQUEUE: requeue in a federation
	KillHurry      = uint16(1 << 5) // KILL_HURRY: without staging out burst buffers
	KillOOM        = uint16(1 << 6) // KILL_OOM: the job ran out of memory
	KillNoSiblings = uint16(1 << 7) // KILL_NO_SIBS: not the sibling jobs in other clusters
	KillResv       = uint16(1 << 8) // KILL_JOB_RESV: warn only if a reservation needs the nodes
)

// Signal is the body of a [RequestSignalTasks] or a [RequestTerminateTasks]: a signal for the processes of a job. The
// signal comes from "scancel --signal", or is the warning before the time limit that "sbatch --signal" requests. The
// signal does not make slurmctld end the job. The nodes answer with [ResponseRC] 0, or with ESRCH (3) if they have no
// process of the job; slurmctld treats both as success.
type Signal struct {
	StepID StepID
	Flags  uint16 // Kill constants
	Signal uint16 // a signal(7) number, or one of Slurm's special numbers from 990 on
}

// DecodeSignal reads the body of a [RequestSignalTasks] or [RequestTerminateTasks]. It follows
// _unpack_cancel_tasks_msg (slurm_protocol_pack.c).
func DecodeSignal(v Version, body []byte) (*Signal, error) {
	return decodeIn(v, "a signal request", body, func(d *decoder) *Signal {
		return &Signal{StepID: d.stepID(), Flags: d.U16("flags"), Signal: d.U16("signal")}
	})
}

// Reboot is the body of a [RequestRebootNodes]: slurmctld asks nodes to reboot. A node does not
// answer; it registers again with a boot time after the request (_rpc_reboot in slurmd/req.c,
// validate_node_specs in node_mgr.c).
type Reboot struct {
	Nodes     string // host list
	Features  string // node features to boot with
	NextState uint32 // state after the reboot, or [slurmspec.NoVal]
	Flags     uint16
	Reason    string
}

// DecodeReboot reads the body of a [RequestRebootNodes]. It follows _unpack_reboot_msg
// (slurm_protocol_pack.c).
func DecodeReboot(v Version, body []byte) (*Reboot, error) {
	return decodeIn(v, "a reboot request", body, func(d *decoder) *Reboot { return d.protocol.reboot(d) })
}

func readReboot(d *decoder) *Reboot {
	return &Reboot{
		Features:  d.Str("features"),
		Flags:     d.U16("flags"),
		NextState: d.U32("next state"),
		Nodes:     d.Str("nodes"),
		Reason:    d.Str("reason"),
	}
}

// Notify is the body of a [RequestJobNotify]: a message of "scontrol notify" for a job's
// standard error. The node does not answer.
type Notify struct {
	StepID  StepID
	Message string
}

// DecodeNotify reads the body of a [RequestJobNotify]. It follows _unpack_job_notify
// (slurm_protocol_pack.c).
func DecodeNotify(v Version, body []byte) (*Notify, error) {
	return decodeIn(v, "a job notification", body, func(d *decoder) *Notify {
		return &Notify{StepID: d.stepID(), Message: d.Str("message")}
	})
}
