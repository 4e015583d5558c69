package replay

import (
	"cmp"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// InitialUsage returns the fair-share usage with which a resource manager must start at the instant at. The manager
// then has the workload's usage at the later instant of [UsageInstant]. Between at and [UsageInstant], usage halves in
// every halfLife (PriorityDecayHalfLife of slurm.conf; [hpc.Unlimited] for no decay), and the preset jobs add usage.
// accrued is the usage that each preset job adds; the caller subtracts it from the usage at the start. InitialUsage
// bills preset jobs by their recorded processors or, if these are not recorded, by their requested processors, as Slurm
// does without TRESBillingWeights.
func InitialUsage(w *workload.Workload, at hpc.Time, halfLife time.Duration) (usage []hpc.Usage,
	accrued []hpc.Accrual) {
	if len(w.Usage) == 0 {
		return nil, nil
	}
	then := UsageInstant(w)
	growth := math.Exp2(then.Sub(at).Seconds() / halfLife.Seconds())
	for _, u := range w.Usage {
		u.Raw *= growth
		usage = append(usage, u)
	}
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			raw := workload.PresetUsage(job, then, halfLife) * growth
			accrued = append(accrued, hpc.Accrual{
				Usage: hpc.Usage{Account: job.Account, User: job.User, Raw: raw}, Partition: job.Partition, QOS: job.QOS,
			})
		}
	}
	return usage, accrued
}

// UsageInstant returns the instant of the workload's usage: the window's start or, without a
// window, the epoch.
func UsageInstant(w *workload.Workload) hpc.Time { return cmp.Or(w.Start, w.Epoch) }
