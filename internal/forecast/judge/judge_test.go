package judge

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

const began = hpc.Time(1_700_000_000 * int64(time.Second))

func after(d time.Duration) hpc.Time { return began.Add(d) }

var job = forecast.Key{Job: "7", Task: -1}

// wait returns a forecast of the job that is made at the beginning, with quantiles at these times
// after the beginning.
func wait(p10, p50, p90 time.Duration) Forecast {
	return Forecast{At: began, P10: after(p10), P50: after(p50), P90: after(p90)}
}

func see(j *Judge, f Forecast) {
	j.See(f.At, nil, []Pending{{Key: job, Partition: "batch", Forecast: f}})
}

func TestTally(t *testing.T) {
	const m = time.Minute
	never := Forecast{At: began, P10: hpc.Never, P50: hpc.Never, P90: hpc.Never}
	later := Forecast{At: began, P10: after(50 * m), P50: forecast.Later, P90: forecast.Later, Horizon: after(60 * m)}
	beyond := Forecast{At: began, P10: forecast.Later, P50: forecast.Later, P90: forecast.Later, Horizon: after(60 * m)}
	beside := wait(10*m, 20*m, 30*m)
	beside.Slurm = after(21 * m)
	for _, tt := range []struct {
		name  string
		f     Forecast
		start time.Duration
		lead  int
		want  Tally
	}{
		{"in the middle", wait(10*m, 20*m, 30*m), 20 * m, 1, Tally{Forecasts: 1, Covered: 1, Near: [3]int{1, 1, 1}}},
		{"at P10", wait(10*m, 20*m, 30*m), 10 * m, 0, Tally{Forecasts: 1, Covered: 1, Near: [3]int{0, 0, 1}}},
		{"at P90", wait(10*m, 20*m, 30*m), 30 * m, 1, Tally{Forecasts: 1, Covered: 1, Near: [3]int{0, 0, 1}}},
		{"start before P10", wait(10*m, 14*m, 30*m), 10*m - time.Second, 0, Tally{Forecasts: 1, Near: [3]int{0, 1, 1}}},
		{"start after P90", wait(10*m, 20*m, 30*m), 30*m + time.Second, 1, Tally{Forecasts: 1, Near: [3]int{0, 0, 1}}},
		{"far off", wait(10*m, 20*m, 30*m), 5 * time.Hour, 3, Tally{Forecasts: 1}},
		{"a minute off", wait(10*m, 20*m, 30*m), 21 * m, 1, Tally{Forecasts: 1, Covered: 1, Near: [3]int{1, 1, 1}}},
		{"forecast to never start, and started", never, 4 * time.Hour, 3, Tally{Forecasts: 1}},
		{"after the horizon, as P90", later, 2 * time.Hour, 2, Tally{Forecasts: 1, Covered: 1}},
		{"before the horizon, before P10", later, 40 * m, 1, Tally{Forecasts: 1}},
		{"quantiles and start after the horizon", beyond, 26 * time.Hour, 4, Tally{Beyond: 1}},
		{"quantiles after the horizon, and start before it", beyond, 59 * m, 1, Tally{Forecasts: 1}},
		{"compared with Slurm's estimate", beside, 24 * m, 1, Tally{Forecasts: 1, Covered: 1, Near: [3]int{0, 1, 1}, Slurm: 1, SlurmNear: [3]int{0, 1, 1}, BesideNear: [3]int{0, 1, 1}}},
	} {
		j := New(State{}, 7*day)
		see(j, tt.f)
		j.See(after(30*time.Hour), map[forecast.Key]hpc.Time{job: after(tt.start)}, nil)
		groups, all := j.Groups()
		want := []Group{{Class{"batch", tt.lead}, tt.want}}
		if diff := cmp.Diff(want, groups); diff != "" || all != tt.want || j.Waits(job) {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestSeen checks which captures show that a job started, and which show that it left without a
// start.
func TestSeen(t *testing.T) {
	none, at := map[forecast.Key]hpc.Time{}, func(d time.Duration) map[forecast.Key]hpc.Time {
		return map[forecast.Key]hpc.Time{job: after(d)}
	}
	type capture struct {
		starts  map[forecast.Key]hpc.Time
		pending bool
	}
	for _, tt := range []struct {
		name        string
		list        []capture // captures five minutes apart
		judged      int       // number of judged forecasts
		gone        int
		still, next bool
	}{
		{"starts", []capture{{none, true}, {none, true}, {at(7 * time.Minute), false}}, 2, 0, false, false},
		{"cancelled", []capture{{none, true}, {none, false}, {none, false}}, 0, 1, false, false},
		{"start known one capture later", []capture{{none, true}, {none, false}, {at(time.Minute), false}}, 1, 0, false, false},
		{"missing from one capture", []capture{{none, true}, {none, false}, {none, true}, {none, false}}, 0, 0, true, false},
		{"started before the first capture", []capture{{at(-time.Hour), true}, {at(-time.Hour), true}}, 0, 0, true, false},
		{"requeued", []capture{{none, true}, {at(2 * time.Minute), true}, {at(2 * time.Minute), true}}, 1, 0, true, false},
		{"a start before the later forecast", []capture{{none, true}, {none, true}, {at(4 * time.Minute), false}}, 1, 0, false, false},
	} {
		j := New(State{}, 7*day)
		for i, c := range tt.list {
			now := after(time.Duration(i) * 5 * time.Minute)
			var pending []Pending
			if c.pending {
				pending = []Pending{{job, "batch", Forecast{At: now, P10: now, P50: now, P90: now.Add(time.Hour)}}}
			}
			j.See(now, c.starts, pending)
		}
		if _, all := j.Groups(); all.Forecasts != tt.judged || j.Gone() != tt.gone || j.Waits(job) != tt.still {
			t.Errorf("%s: %+v, gone %d, waits %t", tt.name, all, j.Gone(), j.Waits(job))
		}
	}
}

// TestFastCaptures: of captures that come each second, forecasts a minute apart are kept, and the
// first and the last forecast.
func TestFastCaptures(t *testing.T) {
	j := New(State{}, 2*day)
	last := after(2 * time.Hour)
	for at := began; at <= last; at = at.Add(time.Second) {
		j.See(at, nil, []Pending{{job, "batch", Forecast{At: at, P10: at, P50: at, P90: after(day)}}})
	}
	list := j.Forecasts(job)
	if len(list) < 60 || len(list) > 64 || list[0].At != began || list[len(list)-1].At != last {
		t.Errorf("%d forecasts from %s to %s (want 60 to 64, from %s to %s)", len(list), list[0].At, list[len(list)-1].At, began,
			last)
	}
}

// TestBounds: a job that waits for ten days keeps some forecasts of each age, however often the
// state is saved meanwhile. Starts before the days that count are forgotten.
func TestBounds(t *testing.T) {
	j := New(State{}, 2*day)
	n := 0
	for at := began; at <= after(10*day); at = at.Add(5 * time.Minute) {
		j.See(at, nil, []Pending{{job, "batch", Forecast{At: at, P10: at, P50: at, P90: after(11 * day)}}})
		if n++; n%100 == 0 {
			text, err := json.Marshal(j.State())
			var s State
			if err == nil {
				err = json.Unmarshal(text, &s)
			}
			if err != nil {
				t.Fatal(err)
			}
			j = New(s, 2*day)
		}
	}
	ages := map[string]int{}
	list := j.Forecasts(job)
	for i, f := range list {
		ages[fmt.Sprint(spacing(after(10*day).Sub(f.At)))]++
		if i > 0 && f.At <= list[i-1].At {
			t.Errorf("%s is after %s", f.At, list[i-1].At)
		}
	}
	if ages["1m0s"] != 13 || ages["1h0m0s"] < 20 || ages["1h0m0s"] > 24 || ages["24h0m0s"] < 8 || ages["24h0m0s"] > 10 || list[0].At != began {
		t.Errorf("forecasts by spacing: %v, the first at %s", ages, list[0].At)
	}
	j.See(after(10*day), map[forecast.Key]hpc.Time{job: after(10*day - time.Minute)}, nil)
	if _, all := j.Groups(); all.Forecasts < 40 {
		t.Errorf("%+v", all)
	}
	j.See(after(13*day), nil, nil)
	if groups, _ := j.Groups(); len(groups) != 0 {
		t.Errorf("%v", groups)
	}
}
