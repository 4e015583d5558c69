package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestProductLimitPublished has the remission times, in weeks, of 21 patients who took
// 6-mercaptopurine (Freireich et al., Blood 21, 1963) and the estimate that textbooks print for them.
func TestProductLimitPublished(t *testing.T) {
	var list []Observation
	for _, weeks := range []float64{6, 6, 6, 7, 10, 13, 16, 22, 23} {
		list = append(list, Observation{Time: weeks, Weight: 1})
	}
	for _, weeks := range []float64{6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35} {
		list = append(list, Observation{Time: weeks, Weight: 1, Censored: true})
	}
	got := map[float64]float64{}
	for weeks, longer := range ProductLimit(list) {
		got[weeks] = longer
	}
	want := map[float64]float64{6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
	if len(got) != len(want) {
		t.Errorf("%d times, want %d: %v", len(got), len(want), got)
	}
	for weeks, longer := range want {
		if math.Abs(got[weeks]-longer) > 0.0005 {
			t.Errorf("after %g weeks: %.4f, want %.3f", weeks, got[weeks], longer)
		}
	}
}

// TestProductLimit compares the estimator with its definition: the product over the times of ends of
// 1 - ended/at risk. An observation is at risk after its entry.
func TestProductLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for k := range 500 {
		list := make([]Observation, rng.IntN(30))
		for i := range list {
			list[i] = Observation{Time: float64(rng.IntN(12)), Weight: rng.Float64(), Censored: rng.IntN(3) == 0}
			if k%3 == 0 && rng.IntN(2) == 0 {
				list[i].Entry = float64(rng.IntN(24)) / 2
			}
		}
		want := map[float64]float64{}
		longer := 1.0
		for at := 0.0; at < 12; at += 0.25 {
			ended, risk := 0.0, 0.0
			for _, o := range list {
				if o.Entry > 0 && o.Entry >= at {
					continue
				}
				if o.Time >= at {
					risk += o.Weight
				}
				if o.Time == at && !o.Censored {
					ended += o.Weight
				}
			}
			if ended > 0 {
				longer *= 1 - ended/risk
				want[at] = longer
			}
		}
		got := map[float64]float64{}
		var times []float64
		for at, longer := range ProductLimit(slices.Clone(list)) {
			got[at] = longer
			times = append(times, at)
		}
		if !slices.IsSorted(times) || len(got) != len(want) {
			t.Fatalf("times %v, want those of %v", times, want)
		}
		for at, longer := range want {
			if math.Abs(got[at]-longer) > 1e-9 {
				t.Fatalf("longer than %g: %g, want %g, of %v", at, got[at], longer, list)
			}
		}
	}
}

// A caller may stop after the first times, and may iterate again. Observations of weight 0 do not
// count.
func TestProductLimitEnds(t *testing.T) {
	estimate := ProductLimit([]Observation{{Time: 1, Weight: 1}, {Time: 2, Weight: 1}})
	for range estimate {
		break
	}
	times := 0
	for range estimate {
		times++
	}
	if times != 2 {
		t.Errorf("%d times when it is gone through again, want 2", times)
	}
	for at, longer := range ProductLimit([]Observation{{Time: 1}, {Time: 2}}) {
		t.Errorf("without weights: %g, %g", at, longer)
	}
}
