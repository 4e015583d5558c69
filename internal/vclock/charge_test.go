package vclock

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// spent is the CPU time and the virtual time that a test program reports for its computing.
type spent struct{ cpu, virtual time.Duration }

func (p *process) spent(t *testing.T) (s spent) {
	t.Helper()
	var what string
	var cpu, virtual int64
	if _, err := fmt.Sscanf(p.output(), "%s %d %d", &what, &cpu, &virtual); err != nil || p.status != "exit status 0" {
		t.Fatalf("%s, which printed %q: %v", p.status, p.output(), err)
	}
	return spent{time.Duration(cpu) * time.Microsecond, time.Duration(virtual) * time.Microsecond}
}

// startCharged starts a managed process that is charged for its CPU time.
func (l *lab) startCharged(name string, args ...string) *process {
	l.extraEnv = []string{ChargedEnvironment, "TEST_CHARGED=1"}
	defer func() { l.extraEnv = nil }()
	return l.start(name, args...)
}

// checkRatio checks that computing took about factor times its CPU time.
func checkRatio(t *testing.T, s spent, factor, tolerance float64) {
	t.Helper()
	got := float64(s.virtual) / float64(s.cpu)
	t.Logf("%v of CPU time took %v of virtual time: %.3f times as much", s.cpu, s.virtual, got)
	if math.Abs(got-factor) > tolerance*factor {
		t.Errorf("%v of CPU time took %v of virtual time, want %v times as much", s.cpu, s.virtual, factor)
	}
}

// TestComputingIsCharged runs one program with the frozen and with the measured clock. Only the
// virtual time that it takes may differ.
func TestComputingIsCharged(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		factor  float64
		charged bool
		want    float64
		// The program's figure includes CPU time of the library's own work, which is not charged.
		tolerance float64
	}{
		{"frozen", []string{"compute", "50", "looking"}, 0, true, 0, 0.15},
		{"another process", []string{"compute", "50", "looking"}, 1, false, 0, 0.15},
		{"looking at the clock", []string{"compute", "200", "looking"}, 1, true, 1, 0.15},
		{"locking", []string{"compute", "200", "locking"}, 1, true, 1, 0.15},
		{"slower controller", []string{"compute", "100", "looking"}, 50, true, 50, 0.15},
		{"faster controller", []string{"compute", "200", "locking"}, 0.25, true, 0.25, 0.15},
		// Each piece is a tenth of the shortest time that is charged: small pieces add up.
		{"small pieces", []string{"bits", "40", "4000"}, 1, true, 1, 0.15},
		// In virtual time each thread has a core, even if this machine has fewer.
		{"in parallel", []string{"crew", "4", "50"}, 2, true, 2, 0.4},
		{"with a lock", []string{"lockout", "100"}, 3, true, 3, 0.15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Policy{})
			l.SetFactor(tt.factor)
			start := l.start
			if tt.charged {
				start = l.startCharged
			}
			p := start(program(t, "clockwork"), tt.args...)
			l.run()
			s := p.spent(t)
			if tt.want > 0 {
				checkRatio(t, s, tt.want, tt.tolerance)
			} else if s.virtual != 0 {
				t.Errorf("%v of virtual time passed", s.virtual)
			}
			if charged := l.Stats().Charged; (charged > 0) != (tt.want > 0) {
				t.Errorf("%v was charged", charged)
			}
			l.checkCount()
		})
	}
}

// TestChildrenAreNotCharged starts a program from a process that is charged.
func TestChildrenAreNotCharged(t *testing.T) {
	l := newLab(t, Policy{})
	l.SetFactor(1)
	p := l.startCharged("/bin/sh", "-c", program(t, "clockwork")+" compute 50 looking")
	l.run()
	if s := p.spent(t); s.virtual != 0 {
		t.Errorf("the child's computing took %v", s.virtual)
	}
}

// TestSleepersAreOnTime checks that deadlines are kept while another thread computes.
func TestSleepersAreOnTime(t *testing.T) {
	l := newLab(t, Policy{})
	l.SetFactor(1)
	p := l.startCharged(program(t, "clockwork"), "tick", "100")
	other := l.start(program(t, "clockwork"), "steps", "100", "1")
	l.run()
	other.check(t, "")
	// The sleeping thread also computes, but less than the shortest time that is charged.
	var late time.Duration
	for i, line := range strings.Split(strings.TrimSpace(p.output()), "\n") {
		var s, ns int64
		if _, err := fmt.Sscanf(line, "tick %d.%d", &s, &ns); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		at := time.Duration(s*1e9 + ns - int64(epoch))
		late = at - time.Duration(i+1)*5*time.Millisecond
		if late < 0 || late > 2*time.Millisecond {
			t.Errorf("tick %d came after %v", i, at)
		}
	}
	l.checkCount()
}

// TestDriverIsOnTime checks that the driver's events keep their instants while a
// managed process computes.
func TestDriverIsOnTime(t *testing.T) {
	l := newLab(t, Policy{})
	l.SetFactor(10)
	p := l.startCharged(program(t, "clockwork"), "compute", "100", "looking")
	stops := 0
	for at := epoch; l.left > 0; {
		at = at.Add(10 * time.Millisecond)
		if err := l.waitTo(at); err != nil {
			t.Fatal(err)
		}
		if l.left > 0 && l.Now() != at {
			t.Fatalf("woken at %v for the limit %v", l.Now(), at)
		}
		stops++
	}
	if stops < 90 {
		t.Errorf("the driver was woken %d times in a virtual second, want one in 10 ms", stops)
	}
	checkRatio(t, p.spent(t), 10, 0.15)
}

// TestStressMeasured runs the stress program, whose counters a lost wake-up would change, as a
// process that is charged.
func TestStressMeasured(t *testing.T) {
	const rounds = 300
	l := newLab(t, Policy{})
	l.SetFactor(1)
	p := l.startCharged(program(t, "stress"), fmt.Sprint(rounds))
	l.run()
	for _, want := range []string{fmt.Sprintf("volleys %d\n", 2*6*rounds), "lost 0\n", fmt.Sprintf("locked %d\n", 4*rounds),
		fmt.Sprintf("messages %d\n", 4*rounds)} {
		if !strings.Contains(p.output(), want) {
			t.Errorf("no %q in\n%s", want, p.output())
		}
	}
	if got := l.passed(); got <= 10*time.Second || l.Stats().Charged == 0 {
		t.Errorf("%v of virtual time passed, %v charged", got, l.Stats().Charged)
	}
	l.checkCount()
	t.Logf("%v, %+v", l.passed(), l.Stats())
}

// BenchmarkCharge measures the real time that charging costs. With factor 0 it measures the
// computing alone.
func BenchmarkCharge(b *testing.B) {
	for _, factor := range []float64{0, 1} {
		b.Run(fmt.Sprintf("factor=%v", factor), func(b *testing.B) {
			l := newLab(b, Policy{})
			l.SetFactor(factor)
			l.startCharged(program(b, "clockwork"), "compute", fmt.Sprint(b.N), "looking")
			b.ResetTimer()
			l.run()
		})
	}
}

// TestRestlessReader checks that a thread which reads a non-blocking descriptor again and again
// does not stop virtual time for the writer.
func TestRestlessReader(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "restless", "3")
	l.run()
	if p.status != "exit status 0" || p.output() != "2 bytes\n" {
		t.Errorf("%s, %q", p.status, p.output())
	}
	if passed := l.passed(); passed < 3*time.Millisecond || passed > 4*time.Millisecond {
		t.Errorf("%v of virtual time passed, want 3 ms", passed)
	}
}
