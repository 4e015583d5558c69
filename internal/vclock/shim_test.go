package vclock

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSameAnswers runs one program of threads, locks, sockets, signals and processes without the
// virtual clock, with it, and with computing that takes virtual time, but so little that no answer
// depends on it.
func TestSameAnswers(t *testing.T) {
	answers := program(t, "answers")
	underClock := func(name string, factor float64) string {
		l := newLab(t, Addresses{})
		start := l.start
		if factor > 0 {
			l.SetFactor(factor)
			start = l.startCharged
		}
		p := start(answers)
		l.run()
		if p.status != "exit status 0" {
			t.Errorf("%s: %s", name, p.status)
		}
		l.checkCount()
		t.Logf("%s: %v of virtual time, %+v", name, l.passed(), l.Stats())
		return p.output()
	}
	// A signal that reaches a thread in the instant before it sleeps does not end the sleep. On
	// a busy machine that instant can be long.
	var frozen, diff string
	for range 3 {
		frozen = underClock("frozen", 0)
		if diff = cmp.Diff(frozen, underClock("measured", 0.001)); diff == "" {
			break
		}
	}
	if diff != "" {
		t.Errorf("answers with the clock measured (+) are not those with it frozen (-):\n%s", diff)
	}
	// Real sleeps depend on the machine: on a busy one some take a unit longer. So each line
	// must be the same as in one of a few runs. On a quiet machine one run is enough.
	lines := strings.Split(frozen, "\n")
	var want []string
	for range 6 {
		out, err := exec.Command(answers).CombinedOutput()
		if err != nil {
			t.Fatalf("without the clock: %v\n%s", err, out)
		}
		run := strings.Split(string(out), "\n")
		if want == nil {
			want = run
		}
		for i := range want {
			if i < len(run) && i < len(lines) && run[i] == lines[i] {
				want[i] = run[i]
			}
		}
		if slices.Equal(want, lines) {
			return
		}
	}
	t.Errorf("answers with the clock (+) are not those without it (-):\n%s", cmp.Diff(want, lines))
}

// TestStress runs the stress program, whose counters a lost wake-up would change. The counters, the
// virtual time and the count of running threads must be exact.
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
