package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// maxNeeded is the largest result of [Needed].
const maxNeeded = 1_000_000

// Needed returns the smallest number of runs in each of two sets with which the test of [Power] detects a true
// difference with probability power. With this number, a permutation test can also be significant ([SmallestP]). shift
// is the difference in standard deviations of a single run. shift is infinite if the sets do not vary: then only the
// permutation test decides. Needed returns 0 if a million runs are not enough, or if power is not between alpha and 1.
func Needed(shift, alpha, power float64) int {
	shift = math.Abs(shift)
	if !(shift > 0) || !(power > alpha) || power >= 1 {
		return 0
	}
	enough := func(n int) bool {
		return SmallestP(n, n, TestOptions{}) <= alpha && (math.IsInf(shift, 0) || Power(n, n, shift, alpha) >= power)
	}
	high := 2
	for !enough(high) {
		if high *= 2; high > maxNeeded {
			return 0
		}
	}
	low := high / 2 // low runs are not enough, or low is 1
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// PooledDeviation returns the standard deviation within sets of observations, and its degrees of freedom. Sets of one
// observation add nothing. PooledDeviation assumes that all sets have the same variance. The deviation is NaN if no set
// has two observations.
func PooledDeviation(sets ...[]float64) (deviation float64, freedom int) {
	squares := 0.0
	for _, set := range sets {
		if len(set) < 2 {
			continue
		}
		mean := Mean(set)
		for _, x := range set {
			squares += (x - mean) * (x - mean)
		}
		freedom += len(set) - 1
	}
	return math.Sqrt(squares / float64(freedom)), freedom
}

// DeviationInterval returns two factors for a standard deviation with the given degrees of
// freedom, of normal observations. Multiplied by them, it bounds the true standard deviation at a
// confidence level. The factors are NaN without degrees of freedom.
func DeviationInterval(freedom int, level float64) (low, high float64) {
	if freedom < 1 {
		return math.NaN(), math.NaN()
	}
	variance := distuv.ChiSquared{K: float64(freedom)}
	return math.Sqrt(float64(freedom) / variance.Quantile((1+level)/2)),
		math.Sqrt(float64(freedom) / variance.Quantile((1-level)/2))
}
