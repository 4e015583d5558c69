package counters

import (
	"cmp"
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
)

// The reasons why cycles end, as sdiag --json names them, in the order of schedule_exit_t and
// bf_exit_t (slurmctld.h).
var (
	mainExits = []string{"end_job_queue", "default_queue_depth", "max_job_start", "licenses", "max_rpc_cnt",
		"max_sched_time"}
	backfillExits = []string{"end_job_queue", "bf_max_job_start", "bf_max_job_test", "state_changed", "bf_node_space_size",
		"bf_max_time"}
)

// statistics converts an answer to a row of the record.
func statistics(s *rpc.Stats) rm.Statistics {
	const second = 1_000_000_000
	out := rm.Statistics{
		At: hpc.Time(s.Time * second), Since: hpc.Time(s.Since * second),
		ServerThreads: int64(s.ServerThreads), AgentQueue: int64(s.AgentQueue), Agents: int64(s.Agents),
		DBDQueue:    int64(s.DBDQueue),
		JobsPending: int64(s.Pending), JobsRunning: int64(s.Running), JobsSubmitted: int64(s.Submitted),
		JobsStarted:   int64(s.Started),
		JobsCompleted: int64(s.Completed), JobsCancelled: int64(s.Cancelled), JobsFailed: int64(s.Failed),
		JobsBackfilled: int64(s.BackfilledJobs),
		MainCycles:     int64(s.MainCycles), MainSum: s.MainSum, MainMax: s.MainMax, MainLast: s.MainLast,
		MainDepth: int64(s.MainDepthSum), MainQueue: int64(s.MainQueue),
		BackfillCycles: int64(s.BackfillCycles), BackfillSum: s.BackfillSum, BackfillMax: s.BackfillMax,
		BackfillLast:  s.BackfillLast,
		BackfillDepth: int64(s.BackfillDepthSum), BackfillTried: int64(s.BackfillDepthTrySum),
		BackfillQueue: int64(s.BackfillQueue), BackfillTable: int64(s.BackfillTableSize),
		MainExits: exits(mainExits, s.MainExits), BackfillExits: exits(backfillExits, s.BackfillExits),
	}
	for _, r := range s.RPCs {
		out.Requests = append(out.Requests, rm.Requests{Type: r.Type.Name(), Count: int64(r.Count), Time: r.Total})
	}
	slices.SortFunc(out.Requests, func(a, b rm.Requests) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// exits pairs each count with the name of its reason. A reason that this table does not know is
// named by its number.
func exits(names []string, counts []uint32) (list []rm.Exits) {
	for i, n := range counts {
		name := fmt.Sprint(i)
		if i < len(names) {
			name = names[i]
		}
		list = append(list, rm.Exits{Name: name, Count: int64(n)})
	}
	return list
}
