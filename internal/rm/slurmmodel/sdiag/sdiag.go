// Package sdiag counts what slurmctld counts for the command sdiag.
package sdiag

import (
	"slices"
	"time"

	"rmreplay/internal/rm/slurm/rpc"
)

// Reasons for which a pass of the main scheduler or a cycle of backfill ends. Each is an index of
// the list of counters (schedule_exit_t and bf_exit_t in slurmctld.h). Index 0 is the end of the
// queue.
const (
	MainDepth  = 1 // default_queue_depth
	MainStarts = 2 // sched_max_job_start
	MainTime   = 5 // max_sched_time
	mainExits  = 6

	BackfillStarts  = 1 // bf_max_job_start
	BackfillTests   = 2 // bf_max_job_test
	BackfillChanged = 3 // jobs or nodes changed, without bf_continue
	BackfillTable   = 4 // bf_node_space_size
	BackfillTime    = 5 // bf_max_time
	backfillExits   = 6
)

// Counters has the model's counts in the form of slurmctld's counters, for comparison.
type Counters struct {
	rpc.Stats
	// Exits says that slurmctld counts why passes and cycles end, as it does since 23.11.
	Exits bool
	// BeforeReset, if not nil, is called before the counters are reset, so that no count is lost.
	BeforeReset func()
}

// Reset sets the counters to 0 at a second.
func (c *Counters) Reset(second int64) {
	if c.BeforeReset != nil {
		c.BeforeReset()
	}
	c.Stats = rpc.Stats{Since: second}
}

// Answer returns the counters of this instant. Later passes do not change them.
func (c *Counters) Answer() *rpc.Stats {
	s := c.Stats
	s.MainExits, s.BackfillExits = slices.Clone(s.MainExits), slices.Clone(s.BackfillExits)
	return &s
}

// Pass is the summary of a pass of the main scheduler, or of a cycle of backfill.
type Pass struct {
	// Queue is the length of the queue. Depth is the number of jobs that were considered. Tried is
	// the number of jobs for which backfill looked for nodes.
	Queue, Depth, Tried int
	// Table is how many intervals the table of a backfill cycle has had, also merged ones.
	Table int
	// Exit is why the pass or cycle ended.
	Exit int
	// Took is the virtual time that the pass or cycle took.
	Took time.Duration
}

// Main adds a pass of the main scheduler.
func (c *Counters) Main(p Pass) {
	c.MainCycles++
	c.MainQueue = uint32(p.Queue)
	c.MainDepthSum += uint32(p.Depth)
	c.MainLast, c.MainMax, c.MainSum = p.Took, max(c.MainMax, p.Took), c.MainSum+p.Took
	c.exit(&c.MainExits, p.Exit, mainExits)
}

// Backfill adds a cycle of backfill that began at a second.
func (c *Counters) Backfill(p Pass, second int64) {
	c.BackfillCycles++
	c.BackfillQueue, c.BackfillTableSize = uint32(p.Queue), uint32(p.Table)
	c.BackfillQueueSum += c.BackfillQueue
	c.BackfillTableSizeSum += c.BackfillTableSize
	c.BackfillLastDepth, c.BackfillLastDepthTry, c.BackfillLastTime = uint32(p.Depth), uint32(p.Tried), second
	c.BackfillDepthSum += c.BackfillLastDepth
	c.BackfillDepthTrySum += c.BackfillLastDepthTry
	c.BackfillLast, c.BackfillMax, c.BackfillSum = p.Took, max(c.BackfillMax, p.Took), c.BackfillSum+p.Took
	c.exit(&c.BackfillExits, p.Exit, backfillExits)
}

func (c *Counters) exit(counts *[]uint32, why, of int) {
	if !c.Exits {
		return
	}
	if *counts == nil {
		*counts = make([]uint32, of)
	}
	(*counts)[why]++
}
