package vclock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCoarseThread runs a thread that saves changes every five seconds, as slurmctld's state saver
// does: once with the name that has a coarse clock, and once with another name.
func TestCoarseThread(t *testing.T) {
	const seconds = 10_000
	saves := func(name string) (at []int64) {
		l := newLab(t, Policy{})
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
	// The thread saves at once, at every full hour, and at the end. The epoch is 40 minutes past
	// the hour.
	if got, want := saves("saver"), []int64{0, 1200, 4800, 8400, seconds}; !slices.Equal(got, want) {
		t.Errorf("coarse: saved after %v s, want %v", got, want)
	}
	if got := saves("other"); len(got) < seconds/6 {
		t.Errorf("other threads: saved %d times in %d s, want every 5 or 6 s", len(got), seconds)
	}
}
