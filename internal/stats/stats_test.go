package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// mice are the survival times of Efron and Tibshirani, An Introduction to the
// Bootstrap, 1993, table 2.1.
var (
	treated = []float64{94, 197, 16, 38, 99, 141, 23}
	control = []float64{52, 104, 146, 10, 51, 30, 40, 27, 46}
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

// All 11,440 arrangements of the mice, counted with exact fractions in another language:
// 3,184 have a difference of means at least as large as the observed one. The one-sided
// p-value is 0.141; the book has 0.132 from 1,000 random arrangements.
func TestMeanTestAgreesWithEnumeration(t *testing.T) {
	exact := MeanTest(control, treated, TestOptions{})
	if !exact.Exact || exact.Arrangements != 11440 {
		t.Fatalf("exact %v over %d arrangements, want all 11440", exact.Exact, exact.Arrangements)
	}
	near(t, "statistic", exact.Statistic, 86.857142857-56.222222222, 1e-6)
	near(t, "p", exact.P, 3184.0/11440, 1e-12)
	drawn := MeanTest(control, treated, TestOptions{ExactLimit: -1, Seed: 3})
	if drawn.Exact || drawn.Arrangements != Draws {
		t.Fatalf("exact %v over %d, want %d drawn", drawn.Exact, drawn.Arrangements, Draws)
	}
	near(t, "drawn p", drawn.P, exact.P, 0.015)
}

// Rank tests are tests of the means of ranks. The documentation of SciPy's mannwhitneyu has
// U = 17 of 20 pairs and p = 0.1111 for the ages of five men and four women. The
// documentation of R's coin and exactRankTests has p = 0.03727 for the endurance of 24 rats
// (Bergmann, Ludbrook and Spooren, The American Statistician 54(1), 2000): all five rats
// that fell off early had been treated.
func TestAgreesWithRankTests(t *testing.T) {
	males, females := []float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}
	near(t, "p of ages", MeanTest([]float64{5, 7, 3, 9, 8}, []float64{6, 1, 4, 2}, TestOptions{}).P, 1.0/9, 1e-12)
	near(t, "delta of ages", CliffsDelta(females, males), 2*17.0/20-1, 1e-12)
	treatment, untreated := []float64{1, 2, 3, 4, 5}, []float64{}
	for len(treatment) < 12 {
		treatment = append(treatment, 15)
	}
	for len(untreated) < 12 {
		untreated = append(untreated, 15)
	}
	rats := MeanTest(untreated, treatment, TestOptions{ExactLimit: 3_000_000})
	if !rats.Exact || rats.Arrangements != 2704156 {
		t.Errorf("exact %v over %d arrangements, want all 2704156", rats.Exact, rats.Arrangements)
	}
	near(t, "p of rats", rats.P, 0.03727, 5e-6)
}

// The first two examples in the documentation of SciPy's energy_distance, which is the
// square root of the energy distance: [0] and [2] have 2.0, and [0, 8] with weights 3 and 1
// against [0, 8] with weights 2 and 2 has 1.0.
func TestEnergyAgreesWithSciPy(t *testing.T) {
	for _, c := range []struct {
		a, b     [][]float64
		distance float64
	}{
		{[][]float64{{0}, {0}}, [][]float64{{2}, {2}}, 2},
		{[][]float64{{0}, {0}, {0}, {8}}, [][]float64{{0}, {0}, {8}, {8}}, 1},
	} {
		got, err := Energy(c.a, c.b, TestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		na, nb := float64(len(c.a)), float64(len(c.b))
		near(t, "energy distance", math.Sqrt(got.Statistic*(na+nb)/(na*nb)), c.distance, 1e-12)
	}
}

// The 26 values and the 90 % BCa interval of their variance come from Efron and Tibshirani,
// section 14.2 and table 14.2: a = 0.061, (115.8, 259.6).
func TestBCaAgreesWithTheBook(t *testing.T) {
	values := []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}
	variance := func(s ...[]float64) float64 { return stat.PopVariance(s[0], nil) }
	samples := [][]float64{values}
	near(t, "variance", variance(values), 171.5, 0.05)
	jack := newJackknife(variance, samples)
	near(t, "acceleration", jack.acceleration, 0.061, 0.001)
	sorted := resample(variance, BootstrapOptions{Resamples: 20000, Seed: 1}, samples)
	low, high := jack.interval(sorted, variance(values), 1.6448536)
	near(t, "low end", low, 115.8, 2)
	near(t, "high end", high, 259.6, 4)
}

func TestBootstrapSmallSamples(t *testing.T) {
	one := Bootstrap(Mean, BootstrapOptions{}, []float64{4})
	if one.Estimate != 4 || !math.IsNaN(one.Low) || !math.IsNaN(one.High) {
		t.Errorf("one value: %v, want 4 without an interval", one)
	}
	if none := Bootstrap(Mean, BootstrapOptions{}, nil); !math.IsNaN(none.Estimate) {
		t.Errorf("no value: %v", none)
	}
	if same := Bootstrap(Difference, BootstrapOptions{}, []float64{2, 2}, []float64{5, 5, 5}); same != (Interval{3, 3, 3}) {
		t.Errorf("nothing varies: %v, want 3 alone", same)
	}
	if r := Bootstrap(Relative, BootstrapOptions{}, []float64{0, 0}, []float64{1, 2}); !math.IsNaN(r.Estimate) {
		t.Errorf("relative to 0: %v", r)
	}
	a := Bootstrap(Difference, BootstrapOptions{Seed: 5}, control, treated)
	if b := Bootstrap(Difference, BootstrapOptions{Seed: 5}, control, treated); a != b {
		t.Errorf("one seed, two intervals: %v and %v", a, b)
	}
	if wide := Bootstrap(Difference, BootstrapOptions{Seed: 5, Level: 0.99}, control, treated); wide.Low >= a.Low || wide.High <= a.High {
		t.Errorf("99 %%: %v is not wider than 95 %%: %v", wide, a)
	}
}

// A 95 % interval contains the true value in about 95 % of cases, and less often with few values.
func TestBootstrapCoverage(t *testing.T) {
	const trials = 1000
	for _, c := range []struct {
		name     string
		na, nb   int
		draw     func(*rand.Rand) float64
		from, to float64
	}{
		{"normal 10 and 10", 10, 10, (*rand.Rand).NormFloat64, 0.93, 0.97},
		{"normal 20 and 8", 20, 8, (*rand.Rand).NormFloat64, 0.92, 0.97},
		{"exponential 10 and 10", 10, 10, (*rand.Rand).ExpFloat64, 0.92, 0.98},
		{"normal 5 and 5", 5, 5, (*rand.Rand).NormFloat64, 0.90, 0.98},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		covered := 0
		for range trials {
			a, b := drawn(random, c.na, c.draw), drawn(random, c.nb, c.draw)
			if Bootstrap(Difference, BootstrapOptions{Resamples: 399, Seed: random.Uint64()}, a, b).Contains(0) {
				covered++
			}
		}
		share := float64(covered) / trials
		t.Logf("%s: %.1f %% covered", c.name, 100*share)
		if share < c.from || share > c.to {
			t.Errorf("%s: %.3f covered, want %.2f to %.2f", c.name, share, c.from, c.to)
		}
	}
}

func drawn(random *rand.Rand, n int, draw func(*rand.Rand) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = draw(random)
	}
	return out
}

// The output of R 4 for power.t.test(n, delta, sd = 1) and power.t.test(power, delta = 1),
// from its documentation.
func TestPowerAgreesWithR(t *testing.T) {
	near(t, "power of n = 20, delta = 1", Power(20, 20, 1, 0.05), 0.8689528, 2e-5)
	near(t, "power of no difference", Power(7, 12, 0, 0.05), 0.05, 1e-5)
	near(t, "difference for n = 20", Detectable(20, 20, 0.05, 0.8689528), 1, 1e-3)
	if p := Power(22, 22, 1, 0.05); p > 0.90 {
		t.Errorf("22 a side: power %v, and R wants 22.02 for 0.90", p)
	}
	if p := Power(23, 23, 1, 0.05); p < 0.90 {
		t.Errorf("23 a side: power %v, and R wants 22.02 for 0.90", p)
	}
	if !math.IsNaN(Power(1, 20, 1, 0.05)) || !math.IsNaN(Detectable(5, 1, 0.05, 0.8)) {
		t.Error("one run has power")
	}
}

func TestEffects(t *testing.T) {
	a, b := []float64{1, 2, 3}, []float64{2, 4, 6}
	near(t, "g", HedgesG(a, b), 2/math.Sqrt(2.5)*(1-3.0/15), 1e-12)
	near(t, "delta", CliffsDelta(a, b), (7.0-1)/9, 1e-12)
	near(t, "delta of the same", CliffsDelta(a, a), 0, 0)
	if g := HedgesG([]float64{1, 1}, []float64{2, 2}); !math.IsInf(g, 1) {
		t.Errorf("g without any spread = %v, want +Inf", g)
	}
	if g := HedgesG([]float64{1, 1}, []float64{1, 1}); g != 0 {
		t.Errorf("g of the same = %v", g)
	}
	// R: p.adjust(c(0.05, 0.01, 0.03, 0.02, 0.04), "holm")
	nan := math.NaN()
	got := Holm([]float64{0.05, 0.01, nan, 0.03, 0.02, 0.04})
	want := []float64{0.09, 0.05, nan, 0.09, 0.08, 0.09}
	if !floats.EqualFunc(got, want, func(x, y float64) bool {
		return math.Abs(x-y) < 1e-12 || math.IsNaN(x) && math.IsNaN(y)
	}) {
		t.Errorf("Holm = %v, want %v", got, want)
	}
}

func TestSmallestP(t *testing.T) {
	near(t, "3 and 3", SmallestP(3, 3, TestOptions{}), 0.1, 1e-12)
	near(t, "3 and 4", SmallestP(3, 4, TestOptions{}), 1.0/35, 1e-12)
	near(t, "50 and 50", SmallestP(50, 50, TestOptions{}), 1e-4, 1e-12)
	near(t, "none", SmallestP(0, 4, TestOptions{}), 1, 0)
	far := MeanTest([]float64{0, 0.1, 0.2}, []float64{9, 9.1, 9.2}, TestOptions{})
	near(t, "p of what could not be further apart", far.P, 0.1, 1e-12)
}

// Three points on a line against two: E = 2×mean|a−b| − mean|a−a'| − mean|b−b'|.
func TestEnergyByHand(t *testing.T) {
	a, b := [][]float64{{0}, {1}, {2}}, [][]float64{{4}, {6}}
	got, err := Energy(a, b, TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	between, within, second := 4.0, 8.0/9, 1.0
	near(t, "statistic", got.Statistic, 6.0/5*(2*between-within-second), 1e-12)
	near(t, "effect", got.Effect, (2*between-within-second)/(2*between), 1e-12)
	near(t, "p", got.P, 0.1, 1e-12) // only the observed arrangement, of ten, is so extreme
}

// The fast statistic equals sums over all pairs as in the formula.
func TestEnergyAgreesWithItsFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(1, 4).Draw(t, "dimension")
		point := rapid.SliceOfN(rapid.Float64Range(-50, 50), dim, dim)
		a := rapid.SliceOfN(point, 2, 5).Draw(t, "a")
		b := rapid.SliceOfN(point, 2, 5).Draw(t, "b")
		mean := func(x, y [][]float64) float64 {
			sum := 0.0
			for _, p := range x {
				for _, q := range y {
					sum += floats.Distance(p, q, 2)
				}
			}
			return sum / float64(len(x)*len(y))
		}
		na, nb := float64(len(a)), float64(len(b))
		want := na * nb / (na + nb) * (2*mean(a, b) - mean(a, a) - mean(b, b))
		got, err := Energy(a, b, TestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Statistic-want) > 1e-9*(1+math.Abs(want)) {
			t.Fatalf("statistic %v, want %v", got.Statistic, want)
		}
		other, err := Energy(b, a, TestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(other.P-got.P) > 1e-12 || other.P <= 0 || other.P > 1 {
			t.Fatalf("p %v one way, %v the other", got.P, other.P)
		}
	})
}

// On a line, a point's spatial depth is 1 − |share above − share below|, and the quality index
// equals the index of ranks.
func TestDepthByHand(t *testing.T) {
	got, err := SpatialDepth([][]float64{{3}, {1}, {2}, {9}, {4}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{1, 0, 0.5, 0, 0.5}, got); diff != "" {
		t.Errorf("depths (-want +got)\n%s", diff)
	}
	// For each corner of a square, the directions to the others add up to a vector of
	// length 1 + √2.
	square, err := SpatialDepth([][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range square {
		near(t, "depth of a corner", d, 1-(1+math.Sqrt2)/3, 1e-12)
	}
	apart, err := Depth([][]float64{{1}, {2}, {3}}, [][]float64{{11}, {12}, {13}}, TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// In a, each point of b is as far outside as the ends of a. So six of the nine pairs tie; the
	// other three have the middle of a, which is deeper.
	near(t, "QAB", apart.QAB, 6*0.5/9, 1e-12)
	near(t, "QBA", apart.QBA, 6*0.5/9, 1e-12)
	spread, err := Depth([][]float64{{-1}, {0}, {1}, {0.5}}, [][]float64{{-20}, {20}, {-30}, {30}}, TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spread.QAB >= 0.5 || spread.QBA <= 0.5 {
		t.Errorf("a wider set: QAB %v, QBA %v, want below and above 1/2", spread.QAB, spread.QBA)
	}
}

// Moving to fewer dimensions must not change any distance.
func TestIsometry(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	points := cloud(random, 7, 300, 0)
	points[3] = points[2] // a run may occur twice
	before, err := Distances(points)
	if err != nil {
		t.Fatal(err)
	}
	small := isometry(points)
	if len(small[0]) != 6 {
		t.Fatalf("%d dimensions, want 6", len(small[0]))
	}
	after, err := Distances(small)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		for k := range before {
			near(t, "distance", after[i][k], before[i][k], 1e-9)
		}
	}
}

func TestBadPoints(t *testing.T) {
	uneven := [][]float64{{1, 2}, {1}, {1, 2}, {1, 2}}
	broken := [][]float64{{1}, {math.NaN()}, {2}, {3}}
	for name, points := range map[string][][]float64{"uneven": uneven, "broken": broken} {
		if _, err := Distances(points); err == nil {
			t.Errorf("%s: distances without an error", name)
		}
		if _, err := Energy(points[:2], points[2:], TestOptions{}); err == nil {
			t.Errorf("%s: energy without an error", name)
		}
		if _, err := Depth(points[:2], points[2:], TestOptions{}); err == nil {
			t.Errorf("%s: depth without an error", name)
		}
	}
	if _, err := SpatialDepth([][]float64{{1}}); err == nil {
		t.Error("depth of one point without an error")
	}
	single, err := Depth([][]float64{{1}}, [][]float64{{2}, {3}}, TestOptions{})
	if err != nil || !math.IsNaN(single.P) {
		t.Errorf("one run: p = %v, error %v, want no p-value", single.P, err)
	}
	if e, err := Energy([][]float64{{1}}, [][]float64{{2}, {3}}, TestOptions{}); err != nil || !math.IsNaN(e.P) {
		t.Errorf("one run: p = %v, error %v, want no p-value", e.P, err)
	}
}

func TestSpreadBetween(t *testing.T) {
	distances, err := Distances([][]float64{{0}, {2}, {10}, {14}})
	if err != nil {
		t.Fatal(err)
	}
	within := SpreadBetween(distances, []int{0, 1}, []int{0, 1})
	if within.Pairs != 1 || within.Mean != 2 {
		t.Errorf("within: %+v, want one pair at 2", within)
	}
	across := SpreadBetween(distances, []int{0, 1}, []int{2, 3})
	if across.Pairs != 4 || across.Mean != 11 {
		t.Errorf("across: %+v, want four pairs at 11", across)
	}
}

// cloud returns n points whose coordinates are normal around a shift.
func cloud(random *rand.Rand, n, dim int, shift float64) [][]float64 {
	points := make([][]float64, n)
	for i := range points {
		points[i] = drawn(random, dim, func(r *rand.Rand) float64 { return r.NormFloat64() + shift })
	}
	return points
}

// Groups count by their number of values, and stay whole. Groups of one value are single values.
func TestGroupedMean(t *testing.T) {
	ones := func(values []float64) (list []Group) {
		for _, v := range values {
			list = append(list, Group{v, 1})
		}
		return list
	}
	a, b := []float64{1, 4, 2, 8, 3}, []float64{7, 9, 4, 12}
	single, grouped := MeanTest(a, b, TestOptions{}), GroupedMeanTest(ones(a), ones(b), TestOptions{})
	near(t, "statistic of single values", grouped.Statistic, single.Statistic, 1e-12)
	near(t, "p of single values", grouped.P, single.P, 1e-12)
	// The means over values are 10/3 and 14/4.
	x, y := []Group{{2, 1}, {8, 2}}, []Group{{4, 3}, {10, 1}}
	test := GroupedMeanTest(x, y, TestOptions{})
	near(t, "statistic", test.Statistic, 1./6, 1e-12)
	extreme := 0
	all := append(append([]Group{}, x...), y...)
	for i := range all {
		for k := range i {
			rest := Group{24 - all[i].Sum - all[k].Sum, 7 - all[i].N - all[k].N}
			if math.Abs(rest.Sum/rest.N-(all[i].Sum+all[k].Sum)/(all[i].N+all[k].N)) >= 1./6-1e-9 {
				extreme++
			}
		}
	}
	near(t, "p", test.P, float64(extreme)/6, 1e-12)
	if p := GroupedMeanTest(x[:1], y, TestOptions{}).P; !math.IsNaN(p) {
		t.Errorf("p = %v for one group, want NaN", p)
	}
}
