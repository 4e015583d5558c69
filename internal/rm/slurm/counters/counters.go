// Package counters adds up slurmctld's own statistics (sdiag) over a run. It warns of values that
// may make a result invalid.
//
// slurmctld resets its counters in the second after every midnight (controller.c, _slurmctld_background), so Counters
// requests the statistics many times around midnight. From 23.11 on, a reconfiguration also resets the counters, so the
// engine requests the statistics before each reconfiguration. Counters also requests the statistics at regular
// intervals, to record some of the peaks and the development over time.
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
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
)

// Controller is a running slurmctld.
type Controller interface {
	// Now returns the current virtual time.
	Now() hpc.Time
	// At calls f when virtual time reaches t.
	At(t hpc.Time, f func())
	// AskStats requests the statistics. It calls answer later.
	AskStats(answer func(*rpc.Stats, error))
}

// Warn records a warning. The parameter affects is set if the result may be invalid.
type Warn func(code, text string, affects bool)

// Counters adds up slurmctld's counters. One goroutine uses it.
type Counters struct {
	controller Controller
	every      time.Duration       // between regular requests
	keep       func(rm.Statistics) // may be nil

	last   rpc.Stats    // counters of the current day
	before rm.Scheduler // sums of the days before
	peaks  rm.Scheduler // only its peaks are set
	asked  int          // requests without an answer
	kept   int64        // time of the last statistics passed to keep, in seconds since 1970
	due    bool         // the last answer ends an interval; an answer of the same second may replace it
	cut    bool         // the next answer ends an interval
	err    error        // error of the last request
}

const (
	// Every is the usual interval between requests, in virtual time.
	Every = 10 * time.Minute
	// countBefore is the time between a request and the end of its interval.
	countBefore = time.Second
	// countAtMidnight is the interval between requests from a second before midnight to a second
	// after midnight. slurmctld checks the clock once a second, at any instant within the second.
	// Events that slurmctld counts between the last answer and the reset are lost.
	countAtMidnight = 10 * time.Millisecond
)

// Watch requests the statistics from now on, at the end of each interval of virtual time and around midnight. The
// interval every is a day or divides a day. Watch calls keep with one answer for each interval, with the last answer
// before slurmctld resets its counters, and with the first answer after Cut. If the controller has a method
// BeforeReset, as the model of slurmctld has, Watch also requests the statistics just before each reset.
func Watch(controller Controller, every time.Duration, keep func(rm.Statistics)) *Counters {
	c := &Counters{controller: controller, every: every, keep: keep}
	if model, ok := controller.(interface{ BeforeReset(f func()) }); ok {
		model.BeforeReset(c.Ask)
	}
	c.askLater()
	return c
}

func (c *Counters) askLater() {
	c.controller.At(nextCount(c.controller.Now(), c.every), func() {
		c.Ask()
		c.askLater()
	})
}

// nextCount returns the first instant after now at which Counters requests the statistics.
func nextCount(now hpc.Time, every time.Duration) hpc.Time {
	after := func(d time.Duration) hpc.Time { return (now/hpc.Time(d) + 1) * hpc.Time(d) }
	const day = hpc.Time(24 * time.Hour)
	if now.Add(countBefore)%day < hpc.Time(2*countBefore) {
		return after(countAtMidnight)
	}
	if next := after(every).Add(-countBefore); next > now {
		return next
	}
	return after(every).Add(every - countBefore)
}

// Ask requests the statistics now.
func (c *Counters) Ask() { c.AskBefore(func() {}) }

// AskBefore requests the statistics now, and calls then after the answer.
func (c *Counters) AskBefore(then func()) {
	c.asked++
	c.controller.AskStats(func(stats *rpc.Stats, err error) {
		c.asked--
		if c.err = err; err == nil {
			c.take(stats)
		}
		then()
	})
}

// Cut ends the current interval with the next answer. The time before a workload's window is thus
// counted separately from the window.
func (c *Counters) Cut() { c.cut = true }

// Answered reports whether every request has been answered.
func (c *Counters) Answered() bool { return c.asked == 0 }

// Err returns the error of the last request, or nil.
func (c *Counters) Err() error { return c.err }

// take adds an answer. An answer's time is a whole second, and take keeps the last answer of each second.
func (c *Counters) take(s *rpc.Stats) {
	switch {
	case c.last.Since != 0 && s.Since != c.last.Since:
		c.before = c.before.Add(daily(&c.last))
		c.keepLast()
	case c.due && s.Time > c.last.Time:
		c.keepLast()
	}
	c.last = *s
	interval := int64(max(c.every, time.Second) / time.Second)
	c.due = c.cut || (s.Time+1)/interval > (c.kept+1)/interval
	c.cut = false
	p := &c.peaks
	p.AgentQueueMax = max(p.AgentQueueMax, int(s.AgentQueue))
	p.ServerThreadsMax = max(p.ServerThreadsMax, int(s.ServerThreads))
	p.DBDQueueMax = max(p.DBDQueueMax, int(s.DBDQueue))
	p.BackfillTableMax = max(p.BackfillTableMax, int(s.BackfillTableSize))
}

// keepLast passes the last answer to keep, unless it has already done so.
func (c *Counters) keepLast() {
	if c.keep != nil && c.last.Time > c.kept {
		c.kept = c.last.Time
		c.keep(statistics(&c.last))
	}
}

// Total returns the counters of the whole run. It must be called after the last answer. It also
// passes the last answer to keep.
func (c *Counters) Total() rm.Scheduler {
	c.keepLast()
	out := c.before.Add(daily(&c.last))
	p := &c.peaks
	out.AgentQueueMax, out.ServerThreadsMax, out.DBDQueueMax, out.BackfillTableMax = p.AgentQueueMax, p.ServerThreadsMax,
		p.DBDQueueMax, p.BackfillTableMax
	return out
}

// daily converts the counters since midnight. Means are per cycle.
func daily(s *rpc.Stats) rm.Scheduler {
	mean := func(sum float64, cycles uint32) float64 {
		if cycles == 0 {
			return 0
		}
		return sum / float64(cycles)
	}
	bf := s.BackfillCycles
	return rm.Scheduler{
		JobsSubmitted: int(s.Submitted), JobsStarted: int(s.Started), JobsCompleted: int(s.Completed),
		JobsCancelled: int(s.Cancelled), JobsFailed: int(s.Failed), JobsBackfilled: int(s.BackfilledJobs),
		MainCycles: int(s.MainCycles), MainMean: mean(s.MainSum.Seconds(), s.MainCycles), MainMax: s.MainMax.Seconds(),
		MainDepthMean:  mean(float64(s.MainDepthSum), s.MainCycles),
		BackfillCycles: int(bf), BackfillMean: mean(s.BackfillSum.Seconds(), bf), BackfillMax: s.BackfillMax.Seconds(),
		BackfillDepthMean: mean(float64(s.BackfillDepthSum), bf), BackfillTriedMean: mean(float64(s.BackfillDepthTrySum), bf),
		BackfillQueueMean: mean(float64(s.BackfillQueueSum), bf), BackfillTableMean: mean(float64(s.BackfillTableSizeSum),
			bf),
	}
}

// limits has the parameters of the backfill scheduler that end a cycle early.
type limits struct {
	maxTime             time.Duration // bf_max_time
	yieldEvery, yieldIs time.Duration // bf_yield_interval, bf_yield_sleep
	table               int           // bf_node_space_size
}

// backfillLimits reads the limits from the value of SchedulerParameters. The defaults come from
// _load_config in backfill.c.
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

// longest returns the length in seconds of a cycle that computes for the given number of seconds.
// slurmctld counts only the computing, but bf_max_time limits the whole cycle including its yields.
func (l limits) longest(computing float64) float64 {
	return computing * (1 + l.yieldIs.Seconds()/l.yieldEvery.Seconds())
}

// CheckBackfill warns of backfill cycles that ended before they had tried the whole queue.
// parameters is the value of SchedulerParameters in slurm.conf. The parameter frozen is set if
// computing takes no virtual time.
func CheckBackfill(s *rm.Scheduler, parameters string, frozen bool, warn Warn) {
	checkBackfill(s, backfillLimits(parameters), frozen, warn)
}

// checkBackfill is CheckBackfill with parsed limits. slurmctld before 23.11 does not count the
// cycles that it cuts short, so checkBackfill looks at the longest cycle. A cycle counts as cut
// short if it is at most one second shorter than the limit, because slurmctld compares whole
// seconds (backfill.c, _attempt_backfill).
func checkBackfill(s *rm.Scheduler, l limits, frozen bool, warn Warn) {
	if took := l.longest(s.BackfillMax); took >= l.maxTime.Seconds()-1 && s.BackfillMax > 0 {
		// Cuts of backfill cycles do not make a result with the measured clock invalid: the measured clock is for showing
		// such cuts. With the frozen clock, only the yields of a cycle take time.
		warn("backfill-cut", fmt.Sprintf("backfill cycles were cut by bf_max_time=%v: the longest took %.1f s, with "+
			"%.1f s of computing; on average a cycle considered %.0f of %.0f jobs",
			l.maxTime, took, s.BackfillMax, s.BackfillDepthMean, s.BackfillQueueMean), frozen)
	}
	if s.BackfillTableMax >= l.table {
		warn("backfill-table-full", fmt.Sprintf("backfill cycles ended because the table of %d future states of the "+
			"machine was full (its size is bf_node_space_size, or else bf_max_job_test)", l.table), false)
	}
}

// losses are the lines that the daemons log, at any log level, when they drop a message that may
// change the result.
var losses = []struct{ log, code, says, means string }{
	// agent.c
	{"slurmctld.log", "message-dropped", "agent waited too long for nodes to respond", "messages to nodes were given up"},
	// slurmdbd_agent.c
	{"slurmctld.log", "accounting-dropped", "agent queue is full (", "messages to slurmdbd were given up"},
	// slurmdb_defs.c
	{"slurmdbd.log", "change-dropped", "error: update cluster:", "changes of accounts did not reach slurmctld"},
}

// CheckLosses warns of messages that the daemons dropped. It reads the logs in logDir.
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

// lossesIn counts the losses in a log. The log does not exist with SlurmctldDebug=quiet or
// without accounting.
func lossesIn(path string) ([]int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	return countLosses(f)
}

// countLosses counts the log lines of each kind of loss.
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
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // the buffer is full before a long line ends
			return counts, err
		}
	}
}
