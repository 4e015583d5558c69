package slurm

import (
	"strings"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/window"
)

// OutsideScheduling are the settings for a slurmctld whose jobs are released by an external
// driver: SchedulerType, and the SchedulerParameters options that decide when slurmctld examines
// its queue. With them, the main scheduler examines the queue within a second of a release, and no
// backfill scheduler starts other jobs.
const (
	OutsideScheduler  = "sched/builtin"
	OutsideParameters = "defer,sched_min_interval=0,batch_sched_delay=0,sched_interval=5"
)

// Outside returns the cluster with these settings for an external driver. It keeps all
// SchedulerParameters options except those that decide when and how the schedulers work through
// the queue.
func Outside(c *conf.Cluster) *conf.Cluster {
	const why = "a driver outside slurmctld decides on starts, by holds and releases (--io-schedule)"
	site, _ := c.Get("SchedulerParameters")
	parameters := strings.Join(append(window.WithoutQueue(site), OutsideParameters), ",")
	return c.With("SchedulerType", OutsideScheduler, why).With("SchedulerParameters", parameters, why)
}
