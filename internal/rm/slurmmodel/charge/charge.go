// Package charge has the virtual time that slurmctld's schedulers need for their computing. The virtual time of
// computing matters for long queues: bf_max_time ends a backfill cycle before the end of the queue, max_sched_time ends
// a pass of the main scheduler, and backfill pauses after each bf_yield_interval.
package charge

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/rm"
)

// Costs are virtual times per job; 0 with the frozen clock.
type Costs struct {
	// Main is the cost of each job that a pass of the main scheduler considers.
	Main time.Duration
	// Backfill is the cost of each job for which a cycle of backfill looks for nodes.
	Backfill time.Duration
}

// Fit computes the mean costs from slurmctld's counters, as sdiag shows them. It returns an error if
// both mean cycle times are 0.
func Fit(s *rm.Scheduler) (Costs, error) {
	if s == nil || s.MainMean+s.BackfillMean == 0 {
		return Costs{}, fmt.Errorf("no cycle took time (want a replay with --clock measured)")
	}
	mean := func(cycle, jobs float64) time.Duration {
		if jobs == 0 {
			return 0
		}
		return time.Duration(cycle / jobs * float64(time.Second))
	}
	return Costs{mean(s.MainMean, s.MainDepthMean), mean(s.BackfillMean, s.BackfillTriedMean)}, nil
}

// Parse reads costs as [Costs.String] writes them.
func Parse(text string) (c Costs, err error) {
	main, backfill, both := strings.Cut(text, ",")
	if both {
		if c.Main, err = time.ParseDuration(main); err == nil {
			c.Backfill, err = time.ParseDuration(backfill)
		}
	}
	if !both || err != nil || c.Main < 0 || c.Backfill < 0 || c.Main > maxCharge || c.Backfill > maxCharge {
		return Costs{}, fmt.Errorf("%s: not the costs of a job (want the costs in the main scheduler and in backfill, "+
			"each at most %v, such as 50us,2ms)", text, maxCharge)
	}
	return c, nil
}

// maxCharge is the largest cost of a job.
const maxCharge = time.Minute

// String returns the two costs as text: "50µs,2ms".
func (c Costs) String() string { return fmt.Sprintf("%v,%v", c.Main, c.Backfill) }

// Limits are the keys of slurm.conf that end or interrupt long cycles.
type Limits struct {
	MainSeconds     int64 // max_sched_time
	BackfillSeconds int64 // bf_max_time
	// Backfill computes for Interval and then pauses for Sleep. Continue says that a cycle continues
	// even if jobs or nodes changed during a pause (bf_continue).
	Interval, Sleep time.Duration
	Continue        bool
}

// Options are the options of SchedulerParameters.
type Options interface {
	Has(name string) bool
	Number(name string, otherwise int64) int64
}

// ReadLimits reads the limits. The parameter messageTimeout is MessageTimeout in seconds. The
// defaults are those of _load_config in backfill.c and of _schedule in job_scheduler.c.
func ReadLimits(o Options, messageTimeout int64) Limits {
	l := Limits{
		MainSeconds:     min(max(messageTimeout/2, 1), 2),
		BackfillSeconds: o.Number("bf_max_time", o.Number("bf_interval", 30)),
		Interval:        time.Duration(o.Number("bf_yield_interval", 2_000_000)) * time.Microsecond,
		Sleep:           time.Duration(o.Number("bf_yield_sleep", 500_000)) * time.Microsecond,
		Continue:        o.Has("bf_continue"),
	}
	if n := o.Number("max_sched_time", 0); n > 0 && n <= messageTimeout/2 {
		l.MainSeconds = n
	}
	return l
}
