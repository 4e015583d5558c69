package vclock

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// spent is what a test program says that computing took.
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

// startPaying starts a managed process whose computing takes virtual time.
func (l *lab) startPaying(name string, args ...string) *process {
	l.extraEnv = []string{PaysEnvironment, "TEST_PAYS=1"}
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

// TestComputingIsPaidFor runs one program with the clock frozen and measured: only the
// time that it takes differs.
func TestComputingIsPaidFor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		factor float64
		pays   bool
		want   float64
		// What the library itself uses of the CPU is in the program's figure, but not paid for.
		tolerance float64
	}{
		{"frozen", []string{"compute", "50", "looking"}, 0, true, 0, 0.15},
		{"another process", []string{"compute", "50", "looking"}, 1, false, 0, 0.15},
		{"looking at the clock", []string{"compute", "200", "looking"}, 1, true, 1, 0.15},
		{"locking", []string{"compute", "200", "locking"}, 1, true, 1, 0.15},
		{"slower controller", []string{"compute", "100", "looking"}, 50, true, 50, 0.15},
		{"faster controller", []string{"compute", "200", "locking"}, 0.25, true, 0.25, 0.15},
		// What is less than a payment is not forgotten: each piece is a tenth of one.
		{"small pieces", []string{"bits", "40", "4000"}, 1, true, 1, 0.15},
		// A core for each thread, whatever this machine has.
		{"in parallel", []string{"crew", "4", "50"}, 2, true, 2, 0.4},
		{"with a lock", []string{"lockout", "100"}, 3, true, 3, 0.15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Addresses{})
			l.SetFactor(tt.factor)
			start := l.start
			if tt.pays {
				start = l.startPaying
			}
			p := start(program(t, "clockwork"), tt.args...)
			l.run()
			s := p.spent(t)
			if tt.want > 0 {
				checkRatio(t, s, tt.want, tt.tolerance)
			} else if s.virtual != 0 {
				t.Errorf("%v of virtual time passed", s.virtual)
			}
			if paid := l.Stats().Paid; (paid > 0) != (tt.want > 0) {
				t.Errorf("%v was paid", paid)
			}
			l.checkCount()
		})
	}
}

// TestChildrenDoNotPay starts a program from a process that pays.
func TestChildrenDoNotPay(t *testing.T) {
	l := newLab(t, Addresses{})
	l.SetFactor(1)
	p := l.startPaying("/bin/sh", "-c", program(t, "clockwork")+" compute 50 looking")
	l.run()
	if s := p.spent(t); s.virtual != 0 {
		t.Errorf("the child's computing took %v", s.virtual)
	}
}

// TestSleepersAreOnTime checks that deadlines which come while another thread computes
// are kept to the nanosecond.
func TestSleepersAreOnTime(t *testing.T) {
	l := newLab(t, Addresses{})
	l.SetFactor(1)
	p := l.startPaying(program(t, "clockwork"), "tick", "100")
	other := l.start(program(t, "clockwork"), "steps", "100", "1")
	l.run()
	other.check(t, "")
	// The thread that sleeps has to compute, too, if next to nothing: less than is paid for.
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
	l := newLab(t, Addresses{})
	l.SetFactor(10)
	p := l.startPaying(program(t, "clockwork"), "compute", "100", "looking")
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

// TestStressMeasured runs what would lose a wake-up with computing that is paid for.
func TestStressMeasured(t *testing.T) {
	const rounds = 300
	l := newLab(t, Addresses{})
	l.SetFactor(1)
	p := l.startPaying(program(t, "stress"), fmt.Sprint(rounds))
	l.run()
	for _, want := range []string{fmt.Sprintf("volleys %d\n", 2*6*rounds), "lost 0\n", fmt.Sprintf("locked %d\n", 4*rounds),
		fmt.Sprintf("messages %d\n", 4*rounds)} {
		if !strings.Contains(p.output(), want) {
			t.Errorf("no %q in\n%s", want, p.output())
		}
	}
	if got := l.passed(); got <= 10*time.Second || l.Stats().Paid == 0 {
		t.Errorf("%v of virtual time passed, %v paid", got, l.Stats().Paid)
	}
	l.checkCount()
	t.Logf("%v, %+v", l.passed(), l.Stats())
}

// BenchmarkPay is what a payment costs, in real time and beyond the computing itself.
func BenchmarkPay(b *testing.B) {
	for _, factor := range []float64{0, 1} {
		b.Run(fmt.Sprintf("factor=%v", factor), func(b *testing.B) {
			l := newLab(b, Addresses{})
			l.SetFactor(factor)
			l.startPaying(program(b, "clockwork"), "compute", fmt.Sprint(b.N), "looking")
			b.ResetTimer()
			l.run()
		})
	}
}

// TestRestlessReader: who asks for input without waiting does not keep its writer from
// waiting for virtual time.
func TestRestlessReader(t *testing.T) {
	l := newLab(t, Addresses{})
	p := l.start(program(t, "clockwork"), "restless", "3")
	l.run()
	if p.status != "exit status 0" || p.output() != "2 bytes\n" {
		t.Errorf("%s, %q", p.status, p.output())
	}
	if passed := l.passed(); passed < 3*time.Millisecond || passed > 4*time.Millisecond {
		t.Errorf("%v of virtual time passed, want 3 ms", passed)
	}
}
