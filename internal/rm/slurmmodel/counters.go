package slurmmodel

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

// At calls f when virtual time reaches t, after everything that slurmctld does then.
func (e *Engine) At(t hpc.Time, f func()) { e.at(t, questions, f) }

// AskStats answers with slurmctld's own counters, as sdiag shows them.
func (e *Engine) AskStats(answer func(*rpc.Stats, error)) {
	s := e.stats
	s.Time = e.second()
	for _, j := range e.list {
		switch n := uint32(max(1, len(j.tasks))); j.state {
		case pending:
			s.Pending += n
		case running:
			s.Running++
		}
	}
	answer(&s, nil)
}

// Why cycles of the main scheduler and of backfill ended, by their places in the lists of counters
// (schedule_exit_t and bf_exit_t in slurmctld.h).
const (
	mainEnd    = 0 // of the queue
	mainDepth  = 1 // default_queue_depth
	mainStarts = 2 // sched_max_job_start
	mainTime   = 5 // max_sched_time
	mainExits  = 6

	backfillEnd     = 0 // of the queue
	backfillStarts  = 1 // bf_max_job_start
	backfillTests   = 2 // bf_max_job_test
	backfillChanged = 3 // without bf_continue
	backfillTable   = 4 // bf_node_space_size
	backfillTime    = 5 // bf_max_time
	backfillExits   = 6
)

// countExit counts why a cycle ended. Slurm before 23.11 does not.
func (e *Engine) countExit(counts *[]uint32, why, of int) {
	if !e.rules.wholeSeconds {
		return
	}
	if *counts == nil {
		*counts = make([]uint32, of)
	}
	(*counts)[why]++
}
