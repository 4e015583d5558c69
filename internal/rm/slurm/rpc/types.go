package rpc

import (
	"cmp"
	"strconv"
)

// Type is a message's type (slurm_msg_type_t in slurm_protocol_defs.h).
type Type uint16

// Messages of slurmctld to compute nodes.
const (
	RequestNodeRegistration      Type = 1001 // the node must send a [NodeRegistration]
	RequestReconfigure           Type = 1003 // read slurm.conf again; not answered
	RequestReconfigureWithConfig Type = 1004 // read the slurm.conf in the message; not answered
	RequestShutdown              Type = 1005 // end the daemon; a node does not answer
	RequestPing                  Type = 1008
	RequestHealthCheck           Type = 1011
	RequestRebootNodes           Type = 1015 // not answered
	RequestAcctGatherUpdate      Type = 1017
	RequestBatchLaunch           Type = 4005
	RequestJobNotify             Type = 4022 // not answered
	RequestSuspendInt            Type = 5031
	RequestSignalTasks           Type = 6004
	RequestTerminateTasks        Type = 6006
	RequestKillTimelimit         Type = 6009
	RequestTerminateJob          Type = 6011
	RequestAbortJob              Type = 6013
	RequestKillPreempted         Type = 6016
	RequestLaunchProlog          Type = 6017
)

// Messages of compute nodes to slurmctld that are not answers.
const (
	MessageNodeRegistration    Type = 1002
	RequestStepComplete        Type = 5016
	RequestCompleteBatchScript Type = 5018
	MessageEpilogComplete      Type = 6012
	RequestCompleteProlog      Type = 6018
)

// Messages of clients to slurmctld.
const (
	RequestStats             Type = 2035
	RequestJobInfo           Type = 2003
	RequestJobInfoSingle     Type = 2021
	RequestUpdateJob         Type = 3001
	RequestUpdateNode        Type = 3002
	RequestCreateReservation Type = 3006
	RequestDeleteReservation Type = 3008
	RequestUpdateReservation Type = 3009
	RequestSubmitBatchJob    Type = 4003
	RequestSuspend           Type = 5014
	RequestJobRequeue        Type = 5023
	RequestKillJob           Type = 5032
)

// Answers.
const (
	ResponseJobInfo           Type = 2004
	ResponsePing              Type = 1016
	ResponseAcctGatherUpdate  Type = 1018
	ResponseNodeRegistration  Type = 1024
	ResponseStats             Type = 2036
	ResponseCreateReservation Type = 3007
	ResponseSubmitBatchJob    Type = 4004
	ResponseJobArrayErrors    Type = 5034
	ResponsePrologExecuting   Type = 6019
	ResponseRC                Type = 8001
	ResponseRCMessage         Type = 8002
	ResponseReroute           Type = 8003
	ForwardFailed             Type = 9001 // only in return lists; has no body
)

var typeNames = map[Type]string{
	RequestNodeRegistration:      "REQUEST_NODE_REGISTRATION_STATUS",
	MessageNodeRegistration:      "MESSAGE_NODE_REGISTRATION_STATUS",
	RequestReconfigure:           "REQUEST_RECONFIGURE",
	RequestReconfigureWithConfig: "REQUEST_RECONFIGURE_WITH_CONFIG",
	RequestShutdown:              "REQUEST_SHUTDOWN",
	RequestPing:                  "REQUEST_PING",
	1009:                         "REQUEST_CONTROL",
	RequestHealthCheck:           "REQUEST_HEALTH_CHECK",
	1012:                         "REQUEST_TAKEOVER",
	RequestRebootNodes:           "REQUEST_REBOOT_NODES",
	ResponsePing:                 "RESPONSE_PING_SLURMD",
	RequestAcctGatherUpdate:      "REQUEST_ACCT_GATHER_UPDATE",
	ResponseAcctGatherUpdate:     "RESPONSE_ACCT_GATHER_UPDATE",
	1019:                         "REQUEST_ACCT_GATHER_ENERGY",
	1020:                         "RESPONSE_ACCT_GATHER_ENERGY",
	ResponseNodeRegistration:     "RESPONSE_NODE_REGISTRATION",
	2001:                         "REQUEST_BUILD_INFO",
	RequestJobInfo:               "REQUEST_JOB_INFO",
	ResponseJobInfo:              "RESPONSE_JOB_INFO",
	2005:                         "REQUEST_JOB_STEP_INFO",
	2007:                         "REQUEST_NODE_INFO",
	2008:                         "RESPONSE_NODE_INFO",
	2009:                         "REQUEST_PARTITION_INFO",
	2010:                         "RESPONSE_PARTITION_INFO",
	2015:                         "REQUEST_CONFIG",
	2016:                         "RESPONSE_CONFIG",
	RequestJobInfoSingle:         "REQUEST_JOB_INFO_SINGLE",
	2024:                         "REQUEST_RESERVATION_INFO",
	RequestStats:                 "REQUEST_STATS_INFO",
	ResponseStats:                "RESPONSE_STATS_INFO",
	2039:                         "REQUEST_JOB_USER_INFO",
	2040:                         "REQUEST_NODE_INFO_SINGLE",
	RequestUpdateJob:             "REQUEST_UPDATE_JOB",
	RequestUpdateNode:            "REQUEST_UPDATE_NODE",
	RequestCreateReservation:     "REQUEST_CREATE_RESERVATION",
	ResponseCreateReservation:    "RESPONSE_CREATE_RESERVATION",
	RequestDeleteReservation:     "REQUEST_DELETE_RESERVATION",
	RequestUpdateReservation:     "REQUEST_UPDATE_RESERVATION",
	4001:                         "REQUEST_RESOURCE_ALLOCATION",
	4002:                         "RESPONSE_RESOURCE_ALLOCATION",
	RequestSubmitBatchJob:        "REQUEST_SUBMIT_BATCH_JOB",
	ResponseSubmitBatchJob:       "RESPONSE_SUBMIT_BATCH_JOB",
	RequestBatchLaunch:           "REQUEST_BATCH_JOB_LAUNCH",
	4006:                         "REQUEST_CANCEL_JOB",
	4012:                         "REQUEST_JOB_WILL_RUN",
	RequestJobNotify:             "REQUEST_JOB_NOTIFY",
	5005:                         "REQUEST_CANCEL_JOB_STEP",
	RequestSuspend:               "REQUEST_SUSPEND",
	RequestStepComplete:          "REQUEST_STEP_COMPLETE",
	5017:                         "REQUEST_COMPLETE_JOB_ALLOCATION",
	RequestCompleteBatchScript:   "REQUEST_COMPLETE_BATCH_SCRIPT",
	RequestJobRequeue:            "REQUEST_JOB_REQUEUE",
	RequestSuspendInt:            "REQUEST_SUSPEND_INT",
	RequestKillJob:               "REQUEST_KILL_JOB",
	ResponseJobArrayErrors:       "RESPONSE_JOB_ARRAY_ERRORS",
	6001:                         "REQUEST_LAUNCH_TASKS",
	RequestSignalTasks:           "REQUEST_SIGNAL_TASKS",
	RequestTerminateTasks:        "REQUEST_TERMINATE_TASKS",
	RequestKillTimelimit:         "REQUEST_KILL_TIMELIMIT",
	RequestTerminateJob:          "REQUEST_TERMINATE_JOB",
	MessageEpilogComplete:        "MESSAGE_EPILOG_COMPLETE",
	RequestAbortJob:              "REQUEST_ABORT_JOB",
	RequestKillPreempted:         "REQUEST_KILL_PREEMPTED",
	RequestLaunchProlog:          "REQUEST_LAUNCH_PROLOG",
	RequestCompleteProlog:        "REQUEST_COMPLETE_PROLOG",
	ResponsePrologExecuting:      "RESPONSE_PROLOG_EXECUTING",
	7001:                         "SRUN_PING",
	7002:                         "SRUN_TIMEOUT",
	7003:                         "SRUN_NODE_FAIL",
	7004:                         "SRUN_JOB_COMPLETE",
	7005:                         "SRUN_USER_MSG",
	ResponseRC:                   "RESPONSE_SLURM_RC",
	ResponseRCMessage:            "RESPONSE_SLURM_RC_MSG",
	ResponseReroute:              "RESPONSE_SLURM_REROUTE_MSG",
	ForwardFailed:                "RESPONSE_FORWARD_FAILED",
}

// Name returns Slurm's name of the type, or the number of an unknown type.
func (t Type) Name() string { return cmp.Or(typeNames[t], strconv.Itoa(int(t))) }

// String returns Slurm's name of the type with its number, for logs: "REQUEST_PING(1008)".
func (t Type) String() string {
	n := strconv.Itoa(int(t))
	if name, ok := typeNames[t]; ok {
		return name + "(" + n + ")"
	}
	return "message type " + n
}
