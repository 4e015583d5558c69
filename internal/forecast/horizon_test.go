package forecast_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// TestHorizon checks that a horizon changes only the starts after the horizon, to [forecast.Later], and the
// quantiles that need such a start.
func TestHorizon(t *testing.T) {
	c := simulate(t, draw(200, 5), "easy")
	now := at(9000)
	q, err := c.Freeze(now)
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t, c).Options
	opts.RunTimes = forecast.FromHistory
	forecastTo := func(horizon time.Duration) forecast.Starts {
		opts.Horizon, opts.Learner = horizon, forecast.NewShares()
		starts, doubts, err := forecast.Make(t.Context(), q, opts)
		if err != nil || len(doubts) > 0 {
			t.Fatalf("%v, %q", err, doubts)
		}
		return starts
	}
	whole := forecastTo(0)
	for _, horizon := range []time.Duration{10 * time.Minute, time.Hour} {
		cut := forecastTo(horizon)
		before, later := 0, 0
		for key, list := range whole {
			want := slices.Clone(list)
			for i := range want {
				if want[i] > now.Add(horizon) && want[i] != hpc.Never {
					want[i] = forecast.Later
				}
			}
			if !slices.Equal(cut[key], want) {
				t.Errorf("horizon %s, %v: starts at %v, want %v", horizon, key, cut[key], want)
			}
			for _, p := range []float64{0.1, 0.5, 0.9} {
				switch got, want := forecast.Quantile(cut[key], p), forecast.Quantile(list, p); got {
				case forecast.Later:
					later++
				case want:
					before++
				default:
					t.Errorf("horizon %s, %v: P%.0f is %s, want %s", horizon, key, 100*p, got, want)
				}
			}
		}
		if before == 0 || later == 0 {
			t.Errorf("horizon %s: %d quantiles before it, %d after it", horizon, before, later)
		}
	}
	r, err := forecast.NewReport(t.Context(), "run", q, nil, now.Add(time.Hour), opts)
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Render(time.UTC); !strings.Contains(text, now.Add(time.Hour).Std().Format(" >01-02T15:04 ")) {
		t.Error(text)
	}
	for i := range r.Jobs {
		if job := &r.Jobs[i]; slices.Contains(job.Beyond, "p90") != (job.P90 == nil && job.Never == 0) {
			t.Errorf("%+v", job)
		}
	}
	if _, err := forecast.NewReport(t.Context(), "run", q, nil, now.Add(2*time.Hour), opts); err == nil || !strings.Contains(err.Error(), "after the horizon") {
		t.Error(err)
	}
}

// TestHorizonOfEvaluation checks that starts after the horizon have no errors. If they were forecast
// after the horizon as well, they do not count for the intervals. With its true run times the run is
// exact.
func TestHorizonOfEvaluation(t *testing.T) {
	c := simulate(t, draw(220, 1), "easy")
	opts := options(t, c)
	opts.Horizon = 10 * time.Minute
	for _, fromStart := range []bool{false, true} {
		opts.RunTimes, opts.Arrivals, opts.FromStart, opts.NewLearner = forecast.True, forecast.Recorded, fromStart, nil
		e, err := forecast.Evaluate(t.Context(), c, opts)
		if err != nil {
			t.Fatal(err)
		}
		if e.Beyond < 5 || e.Jobs-e.Beyond < 5 || e.Exact != 1 || e.Covered != 1 || e.CoveredAll != 1 || e.Never > 0 {
			t.Errorf("from the start: %t\n%+v\n%s", fromStart, e.Score, e.Render())
		}
	}
	opts.RunTimes, opts.Arrivals, opts.FromStart = forecast.FromHistory, forecast.NoArrivals, false
	opts.NewLearner = func() (forecast.Learner, error) { return forecast.NewShares(), nil }
	e, err := forecast.Evaluate(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	covered := float64(e.Covered)*float64(e.Jobs-e.Beyond) + float64(e.Beyond)
	if e.Beyond == 0 || e.MaxError > 600 || e.Covered >= e.CoveredAll || covered-float64(e.CoveredAll)*float64(e.Jobs) > 1e-6 {
		t.Errorf("%+v", e.Score)
	}
	if text := e.Render(); !strings.Contains(text, "horizon 00:10:00: ") {
		t.Error(text)
	}
	opts.At, opts.Horizon = []hpc.Time{hpc.Unix(e.Instants[0].At.Unix())}, time.Nanosecond
	if e, err = forecast.Evaluate(t.Context(), c, opts); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(e.Instants)
	for _, field := range []string{"exact", "coverage", "median_error_s", "mean_error_s", "max_error_s", "bias_s", "median_width_s"} {
		if !strings.Contains(string(data), `"`+field+`":null`) {
			t.Errorf("no job starts before the horizon, but %s is not null (%v): %s", field, err, data)
		}
	}
	if text := e.Render(); !regexp.MustCompile(`all +\d+ +\d+ +- +- +- +- +- +-\n`).MatchString(text) {
		t.Errorf("no unknown figures in\n%s", text)
	}
}

// TestLastSubmission: a run ends, because its workload does. Forecasts that draw later submissions are compared with
// what happened up to the last submission. Other forecasts are compared with the whole run.
func TestLastSubmission(t *testing.T) {
	w := draw(220, 1)
	last := hpc.Time(0)
	for _, job := range w.Jobs.All() {
		last = max(last, job.Submit)
	}
	c := simulate(t, w, "easy")
	opts := options(t, c)
	opts.RunTimes, opts.Arrivals, opts.Instants = forecast.FromHistory, forecast.Recent, 10
	opts.NewLearner = func() (forecast.Learner, error) { return forecast.NewShares(), nil }
	after := 0
	opts.See = func(now hpc.Time, list []forecast.Outcome) {
		for _, one := range list {
			if now >= last || one.Horizon != last || one.P90 > last && one.P90 < forecast.Later {
				t.Errorf("at %s: %+v, and the last submission is at %s", now, one, last)
			}
			if one.Start > last {
				after++
			}
		}
	}
	e, err := forecast.Evaluate(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Instants) != 10 || after == 0 || e.Beyond == 0 || e.Until == nil || !e.Until.Equal(last.Std()) ||
		!strings.Contains(e.Render(), "horizon last submission "+last.Std().Format(time.RFC3339)) {
		t.Errorf("%d instants, %d starts after %s\n%s", len(e.Instants), after, last, e.Render())
	}
	opts.At = []hpc.Time{at(9000), last}
	if e, err = forecast.Evaluate(t.Context(), c, opts); err != nil || len(e.Instants) != 1 ||
		!strings.Contains(strings.Join(e.Notes, "\n"), "left out 1 instant at or after the run's last submission") {
		t.Errorf("%v, %+v", err, e)
	}
	opts.At = []hpc.Time{last.Add(time.Second)}
	if _, err = forecast.Evaluate(t.Context(), c, opts); err == nil || !strings.Contains(err.Error(), "no job waits before") {
		t.Error(err)
	}
	opts.See, opts.Arrivals = nil, forecast.NoArrivals
	if e, err = forecast.Evaluate(t.Context(), c, opts); err != nil || len(e.Instants) != 1 || e.Beyond > 0 || e.Until != nil {
		t.Errorf("without later submissions: %v, %+v", err, e)
	}
}

// An interrupted evaluation has the instants before the interruption, and an interruption in the first instant is an error.
func TestInterruptedEvaluation(t *testing.T) {
	c := simulate(t, draw(220, 1), "easy")
	opts := options(t, c)
	opts.RunTimes, opts.Instants = forecast.FromLimits, 5
	for _, whole := range []int{0, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		opts.Instant = func(i, _ int, _ hpc.Time) {
			if i == whole {
				cancel()
			}
		}
		e, err := forecast.Evaluate(ctx, c, opts)
		cancel()
		if !errors.Is(err, context.Canceled) || (e == nil) != (whole == 0) || e != nil && (len(e.Instants) != whole || e.Jobs == 0) {
			t.Errorf("interrupted in instant %d: %v, %+v", whole, err, e)
		}
	}
}

// TestTrueRunTimesWithDrawnSubmissions: with true run times and drawn submissions, realizations
// differ. So intervals show the uncertainty from the submissions alone.
func TestTrueRunTimesWithDrawnSubmissions(t *testing.T) {
	c := simulate(t, draw(220, 1), "fcfs")
	opts := options(t, c)
	opts.RunTimes, opts.Arrivals, opts.NewLearner, opts.Realizations = forecast.True, forecast.Recent, nil, 5
	q, err := c.Freeze(at(9000))
	if err != nil {
		t.Fatal(err)
	}
	starts, _, err := forecast.Make(t.Context(), q, opts.Options)
	if err != nil {
		t.Fatal(err)
	}
	for key, list := range starts {
		if len(list) != opts.Realizations {
			t.Fatalf("%v has %d starts, want one for each of %d realizations", key, len(list), opts.Realizations)
		}
	}
}
