package schedules

import (
	"strings"
	"testing"

	"rmreplay/internal/metrics"
	"rmreplay/internal/stats"
)

// TestCorrected checks that p-values are corrected for two tests, and that the sentences use the corrected values: a
// single test just below 5 % is not significant.
func TestCorrected(t *testing.T) {
	for _, tt := range []struct{ energy, depth, smallest metrics.Float }{
		{0.095, 0.096, 0.001}, {0.002, 0.02, 0.001}, {0.06, 0.06, 0.03},
	} {
		tests := &Tests{SmallestP: tt.smallest}
		tests.Energy.PAdjusted, tests.Depth.PAdjusted = tt.energy, tt.depth
		short, verdict := "do not differ significantly", "Neither test rejects"
		switch {
		case tt.smallest > 0.025:
			short, verdict = "too few runs", "cannot give a corrected p-value below 0.060"
		case tt.energy < 0.05:
			short, verdict = "whole differ significantly", "Both tests reject"
		}
		if text := tests.Short(0.05); !strings.Contains(text, short) {
			t.Errorf("%v: %s, want %s", tt, text, short)
		}
		if text := tests.Verdict(0.05); !strings.Contains(text, verdict) {
			t.Errorf("%v: %s, want %s", tt, text, verdict)
		}
	}
}

// TestHolm checks the corrected p-values of both tests against their p-values.
func TestHolm(t *testing.T) {
	baseline := [][]float64{{0, 5}, {1, 3}, {2, 6}, {3, 4}, {0, 7}}
	set := [][]float64{{2, 5}, {3, 3}, {4, 6}, {5, 4}, {2, 7}}
	tests := Test(baseline, set, stats.TestOptions{})
	low, high := tests.Energy.P, tests.Depth.P
	lowHolm, highHolm := tests.Energy.PAdjusted, tests.Depth.PAdjusted
	if low > high {
		low, high, lowHolm, highHolm = high, low, highHolm, lowHolm
	}
	if low >= 0.5 || lowHolm != 2*low || highHolm != max(2*low, high) {
		t.Errorf("p %v and %v, corrected %v and %v", low, high, lowHolm, highHolm)
	}
	if Test(baseline[:1], set, stats.TestOptions{}) != nil {
		t.Error("a single run was tested")
	}
}
