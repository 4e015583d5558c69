package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// pooledDeviation is the standard deviation within two sets, and NaN if one has
// fewer than two members.
func pooledDeviation(a, b []float64) float64 {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN()
	}
	na, nb := float64(len(a)), float64(len(b))
	return math.Sqrt(((na-1)*stat.Variance(a, nil) + (nb-1)*stat.Variance(b, nil)) / (na + nb - 2))
}

// HedgesG is the difference mean(b) − mean(a) in standard deviations within the
// sets, with the correction for few observations 1 − 3/(4(na+nb) − 9) (Hedges,
// J. Educational Statistics 6(2), 1981). It is infinite where nothing varies within
// the sets and they differ, 0 where they do not, and NaN if a set has fewer than two members.
func HedgesG(a, b []float64) float64 {
	deviation := pooledDeviation(a, b)
	difference := Difference(a, b)
	if deviation == 0 && difference == 0 {
		return 0
	}
	return difference / deviation * (1 - 3/(4*float64(len(a)+len(b))-9))
}

// CliffsDelta is P(b > a) − P(b < a) over all pairs of members: 1 if every b is
// larger than every a, 0 if neither side prevails (Cliff, Psychological Bulletin
// 114(3), 1993). NaN if a set is empty.
func CliffsDelta(a, b []float64) float64 {
	more, less := 0, 0
	for _, x := range a {
		for _, y := range b {
			switch {
			case y > x:
				more++
			case y < x:
				less++
			}
		}
	}
	return float64(more-less) / float64(len(a)*len(b))
}

// Holm returns p-values that are corrected for each other (Holm, Scand. J. Statist.
// 6, 1979): if those below α are taken for real, the probability that any of them is
// not is at most α, whatever depends on what. NaNs stay NaN and do not count.
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
