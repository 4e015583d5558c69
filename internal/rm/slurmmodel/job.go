package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/alternatives"
	"rmreplay/internal/rm/slurmmodel/backfill"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/cpulimits"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/dependencies"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
)

// job is a job record of slurmctld: a job, a task of an array, or all tasks of an array that share a record. The fields
// that each pass reads of all pending jobs come first, because the processor's caches do not hold all records.
type job struct {
	state       state
	implicitMax bool             // maxNodes was computed from the number of tasks, since 26.05 (JOB_IMPLICIT_MAX_NODES)
	ownMemory   bool             // the job asks for memory; otherwise its partition decides
	dependent   bool             // the job waits for a dependency, or has not been tested yet (JOB_DEPENDENT)
	hopeless    bool             // its dependencies can never be met
	direct      bool             // the submission or an operator has set the priority
	endless     bool             // the job has no time limit
	byAdmin     bool             // an operator has raised the limit of a preset job above MaxTime
	noted       slurmspec.Reason // the last reason that was reported to slurmdbd
	reason      slurmspec.Reason // why the job is pending
	number      uint32           // Slurm's number
	priority    uint32           // 0 if the job is held
	judged      uint32           // number of the last backfill cycle that decided on the job

	part     *partition   // the partition in which the job is considered, or runs
	parts    []*partition // highest tier first; jobs may share the list
	perPart  []uint32     // priorities by index in parts; nil for one partition
	limit    int64        // time limit in minutes; noMinutes if the job gives none
	timeMin  int64        // --time-min in minutes; 0 if not given
	submit   int64        // this and the next four fields are in seconds since 1970
	begin    int64        // 0 if the job is not eligible
	accrue   int64        // since when the job gains age; 0 if it does not
	estimate int64        // start that backfill expects; the start of a running job
	eligible int64        // the job's last begin time

	tasks              []int                            // tasks without a record of their own, ascending; nil for one task
	task               int                              // index of the task; -1 if not an array, or for several tasks
	array              *array                           // nil if the job is not an array
	among              *array                           // the array that counts the job among its running tasks; never nil
	needs              *dependencies.Needs[*submission] // nil without dependencies
	reservation        reservations.Own                 // of --reservation, or a magnetic one
	minNodes, maxNodes int                              // maxNodes is 0 without a maximum
	depth              *backfill.Depth                  // of the user and the partition; nil before the first cycle
	backfill           rm.Backfill                      // result of the last backfill cycle that decided on the job
	told               told                             // what was last reported about the pending job
	account            *accounted                       // nil before accounting.admit
	request            selection.Request
	original           selection.Request // the request before it was fitted to a partition's limit of memory
	fitted             *partition        // the partition to whose limit of memory it was fitted last

	of          *submission
	place       int // index in slurmctld's list of jobs
	restarts    int
	words       string // text after slurmspec.NotAvailable in the reason (state_desc)
	end         int64  // when a running job reaches its limit; when an ended job ended
	deadline    int64  // 0 if not given
	startedAt   hpc.Time
	endTimer    int // number of the timer that ends the job
	useMinNodes bool
	owns        bool // the job shares its nodes only with jobs of its user
	sharing     sharing.Job
	switchWait  int64 // seconds that the job waits for --switches
	switchSince int64 // when that wait began; 0 if it has not
	excluded    selection.Bits
	demand      demand.Demand  // hardware and features that the job needs
	capable     selection.Bits // nodes that meet demand
	fillable    selection.Bits // nodes that meet demand for backfill
	brackets    alternatives.Sets
	totalCPUs   int // CPUs of the last successful test
	chosenNodes int // nodes of the last selection (node_cnt_wag)
	alloc       *selection.Allocation
	well        bool // the job ended in state COMPLETED
	licenses    licenses.Request
	licensed    []licenses.License // licences that the job holds
	preemption  preemption.Job
	times       gang.Times // the job's suspensions
	signal      int        // signal that ended the job's script; 0 if none did
}

type state uint8

const (
	pending state = iota
	running
	completing // the job has ended, and its nodes are not free yet
	ended
)

// submission is a job of the workload.
type submission struct {
	job           *hpc.Job
	index         int // number of the submission, from 1
	number        uint32
	array         *array // nil if the job is not an array
	jobs          []*job // all records of the job
	gone, refused bool   // slurmctld has forgotten all records; it has refused the job
}

// array has the state that all tasks of an array share.
type array struct {
	limit      int // how many tasks may run at once; 0 for all
	running    int
	failed     bool // a task ended in another state than COMPLETED
	preempting int  // tasks that have preempted jobs since the last queue was built (pend_run_tasks)
}

// isHead reports whether the record is that of an array's tasks without a record of their own.
func (j *job) isHead() bool { return j.tasks != nil }

// id is the number by which the queue orders jobs that are otherwise equal.
func (j *job) id() uint32 {
	if j.array != nil {
		return j.of.number
	}
	return j.number
}

// Config describes a cluster and the slurmctld that runs it.
type Config = config.Config

// partition is a partition with its nodes as a set.
type partition struct {
	partitions.Partition
	nodes   selection.Bits
	index   int // its index among all partitions
	account *partitions.Accounting
	preempt *preemption.Partition
	failed  bool // the present pass of the main scheduler considers no more of its jobs
	planned int  // number of its jobs that the present backfill cycle has planned
	tests   int  // number of its jobs that the present pass has tested
}

// noMinutes is the limit of a job that requests none. endless (a year) is the limit of a job without a limit.
const (
	noMinutes = -1
	endless   = 365 * 24 * 60
)

// newPartition returns a partition of slurm.conf.
func newPartition(cfg *Config, line *config.Partition, m *selection.Machine, place map[string]int) (*partition, error) {
	p := &partition{}
	var err error
	p.Partition, p.nodes, err = partitions.New(line, cfg.Get, m, place)
	p.CPULimit, p.preempt = cpulimits.Read(line.Get, cfg.Release), preemption.NewPartition(line.Get, p.nodes, p.Tier)
	return p, err
}
