package nested

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestConcentrations draws values in classes of users. A share of the variance is the users', another share the
// classes'.
func TestConcentrations(t *testing.T) {
	for _, tt := range []struct{ user, class, own float64 }{ // standard deviations
		{1, 1, 1}, {0, 1, 0.1}, {0, 1, 1}, {1, 0, 1}, {0, 0, 1},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		var values []float64
		var groups [][]int
		for user := range 200 {
			ofUser := tt.user * rng.NormFloat64()
			for class := range 8 {
				ofClass := tt.class * rng.NormFloat64()
				for range 5 + rng.IntN(5) {
					values = append(values, ofUser+ofClass+tt.own*rng.NormFloat64())
					groups = append(groups, []int{user*8 + class, user, 0})
				}
			}
		}
		got := Concentrations(values, groups)
		user, class, own := tt.user*tt.user, tt.class*tt.class, tt.own*tt.own
		for i, want := range []float64{own / class, (class + own) / user} {
			if far := math.Abs(math.Log(got[i] / want)); math.IsInf(want, 1) && got[i] < 20 || !math.IsInf(want, 1) && !(far < 0.3) {
				t.Errorf("%+v, level %d: concentration %g, want %g", tt, i, got[i], want)
			}
		}
	}
	if got := Concentrations([]float64{1, 2}, [][]string{{"a", "all"}, {"b", "all"}}); got[0] != 1 {
		t.Errorf("groups of one member: %v, want the concentration 1", got)
	}
}

func TestRanks(t *testing.T) {
	if got := Ranks([]float64{3, 1, 3, 2}); !slices.Equal(got, []float64{0.75, 0.125, 0.75, 0.375}) {
		t.Errorf("ranks %v", got)
	}
}
