package replay

import (
	"cmp"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// InitialUsage is the fair-share usage with which a resource manager has to start at
// the instant at, so that it comes to the workload's usage when the window begins (or
// at the first submission, where there is no window). On the way there usage decays
// by half in every halfLife ([hpc.Unlimited] for no decay: PriorityDecayHalfLife of
// slurm.conf), and the preset jobs add to it: accrued is what each will have added, to be
// taken off at the start. They are taken to be billed by their processors, which is so
// where no TRESBillingWeights are set: those that they ran on, or else asked for.
func InitialUsage(w *workload.Workload, at hpc.Time, halfLife time.Duration) (usage []hpc.Usage, accrued []hpc.Accrual) {
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
			processors := cmp.Or(job.Recorded.Processors, workload.CPUs(&job.Request))
			raw := float64(processors) * decayedSeconds(then.Sub(job.Recorded.Start), halfLife) * growth
			accrued = append(accrued, hpc.Accrual{
				Usage: hpc.Usage{Account: job.Account, User: job.User, Raw: raw}, Partition: job.Partition, QOS: job.QOS,
			})
		}
	}
	return usage, accrued
}

// UsageInstant is when the usage is what the workload says: at the window's start, or at
// the epoch where there is no window.
func UsageInstant(w *workload.Workload) hpc.Time { return cmp.Or(w.Start, w.Epoch) }

// decayedSeconds is what is left, after d, of the usage of one processor over d:
// the integral of 2^(-t/halfLife) for t from 0 to d, in seconds.
func decayedSeconds(d, halfLife time.Duration) float64 {
	if halfLife == hpc.Unlimited {
		return d.Seconds()
	}
	h := halfLife.Seconds() / math.Ln2
	return h * -math.Expm1(-d.Seconds()/h)
}
