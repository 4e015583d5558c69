package fairshare

import (
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

func conf(lines string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for line := range strings.Lines(lines) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.EqualFold(name, key) {
				return value, true
			}
		}
		return "", false
	}
}

func TestSettings(t *testing.T) {
	for lines, want := range map[string]Settings{
		"": {HalfLife: 604800, Period: 300, FairTree: true, Dampening: 1},
		"PriorityDecayHalfLife=0\nPriorityCalcPeriod=1\nPriorityUsageResetPeriod=Weekly\nFairShareDampeningFactor=5": {
			Period: 60, Reset: "weekly", FairTree: true, Dampening: 5},
		"PriorityDecayHalfLife=1-12\nPriorityFlags=No_Fair_Tree,Calculate_Running\nAccountingStorageEnforce=safe": {
			HalfLife: 36 * 3600, Period: 300, Dampening: 1, CalculateRunning: true, Limits: true},
		"PriorityDecayHalfLife=UNLIMITED\nPriorityFlags=DEPTH_OBLIVIOUS\nPriorityUsageResetPeriod=NONE": {
			Period: 300, DepthOblivious: true, Dampening: 1},
	} {
		if want.Release = slurmspec.R2205; true {
			got, err := ReadSettings(conf(lines), slurmspec.R2205)
			if err != nil || got != want {
				t.Errorf("%q:\ngot  %+v, %v\nwant %+v", lines, got, err, want)
			}
		}
	}
	for lines, want := range map[string]string{
		"PriorityCalcPeriod=0":           "reading slurm.conf: PriorityCalcPeriod is 0 s (want a minute or more)",
		"PriorityDecayHalfLife=soon":     "reading slurm.conf: PriorityDecayHalfLife=soon: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)",
		"FairShareDampeningFactor=0":     "reading slurm.conf: FairShareDampeningFactor=0: not a factor (want 1 to 65535)",
		"FairShareDampeningFactor=70000": "reading slurm.conf: FairShareDampeningFactor=70000: not a factor (want 1 to 65535)",
	} {
		if _, err := ReadSettings(conf(lines), slurmspec.R2205); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
}

// TestResets checks resets at the start of days, weeks (on Sunday), months, quarters and years.
func TestResets(t *testing.T) {
	at := func(text string) int64 {
		d, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return d.Unix()
	}
	for period, want := range map[string]string{
		"daily": "2024-11-22 00:00", "weekly": "2024-11-24 00:00", "monthly": "2024-12-01 00:00",
		"quarterly": "2025-01-01 00:00",
		"yearly":    "2025-01-01 00:00",
	} {
		r := resets{period: period, last: at("2024-11-21 13:30")}
		if got := r.after(r.last); got != at(want) {
			t.Errorf("%s: %v, want %s", period, time.Unix(got, 0).UTC(), want)
		}
	}
	r := resets{period: "now", last: 7}
	if !r.due(9) || r.due(10) {
		t.Error("now does not reset once")
	}
	r = resets{period: "daily", last: at("2024-11-21 13:30")}
	for _, c := range []struct {
		at  string
		due bool
	}{
		{"2024-11-21 23:59", false}, {"2024-11-22 00:04", true}, {"2024-11-22 23:00", false}, {"2024-11-23 00:00", true},
	} {
		if r.due(at(c.at)) != c.due {
			t.Errorf("at %s, due is %v", c.at, !c.due)
		}
	}
	if !r.due(at("2024-11-30 12:00")) || r.next != at("2024-11-30 00:00") { // after a pause
		t.Error("days that were missed count")
	}
	if (&resets{}).due(at("2030-01-01 00:00")) {
		t.Error("reset without a period")
	}
}

// TestPower checks that the decay over a time is the correctly rounded power.
func TestPower(t *testing.T) {
	f := New(accounts.New(associations.Read(nil, "a", "tiny", ""), tres.New(""), true, slurmspec.R2205),
		Settings{FairTree: true, HalfLife: 7200}, 0, 0)
	if got := f.power(300); got != 0.971536548970295 &&
		math.Abs(got-0.971536548970295) > 5e-16 { // slurmctld logs 15 digits
		t.Errorf("%.17g", got)
	}
	if f.power(0) != 1 || f.power(1) != f.decay {
		t.Errorf("%v, %v", f.power(0), f.power(1))
	}
}

// TestBelowThreshold checks that slurmctld compares points of the priority with the threshold, not
// the factor.
func TestBelowThreshold(t *testing.T) {
	set := associations.Read([]byte(`add cluster tiny
add qos strict usagethreshold=0.4 flags=EnforceUsageThreshold
add qos lax usagethreshold=0.4
add account x fairshare=9
add user ann account=x qos=strict,lax
`), "a", "tiny", "")
	a := accounts.New(set, tres.New(""), true, slurmspec.R2205)
	f := New(a, Settings{FairTree: true, HalfLife: 7200, Dampening: 1, Release: slurmspec.R2205}, 0, 0)
	ann, strict := a.Find("ann", "", ""), a.QOS["strict"]
	ann.SetUsage(1000, false)
	f.Run(60, func(func(Job) bool) {})
	// Only ann has usage, and her share of her level is 1, so the factor is 2^-1.
	for _, c := range []struct {
		q      *accounts.QOS
		points float64
		want   bool
	}{{strict, 0, false}, {strict, 0.3, true}, {strict, 300, false}, {a.QOS["lax"], 0.3, false}, {nil, 0.3, false}} {
		if got := f.BelowThreshold(ann, c.q, c.points); got != c.want {
			t.Errorf("%v points: %v", c.points, got)
		}
	}
	strict.UsageThreshold = 0.6
	if !f.BelowThreshold(ann, strict, 0) {
		t.Error("a factor of 0.5 is not below 0.6")
	}
}
