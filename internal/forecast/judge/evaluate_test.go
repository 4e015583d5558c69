package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// TestEvaluation: forecasts of two runs are counted by class. Every start is 15 s after P90.
// Recalibration learns this from earlier instants.
func TestEvaluation(t *testing.T) {
	const m = time.Minute
	var e Evaluation
	first := 0
	for run := range 2 {
		see := e.Run()
		for i := range 60 {
			at := after(time.Duration(i) * time.Hour)
			see(at, []forecast.Outcome{
				{Key: forecast.Key{Job: fmt.Sprint("late", i), Task: -1}, Partition: "batch", P10: at.Add(18 * m), P50: at.Add(20 * m), P90: at.Add(22 * m),
					Start: at.Add(22*m + 15*time.Second), Slurm: at.Add(3 * time.Hour)},
				{Key: forecast.Key{Job: fmt.Sprint("early", i), Task: -1}, Partition: "gpu", P10: at.Add(6 * m), P50: at.Add(8 * m), P90: hpc.Never, Start: at.Add(5 * m)},
			})
		}
		if run == 0 {
			first = e.rows[Class{"batch", everything}].Recalibrated
		}
		e.Add(&forecast.Evaluation{Run: "run"})
	}
	e.Finish()
	want := map[string]Row{
		"all, all":                    {Instants: 120, Tally: Tally{Forecasts: 240}, Early: 120, Late: 120, Cycle: 120, MedianError: 180, SlurmError: 157.75 * 60, BesideError: 135},
		"batch, all":                  {Instants: 120, Tally: Tally{Forecasts: 120}, Late: 120, Cycle: 120, MedianError: 135, SlurmError: 157.75 * 60, BesideError: 135},
		"batch, 15 minutes to 1 hour": {Instants: 120, Tally: Tally{Forecasts: 120}, Late: 120, Cycle: 120, MedianError: 135, SlurmError: 157.75 * 60, BesideError: 135},
		"gpu, below 15 minutes":       {Instants: 120, Tally: Tally{Forecasts: 120}, Early: 120, MedianError: 180},
	}
	for i := range e.Classes {
		got := e.Classes[i]
		w, asked := want[got.name()]
		if !asked {
			continue
		}
		delete(want, got.name())
		if got.Instants != w.Instants || got.Forecasts != w.Forecasts || got.Covered != 0 || got.Early != w.Early || got.Late != w.Late || got.Cycle != w.Cycle ||
			got.MedianError != w.MedianError || w.SlurmError > 0 && math.Abs(float64(got.SlurmError-w.SlurmError)) > 1e-6 || w.SlurmError > 0 && got.BesideError != w.BesideError {
			t.Errorf("%s: %+v\nwant %+v", got.name(), got, w)
		}
		// The second run begins with what was learned from the first run. The lower bound moves inwards.
		if got.Partition == "batch" && (got.Recalibrated <= 2*first || got.Width != 240 || got.RecalibratedWidth == 240) {
			t.Errorf("%s: %d of %d starts in recalibrated intervals (%d in the first run), widths %.0f and %.0f s", got.name(),
				got.Recalibrated, got.Forecasts, first, got.Width, got.RecalibratedWidth)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing classes: %v", want)
	}
	text := e.Render()
	for _, line := range []string{"run: 0 instants", "batch, 15 minutes to 1 hour", "0.0 %", "beside squeue --start", "135 s    9465 s"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// TestEvaluationUnknown: figures without a forecast are unknown, not 0. At the first instant, the median is after the
// horizon; at the second, P10 and the start are.
func TestEvaluationUnknown(t *testing.T) {
	const m = time.Minute
	var e Evaluation
	see := e.Run()
	for i, part := range []string{"batch", "gpu"} {
		at := after(time.Duration(i) * time.Hour)
		one := forecast.Outcome{Key: forecast.Key{Job: part, Task: -1}, Partition: part, P10: at.Add(5 * m), P50: forecast.Later,
			P90: forecast.Later, Start: at.Add(10 * m), Horizon: at.Add(20 * m)}
		if part == "gpu" {
			one.P10, one.Start = forecast.Later, at.Add(3*time.Hour)
		}
		see(at, []forecast.Outcome{one})
	}
	e.Add(&forecast.Evaluation{Run: "run"})
	e.Finish()
	text := e.Render()
	for _, line := range []string{
		`batch, all +1 +1 +100\.0 % +100\.0 % +100\.0 % +- +- +0\.0 % +0\.0 % +- +0\.0 % +0\.0 % +0\.0 %\n`,
		`gpu, all +0 +0 +- +- +- +- +- +- +- +- +- +- +-\n`,
	} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	data, err := json.Marshal(e.Classes)
	for _, field := range []string{"median_error_s", "slurm_median_error_s", "beside_median_error_s", "median_width_s",
		"recalibrated_median_width_s"} {
		if n := strings.Count(string(data), `"`+field+`":null`); err != nil || n != len(e.Classes) {
			t.Errorf("%s is null in %d of %d classes (%v)\n%s", field, n, len(e.Classes), err, data)
		}
	}
}

// TestEvaluationForward: what happens after an instant does not change its recalibrated intervals.
func TestEvaluationForward(t *testing.T) {
	recalibrated := func(last time.Duration) int {
		var e Evaluation
		see := e.Run()
		for i := range 40 {
			at, wait := after(time.Duration(i)*time.Hour), 30*time.Minute
			if i >= 30 {
				wait = last
			}
			see(at, []forecast.Outcome{{Key: forecast.Key{Job: fmt.Sprint(i), Task: -1}, Partition: "batch", P10: at.Add(18 * time.Minute),
				P50: at.Add(20 * time.Minute), P90: at.Add(22 * time.Minute), Start: at.Add(wait)}})
			if i == 30 {
				e.Finish()
				return e.Classes[0].Recalibrated
			}
		}
		return 0
	}
	inside, outside := recalibrated(20*time.Minute), recalibrated(200*time.Minute)
	if inside != outside+1 {
		t.Errorf("%d starts in recalibrated intervals, and %d if the last one is outside (want one less)", inside, outside)
	}
}

// TestEvaluationWaits: at the second instant five jobs wait beyond P90, so the intervals of that instant are wider.
func TestEvaluationWaits(t *testing.T) {
	const m = time.Minute
	var e Evaluation
	see := e.Run()
	for _, at := range []hpc.Time{began, after(time.Hour)} {
		var list []forecast.Outcome
		for i := range 5 {
			list = append(list, forecast.Outcome{Key: forecast.Key{Job: fmt.Sprint(i), Task: -1}, Partition: "batch", P10: at.Add(18 * m),
				P50: at.Add(20 * m), P90: at.Add(42 * m), Start: after(3 * time.Hour)})
		}
		see(at, list)
	}
	widths := e.rows[Class{"batch", everything}].recalibrated
	if len(widths) != 10 || widths[0] != 24*60 || widths[9] < 30*60 {
		t.Errorf("widths %v", widths)
	}
}
