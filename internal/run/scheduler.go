package run

// Scheduler holds the statistics of the scheduler during the run, as Slurm's sdiag shows them.
// Times are virtual, in seconds. With the frozen clock, only sleeps take time in a cycle. Means
// are over the counted cycles.
type Scheduler struct {
	JobsSubmitted  int `json:"jobs_submitted"`
	JobsStarted    int `json:"jobs_started"`
	JobsCompleted  int `json:"jobs_completed"` // jobs that ended by themselves, with any exit code
	JobsCancelled  int `json:"jobs_cancelled"`
	JobsFailed     int `json:"jobs_failed"`
	JobsBackfilled int `json:"jobs_backfilled"` // started by the backfill scheduler

	// The main scheduler: the number of jobs that it considered in a cycle, and the cycle's
	// time.
	MainCycles    int     `json:"main_cycles"`
	MainMean      float64 `json:"main_mean_s"`
	MainMax       float64 `json:"main_max_s"`
	MainDepthMean float64 `json:"main_depth_mean"`

	// The backfill scheduler. Cycle times exclude the pauses in which it releases its locks.
	// Depth counts the jobs that it considered, and tried those that it tried to place. Queue
	// is the length of the queue. Table is the size of its table of future allocations.
	BackfillCycles    int     `json:"backfill_cycles"`
	BackfillMean      float64 `json:"backfill_mean_s"`
	BackfillMax       float64 `json:"backfill_max_s"`
	BackfillDepthMean float64 `json:"backfill_depth_mean"`
	BackfillTriedMean float64 `json:"backfill_tried_mean"`
	BackfillQueueMean float64 `json:"backfill_queue_mean"`
	BackfillTableMean float64 `json:"backfill_table_mean"`

	// Maxima of hourly samples: entries of the backfill table, waiting messages to nodes,
	// waiting messages to the accounting database, and requests in service.
	BackfillTableMax int `json:"backfill_table_max"`
	AgentQueueMax    int `json:"agent_queue_max"`
	DBDQueueMax      int `json:"dbd_queue_max"`
	ServerThreadsMax int `json:"server_threads_max"`
}

// Add combines the statistics of both: sums, maxima, and means weighted by cycles.
func (s Scheduler) Add(o Scheduler) Scheduler {
	mean := func(a, b float64, n, m int) float64 {
		if n+m == 0 {
			return 0
		}
		return (a*float64(n) + b*float64(m)) / float64(n+m)
	}
	main := func(a, b float64) float64 { return mean(a, b, s.MainCycles, o.MainCycles) }
	backfill := func(a, b float64) float64 { return mean(a, b, s.BackfillCycles, o.BackfillCycles) }
	return Scheduler{
		JobsSubmitted: s.JobsSubmitted + o.JobsSubmitted, JobsStarted: s.JobsStarted + o.JobsStarted,
		JobsCompleted: s.JobsCompleted + o.JobsCompleted, JobsCancelled: s.JobsCancelled + o.JobsCancelled,
		JobsFailed: s.JobsFailed + o.JobsFailed, JobsBackfilled: s.JobsBackfilled + o.JobsBackfilled,
		MainCycles: s.MainCycles + o.MainCycles, MainMean: main(s.MainMean, o.MainMean),
		MainMax: max(s.MainMax, o.MainMax), MainDepthMean: main(s.MainDepthMean, o.MainDepthMean),
		BackfillCycles: s.BackfillCycles + o.BackfillCycles, BackfillMean: backfill(s.BackfillMean, o.BackfillMean),
		BackfillMax: max(s.BackfillMax, o.BackfillMax), BackfillDepthMean: backfill(s.BackfillDepthMean, o.BackfillDepthMean),
		BackfillTriedMean: backfill(s.BackfillTriedMean, o.BackfillTriedMean),
		BackfillQueueMean: backfill(s.BackfillQueueMean, o.BackfillQueueMean),
		BackfillTableMean: backfill(s.BackfillTableMean, o.BackfillTableMean),
		BackfillTableMax:  max(s.BackfillTableMax, o.BackfillTableMax),
		AgentQueueMax:     max(s.AgentQueueMax, o.AgentQueueMax), DBDQueueMax: max(s.DBDQueueMax, o.DBDQueueMax),
		ServerThreadsMax: max(s.ServerThreadsMax, o.ServerThreadsMax),
	}
}
