package rpc

import (
	"fmt"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// NewJobUpdate returns a description that changes nothing, for the body of a [RequestUpdateJob].
// The caller sets the fields that change. The format of job is that of [KillRequest].Job.
func NewJobUpdate(job string) *JobDesc {
	j := NewJobDesc()
	j.JobIDStr = job
	return j
}

// ReleasePriority is the priority with which an update releases a held job (scontrol_hold in
// scontrol/update_job.c).
const ReleasePriority = slurmspec.Infinite

// Hold makes an update hold the job as "scontrol hold" does: the priority becomes 0, and the
// job's user cannot release it (scontrol_hold in scontrol/update_job.c).
func (j *JobDesc) Hold() { j.Priority, j.AllocSID = 0, 0 }

// Release makes an update release the job as "scontrol release" does. slurmctld then computes a
// new priority.
func (j *JobDesc) Release() { j.Priority = ReleasePriority }

// SetPriority makes an update give the job a fixed priority. SetPriority returns an error for 0,
// which would hold the job, and for the two largest numbers, which have a special meaning in
// Slurm.
func (j *JobDesc) SetPriority(priority uint32) error {
	if priority == 0 || priority >= slurmspec.NoVal {
		return fmt.Errorf("priority %d: not a priority of a job (want 1 to %d)", priority, slurmspec.NoVal-1)
	}
	j.Priority = priority
	return nil
}

// SetTimeLimit makes an update give the job a time limit, rounded up to whole minutes.
// [hpc.Unlimited] removes the limit. A limit of 0 or less is an error.
func (j *JobDesc) SetTimeLimit(limit time.Duration) error {
	if limit == hpc.Unlimited {
		j.TimeLimit = slurmspec.Infinite
		return nil
	}
	if limit <= 0 {
		return fmt.Errorf("time limit %s: not a time limit of a job (want a limit above 0)", limit)
	}
	j.TimeLimit = uint32((limit-1)/time.Minute + 1)
	return nil
}

// SetNodes makes an update request a number of nodes and the nodes of a host list (NumNodes and
// ReqNodeList of "scontrol update"). A count of 0 and an empty list change nothing.
func (j *JobDesc) SetNodes(count int, list string) {
	if count > 0 {
		j.MinNodes, j.MaxNodes = uint32(count), uint32(count)
	}
	j.ReqNodes = list
}
