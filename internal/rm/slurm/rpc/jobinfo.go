package rpc

import (
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// JobInfo is what slurmctld knows of a job, as "scontrol show job" prints it. Instants
// are seconds since the Unix epoch; 0 is "not set".
type JobInfo struct {
	JobID uint32
	// ArrayJobID is the number of the array that the job is a task of, 0 if of none.
	// ArrayTaskID is the task's index, [slurmspec.NoVal] if the job is no task: a record with
	// ArrayJobID and without a task stands for all the tasks that have not been split off.
	ArrayJobID, ArrayTaskID uint32
	// ArrayTasks are those tasks, as a mask of bits in hexadecimal: [JobInfo.Waiting].
	ArrayTasks string

	// State is the base state, pending for a job that has gone back to the queue.
	State hpc.State
	// Flags are what is said of the state: the Job constants of slurmspec.
	Flags  uint32
	Reason slurmspec.Reason
	// Description says more about Reason, if there is more to say.
	Description string
	// Restarts counts the times that the job has gone back to the queue.
	Restarts int

	// TimeLimit is in minutes, -1 for no limit. A job without one of its own has that of
	// its partition.
	TimeLimit int
	// Submit is when the job was submitted, or went back to the queue.
	Submit int64
	// Eligible is when the job may start at the earliest.
	Eligible int64
	// Start and End are those of the run; while the job runs, End is when its time limit
	// ends it, or a year after Start without one. Of a pending job they are what the
	// scheduler expects, if it does.
	Start, End int64
	// Suspended is when the job was last suspended or resumed, and RunBeforeSuspend how
	// many seconds it had run by then.
	Suspended        int64
	RunBeforeSuspend int64

	// Nodes is the host list of the allocated nodes; of a job that completes, of those
	// that have not said that they are done. NodeCount and CPUs are what is allocated, or
	// if nothing is, what is asked for at least.
	Nodes           string
	NodeCount, CPUs int

	Partition   string // of a pending job perhaps several, separated by commas
	Account     string
	QOS         string
	Name        string
	UserID      uint32
	GroupID     uint32
	Reservation string
	Priority    uint32 // 0 is held

	// ExitCode is the script's status as wait(2) gives it, and DerivedEC the highest of
	// the job's steps.
	ExitCode, DerivedEC uint32
	// TRESAlloc is what is allocated: "cpu=4,mem=500M,node=1,billing=4"; "" for nothing.
	TRESAlloc string
}

// Bits of a request that say what to show (slurm.h).
const (
	showAll    = uint16(1 << 0) // SHOW_ALL: hidden partitions too
	showDetail = uint16(1 << 1) // SHOW_DETAIL: what is allocated on each node
)

// Requeued reports whether the job, of which a run has ended, is to run again: it is
// back in the queue, or will be when its nodes are done with it (job_requeue and
// batch_requeue_fini in job_mgr.c).
func (j *JobInfo) Requeued() bool {
	return j.Flags&(slurmspec.JobRequeue|slurmspec.JobRequeueHold|slurmspec.JobSpecialExit) != 0 || j.State == hpc.Pending && j.Restarts > 0
}

// Waiting reports whether a record of an array stands for the task.
func (j *JobInfo) Waiting(task int) bool {
	// The last digit has the tasks 0 to 3 (bit_fmt_hexmask in common/bitstring.c).
	digits := strings.TrimPrefix(j.ArrayTasks, "0x")
	at := len(digits) - 1 - task/4
	if task < 0 || at < 0 {
		return false
	}
	digit, err := strconv.ParseUint(digits[at:at+1], 16, 8)
	return err == nil && digit>>(task%4)&1 == 1
}

// AppendJobInfoRequest appends the body of a [RequestJobInfoSingle] to dst. The answer
// is a [ResponseJobInfo] with the job's record, of an array the records of its tasks
// and of what is left of it, or a [ResponseRC] with [slurmspec.ErrInvalidJob] for a job that
// slurmctld does not have, or has forgotten (MinJobAge). It follows _pack_job_ready_msg
// (slurm_protocol_pack.c). Jobs of hidden partitions are included; the list of what is
// allocated on each node is not asked for.
func AppendJobInfoRequest(dst []byte, job uint32) []byte {
	e := encoder{b: dst}
	e.u32(job)
	e.u16(showAll)
	return e.b
}

// DecodeJobInfo reads the reply to a [RequestJobInfoSingle], in the version of the reply. A
// [ResponseRC] is an error that wraps its [slurmspec.Errno]. It follows pack_one_job and pack_job
// (slurmctld/job_mgr.c), _unpack_job_info_members (slurm_protocol_pack.c). Records with
// details that the request did not ask for, and those of Cray's select plugin, are an
// error.
func DecodeJobInfo(m *Message) ([]JobInfo, error) {
	if m.Type != ResponseJobInfo {
		return nil, refusal("a question about a job", m)
	}
	d, own, err := ownDecoder(m.Version, "a job's record", m.Body)
	if err != nil {
		return nil, err
	}
	n := d.count(leastJobInfo, "records")
	d.time("time")
	d.time("last backfill")
	jobs := make([]JobInfo, 0, n)
	for i := 0; i < n && d.err == nil; i++ {
		jobs = append(jobs, own.jobInfo(d))
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return jobs, nil
}

// leastJobInfo is how many bytes a record takes at least: all of its strings empty.
const leastJobInfo = 500

// jobInfo reads one record, in the order of pack_job.
func (d *decoder) jobInfo() JobInfo {
	var j JobInfo
	d.jobIdentity(&j)
	d.jobState(&j)
	d.jobTimes(&j)
	d.jobPlace(&j)
	d.jobEnd(&j)
	d.jobDetails(&j)
	d.jobTrailer(&j)
	return j
}

func (d *decoder) jobIdentity(j *JobInfo) {
	j.ArrayJobID, j.ArrayTaskID = d.u32("array job id"), d.u32("array task id")
	j.ArrayTasks = d.str("array tasks")
	d.u32("array limit")
	d.u32("association")
	d.mem("container")
	d.u32("boot delay")
	j.JobID = d.u32("job id")
	j.UserID, j.GroupID = d.u32("user"), d.u32("group")
	d.u32("heterogeneous job")
	d.mem("heterogeneous job's components")
	d.u32("heterogeneous offset")
	d.u32("profile")
}

func (d *decoder) jobState(j *JobInfo) {
	state := d.u32("state")
	j.Flags = state &^ slurmspec.JobStateBase
	base, ok := slurmspec.BaseJobState(state)
	if !ok {
		d.fail("there is no job state %d", state&slurmspec.JobStateBase)
	}
	j.State = base
	d.u16("batch flag")
	j.Reason = slurmspec.Reason(d.u16("reason"))
	d.u8("power flags")
	d.u8("reboot")
	j.Restarts = int(d.u16("restarts"))
	if flags := d.u16("show flags"); flags&showDetail != 0 {
		d.fail("it has details that were not asked for (flags %#x)", flags)
	}
}

func (d *decoder) jobTimes(j *JobInfo) {
	d.time("deadline")
	d.u32("session")
	j.TimeLimit = int(d.u32("time limit"))
	if j.TimeLimit == int(slurmspec.Infinite) || j.TimeLimit == int(slurmspec.NoVal) {
		j.TimeLimit = -1
	}
	d.u32("least time")
	d.u32("nice")
	j.Submit, j.Eligible = d.time("submit time"), d.time("eligible time")
	d.time("accrue time")
	j.Start, j.End = d.time("start time"), d.time("end time")
	j.Suspended, j.RunBeforeSuspend = d.time("suspend time"), d.time("time before suspension")
	for _, field := range []string{"resize time", "scheduling time", "preemption time"} {
		d.time(field)
	}
	j.Priority = d.u32("priority")
	d.u64("billable resources")
}

func (d *decoder) jobPlace(j *JobInfo) {
	d.mem("cluster")
	j.Nodes = d.str("nodes")
	d.mem("scheduled nodes")
	j.Partition, j.Account = d.str("partition"), d.str("account")
	d.mem("administrator's comment")
	d.u32("site factor")
	d.skip("network", "comment", "container", "batch features", "batch host",
		"burst buffer", "burst buffer state", "system comment")
	j.QOS = d.str("qos")
	d.time("preemptable time")
	d.mem("licenses")
	j.Description = d.str("state description")
	j.Reservation = d.str("reservation")
	d.mem("mcs label")
}

func (d *decoder) jobEnd(j *JobInfo) {
	j.ExitCode, j.DerivedEC = d.u32("exit code"), d.u32("derived exit code")
	d.mem("generic resources")
	if resources := d.u32("resources"); d.err == nil && resources != slurmspec.NoVal {
		d.fail("it has resources that were not asked for")
	}
	d.strs("generic resources of nodes")
	j.Name = d.str("name")
	d.skip("user name", "wckey")
	d.u32("switches")
	d.u32("switch wait")
	d.mem("submitting node")
	d.bitmap("nodes")
	switch plugin := d.u32("select plugin"); plugin {
	case 101, 102, 106, 109: // as SelectPluginID has them; they add nothing
	default:
		d.fail("select plugin %d is not known", plugin)
	}
}

// jobDetails reads what the record has of the request (_pack_default_job_details,
// _pack_pending_job_details in slurmctld/job_mgr.c).
func (d *decoder) jobDetails(j *JobInfo) {
	d.skip("features", "preferred features", "cluster features", "directory", "dependency", "command")
	j.CPUs = int(d.u32("cpus"))
	d.u32("most cpus")
	j.NodeCount = int(d.u32("node count"))
	d.u32("most nodes")
	d.take(3*2, "requeue and tasks per node and resource")
	d.u32("tasks")
	d.u16("shared")
	d.take(3*4, "cpu frequency")
	d.mem("crontab entry")
	d.take(4*2, "contiguous, core specialization, cpus per task and node")
	d.u64("least memory")
	d.u32("least disk")
	d.mem("requested nodes")
	d.bitmap("requested nodes")
	d.mem("excluded nodes")
	d.bitmap("excluded nodes")
	d.skip("stderr", "stdin", "stdout")
	switch full := d.u8("topology flag"); full {
	case 0:
	case 0xff:
		d.take(9*2, "topology")
	default:
		d.fail("the flag of the topology is %d (want 0 or 255)", full)
	}
}

func (d *decoder) jobTrailer(j *JobInfo) {
	d.u64("flags")
	j.TRESAlloc = d.str("allocated resources")
	d.mem("requested resources")
	d.u16("protocol version")
	d.mem("federation's origin")
	for range 2 {
		d.u64("federation's siblings")
		d.mem("federation's siblings")
	}
	d.skip("cpus per resource", "memory per resource", "binding", "frequency",
		"resources of the job", "resources per node", "resources per socket", "resources per task")
	d.u16("mail type")
	d.skip("mail user", "selinux context")
}

// skip passes over strings that nobody needs.
func (d *decoder) skip(fields ...string) {
	for _, field := range fields {
		d.mem(field)
	}
}
