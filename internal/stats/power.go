package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// Power returns the probability that a two-sided test of two means at level alpha, with na and nb
// runs, detects a true difference. shift is this difference, in standard deviations of a single
// run. The result is the power of Student's t test, exact for normal observations. The permutation
// test has the same power, except with very few runs (see [SmallestP]). Power is NaN if a set has
// fewer than two runs.
func Power(na, nb int, shift, alpha float64) float64 {
	if na < 2 || nb < 2 {
		return math.NaN()
	}
	freedom := float64(na + nb - 2)
	noncentrality := math.Abs(shift) / math.Sqrt(1/float64(na)+1/float64(nb))
	critical := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1 - alpha/2)
	// T = (Z + noncentrality) / S with S² = χ²/freedom, and T given S is normally
	// distributed. S is outside the bounds of the integral with a probability below
	// 1e-12.
	variance := distuv.ChiSquared{K: freedom}
	normal, width := distuv.UnitNormal, 10/math.Sqrt(2*freedom)
	return quad.Fixed(func(s float64) float64 {
		density := 2 * freedom * s * variance.Prob(freedom*s*s)
		return density * (normal.CDF(noncentrality-critical*s) + normal.CDF(-noncentrality-critical*s))
	}, max(0, 1-width), 1+width, 60, quad.Legendre{}, 0)
}

// Detectable returns the smallest difference, in standard deviations of a single run, that the test
// of [Power] detects with probability power. It is NaN if a set has fewer than two runs.
func Detectable(na, nb int, alpha, power float64) float64 {
	if na < 2 || nb < 2 || power <= alpha || power >= 1 {
		return math.NaN()
	}
	low, high := 0.0, 1.0
	for Power(na, nb, high, alpha) < power {
		high *= 2
	}
	for high-low > 1e-4*high {
		middle := (low + high) / 2
		if Power(na, nb, middle, alpha) < power {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// DetectableDifference is [Detectable] in the units of the observations. It uses the
// standard deviation within the two sets.
func DetectableDifference(a, b []float64, alpha, power float64) float64 {
	return Detectable(len(a), len(b), alpha, power) * pooledDeviation(a, b)
}
