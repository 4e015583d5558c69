package live

import (
	"context"
	"maps"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
)

// Loop makes rounds until ctx ends. interval is the time between two rounds; with 0, rounds follow
// changes ([ioaware.Rounds]). Loop calls the function in the parameter told with the result of
// each round.
func (c *Cluster) Loop(ctx context.Context, d *driver.Driver, interval time.Duration, told func(driver.Round, error)) {
	began := time.Now() // rounds follow the monotonic clock
	elapsed := func() hpc.Time { return hpc.Time(time.Since(began)) }
	rounds := ioaware.Rounds{Fixed: interval}
	for {
		rounds.Planned(elapsed())
		round, err := c.Round(ctx, d)
		if ctx.Err() != nil {
			return // an interrupted command of Slurm is not a failure
		}
		told(round, err)
		for due := false; !due; due = interval > 0 || rounds.Next(elapsed(), false) <= elapsed() || c.changed(ctx) {
			now := elapsed()
			next := rounds.Next(now, false)
			if interval == 0 {
				next = min(next, now.Add(c.pause()))
			}
			if !sleep(ctx, next.Sub(now)) {
				return
			}
		}
	}
}

// sleep sleeps for d. It returns false if ctx ended during this time.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// share is the highest part of the time that the driver spends in Slurm's commands, if rounds
// follow changes. With a large queue, rounds are therefore less frequent.
const share = 0.25

// pause returns the time between two checks for changes.
func (c *Cluster) pause() time.Duration {
	return min(max(ioaware.LeastPause, time.Duration(float64(c.asked)/share)), ioaware.MostPause)
}

// changed reports whether a round may lead to new decisions. Reasons are that jobs were submitted
// or have ended, that ended jobs still had nodes, that nodes are no longer reserved, or that the
// measured use has fallen. It reads slurmctld's counters, for which slurmctld needs no lock. A
// failure does not count as a change; the next round reports what is wrong.
func (c *Cluster) changed(ctx context.Context) bool {
	if c.completing || c.Now() >= c.booked {
		return true
	}
	if now, err := c.counters(ctx); err != nil || !maps.Equal(now, c.counted) {
		return err == nil
	}
	if c.Forecaster == nil {
		return false
	}
	used, err := c.Forecaster.Used(ctx)
	return err == nil && used < c.measured
}

// counters returns slurmctld's counters of submitted and ended jobs, from sdiag. slurmctld resets
// them at midnight.
func (c *Cluster) counters(ctx context.Context) (map[string]string, error) {
	text, err := c.Run(ctx, "sdiag")
	if err != nil {
		return nil, err
	}
	counters := map[string]string{}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "Jobs submitted", "Jobs completed", "Jobs canceled", "Jobs failed":
			counters[name] = strings.TrimSpace(value)
		}
	}
	return counters, nil
}
