package nested

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"rmreplay/internal/forecast/empirical"
)

// A stick is a part of a drawn distribution. With only one run time in a stick, all jobs of a group could have the
// same run time. So a stick consists of 5 run times (pieces), whose quantiles in the wider distribution are close to
// each other (near).
const (
	pieces = 5
	near   = 0.1
)

// maxSticks is the maximum number of sticks of a draw. With a large concentration, many sticks are close to the wider
// distribution itself.
const maxSticks = 200

// Sticks draws that part of a group's distribution that comes from the wider distribution, and appends it to list.
// The field Seconds of these masses has quantiles of the wider distribution, from 0 to 1, instead of run times. The
// weights add up to a gamma variable whose mean is the parameter weight. A smaller concentration makes the groups
// more different. If the concentration is above weight, weight replaces it.
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
