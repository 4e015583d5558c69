package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// job is a job record of slurmctld: a job, a task of an array, or the tasks of an array that have no record
// of their own yet.
type job struct {
	of     *submission
	number uint32 // Slurm's number
	place  int    // in slurmctld's list of jobs
	task   int    // -1 for a job that is no array, and for several tasks
	tasks  []int  // without a record of their own, ascending; nil for a single task or job

	state     state
	parts     []*partition     // highest tier first
	part      *partition       // the one in which it is considered, or runs
	priority  uint32           // 0 if it is held
	perPart   []uint32         // priorities in parts; nil if there is only one
	direct    bool             // the submission or an operator has set the priority
	noted     slurmspec.Reason // the reason that accounting knows
	reason    slurmspec.Reason // why it pends
	words     string           // about reasonNotAvailable (state_desc)
	restarts  int
	endless   bool  // no time limit of its own
	limit     int64 // time limit in minutes; noMinutes if it gives none
	timeMin   int64 // --time-min in minutes; 0 for none
	submit    int64 // this and the following in seconds since 1970
	begin     int64 // 0 if it is not eligible
	accrue    int64 // since when it gains age; 0 if it does not
	estimate  int64 // when backfill expects it to start; of a running job its start
	end       int64 // of a running job, when it reaches its limit; of an ended one, its end
	deadline  int64 // 0 for none
	eligible  int64 // its last begin time
	startedAt hpc.Time
	endTimer  int // number of the timer of its end

	request            selection.Request
	minNodes, maxNodes int // 0 for no maximum
	useMinNodes        bool
	implicitMax        bool  // maxNodes follows from the number of tasks, since 26.05 (JOB_IMPLICIT_MAX_NODES)
	exclusive          bool  // it shares its nodes with no other job
	switchWait         int64 // seconds that it waits for switches
	switchSince        int64 // since when it waits; 0 if it has not begun
	excluded           selection.Bits
	ownMemory          bool           // it says how much memory it wants
	demand             demand.Demand  // of hardware and features
	capable            selection.Bits // nodes whose hardware and features serve it
	needs              *needs         // dependencies; nil for none
	hopeless           bool           // its dependencies can never be met
	dependent          bool           // a dependency holds it, or it has not been tested yet (JOB_DEPENDENT)
	totalCPUs          int            // that the last successful test gave it
	chosenNodes        int            // that the last selection gave it (node_cnt_wag)
	alloc              *selection.Allocation
	account            *accounted                // what accounting knows of it; nil without
	backfill           rm.Backfill               // what backfill did with it in the cycle judged
	judged             uint32                    // number of the last cycle of backfill that judged it
	told               told                      // what was last reported of it while it waits
	well               bool                      // it completed
	reservation        *reservations.Reservation // that it names; nil for none
	licenses           licenses.Request
	licensed           []licenses.License // that it holds
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
	limit   int // largest number of tasks that run at once; 0 for any
	running int
	failed  bool // a task of it did not complete well
}

// isHead reports whether the record stands for tasks of an array that have no record of their own.
func (j *job) isHead() bool { return j.tasks != nil }

// id is the number by which the queue sorts equal jobs.
func (j *job) id() uint32 {
	if j.of.array != nil {
		return j.of.number
	}
	return j.number
}
