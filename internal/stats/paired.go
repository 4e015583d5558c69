package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// SmallestPairedP returns the smallest p-value that [PairedTest] can have for n pairs. With five
// pairs it is 0.0625, so that even the largest difference is not significant at 5 %.
func SmallestPairedP(n int, opts TestOptions) float64 {
	opts = opts.withDefaults()
	if n < 1 {
		return 1
	}
	if all := math.Exp2(float64(n)); all <= float64(opts.ExactLimit) {
		return 2 / all // with all signs reversed, the sum is as extreme
	}
	return 1 / float64(opts.Draws+1)
}

// SmallestOf returns the smallest p-value of a test of two sets with its default options: [SmallestPairedP] for pairs,
// and otherwise [SmallestP].
func SmallestOf(paired bool, na, nb int) float64 {
	if paired {
		return SmallestPairedP(min(na, nb), TestOptions{})
	}
	return SmallestP(na, nb, TestOptions{})
}

// PairedTest tests whether differences within pairs are symmetric about 0, by the permutation test
// of their signs (Fisher, The Design of Experiments, 1935, section 21). Use it for runs that have
// the same workload and the same seed on both sides, which [MeanTest] would treat as independent.
// The statistic is |mean|. The effect is the mean in standard deviations of a difference. P is NaN
// for fewer than two pairs, and for a difference that is not a number.
func PairedTest(differences []float64, opts TestOptions) Test {
	n := len(differences)
	sum := 0.0
	for _, d := range differences {
		sum += d
	}
	t := Test{Statistic: math.Abs(sum) / float64(n), P: math.NaN(), Effect: math.NaN()}
	if n < 2 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return t
	}
	switch deviation := stat.StdDev(differences, nil); {
	case deviation > 0:
		t.Effect = sum / float64(n) / deviation
	case sum == 0:
		t.Effect = 0
	default:
		t.Effect = math.Copysign(math.Inf(1), sum)
	}
	opts = opts.withDefaults()
	bound := math.Abs(sum) * (1 - 1e-9) // sums in a different order differ in their last bits
	if n < 63 && math.Exp2(float64(n)) <= float64(opts.ExactLimit) {
		t.Exact, t.Arrangements = true, 1<<n
		t.P = float64(asExtreme(differences, bound)) / float64(t.Arrangements)
		return t
	}
	random := rand.New(rand.NewPCG(opts.Seed, 0x9e38))
	extreme := 0
	for range opts.Draws {
		total := 0.0
		for _, d := range differences {
			if random.Uint64()&1 == 0 {
				d = -d
			}
			total += d
		}
		if math.Abs(total) >= bound {
			extreme++
		}
	}
	t.Arrangements = opts.Draws
	t.P = float64(extreme+1) / float64(opts.Draws+1)
	return t
}

// asExtreme counts the assignments of signs whose sum has at least the absolute value bound.
func asExtreme(differences []float64, bound float64) (extreme int) {
	for signs := range uint64(1) << len(differences) {
		total := 0.0
		for i, d := range differences {
			if signs>>i&1 != 0 {
				d = -d
			}
			total += d
		}
		if math.Abs(total) >= bound {
			extreme++
		}
	}
	return extreme
}

// PairedBootstrap is [Bootstrap] for two samples whose members with the same index are a pair. It
// draws whole pairs. Both samples must have the same length.
func PairedBootstrap(of Statistic, opts BootstrapOptions, a, b []float64) Interval {
	numbers := make([]float64, len(a))
	for i := range numbers {
		numbers[i] = float64(i)
	}
	return Bootstrap(func(samples ...[]float64) float64 {
		x, y := make([]float64, len(samples[0])), make([]float64, len(samples[0]))
		for i, number := range samples[0] {
			x[i], y[i] = a[int(number)], b[int(number)]
		}
		return of(x, y)
	}, opts, numbers)
}

// Ranking is the result of [Friedman].
type Ranking struct {
	Sums []float64 // sum of the ranks of each treatment; a small sum means small values
	// P is the p-value of the hypothesis that the treatments do not differ. It is NaN for fewer
	// than two blocks or treatments.
	P float64

	blocks  int
	squares float64 // the sum of the squares of all ranks
}

// Friedman ranks treatments within blocks and tests whether they differ. Row i of blocks has the
// values of all treatments in block i. Equal values have the mean of their ranks. The test is
// Friedman's with Conover's correction for ties (Conover, Practical Nonparametric Statistics, 3rd
// edition, 1999, section 5.8), with the chi-squared distribution.
func Friedman(blocks [][]float64) Ranking {
	r := Ranking{P: math.NaN(), blocks: len(blocks)}
	if len(blocks) == 0 {
		return r
	}
	k := len(blocks[0])
	r.Sums = make([]float64, k)
	for _, values := range blocks {
		for i, rank := range ranks(values) {
			r.Sums[i] += rank
			r.squares += rank * rank
		}
	}
	n := float64(len(blocks))
	if n < 2 || k < 2 {
		return r
	}
	expected := n * float64(k+1) / 2
	between := 0.0
	for _, sum := range r.Sums {
		between += (sum - expected) * (sum - expected)
	}
	within := r.squares - n*float64(k)*float64(k+1)*float64(k+1)/4
	if within <= 0 { // all values of each block are equal
		r.P = 1
		return r
	}
	r.P = 1 - distuv.ChiSquared{K: float64(k - 1)}.CDF(float64(k-1)*between/within)
	return r
}

// Critical returns the difference of two rank sums above which two treatments differ at level
// alpha, after the test itself has rejected (Conover 1999, section 5.8, multiple comparisons). It
// is infinite for too few blocks or treatments.
func (r Ranking) Critical(alpha float64) float64 {
	n, k := float64(r.blocks), float64(len(r.Sums))
	freedom := (n - 1) * (k - 1)
	if freedom < 1 {
		return math.Inf(1)
	}
	rest := n * r.squares
	for _, sum := range r.Sums {
		rest -= sum * sum
	}
	// If all blocks have the same ranks, rest is 0 and even the smallest difference is significant.
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1-alpha/2) * math.Sqrt(2*max(0, rest)/freedom)
}

// RankCorrelation returns Spearman's rank correlation of the pairs (a[i], b[i]). It is NaN if one side has fewer than
// two different values.
func RankCorrelation(a, b []float64) float64 {
	if len(a) < 2 {
		return math.NaN()
	}
	return stat.Correlation(ranks(a), ranks(b), nil)
}

// ranks returns the ranks of values, from 1. Equal values have the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case values[i] < values[j]:
			return -1
		case values[i] > values[j]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to+1) / 2
		}
		from = to
	}
	return out
}
