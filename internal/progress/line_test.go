package progress

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
)

// busy is a snapshot with large numbers everywhere.
var busy = Snapshot{
	Elapsed: 90 * time.Minute,
	Progress: replay.Progress{
		Now: hpc.Unix(1_709_650_000), LastInput: hpc.Unix(1_709_900_000), Submitted: 101_000, Pending: 20_000, Running: 1_234, Ended: 79_766, Refused: 12,
		Load: replay.Load{Begin: hpc.Unix(1_709_000_000), Tasks: 118_791, Processors: 258_648, Held: 225_024},
	},
}

func TestLine(t *testing.T) {
	parts := Parts(&busy, time.FixedZone("CET", 3600), Estimate{Left: 83*time.Minute + 20*time.Second, Known: true})
	for width, want := range map[int]string{
		0:   "2024-03-05 15:46   73%  ended 79766 of 118791  utilization 87%  120x  running 1234  pending 20000  rejected 12  left 1h23m",
		200: "2024-03-05 15:46   73%  ended 79766 of 118791  utilization 87%  120x  running 1234  pending 20000  rejected 12  left 1h23m",
		79:  "2024-03-05 15:46   73%  ended 79766 of 118791  utilization 87%  left 1h23m",
		39:  " 73%  utilization 87%  120x  left 1h23m",
		20:  " 73%  left 1h23m",
		9:   " 73%",
		4:   " 73%",
		2:   " …",
		1:   "…",
	} {
		if got := Fit(width, parts...); got != want {
			t.Errorf("%d columns:\n%q, want\n%q", width, got, want)
		}
	}
	for width := 1; width < 130; width++ {
		if n := utf8.RuneCountInString(Fit(width, parts...)); n > width {
			t.Errorf("%d characters in %d columns", n, width)
		}
	}
}

// Before the window, the line says when the window begins.
func TestBeforeWindow(t *testing.T) {
	early := busy
	early.Window = early.Now.Add(time.Hour)
	parts := Parts(&early, time.UTC, Estimate{})
	if got, want := Fit(79, parts...), "2024-03-05 14:46   73%  before the window (2024-03-05 15:46)"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	early.Window = early.Now
	if got := Fit(0, Parts(&early, time.UTC, Estimate{})...); strings.Contains(got, "window") {
		t.Errorf("in the window: %q", got)
	}
}

// Unknown values are left out.
func TestUnknown(t *testing.T) {
	if got, want := Fit(0, Parts(&Snapshot{Progress: replay.Progress{Now: hpc.Unix(60)}}, time.UTC, Estimate{})...), "1970-01-01 00:01    0%  ended 0 of 0  60000x  running 0  pending 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Fit(10); got != "" {
		t.Errorf("a line of nothing: %q", got)
	}
}

func TestRemaining(t *testing.T) {
	for left, want := range map[time.Duration]string{
		0: "left 0s", 59*time.Second + 600*time.Millisecond: "left 1m0s", 9 * time.Minute: "left 9m0s", 83*time.Minute + 31*time.Second: "left 1h24m", 26 * time.Hour: "left 26h0m",
	} {
		if got := Remaining(Estimate{Left: left, Known: true}, true).Text; got != want {
			t.Errorf("%v: %q, want %q", left, got, want)
		}
		if bound := Remaining(Estimate{Left: left, Known: true, AtLeast: true}, true).Text; bound != strings.Replace(want, "left", "left at least", 1) && left > 0 || left == 0 && bound != "" {
			t.Errorf("at least %v: %q", left, bound)
		}
	}
}
