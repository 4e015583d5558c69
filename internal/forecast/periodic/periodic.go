// Package periodic computes when slurmctld's periodic work is due.
package periodic

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/options"
)

// Phase is the phase of slurmctld's periodic work, which decides in which second a job starts.
type Phase struct {
	// Began is when slurmctld started; 0 if it is not known. From then on, slurmctld tests the whole
	// queue every sched_interval, checks time limits every 30 seconds, and computes priorities every
	// Priority (controller.c and priority_multifactor.c in Slurm).
	Began hpc.Time
	// Priority is PriorityCalcPeriod; 0 for its default of five minutes.
	Priority time.Duration
	// Backfilled is the start of the last backfill cycle (sdiag); 0 if it is not known. Backfill is
	// bf_interval; 0 for its default of 30 seconds.
	Backfilled hpc.Time
	Backfill   time.Duration
}

// Use sets the periods from a slurm.conf.
func (p *Phase) Use(cluster Settings) error {
	if text, given := cluster.Get("PriorityCalcPeriod"); given {
		period, err := slurmspec.ParseTimeLimit(text)
		if err != nil {
			return fmt.Errorf("reading the site's slurm.conf: PriorityCalcPeriod=%s: %w", text, err)
		}
		p.Priority = period
	}
	parameters, _ := cluster.Get("SchedulerParameters")
	for option := range strings.SplitSeq(parameters, ",") {
		text, given := strings.CutPrefix(strings.TrimSpace(option), "bf_interval=")
		if !given {
			continue
		}
		if seconds := options.Atoi(text); seconds > 0 && options.Scheduler["bf_interval"].Takes(seconds) {
			p.Backfill = time.Duration(seconds) * time.Second
		}
	}
	return nil
}

// Settings are the keys of a slurm.conf with their values.
type Settings interface {
	Get(key string) (string, bool)
}

// Align chooses lead so that slurmctld's periodic work has this phase. lead is the time for which slurmctld has run
// when a workload begins. The result lead is at least a minute. The result backfill is the interval of backfill cycles
// from slurmctld's start to the start of the window. Both results are 0 if the phase is not known. slurmctld accepts no
// interval above three hours (MAX_BACKFILL_INTERVAL in backfill.c). A longer time until the window's start is divided
// into n intervals of whole seconds. To make this time a multiple of n seconds, Align adds whole periods to the lead.
// If n and the period have no common factor, one of the first n leads fits.
func (p Phase) Align(begin, at hpc.Time) (lead, backfill time.Duration) {
	const least, longest = time.Minute, 3 * time.Hour
	if p.Began == 0 {
		return 0, 0
	}
	period := cmp.Or(p.Priority, 5*time.Minute)
	rest := begin.Add(-least).Sub(p.Began) % period
	if rest < 0 {
		rest += period
	}
	lead = least + rest
	first := p.firstBackfill(at)
	if first == 0 {
		return lead, 0
	}
	for n := time.Duration(1); ; n++ {
		for longer := lead; longer < lead+n*period; longer += period {
			between := (first.Sub(begin.Add(-longer)) + time.Second - 1).Truncate(time.Second)
			if between%(n*time.Second) == 0 && between <= n*longest {
				return longer, between / n
			}
		}
	}
}

// firstBackfill returns when the first backfill cycle at or after an instant is due; 0 if this is not known. After an
// interval without work, the backfill scheduler checks for work every second (backfill_agent in backfill.c).
func (p Phase) firstBackfill(at hpc.Time) hpc.Time {
	if p.Backfilled == 0 {
		return 0
	}
	every := p.Backfill
	if every == 0 {
		every = 30 * time.Second
	}
	next := p.Backfilled.Add(every)
	if late := at.Sub(next); late > 0 {
		next = next.Add((late + time.Second - 1).Truncate(time.Second))
	}
	return next
}
