package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 2 * day, "1.5d": 36 * time.Hour,
		"1d12h": 36 * time.Hour, "1-00:00:00": day, "1-12:30:15": 36*time.Hour + 30*time.Minute + 15*time.Second,
		"08:00:00": 8 * time.Hour, "100:00:00": 100 * time.Hour, "30": 30 * time.Second, "0.5": 500 * time.Millisecond,
		"0": 0, "-1s": -time.Second, "-2d": -2 * day, "250ms": 250 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "often", "12:30", "1:60:00", "1:00:60", "1-12", "d", "2dd", "1d-1h", "NaN", "Inf", "1e30", "9999999999d", "x:y:z", "-1:00:00"} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), "not a duration (want, for example, 90s") {
			t.Errorf("%q: %v, %v; want an error", text, got, err)
		}
	}
}

// What the help shows as a default can be given.
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

func TestParseInstant(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Skipf("SKIPPED: no time zones: %v", err)
	}
	for text, want := range map[string]string{
		"2024-03-05": "2024-03-04T23:00:00Z", "2024-07-05": "2024-07-04T22:00:00Z",
		"2024-03-05T12:00": "2024-03-05T11:00:00Z", "2024-03-05 12:00": "2024-03-05T11:00:00Z",
		"2024-03-05T12:00:07": "2024-03-05T11:00:07Z", "2024-03-05T12:00:07.5": "2024-03-05T11:00:07.5Z",
		"2024-03-05T12:00Z": "2024-03-05T12:00:00Z", "2024-03-05T12:00:07+05:30": "2024-03-05T06:30:07Z",
		"1700000000": "2023-11-14T22:13:20Z",
	} {
		if got, err := ParseInstant(text, zurich); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "2024-02-30", "2024-3-5", "12:00", "NaN", "0001-01-01", "2900-01-01", "1e12"} {
		if got, err := ParseInstant(text, time.UTC); err == nil || !strings.Contains(err.Error(), "not a time (want 2024-03-05, ") {
			t.Errorf("%q: %v, %v; want an error", text, got, err)
		}
	}
}

func TestWindow(t *testing.T) {
	for args, want := range map[string]string{
		"--start=2024-03-05 --end=2024-03-06":                          "",
		"--start=2024-03-05 --end=2024-03-05T00:30 --timezone=Etc/GMT": "",
		"--start=soon":                          "--start soon: not a time",
		"--end=soon":                            "--end soon: not a time",
		"--start=2024-03-06 --end=2024-03-06":   "--end 2024-03-06 is not after --start 2024-03-06",
		"--start=2024-03-06 --timezone=Nowhere": "--timezone Nowhere: not known",
	} {
		var w Window
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		w.Add(f, "", "")
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		start, _, err := w.Bounds()
		switch {
		case want == "" && (err != nil || start != hpc.Unix(1709596800)):
			t.Errorf("%s: %v, %v", args, start, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func TestParseFactor(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "x2": 2, "0.5": 0.5, "x0.5": 0.5} {
		if got, err := ParseFactor(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "fast", "x0", "-1", "xNaN", "inf"} {
		if _, err := ParseFactor(text); err == nil {
			t.Errorf("%q is a factor", text)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"overwrite", "output", "processors", "parallel", "perf", "by"}
	for mistyped, want := range map[string]string{
		"overwite": "overwrite", "ouptut": "output", "processor": "processors", "paralel": "parallel", "bogus": "", "bz": "by", "x": "",
	} {
		if got := Nearest(mistyped, names); got != want {
			t.Errorf("%q: %q, want %q", mistyped, got, want)
		}
	}
}

func TestAlias(t *testing.T) {
	n := 0
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.IntVar(&n, "processors", 0, "")
	Alias(f, map[string]string{"procs": "processors"})
	if err := f.Parse([]string{"--procs", "4"}); err != nil || n != 4 || !f.Changed("processors") || strings.Contains(f.FlagUsages(), "procs") {
		t.Errorf("%d, %v\n%s", n, err, f.FlagUsages())
	}
}
