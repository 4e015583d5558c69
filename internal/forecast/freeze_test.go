package forecast

import (
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	dir := os.Getenv("TRYRUN")
	c, err := ReadCourse(dir)
	if err != nil {
		t.Fatal(err)
	}
	var o EvaluateOptions
	o.Engine, err = EngineOf(&c.Manifest, o.Engine)
	if err != nil {
		t.Fatal(err)
	}
	o.Instants, o.Realizations, o.Seed = 20, 20, 1
	for _, how := range []struct {
		r RunTimes
		a Arrivals
	}{{True, Recorded}} {
		o.RunTimes, o.Arrivals = how.r, how.a
		o.NewLearner = nil
		if how.r == FromHistory {
			o.NewLearner = func() (Learner, error) { return NewShares(), nil }
		}
		e, err := Evaluate(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s: %+v", how.r, how.a, e.Score.brief())
		if how.r==True && how.a==Recorded { for _, i := range e.Instants { t.Logf("    %v %v", i.At, i.Score.brief()) } }
		if e.Limits != nil {
			t.Logf("   limits %.0f vs %.0f median; closer %.2f farther %.2f", e.Limits.MedianError, e.Limits.ForecastError, e.Limits.Closer, e.Limits.Farther)
		}
	}
}

func (s Score) brief() []float64 {
	return []float64{float64(s.Pending), float64(s.Unstarted), float64(s.Jobs), float64(s.Never), s.Exact, s.Covered, s.MedianError, s.MeanError, s.MaxError, s.Bias, s.Width}
}
