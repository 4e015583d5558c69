package vclock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTick waits for whole seconds in a thread for which time(2) is late, as slurmctld's main loop does:
// each wait ends at the second, when time(2) has the second before, and then at the tick. Without the
// tick, each wait ends at the second, and time(2) has it.
func TestTick(t *testing.T) {
	clockwork := program(t, "clockwork")
	for _, tt := range []struct {
		name, script string
		tick         bool
	}{
		{"itself", `exec "$0" polls 6`, true},
		{"child", `"$0" polls 6; true`, false},
	} {
		l := newLab(t, Addresses{})
		l.extraEnv = []string{TickEnvironment(2 * time.Millisecond)}
		p := l.start("sh", "-c", tt.script, clockwork)
		l.run()
		var got, want []string
		for line := range strings.Lines(p.output()) {
			var s, ns, seen int64
			if _, err := fmt.Sscanf(line, "%d.%d %d", &s, &ns, &seen); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, fmt.Sprint(time.Duration(s-epoch.UnixSeconds())*time.Second+time.Duration(ns), seen-epoch.UnixSeconds()))
		}
		// The wait that begins at 0 s is for that second: time(2) has the second before.
		if tt.tick {
			want = []string{"2ms 0", "1s 0", "1.002s 1", "2s 1", "2.002s 2", "3s 2"}
		} else {
			want = []string{"1s 1", "2s 2", "3s 3", "4s 4", "5s 5", "6s 6"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: woke at %q, want %q", tt.name, got, want)
		}
		l.checkCount()
	}
}

// TestCoarseThread runs a thread that saves changes every five seconds, as slurmctld's state saver
// does: once under the name that has a coarse clock, once under another name.
func TestCoarseThread(t *testing.T) {
	const seconds = 10_000
	saves := func(name string) (at []int64) {
		l := newLab(t, Addresses{})
		l.extraEnv = []string{CoarseEnvironment("saver", time.Hour)}
		p := l.start(program(t, "clockwork"), "save", name, fmt.Sprint(seconds))
		l.run()
		if l.passed() != seconds*time.Second {
			t.Errorf("%s took %v, want %v", name, l.passed(), seconds*time.Second)
		}
		for line := range strings.Lines(p.output()) {
			var s, ns int64
			if _, err := fmt.Sscanf(line, "saved %d.%d", &s, &ns); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			at = append(at, s-epoch.UnixSeconds())
		}
		l.checkCount()
		return at
	}
	// It saves at once, at every full hour, and at the end. The epoch is 40 minutes past the hour.
	if got, want := saves("saver"), []int64{0, 1200, 4800, 8400, seconds}; !slices.Equal(got, want) {
		t.Errorf("coarse: saved after %v s, want %v", got, want)
	}
	if got := saves("other"); len(got) < seconds/6 {
		t.Errorf("other threads: saved %d times in %d s, want every 5 or 6 s", len(got), seconds)
	}
}
