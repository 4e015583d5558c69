package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPairedTestBySight(t *testing.T) {
	for _, test := range []struct {
		name        string
		differences []float64
		p           float64
	}{
		{"all positive", []float64{1, 2, 3, 4, 5, 6}, 2.0 / 64},
		{"all negative", []float64{-1, -2, -3, -4, -5, -6}, 2.0 / 64},
		{"three equal differences", []float64{2, 2, 2}, 2.0 / 8},
		{"three positive differences and a negative one", []float64{1, 1, 1, -1}, 10.0 / 16}, // two assignments have |sum| 4, and eight have |sum| 2
		{"no difference", []float64{0, 0, 0, 0}, 1},
	} {
		got := PairedTest(test.differences, TestOptions{})
		if !got.Exact || math.Abs(got.P-test.p) > 1e-12 {
			t.Errorf("%s: p = %v, want %v", test.name, got.P, test.p)
		}
	}
	for _, few := range [][]float64{nil, {1}, {1, math.NaN()}, {1, math.Inf(1)}} {
		if got := PairedTest(few, TestOptions{}); !math.IsNaN(got.P) {
			t.Errorf("%v: p = %v", few, got.P)
		}
	}
}

// TestPairedTestDrawn checks that random signs give nearly the p-value of all signs.
func TestPairedTestDrawn(t *testing.T) {
	differences := []float64{3, 1, 4, 1, -5, 9, 2, -6, 5, 3, 5, 8}
	exact := PairedTest(differences, TestOptions{})
	drawn := PairedTest(differences, TestOptions{ExactLimit: -1, Seed: 7})
	if drawn.Exact || math.Abs(drawn.P-exact.P) > 0.015 {
		t.Errorf("p = %v drawn, %v exact", drawn.P, exact.P)
	}
	if low := PairedTest([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, TestOptions{}); low.Exact || low.P < 1.0/(Draws+1) {
		t.Errorf("%+v", low)
	}
}

// TestPairedTestLevel checks the level: of symmetric differences at most 5 % are significant.
func TestPairedTestLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const tests = 4000
	rejected := 0
	for range tests {
		differences := make([]float64, 9)
		for i := range differences {
			differences[i] = random.NormFloat64()
		}
		if PairedTest(differences, TestOptions{}).P <= 0.05 {
			rejected++
		}
	}
	if share := float64(rejected) / tests; share > 0.06 || share < 0.03 {
		t.Errorf("%.3f of the tests reject at 5 %%", share)
	}
}

func TestSmallestPairedP(t *testing.T) {
	for n := 2; n <= 16; n++ {
		differences := make([]float64, n)
		for i := range differences {
			differences[i] = float64(i + 1)
		}
		got, want := SmallestPairedP(n, TestOptions{}), PairedTest(differences, TestOptions{}).P
		if n <= 14 && got != want || got > want {
			t.Errorf("%d pairs: %v, want %v", n, got, want)
		}
	}
}

// TestPairedBootstrap checks that the pairs stay together. If both sides vary much but their
// difference varies little, the interval is as narrow as the difference's interval.
func TestPairedBootstrap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	a, b := make([]float64, 12), make([]float64, 12)
	for i := range a {
		a[i] = 1000 * random.Float64()
		b[i] = a[i] + 10 + random.NormFloat64()
	}
	got := PairedBootstrap(Difference, BootstrapOptions{}, a, b)
	if !got.Contains(10) || got.High-got.Low > 3 {
		t.Errorf("%+v", got)
	}
	if apart := Bootstrap(Difference, BootstrapOptions{}, a, b); apart.High-apart.Low < 100 {
		t.Errorf("the samples on their own: %+v", apart)
	}
}

// TestFriedman compares the test with a computation by hand. The ranks within the blocks are 1 2 3,
// 1 2 3, 2 1 3 and 1 2 3: the sums are 5, 7 and 12, the statistic 12/(4*3*4) * (25+49+144) - 3*4*4
// = 6.5, and its p-value exp(-6.5/2).
func TestFriedman(t *testing.T) {
	r := Friedman([][]float64{{10, 20, 30}, {1, 5, 9}, {7, 6, 8}, {0.1, 0.2, 0.3}})
	if !slices.Equal(r.Sums, []float64{5, 7, 12}) || math.Abs(r.P-math.Exp(-3.25)) > 1e-9 {
		t.Errorf("%+v, want p = %v", r, math.Exp(-3.25))
	}
	// Conover: t(0.975; 6) * sqrt(2 * (4*56 - 218) / 6) = 2.446912 * sqrt(2).
	if got := r.Critical(0.05); math.Abs(got-2.446912*math.Sqrt2) > 1e-4 {
		t.Errorf("critical difference %v", got)
	}
	// If all blocks have the same ranks, even the smallest difference is significant.
	same := Friedman([][]float64{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}})
	if same.Critical(0.05) != 0 || same.P > 0.05 {
		t.Errorf("%+v", same)
	}
	if tied := Friedman([][]float64{{1, 1, 1}, {2, 2, 2}}); tied.P != 1 || !slices.Equal(tied.Sums, []float64{4, 4, 4}) {
		t.Errorf("%+v", tied)
	}
	for _, few := range [][][]float64{nil, {{1, 2}}, {{1}, {2}}} {
		if r := Friedman(few); !math.IsNaN(r.P) {
			t.Errorf("%v: %+v", few, r)
		}
	}
	if r := Friedman([][]float64{{1, 2}}); !math.IsInf(r.Critical(0.05), 1) {
		t.Errorf("one block: critical difference %v", r.Critical(0.05))
	}
}

// TestFriedmanLevel checks that the test rejects for noise in about 5 % of cases.
func TestFriedmanLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const tests = 4000
	rejected := 0
	for range tests {
		blocks := make([][]float64, 8)
		for i := range blocks {
			for range 5 {
				blocks[i] = append(blocks[i], random.NormFloat64())
			}
		}
		if Friedman(blocks).P <= 0.05 {
			rejected++
		}
	}
	if share := float64(rejected) / tests; share > 0.06 || share < 0.025 {
		t.Errorf("%.3f of the tests reject at 5 %%", share)
	}
}

// The correlation is that of the ranks, with mean ranks of equal values.
func TestRankCorrelation(t *testing.T) {
	near(t, "scaled", RankCorrelation([]float64{1, 5, 3, 9}, []float64{10, 500, 30, 9000}), 1, 1e-12)
	near(t, "reversed", RankCorrelation([]float64{1, 2, 3}, []float64{3, 2, 1}), -1, 1e-12)
	near(t, "ties", RankCorrelation([]float64{1, 1, 2}, []float64{1, 2, 3}), math.Sqrt(3)/2, 1e-12)
	for _, b := range [][]float64{nil, {1}, {4, 4}} {
		if got := RankCorrelation(b, b); !math.IsNaN(got) {
			t.Errorf("%v: %v, want NaN", b, got)
		}
	}
}
