package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// pooledDeviation returns the standard deviation within two sets. It is NaN if a set has
// fewer than two members.
func pooledDeviation(a, b []float64) float64 {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN()
	}
	na, nb := float64(len(a)), float64(len(b))
	return math.Sqrt(((na-1)*stat.Variance(a, nil) + (nb-1)*stat.Variance(b, nil)) / (na + nb - 2))
}

// HedgesG returns the difference mean(b) − mean(a) in standard deviations within the sets, with the small-sample
// correction 1 − 3/(4(na+nb) − 9) (Hedges, J. Educational Statistics 6(2), 1981). If nothing varies within the sets, g
// is infinite for different means and 0 for equal means. g is NaN if a set has fewer than two members.
func HedgesG(a, b []float64) float64 {
	deviation := pooledDeviation(a, b)
	difference := Difference(a, b)
	if deviation == 0 && difference == 0 {
		return 0
	}
	return difference / deviation * (1 - 3/(4*float64(len(a)+len(b))-9))
}

// CliffsDelta returns P(b > a) − P(b < a) over all pairs of members (Cliff, Psychological Bulletin
// 114(3), 1993): 1 if every b is larger than every a, and 0 if both probabilities are equal. It is
// NaN if a set is empty.
func CliffsDelta(a, b []float64) float64 {
	sorted := slices.Sorted(slices.Values(b))
	more, less := 0, 0
	for _, x := range a {
		first, _ := slices.BinarySearch(sorted, x)
		after, _ := slices.BinarySearch(sorted, math.Nextafter(x, math.Inf(1)))
		less, more = less+first, more+len(sorted)-after
	}
	return float64(more-less) / float64(len(a)*len(b))
}

// Holm returns p-values corrected for multiple tests (Holm, Scand. J. Statist. 6, 1979). If all
// hypotheses with a corrected p-value below α are rejected, the probability of at least one false
// rejection is at most α, even if the tests depend on each other. NaNs stay NaN and do not count as
// tests.
func Holm(p []float64) []float64 {
	index := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			index = append(index, i)
		}
	}
	slices.SortStableFunc(index, func(i, j int) int {
		if p[i] < p[j] {
			return -1
		} else if p[i] > p[j] {
			return 1
		}
		return 0
	})
	out := slices.Clone(p)
	highest := 0.0
	for rank, i := range index {
		highest = max(highest, min(1, p[i]*float64(len(index)-rank)))
		out[i] = highest
	}
	return out
}
