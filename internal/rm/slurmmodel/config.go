package slurmmodel

import (
	"cmp"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/machine"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Config describes a cluster and the slurmctld that runs it.
type Config struct {
	// Release is the release of Slurm that is modelled.
	Release slurmspec.Release
	// Get returns keys of slurm.conf.
	Get func(key string) (string, bool)
	// Nodes and Partitions are those of slurm.conf, in its order.
	Nodes      []hpc.Node
	Partitions []Partition
	// Switches are those of topology/tree, in the order of topology.conf; nil for another topology.
	Switches []Switch
	// Associations are the accounts, users and QOS; nil without slurmdbd.
	Associations *associations.Set
	// Usage is the fair-share usage with which slurmctld starts.
	Usage Usage
	// Rejected has the reasons why slurmctld refuses jobs, by the workload's ID, but for what reservations refuse
	// and for jobs that no nodes serve: the model finds these itself.
	Rejected map[string]string
	// Epoch is the instant at which virtual time begins. slurmctld has run for Lead by then.
	Epoch hpc.Time
	Lead  time.Duration
	// PreRoll says that virtual time begins before the workload's window. At most PresetBurst preset jobs
	// start together.
	PreRoll     bool
	PresetBurst int
	// Costs are the virtual times of the schedulers' computing.
	Costs charge.Costs
	// Guide overrules the model's decisions; nil for none.
	Guide Guide
}

// Usage is the fair-share usage with which slurmctld starts.
type Usage struct {
	// Own has the usage of associations without that of those below them.
	Own []fairshare.Own
	// OfCPUs says that the billing of jobs is their number of CPUs, so that the usage of CPUs is the same.
	OfCPUs bool
	// Reset is the instant from which the usage counts.
	Reset hpc.Time
}

// Partition is a partition of slurm.conf.
type Partition struct {
	Name    string
	Default bool
	Nodes   []string
	// Get returns the attributes of its line.
	Get func(key string) (string, bool)
}

// Switch is a line of topology.conf.
type Switch = machine.Switch

// parameters are the parts of slurm.conf that the scheduler reads.
type parameters struct {
	// Options of SchedulerParameters.
	batchSchedDelay, schedInterval int64
	schedMinInterval               time.Duration
	queueDepth, partitionDepth     int
	maxStart                       int
	deferred                       bool // defer: an epilog only queues the scheduler
	assocLimitStop                 bool
	limits                         charge.Limits
	bf                             bfParameters
	maxSwitchWait                  int64

	killWait, overTimeLimit, minJobAge int64
	reservationOverRun                 int64
	epilog                             bool
	killInvalidDepend                  bool
	requeue                            bool
	firstJob                           uint32
	calcPeriod                         int64
}

// bfParameters are the options of SchedulerParameters that begin with bf_.
type bfParameters struct {
	interval, window, resolution           int64 // seconds
	maxTest, maxUser, maxPart, maxUserPart int
	maxStart, maxArrayResv, partReserve    int
	minAge                                 int64
	minPriority                            uint32
	oneReservation, runningReserve, busy   bool
	spaceSize                              int
	linear                                 int64
	off                                    bool
}

// readParameters reads slurm.conf. Values that slurmctld refuses have its defaults, as slurmctld does.
func readParameters(get func(string) (string, bool)) *parameters {
	o := keys.OptionsOf(get)
	p := &parameters{
		batchSchedDelay: o.Number("batch_sched_delay", 3), schedInterval: o.Number("sched_interval", 60),
		schedMinInterval: time.Duration(o.Number("sched_min_interval", 2)) * time.Microsecond,
		queueDepth:       int(o.Number("default_queue_depth", 100)), partitionDepth: int(o.Number("partition_job_depth", 0)),
		maxStart: int(o.Number("sched_max_job_start", 0)), deferred: strings.Contains(string(o), "defer"),
		assocLimitStop: o.Has("assoc_limit_stop"), maxSwitchWait: o.Number("max_switch_wait", 300),
	}
	p.bf = bfParameters{
		interval: o.Number("bf_interval", 30), window: o.Number("bf_window", 1440) * 60,
		resolution: max(1, o.Number("bf_resolution", 60)),
		maxTest:    int(o.Number("bf_max_job_test", 500)), maxUser: int(o.Number("bf_max_job_user", 0)),
		maxPart: int(o.Number("bf_max_job_part", 0)), maxUserPart: int(o.Number("bf_max_job_user_part", 0)),
		maxStart: int(o.Number("bf_max_job_start", 0)), maxArrayResv: int(o.Number("bf_max_job_array_resv", 20)),
		partReserve: int(o.Number("bf_job_part_count_reserve", 0)), minAge: o.Number("bf_min_age_reserve", 0),
		minPriority: uint32(o.Number("bf_min_prio_reserve", 0)), oneReservation: o.Has("bf_one_resv_per_job"),
		runningReserve: o.Has("bf_running_job_reserve"), busy: o.Has("bf_busy_nodes"),
		linear: o.Number("bf_window_linear", 0),
	}
	p.limits = charge.ReadLimits(o, keys.Number(get, "MessageTimeout", 10))
	p.bf.off = p.bf.interval < 0 || strings.EqualFold(keys.Value(get, "SchedulerType"), "sched/builtin")
	p.bf.spaceSize = int(o.Number("bf_node_space_size", int64(p.bf.maxTest)))
	p.killWait, p.overTimeLimit = keys.Number(get, "KillWait", 30), keys.Number(get, "OverTimeLimit", 0)*60
	p.minJobAge, p.firstJob = keys.Number(get, "MinJobAge", 300), uint32(keys.Number(get, "FirstJobId", 1))
	p.reservationOverRun = keys.Number(get, "ResvOverRun", 0) * 60
	if text := strings.ToUpper(keys.Value(get, "ResvOverRun")); text == "UNLIMITED" || text == "INFINITE" {
		p.reservationOverRun = endless * 60
	}
	p.epilog = keys.Value(get, "Epilog") != ""
	p.killInvalidDepend = strings.Contains(strings.ToLower(keys.Value(get, "DependencyParameters")), "kill_invalid_depend")
	p.requeue = keys.Number(get, "JobRequeue", 1) != 0
	p.calcPeriod = 300
	if d, err := slurmspec.ParseTimeSpec(keys.Value(get, "PriorityCalcPeriod")); err == nil && d > 0 {
		p.calcPeriod = int64(d / time.Second)
	}
	return p
}

// partition is a partition with its nodes as a set.
type partition struct {
	name               string
	nodes              selection.Bits
	tier               int
	maxMinutes         int64 // -1 for none
	defaultMinutes     int64 // -1 for none
	cpus               int   // of all nodes
	minNodes, maxNodes int
	memory             int64 // of jobs that ask for none, in MiB; 0 for all
	memoryPerCPU       bool
	whole, leastLoaded bool
	account            *accountedPartition
	failed             bool // in the present pass of the main scheduler
	planned            int  // jobs with reservations in the present cycle of backfill
	tests              int  // jobs tested in the present pass of the main scheduler
}

// noMinutes stands for a time limit that is not given, endless for none.
const (
	noMinutes = -1
	endless   = 365 * 24 * 60
)

func newMachine(cfg *Config) (*selection.Machine, error) {
	params := strings.ToUpper(keys.Value(cfg.Get, "SelectTypeParameters"))
	rules := rulesOf(cfg.Release)
	m := &selection.Machine{
		Since2411: rules.since2411, Since2605: rules.since2605,
		CountMemory: strings.Contains(params, "MEMORY"), BlockCores: strings.Contains(params, "CR_CORE_DEFAULT_DIST_BLOCK"),
		LeastLoaded: strings.Contains(params, "CR_LLN"), PackSerial: keys.OptionsOf(cfg.Get).Has("pack_serial_at_end"),
		TreeOptional: strings.Contains(strings.ToLower(keys.Value(cfg.Get, "TopologyParam")), "topooptional"),
		Dragonfly:    strings.Contains(strings.ToLower(keys.Value(cfg.Get, "TopologyParam")), "dragonfly"),
	}
	if err := machine.Add(m, cfg.Nodes, cfg.Switches); err != nil {
		return nil, err
	}
	m.Prepare()
	return m, nil
}

// newPartition returns a partition of slurm.conf.
func newPartition(cfg *Config, line *Partition, m *selection.Machine, place map[string]int) (*partition, error) {
	p := &partition{
		name: line.Name, nodes: selection.NewBits(len(place)),
		tier:     int(keys.Number(line.Get, "PriorityTier", keys.Number(line.Get, "Priority", 1))),
		minNodes: int(keys.Number(line.Get, "MinNodes", 0)), maxNodes: int(keys.Number(line.Get, "MaxNodes", 0)),
		whole:       strings.EqualFold(cmp.Or(keys.Value(line.Get, "OverSubscribe"), keys.Value(line.Get, "Shared")), "EXCLUSIVE"),
		leastLoaded: strings.EqualFold(keys.Value(line.Get, "LLN"), "YES"),
	}
	for _, name := range line.Nodes {
		p.nodes.Set(place[name])
		p.cpus += m.Nodes[place[name]].CPUs
	}
	var err error
	if p.maxMinutes, err = keys.Minutes(line.Get, "MaxTime"); err != nil {
		return nil, err
	}
	if p.defaultMinutes, err = keys.Minutes(line.Get, "DefaultTime"); err != nil {
		return nil, err
	}
	for _, get := range []func(string) (string, bool){line.Get, cfg.Get} {
		perCPU, perNode := keys.Number(get, "DefMemPerCPU", 0), keys.Number(get, "DefMemPerNode", 0)
		if perCPU > 0 || perNode > 0 {
			p.memory, p.memoryPerCPU = max(perCPU, perNode), perCPU > 0
			break
		}
	}
	return p, nil
}

// rules are the differences between releases of Slurm that the model knows.
type rules struct {
	// wholeSeconds says that the background loop wakes at whole seconds (since 23.11). Before, it wakes a
	// second after its last turn, and keeps the phase of slurmctld's start.
	wholeSeconds bool
	// roundUp says that planned jobs end at the next multiple of bf_resolution (since 24.11). Before, they
	// end at the previous one.
	roundUp bool
	// refuseForgotten says that a dependency on the success or failure of a job that slurmctld has forgotten
	// is refused (since 23.02).
	refuseForgotten bool
	// since2411 are the rules of 24.11 of the will-run test and of backfill's tries, since2605 those of 26.05.
	since2411, since2605 bool
}

func rulesOf(r slurmspec.Release) rules {
	return rules{
		refuseForgotten: r.Since(slurmspec.R2302),
		wholeSeconds:    r.Since(slurmspec.R2311), roundUp: r.Since(slurmspec.R2411),
		since2411: r.Since(slurmspec.R2411), since2605: r.Since(slurmspec.R2605),
	}
}
