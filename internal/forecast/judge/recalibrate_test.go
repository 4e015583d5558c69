package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// TestRecalibrate: bounds stay around the median and after the forecast. A bound that is not known stays unknown, and a
// bound beyond the horizon becomes unknown.
func TestRecalibrate(t *testing.T) {
	const m = time.Minute
	wide := Scale{Low: 3, High: 3, Jobs: Enough}
	narrow := Scale{Low: -4, High: -4, Jobs: Enough}
	open := wait(10*m, 20*m, 0)
	open.P90 = forecast.Later
	ahead := wait(10*m, 20*m, 30*m)
	ahead.Horizon = after(60 * m)
	for _, tt := range []struct {
		name     string
		scale    Scale
		f        Forecast
		p10, p90 hpc.Time
	}{
		{"wide", wide, wait(10*m, 20*m, 30*m), began, after(20*m + time.Duration(math.Exp(3)*float64(11*m)) - m)},
		{"narrow", narrow, wait(10*m, 20*m, 30*m), after(20 * m), after(20 * m)},
		{"certain and wide", wide, wait(20*m, 20*m, 20*m), after(21*m - time.Duration(math.Exp(3)*float64(m))), after(19*m + time.Duration(math.Exp(3)*float64(m)))},
		{"open", wide, open, began, forecast.Later},
		{"beyond the horizon", wide, ahead, began, forecast.Later},
	} {
		j := New(State{Scales: []Scaled{{Class{"batch", 1}, tt.scale}}}, 24*time.Hour)
		p10, p90 := j.Recalibrate("batch", &tt.f)
		near := func(a, b hpc.Time) bool { return a == b || a < forecast.Later && a.Sub(b).Abs() <= time.Second }
		if !near(p10, tt.p10) || !near(p90, tt.p90) {
			t.Errorf("%s: %v to %v, want %v to %v", tt.name, p10, p90, tt.p10, tt.p90)
		}
	}
}

// TestBegin: a class without starts has factors of 1. Jobs of other partitions with the same lead time count beside them.
func TestBegin(t *testing.T) {
	f := wait(10*time.Minute, 20*time.Minute, 30*time.Minute)
	class, _ := ClassOf("new", &f)
	if s := New(State{}, 24*time.Hour).scale(class); s.Low != 0 || s.High != 0 {
		t.Errorf("without starts: %+v", s)
	}
	j := New(State{Scales: []Scaled{
		{Class{"a", class.Lead}, Scale{Low: 1, High: 2, Jobs: Enough}},
		{Class{"b", class.Lead}, Scale{Low: 3, High: -2, Jobs: 2 * Enough}},
		{Class{"b", class.Lead + 1}, Scale{Low: -4, High: -4, Jobs: 1000}},
	}}, 24*time.Hour)
	low, high := (1+2*3)/4.0, (2-2*2)/4.0
	if s := j.scale(class); math.Abs(s.Low-low) > 1e-9 || math.Abs(s.High-high) > 1e-9 || s.Jobs != 0 {
		t.Errorf("beside other partitions: %+v, want %v and %v", s, low, high)
	}
}

// TestSeeOrder: the scales do not depend on the order of a map of starts.
func TestSeeOrder(t *testing.T) {
	var first []Scaled
	for range 10 {
		j := New(State{}, 24*time.Hour)
		var pending []Pending
		starts := map[forecast.Key]hpc.Time{}
		for i := range 40 {
			key := forecast.Key{Job: fmt.Sprint(i), Task: -1}
			pending = append(pending, Pending{key, "batch", wait(10*time.Minute, 20*time.Minute, 30*time.Minute)})
			starts[key] = after(time.Duration(1+i*i%45) * time.Minute)
		}
		j.See(began, nil, pending)
		j.See(after(2*time.Hour), starts, nil)
		if first == nil {
			first = j.Scales()
		}
		if diff := cmp.Diff(first, j.Scales()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestStillWaits: a job counts once, as late, when its P90 has passed, and not again when it starts.
func TestStillWaits(t *testing.T) {
	j := New(State{}, 24*time.Hour)
	key := forecast.Key{Job: "1", Task: -1}
	list := []Pending{{key, "batch", wait(10*time.Minute, 20*time.Minute, 30*time.Minute)}}
	j.See(began, nil, list)
	for _, tt := range []struct {
		at   time.Duration
		jobs int
	}{{29 * time.Minute, 0}, {31 * time.Minute, 1}, {40 * time.Minute, 1}} {
		j.See(after(tt.at), nil, list)
		jobs := 0
		for _, s := range j.Scales() {
			if jobs += s.Jobs; s.Low >= 0 || s.High <= 0 || s.Raw >= 0.8 || s.Covered >= 0.8 {
				t.Errorf("after %s: %+v", tt.at, s)
			}
		}
		if jobs != tt.jobs {
			t.Errorf("after %s: %d jobs, want %d", tt.at, jobs, tt.jobs)
		}
	}
	j.See(after(time.Hour), map[forecast.Key]hpc.Time{key: after(50 * time.Minute)}, nil)
	if list := j.Scales(); len(list) != 1 || list[0].Jobs != 1 {
		t.Errorf("after the start: %+v", list)
	}
}

// TestSurvivors: a queue grows, so that half of the jobs of each hour start early and half wait for days. P90 does not
// move inwards while the late jobs wait.
func TestSurvivors(t *testing.T) {
	j := New(State{}, 24*time.Hour)
	var pending []Pending
	for i := range 10 {
		at, starts := after(time.Duration(i)*time.Hour), map[forecast.Key]hpc.Time{}
		for k := range pending {
			if p := &pending[k]; p.Key.Task == 0 && p.At == at.Add(-time.Hour) {
				starts[p.Key] = p.P50
			}
		}
		pending = slices.DeleteFunc(pending, func(p Pending) bool { return starts[p.Key] != 0 })
		f := Forecast{At: at, P10: at.Add(10 * time.Minute), P50: at.Add(20 * time.Minute), P90: at.Add(30 * time.Minute)}
		for task := range 2 {
			pending = append(pending, Pending{forecast.Key{Job: fmt.Sprint(i), Task: task}, "batch", f})
		}
		j.See(at, starts, pending)
	}
	if s := j.scales[Class{"batch", 1}]; s.High < 0.5 || s.Jobs < 15 {
		t.Errorf("%+v", s)
	}
}
