package rate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

// TestCyclic checks three cases: events with a constant rate through day and night do not follow
// the cycle, events with the cycle's rate do, and few events leave the question open.
func TestCyclic(t *testing.T) {
	const now = hpc.Time(20000 * 24 * time.Hour)
	begin := now.Add(-20 * time.Hour)
	events := func(hourly float64, rate func(hpc.Time) float64) (list []hpc.Time) {
		sum, due := 0.0, 0.0
		for at := begin; at < now; at = at.Add(time.Minute) {
			sum += rate(at)
		}
		for at := begin; at < now; at = at.Add(time.Minute) {
			for due += hourly * 20 * rate(at) / sum; due >= 1; due-- {
				list = append(list, at)
			}
		}
		return list
	}
	even := func(hpc.Time) float64 { return 1 }
	for _, tt := range []struct {
		name        string
		list        []hpc.Time
		least, most float64
	}{
		{"even", events(30, even), 0, 0.01},
		{"as in the cycle", events(30, Busy), 0.99, 1},
		{"few", events(0.3, Busy)[:2], 0.3, 0.7},
	} {
		if p := Cyclic(tt.list, now); !(p >= tt.least && p <= tt.most) {
			t.Errorf("%s: %.3f, want %v to %v", tt.name, p, tt.least, tt.most)
		}
	}
}

// TestPoisson: the mean and the variance of the draws are the given mean.
func TestPoisson(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, want := range []float64{0, 0.5, 3} {
		const draws = 20_000
		sum, squares := 0.0, 0.0
		for range draws {
			n := float64(Poisson(rng, want))
			sum, squares = sum+n, squares+n*n
		}
		mean := sum / draws
		if variance := squares/draws - mean*mean; math.Abs(mean-want) > 0.1 || math.Abs(variance-want) > 0.2 {
			t.Errorf("mean %.3f, variance %.3f, want %v", mean, variance, want)
		}
	}
}
