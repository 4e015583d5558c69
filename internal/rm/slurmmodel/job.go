package slurmmodel

import (
	"cmp"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// job is a job record of slurmctld: a job, a task of an array, or the tasks of an array that have no record
// of their own yet.
//
// The fields that each pass reads of all pending jobs stand first and close together, because the
// processor's caches do not hold the whole of a long queue.
type job struct {
	state       state
	implicitMax bool             // maxNodes follows from the number of tasks, since 26.05 (JOB_IMPLICIT_MAX_NODES)
	ownMemory   bool             // it says how much memory it wants
	dependent   bool             // a dependency holds it, or it has not been tested yet (JOB_DEPENDENT)
	hopeless    bool             // its dependencies can never be met
	direct      bool             // the submission or an operator has set the priority
	endless     bool             // no time limit of its own
	noted       slurmspec.Reason // the reason that accounting knows
	reason      slurmspec.Reason // why it pends
	number      uint32           // Slurm's number
	priority    uint32           // 0 if it is held
	judged      uint32           // number of the last cycle of backfill that judged it

	part     *partition   // the one in which it is considered, or runs
	parts    []*partition // highest tier first; jobs may share the list
	perPart  []uint32     // priorities in parts; nil if there is only one
	limit    int64        // time limit in minutes; noMinutes if it gives none
	timeMin  int64        // --time-min in minutes; 0 for none
	submit   int64        // this and the following in seconds since 1970
	begin    int64        // 0 if it is not eligible
	accrue   int64        // since when it gains age; 0 if it does not
	estimate int64        // when backfill expects it to start; of a running job its start
	eligible int64        // its last begin time

	tasks              []int                            // without a record of their own, ascending; nil for a single one
	task               int                              // -1 for a job that is no array, and for several tasks
	array              *array                           // nil for a job that is no array
	among              *array                           // the array that counts it among its running tasks; never nil
	needs              *dependencies.Needs[*submission] // nil for none
	reservation        *reservations.Reservation        // that it names; nil for none
	minNodes, maxNodes int                              // 0 for no maximum
	backfill           rm.Backfill                      // what backfill did with it in the last cycle that judged it
	told               told                             // what was last reported of it while it waits
	account            *accounted                       // what accounting knows of it; nil without accounting
	request            selection.Request

	of          *submission
	place       int // in slurmctld's list of jobs
	restarts    int
	words       string // text behind slurmspec.NotAvailable (state_desc)
	end         int64  // of a running job, when it reaches its limit; of an ended one, its end
	deadline    int64  // 0 for none
	startedAt   hpc.Time
	endTimer    int // number of the timer of its end
	useMinNodes bool
	exclusive   bool  // it shares its nodes with no other job
	switchWait  int64 // seconds that it waits for switches
	switchSince int64 // since when it waits; 0 if it has not begun
	excluded    selection.Bits
	demand      demand.Demand  // of hardware and features
	capable     selection.Bits // nodes whose hardware and features serve it
	totalCPUs   int            // that the last successful test gave it
	chosenNodes int            // that the last selection gave it (node_cnt_wag)
	alloc       *selection.Allocation
	well        bool // it completed
	licenses    licenses.Request
	licensed    []licenses.License // that it holds
	preemption  preemption.Job
	times       gang.Times // of suspensions
	signal      int        // that has ended its script; 0 for none
}

type state uint8

const (
	pending state = iota
	running
	completing // its nodes are not free yet
	ended
)

// submission is a job of the workload.
type submission struct {
	job    *hpc.Job
	index  int // of the submission, from 1
	number uint32
	array  *array // nil for a job that is no array
	jobs   []*job // all records
	gone   bool   // slurmctld has forgotten all of them
}

// array is what the tasks of an array share.
type array struct {
	limit      int // largest number of tasks that run at once; 0 for any
	running    int
	failed     bool // a task of it did not complete well
	preempting int  // tasks that have preempted jobs since the last queue was built (pend_run_tasks)
}

// isHead reports whether the record stands for tasks of an array that have no record of their own.
func (j *job) isHead() bool { return j.tasks != nil }

// id is the number by which the queue sorts equal jobs.
func (j *job) id() uint32 {
	if j.array != nil {
		return j.of.number
	}
	return j.number
}

type (
	// Config describes a cluster and the slurmctld that runs it.
	Config = config.Config
	// Usage is the fair-share usage with which slurmctld starts.
	Usage = config.Usage
	// Partition is a partition of slurm.conf.
	Partition = config.Partition
	// Switch is a line of topology.conf.
	Switch = config.Switch
)

// partition is a partition with its nodes as a set.
type partition struct {
	name               string
	nodes              selection.Bits
	tier, index        int   // its place among all partitions
	maxMinutes         int64 // -1 for none
	defaultMinutes     int64 // -1 for none
	count, cpus        int   // nodes, and CPUs of all of them
	minNodes, maxNodes int
	memory             int64 // of jobs that ask for none, in MiB; 0 for all
	memoryPerCPU       bool
	whole, leastLoaded bool
	account            *accountedPartition
	preempt            *preemption.Partition
	failed             bool // in the present pass of the main scheduler
	planned            int  // jobs with reservations in the present cycle of backfill
	tests              int  // jobs tested in the present pass of the main scheduler
}

// noMinutes stands for a time limit that is not given, endless (a year) for a job without a limit.
const (
	noMinutes = -1
	endless   = 365 * 24 * 60
)

// newPartition returns a partition of slurm.conf.
func newPartition(cfg *Config, line *Partition, m *selection.Machine, place map[string]int) (*partition, error) {
	sharing := cmp.Or(keys.Value(line.Get, "OverSubscribe"), keys.Value(line.Get, "Shared"))
	p := &partition{
		name: line.Name, nodes: selection.NewBits(len(place)),
		tier:     int(keys.Number(line.Get, "PriorityTier", keys.Number(line.Get, "Priority", 1))),
		minNodes: int(keys.Number(line.Get, "MinNodes", 0)), maxNodes: int(keys.Number(line.Get, "MaxNodes", 0)),
		whole:       strings.EqualFold(sharing, "EXCLUSIVE"),
		leastLoaded: strings.EqualFold(keys.Value(line.Get, "LLN"), "YES"),
	}
	for _, name := range line.Nodes {
		p.nodes.Set(place[name])
		p.cpus += m.Nodes[place[name]].CPUs
	}
	p.count = p.nodes.Count()
	p.preempt = preemption.NewPartition(line.Get, p.nodes, p.tier)
	p.memory, p.memoryPerCPU = line.Memory(cfg.Get)
	var err error
	p.maxMinutes, p.defaultMinutes, err = line.Limits()
	return p, err
}
