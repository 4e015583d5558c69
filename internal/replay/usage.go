package replay

import (
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// InitialUsage is the fair-share usage with which a resource manager has to start at
// the instant at, so that it comes to the workload's usage when the window begins (or
// at the first submission, where there is no window). On the way there usage decays
// by half in every halfLife ([hpc.Unlimited] for no decay: PriorityDecayHalfLife of
// slurm.conf), and the preset jobs add to it: accrued is what they will have added, by
// account and user, to be taken off at the start. They are taken to be billed by their
// processors, which is so where no TRESBillingWeights are set.
func InitialUsage(w *workload.Workload, at hpc.Time, halfLife time.Duration) (usage, accrued []hpc.Usage) {
	if len(w.Usage) == 0 {
		return nil, nil
	}
	then := w.Start
	if then == 0 {
		then = w.Epoch
	}
	growth := math.Exp2(then.Sub(at).Seconds() / halfLife.Seconds())
	for _, u := range w.Usage {
		u.Raw *= growth
		usage = append(usage, u)
	}
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			raw := float64(job.Recorded.Processors) * decayedSeconds(then.Sub(job.Recorded.Start), halfLife) * growth
			accrued = append(accrued, hpc.Usage{Account: job.Account, User: job.User, Raw: raw})
		}
	}
	return usage, accrued
}

// decayedSeconds is what is left, after d, of the usage of one processor over d:
// the integral of 2^(-t/halfLife) for t from 0 to d, in seconds.
func decayedSeconds(d, halfLife time.Duration) float64 {
	if halfLife == hpc.Unlimited {
		return d.Seconds()
	}
	h := halfLife.Seconds() / math.Ln2
	return h * -math.Expm1(-d.Seconds()/h)
}
