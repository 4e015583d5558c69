package vclock

import (
	"strings"
	"testing"
	"time"
)

// TestExecutesAnother checks a process that is charged for its CPU time, or has a coarse thread.
// It keeps this property when it executes another program, but its children do not inherit it.
func TestExecutesAnother(t *testing.T) {
	clockwork := program(t, "clockwork")
	for _, tt := range []struct {
		name, script string
		charged      bool
	}{
		{"itself", `exec "$0" compute 50 looking`, true},
		{"without an environment", `exec env -i "$0" compute 50 looking`, true},
		{"twice", `exec sh -c 'exec "$0" compute 50 looking' "$0"`, true},
		{"child", `"$0" compute 50 looking; true`, false},
		{"child's child", `(exec sh -c 'exec "$0" compute 50 looking' "$0"); true`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Policy{})
			l.SetFactor(20)
			p := l.startCharged("sh", "-c", tt.script, clockwork)
			l.run()
			if s := p.spent(t); tt.charged {
				checkRatio(t, s, 20, 0.25)
			} else if s.virtual != 0 {
				t.Errorf("a child's %v of CPU time took %v of virtual time", s.cpu, s.virtual)
			}
			l.checkCount()
		})
	}
	for script, most := range map[string]int{`exec "$0" save saver 1000`: 3, `"$0" save saver 1000; true`: 201} {
		l := newLab(t, Policy{})
		l.extraEnv = []string{CoarseEnvironment("saver", time.Hour)}
		p := l.start("sh", "-c", script, clockwork)
		l.run()
		if got := strings.Count(p.output(), "saved"); got > most || got < most/2 {
			t.Errorf("%s: saved %d times, want %d at most", script, got, most)
		}
	}
}

// TestAnswerNotBeforeWait checks that a thread that sends a message to a child begins to wait for
// the answer before the answer arrives, as on real hardware.
func TestAnswerNotBeforeWait(t *testing.T) {
	for name, args := range map[string][]string{
		"short message":       {"answered", "500", "100", "0"},
		"long message":        {"answered", "500", "60000", "0"},
		"charged, short":      {"answered", "2000", "100", "200"},
		"charged, long":       {"answered", "500", "60000", "200"},
		"as long as the pipe": {"answered", "100", "65536", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, Policy{})
			start := l.start
			if strings.HasPrefix(name, "charged") {
				l.SetFactor(1)
				start = l.startCharged
			}
			p := start(program(t, "clockwork"), args...)
			l.run()
			p.check(t, "answered\n")
			l.checkCount()
		})
	}
}
