// Package parameters reads the keys of slurm.conf that slurmctld's schedulers use.
package parameters

import (
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/slurmspec"
	"strings"
	"time"
)

// Parameters are the keys of slurm.conf that the schedulers use.
type Parameters struct {
	// The options of SchedulerParameters.
	BatchSchedDelay, SchedInterval int64
	SchedMinInterval               time.Duration
	QueueDepth, PartitionDepth     int
	MaxStart                       int
	Deferred                       bool // defer: the end of an epilog does not start a pass at once
	AssocLimitStop                 bool
	ReduceFragments                bool // reduce_completing_frag: CompleteWait blocks only partitions of completing jobs
	Limits                         charge.Limits
	BF                             Backfill
	MaxSwitchWait                  int64

	KillWait, OverTimeLimit, MinJobAge int64
	CompleteWait                       int64
	ReservationOverRun                 int64
	Epilog, AllocProlog                bool
	KillInvalidDepend                  bool
	Requeue                            bool
	FirstJob                           uint32
	CalcPeriod                         int64
}

// Backfill are the options of SchedulerParameters that begin with bf_.
type Backfill struct {
	Interval, Window, Resolution           int64 // seconds
	MaxTest, MaxUser, MaxPart, MaxUserPart int
	MaxStart, MaxArrayResv, PartReserve    int
	MinAge                                 int64
	MinPriority                            uint32
	OneReservation, RunningReserve, Busy   bool
	MagneticSlot                           bool // bf_allow_magnetic_slot, since 24.11
	SpaceSize                              int
	Linear                                 int64
	Off                                    bool
}

// Read reads the parameters. Like slurmctld, it replaces invalid values by the defaults.
func Read(get keys.Get) *Parameters {
	o := keys.OptionsOf(get)
	p := &Parameters{
		BatchSchedDelay: o.Number("batch_sched_delay", 3), SchedInterval: o.Number("sched_interval", 60),
		SchedMinInterval: time.Duration(o.Number("sched_min_interval", 2)) * time.Microsecond,
		QueueDepth:       int(o.Number("default_queue_depth", 100)), PartitionDepth: int(o.Number("partition_job_depth", 0)),
		MaxStart: int(o.Number("sched_max_job_start", 0)), Deferred: strings.Contains(string(o), "defer"),
		AssocLimitStop: o.Has("assoc_limit_stop"), MaxSwitchWait: o.Number("max_switch_wait", 300),
		ReduceFragments: o.Has("reduce_completing_frag"),
	}
	p.BF = Backfill{
		Interval: o.Number("bf_interval", 30), Window: o.Number("bf_window", 1440) * 60,
		Resolution: o.Number("bf_resolution", 60),
		MaxTest:    int(o.Number("bf_max_job_test", 500)), MaxUser: int(o.Number("bf_max_job_user", 0)),
		MaxPart: int(o.Number("bf_max_job_part", 0)), MaxUserPart: int(o.Number("bf_max_job_user_part", 0)),
		MaxStart: int(o.Number("bf_max_job_start", 0)), MaxArrayResv: int(o.Number("bf_max_job_array_resv", 20)),
		PartReserve: int(o.Number("bf_job_part_count_reserve", 0)), MinAge: o.Number("bf_min_age_reserve", 0),
		MinPriority: uint32(o.Number("bf_min_prio_reserve", 0)), OneReservation: o.Has("bf_one_resv_per_job"),
		RunningReserve: o.Has("bf_running_job_reserve"), Busy: o.Has("bf_busy_nodes"),
		Linear: o.Number("bf_window_linear", 0), MagneticSlot: o.Has("bf_allow_magnetic_slot"),
	}
	p.Limits = charge.ReadLimits(o, keys.Number(get, "MessageTimeout", 10))
	p.BF.Off = p.BF.Interval < 0 || strings.EqualFold(keys.Value(get, "SchedulerType"), "sched/builtin")
	p.BF.SpaceSize = int(o.Number("bf_node_space_size", int64(p.BF.MaxTest)))
	p.KillWait, p.OverTimeLimit = keys.Number(get, "KillWait", 30), keys.Number(get, "OverTimeLimit", 0)*60
	p.MinJobAge, p.FirstJob = keys.Number(get, "MinJobAge", 300), uint32(keys.Number(get, "FirstJobId", 1))
	p.CompleteWait = keys.Number(get, "CompleteWait", 0)
	p.ReservationOverRun = keys.Number(get, "ResvOverRun", 0) * 60
	if text := strings.ToUpper(keys.Value(get, "ResvOverRun")); text == "UNLIMITED" || text == "INFINITE" {
		p.ReservationOverRun = 365 * 24 * 60 * 60
	}
	p.Epilog = keys.Value(get, "Epilog") != ""
	p.AllocProlog = slurmspec.PrologAtAllocation(keys.Value(get, "PrologFlags"))
	p.KillInvalidDepend = strings.Contains(strings.ToLower(keys.Value(get, "DependencyParameters")), "kill_invalid_depend")
	p.Requeue = keys.Number(get, "JobRequeue", 1) != 0
	p.CalcPeriod = 300
	if d, err := slurmspec.ParseTimeSpec(keys.Value(get, "PriorityCalcPeriod")); err == nil && d > 0 {
		p.CalcPeriod = int64(d / time.Second)
	}
	return p
}
