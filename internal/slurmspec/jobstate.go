package slurmspec

import (
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
)

// jobStates are the base states of a job by number (enum job_states in slurm.h).
var jobStates = [...]hpc.State{
	hpc.Pending, hpc.Running, hpc.Suspended, hpc.Completed, hpc.Cancelled, hpc.Failed, hpc.TimedOut,
	hpc.NodeFail, hpc.Preempted, hpc.BootFail, hpc.Deadlined, hpc.OutOfMemory,
}

// JobStateBase is the part of a job's state that has the base state. The other bits are flags.
const JobStateBase = uint32(0xff)

// Flags of a job's state (slurm.h).
const (
	JobRequeue     = uint32(1 << 10) // JOB_REQUEUE: goes back to the queue when it has completed
	JobRequeueHold = uint32(1 << 11) // JOB_REQUEUE_HOLD: went back to the queue and is held
	JobSpecialExit = uint32(1 << 12) // JOB_SPECIAL_EXIT: as JOB_REQUEUE_HOLD, because of its exit code
	JobResizing    = uint32(1 << 13) // JOB_RESIZING: its size changes
	JobConfiguring = uint32(1 << 14) // JOB_CONFIGURING: its nodes are booted
	JobCompleting  = uint32(1 << 15) // JOB_COMPLETING: waits for its nodes' epilogs
)

// Resizing is the state in the accounting record of a job that continues with another size. The
// job lost a node and has --no-kill, or a command made it smaller (job_pre_resize_acctg in
// job_mgr.c).
const Resizing hpc.State = "RESIZING"

// BaseJobState returns the base state in a number. ok is false if the number is not a state.
func BaseJobState(number uint32) (state hpc.State, ok bool) {
	if base := number & JobStateBase; base < uint32(len(jobStates)) {
		return jobStates[base], true
	}
	return "", false
}

// JobStateNumber returns the number of a base state. ok is false for any other state.
func JobStateNumber(state hpc.State) (number uint32, ok bool) {
	for n, s := range jobStates {
		if s == state {
			return uint32(n), true
		}
	}
	return 0, false
}

// IsRecordedState reports whether sacct can print a state, as [ParseJobState] returns it.
func IsRecordedState(state hpc.State) bool {
	_, base := JobStateNumber(state)
	return base || state == hpc.Requeued || state == Resizing || slices.Contains(stateFlags, state)
}

// stateFlags are states that are flags of a base state (job_state_string in slurm_protocol_defs.c), and REVOKED, the
// state of a job that another cluster of a federation runs.
var stateFlags = []hpc.State{"COMPLETING", "CONFIGURING", "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL",
	"REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "REVOKED", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED",
	"UPDATE_DB"}

// RecordedJobState returns the state in a number of slurmdbd's job table, as sacct prints it.
// slurmdbd has special states for a run that was requeued and for a run that ended with a change
// of size. A number that is not a state gives "STATE_" and the number.
func RecordedJobState(number int64) hpc.State {
	switch {
	case number&int64(JobRequeue) != 0:
		return hpc.Requeued
	case number > int64(JobStateBase) && number&int64(JobStateBase) == 0:
		return Resizing
	}
	if state, ok := BaseJobState(uint32(number)); ok {
		return state
	}
	return hpc.State("STATE_" + strconv.FormatInt(number, 10))
}

// jobStateCodes are squeue's codes for states (man squeue, JOB STATE CODES).
var jobStateCodes = map[string]hpc.State{
	"BF": hpc.BootFail, "CA": hpc.Cancelled, "CD": hpc.Completed, "DL": hpc.Deadlined, "F": hpc.Failed,
	"NF": hpc.NodeFail, "OOM": hpc.OutOfMemory, "PD": hpc.Pending, "PR": hpc.Preempted, "R": hpc.Running,
	"RQ": hpc.Requeued, "RS": Resizing, "S": hpc.Suspended, "TO": hpc.TimedOut,
}

// ParseJobState reads a state as sacct prints it, or squeue's code for it ("CD"). It drops the words after the name
// ("CANCELLED by 1001") and the plus sign after a name that sacct cut ("CANCELLED+").
func ParseJobState(text string) hpc.State {
	word, _, _ := strings.Cut(text, " ")
	if cut, isCut := strings.CutSuffix(word, "+"); isCut && len(cut) > 2 {
		for _, state := range jobStates {
			if strings.HasPrefix(string(state), cut) {
				return state
			}
		}
	}
	if state, isCode := jobStateCodes[word]; isCode {
		return state
	}
	return hpc.State(strings.TrimRight(word, "+"))
}
