package run

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"rmreplay/internal/hpc"
)

// Statistics are the counters of slurmctld at an instant, as Slurm's sdiag shows them. They are a
// row of scheduler.parquet. Counters are those since Since, which is the last midnight (UTC) or
// slurmctld's start; only Requests are counted since the start. Times of cycles are virtual: with
// the frozen clock, only sleeps take time in a cycle.
type Statistics struct {
	At    hpc.Time `parquet:"at_time,timestamp(nanosecond)"`
	Since hpc.Time `parquet:"since_time,timestamp(nanosecond)"`

	// Requests in service, messages that wait for nodes, threads that send them, and messages
	// that wait for slurmdbd.
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

	// The main scheduler: cycles, their times added up, the longest and the last one, the jobs
	// that all cycles looked at, and the queue of the last cycle.
	MainCycles int64         `parquet:"main_cycles"`
	MainSum    time.Duration `parquet:"main_sum_ns"`
	MainMax    time.Duration `parquet:"main_max_ns"`
	MainLast   time.Duration `parquet:"main_last_ns"`
	MainDepth  int64         `parquet:"main_depth"`
	MainQueue  int64         `parquet:"main_queue"`

	// The backfill scheduler: the same, the jobs that all cycles tried to place, the size of the
	// table of future states after the last cycle, and the jobs that it started.
	BackfillCycles int64         `parquet:"backfill_cycles"`
	BackfillSum    time.Duration `parquet:"backfill_sum_ns"`
	BackfillMax    time.Duration `parquet:"backfill_max_ns"`
	BackfillLast   time.Duration `parquet:"backfill_last_ns"`
	BackfillDepth  int64         `parquet:"backfill_depth"`
	BackfillTried  int64         `parquet:"backfill_tried"`
	BackfillQueue  int64         `parquet:"backfill_queue"`
	BackfillTable  int64         `parquet:"backfill_table"`
	JobsBackfilled int64         `parquet:"jobs_backfilled"`

	// MainExits and BackfillExits count why cycles ended. Slurm before 23.11 does not count that.
	MainExits     []Exits    `parquet:"main_exits,list"`
	BackfillExits []Exits    `parquet:"backfill_exits,list"`
	Requests      []Requests `parquet:"requests,list"`
}

// Exits counts the cycles that ended for a reason. Name is that of sdiag --json, such as
// end_job_queue.
type Exits struct {
	Name  string `parquet:"name,dict"`
	Count int64  `parquet:"count"`
}

// Requests counts the requests of a type, such as REQUEST_PING, and the time that slurmctld took
// for them.
type Requests struct {
	Type  string        `parquet:"type,dict"`
	Count int64         `parquet:"count"`
	Time  time.Duration `parquet:"time_ns"`
}

// Statistics records the scheduler's counters at an instant. Instants ascend. Only a complete
// record has them.
func (w *Writer) Statistics(s Statistics) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if w.statistics == nil {
		if w.statistics, err = createTable[Statistics](filepath.Join(w.dir, schedulerFile)); err != nil {
			return w.fail(err)
		}
	}
	if err := w.statistics.write([]Statistics{s}); err != nil {
		return w.fail(err)
	}
	return nil
}

// writeStatistics completes scheduler.parquet, if there are statistics.
func (w *Writer) writeStatistics() error {
	if w.statistics == nil {
		return nil
	}
	return w.statistics.commit()
}

// Statistics returns the scheduler's counters over the run, in order. Simulations, partial records
// and older ones have none.
func (r *Run) Statistics() ([]Statistics, error) {
	if r.journal != nil {
		return nil, nil
	}
	rows, err := readTable[Statistics](filepath.Join(r.Dir, schedulerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, err
}
