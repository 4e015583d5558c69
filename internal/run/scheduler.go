package run

// Scheduler is what the resource manager's controller has counted of itself in the run,
// as Slurm's sdiag shows it. Times are virtual, in seconds: with the frozen clock a cycle
// takes none, but for its sleeps. A mean is over the cycles that were counted.
type Scheduler struct {
	JobsSubmitted  int `json:"jobs_submitted"`
	JobsStarted    int `json:"jobs_started"`
	JobsCompleted  int `json:"jobs_completed"` // by themselves, with whatever exit code
	JobsCancelled  int `json:"jobs_cancelled"`
	JobsFailed     int `json:"jobs_failed"`
	JobsBackfilled int `json:"jobs_backfilled"` // started by the backfill scheduler

	// The main scheduler: how many jobs it looked at in a cycle, and how long that took.
	MainCycles    int     `json:"main_cycles"`
	MainMean      float64 `json:"main_mean_s"`
	MainMax       float64 `json:"main_max_s"`
	MainDepthMean float64 `json:"main_depth_mean"`

	// The backfill scheduler: its cycles without the pauses in which it lets go of its
	// locks, the jobs that it looked at and those that it tried to place, of how many in
	// the queue, and the entries of its table of the machine's future.
	BackfillCycles    int     `json:"backfill_cycles"`
	BackfillMean      float64 `json:"backfill_mean_s"`
	BackfillMax       float64 `json:"backfill_max_s"`
	BackfillDepthMean float64 `json:"backfill_depth_mean"`
	BackfillTriedMean float64 `json:"backfill_tried_mean"`
	BackfillQueueMean float64 `json:"backfill_queue_mean"`
	BackfillTableMean float64 `json:"backfill_table_mean"`

	// Peaks of what was seen once an hour: entries of the table, messages to nodes and to
	// the accounting database that waited, and requests being served.
	BackfillTableMax int `json:"backfill_table_max"`
	AgentQueueMax    int `json:"agent_queue_max"`
	DBDQueueMax      int `json:"dbd_queue_max"`
	ServerThreadsMax int `json:"server_threads_max"`
}

// Add returns what both count together: sums, maxima, and means weighted with the cycles.
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
		BackfillTriedMean: backfill(s.BackfillTriedMean, o.BackfillTriedMean), BackfillQueueMean: backfill(s.BackfillQueueMean, o.BackfillQueueMean),
		BackfillTableMean: backfill(s.BackfillTableMean, o.BackfillTableMean), BackfillTableMax: max(s.BackfillTableMax, o.BackfillTableMax),
		AgentQueueMax: max(s.AgentQueueMax, o.AgentQueueMax), DBDQueueMax: max(s.DBDQueueMax, o.DBDQueueMax),
		ServerThreadsMax: max(s.ServerThreadsMax, o.ServerThreadsMax),
	}
}
