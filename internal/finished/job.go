// Package finished defines a record of a finished job that does not depend on the source. Its
// builder makes workloads from such records. The readers of sacct, of slurmdbd's database and of
// run records use it. The package does not depend on these readers.
package finished

import (
	"strconv"
	"time"

	"rmreplay/internal/hpc"
)

// Job is a job as the accounting of a resource manager records it. A job array has one record for
// each started task, and one for all other tasks. A requeued job has one record per run. A zero
// value means that the source does not have the value, unless the field's comment says otherwise.
type Job struct {
	// ID is the source's name of the job. In Slurm it is "17", "17_3" for a task of an array,
	// "17_[4-9%2]" for tasks that have not started, and "17+1" for a component of a heterogeneous
	// job.
	ID      string
	Cluster string
	Number  uint32 // the resource manager's own number (JobIDRaw of sacct)

	ArrayJob  uint32 // the array's number; 0 for a job that is not a task of an array
	ArrayTask int    // -1 for a job that is not a single task
	ArrayRest string // the tasks of an array that never started, such as "4-9%2"
	HetJob    uint32 // the number of the heterogeneous job, for its components
	HetOffset int    // index of the component, from 0

	Name, User, Group, Account, Partition, QOS, WCKey, Reservation string
	UID, GID                                                       uint32
	HasUID                                                         bool // whether the source says UID and GID
	Constraint, Licenses, Comment                                  string

	Submit, Eligible, Start, End hpc.Time
	Suspended                    time.Duration // part of the time between Start and End
	Elapsed                      time.Duration // run time; -1 if unknown
	TimeLimit                    time.Duration // hpc.Unlimited for a job without a limit
	State                        hpc.State
	ExitCode                     int  // exit code of the script, 0 to 255
	Signal                       int  // signal that ended the script; 0 if no signal ended it
	HasExit                      bool // whether the source says ExitCode and Signal
	Restarts                     int  // how often the job was requeued
	Held                         bool // the job waited because a user or an administrator held it
	Priority                     *uint32
	Flags                        string // how Slurm scheduled the job, such as "SchedBackfill"

	ReqCPUs, ReqNodes, AllocCPUs, AllocNodes int
	MemPerNode, MemPerCPU                    int64  // MiB
	Memory                                   int64  // MiB for the whole job, if the source says only this
	GRES                                     string // generic resources per node
	GPUs                                     string // GPUs for the whole job
	ReqTRES, AllocTRES                       string // "cpu=4,mem=8G,node=1"
	NodeList                                 string // a host list
	Ran                                      bool   // the job ran, though its nodes may not be known
	// UsedMemory is the highest memory use of a step of the job, over all its tasks. MovedBytes is
	// the amount of data that the steps read and wrote. Both are in bytes.
	UsedMemory, MovedBytes int64
	// TasksPerNode is the number of processors that the job requested on each node.
	TasksPerNode int
	// Dependency has the conditions on other jobs in sbatch's syntax ("afterok:17"), unless
	// SubmitLine has them.
	Dependency string

	// SubmitLine is the command that submitted the job. Script is its batch script, and WorkDir the
	// directory in which the script ran.
	SubmitLine, Script, WorkDir string
	// WholeLine says that SubmitLine has the complete request. It is false for jobs of real users:
	// their batch scripts can contain options, too, and the columns include the cluster's defaults.
	WholeLine bool

	// Interruptions are set for jobs from run records. For other sources, [Builder] finds lost runs
	// in the job's other records.
	hpc.Interruptions
}

// isTask reports whether the record is of one task or several tasks of an array.
func (r *Job) isTask() bool { return r.ArrayJob != 0 && (r.ArrayTask >= 0 || r.ArrayRest != "") }

// array returns the ID of the job's array.
func (r *Job) array() string { return strconv.FormatUint(uint64(r.ArrayJob), 10) }

// status returns an exit code that has the same effect on dependent jobs as the recorded end. For a
// job that a signal ended, it is the exit code that a shell uses for the signal (bash(1), EXIT
// STATUS). For a job that something else ended, such as a node failure, it is 1.
func (r *Job) status() int {
	switch {
	case r.ExitCode != 0 || r.State == hpc.Completed:
		return r.ExitCode
	case r.Signal != 0:
		return min(128+r.Signal, 255)
	}
	return 1
}
