package rm

import (
	"time"

	"rmreplay/internal/hpc"
)

// Statistics are the counters of slurmctld at an instant, as Slurm's sdiag shows them. A value of
// this type is a row of scheduler.parquet in the run's record. Counters begin at Since, which is
// the last midnight (UTC) or slurmctld's start; only Requests are counted from slurmctld's start.
// Times of cycles are virtual: with the frozen clock, only sleeps take time in a cycle.
type Statistics struct {
	At    hpc.Time `parquet:"at_time,timestamp(nanosecond)"`
	Since hpc.Time `parquet:"since_time,timestamp(nanosecond)"`

	// Requests that slurmctld is serving, messages that wait for nodes, threads that send these
	// messages, and messages that wait for slurmdbd.
	ServerThreads int64 `parquet:"server_threads"`
	AgentQueue    int64 `parquet:"agent_queue"`
	Agents        int64 `parquet:"agents"`
	DBDQueue      int64 `parquet:"dbd_queue"`

	JobsPending   int64 `parquet:"jobs_pending"`
	JobsRunning   int64 `parquet:"jobs_running"`
	JobsSubmitted int64 `parquet:"jobs_submitted"`
	JobsStarted   int64 `parquet:"jobs_started"`
	JobsCompleted int64 `parquet:"jobs_completed"`
	JobsCancelled int64 `parquet:"jobs_cancelled"`
	JobsFailed    int64 `parquet:"jobs_failed"`

	// The main scheduler: the number of cycles; the sum, the maximum and the last of their times; the
	// number of jobs that all cycles considered; the length of the queue in the last cycle.
	MainCycles int64         `parquet:"main_cycles"`
	MainSum    time.Duration `parquet:"main_sum_ns"`
	MainMax    time.Duration `parquet:"main_max_ns"`
	MainLast   time.Duration `parquet:"main_last_ns"`
	MainDepth  int64         `parquet:"main_depth"`
	MainQueue  int64         `parquet:"main_queue"`

	// The backfill scheduler: the same figures, and three further figures. The further figures are the number of jobs that
	// all cycles tried to place, the size of the table of future states after the last cycle, and the number of jobs that
	// backfill started.
	BackfillCycles int64         `parquet:"backfill_cycles"`
	BackfillSum    time.Duration `parquet:"backfill_sum_ns"`
	BackfillMax    time.Duration `parquet:"backfill_max_ns"`
	BackfillLast   time.Duration `parquet:"backfill_last_ns"`
	BackfillDepth  int64         `parquet:"backfill_depth"`
	BackfillTried  int64         `parquet:"backfill_tried"`
	BackfillQueue  int64         `parquet:"backfill_queue"`
	BackfillTable  int64         `parquet:"backfill_table"`
	JobsBackfilled int64         `parquet:"jobs_backfilled"`

	// MainExits and BackfillExits count why cycles ended. Slurm before 23.11 does not count why cycles ended.
	MainExits     []Exits    `parquet:"main_exits,list"`
	BackfillExits []Exits    `parquet:"backfill_exits,list"`
	Requests      []Requests `parquet:"requests,list"`
}

// Exits counts the cycles that ended for a reason. Name is the reason's name in sdiag --json, such
// as end_job_queue.
type Exits struct {
	Name  string `parquet:"name,dict"`
	Count int64  `parquet:"count"`
}

// Requests has the number of requests of one type, such as REQUEST_PING, and the time that
// slurmctld took for them.
type Requests struct {
	Type  string        `parquet:"type,dict"`
	Count int64         `parquet:"count"`
	Time  time.Duration `parquet:"time_ns"`
}

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

	// The backfill scheduler. Cycle times exclude the pauses in which it releases its locks. Depth
	// counts the jobs that it considered, and Tried the jobs that it tried to place. Queue is the
	// length of the queue. Table is the size of its table of future allocations.
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

// Add returns the statistics of s and o together: sums, maxima, and means weighted by cycles.
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
