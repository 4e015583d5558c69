package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntraclassByHand: pairs of equal numbers have the correlation 1, and pairs of opposite numbers −1.
// Pairs that do not vary have no correlation.
func TestIntraclassByHand(t *testing.T) {
	for _, c := range []struct {
		pairs [][2]float64
		want  float64
	}{
		{[][2]float64{{1, 1}, {2, 2}, {4, 4}}, 1},
		{[][2]float64{{0, 2}, {2, 0}}, -1},
		{[][2]float64{{0, 0}, {2, 2}, {0, 2}, {2, 0}}, 0},
		{[][2]float64{{0, 1}, {3, 4}}, 0.8}, // deviations −2, −1, 1, 2: (2+2)/((4+1+1+4)/2)
		{[][2]float64{{1, 2}}, math.NaN()},
		{[][2]float64{{3, 3}, {3, 3}}, math.NaN()},
		{[][2]float64{{17699.1, 17699.1}, {17699.1, 17699.1}, {17699.1, 17699.1}}, math.NaN()}, // their mean is rounded
	} {
		got := Intraclass(c.pairs, 0.95).Estimate
		if math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%v: %g, want %g", c.pairs, got, c.want)
		}
	}
	if i := Intraclass([][2]float64{{1, 1}, {2, 2}, {4, 4}}, 0.95); !math.IsNaN(i.Low) {
		t.Errorf("three pairs have the interval %+v", i)
	}
}

// TestIntraclassCovers: the interval contains the true share of variance about as often as its
// level says.
func TestIntraclassCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0, 0.3, 0.8} {
		inside := 0
		const rounds = 2000
		for range rounds {
			pairs := make([][2]float64, 20)
			for i := range pairs {
				common := math.Sqrt(share) * rng.NormFloat64()
				for k := range 2 {
					pairs[i][k] = common + math.Sqrt(1-share)*rng.NormFloat64()
				}
			}
			if i := Intraclass(pairs, 0.95); i.Low <= share && share <= i.High {
				inside++
			}
		}
		if got := float64(inside) / rounds; got < 0.92 || got > 0.98 {
			t.Errorf("a share of %g is in %.1f %% of the intervals, want 95 %%", share, 100*got)
		}
	}
}
