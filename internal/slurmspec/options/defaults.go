package options

import "strings"

// defaults has defaults of keys of slurm.conf and of options of SchedulerParameters, in lower case: slurm.conf(5), and
// src/common/read_config.h. Releases from 22.05 to 26.05 have the same defaults.
var defaults = map[string]string{
	"completewait": "0", "jobrequeue": "1", "killwait": "30", "messagetimeout": "10", "minjobage": "300",
	"overtimelimit": "0", "resvoverrun": "0", "firstjobid": "1", "preemptmode": "OFF", "preempttype": "preempt/none",
	"prioritycalcperiod": "00:05:00", "prioritydecayhalflife": "7-00:00:00", "priorityfavorsmall": "NO",
	"prioritymaxage": "7-00:00:00", "priorityusageresetperiod": "NONE", "priorityweightage": "0",
	"priorityweightassoc": "0", "priorityweightfairshare": "0", "priorityweightjobsize": "0",
	"priorityweightpartition": "0", "priorityweightqos": "0", "schedulertype": "sched/backfill",
	"enforcepartlimits": "NO",

	"schedulerparameters.batch_sched_delay": "3", "schedulerparameters.bf_interval": "30",
	"schedulerparameters.bf_job_part_count_reserve": "0", "schedulerparameters.bf_max_job_array_resv": "20",
	"schedulerparameters.bf_max_job_part": "0", "schedulerparameters.bf_max_job_start": "0",
	"schedulerparameters.bf_max_job_test": "500", "schedulerparameters.bf_max_job_user": "0",
	"schedulerparameters.bf_max_job_user_part": "0", "schedulerparameters.bf_min_age_reserve": "0",
	"schedulerparameters.bf_min_prio_reserve": "0", "schedulerparameters.bf_resolution": "60",
	"schedulerparameters.bf_window": "1440", "schedulerparameters.bf_yield_interval": "2000000",
	"schedulerparameters.bf_yield_sleep": "500000", "schedulerparameters.default_queue_depth": "100",
	"schedulerparameters.max_switch_wait": "300", "schedulerparameters.partition_job_depth": "0",
	"schedulerparameters.sched_interval": "60", "schedulerparameters.sched_max_job_start": "0",
	"schedulerparameters.sched_min_interval": "2",

	"partition gracetime": "0", "partition lln": "NO", "partition maxnodes": "UNLIMITED",
	"partition maxtime": "UNLIMITED", "partition minnodes": "0", "partition priorityjobfactor": "1",
	"partition prioritytier": "1",
}

// Default returns the default of a key of slurm.conf ("KillWait"), of an option of a list
// ("SchedulerParameters.bf_interval"), or of an attribute of partitions ("partition MaxTime"). An option without a
// value has the default "false". Default returns "" for a default that it does not know, or that not all releases have.
func Default(name string) string {
	name = strings.ToLower(name)
	list, option, _ := strings.Cut(name, ".")
	if o, known := Scheduler[option]; known && list == "schedulerparameters" && !o.Number && o.Words == nil {
		return "false"
	}
	return defaults[name]
}
