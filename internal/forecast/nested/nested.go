// Package nested estimates how similar the members of nested groups are. The members are, for example, run times, and
// the groups are jobs of a class, of a user and of a partition.
package nested

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Ranks returns the rank of each value among all values, from 0 to 1. Equal values have the mean of their ranks.
func Ranks(values []float64) []float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	ranks := make([]float64, len(values))
	for i, v := range values {
		below := sort.SearchFloat64s(sorted, v)
		upTo := sort.Search(len(sorted), func(k int) bool { return sorted[k] > v })
		ranks[i] = float64(below+upTo) / 2 / float64(len(sorted))
	}
	return ranks
}

// sums are the sums over the values of a group, and over the pairs of values that are in one narrower group. parts
// counts the narrower groups, or the values of a group of the narrowest level.
type sums struct{ n, x, squares, parts, pairs, differences float64 }

// Concentrations estimates, for each level except the widest, the concentration c of the Dirichlet process of the
// level's groups, from the values of their members. groups are the groups of each value, the narrowest first. Two
// members of one group are also in one group of each wider level. Given the wider group's distribution, two members of
// a group are then correlated by 1/(1+c), so D = V c/(1+c). D is half the mean squared difference of two members whose
// narrowest common group is of this level. V is the same quantity for the next wider level. Each group's mean is
// weighted by its number of members.
//
// With few groups, the estimate of the correlation is uncertain, so the result comes from the mean of the correlation's
// posterior distribution ([likely]). If a level or all wider levels have no such pair of members, the correlation is
// one half.
func Concentrations[G comparable](values []float64, groups [][]G) []float64 {
	if len(values) == 0 {
		return nil
	}
	levels := len(groups[0])
	found := make([]float64, levels-1)
	all := make([]variance, levels)
	var narrower map[G]*sums
	for level := range levels {
		all[level], narrower = half(values, groups, level, narrower)
	}
	wider := math.NaN()
	for level := levels - 1; level >= 0; level-- {
		v := all[level]
		if level < levels-1 {
			correlation := likely(1-v.half/wider, v.groups, v.parts)
			found[level] = (1 - correlation) / correlation
		}
		if !math.IsNaN(v.half) {
			wider = v.half
		}
	}
	return found
}

// likely returns the mean of the posterior distribution of an intraclass correlation. The prior distribution is
// uniform from 0 to 1. estimate is the correlation of n groups of k members; NaN if it is unknown. The likelihood
// is normal, with Fisher's standard error (Donner, "A review of inference procedures for the intraclass
// correlation coefficient in the one-way random effects model", International Statistical Review 54(1), 1986).
func likely(estimate, n, k float64) float64 {
	if math.IsNaN(estimate) || n < 2 {
		return 0.5
	}
	at := min(max(estimate, 0), 1-1e-6)
	deviation := (1 - at) * (1 + (k-1)*at) * math.Sqrt(2/(k*(k-1)*(n-1)))
	low, high := -at/deviation, (1-at)/deviation
	normal := distuv.UnitNormal
	return at + deviation*(normal.Prob(low)-normal.Prob(high))/(normal.CDF(high)-normal.CDF(low))
}

// variance says how much two members differ if their narrowest common group is of the given level.
type variance struct {
	half   float64 // half the mean squared difference of two such members; NaN without such a pair
	groups float64 // the number of groups with such a pair
	parts  float64 // the mean number of narrower groups in these groups, or of members in the narrowest level
}

// half returns the [variance] of a level, and the sums of the level's groups. narrower contains
// the sums of the next narrower level.
func half[G comparable](values []float64, groups [][]G, level int, narrower map[G]*sums) (v variance,
	all map[G]*sums) {
	all = map[G]*sums{}
	seen := map[G]bool{}
	var order []*sums // the result must not depend on the order of a map
	for i, x := range values {
		s := all[groups[i][level]]
		if s == nil {
			s = &sums{}
			all[groups[i][level]] = s
			order = append(order, s)
		}
		s.n, s.x, s.squares = s.n+1, s.x+x, s.squares+x*x
		if level == 0 {
			s.parts++
			continue
		}
		inner := groups[i][level-1]
		if seen[inner] {
			continue
		}
		seen[inner] = true
		below := narrower[inner]
		s.parts++
		s.pairs += below.n * (below.n - 1) / 2
		s.differences += below.n*below.squares - below.x*below.x
	}
	weight, sum := 0.0, 0.0
	for _, s := range order {
		if own := s.n*(s.n-1)/2 - s.pairs; own > 0.5 {
			weight, v.groups, v.parts = weight+s.n, v.groups+1, v.parts+s.parts
			sum += s.n * max(s.n*s.squares-s.x*s.x-s.differences, 0) / own / 2
		}
	}
	v.half, v.parts = sum/weight, v.parts/v.groups
	return v, all
}
