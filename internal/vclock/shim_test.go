package vclock

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSameAnswers runs one program with threads, locks, sockets, signals and processes in three
// ways: without the virtual clock, with it, and with computing that takes virtual time, but too
// little to change an answer.
func TestSameAnswers(t *testing.T) {
	answers := program(t, "answers")
	underClock := func(name string, factor float64) string {
		l := newLab(t, Policy{})
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
	ways := []struct {
		name string
		run  func() string
	}{
		{"without the clock", func() string {
			out, err := exec.Command(answers).CombinedOutput()
			if err != nil {
				t.Fatalf("without the clock: %v\n%s", err, out)
			}
			return string(out)
		}},
		{"frozen", func() string { return underClock("frozen", 0) }},
		{"measured", func() string { return underClock("measured", 0.001) }},
	}
	// On a busy machine a real sleep may take a unit longer, and a signal may reach a thread just
	// before it sleeps and not end the sleep. Each line must therefore be the same in one of a few
	// runs of each kind. On a quiet machine one run is enough.
	type line struct {
		number int
		text   string
	}
	seen := map[line]map[string]bool{} // in which kinds of runs
	same := map[int]bool{}             // lines that were the same in all kinds of runs
	for range 6 {
		for _, way := range ways {
			lines := strings.Split(way.run(), "\n")
			for len(lines) < 300 { // a run with an additional line has its end in another place
				lines = append(lines, "(no line)")
			}
			for i, text := range lines {
				l := line{i + 1, text}
				if seen[l] == nil {
					seen[l] = map[string]bool{}
				}
				seen[l][way.name] = true
			}
		}
		for l, by := range seen {
			same[l.number] = same[l.number] || len(by) == len(ways)
		}
		maps.DeleteFunc(seen, func(l line, _ map[string]bool) bool { return same[l.number] })
		if len(seen) == 0 {
			return
		}
	}
	for l, by := range seen {
		t.Errorf("line %d is not the same in all kinds of runs: %q in those %s", l.number, l.text, slices.Sorted(maps.Keys(by)))
	}
}

// TestStress runs the stress program, whose counters a lost wake-up would change. The counters, the
// virtual time and the count of running threads must be exact.
func TestStress(t *testing.T) {
	const rounds = 1000
	l := newLab(t, Policy{})
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
