package slurmmodel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/hardware"
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
	// Rejected has the jobs that slurmctld refuses, by the workload's ID. All others are accepted, except for
	// what reservations refuse.
	Rejected map[string]Rejection
	// Epoch is the instant at which virtual time begins. slurmctld has run for Lead by then.
	Epoch hpc.Time
	Lead  time.Duration
}

// Rejection is why slurmctld refuses a job.
type Rejection struct {
	Reason string
	// Late says that slurmctld refuses the job after it has made its record: the job has a number, and backfill
	// sees a change of jobs.
	Late bool
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
type Switch = hardware.Switch

// parameters are the parts of slurm.conf that the scheduler reads.
type parameters struct {
	// Options of SchedulerParameters.
	batchSchedDelay, schedInterval int64
	schedMinInterval               time.Duration
	queueDepth, partitionDepth     int
	maxStart                       int
	deferred                       bool // defer: an epilog only queues the scheduler
	assocLimitStop                 bool
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
	o := options(get)
	p := &parameters{
		batchSchedDelay: o.number("batch_sched_delay", 3), schedInterval: o.number("sched_interval", 60),
		schedMinInterval: time.Duration(o.number("sched_min_interval", 2)) * time.Microsecond,
		queueDepth:       int(o.number("default_queue_depth", 100)), partitionDepth: int(o.number("partition_job_depth", 0)),
		maxStart: int(o.number("sched_max_job_start", 0)), deferred: strings.Contains(o.text, "defer"),
		assocLimitStop: o.has("assoc_limit_stop"), maxSwitchWait: o.number("max_switch_wait", 300),
	}
	p.bf = bfParameters{
		interval: o.number("bf_interval", 30), window: o.number("bf_window", 1440) * 60,
		resolution: max(1, o.number("bf_resolution", 60)),
		maxTest:    int(o.number("bf_max_job_test", 500)), maxUser: int(o.number("bf_max_job_user", 0)),
		maxPart: int(o.number("bf_max_job_part", 0)), maxUserPart: int(o.number("bf_max_job_user_part", 0)),
		maxStart: int(o.number("bf_max_job_start", 0)), maxArrayResv: int(o.number("bf_max_job_array_resv", 20)),
		partReserve: int(o.number("bf_job_part_count_reserve", 0)), minAge: o.number("bf_min_age_reserve", 0),
		minPriority: uint32(o.number("bf_min_prio_reserve", 0)), oneReservation: o.has("bf_one_resv_per_job"),
		runningReserve: o.has("bf_running_job_reserve"), busy: o.has("bf_busy_nodes"),
		linear: o.number("bf_window_linear", 0),
	}
	p.bf.off = p.bf.interval < 0 || strings.EqualFold(value(get, "SchedulerType"), "sched/builtin")
	p.bf.spaceSize = int(o.number("bf_node_space_size", int64(p.bf.maxTest)))
	p.killWait, p.overTimeLimit = number(get, "KillWait", 30), number(get, "OverTimeLimit", 0)*60
	p.minJobAge, p.firstJob = number(get, "MinJobAge", 300), uint32(number(get, "FirstJobId", 1))
	p.reservationOverRun = number(get, "ResvOverRun", 0) * 60
	if text := strings.ToUpper(value(get, "ResvOverRun")); text == "UNLIMITED" || text == "INFINITE" {
		p.reservationOverRun = endless * 60
	}
	p.epilog = value(get, "Epilog") != ""
	p.killInvalidDepend = strings.Contains(strings.ToLower(value(get, "DependencyParameters")), "kill_invalid_depend")
	p.requeue = number(get, "JobRequeue", 1) != 0
	p.calcPeriod = 300
	if d, err := slurmspec.ParseTimeSpec(value(get, "PriorityCalcPeriod")); err == nil && d > 0 {
		p.calcPeriod = int64(d / time.Second)
	}
	return p
}

func value(get func(string) (string, bool), key string) string {
	text, _ := get(key)
	return text
}

func number(get func(string) (string, bool), key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(value(get, key), 10, 32); err == nil {
		return n
	}
	return otherwise
}

// schedulerOptions is the text of SchedulerParameters, in lower case. slurmctld looks for options in it as
// text, so that "bf_interval=" is found anywhere.
type schedulerOptions struct{ text string }

func options(get func(string) (string, bool)) schedulerOptions {
	return schedulerOptions{strings.ToLower(value(get, "SchedulerParameters"))}
}

func (o schedulerOptions) has(name string) bool { return strings.Contains(o.text, name) }

func (o schedulerOptions) number(name string, otherwise int64) int64 {
	_, text, found := strings.Cut(o.text, name+"=")
	if !found {
		return otherwise
	}
	text, _, _ = strings.Cut(text, ",")
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// partition is a partition with its nodes as a set.
type partition struct {
	name               string
	nodes              selection.Bits
	tier               int
	maxMinutes         int64 // -1 for none
	defaultMinutes     int64 // -1 for none
	minNodes, maxNodes int
	memory             int64 // of jobs that ask for none, in MiB; 0 for all
	memoryPerCPU       bool
	whole, leastLoaded bool
	account            *accountedPartition
	failed             bool // in the present pass of the main scheduler
	planned            int  // jobs with reservations in the present cycle of backfill
	tests              int  // jobs tested in the present cycle
}

// noMinutes stands for a time limit that is not given, endless for none.
const (
	noMinutes = -1
	endless   = 365 * 24 * 60
)

func newMachine(cfg *Config) (*selection.Machine, error) {
	params := strings.ToUpper(value(cfg.Get, "SelectTypeParameters"))
	rules := rulesOf(cfg.Release)
	m := &selection.Machine{
		Since2411: rules.since2411, Since2605: rules.since2605,
		CountMemory: strings.Contains(params, "MEMORY"), BlockCores: strings.Contains(params, "CR_CORE_DEFAULT_DIST_BLOCK"),
		LeastLoaded: strings.Contains(params, "CR_LLN"), PackSerial: options(cfg.Get).has("pack_serial_at_end"),
		TreeOptional: strings.Contains(strings.ToLower(value(cfg.Get, "TopologyParam")), "topooptional"),
	}
	if err := hardware.Add(m, cfg.Nodes, cfg.Switches); err != nil {
		return nil, err
	}
	m.Prepare()
	return m, nil
}

// newPartition returns a partition of slurm.conf.
func newPartition(cfg *Config, line *Partition, place map[string]int) (*partition, error) {
	p := &partition{
		name: line.Name, nodes: selection.NewBits(len(place)),
		tier:     int(number(line.Get, "PriorityTier", number(line.Get, "Priority", 1))),
		minNodes: int(number(line.Get, "MinNodes", 0)), maxNodes: int(number(line.Get, "MaxNodes", 0)),
		whole:       strings.EqualFold(cmp.Or(value(line.Get, "OverSubscribe"), value(line.Get, "Shared")), "EXCLUSIVE"),
		leastLoaded: strings.EqualFold(value(line.Get, "LLN"), "YES"),
	}
	for _, name := range line.Nodes {
		p.nodes.Set(place[name])
	}
	var err error
	if p.maxMinutes, err = minutes(line.Get, "MaxTime"); err != nil {
		return nil, err
	}
	if p.defaultMinutes, err = minutes(line.Get, "DefaultTime"); err != nil {
		return nil, err
	}
	for _, get := range []func(string) (string, bool){line.Get, cfg.Get} {
		perCPU, perNode := number(get, "DefMemPerCPU", 0), number(get, "DefMemPerNode", 0)
		if perCPU > 0 || perNode > 0 {
			p.memory, p.memoryPerCPU = max(perCPU, perNode), perCPU > 0
			break
		}
	}
	return p, nil
}

// minutes returns a time limit of a partition in minutes, rounded up, or noMinutes.
func minutes(get func(string) (string, bool), key string) (int64, error) {
	text := value(get, key)
	if text == "" || slices.Contains([]string{"UNLIMITED", "INFINITE", "NONE"}, strings.ToUpper(text)) {
		return noMinutes, nil
	}
	d, err := slurmspec.ParseTimeLimit(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: %w", key, text, err)
	}
	if d == hpc.Unlimited {
		return noMinutes, nil
	}
	return int64((d + time.Minute - 1) / time.Minute), nil
}
