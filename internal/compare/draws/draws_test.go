package draws

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// drawnRuns returns realizations with three drawn fields. A run of the first half and a run of the
// second half have at most one draw in common. A value is the weighted sum of a run's draws, and noise.
func drawnRuns(n int, weights [3]float64, noise float64) ([]*run.Manifest, []metrics.Float) {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	effects := [3]map[uint64]float64{{}, {}, {}}
	var runs []*run.Manifest
	var values []metrics.Float
	for i := range n {
		made := make([]workload.MadeField, 3)
		y := noise * rng.NormFloat64()
		for f := range made {
			draw := uint64(i)
			if i >= n/2 {
				draw = uint64((i - n/2 + f) % (n / 2))
			}
			if _, known := effects[f][draw]; !known {
				effects[f][draw] = rng.NormFloat64()
			}
			made[f] = workload.MadeField{Field: workload.Fields[f], Rule: "r", Draw: draw, Jobs: 1}
			y += weights[f] * effects[f][draw]
		}
		runs = append(runs, &run.Manifest{Made: made})
		values = append(values, metrics.Float(y))
	}
	return runs, values
}

// TestShares: a field's share is proportional to the square of its weight. A field without weight has
// no share.
func TestShares(t *testing.T) {
	runs, values := drawnRuns(2000, [3]float64{1, 3, 0}, 1)
	list := Shares(runs, values, 0.95)
	want := map[workload.Field]float64{workload.Fields[0]: 1.0 / 11, workload.Fields[1]: 9.0 / 11, workload.Fields[2]: 0}
	if list[0].Field != workload.Fields[1] {
		t.Errorf("first %+v", list[0])
	}
	for _, s := range list {
		if s.Pairs != 1000 || math.Abs(float64(s.Share)-want[s.Field]) > 0.06 || float64(s.Low) > want[s.Field]+0.02 || float64(s.High) < want[s.Field]-0.02 {
			t.Errorf("%+v, want a share of %.2f", s, want[s.Field])
		}
	}
	if runs, values = drawnRuns(6, [3]float64{1, 1, 1}, 0); Shares(runs, values, 0.95)[0].Low.Known() {
		t.Error("three pairs have an interval")
	}
}

// TestFigure: the interval contains as many draws as its coverage says, or all draws if these
// are few.
func TestFigure(t *testing.T) {
	for _, c := range []struct {
		n                   int
		low, high, coverage float64
	}{{1, 1, 1, 0}, {9, 1, 9, 0.8}, {39, 1, 39, 0.95}, {79, 2, 78, 0.95}, {199, 5, 195, 0.95}} {
		var values []metrics.Float
		for i := range c.n {
			values = append(values, metrics.Float((i*7)%c.n+1)) // all of 1 to n, because 7 does not divide n
		}
		f := NewFigure("k", "l", values, metrics.NoValue(), 0.95)
		if float64(f.Low) != c.low || float64(f.High) != c.high || math.Abs(float64(f.Coverage)-c.coverage) > 1e-9 {
			t.Errorf("%d draws: %v to %v with %v, want %+v", c.n, f.Low, f.High, f.Coverage, c)
		}
	}
	if f := NewFigure("k", "l", []metrics.Float{metrics.NoValue()}, 3000, 0.95); f.Low.Known() || f.Draws != 0 {
		t.Errorf("no value: %+v", f)
	}
}

// TestText: the text names the field that the mean wait depends on, and says what these draws
// cannot show.
func TestText(t *testing.T) {
	d := &Result{
		Figures: []Figure{{Label: "mean wait", Draws: 40, Low: 600, Median: 900, High: 1200, Coverage: 0.95, Recorded: 4000}},
		Fields: []FieldShare{
			{Field: "time_limit", Rule: "published", Pairs: 20, Share: 0.9, Low: 0.8, High: 0.95},
			{Field: "user", Rule: "bursts", Pairs: 20, Share: 0.1, Low: 0, High: 0.5},
		},
	}
	var b bytes.Buffer
	d.Render(&b)
	for _, want := range []string{"over 40 draws", "recorded 01:06:40, above", "depends most on the time limit (published): 90.0% of the mean wait's variance, 80.0% to 95.0%", "cannot be told from zero: user"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	d.Fields[0].Low = 0 // then these draws do not show which field it is
	b.Reset()
	d.Render(&b)
	for _, want := range []string{"cannot be told from zero: time limit, user", "cannot tell on which field the mean wait depends (want more than 40)"} {
		if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "depends most") {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if new(Result).Render(&b); b.Len() > 0 { // no job started
		t.Errorf("without figures: %s", b.String())
	}
	d.Fields[0].Pairs = 3
	if text := d.doubt(); !strings.Contains(text, "3 pairs") {
		t.Error(text)
	}
	d.Figures[0].Recorded = 1230
	if where := d.Figures[0].where(); where != near {
		t.Errorf("half a minute above: %s", where)
	}
}
