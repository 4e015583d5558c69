package rpc

import (
	"fmt"
	"time"

	"rmreplay/internal/hpc"
)

// Hold makes an update the one of "scontrol hold": priority 0, and an operator's hold, which
// the job's user cannot release (scontrol_hold in scontrol/update_job.c).
func (j *JobDesc) Hold() { j.Priority, j.AllocSID = 0, 0 }

// Release makes an update the one of "scontrol release". slurmctld computes the priority
// anew.
func (j *JobDesc) Release() { j.Priority = ReleasePriority }

// SetPriority makes an update give a fixed priority. 0 would be a hold, and the largest numbers
// are Slurm's marks.
func (j *JobDesc) SetPriority(priority uint32) error {
	if priority == 0 || priority >= NoVal {
		return fmt.Errorf("priority %d: not one that a job can have (want 1 to %d)", priority, NoVal-1)
	}
	j.Priority = priority
	return nil
}

// SetTimeLimit makes an update give a time limit, rounded up to whole minutes;
// [hpc.Unlimited] for none.
func (j *JobDesc) SetTimeLimit(limit time.Duration) error {
	if limit == hpc.Unlimited {
		j.TimeLimit = Infinite
		return nil
	}
	if limit <= 0 {
		return fmt.Errorf("time limit %s: not one that a job can have (want one above 0)", limit)
	}
	j.TimeLimit = uint32((limit-1)/time.Minute + 1)
	return nil
}

// SetNodes makes an update ask for exactly so many nodes, unless that is 0, and for those
// of a host list, unless that is empty (NumNodes and ReqNodeList of "scontrol update").
func (j *JobDesc) SetNodes(count int, list string) {
	if count > 0 {
		j.MinNodes, j.MaxNodes = uint32(count), uint32(count)
	}
	j.ReqNodes = list
}
