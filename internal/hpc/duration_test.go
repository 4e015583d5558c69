package hpc

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 2 * day, "1.5d": 36 * time.Hour,
		"1d12h": 36 * time.Hour, "1-00:00:00": day, "1-12:30:15": 36*time.Hour + 30*time.Minute + 15*time.Second,
		"08:00:00": 8 * time.Hour, "100:00:00": 100 * time.Hour, "30": 30 * time.Second, "0.5": 500 * time.Millisecond,
		"2h30": 150 * time.Minute, "5m30": 330 * time.Second, "5 min": 5 * time.Minute, "90 seconds": 90 * time.Second,
		"2 hours 15 min": 135 * time.Minute, "1w": 7 * day, "1day": day, "1-12:00": 36 * time.Hour, "1-12": 36 * time.Hour,
		"1H": time.Hour,
		"0":  0, "-1s": -time.Second, "-2d": -2 * day, "250ms": 250 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "often", "12:30", "1:60:00", "1:00:60", "1-12:60", "1d30", "30 5", "5 parsecs", "h", "1h h", "d", "2dd", "1d-1h", "NaN", "Inf", "1e30", "9999999999d", "x:y:z", "-1:00:00"} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), "not a duration (want, for example, 90s") {
			t.Errorf("%q: %v, %v; want an error", text, got, err)
		}
	}
}

// TestParseWithUnit checks that a number without a unit is refused, except for 0.
func TestParseWithUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{"8h": 8 * time.Hour, "2h30": 150 * time.Minute, "08:00:00": 8 * time.Hour, "0": 0} {
		if got, err := ParseWithUnit(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"8", "1.5", "-1"} {
		if got, err := ParseWithUnit(text); !errors.Is(err, ErrNoUnit) || !strings.Contains(err.Error(), "(want "+text+"d, "+text+"h, ") {
			t.Errorf("%q: %v, %v; want %v", text, got, err, ErrNoUnit)
		}
	}
}

// TestFormatDuration checks that formatted durations, which the help shows as defaults, can be read
// again.
func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", time.Minute: "1m",
		70 * time.Minute: "1h10m", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s",
	} {
		got := FormatDuration(d)
		if back, err := ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: %q, want %q; read again %v, %v", d, got, want, back, err)
		}
	}
}
