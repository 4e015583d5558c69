// Package rate models how often events happen, such as the submissions of jobs.
package rate

import (
	"math"
	"math/rand/v2"
	"time"

	"rmreplay/internal/hpc"
)

// clumped is how many events count as one independent event, because users submit jobs in groups.
const clumped = 5

// Cyclic returns the probability that events follow the usual daily cycle ([Busy]), and not one rate at all hours. It
// applies Bayes' rule to the events with equal prior probabilities. The events are in order of time, and there is at
// least one event.
func Cyclic(events []hpc.Time, now hpc.Time) float64 {
	usual, steps := 0.0, 0
	for at := events[0]; at < now; at = at.Add(time.Minute) {
		usual, steps = usual+Busy(at), steps+1
	}
	evidence := 0.0
	for _, at := range events {
		if steps > 0 {
			evidence += math.Log(Busy(at) / usual * float64(steps))
		}
	}
	return 1 / (1 + math.Exp(-evidence/clumped))
}

// Poisson draws from a Poisson distribution (Knuth's method).
func Poisson(rng *rand.Rand, mean float64) (n int) {
	for p := rng.Float64(); p > math.Exp(-mean); p *= rng.Float64() {
		n++
	}
	return n
}

// Busy returns the usual rate of submissions at a time of the day, in an arbitrary unit. The rate is a gamma
// distribution over half-hours that begins at 05:30: the daily cycle of all jobs in Lublin and Feitelson, "The workload
// on parallel supercomputers", Journal of Parallel and Distributed Computing 63(11), 2003.
func Busy(at hpc.Time) float64 {
	const shape, scale, begins = 8.1737, 3.9631, 11
	x := math.Mod(float64(at.UnixSeconds())/1800, 48)
	if x < begins {
		x += 48
	}
	return math.Pow(x, shape-1) * math.Exp(-x/scale)
}
