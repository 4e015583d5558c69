package rpc

import (
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// JobInfo is slurmctld's record of a job, as "scontrol show job" prints it. Instants are seconds
// since the Unix epoch; 0 is "not set".
type JobInfo struct {
	JobID uint32
	// ArrayJobID is the number of the task's array; 0 for a job that is not a task. ArrayTaskID is
	// the task's index; [slurmspec.NoVal] for a job that is not a task. A record with ArrayJobID but
	// without an index stands for all tasks without their own record.
	ArrayJobID, ArrayTaskID uint32
	// ArrayTasks are the tasks without their own record, as a hexadecimal bit mask: see
	// [JobInfo.Waiting].
	ArrayTasks string

	// State is the base state; pending for a job that has returned to the queue.
	State hpc.State
	// Flags are the flags of the state: the Job constants of slurmspec.
	Flags  uint32
	Reason slurmspec.Reason
	// Description adds a text to Reason; often empty.
	Description string
	// Restarts is how often the job has returned to the queue.
	Restarts int

	// TimeLimit is in minutes; -1 for no limit. A job without its own limit has its partition's
	// limit.
	TimeLimit int
	// Submit is when the job was submitted or returned to the queue.
	Submit int64
	// Eligible is the earliest instant at which the job may start.
	Eligible int64
	// Start and End are the start and the end of the run. While the job runs, End is when its time
	// limit expires, or a year after Start without a limit. For a pending job, Start and End are the
	// scheduler's forecast, if there is one.
	Start, End int64
	// Suspended is when the job was last suspended or resumed. RunBeforeSuspend is how long the job
	// had run by then, in seconds.
	Suspended        int64
	RunBeforeSuspend int64

	// Nodes is the host list of the allocated nodes. For a completing job, Nodes lists the nodes whose epilog has not
	// ended. NodeCount and CPUs are the size of the allocation. Before an allocation, NodeCount and CPUs are the smallest
	// requested size.
	Nodes           string
	NodeCount, CPUs int

	Partition   string // a pending job may have several, separated by commas
	Account     string
	QOS         string
	Name        string
	UserID      uint32
	GroupID     uint32
	Reservation string
	Priority    uint32 // 0 for a held job

	// ExitCode is the script's status as wait(2) gives it. DerivedEC is the highest exit status of the
	// job's steps.
	ExitCode, DerivedEC uint32
	// TRESAlloc is the allocation, "cpu=4,mem=500M,node=1,billing=4"; empty without an allocation.
	TRESAlloc string
}

// Bits of a request that say what to show (slurm.h).
const (
	showAll    = uint16(1 << 0) // SHOW_ALL: also jobs of hidden partitions
	showDetail = uint16(1 << 1) // SHOW_DETAIL: also the resources on each node
)

// Requeued reports whether the job will run again after a finished run. It is in the queue again,
// or will be after its epilogs (job_requeue and batch_requeue_fini in job_mgr.c).
func (j *JobInfo) Requeued() bool {
	return j.Flags&(slurmspec.JobRequeue|slurmspec.JobRequeueHold|slurmspec.JobSpecialExit) != 0 ||
		j.State == hpc.Pending && j.Restarts > 0
}

// Waiting reports whether the record of an array includes the task with the given index.
func (j *JobInfo) Waiting(task int) bool {
	// The last digit contains the tasks 0 to 3 (bit_fmt_hexmask in common/bitstring.c).
	digits := strings.TrimPrefix(j.ArrayTasks, "0x")
	at := len(digits) - 1 - task/4
	if task < 0 || at < 0 {
		return false
	}
	digit, err := strconv.ParseUint(digits[at:at+1], 16, 8)
	return err == nil && digit>>(task%4)&1 == 1
}

// JobInfoRequest is the body of a [RequestJobInfoSingle]. The request covers jobs in hidden
// partitions, and omits the resources on each node.
//
// slurmctld answers with a [ResponseJobInfo]. For a job, the answer has one record. For an array, the answer has a
// record for each task with its own record, and one record for all other tasks. For a job that slurmctld does not know,
// or has forgotten (MinJobAge), the answer is a [ResponseRC] with [slurmspec.ErrInvalidJob].
type JobInfoRequest struct {
	Job uint32
}

func (m *JobInfoRequest) append(e *encoder) { e.protocol.own.jobInfoRequest(e, m) }

// appendJobInfoRequest follows _pack_job_ready_msg (slurm_protocol_pack.c).
func appendJobInfoRequest(e *encoder, m *JobInfoRequest) {
	e.U32(m.Job)
	e.U16(showAll)
}

// JobsInfoRequest is the body of a [RequestJobInfo] about several jobs. It requests the same
// details as [JobInfoRequest]. slurmctld answers with a [ResponseJobInfo], which omits jobs that
// slurmctld does not know. For an array's number, the answer has only the tasks without their own
// record.
type JobsInfoRequest struct {
	Jobs []uint32
}

// append follows _pack_job_info_request_msg (slurm_protocol_pack.c), which is the same in all
// versions.
func (m *JobsInfoRequest) append(e *encoder) {
	e.Time(0) // answer even if nothing has changed
	e.U16(showAll)
	e.U32(uint32(len(m.Jobs)))
	for _, job := range m.Jobs {
		e.U32(job)
	}
}

// DecodeJobInfo reads the reply to a [RequestJobInfo] or [RequestJobInfoSingle], in the version of
// the reply. A [ResponseRC] becomes an error that wraps its [slurmspec.Errno]. Records with
// details that the driver never requests, or of Cray's select plugin, are an error. The function
// follows pack_one_job and pack_job (slurmctld/job_mgr.c) and _unpack_job_info_members
// (slurm_protocol_pack.c).
func DecodeJobInfo(m *Message) ([]JobInfo, error) {
	if m.Type != ResponseJobInfo {
		return nil, refusal("a question about a job", m)
	}
	d, own, err := ownDecoder(m.Version, "a job's record", m.Body)
	if err != nil {
		return nil, err
	}
	n := d.Count(own.minJobInfo, "records")
	d.Time("time")
	d.Time("last backfill")
	jobs := make([]JobInfo, 0, n)
	for i := 0; i < n && d.Err() == nil; i++ {
		jobs = append(jobs, own.jobInfo(d))
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return jobs, nil
}

// jobInfoFields are the differences between job records of the versions before 24.11.
type jobInfoFields struct {
	since2311 bool // the layout of 23.11
}

// read reads one record, in the order of pack_job.
func (f jobInfoFields) read(d *decoder) JobInfo {
	var j JobInfo
	f.identity(d, &j)
	f.state(d, &j)
	f.times(d, &j)
	f.nodes(d, &j)
	f.end(d, &j)
	f.details(d, &j)
	d.jobTrailer(&j)
	return j
}

func (f jobInfoFields) identity(d *decoder, j *JobInfo) {
	j.ArrayJobID, j.ArrayTaskID = d.U32("array job id"), d.U32("array task id")
	j.ArrayTasks = d.Str("array tasks")
	d.U32("array limit")
	d.U32("association")
	d.Mem("container")
	if f.since2311 {
		d.Mem("container id")
	}
	d.U32("boot delay")
	if f.since2311 {
		d.Mem("failed node")
	}
	j.JobID = d.U32("job id")
	j.UserID, j.GroupID = d.U32("user"), d.U32("group")
	d.U32("heterogeneous job")
	d.Mem("heterogeneous job's components")
	d.U32("heterogeneous offset")
	d.U32("profile")
}

// jobState reads the state with its flags.
func (d *decoder) jobState(j *JobInfo) {
	state := d.U32("state")
	j.Flags = state &^ slurmspec.JobStateBase
	base, ok := slurmspec.BaseJobState(state)
	if !ok {
		d.Fail("there is no job state %d", state&slurmspec.JobStateBase)
	}
	j.State = base
}

// timeLimit reads the time limit.
func (d *decoder) timeLimit(j *JobInfo) {
	j.TimeLimit = int(d.U32("time limit"))
	if j.TimeLimit == int(slurmspec.Infinite) || j.TimeLimit == int(slurmspec.NoVal) {
		j.TimeLimit = -1
	}
}

func (f jobInfoFields) state(d *decoder, j *JobInfo) {
	d.jobState(j)
	d.U16("batch flag")
	if f.since2311 {
		j.Reason = slurmspec.Reason(d.U32("reason"))
	} else {
		j.Reason = slurmspec.Reason(d.U16("reason"))
	}
	d.U8("power flags")
	d.U8("reboot")
	j.Restarts = int(d.U16("restarts"))
	if flags := d.U16("show flags"); flags&showDetail != 0 {
		d.Fail("the record has details that were not requested (flags %#x)", flags)
	}
}

func (f jobInfoFields) times(d *decoder, j *JobInfo) {
	d.Time("deadline")
	d.U32("session")
	d.timeLimit(j)
	d.U32("least time")
	d.U32("nice")
	j.Submit, j.Eligible = d.Time("submit time"), d.Time("eligible time")
	d.Time("accrue time")
	j.Start, j.End = d.Time("start time"), d.Time("end time")
	j.Suspended, j.RunBeforeSuspend = d.Time("suspend time"), d.Time("time before suspension")
	for _, field := range []string{"resize time", "scheduling time", "preemption time"} {
		d.Time(field)
	}
	j.Priority = d.U32("priority")
	d.U64("billable resources")
}

func (f jobInfoFields) nodes(d *decoder, j *JobInfo) {
	d.Mem("cluster")
	j.Nodes = d.Str("nodes")
	d.Mem("scheduled nodes")
	j.Partition, j.Account = d.Str("partition"), d.Str("account")
	d.Mem("administrator's comment")
	d.U32("site factor")
	d.Skip("network", "comment")
	if f.since2311 {
		d.Mem("extra")
	}
	d.Skip("container", "batch features", "batch host",
		"burst buffer", "burst buffer state", "system comment")
	j.QOS = d.Str("qos")
	d.Time("preemptable time")
	d.Mem("licenses")
	j.Description = d.Str("state description")
	j.Reservation = d.Str("reservation")
	d.Mem("mcs label")
}

func (f jobInfoFields) end(d *decoder, j *JobInfo) {
	j.ExitCode, j.DerivedEC = d.U32("exit code"), d.U32("derived exit code")
	d.Mem("generic resources")
	d.noResources()
	j.Name = d.Str("name")
	d.Skip("user name", "wckey")
	d.U32("switches")
	d.U32("switch wait")
	d.Mem("submitting node")
	d.SkipBitmap("nodes")
	if f.since2311 {
		return
	}
	switch plugin := d.U32("select plugin"); plugin {
	case 101, 102, 106, 109: // numbers from SelectPluginID: plugins that add no data
	default:
		d.Fail("select plugin %d is not known", plugin)
	}
}

// noResources reads the part with the resources on each node. The driver never asks for these
// resources, so a record with them is an error.
func (d *decoder) noResources() {
	if resources := d.U32("resources"); d.Err() == nil && resources != slurmspec.NoVal {
		d.Fail("the record has resources that were not requested")
	}
	d.Strs("generic resources of nodes")
}

// details reads the fields about the job's request (_pack_default_job_details,
// _pack_pending_job_details in slurmctld/job_mgr.c).
func (f jobInfoFields) details(d *decoder, j *JobInfo) {
	d.Skip("features", "preferred features", "cluster features", "directory", "dependency", "command")
	j.CPUs = int(d.U32("cpus"))
	d.U32("most cpus")
	j.NodeCount = int(d.U32("node count"))
	d.U32("most nodes")
	if f.since2311 {
		d.SkipBitmap("sizes to choose from")
	}
	d.Take(3*2, "requeue and tasks per node and resource")
	d.U32("tasks")
	d.U16("shared")
	d.Take(3*4, "cpu frequency")
	d.Mem("crontab entry")
	d.Take(4*2, "contiguous, core specialization, cpus per task and node")
	d.U64("least memory")
	d.U32("least disk")
	d.jobPlacement()
}

// jobPlacement reads the requested nodes, the paths of the job's files and the topology.
func (d *decoder) jobPlacement() {
	d.Mem("requested nodes")
	d.SkipBitmap("requested nodes")
	d.Mem("excluded nodes")
	d.SkipBitmap("excluded nodes")
	d.Skip("stderr", "stdin", "stdout")
	switch full := d.U8("topology flag"); full {
	case 0:
	case 0xff:
		d.Take(9*2, "topology")
	default:
		d.Fail("the flag of the topology is %d (want 0 or 255)", full)
	}
}

func (d *decoder) jobTrailer(j *JobInfo) {
	d.U64("flags")
	j.TRESAlloc = d.Str("allocated resources")
	d.Mem("requested resources")
	d.U16("protocol version")
	d.Mem("federation's origin")
	for range 2 {
		d.U64("federation's siblings")
		d.Mem("federation's siblings")
	}
	d.Skip("cpus per resource", "memory per resource", "binding", "frequency",
		"resources of the job", "resources per node", "resources per socket", "resources per task")
	d.U16("mail type")
	d.Skip("mail user", "selinux context")
}
