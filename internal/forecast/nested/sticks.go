package nested

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"rmreplay/internal/forecast/empirical"
)

// A stick is not a single run time, because all jobs of a group would then have this run time. A stick consists
// of 5 run times (pieces), whose quantiles in the wider distribution are close to each other (near).
const (
	pieces = 5
	near   = 0.1
)

// maxSticks bounds the sticks of a draw. With a large concentration, many sticks are close to the wider distribution
// itself.
const maxSticks = 200

// Sticks draws the part of the wider distribution in a group's distribution, and appends it to list. Seconds are not
// run times yet, but the sticks' quantiles in the wider distribution. The weights add up to a gamma variable whose mean
// is the parameter weight. The concentration says how much the groups differ; it is at most that
// mean.
func Sticks(list []empirical.Mass, rng *rand.Rand, weight, concentration float64) []empirical.Mass {
	weight = min(weight, 1e6)
	concentration = min(max(concentration, 0.01), weight)
	if concentration > maxSticks/5 {
		for i := range maxSticks {
			list = append(list, empirical.Mass{Seconds: (float64(i) + 0.5) / maxSticks,
				Weight: Gamma(rng, concentration/maxSticks) * weight / concentration})
		}
		return list
	}
	left := Gamma(rng, weight)
	for total, most := left, len(list)+maxSticks; len(list) < most && left > total/1000; {
		share, at := 1-math.Pow(rng.Float64(), 1/concentration), rng.Float64()
		for k := range pieces {
			place := math.Abs(at + near*(float64(k)/(pieces-1)-0.5))
			list = append(list, empirical.Mass{Seconds: min(place, 2-place), Weight: left * share / pieces})
		}
		left *= 1 - share
	}
	return list
}

// Gamma draws from the gamma distribution with a shape and the scale 1.
func Gamma(rng *rand.Rand, shape float64) float64 {
	return distuv.Gamma{Alpha: max(shape, 1e-3), Beta: 1, Src: rng}.Rand()
}
