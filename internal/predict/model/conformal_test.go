package model

import (
	"testing"

	"rmreplay/internal/predict"
)

// TestMost checks that the bounds of a job without a limit do not exceed the largest answer, once
// there are enough answers. For a job with a limit, only the limit bounds the prediction.
func TestMost(t *testing.T) {
	c := conformal{High: bound{Distance: farthest}}
	long := predict.Prediction{P10: 10, P50: 4000, P90: 5000}
	for i := range enough - 1 {
		c.learn(long, long, float64(100+i))
	}
	if got := c.apply(long); got.P90 <= 5000 || got.P50 != 4000 {
		t.Errorf("%d answers: %+v, want it not cut", int(c.Answers), got)
	}
	c.learn(long, long, 3000)
	if got := c.apply(long); got.P50 != 3000 || got.P90 != 3000 || got.P10 >= 3000 {
		t.Errorf("without a limit: %+v, want P50 and P90 at the longest of all, 3000", got)
	}
	long.Limit = 90000
	if got := c.apply(long); got.P50 != 4000 || got.P90 != 90000 {
		t.Errorf("with a limit: %+v, want P50 as it was and P90 at the limit", got)
	}
	c.learn(long, long, 7000)
	long.Limit = 0
	if got := c.apply(long); got.P50 != 4000 || got.P90 != 7000 {
		t.Errorf("after a longer one: %+v, want P90 at 7000", got)
	}
}
