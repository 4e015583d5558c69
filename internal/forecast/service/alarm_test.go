package service

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/forecast/judge"
	"rmreplay/internal/hpc"
)

// TestAlarm: forecasts of a class that was wrong too often are marked everywhere, and forecasts of
// a class with wider intervals also show the intervals of the realizations.
func TestAlarm(t *testing.T) {
	c := newCluster(t)
	s := c.open(filepath.Join(t.TempDir(), "data"))
	scales := func(covered, by float64) judge.State {
		var state judge.State
		for lead := range judge.Leads {
			scale := judge.Scale{Raw: 0.3, Covered: covered, Jobs: 50}
			for i := range 50 {
				at := hpc.Time(began.Add(time.Duration(i-100) * time.Minute).UnixNano())
				scale.Residuals = append(scale.Residuals, judge.Residual{At: at, Distance: by}, judge.Residual{At: at, Distance: -by})
			}
			state.Scales = append(state.Scales, judge.Scaled{Class: judge.Class{Partition: "batch", Lead: lead}, Scale: scale})
		}
		return state
	}
	s.judge = judge.New(scales(0.8, 3), s.opts.Keep)
	c.turn(s)
	h := s.Handler(nil)
	var a jobAnswer
	get(t, h, "/v1/jobs/3", &a)
	one := a.Jobs[0]
	if len(a.Forecast.Alarms) > 0 || one.Doubtful || one.Raw90 == nil || !one.P90.After(*one.Raw90) || one.P10.After(*one.Raw10) ||
		one.P10.Before(began) {
		t.Errorf("recalibrated: %+v %+v", a.Forecast, one.Wait)
	}
	s.judge = judge.New(scales(0.8, 50), s.opts.Keep)
	horizon := one.Raw90.Add(time.Second)
	s.known.Round.Report.Horizon = &horizon
	a = jobAnswer{}
	get(t, h, "/v1/jobs/3", &a)
	if one := a.Jobs[0]; one.P90 != nil || one.Raw90 == nil || !slices.Equal(one.Beyond, []string{"p90"}) {
		t.Errorf("recalibrated beyond the horizon: %+v", one.Wait)
	}
	s.judge = judge.New(scales(0.45, 3), s.opts.Keep)
	a = jobAnswer{}
	get(t, h, "/v1/jobs/3", &a)
	if len(a.Forecast.Alarms) != len(judge.Leads) || !strings.Contains(a.Forecast.Alarms[0], "forecasts in batch, with a median below "+
		"15 minutes ahead, are unreliable: 45 %") || !a.Jobs[0].Doubtful {
		t.Errorf("an alarm: %+v %+v", a.Forecast, a.Jobs[0].Wait)
	}
	for path, want := range map[string]string{
		"/": "are unreliable: 45 %", "/jobs/3": "(unreliable)", "/machine": `role="alert"><strong>Wrong:`,
		"/metrics":     `rmreplay_forecast_wrong{lead="1 to 4 hours",partition="batch"} 1`,
		"/v1/accuracy": `"wrong":true`,
	} {
		var text string
		if get(t, h, path, &text); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s", path, want, text)
		}
	}
}
