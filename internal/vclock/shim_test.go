package vclock

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSameAnswers runs one program of threads, locks, sockets, signals and processes
// without the virtual clock, with it, and with computing that takes virtual time, though
// so little that no answer depends on it.
func TestSameAnswers(t *testing.T) {
	answers := program(t, "answers")
	got := map[string]string{}
	for name, factor := range map[string]float64{"frozen": 0, "measured": 0.001} {
		l := newLab(t, Addresses{})
		start := l.start
		if factor > 0 {
			l.SetFactor(factor)
			start = l.startPaying
		}
		p := start(answers)
		l.run()
		if p.status != "exit status 0" {
			t.Errorf("%s: %s", name, p.status)
		}
		l.checkCount()
		got[name] = p.output()
		t.Logf("%s: %v of virtual time, %+v", name, l.passed(), l.Stats())
	}

	// Real sleeps depend on the machine: on a busy one they take a unit longer.
	diffs := map[string]string{}
	for range 3 {
		want, err := exec.Command(answers).CombinedOutput()
		if err != nil {
			t.Fatalf("without the clock: %v\n%s", err, want)
		}
		clear(diffs)
		for name, got := range got {
			if diff := cmp.Diff(string(want), got); diff != "" {
				diffs[name] = diff
			}
		}
		if len(diffs) == 0 {
			return
		}
	}
	for name, diff := range diffs {
		t.Errorf("answers with the clock %s (+) are not those without it (-):\n%s", name, diff)
	}
}

// TestStress runs what would lose a wake-up if one could be lost, and checks that the
// counters, the virtual time and the count of running threads come out exactly.
func TestStress(t *testing.T) {
	const rounds = 1000
	l := newLab(t, Addresses{})
	p := l.start(program(t, "stress"), fmt.Sprint(rounds))
	l.run()
	want := fmt.Sprintf(`volleys %d
hits %d
lost 0
timeouts some
broadcasts %d
locked %d
lives %d
children %d
messages %d
ticks %d
ns %d
`, 2*6*rounds, 3*rounds/4, rounds/4, 4*rounds, 3*rounds/2, rounds/20, 4*rounds, rounds/10, 10*time.Second)
	if diff := cmp.Diff(want, p.output()); diff != "" {
		t.Errorf("%s, not as expected (-want +got):\n%s", p.status, diff)
	}
	if got := l.passed(); got != 10*time.Second {
		t.Errorf("%v of virtual time passed, want 10s", got)
	}
	l.checkCount()
	t.Logf("%+v", l.Stats())
}
