package empirical

import (
	"math"
	"testing"
)

// TestEmpirical compares quantiles with the quantiles of the uniform distribution, for new jobs
// and for jobs that have run for some time.
func TestEmpirical(t *testing.T) {
	var masses []Mass
	for i := range 101 {
		masses = append(masses, Mass{float64(10 * i), 0.01})
	}
	d := New(masses, 2000)
	for _, c := range []struct{ q, elapsed, want float64 }{
		{0, 0, 0}, {0.5, 0, 500}, {0.123, 0, 123}, {1, 0, 1000}, // for the whole distribution
		{0, 405, 405}, {0.5, 405, 702.5}, {1, 405, 1000}, // it can end at once, though no run time is between 400 and 410
		{0.5, 1000, 1000}, {0.5, 1001, 2000}, // longer than all: until the limit
	} {
		if got := d.QuantileAfter(c.q, c.elapsed); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("quantile %g after %g s: %g, want %g", c.q, c.elapsed, got, c.want)
		}
	}
	one := New([]Mass{{60, 1}}, 0)
	if a, b, c := one.QuantileAfter(0.3, 0), one.QuantileAfter(0.3, 50), one.QuantileAfter(0.3, 70); a != 60 || b != 60 || c != 140 {
		t.Errorf("a single run time of 60 s: %g, %g and %g, want 60, 60 and 140", a, b, c)
	}
}

// TestThin: a distribution of many run times keeps its quantiles, up to the weight of a point.
func TestThin(t *testing.T) {
	var many []Mass
	for i := range 20_000 {
		many = append(many, Mass{float64(i * i), 0.5 + float64(i%3)})
	}
	few := Thin(many)
	if len(few) > Points || len(few) < Points-1 {
		t.Fatalf("%d Points", len(few))
	}
	whole, thinned := New(many, 0), New(few, 0)
	for q := 0.01; q < 1; q += 0.01 {
		low, high := whole.QuantileAfter(max(q-2.0/Points, 0), 0), whole.QuantileAfter(min(q+2.0/Points, 1), 0)
		if got := thinned.QuantileAfter(q, 0); got < low || got > high {
			t.Errorf("quantile %.2f is %.0f, want %.0f to %.0f", q, got, low, high)
		}
	}
	if same := Thin(many[:Points]); len(same) != Points || same[7] != many[7] {
		t.Error("a distribution of few run times changes")
	}
}
