package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// stream has a judge see jobs, one after another, whose forecasts have P10 20, P50 30 and P90 40 minutes ahead. Starts
// are drawn around the median with a spread, in minutes. It returns the shares of starts in the raw and in the shown
// intervals of the last jobs.
func stream(j *Judge, from hpc.Time, rng *rand.Rand, jobs, last int, spread, shift float64) (end hpc.Time, raw, shown float64) {
	at := from
	for i := range jobs {
		f := Forecast{At: at, P10: at.Add(20 * time.Minute), P50: at.Add(30 * time.Minute), P90: at.Add(40 * time.Minute)}
		key := forecast.Key{Job: fmt.Sprint(at.UnixSeconds()), Task: -1}
		start := f.P50.Add(time.Duration((shift + spread*rng.NormFloat64()) * float64(time.Minute)))
		start = max(start, at.Add(time.Second))
		p10, p90 := j.Recalibrate("batch", &f)
		j.See(at, nil, []Pending{{Key: key, Partition: "batch", Forecast: f}})
		at = at.Add(4 * time.Hour)
		j.See(at, map[forecast.Key]hpc.Time{key: start}, nil)
		if i >= jobs-last {
			raw += one(f.P10 <= start && start <= f.P90) / float64(last)
			shown += one(p10 <= start && start <= p90) / float64(last)
		}
	}
	return at, raw, shown
}

// TestRecalibration: coverage returns to 80 % after the starts shift and spread, and again after
// they become certain. In between, the alarm begins and ends.
func TestRecalibration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	j := New(State{}, 30*24*time.Hour)
	right := 10 / 1.2816 // minutes: with this deviation, a tenth of a normal distribution is above ten minutes
	at, raw, shown := stream(j, began, rng, 300, 200, right, 0)
	if math.Abs(raw-0.8) > 0.08 || math.Abs(shown-0.8) > 0.08 {
		t.Errorf("right forecasts: %.3f raw, %.3f recalibrated", raw, shown)
	}
	at, _, _ = stream(j, at, rng, 25, 25, 3*right, 60)
	f := Forecast{At: at, P10: at.Add(20 * time.Minute), P50: at.Add(30 * time.Minute), P90: at.Add(40 * time.Minute)}
	if !j.Doubtful("batch", &f) || j.Doubtful("other", &f) {
		t.Errorf("no alarm after a shift, or one elsewhere: %+v", j.Scales())
	}
	at, raw, shown = stream(j, at, rng, 400, 200, 3*right, 15)
	if raw > 0.4 || math.Abs(shown-0.8) > 0.08 || j.Doubtful("batch", &f) {
		t.Errorf("after the shift: %.3f raw, %.3f recalibrated, %+v", raw, shown, j.Scales())
	}
	_, raw, shown = stream(j, at, rng, 400, 200, right/4, 0)
	if raw < 0.95 || math.Abs(shown-0.8) > 0.08 {
		t.Errorf("certain starts: %.3f raw, %.3f recalibrated", raw, shown)
	}
	text, err := json.Marshal(j.State())
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j.Scales(), New(state, 30*24*time.Hour).Scales()); diff != "" {
		t.Error(diff)
	}
}

// TestRecalibrate: few jobs change nothing, bounds stay around the median and after the forecast,
// and a bound that is not known stays unknown.
func TestRecalibrate(t *testing.T) {
	const m = time.Minute
	wide := Scale{Low: 3, High: 3, Jobs: Enough}
	narrow := Scale{Low: -4, High: -4, Jobs: Enough}
	few := Scale{Low: 3, High: 3, Jobs: Enough - 1}
	open := wait(10*m, 20*m, 0)
	open.P90 = forecast.Later
	for _, tt := range []struct {
		name     string
		scale    Scale
		f        Forecast
		p10, p90 hpc.Time
	}{
		{"few jobs", few, wait(10*m, 20*m, 30*m), after(10 * m), after(30 * m)},
		{"wide", wide, wait(10*m, 20*m, 30*m), began, after(20*m + time.Duration(math.Exp(3)*float64(11*m)) - m)},
		{"narrow", narrow, wait(10*m, 20*m, 30*m), after(20 * m), after(20 * m)},
		{"certain and wide", wide, wait(20*m, 20*m, 20*m), after(21*m - time.Duration(math.Exp(3)*float64(m))), after(19*m + time.Duration(math.Exp(3)*float64(m)))},
		{"open", wide, open, began, forecast.Later},
	} {
		j := New(State{Scales: []Scaled{{Class{"batch", 1}, tt.scale}}}, 24*time.Hour)
		p10, p90 := j.Recalibrate("batch", &tt.f)
		near := func(a, b hpc.Time) bool { return a == b || a < forecast.Later && a.Sub(b).Abs() <= time.Second }
		if !near(p10, tt.p10) || !near(p90, tt.p90) {
			t.Errorf("%s: %v to %v, want %v to %v", tt.name, p10, p90, tt.p10, tt.p90)
		}
	}
}
