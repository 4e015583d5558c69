package workload

import (
	"cmp"
	"math"
	"time"

	"rmreplay/internal/hpc"
)

// PresetUsage returns the fair-share usage, in decayed processor seconds, that a preset job has at
// an instant after its recorded start. halfLife is the half-life of the decay
// (PriorityDecayHalfLife of slurm.conf; [hpc.Unlimited] for no decay). PresetUsage bills the job
// by its recorded processors, or by its requested processors if the record lacks them, as Slurm
// does without TRESBillingWeights.
func PresetUsage(job *hpc.Job, at hpc.Time, halfLife time.Duration) float64 {
	processors := cmp.Or(job.Recorded.Processors, CPUs(&job.Request))
	return float64(processors) * decayedSeconds(at.Sub(job.Recorded.Start), halfLife)
}

// decayedSeconds returns the usage of one processor over d after its decay: the integral of
// 2^(-t/halfLife) for t from 0 to d, in seconds.
func decayedSeconds(d, halfLife time.Duration) float64 {
	if halfLife == hpc.Unlimited {
		return d.Seconds()
	}
	h := halfLife.Seconds() / math.Ln2
	return h * -math.Expm1(-d.Seconds()/h)
}
