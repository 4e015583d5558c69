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

// Loop has a driver decide in rounds until ctx ends. interval is the time between two rounds; with 0 they
// follow changes ([ioaware.Rounds]). told gets the outcome of each round.
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

// sleep reports whether ctx still goes on after a while.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// share is the largest part of the time that the questions of rounds which follow changes take: a large
// queue makes rounds rare.
const share = 0.25

// pause returns the time between two looks for changes.
func (c *Cluster) pause() time.Duration {
	return min(max(ioaware.LeastPause, time.Duration(float64(c.asked)/share)), ioaware.MostPause)
}

// changed reports whether a round may decide something new: whether jobs have been submitted or have
// ended since the last one, the last of their nodes are about to be free, nodes are no longer reserved,
// or measured use is less than the round counted with. It asks slurmctld for its counters, which needs
// none of its locks. A failure is not a change: the next round says what is wrong.
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

// counters returns slurmctld's counters of jobs that were submitted or have ended, as sdiag prints them.
// slurmctld begins anew at midnight.
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
