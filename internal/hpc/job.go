package hpc

import (
	"strings"
	"time"
)

// Unlimited is a time limit or a run time without end. A job with this run time runs until
// it reaches its time limit, is cancelled, or loses its nodes.
const Unlimited = time.Duration(1<<63 - 1)

// Job is one submission: what its user requests, and how the job behaves after its start. A job
// array is one Job with [Job.Array] set.
//
// In every field of the request a zero value means "not requested", so that the resource manager
// applies its own default. Some options are pointers, because for them zero is a request.
type Job struct {
	// ID is the job's name in the workload. It is unique there.
	ID string
	// Submit is when the user submits the job.
	Submit Time

	Request
	Behaviour

	// Recorded is what happened to the job when the workload was recorded; nil if unknown.
	Recorded *Recorded

	// Made names the fields of the request that were not recorded, but made by rules, each with its
	// rule: "time_limit=published,user=bursts". It is empty if all fields are recorded.
	Made string
}

// IsMade reports whether a rule made a field of the job.
func (j *Job) IsMade(field string) bool {
	return strings.HasPrefix(j.Made, field+"=") || strings.Contains(j.Made, ","+field+"=")
}

// Postpone moves the job's submission to a later instant. The instants of its begin time and of its cancellation do
// not change.
func (j *Job) Postpone(submit Time) {
	later := submit.Sub(j.Submit)
	j.Begin -= min(j.Begin, later)
	if j.CancelAfter > 0 {
		j.CancelAfter = max(j.CancelAfter-later, time.Second)
	}
	j.Submit = submit
}

// Request is what a submission asks for: the options of sbatch that affect scheduling. Each
// field's comment names its option.
type Request struct {
	Name      string // -J
	User      string // --uid, the submitting user
	Group     string // --gid; the user's own group when empty
	Account   string // -A
	Partition string // -p, one name or a comma list
	QOS       string // -q
	WCKey     string // --wckey

	Reservation string        // --reservation, one name or a comma list
	Dependency  string        // -d, with IDs of the workload: "afterok:ID:ID,singleton"
	Array       string        // -a, "1-10:2%3"
	Begin       time.Duration // -b, as a delay after Submit
	Deadline    time.Duration // --deadline, as a delay after Submit
	Hold        bool          // -H
	Priority    *uint32       // --priority, an explicit priority
	// AsOperator says that an operator submits the job on behalf of its user, because Slurm
	// honours an explicit priority only from operators and administrators.
	AsOperator bool
	Nice       int   // --nice
	Requeue    *bool // --requeue, --no-requeue

	TimeLimit time.Duration // -t; Unlimited for an infinite limit
	TimeMin   time.Duration // --time-min

	MinNodes, MaxNodes int // -N
	Tasks              int // -n
	TasksPerNode       int // --ntasks-per-node
	TasksPerSocket     int // --ntasks-per-socket
	TasksPerCore       int // --ntasks-per-core
	TasksPerGPU        int // --ntasks-per-gpu
	CPUsPerTask        int // -c
	MinCPUsPerNode     int // --mincpus
	SocketsPerNode     int // --sockets-per-node, -B
	CoresPerSocket     int // --cores-per-socket, -B
	ThreadsPerCore     int // --threads-per-core, -B
	CoreSpec           int // -S, cores reserved for the system
	ThreadSpec         int // --thread-spec

	MemPerNode int64 // --mem, MiB; AllMemory for --mem=0
	MemPerCPU  int64 // --mem-per-cpu, MiB
	MemPerGPU  int64 // --mem-per-gpu, MiB
	TmpDisk    int64 // --tmp, MiB per node

	GRES          string // --gres, per node: "gpu:a100:2,nvme:1"
	GPUs          string // -G, for the job: "8" or "a100:8"
	GPUsPerNode   string // --gpus-per-node
	GPUsPerSocket string // --gpus-per-socket
	GPUsPerTask   string // --gpus-per-task
	CPUsPerGPU    int    // --cpus-per-gpu
	GRESFlags     string // --gres-flags: "enforce-binding", "disable-binding"

	Constraint        string        // -C, features
	Prefer            string        // --prefer, features preferred
	ClusterConstraint string        // --cluster-constraint
	NodeList          string        // -w
	Exclude           string        // -x
	Exclusive         string        // --exclusive: "", "node", "user" or "mcs"
	Oversubscribe     bool          // -s
	Overcommit        bool          // -O
	Contiguous        bool          // --contiguous
	SpreadJob         bool          // --spread-job
	UseMinNodes       bool          // --use-min-nodes
	Distribution      string        // -m
	Hint              string        // --hint: "compute_bound", "memory_bound", "multithread", "nomultithread"
	Licenses          string        // -L
	Switches          int           // --switches, at most this many leaf switches
	SwitchWait        time.Duration // --switches=N@TIME, how long the job waits for them
	BurstBuffer       string        // --bb
	MCSLabel          string        // --mcs-label
	DelayBoot         time.Duration // --delay-boot
	Reboot            bool          // --reboot
	KillOnInvalidDep  *bool         // --kill-on-invalid-dep
	NoKill            bool          // -k, a failing node does not end the job
	Signal            string        // --signal
	Comment           string        // --comment
}

// AllMemory requests all of a node's memory (sbatch --mem=0).
const AllMemory = int64(-1)

// Behaviour is what the job does after its submission. Schedulers do not get this information.
type Behaviour struct {
	// RunTime is how long the job runs on its nodes if nothing ends it earlier. It is Unlimited for
	// a job that only its time limit ends.
	RunTime time.Duration
	// ExitCode is the exit status of the job's script if the job ends by itself.
	ExitCode int
	// CancelAfter is the delay after Submit at which the user cancels the pending or running job; 0
	// if the user does not cancel it.
	CancelAfter time.Duration
	// EndAt, if not 0, is when the job ends, whenever it started. RunTime is then ignored. Jobs
	// that run when the window begins have an EndAt.
	EndAt Time
	// TaskRunTimes are the run times of the tasks of a job array that differ from RunTime,
	// by task index.
	TaskRunTimes map[int]time.Duration
	// TaskExitCodes are the exit statuses of the tasks of a job array that differ from
	// ExitCode, by task index.
	TaskExitCodes map[int]int
	// IO is what the job moves to and from file systems while it runs. If jobs share a bandwidth
	// that is too small for them, they run longer than RunTime.
	IO []Phase
}

// Overtime is how much longer than its time limit a job may run in Slurm without OverTimeLimit. slurmctld checks the
// limits every half minute, and ends a job within KillWait, which is half a minute by default.
const Overtime = 2 * time.Minute

// RunTimeOf returns the run time of a task of a job array, or of a job that is not an array (task
// -1).
func (b *Behaviour) RunTimeOf(task int) time.Duration {
	if d, differs := b.TaskRunTimes[task]; differs {
		return d
	}
	return b.RunTime
}

// ExitCodeOf returns the exit status of a task of a job array, or of a job that is not an array
// (task -1).
func (b *Behaviour) ExitCodeOf(task int) int {
	if code, differs := b.TaskExitCodes[task]; differs {
		return code
	}
	return b.ExitCode
}

// ScriptExit returns the exit status of a task's script on a resource manager (task -1 if the job is not
// an array): that of [Behaviour.ExitCodeOf], or 1 if the record says that the task failed but has no exit
// status. Without it, the task would end as COMPLETED.
func (j *Job) ScriptExit(task int) int {
	code := j.ExitCodeOf(task)
	if code == 0 && j.Recorded != nil && j.Recorded.OfTask(task).State == Failed {
		return 1
	}
	return code
}

// State is a job's state, in sacct's spelling.
type State string

// The states of a job, after Slurm's slurm.h (enum job_states).
const (
	Pending     State = "PENDING"
	Running     State = "RUNNING"
	Suspended   State = "SUSPENDED"
	Completed   State = "COMPLETED"
	Cancelled   State = "CANCELLED"
	Failed      State = "FAILED"
	TimedOut    State = "TIMEOUT"
	NodeFail    State = "NODE_FAIL"
	Preempted   State = "PREEMPTED"
	BootFail    State = "BOOT_FAIL"
	Deadlined   State = "DEADLINE"
	OutOfMemory State = "OUT_OF_MEMORY"
	Requeued    State = "REQUEUED"
	// Rejected is a state of rmreplay: the resource manager refused the submission, so it has no such
	// job.
	Rejected State = "REJECTED"
)

// Requeues reports whether a run that ended in this state can be followed by another run of the job.
func (s State) Requeues() bool {
	switch s {
	case Requeued, NodeFail, Preempted, BootFail:
		return true
	}
	return false
}

// Ended reports whether s is a final state.
func (s State) Ended() bool {
	switch s {
	case "", Pending, Running, Suspended, Requeued:
		return false
	}
	return true
}
