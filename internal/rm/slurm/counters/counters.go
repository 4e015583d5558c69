// Package counters adds up slurmctld's own statistics, those of sdiag, over a run, and says
// what in them makes a result doubtful.
//
// slurmctld begins to count anew in the second after every midnight (controller.c,
// _slurmctld_background). So it is asked again and again until then, and at every other hour
// so that a peak is not missed altogether.
package counters

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/run"
)

// Controller is the slurmctld that is asked.
type Controller interface {
	Now() hpc.Time
	// At has f run when virtual time reaches t.
	At(t hpc.Time, f func())
	// AskStats asks for the statistics and does not wait for the answer.
	AskStats(answer func(*rpc.Stats, error))
}

// Warn takes a warning; affects says that it makes the result doubtful.
type Warn func(code, text string, affects bool)

// Counters are what slurmctld has counted so far. One goroutine uses them.
type Counters struct {
	controller Controller

	last   rpc.Stats     // of the day under way
	before run.Scheduler // of the days before
	peaks  run.Scheduler // only its peaks
	asked  int           // questions under way
	err    error         // why the last answer is missing
}

const (
	countEvery = time.Hour
	// countBefore is how long before the full hour slurmctld is asked.
	countBefore = time.Second
	// countAtMidnight is how often it is asked from then on to a second after midnight: it
	// looks at the clock once a second, at whatever part of it. What it counts between the
	// last answer and its beginning anew is lost.
	countAtMidnight = 10 * time.Millisecond
)

// Watch asks for the statistics at the end of each virtual hour, and around midnight, from
// now on.
func Watch(controller Controller) *Counters {
	c := &Counters{controller: controller}
	c.askLater()
	return c
}

func (c *Counters) askLater() {
	c.controller.At(nextCount(c.controller.Now()), func() {
		c.Ask()
		c.askLater()
	})
}

// nextCount is when slurmctld is asked for its statistics next after an instant.
func nextCount(now hpc.Time) hpc.Time {
	after := func(d time.Duration) hpc.Time { return (now/hpc.Time(d) + 1) * hpc.Time(d) }
	const day = hpc.Time(24 * time.Hour)
	if now.Add(countBefore)%day < hpc.Time(2*countBefore) {
		return after(countAtMidnight)
	}
	if next := after(countEvery).Add(-countBefore); next > now {
		return next
	}
	return after(countEvery).Add(countEvery - countBefore)
}

// Ask asks for the statistics now.
func (c *Counters) Ask() {
	c.asked++
	c.controller.AskStats(func(stats *rpc.Stats, err error) {
		c.asked--
		if c.err = err; err == nil {
			c.take(stats)
		}
	})
}

// Answered reports whether every question has been answered.
func (c *Counters) Answered() bool { return c.asked == 0 }

// Err is why the last answer is missing; nil if it is not.
func (c *Counters) Err() error { return c.err }

// take adds what the controller has counted.
func (c *Counters) take(s *rpc.Stats) {
	if c.last.Since != 0 && s.Since != c.last.Since {
		c.before = c.before.Add(daily(&c.last))
	}
	c.last = *s
	p := &c.peaks
	p.AgentQueueMax = max(p.AgentQueueMax, int(s.AgentQueue))
	p.ServerThreadsMax = max(p.ServerThreadsMax, int(s.ServerThreads))
	p.DBDQueueMax = max(p.DBDQueueMax, int(s.DBDQueue))
	p.BackfillTableMax = max(p.BackfillTableMax, int(s.BackfillTableSize))
}

// Total is what has been counted in the whole run.
func (c *Counters) Total() run.Scheduler {
	out := c.before.Add(daily(&c.last))
	p := &c.peaks
	out.AgentQueueMax, out.ServerThreadsMax, out.DBDQueueMax, out.BackfillTableMax = p.AgentQueueMax, p.ServerThreadsMax, p.DBDQueueMax, p.BackfillTableMax
	return out
}

// daily is what slurmctld has counted since midnight. A mean is that of its cycles.
func daily(s *rpc.Stats) run.Scheduler {
	mean := func(sum float64, cycles uint32) float64 {
		if cycles == 0 {
			return 0
		}
		return sum / float64(cycles)
	}
	bf := s.BackfillCycles
	return run.Scheduler{
		JobsSubmitted: int(s.Submitted), JobsStarted: int(s.Started), JobsCompleted: int(s.Completed),
		JobsCancelled: int(s.Cancelled), JobsFailed: int(s.Failed), JobsBackfilled: int(s.BackfilledJobs),
		MainCycles: int(s.MainCycles), MainMean: mean(s.MainSum.Seconds(), s.MainCycles), MainMax: s.MainMax.Seconds(),
		MainDepthMean:  mean(float64(s.MainDepthSum), s.MainCycles),
		BackfillCycles: int(bf), BackfillMean: mean(s.BackfillSum.Seconds(), bf), BackfillMax: s.BackfillMax.Seconds(),
		BackfillDepthMean: mean(float64(s.BackfillDepthSum), bf), BackfillTriedMean: mean(float64(s.BackfillDepthTrySum), bf),
		BackfillQueueMean: mean(float64(s.BackfillQueueSum), bf), BackfillTableMean: mean(float64(s.BackfillTableSizeSum), bf),
	}
}

// limits are those parameters of the backfill scheduler that cut its cycles.
type limits struct {
	maxTime             time.Duration // bf_max_time
	yieldEvery, yieldIs time.Duration // bf_yield_interval, bf_yield_sleep
	table               int           // bf_node_space_size
}

// backfillLimits reads them from the value of SchedulerParameters, with the defaults
// of backfill.c's _load_config.
func backfillLimits(parameters string) limits {
	number := func(name string, otherwise int) int {
		i := strings.Index(strings.ToLower(parameters), name+"=")
		if i < 0 {
			return otherwise
		}
		digits := parameters[i+len(name)+1:]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	seconds := number("bf_max_time", number("bf_interval", 30))
	return limits{
		maxTime:    time.Duration(seconds) * time.Second,
		yieldEvery: time.Duration(number("bf_yield_interval", 2_000_000)) * time.Microsecond,
		yieldIs:    time.Duration(number("bf_yield_sleep", 500_000)) * time.Microsecond,
		table:      number("bf_node_space_size", number("bf_max_job_test", 500)),
	}
}

// longest is how long a cycle lasts that computes for so long, in seconds: slurmctld
// counts the computing only, but bf_max_time is about all of it, the yields included.
func (l limits) longest(computing float64) float64 {
	return computing * (1 + l.yieldIs.Seconds()/l.yieldEvery.Seconds())
}

// CheckBackfill warns of backfill cycles that were cut before they had seen the whole queue.
// parameters is the value of SchedulerParameters in slurm.conf, and frozen says that computing
// takes no virtual time.
func CheckBackfill(s *run.Scheduler, parameters string, frozen bool, warn Warn) {
	checkBackfill(s, backfillLimits(parameters), frozen, warn)
}

// checkBackfill warns of cycles that were cut before they had seen the queue. slurmctld
// does not count them, so this goes by the longest; it compares whole seconds
// (backfill.c, _attempt_backfill), which is where the second comes from.
func checkBackfill(s *run.Scheduler, l limits, frozen bool, warn Warn) {
	if took := l.longest(s.BackfillMax); took >= l.maxTime.Seconds()-1 && s.BackfillMax > 0 {
		// With the measured clock that is what it is for; with the frozen one no time passes
		// in a cycle but in its yields.
		warn("backfill-cut", fmt.Sprintf("backfill cycles were cut by bf_max_time=%v: the longest took %.1f s, %.1f s of them computing, for %.0f of %.0f jobs in the mean",
			l.maxTime, took, s.BackfillMax, s.BackfillDepthMean, s.BackfillQueueMean), frozen)
	}
	if s.BackfillTableMax >= l.table {
		warn("backfill-table-full", fmt.Sprintf("backfill cycles ended because the table of %d future states of the machine was full (bf_node_space_size, else bf_max_job_test)", l.table), false)
	}
}

// losses are what the daemons log, at any level, when they give up a message of which the
// result should know.
var losses = []struct{ log, code, says, means string }{
	{"slurmctld.log", "message-dropped", "agent waited too long for nodes to respond", "messages to nodes were given up"}, // agent.c
	{"slurmctld.log", "accounting-dropped", "agent queue is full (", "messages to slurmdbd were given up"},                // slurmdbd_agent.c
	{"slurmdbd.log", "change-dropped", "error: update cluster:", "changes of accounts did not reach slurmctld"},           // slurmdb_defs.c
}

// CheckLosses warns of messages that the daemons have dropped, by their logs in a directory.
func CheckLosses(logDir string, warn Warn) error {
	for _, log := range []string{"slurmctld.log", "slurmdbd.log"} {
		counts, err := lossesIn(filepath.Join(logDir, log))
		if err != nil {
			return fmt.Errorf("looking for lost messages: %w", err)
		}
		for i, n := range counts {
			if l := losses[i]; n > 0 && l.log == log {
				warn(l.code, fmt.Sprintf("%s %d times (%s: %q)", l.means, n, log, l.says), true)
			}
		}
	}
	return nil
}

// lossesIn counts the losses that a log tells of, which is not there with
// SlurmctldDebug=quiet or without accounting.
func lossesIn(path string) ([]int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing is written
	return countLosses(f)
}

// countLosses counts the lines of a log that tell of each kind of loss.
func countLosses(log io.Reader) ([]int, error) {
	counts := make([]int, len(losses))
	r := bufio.NewReader(log)
	for {
		line, err := r.ReadSlice('\n')
		for i := range losses {
			if bytes.Contains(line, []byte(losses[i].says)) {
				counts[i]++
			}
		}
		switch {
		case err == io.EOF:
			return counts, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // the rest of a long line comes next
			return counts, err
		}
	}
}
