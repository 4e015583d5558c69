package charge

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/keys"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Costs{
		"50us,2ms": {50 * time.Microsecond, 2 * time.Millisecond}, "0s,1m": {0, time.Minute},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%s: read again %v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "50us", "50us,", "50us,x", "-1s,0s", "0s,2m", "1,2"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "such as 50us,2ms") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestFit checks that costs are the mean time of a cycle divided by its mean number of jobs.
func TestFit(t *testing.T) {
	got, err := Fit(&rm.Scheduler{MainMean: 0.01, MainDepthMean: 100, BackfillMean: 3, BackfillTriedMean: 1500})
	if want := (Costs{100 * time.Microsecond, 2 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, s := range []*rm.Scheduler{nil, {MainDepthMean: 3}} {
		if _, err := Fit(s); err == nil || !strings.Contains(err.Error(), "--clock measured") {
			t.Errorf("%v: error %v", s, err)
		}
	}
}

// TestReadLimits reads the defaults, and given values.
func TestReadLimits(t *testing.T) {
	want := Limits{2, 30, 2 * time.Second, 500 * time.Millisecond, false}
	if got := ReadLimits(keys.Options(""), 10); got != want {
		t.Errorf("defaults: %+v, want %+v", got, want)
	}
	options := "max_sched_time=4,bf_interval=60,bf_yield_interval=1000000,bf_yield_sleep=250000,bf_continue"
	want = Limits{4, 60, time.Second, 250 * time.Millisecond, true}
	if got := ReadLimits(keys.Options(options), 10); got != want {
		t.Errorf("%s: %+v, want %+v", options, got, want)
	}
	if got := ReadLimits(keys.Options("max_sched_time=9,bf_max_time=7"), 3); got.MainSeconds != 1 || got.BackfillSeconds != 7 {
		t.Errorf("a max_sched_time beyond half of MessageTimeout: %+v", got)
	}
}
