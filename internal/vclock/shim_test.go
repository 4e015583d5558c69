package vclock

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSameAnswers runs one program of threads, locks, sockets, signals and processes
// with and without the virtual clock.
func TestSameAnswers(t *testing.T) {
	answers := program(t, "answers")
	l := newLab(t, Addresses{})
	p := l.start(answers)
	l.run()
	if p.status != "exit status 0" {
		t.Errorf("under the clock: %s", p.status)
	}
	l.checkCount()
	got := p.output()
	t.Logf("%v of virtual time, %+v", l.passed(), l.Stats())

	// Real sleeps depend on the machine: on a busy one they take a unit longer.
	var diff string
	for range 3 {
		want, err := exec.Command(answers).CombinedOutput()
		if err != nil {
			t.Fatalf("without the clock: %v\n%s", err, want)
		}
		if diff = cmp.Diff(string(want), got); diff == "" {
			return
		}
	}
	t.Errorf("answers with the clock (+) are not those without it (-):\n%s", diff)
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
