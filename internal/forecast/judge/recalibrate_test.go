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
	"rmreplay/internal/stats"
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
}

// TestRecalibrate: bounds stay around the median and after the forecast. A bound that is not known stays unknown, and a
// bound beyond the horizon becomes unknown.
func TestRecalibrate(t *testing.T) {
	const m = time.Minute
	wide, narrow := factors{20, 20}, factors{}
	open := wait(10*m, 20*m, 0)
	open.P90 = forecast.Later
	ahead := wait(10*m, 20*m, 30*m)
	ahead.Horizon = after(60 * m)
	for _, tt := range []struct {
		name     string
		by       factors
		f        Forecast
		p10, p90 hpc.Time
	}{
		{"wide", wide, wait(10*m, 20*m, 30*m), began, after(20*m + 20*11*m - m)},
		{"narrow", narrow, wait(10*m, 20*m, 30*m), after(20 * m), after(20 * m)},
		{"unchanged", factors{1, 1}, wait(10*m, 20*m, 30*m), after(10 * m), after(30 * m)},
		{"certain and wide", wide, wait(20*m, 20*m, 20*m), after(1 * m), after(39 * m)},
		{"open", wide, open, began, forecast.Later},
		{"beyond the horizon", wide, ahead, began, forecast.Later},
	} {
		p10, p90 := tt.by.apply(&tt.f)
		near := func(a, b hpc.Time) bool { return a == b || a < forecast.Later && a.Sub(b).Abs() <= time.Second }
		if !near(p10, tt.p10) || !near(p90, tt.p90) {
			t.Errorf("%s: %v to %v, want %v to %v", tt.name, p10, p90, tt.p10, tt.p90)
		}
	}
}

// class returns the state of a class whose starts all have one residual.
func class(partition string, lead, n int, distance float64) Scaled {
	s := Scaled{Class{partition, lead}, Scale{Jobs: n}}
	for i := range n {
		s.Residuals = append(s.Residuals, Residual{At: after(time.Duration(i) * time.Hour), Distance: distance})
	}
	return s
}

// TestBegin: a class without starts has factors of 1. Jobs of other partitions with the same lead time count beside
// them, and jobs with another lead time do not count. The same is true of a state from an older version, and of a
// state with values that no version writes.
func TestBegin(t *testing.T) {
	old := Scaled{}
	if err := json.Unmarshal([]byte(`{"partition":"new","lead":1,"low":4,"high":-4,"raw":0.5,"covered":0.7,"jobs":50}`), &old); err != nil {
		t.Fatal(err)
	}
	for _, state := range []State{
		{}, {Scales: []Scaled{old}}, {Scales: []Scaled{class("b", 0, 1000, 9)}},
		{Scales: []Scaled{{Class{"new", -1}, Scale{}}, {Class{"new", 99}, Scale{}}}, Waiting: []Entry{{Job: "1"}}},
	} {
		j := New(state, 24*time.Hour)
		if by := j.factors(Class{"new", 1}); by != (factors{1, 1}) {
			t.Errorf("%+v: %+v, want factors of 1", state, by)
		}
		j.See(after(time.Hour), nil, nil)
	}
	if j := New(State{Scales: []Scaled{old}}, 24*time.Hour); j.scales[old.Class].Covered != 0.7 {
		t.Errorf("the shares of an older version are lost: %+v", j.Scales())
	}
	j := New(State{Scales: []Scaled{class("a", 1, 50, 3), class("b", 1, 50, -0.5), class("c", 1, 2, 0)}}, 24*time.Hour)
	a, b, c, other := j.factors(Class{"a", 1}), j.factors(Class{"b", 1}), j.factors(Class{"c", 1}), j.factors(Class{"new", 1})
	if a.high < 3 || a.low > 1 || b.high > 3 || b.low > 0.7 || c.high <= 1 || other.high != 3 || other.low >= 1 {
		t.Errorf("a %+v, b %+v, c %+v, new %+v", a, b, c, other)
	}
}

// TestHostile: residuals and forecasts beyond all measure give bounds within the limits of factors.
func TestHostile(t *testing.T) {
	j := New(State{Scales: []Scaled{class("a", 1, 500, 1e308), class("b", 1, 500, -1e308)}}, 24*time.Hour)
	if a, b := j.factors(Class{"a", 1}), j.factors(Class{"b", 1}); a.high != widest || a.low != 0 || b.low != widest || b.high != 0 {
		t.Errorf("%+v and %+v", a, b)
	}
	f := Forecast{At: began, P10: after(40 * time.Minute), P50: after(20 * time.Minute), P90: began} // not in order
	for _, at := range []hpc.Time{0, after(time.Minute), after(time.Hour), forecast.Later, hpc.Never} {
		if r := f.residual(at, true); math.IsNaN(r.Distance) || math.IsInf(r.Distance, 0) {
			t.Errorf("start at %v: %+v", at, r)
		}
	}
}

// burst has a judge see jobs of one instant with equal forecasts, which all start at one distance from P90.
func burst(j *Judge, at hpc.Time, jobs int, late time.Duration) (end hpc.Time) {
	var pending []Pending
	starts := map[forecast.Key]hpc.Time{}
	for i := range jobs {
		key := forecast.Key{Job: fmt.Sprint(at.UnixSeconds(), " ", i), Task: -1}
		f := Forecast{At: at, P10: at.Add(20 * time.Minute), P50: at.Add(30 * time.Minute), P90: at.Add(40 * time.Minute)}
		pending, starts[key] = append(pending, Pending{key, "batch", f}), f.P90.Add(late)
	}
	j.See(at, nil, pending)
	end = at.Add(8 * time.Hour)
	j.See(end, starts, nil)
	return end
}

// TestBurst: a burst of 300 jobs that are late together is one event, so other intervals stay useful. After many
// bursts, nine of ten of which are in their intervals, coverage is 80 % of the instants.
func TestBurst(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	j := New(State{}, 30*24*time.Hour)
	at, _, _ := stream(j, began, rng, 100, 100, 10/1.2816, 0)
	at = burst(j, at, 300, 5*time.Hour)
	if by := j.factors(Class{"batch", 1}); by.high > 2 || by.low > 2 {
		t.Errorf("after a burst: %+v", by)
	}
	covered, n := 0.0, 200
	for i := range 2 * n {
		by := j.factors(Class{"batch", 1})
		// Starts are around the median, with twice the forecast's spread.
		off := time.Duration(2 * 10 / 1.2816 * rng.NormFloat64() * float64(time.Minute))
		off = max(off, -29*time.Minute)
		f := Forecast{At: at, P10: at.Add(20 * time.Minute), P50: at.Add(30 * time.Minute), P90: at.Add(40 * time.Minute)}
		p10, p90 := by.apply(&f)
		if start := f.P50.Add(off); i >= n && p10 <= start && start <= p90 {
			covered += 1 / float64(n)
		}
		at = burst(j, at, 1+rng.IntN(60), off-10*time.Minute)
	}
	if math.Abs(covered-0.8) > 0.08 {
		t.Errorf("bursts: %.3f in recalibrated intervals", covered)
	}
}

// TestNarrow: intervals that are too wide become narrower with the first jobs, one instant after another.
func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	j := New(State{}, 30*24*time.Hour)
	stream(j, began, rng, 40, 40, 1, 0)
	if by := j.factors(Class{"batch", 1}); by.low > 0.5 || by.high > 0.5 {
		t.Errorf("after 40 starts close to the median: %+v", by)
	}
}

// TestRestart: a judge that continues from its saved state has the same factors.
func TestRestart(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	j := New(State{}, 30*24*time.Hour)
	at, _, _ := stream(j, began, rng, 50, 50, 30, 20)
	late := []Pending{{forecast.Key{Job: "late", Task: -1}, "batch", wait(10*time.Minute, 20*time.Minute, 30*time.Minute)}}
	late[0].At = at.Add(-time.Hour)
	j.See(late[0].At, nil, late)
	late[0].At = at
	j.See(at, nil, late)
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
			if jobs += s.Jobs; s.High < 1 || s.Raw >= 0.8 || s.Covered >= 0.8 {
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
	if s := j.Scales()[0]; s.High < 1.5 || s.Jobs < 15 {
		t.Errorf("%+v", s)
	}
}

// TestFewResiduals draws thirty jobs with the distribution of the prior again and again, and counts how many of the next
// jobs are between the bounds that the thirty make. With the next job's weight at least 80 % are, without it fewer.
func TestFewResiduals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	draw := func() float64 { return rng.ExpFloat64() / math.Log(5) * float64(2*rng.IntN(2)-1) }
	coverage := func(weigh bool) float64 {
		inside, all := 0, 0
		for range 400 {
			var list []stats.Observation
			for range 30 {
				list = append(list, stats.Observation{Time: draw(), Weight: 1})
			}
			mass := 0.0
			if weigh {
				mass = meanWeight(list)
			}
			by := quantiles(list, factors{1, 1}, mass)
			for range 100 {
				if r := draw(); -by.low <= r && r <= by.high {
					inside++
				}
				all++
			}
		}
		return float64(inside) / float64(all)
	}
	if with, without := coverage(true), coverage(false); with < 0.8 || with > 0.85 || without >= 0.8 {
		t.Errorf("%.3f of the next jobs are covered, and %.3f without their weight", with, without)
	}
}
