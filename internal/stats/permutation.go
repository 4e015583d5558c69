package stats

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/combin"
)

// The defaults of [TestOptions].
const (
	// ExactLimit is the largest number of arrangements with which a test counts every arrangement.
	// Two sets of eight runs have 12,870 arrangements.
	ExactLimit = 20_000
	// Draws is the number of random arrangements that a test draws if there are more than
	// ExactLimit. A p-value of 0.05 then has a standard error of 0.002.
	Draws = 9_999
)

// TestOptions say how many arrangements a permutation test counts.
type TestOptions struct {
	ExactLimit int // [ExactLimit] if 0; negative to draw always
	Draws      int // [Draws] if 0
	Seed       uint64
}

// Test is the result of a permutation test of the hypothesis that two sets come
// from one distribution.
type Test struct {
	Statistic float64 // the statistic of the observed arrangement; each test defines its statistic
	// P is the probability, under the hypothesis, of a statistic at least as extreme. It is
	// NaN if a set has fewer than two members.
	P float64
	// Exact says that P is over all arrangements; otherwise it is over random arrangements.
	Exact        bool
	Arrangements int // how many arrangements were counted
	// Effect is the size of the difference, on the scale that each test defines.
	Effect float64
}

// withDefaults replaces zeros by the defaults.
func (o TestOptions) withDefaults() TestOptions {
	if o.ExactLimit == 0 {
		o.ExactLimit = ExactLimit
	}
	if o.Draws <= 0 {
		o.Draws = Draws
	}
	return o
}

// arrangements returns the number of ways to choose k of n, or +Inf.
func arrangements(n, k int) float64 {
	return math.Round(math.Exp(combin.LogGeneralizedBinomial(float64(n), float64(k))))
}

// SmallestP returns the smallest p-value that a two-sided permutation test of sets of na and nb
// members can have. With three members in each set it is 0.1, so that even the largest difference is
// not significant at 5 %.
func SmallestP(na, nb int, opts TestOptions) float64 {
	opts = opts.withDefaults()
	if na < 1 || nb < 1 {
		return 1
	}
	all := arrangements(na+nb, na)
	if all > float64(opts.ExactLimit) {
		return 1 / float64(opts.Draws+1)
	}
	if na == nb {
		return 2 / all // with the sets exchanged, the statistic is as extreme
	}
	return 1 / all
}

// permute tests a statistic of an arrangement. An arrangement has the numbers 0 to na+nb−1. The
// first na of these numbers are the first set. The observed arrangement is in ascending order. A
// larger statistic is more extreme.
func permute(na, nb int, opts TestOptions, statistic func(order []int) float64) Test {
	n := na + nb
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	t := Test{Statistic: statistic(order), P: math.NaN()}
	if na < 2 || nb < 2 || math.IsNaN(t.Statistic) {
		return t
	}
	opts = opts.withDefaults()
	// Sums in a different order differ in their last bits, but must count as equal.
	bound := t.Statistic - 1e-9*math.Abs(t.Statistic)
	extreme := 0
	if arrangements(n, na) <= float64(opts.ExactLimit) {
		t.Exact = true
		for g := combin.NewCombinationGenerator(n, na); g.Next(); t.Arrangements++ {
			g.Combination(order[:na])
			complement(order, na)
			if statistic(order) >= bound {
				extreme++
			}
		}
		t.P = float64(extreme) / float64(t.Arrangements)
		return t
	}
	random := rand.New(rand.NewPCG(opts.Seed, 0x9e37))
	for range opts.Draws {
		for i := range min(na, n-1) { // a random first set
			k := i + random.IntN(n-i)
			order[i], order[k] = order[k], order[i]
		}
		if statistic(order) >= bound {
			extreme++
		}
	}
	t.Arrangements = opts.Draws
	t.P = float64(extreme+1) / float64(opts.Draws+1)
	return t
}

// complement fills order[na:] with the numbers that are not in order[:na]. The latter is ascending.
func complement(order []int, na int) {
	next, taken := na, 0
	for i := range order {
		if taken < na && order[taken] == i {
			taken++
			continue
		}
		order[next] = i
		next++
	}
}

// Group is the sum and the number of the values of a group, such as the waits of a day's jobs.
type Group struct{ Sum, N float64 }

// GroupedMeanTest tests whether two sets have one mean, if values of the same group depend on each other. The statistic
// is |mean(b) − mean(a)|, where each mean is over all values, so that a group counts by its number of values. An
// arrangement exchanges whole groups. Effect has no value.
func GroupedMeanTest(a, b []Group, opts TestOptions) Test {
	all := append(append(make([]Group, 0, len(a)+len(b)), a...), b...)
	var total Group
	for _, g := range all {
		total = Group{total.Sum + g.Sum, total.N + g.N}
	}
	t := permute(len(a), len(b), opts, func(order []int) float64 {
		var first Group
		for _, i := range order[:len(a)] {
			first = Group{first.Sum + all[i].Sum, first.N + all[i].N}
		}
		return math.Abs((total.Sum-first.Sum)/(total.N-first.N) - first.Sum/first.N)
	})
	t.Effect = math.NaN()
	return t
}

// MeanTest tests whether two sets of numbers have one mean. The statistic is |mean(b) −
// mean(a)|. The effect is [HedgesG].
func MeanTest(a, b []float64, opts TestOptions) Test {
	all := append(append(make([]float64, 0, len(a)+len(b)), a...), b...)
	total := 0.0
	for _, v := range all {
		total += v
	}
	na, nb := float64(len(a)), float64(len(b))
	t := permute(len(a), len(b), opts, func(order []int) float64 {
		first := 0.0
		for _, i := range order[:len(a)] {
			first += all[i]
		}
		return math.Abs((total-first)/nb - first/na)
	})
	t.Effect = HedgesG(a, b)
	return t
}
