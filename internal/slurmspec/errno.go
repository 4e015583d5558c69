package slurmspec

import (
	"fmt"
	"syscall"
)

// Errno is an error number of Slurm (slurm_errno.h) or, below 1000, of the operating system.
type Errno uint32

// The errors for which callers look.
const (
	ErrCommunication          Errno = 1001
	ErrAccessDenied           Errno = 2002
	ErrDuplicateJob           Errno = 2011
	ErrNodesBusy              Errno = 2016
	ErrInvalidJob             Errno = 2017
	ErrWritingToFile          Errno = 2019
	ErrTransitionState        Errno = 2020
	ErrAlreadyDone            Errno = 2021
	ErrDependency             Errno = 2038
	ErrKillJobAlreadyComplete Errno = 4002
	ErrPrologFailed           Errno = 4022
	ErrEpilogFailed           Errno = 4023
	ErrJobNotRunning          Errno = 4027
)

// Error returns Slurm's symbolic name and its meaning: "ESLURM_INVALID_QOS: the QOS does not
// exist or is not allowed here".
func (e Errno) Error() string {
	if t, ok := errnoTexts[e]; ok {
		return t.name + ": " + t.text
	}
	if e == 0 {
		return "SLURM_SUCCESS"
	}
	if e < 1000 {
		return syscall.Errno(e).Error()
	}
	return fmt.Sprintf("Slurm error %d", uint32(e))
}

// Name returns Slurm's symbolic name, or the number if the name is not known.
func (e Errno) Name() string {
	if t, ok := errnoTexts[e]; ok {
		return t.name
	}
	if e == 0 {
		return "SLURM_SUCCESS"
	}
	return fmt.Sprintf("error %d", uint32(e))
}

// Retryable reports whether sbatch would repeat the submission after a pause, because the job table
// is full or the controller is busy.
func (e Errno) Retryable() bool {
	return e == 2007 || e == ErrNodesBusy || e == Errno(syscall.EAGAIN)
}

type errnoText struct{ name, text string }

var errnoTexts = map[Errno]errnoText{
	1000: {"SLURM_UNEXPECTED_MSG_ERROR", "this message was not expected here"},
	1001: {"SLURM_COMMUNICATIONS_CONNECTION_ERROR", "no connection could be made"},
	1002: {"SLURM_COMMUNICATIONS_SEND_ERROR", "the message could not be sent"},
	1003: {"SLURM_COMMUNICATIONS_RECEIVE_ERROR", "no message could be received"},
	1005: {"SLURM_PROTOCOL_VERSION_ERROR", "the two sides speak different protocol versions"},
	1007: {"SLURM_PROTOCOL_AUTHENTICATION_ERROR", "the sender's identity was not accepted"},
	1008: {"SLURM_PROTOCOL_INSANE_MSG_LENGTH", "a message cannot have this length"},
	1012: {"SLURM_UNKNOWN_FORWARD_ADDR", "a node to forward to has no known address"},
	1900: {"SLURM_NO_CHANGE_IN_DATA", "nothing has changed"},
	2000: {"ESLURM_INVALID_PARTITION_NAME", "there is no such partition"},
	2001: {"ESLURM_DEFAULT_PARTITION_NOT_SET", "no partition was named and there is no default"},
	2002: {"ESLURM_ACCESS_DENIED", "the user may not do this"},
	2003: {"ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP", "the user is in none of the partition's groups"},
	2004: {"ESLURM_REQUESTED_NODES_NOT_IN_PARTITION", "the named nodes are not in the partition"},
	2005: {"ESLURM_TOO_MANY_REQUESTED_CPUS", "the job requests more CPUs than it may have"},
	2006: {"ESLURM_INVALID_NODE_COUNT", "the number of nodes is not possible"},
	2007: {"ESLURM_ERROR_ON_DESC_TO_RECORD_COPY", "the job table is full (MaxJobCount) or the record could not " +
		"be made"},
	2008:          {"ESLURM_JOB_MISSING_SIZE_SPECIFICATION", "the job does not say how large it is"},
	2009:          {"ESLURM_JOB_SCRIPT_MISSING", "the job has no script"},
	2010:          {"ESLURM_USER_ID_MISSING", "the user is not known or may not do this"},
	2011:          {"ESLURM_DUPLICATE_JOB_ID", "the job number is in use"},
	2012:          {"ESLURM_PATHNAME_TOO_LONG", "a path or another text is too long"},
	2013:          {"ESLURM_NOT_TOP_PRIORITY", "jobs of higher priority wait"},
	2014:          {"ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE", "no set of nodes can ever meet the request"},
	2015:          {"ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE", "the request is beyond the partition's limits"},
	2016:          {"ESLURM_NODES_BUSY", "the nodes are in use"},
	2017:          {"ESLURM_INVALID_JOB_ID", "there is no such job"},
	2018:          {"ESLURM_INVALID_NODE_NAME", "there is no such node"},
	2019:          {"ESLURM_WRITING_TO_FILE", "the script or environment could not be written"},
	2020:          {"ESLURM_TRANSITION_STATE_NO_UPDATE", "the job is changing its state just now"},
	2021:          {"ESLURM_ALREADY_DONE", "the job has already ended"},
	2023:          {"ESLURM_BAD_DIST", "the task distribution is not possible"},
	2024:          {"ESLURM_JOB_PENDING", "the job is pending"},
	2025:          {"ESLURM_BAD_TASK_COUNT", "the number of tasks is not possible"},
	2026:          {"ESLURM_INVALID_JOB_CREDENTIAL", "no credential could be made for the job"},
	2027:          {"ESLURM_IN_STANDBY_MODE", "this controller is a backup in standby"},
	2028:          {"ESLURM_INVALID_NODE_STATE", "the node cannot be put into this state"},
	2029:          {"ESLURM_INVALID_FEATURE", "a feature does not exist or the constraint is malformed"},
	2031:          {"ESLURM_ACTIVE_FEATURE_NOT_SUBSET", "the active features are not all among the available ones"},
	2035:          {"ESLURM_FRAGMENTATION", "enough is free, but not together"},
	2036:          {"ESLURM_NOT_SUPPORTED", "this system does not support the operation"},
	2037:          {"ESLURM_DISABLED", "the operation is disabled"},
	ErrDependency: {"ESLURM_DEPENDENCY", "the dependency is not possible or not yet met"},
	2039:          {"ESLURM_BATCH_ONLY", "only batch jobs are accepted"},
	2040:          {"ESLURM_LICENSES_UNAVAILABLE", "the licenses are in use"},
	2042:          {"ESLURM_JOB_HELD", "the job is held"},
	2044:          {"ESLURM_INVALID_TASK_MEMORY", "no node has this much memory for a task"},
	2045:          {"ESLURM_INVALID_ACCOUNT", "the account does not exist or the user has no association with it here"},
	2048:          {"ESLURM_INVALID_LICENSES", "a license does not exist or there are too few"},
	2050:          {"ESLURM_ACCOUNTING_POLICY", "a limit of the association or the QOS is exceeded"},
	2051:          {"ESLURM_INVALID_TIME_LIMIT", "the time limit is missing or beyond what is allowed"},
	2052:          {"ESLURM_RESERVATION_ACCESS", "the user may not use the reservation"},
	2053:          {"ESLURM_RESERVATION_INVALID", "the reservation does not exist or is malformed"},
	2054:          {"ESLURM_INVALID_TIME_VALUE", "a time is not possible"},
	2055:          {"ESLURM_RESERVATION_BUSY", "the reservation's nodes are in use"},
	2056:          {"ESLURM_RESERVATION_NOT_USABLE", "the reservation is not active now"},
	2057:          {"ESLURM_INVALID_WCKEY", "the wckey does not exist"},
	2058:          {"ESLURM_RESERVATION_OVERLAP", "another reservation has some of the nodes then"},
	2059:          {"ESLURM_PORTS_BUSY", "the reserved ports are in use"},
	2061:          {"ESLURM_PROLOG_RUNNING", "PrologSlurmctld still runs"},
	2063:          {"ESLURM_MISSING_WORK_DIR", "the job has no working directory"},
	2066:          {"ESLURM_INVALID_QOS", "the QOS does not exist or is not allowed here"},
	2068:          {"ESLURM_NODE_NOT_AVAIL", "a required node is down, drained or reserved"},
	2069:          {"ESLURM_INVALID_CPU_COUNT", "the number of CPUs is not possible"},
	2070:          {"ESLURM_PARTITION_NOT_AVAIL", "the partition is inactive or drained"},
	2071:          {"ESLURM_CIRCULAR_DEPENDENCY", "the dependencies form a circle"},
	2072:          {"ESLURM_INVALID_GRES", "the generic resources are malformed or do not exist"},
	2073:          {"ESLURM_JOB_NOT_PENDING", "the job is no longer pending"},
	2074:          {"ESLURM_QOS_THRES", "the account has used up its usage threshold in the QOS"},
	2077:          {"ESLURM_JOB_SUSPENDED", "the job is suspended"},
	2078:          {"ESLURM_CAN_NOT_START_IMMEDIATELY", "the job cannot start at once"},
	2080:          {"ESLURM_RESERVATION_EMPTY", "the reservation names no users, groups or accounts"},
	2081:          {"ESLURM_INVALID_ARRAY", "the array is malformed or exceeds MaxArraySize"},
	2082:          {"ESLURM_RESERVATION_NAME_DUP", "a reservation of this name exists"},
	2083:          {"ESLURM_JOB_STARTED", "the job has already started"},
	2084:          {"ESLURM_JOB_FINISHED", "the job has already ended"},
	2085:          {"ESLURM_JOB_NOT_RUNNING", "the job does not run"},
	2086:          {"ESLURM_JOB_NOT_PENDING_NOR_RUNNING", "the job neither waits nor runs"},
	2087:          {"ESLURM_JOB_NOT_SUSPENDED", "the job is not suspended"},
	2088:          {"ESLURM_JOB_NOT_FINISHED", "the job has not ended"},
	2090:          {"ESLURM_INTERNAL", "slurmctld failed inside"},
	2092:          {"ESLURM_BURST_BUFFER_PERMISSION", "the user may not use the burst buffer"},
	2093:          {"ESLURM_BURST_BUFFER_LIMIT", "the burst buffer is not that large"},
	2094:          {"ESLURM_INVALID_BURST_BUFFER_REQUEST", "the burst buffer request is malformed"},
	2095:          {"ESLURM_PRIO_RESET_FAIL", "the priority would be computed anew"},
	2096:          {"ESLURM_CANNOT_MODIFY_CRON_JOB", "jobs of scrontab cannot be changed"},
	2098:          {"ESLURM_CANNOT_CANCEL_CRON_JOB", "jobs of scrontab cannot be cancelled without a flag"},
	2099:          {"ESLURM_INVALID_MCS_LABEL", "the MCS label is not possible"},
	2100:          {"ESLURM_BURST_BUFFER_WAIT", "the job waits for its burst buffer"},
	2101:          {"ESLURM_PARTITION_DOWN", "the partition is down"},
	2102:          {"ESLURM_DUPLICATE_GRES", "a generic resource is requested twice"},
	2103:          {"ESLURM_JOB_SETTING_DB_INX", "the job's database record is being made"},
	2104:          {"ESLURM_RSV_ALREADY_STARTED", "the reservation has already started"},
	2105:          {"ESLURM_SUBMISSIONS_DISABLED", "submissions are switched off"},
	2106:          {"ESLURM_NOT_HET_JOB", "the job is not a heterogeneous job"},
	2107:          {"ESLURM_NOT_HET_JOB_LEADER", "the job does not lead its heterogeneous job"},
	2108:          {"ESLURM_NOT_WHOLE_HET_JOB", "the request must name the whole heterogeneous job"},
	2109:          {"ESLURM_CORE_RESERVATION_UPDATE", "reservations of cores cannot be changed this way"},
	2111:          {"ESLURM_INVALID_CORE_CNT", "the reservation's core counts do not fit its nodes"},
	2113:          {"ESLURM_GROUP_ID_MISSING", "the group is not known"},
	2114:          {"ESLURM_BATCH_CONSTRAINT", "--batch is not a subset of the constraint"},
	2115:          {"ESLURM_INVALID_TRES", "a trackable resource does not exist"},
	2118:          {"ESLURM_RESERVATION_MAINT", "a maintenance reservation has the nodes"},
	2119:          {"ESLURM_INVALID_GRES_TYPE", "a generic resource is requested with and without its type"},
	2120:          {"ESLURM_REBOOT_IN_PROGRESS", "the node is already rebooting"},
	2122:          {"ESLURM_UNSUPPORTED_GRES", "the select plugin has no such option for generic resources"},
	2123:          {"ESLURM_INVALID_NICE", "the nice value is out of range"},
	2124:          {"ESLURM_INVALID_TIME_MIN_LIMIT", "the minimum time exceeds the time limit"},
	2125:          {"ESLURM_DEFER", "submissions are not scheduled one by one (SchedulerParameters=defer)"},
	2127:          {"ESLURM_ENVIRONMENT_MISSING", "the job has no environment"},
	2128:          {"ESLURM_RESERVATION_NO_SKIP", "the reservation cannot skip an occurrence (it can be deleted)"},
	2129:          {"ESLURM_RESERVATION_USER_GROUP", "the reservation names both users and groups"},
	2130:          {"ESLURM_PARTITION_ASSOC", "several partitions are not possible with an association per partition"},
	2131:          {"ESLURM_IN_STANDBY_USE_BACKUP", "another controller is active"},
	2132:          {"ESLURM_BAD_THREAD_PER_CORE", "the step has more threads per core than its job"},
	2133:          {"ESLURM_INVALID_PREFER", "the preferred features are malformed or do not exist"},
	2134:          {"ESLURM_INSUFFICIENT_GRES", "the allocation has too few generic resources"},
	2160:          {"ESLURM_JOB_TIMEOUT_KILLED", "the job reached its time limit"},
	2161:          {"ESLURM_JOB_NODE_FAIL_KILLED", "a node of the job failed"},
	2163:          {"ESLURM_GROUP_ID_INVALID", "the group's number is not valid"},
	2164:          {"ESLURM_GROUP_ID_UNKNOWN", "slurmctld does not know the group"},
	2165:          {"ESLURM_USER_ID_INVALID", "the user's number is not valid"},
	2166:          {"ESLURM_USER_ID_UNKNOWN", "slurmctld does not know the user"},
	2167:          {"ESLURM_INVALID_ASSOC", "the association does not exist"},
	2170:          {"ESLURM_INVALID_RELATIVE_QOS", "a QOS with relative limits can be used in one partition only"},
	2171:          {"ESLURM_INVALID_EXTRA", "the value of --extra is malformed"},
	2172:          {"ESLURM_JOB_SIGNAL_FAILED", "some jobs could not be signalled"},
	2174:          {"ESLURM_RES_CORES_PER_GPU_UNIQUE", "RestrictedCoresPerGPU: the GPUs have too few cores of their own"},
	2175:          {"ESLURM_RES_CORES_PER_GPU_TOPO", "RestrictedCoresPerGPU: gres.conf lacks the cores of the GPUs"},
	2176:          {"ESLURM_RES_CORES_PER_GPU_NO", "RestrictedCoresPerGPU: the node has no GPUs"},
	2177:          {"ESLURM_MAX_POWERED_NODES", "MaxPoweredUpNodes of the partition is reached"},
	2178:          {"ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE", "no nodes close enough can ever meet the request"},
	2179:          {"ESLURM_PREEMPTION_REQUIRED", "the job can only start if it preempts others"},
	2180:          {"ESLURM_INVALID_NODE_STATE_TRANSITION", "the node cannot go from its state to this one"},
	2181:          {"ESLURM_INVALID_JOB_STATE", "the job's state does not allow the operation"},
	2186:          {"ESLURM_EXTERN_ONLY", "the operation needs an external step"},
	2189:          {"ESLURM_INVALID_EXTERNAL_JOB", "the external job is malformed"},
	4001:          {"ESLURMD_KILL_TASK_FAILED", "the job's processes could not be killed"},
	4002:          {"ESLURMD_KILL_JOB_ALREADY_COMPLETE", "nothing of the job runs there any more"},
	4005:          {"ESLURMD_UID_NOT_FOUND", "the node does not know the user"},
	4006:          {"ESLURMD_GID_NOT_FOUND", "the node does not know the group"},
	4008:          {"ESLURMD_CREDENTIAL_REVOKED", "the job's credential was revoked"},
	4010:          {"ESLURMD_CREATE_BATCH_DIR_ERROR", "the node could not make the job's directory"},
	4020:          {"ESLURMD_EXECVE_FAILED", "the script could not be executed"},
	4022:          {"ESLURMD_PROLOG_FAILED", "the prolog failed"},
	4023:          {"ESLURMD_EPILOG_FAILED", "the epilog failed"},
	4027:          {"ESLURMD_JOB_NOTRUNNING", "the job does not run there"},
	4028:          {"ESLURMD_STEP_SUSPENDED", "the step is suspended"},
	4029:          {"ESLURMD_STEP_NOTSUSPENDED", "the step is not suspended"},
	5003:          {"ESLURM_PROTOCOL_INCOMPLETE_PACKET", "the message is shorter than its header says"},
	5004:          {"SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT", "no message arrived in time"},
	5005:          {"SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT", "the connection was closed"},
	6000:          {"ESLURM_AUTH_CRED_INVALID", "the credential is not valid"},
	6007:          {"ESLURM_AUTH_UNPACK", "the credential cannot be read"},
	7000:          {"ESLURM_DB_CONNECTION", "the accounting database cannot be reached"},
	8000:          {"ESLURM_MISSING_TIME_LIMIT", "the job must have a time limit here"},
	8002:          {"ESLURM_PLUGIN_INVALID", "a plugin cannot be loaded"},
}
