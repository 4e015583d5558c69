// Package nested says how alike the members of nested groups are, such as the run times of the jobs of a class, of a
// user and of a partition.
package nested

import (
	"math"
	"sort"
)

// Ranks returns the rank of each value among all values, from 0 to 1. Equal values get the mean of their ranks.
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

// sums are the sums over the values of a group, and over the pairs of values that are in one narrower group.
type sums struct{ n, x, squares, pairs, differences float64 }

// Concentrations estimates, for each level except the widest, the concentration c of the Dirichlet process of the
// level's groups, from the values of their members. groups has the groups of each value, the narrowest first; members
// of one group are in one group of each wider level. Two members of a group are then correlated by 1/(1+c), as far as
// the wider group leaves their values open. So D = V c/(1+c), where D is half the mean squared difference of two
// members whose narrowest common group is of the level, and V the same of the next wider level. Each group's mean
// counts by its number of members. The concentration is infinite if a level or all wider levels have no such
// pair, and if the correlation is less than two of its standard errors, 1/sqrt(pairs) of independent members.
func Concentrations[G comparable](values []float64, groups [][]G) []float64 {
	if len(values) == 0 {
		return nil
	}
	levels := len(groups[0])
	found := make([]float64, levels-1)
	halves, pairs := make([]float64, levels), make([]float64, levels)
	var narrower map[G]*sums
	for level := range levels {
		halves[level], pairs[level], narrower = half(values, groups, level, narrower)
	}
	wider := math.NaN()
	for level := levels - 1; level >= 0; level-- {
		if level < levels-1 {
			found[level] = math.Inf(1)
			if d := halves[level]; d < wider*(1-2/math.Sqrt(pairs[level])) {
				found[level] = d / (wider - d)
			}
		}
		if !math.IsNaN(halves[level]) {
			wider = halves[level]
		}
	}
	return found
}

// half returns half the mean squared difference of two values whose narrowest common group is of a level, NaN without
// such a pair; the number of these pairs; and the sums of the level's groups. narrower has the sums of the next
// narrower level.
func half[G comparable](values []float64, groups [][]G, level int, narrower map[G]*sums) (half, pairs float64,
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
		if level == 0 || seen[groups[i][level-1]] {
			continue
		}
		inner := groups[i][level-1]
		seen[inner] = true
		below := narrower[inner]
		s.pairs += below.n * (below.n - 1) / 2
		s.differences += below.n*below.squares - below.x*below.x
	}
	weight, sum := 0.0, 0.0
	for _, s := range order {
		if own := s.n*(s.n-1)/2 - s.pairs; own > 0.5 {
			weight, pairs = weight+s.n, pairs+own
			sum += s.n * max(s.n*s.squares-s.x*s.x-s.differences, 0) / own / 2
		}
	}
	return sum / weight, pairs, all
}
