package stats

import (
	"math"
	"testing"
)

// TestNeeded compares the numbers with table 2.4.1 of Cohen, "Statistical Power Analysis for the
// Behavioral Sciences" (1988), which has 17 and 64, and with the definition.
func TestNeeded(t *testing.T) {
	for _, test := range []struct {
		shift float64
		want  int
	}{{1, 17}, {0.5, 64}, {2, 6}, {0.2, 394}, {-1, 17}, {math.Inf(1), 4}, {100, 4}} {
		n := Needed(test.shift, 0.05, 0.8)
		if n != test.want {
			t.Errorf("shift %v: %d runs, want %d", test.shift, n, test.want)
		}
		if s := math.Abs(test.shift); s < 10 && (Power(n, n, s, 0.05) < 0.8 || n > 4 && Power(n-1, n-1, s, 0.05) >= 0.8) {
			t.Errorf("shift %v: %d runs are not the fewest", test.shift, n)
		}
	}
	// Large numbers follow 2 (1.96 + 0.84)² / shift², with which the normal approximation is exact.
	for _, shift := range []float64{0.1, 0.05, 0.02, 0.01} {
		want := 2 * 7.848879734 / (shift * shift)
		if n := float64(Needed(shift, 0.05, 0.8)); math.Abs(n-want) > 2 {
			t.Errorf("shift %v: %v runs, want %.1f", shift, n, want)
		}
	}
	if n := Needed(1, 0.05, 0.9); n != 23 { // R's power.t.test: 22.02
		t.Errorf("power 0.9: %d runs, want 23", n)
	}
	for _, bad := range [][3]float64{{0, 0.05, 0.8}, {math.NaN(), 0.05, 0.8}, {1, 0.05, 1}, {1, 0.8, 0.05}, {1e-9, 0.05, 0.8}} {
		if n := Needed(bad[0], bad[1], bad[2]); n != 0 {
			t.Errorf("%v: %d", bad, n)
		}
	}
}

func TestPooledDeviation(t *testing.T) {
	deviation, freedom := PooledDeviation([]float64{1, 3}, []float64{10, 12, 14}, []float64{7}, nil)
	near(t, "deviation", deviation, math.Sqrt(10.0/3), 1e-12)
	if freedom != 3 {
		t.Errorf("%d degrees of freedom", freedom)
	}
	if d, n := PooledDeviation([]float64{1}); !math.IsNaN(d) || n != 0 {
		t.Errorf("of single runs: %v, %d", d, n)
	}
}

// TestDeviationInterval uses the quantiles 2.180 and 17.535 of χ² with 8 degrees of freedom.
func TestDeviationInterval(t *testing.T) {
	low, high := DeviationInterval(8, 0.95)
	near(t, "low", low, math.Sqrt(8/17.535), 1e-4)
	near(t, "high", high, math.Sqrt(8/2.180), 1e-3)
	if low, _ := DeviationInterval(0, 0.95); !math.IsNaN(low) {
		t.Errorf("without degrees of freedom: %v", low)
	}
}
