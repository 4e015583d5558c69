package hpc

import "time"

// Unlimited is a time limit or a run time without end: a job with this run time
// runs until its time limit, is cancelled, or its nodes fail.
const Unlimited = time.Duration(1<<63 - 1)

// Job is one submission: what its user asked for, and how it behaves once it
// runs. A job array is one Job with [Job.Array] set.
//
// A zero value means "not asked for" in every field of the request, so that the
// resource manager's own default applies; pointers mark the few options whose
// zero differs from their absence.
type Job struct {
	// ID is the workload's own name for the job, unique in the workload.
	ID string
	// Submit is when the user submits it.
	Submit Time

	Request
	Behaviour

	// Recorded is what happened to the job when the workload was recorded, or nil.
	Recorded *Recorded
	// SWF is what the job's record in an SWF log says beyond all this, or nil.
	SWF *SWF
}

// Request is what a submission asks for: the options of sbatch that affect
// scheduling, under the names of the field. The comment names the sbatch option.
type Request struct {
	Name      string // -J
	User      string // --uid, the submitting user
	Group     string // --gid; the user's own group when empty
	Account   string // -A
	Partition string // -p, one name or a comma list
	QOS       string // -q
	WCKey     string // --wckey

	Reservation string        // --reservation, one name or a comma list
	Dependency  string        // -d, over workload job IDs: "afterok:ID:ID,singleton"
	Array       string        // -a, "1-10:2%3"
	Begin       time.Duration // -b, as a delay after Submit
	Deadline    time.Duration // --deadline, as a delay after Submit
	Hold        bool          // -H
	Priority    *uint32       // --priority, an explicit priority
	// AsOperator says that an operator submits it for its user, since Slurm honours
	// an explicit priority from nobody else.
	AsOperator bool
	Nice       int   // --nice
	Requeue    *bool // --requeue, --no-requeue

	TimeLimit time.Duration // -t; Unlimited for an infinite one
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

	Constraint        string // -C, features
	Prefer            string // --prefer, features preferred
	ClusterConstraint string // --cluster-constraint
	NodeList          string // -w
	Exclude           string // -x
	Exclusive         string // --exclusive: "", "node", "user" or "mcs"
	Oversubscribe     bool   // -s
	Overcommit        bool   // -O
	Contiguous        bool   // --contiguous
	SpreadJob         bool   // --spread-job
	UseMinNodes       bool   // --use-min-nodes
	Distribution      string // -m
	Hint              string // --hint: "compute_bound", "memory_bound", "multithread", "nomultithread"
	Licenses          string // -L
	Switches          int    // --switches, at most this many leaf switches
	SwitchWait        time.Duration
	BurstBuffer       string        // --bb
	MCSLabel          string        // --mcs-label
	DelayBoot         time.Duration // --delay-boot
	Reboot            bool          // --reboot
	KillOnInvalidDep  *bool         // --kill-on-invalid-dep
	NoKill            bool          // -k, the job outlives a failing node
	Signal            string        // --signal
	Comment           string        // --comment
}

// AllMemory asks for all of a node's memory (sbatch --mem=0).
const AllMemory = int64(-1)

// Behaviour is what the job does once it has been submitted; no scheduler sees it.
type Behaviour struct {
	// RunTime is how long the job runs on its nodes when nothing ends it
	// earlier; Unlimited for a job that only its time limit ends.
	RunTime time.Duration
	// ExitCode is the exit status of its script when it ends by itself.
	ExitCode int
	// CancelAfter is the delay after Submit at which its user cancels it, pending
	// or running; 0 for a job that is not cancelled.
	CancelAfter time.Duration
	// EndAt, if not 0, is the instant at which it ends instead of RunTime after its
	// start: that of a job which was running when the window began.
	EndAt Time
	// TaskRunTimes are the run times of single tasks of a job array, by task
	// index, where they differ from RunTime.
	TaskRunTimes map[int]time.Duration
	// TaskExitCodes are the exit statuses of single tasks of a job array, by task
	// index, where they differ from ExitCode.
	TaskExitCodes map[int]int
}

// RunTimeOf is how long a task of a job array runs; that of another job is task -1.
func (b *Behaviour) RunTimeOf(task int) time.Duration {
	if d, differs := b.TaskRunTimes[task]; differs {
		return d
	}
	return b.RunTime
}

// ExitCodeOf is the exit status of a task of a job array; that of another job is task -1.
func (b *Behaviour) ExitCodeOf(task int) int {
	if code, differs := b.TaskExitCodes[task]; differs {
		return code
	}
	return b.ExitCode
}

// Recorded is the fate of a job when its workload was recorded. Of a job array, the first
// of its tasks says when it was eligible, when it started and with which priority, and the
// last one when it ended; its state is that of all tasks, empty if they differ, and its
// processors are those of one task.
type Recorded struct {
	Eligible, Start, End Time
	State                State
	Nodes                string // host list
	Processors           int
	Priority             uint32
	// TaskStarts, TaskEnds and TaskNodes are when and where single tasks of a job array ran,
	// by task index.
	TaskStarts, TaskEnds map[int]Time
	TaskNodes            map[int]string
}

// OfTask is the fate of a task of a job array. Where nothing is known of single tasks, and
// for another job, which is task -1, it is that of the whole.
func (r *Recorded) OfTask(task int) Recorded {
	of := *r
	of.TaskStarts, of.TaskEnds, of.TaskNodes = nil, nil, nil
	if task < 0 || r.TaskStarts == nil && r.TaskEnds == nil {
		return of
	}
	of.Start, of.End, of.Nodes = r.TaskStarts[task], r.TaskEnds[task], r.TaskNodes[task]
	if of.Start == 0 {
		of.Processors, of.Priority = 0, 0
		if of.State == "" && of.End != 0 {
			of.State = Cancelled
		}
	}
	return of
}

// SWF is what a record of a log in the Standard Workload Format says and a [Job] has
// no place for, so that the record can be written again as it was.
type SWF struct {
	// Record is the record's place in its log, from 1; 0 if not known.
	Record int
	Kept   []SWFNumber
}

// SWFNumber is a field of an SWF record whose number does not follow from the job.
type SWFNumber struct {
	Field int // from 1, as the format's definition numbers them
	// Read is the number in the log. It is written again as long as the job still
	// gives Derived: who changes the job changes what is written.
	Read, Derived Decimal
}

// Decimal is the number Mantissa / 10^Decimals, with its trailing zeros.
type Decimal struct {
	Mantissa int64
	Decimals uint8
}

// State is a job's state, spelled as sacct spells it.
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
	// Rejected is ours: the resource manager refused the submission, so the job
	// never existed there.
	Rejected State = "REJECTED"
)

// Ended reports whether s is final.
func (s State) Ended() bool {
	switch s {
	case "", Pending, Running, Suspended, Requeued:
		return false
	}
	return true
}
