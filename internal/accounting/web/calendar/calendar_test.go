package calendar

import (
	"testing"
	"time"
)

// TestEven chooses steps that have the same number of a scheduler's figures. Otherwise sums of steps go up
// and down although the scheduler does not.
func TestEven(t *testing.T) {
	from := time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		hours     time.Duration
		intervals []time.Duration
		want      time.Duration
	}{
		{24, nil, 15 * time.Minute},
		{24, []time.Duration{10 * time.Minute}, 30 * time.Minute},
		{12, []time.Duration{10 * time.Minute}, 10 * time.Minute},
		{24, []time.Duration{time.Minute, 10*time.Minute + 2*time.Second}, 30 * time.Minute},
		{24, []time.Duration{7 * time.Second}, 15 * time.Minute},
		{1, []time.Duration{75 * time.Second}, 5 * time.Minute},
		{24, []time.Duration{0}, 15 * time.Minute},
	} {
		step, _ := Divide(from, from.Add(test.hours*time.Hour), time.UTC, test.intervals)
		if got := time.Duration(step) * time.Second; got != test.want {
			t.Errorf("%d hours, figures every %v: steps of %v, want %v", test.hours, test.intervals, got, test.want)
		}
	}
}
