// Package finished has one neutral record of a finished job, and the builder that makes
// workloads of such records. Readers of sacct, of slurmdbd's database and of run records return
// their jobs in this form. The package depends on none of them.
package finished

import (
	"strconv"
	"time"

	"rmreplay/internal/hpc"
)

// Job is a job as the accounting of a resource manager records it. A job array has one record
// for each task that started, and one for all others. A job that was requeued has one for each
// run. A zero value means that the source does not say, unless the comment of the field says
// otherwise.
type Job struct {
	// ID is the source's name of the job. Slurm writes "17", "17_3" for a task of an array,
	// "17_[4-9%2]" for the tasks that have not started, and "17+1" for a component of a
	// heterogeneous job.
	ID      string
	Cluster string
	Number  uint32 // the resource manager's own number (JobIDRaw of sacct)

	ArrayJob  uint32 // the array's number; 0 for a job that is not a task of an array
	ArrayTask int    // -1 for a job that is not a single task
	ArrayRest string // the tasks of an array that never started, as "4-9%2"
	HetJob    uint32 // the number of the heterogeneous job that it is a component of
	HetOffset int    // which component it is, from 0

	Name, User, Group, Account, Partition, QOS, WCKey, Reservation string
	UID, GID                                                       uint32
	HasUID                                                         bool // the source says UID and GID
	Constraint, Licenses, Comment                                  string

	Submit, Eligible, Start, End hpc.Time
	Suspended                    time.Duration // between Start and End
	Elapsed                      time.Duration // how long it ran; -1 if not known
	TimeLimit                    time.Duration // hpc.Unlimited for none
	State                        hpc.State
	ExitCode                     int  // of its script, 0 to 255
	Signal                       int  // that ended its script; 0 for none
	HasExit                      bool // the source says ExitCode and Signal
	Restarts                     int  // how often it was requeued
	Held                         bool // it waited because somebody held it
	Priority                     *uint32
	Flags                        string // how Slurm scheduled it, as "SchedBackfill"

	ReqCPUs, ReqNodes, AllocCPUs, AllocNodes int
	MemPerNode, MemPerCPU                    int64  // MiB
	Memory                                   int64  // MiB for the whole job, if only that is known
	GRES                                     string // per node
	GPUs                                     string // for the whole job
	ReqTRES, AllocTRES                       string // "cpu=4,mem=8G,node=1"
	NodeList                                 string // a host list
	// UsedMemory is the largest memory that a step of the job had in use, all its tasks together, and
	// MovedBytes what its steps read and wrote. Both are in bytes.
	UsedMemory, MovedBytes int64
	// TasksPerNode is how many of its processors the job asked for on each node.
	TasksPerNode int
	// Dependency has the conditions on other jobs in sbatch's words ("afterok:17"), unless
	// SubmitLine has them.
	Dependency string

	// SubmitLine is the command that submitted the job, Script its batch script, and
	// WorkDir the directory in which the script ran.
	SubmitLine, Script, WorkDir string
	// WholeLine says that SubmitLine has the whole request, as no line of a real user does: the
	// script may have options, too, and the columns have the cluster's defaults.
	WholeLine bool

	// Interruptions are set for a job of a run record. For other sources, a [Builder] finds the lost
	// runs in the records of the same job.
	hpc.Interruptions
}

// array returns the ID of the job's array.
func (r *Job) array() string { return strconv.FormatUint(uint64(r.ArrayJob), 10) }

// status returns the exit code with which a script makes other jobs see the same end. A job
// that a signal ended has the exit code that a shell makes of the signal (bash(1), EXIT
// STATUS). A job that something else ended, such as the failure of a node, has 1.
func (r *Job) status() int {
	switch {
	case r.ExitCode != 0 || r.State == hpc.Completed:
		return r.ExitCode
	case r.Signal != 0:
		return min(128+r.Signal, 255)
	}
	return 1
}
