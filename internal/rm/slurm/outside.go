package slurm

import (
	"strings"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/window"
)

// OutsideScheduling has the settings under which slurmctld starts jobs that an external driver has
// released: SchedulerType, and the SchedulerParameters options that decide when slurmctld looks at
// its queue. The main scheduler then looks at the queue within a second of a release, and no
// backfill scheduler starts other jobs.
const (
	OutsideScheduler  = "sched/builtin"
	OutsideParameters = "defer,sched_min_interval=0,batch_sched_delay=0,sched_interval=5"
)

// Outside returns the cluster with the scheduling that an external driver needs. It keeps all
// SchedulerParameters options except those that decide when and how the schedulers work through the
// queue.
func Outside(c *conf.Cluster) *conf.Cluster {
	const why = "a driver outside slurmctld decides on starts, by holds and releases (--io-schedule)"
	site, _ := c.Get("SchedulerParameters")
	parameters := strings.Join(append(window.WithoutQueue(site), OutsideParameters), ",")
	return c.With("SchedulerType", OutsideScheduler, why).With("SchedulerParameters", parameters, why)
}
