package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

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
		"--start=soon":                        "--start soon: not a time",
		"--end=soon":                          "--end soon: not a time",
		"--start=2024-03-06 --end=2024-03-06": "--end 2024-03-06 is not after --start 2024-03-06",
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

func TestZone(t *testing.T) {
	parse := func(args ...string) (*time.Location, error) {
		var z Zone
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		z.Add(f)
		err := f.Parse(args)
		return z.Location(), err
	}
	if zone, err := parse(); zone != time.UTC || err != nil {
		t.Errorf("by default %v, %v", zone, err)
	}
	if zone, err := parse("--timezone", "Europe/Zurich"); zone.String() != "Europe/Zurich" || err != nil {
		t.Errorf("%v, %v", zone, err)
	}
	for _, name := range []string{"Nowhere", ""} {
		if _, err := parse("--timezone", name); err == nil || !strings.Contains(err.Error(), "not a known time zone (want UTC, Local") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestParseFactor(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "x2": 2, "0.5": 0.5, "x0.5": 0.5, "120%": 1.2} {
		if got, err := ParseFactor(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "fast", "x0", "-1", "xNaN", "inf"} {
		if _, err := ParseFactor(text); err == nil {
			t.Errorf("%q is a factor", text)
		}
	}
	for text, want := range map[string]string{
		"+20%": "want x1.2 or 120% for 20 % more", "-20%": "want x0.8 or 80% for 20 % less", "+2": "no sign", "x+2": "no sign",
		"-200%": "no sign",
	} {
		if _, err := ParseFactor(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"overwrite", "output", "processors", "parallel", "perf", "by"}
	for mistyped, want := range map[string]string{
		"overwite": "overwrite", "ouptut": "output", "processor": "processors", "paralel": "parallel", "bogus": "", "bz": "by", "x": "",
		"proc": "processors", "over": "overwrite", "p": "", "pe": "perf", "o": "",
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
