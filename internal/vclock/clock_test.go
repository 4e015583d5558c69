package vclock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/procfs"
)

// stamp returns what a test program prints at the given time after the start.
func stamp(what string, after time.Duration) string {
	t := int64(epoch.Add(after))
	return fmt.Sprintf("%s %d.%09d\n", what, t/1e9, t%1e9)
}

func (l *lab) checkPassed(want time.Duration) {
	l.t.Helper()
	if got := l.passed(); got != want {
		l.t.Errorf("%v of virtual time passed, want %v", got, want)
	}
}

// checkSlept is checkPassed for processes that run sleep(1). The sleep of coreutils 9.7 sleeps a
// nanosecond longer than requested.
func (l *lab) checkSlept(want time.Duration) {
	l.t.Helper()
	if got := l.passed(); got.Truncate(time.Microsecond) != want {
		l.t.Errorf("%v of virtual time passed, want %v", got, want)
	}
}

func (p *process) check(t *testing.T, want string) {
	t.Helper()
	if p.status != "exit status 0" {
		t.Errorf("%s: %s", p.cmd.Path, p.status)
	}
	if diff := cmp.Diff(want, p.output()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", p.cmd, diff)
	}
}

func TestLongSleepTakesNoTime(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "steps", "10000", "1000")
	begin := time.Now()
	l.run()
	if took := time.Since(begin); took > 3*time.Minute { // a busy machine runs 10,000 steps in seconds
		t.Errorf("10,000 s of virtual time took %v of real time", took)
	}
	p.check(t, "")
	l.checkPassed(10000 * time.Second)
	l.checkCount()
	if st := l.Stats(); st.InPlace < 9000 { // the driver makes the steps during which the process waits for a CPU
		t.Errorf("%d of 10,000 steps were made in place: %+v", st.InPlace, st)
	}
}

// TestOneAfterTheOther checks that threads that are due at one instant run one after the other,
// always in the same order.
func TestOneAfterTheOther(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "together", "8", "200")
	l.run()
	p.check(t, "0 overlaps, 0 in other places\n")
	l.checkCount()
}

// TestOrderOfWokenThreads checks that threads which a running thread makes or wakes run after it,
// in the order of its calls. Threads that it wakes through the kernel come last, in the order of
// their slots.
func TestOrderOfWokenThreads(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "order", "200")
	l.run()
	p.check(t, "0 rounds in another order\n")
	l.checkCount()
}

// TestReadyInTurn checks that a thread that waits for several descriptors finds all descriptors
// that are ready when it has its turn, and not only the descriptors that were ready when the
// kernel woke it. If another thread has taken the input, the thread waits on: here until its
// deadline, 60 s after the wait began.
func TestReadyInTurn(t *testing.T) {
	for _, call := range []string{"poll", "select", "epoll"} {
		l := newLab(t, Policy{})
		p := l.start(program(t, "clockwork"), "several", call)
		l.run()
		p.check(t, fmt.Sprintf("3 are ready\n1 took a byte\nend %d.000000000\n", epoch/hpc.Time(time.Second)+61))
		l.checkCount()
	}
}

func TestShellScripts(t *testing.T) {
	at := func(after time.Duration) string { return fmt.Sprintln(int64(epoch.Add(after)) / 1e9) }
	for _, tt := range []struct {
		name, shell, script, want string
		takes                     time.Duration
	}{
		{"sequence", "sh", `sleep 100; echo a | cat; sleep 200`, "a\n", 300 * time.Second},
		{"date", "sh", `date +%s; sleep 50; date +%s`, at(0) + at(50*time.Second), 50 * time.Second},
		{"date in bash", "bash", `date +%s; sleep 1.5; printf '%(%s)T\n' -1; echo $EPOCHSECONDS`,
			at(0) + at(time.Second) + at(time.Second), 1500 * time.Millisecond},
		{"fraction", "sh", `sleep 0.25; date +%s.%6N`, fmt.Sprintf("%d.250000\n", int64(epoch)/1e9), 250 * time.Millisecond},
		{"pipeline that sleeps", "bash", `(sleep 10; echo a; sleep 10; echo b) | while read x; do echo "$x $(date +%s)"; done`,
			"a " + at(10*time.Second) + "b " + at(20*time.Second), 20 * time.Second},
		{"stream reader", "sh", `(sleep 10; echo one; sleep 10; echo two) | sed s/o/0/ | grep -c .`, "2\n", 20 * time.Second},
		{"slow reader", "sh", `head -c 300000 /dev/zero | (sleep 30; wc -c)`, "300000\n", 30 * time.Second},
		{"substitution", "bash", `x=$(sleep 5; echo inner); echo "$x"; sleep 1`, "inner\n", 6 * time.Second},
		{"jobs", "bash", `sleep 30 & sleep 10 & wait %2; date +%s; wait; date +%s; (sleep 1; exit 3) & wait $!; echo $?`,
			at(10*time.Second) + at(30*time.Second) + "3\n", 31 * time.Second},
		{"jobs in sh", "sh", `sleep 30 & a=$!; sleep 10 & wait $!; date +%s; wait $a; date +%s`,
			at(10*time.Second) + at(30*time.Second), 30 * time.Second},
		{"kill", "bash", `sleep 1000 & sleep 2; kill $!; wait $!; echo $?; date +%s`, "143\n" + at(2*time.Second), 2 * time.Second},
		{"trap", "bash", `trap 'echo trapped; date +%s' USR1; (sleep 3; kill -USR1 $$) & sleep 5; wait; date +%s`,
			"trapped\n" + at(5*time.Second) + at(5*time.Second), 5 * time.Second},
		{"trap in wait", "bash", `trap 'echo trapped; date +%s' USR1; (sleep 3; kill -USR1 $$) & sleep 5 & wait $!; wait; date +%s`,
			"trapped\n" + at(3*time.Second) + at(5*time.Second), 5 * time.Second},
		{"here document", "bash", "sleep 1; cat <<E\nhere $(sleep 2; echo x)\nE\n", "here x\n", 3 * time.Second},
		{"empty environment", "sh", `env -i sleep 40; env -i sh -c 'sleep 2; date +%s'`, at(42 * time.Second), 42 * time.Second},
		{"exec", "bash", `sleep 1; exec sleep 2`, "", 3 * time.Second},
		{"timeout by kill", "sh", `(sleep 7; kill $$) & exec sleep 100000`, "", 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shell, err := exec.LookPath(tt.shell)
			if err != nil {
				t.Skipf("SKIPPED: %v", err)
			}
			l := newLab(t, Policy{})
			p := l.start(shell, "-c", tt.script)
			l.run()
			if tt.name == "timeout by kill" {
				if p.status != "signal: terminated" {
					t.Errorf("ended with %s", p.status)
				}
			} else {
				p.check(t, tt.want)
			}
			l.checkSlept(tt.takes)
			l.checkCount()
		})
	}
}

func TestTwoProcessesTalk(t *testing.T) {
	l := newLab(t, Policy{})
	portFile := filepath.Join(t.TempDir(), "port")
	server := l.start(program(t, "clockwork"), "serve", portFile)
	if err := l.waitTo(epoch.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	l.checkPassed(time.Second)
	port, err := os.ReadFile(portFile)
	if err != nil {
		t.Fatal(err)
	}
	client := l.start(program(t, "clockwork"), "ask", "127.0.0.1", string(port))
	l.run()
	s := time.Second
	server.check(t, stamp("accepted", s)+stamp("asked", 11*s)+stamp("asked", 22*s)+stamp("asked", 34*s)+stamp("closed", 37*s))
	client.check(t, stamp("answered", 12*s)+stamp("answered", 24*s)+stamp("answered", 37*s))
	l.checkPassed(37 * s)
	l.checkCount()
}

// TestLimit lets a process that sleeps often run through many limits of the driver.
func TestLimit(t *testing.T) {
	l := newLab(t, Policy{})
	l.start(program(t, "clockwork"), "steps", "1000", "7")
	for at := epoch; l.left > 0; {
		at = at.Add(10 * time.Millisecond)
		if err := l.waitTo(at); err != nil {
			t.Fatal(err)
		}
		if l.left > 0 && l.Now() != at {
			t.Fatalf("woken at %v for the limit %v", l.Now(), at)
		}
		if l.Now() > at {
			t.Fatalf("virtual time %v is beyond the limit %v", l.Now(), at)
		}
	}
	l.checkPassed(7 * time.Second)
}

// TestInput checks that the clock stands still while bytes are on their way to the driver and
// until the driver has read them. It also checks that the clock counts the bytes exactly.
func TestInput(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	l := newLab(t, Policy{Client: net.IPv4(127, 77, 0, 1), Port: port})
	p := l.start(program(t, "clockwork"), "report", fmt.Sprint(port))
	var conn net.Conn
	total, calls := 0, 0
	l.onInput = func() {
		calls++
		if got := l.passed(); got != 7*time.Second {
			t.Errorf("input after %v, want 7s", got)
		}
		if conn == nil {
			if conn, err = ln.Accept(); err != nil {
				t.Fatal(err)
			}
			// Both messages arrive, and no thread runs meanwhile.
			time.Sleep(50 * time.Millisecond)
			if got := l.Inbox(); got != 1003 {
				t.Errorf("inbox = %d bytes, want 1003", got)
			}
		}
		n, err := conn.Read(make([]byte, 600))
		if err != nil {
			t.Fatal(err)
		}
		total += n
		l.Read(n)
		if total == 1003 {
			l.Touch()
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.run()
	p.check(t, stamp("told", 7*time.Second))
	l.checkPassed(8 * time.Second)
	if total != 1003 || calls < 2 || l.Inbox() != 0 {
		t.Errorf("read %d bytes in %d calls, %d left in the inbox", total, calls, l.Inbox())
	}
}

// serve starts a managed server that begins to wait for a connection five seconds after the epoch.
// dial connects to the server from the driver's address.
func serve(t *testing.T) (l *lab, server *process, dial func() net.Conn) {
	t.Helper()
	client := net.IPv4(127, 77, 0, 2)
	l = newLab(t, Policy{Client: client})
	portFile := filepath.Join(t.TempDir(), "port")
	server = l.start(program(t, "clockwork"), "serve", portFile)
	if err := l.waitTo(epoch.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	port, err := os.ReadFile(portFile)
	if err != nil {
		t.Fatal(err)
	}
	return l, server, func() net.Conn {
		l.Touch()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: client}}
		conn, err := d.Dial("tcp4", "127.0.0.1:"+string(port))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// TestDriverAsClient connects to a managed server from the driver's own address.
func TestDriverAsClient(t *testing.T) {
	l, server, dial := serve(t)
	l.Connecting()
	conn := dial()
	l.Connected(conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort())
	l.Touch()
	if _, err := conn.Write([]byte("4")); err != nil {
		t.Fatal(err)
	}
	l.onInput = func() {
		l.checkPassed(9 * time.Second)
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.Read(1)
		l.Touch()
		conn.Close()
	}
	l.run()
	server.check(t, stamp("accepted", 5*time.Second)+stamp("asked", 5*time.Second)+stamp("closed", 9*time.Second))
	l.checkPassed(9 * time.Second)
}

func TestPipeToDriver(t *testing.T) {
	for _, tt := range []struct{ name, shell, script string }{
		{"sh", "sh", `sleep 3; echo hello > "$1"; sleep 2; echo again > "$1"; sleep 1`},
		// bash and date write through the C library's streams.
		{"bash", "bash", `sleep 3; echo hello > "$1"; sleep 2; echo again > "$1"; sleep 1`},
		{"program", "sh", `sleep 3; printf 'hello\n' > "$1"; sleep 2; date +again > "$1"; sleep 1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.shell); err != nil {
				t.Skipf("SKIPPED: %v", err)
			}
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			// The pipe is open for reading and writing, so that open does not block and reads do
			// not end.
			pipe, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			l := newLab(t, Policy{Pipe: path})
			p := l.start(tt.shell, "-c", tt.script, tt.shell, path)
			var got strings.Builder
			l.onInput = func() {
				n := int(l.Inbox())
				buf := make([]byte, n)
				if _, err := io.ReadFull(pipe, buf); err != nil {
					t.Fatal(err)
				}
				l.Read(n)
				fmt.Fprintf(&got, "%v %q\n", l.passed().Truncate(time.Microsecond), buf)
			}
			l.run()
			p.check(t, "")
			if diff := cmp.Diff("3s \"hello\\n\"\n5s \"again\\n\"\n", got.String()); diff != "" {
				t.Errorf("the driver read (-want +got):\n%s", diff)
			}
			if l.Inbox() != 0 {
				t.Errorf("inbox = %d at the end", l.Inbox())
			}
			l.checkSlept(6 * time.Second)
			l.checkCount()
		})
	}
}

// TestOutsidePeer checks that virtual time stands still while a process waits for an unmanaged
// server, which needs real time to answer.
func TestOutsidePeer(t *testing.T) {
	serve := func(ln net.Listener) {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for {
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			time.Sleep(30 * time.Millisecond)
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}
	for _, network := range []string{"unix", "tcp4"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "socket")
			}
			ln, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go serve(ln)
			if network == "tcp4" {
				address = fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
			}
			l := newLab(t, Policy{})
			// Another process, whose deadlines would come next.
			other := l.start(program(t, "clockwork"), "steps", "150", "100")
			p := l.start(program(t, "clockwork"), "outside", address)
			l.run()
			other.check(t, "")
			s := time.Second
			p.check(t, stamp("answered", 0)+stamp("answered", 5*s)+stamp("answered", 10*s))
			l.checkPassed(15 * s)
		})
	}
}

func TestOtherABIIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*shared)
		want  string
	}{
		{"version", func(s *shared) { s.version++ }, "made by another version of rmreplay"},
		{"slots", func(s *shared) { s.slots++ }, "made by another version of rmreplay"},
		{"magic", func(s *shared) { s.magic = 0 }, "not a clock file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Policy{})
			tt.spoil(l.s)
			p := l.start("/bin/sleep", "1")
			l.run()
			if p.status != "exit status 127" || !strings.Contains(p.output(), tt.want) {
				t.Errorf("%s, %q; want exit status 127 and %q", p.status, p.output(), tt.want)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		cmd := exec.Command("/bin/sleep", "0")
		cmd.Env = []string{"LD_PRELOAD=" + buildShim(t), "RMREPLAY_CLOCK=/nonexistent/clock"}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 127 ||
			!strings.Contains(string(out), "/nonexistent/clock: No such file or directory") {
			t.Errorf("%v, %q; want exit status 127 and the reason", err, out)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "clock")
		if err := os.WriteFile(path, []byte("rclk"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sleep", "0")
		cmd.Env = []string{"LD_PRELOAD=" + buildShim(t), "RMREPLAY_CLOCK=" + path}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not a clock file") {
			t.Errorf("%v, %q", err, out)
		}
	})
}

func TestDeadlockIsReported(t *testing.T) {
	l := newLab(t, Policy{})
	l.start(program(t, "clockwork"), "deadlock")
	err := l.waitTo(hpc.Never)
	var dead *DeadlockError
	if !errors.As(err, &dead) {
		t.Fatalf("Wait: %v, want a deadlock", err)
	}
	if dead.Now != epoch.Add(time.Second) {
		t.Errorf("at %v, want a second after the start", dead.Now)
	}
	checkThreads(t, dead.Threads, map[string]string{
		"clockwork": "waiting: thread to end", "waits-cond": "waiting: condition variable", "waits-sem": "waiting: semaphore",
		"waits-join": "waiting: thread to end", "waits-read": "waiting in kernel: input on fd", "waits-mutex": "waiting: mutex",
	})
	if !strings.Contains(err.Error(), "waits-sem") {
		t.Errorf("the message does not name the threads:\n%v", err)
	}
	l.killAll()
}

// TestForeignBytes reads more bytes than managed processes have sent. The clock reports this
// before virtual time advances.
func TestForeignBytes(t *testing.T) {
	l := newLab(t, Policy{})
	l.start("sleep", "10")
	if err := l.waitTo(epoch.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	l.Read(3)
	err := l.waitTo(epoch.Add(time.Minute))
	var count *CountError
	if !errors.As(err, &count) || count.Extra != 3 || count.Now != epoch.Add(time.Second) {
		t.Errorf("Wait: %v, want 3 bytes too many a second after the start", err)
	}
	l.Read(-3)
	l.killAll()
}

func TestStallIsReported(t *testing.T) {
	l := newLab(t, Policy{})
	l.stall.after = 300 * time.Millisecond
	l.start(program(t, "clockwork"), "stall")
	err := l.waitTo(epoch.Add(time.Hour))
	var stalled *StallError
	if !errors.As(err, &stalled) {
		t.Fatalf("Wait: %v, want a stall", err)
	}
	if stalled.Now != epoch.Add(time.Second) || stalled.After != 300*time.Millisecond {
		t.Errorf("at %v after %v", stalled.Now, stalled.After)
	}
	checkThreads(t, stalled.Threads, map[string]string{"stalls": "running: "})
	if !strings.Contains(err.Error(), "stalls") {
		t.Errorf("the message does not name the thread:\n%v", err)
	}
	l.killAll()
}

// TestSilentPeerIsReported has a process that waits again and again for another process in real
// time, which does not answer. Virtual time advances between the waits.
func TestSilentPeerIsReported(t *testing.T) {
	address := filepath.Join(t.TempDir(), "socket")
	ln, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := newLab(t, Policy{})
	l.stall.rest.after, l.stall.rest.excuses = 1500*time.Millisecond, 0
	l.start(program(t, "clockwork"), "unanswered", address)
	err = l.waitTo(epoch.Add(1000 * time.Hour))
	var stalled *StallError
	if !errors.As(err, &stalled) || !stalled.Unanswered {
		t.Fatalf("Wait: %v, want a peer that does not answer", err)
	}
	if !strings.Contains(err.Error(), "such as the database, does not answer") || stalled.Now <= epoch {
		t.Errorf("%v", err)
	}
	l.killAll()
}

// TestBusyPeerIsNoStall has a process that waits for a process in real time, which computes for
// longer than a stall takes. This is a stall only if the clock does not know the process in real
// time.
func TestBusyPeerIsNoStall(t *testing.T) {
	for _, known := range []bool{true, false} {
		address := filepath.Join(t.TempDir(), "socket")
		ln, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			var b [1]byte
			for n, _ := conn.Read(b[:]); n == 1; n, _ = conn.Read(b[:]) {
				for begin := procfs.Process(os.Getpid()).CPU; procfs.Process(os.Getpid()).CPU < begin+time.Second; {
				}
				_, _ = conn.Write(b[:]) // the process may have been killed
			}
		}()
		l := newLab(t, Policy{})
		l.stall.after = 300 * time.Millisecond
		if known {
			l.Outside(os.Getpid()) // the test plays the peer
		}
		l.start(program(t, "clockwork"), "outside", address)
		var stalled *StallError
		if err := l.waitTo(epoch.Add(time.Hour)); errors.As(err, &stalled) == known || known && err != nil {
			t.Errorf("known %t: Wait: %v", known, err)
		}
		l.killAll()
	}
}

func TestRestWatch(t *testing.T) {
	begin := time.Now()
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	w := restWatch{after: 20 * time.Second}
	var got []string
	for _, look := range []struct{ at, cpu float64 }{
		{0, 5}, {1, 5}, {19, 5}, {20, 5}, // no look for 18 s
		{21, 5}, {22, 6}, {23, 6}, {24, 6}, {25, 6}, {26, 6}, {27, 6}, {28, 6}, {29, 6}, {30, 6}, {31, 6}, {32, 6}, {33, 6},
		{34, 6}, {35, 6}, {36, 6}, {37, 6}, {38, 6}, {39, 6}, // a second of CPU since 19 s
		{40, 6}, {42, 6}, {44, 6}, {46, 6}, {48, 6}, {50, 6}, {52, 6}, {54, 6}, {56, 6}, {58, 6.1}, {60, 6.1}, // 0.1 s since 39 s
		{62, 3}, {64, 3}, {66, 3}, {68, 3}, {70, 3}, {72, 3}, {74, 3}, {76, 3}, {78, 3}, {80, 3}, // a process has ended
	} {
		if w.rests(begin.Add(seconds(look.at)), func() demand { return demand{cpu: seconds(look.cpu)} }) {
			got = append(got, fmt.Sprint(look.at))
		}
	}
	if want := []string{"60"}; !slices.Equal(got, want) {
		t.Errorf("rests at %v s, want %v", got, want)
	}

	// Processes that get hardly any CPU time: in 20 s, threads wait for a CPU, or the driver is
	// away.
	for _, one := range []struct {
		delay, away, driver float64 // part of each second
		rests               float64 // seconds after which the processes rest, or 0
	}{
		{0, 0, 0, 20},
		{0.1, 0.1, 0.2, 20},
		{0.3, 0, 0, 0},
		{0, 0.3, 0, 0},
		{0.2, 0.2, 0, 0},
		{0, 0, 0.3, 20 + 20*maxExcuses}, // the excuses are limited
	} {
		w, rests := restWatch{after: 20 * time.Second, excuses: maxExcuses}, 0.0
		for s := 0.0; s <= 60+20*maxExcuses && rests == 0; s++ {
			w.seen = begin.Add(seconds(s - one.away))
			w.returned(begin.Add(seconds(s)))
			used := demand{cpu: seconds(0.001 * s), delay: seconds(one.delay * s), driver: seconds(one.driver * s)}
			if w.rests(begin.Add(seconds(s)), func() demand { return used }) {
				rests = s
			}
		}
		if rests != one.rests {
			t.Errorf("%+v: rests after %v s", one, rests)
		}
	}
}

// TestDelay checks that a thread has a delay if it waits for a CPU that another thread uses.
func TestDelay(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skipf("SKIPPED: the kernel does not say how long threads wait for a CPU: %v", err)
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !allowed.IsSet(first) {
		first++
	}
	var busy [2]*exec.Cmd
	for i := range busy {
		busy[i] = exec.Command("taskset", "-c", fmt.Sprint(first), "sh", "-c", "while :; do :; done")
		if err := busy[i].Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = busy[i].Process.Kill(); _ = busy[i].Wait() }()
	}
	for limit := time.Now().Add(time.Minute); procfs.Delay(busy[0].Process.Pid) < 100*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("two processes on one CPU: a delay of %v", procfs.Delay(busy[0].Process.Pid))
		}
	}
	if d := procfs.Delay(1 << 30); d != 0 {
		t.Errorf("no process: %v", d)
	}
}

func TestSpinIsReported(t *testing.T) {
	l := newLab(t, Policy{})
	l.stall.spin.after = 200 * time.Millisecond
	l.start(program(t, "clockwork"), "spin")
	err := l.waitTo(epoch.Add(time.Hour))
	var stalled *StallError
	if !errors.As(err, &stalled) {
		t.Fatalf("Wait: %v, want a stall", err)
	}
	if stalled.Now != epoch.Add(time.Second) || stalled.CPU <= l.stall.spin.after {
		t.Errorf("at %v after %v of CPU time", stalled.Now, stalled.CPU)
	}
	checkThreads(t, stalled.Threads, map[string]string{"spins": "running: "})
	l.killAll()
}

// TestLongWorkIsNoSpin has passes of computing that grow, but each takes less than spinTimes
// times the longest pass before it.
func TestLongWorkIsNoSpin(t *testing.T) {
	begin := time.Now()
	cpu := time.Duration(0)
	w := spinWatch{after: 20 * time.Millisecond}
	w.reset(begin)
	for pass, takes := range []time.Duration{20, 100, 500, 2500, 20000} { // ms of CPU time
		now := epoch.Add(time.Duration(pass) * time.Second)
		w.spins(now, nil)
		w.since = time.Now().Add(-takes * time.Millisecond)
		w.spins(now, func() time.Duration { return cpu })
		cpu += takes * time.Millisecond
		if used := w.spins(now, func() time.Duration { return cpu }); used > 0 {
			t.Errorf("pass %d of %v ms is taken for a spin of %v", pass, int(takes), used)
		}
	}
	now := epoch.Add(time.Hour)
	w.spins(now, nil)
	w.since = time.Now().Add(-time.Hour)
	w.spins(now, func() time.Duration { return cpu })
	if used := w.spins(now, func() time.Duration { return cpu + 401*time.Second }); used != 401*time.Second {
		t.Errorf("401 s after passes of at most 20 s: %v", used)
	}
}

// TestWorkIsNoStall lets a process compute for longer than a stall takes.
func TestWorkIsNoStall(t *testing.T) {
	l := newLab(t, Policy{})
	l.stall.after = 200 * time.Millisecond
	p := l.start("/bin/sh", "-c", `i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; sleep 1`)
	l.run()
	p.check(t, "")
	l.checkSlept(time.Second)
}

// checkThreads compares names with the start of "state: what it waits for".
func checkThreads(t *testing.T, threads []Thread, want map[string]string) {
	t.Helper()
	if len(threads) != len(want) {
		t.Errorf("%d threads, want %d", len(threads), len(want))
	}
	for _, th := range threads {
		got := th.State + ": " + th.WaitsFor
		if w, ok := want[th.Name]; !ok || !strings.HasPrefix(got, w) {
			t.Errorf("thread %q is %q, want %q", th.Name, got, w)
		}
	}
}

func (l *lab) killAll() {
	l.TouchSignal()
	for _, p := range l.all {
		// The process may have ended by itself.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	l.run()
	l.checkCount()
}

// TestKill kills processes, with their threads and children, at random moments. Virtual time must
// continue for the other processes, and the count of running threads must be right.
func TestKill(t *testing.T) {
	l := newLab(t, Policy{})
	other := l.start(program(t, "clockwork"), "steps", "20000", "1")
	for i := range 20 {
		victim := l.start(program(t, "clockwork"), "victim")
		if err := l.waitTo(epoch.Add(time.Duration(i+1) * 100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		// From another thread, while the clock runs.
		kill := time.AfterFunc(time.Duration(i)*200*time.Microsecond, func() {
			_ = syscall.Kill(-victim.cmd.Process.Pid, syscall.SIGKILL)
		})
		for left := l.left; l.left == left; {
			if err := l.waitTo(l.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if l.passed() > 19*time.Second {
				// The clock was faster than the kill.
				break
			}
		}
		kill.Stop()
	}
	for _, p := range l.all[1:] {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	l.run()
	other.check(t, "")
	want := int32(1)
	if got := l.s.busy.Load(); got != want {
		t.Errorf("busy = %d at the end, want %d\n%s", got, want, FormatThreads(l.Threads(), l.Now()))
	}
	if left := l.Threads(); len(left) > 0 {
		t.Errorf("threads are left:\n%s", FormatThreads(left, l.Now()))
	}
}

// TestRepair makes the state that a process leaves if it is killed during a step of the clock: the
// clock's lock is held, the count is too high, and sleepers were marked but not woken.
func TestRepair(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "steps", "10", "1000")
	if err := l.waitTo(epoch.Add(4500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("/bin/true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	l.s.lock.Store(uint32(dead.Process.Pid))
	l.s.busy.Add(1)
	sl := &l.s.slot[0]
	if sl.state.Load() != stateSlot {
		t.Fatalf("the sleeper's state is %d", sl.state.Load())
	}
	sl.state.Store(stateRunning)
	l.s.busy.Add(1)
	l.s.now.Store(int64(epoch.Add(5 * time.Second)))
	l.run()
	p.check(t, "")
	l.checkPassed(10 * time.Second)
	if got := l.s.busy.Load(); got != 1 || l.Stats().Repairs == 0 {
		t.Errorf("busy = %d, %d repairs", got, l.Stats().Repairs)
	}
}

func TestNotify(t *testing.T) {
	l := newLab(t, Policy{})
	go func() {
		time.Sleep(20 * time.Millisecond)
		l.Notify()
	}()
	slot, _ := l.Reserve() // stands for a thread that runs for ever
	wake, err := l.Wait(t.Context(), hpc.Never)
	if wake != Notified || err != nil {
		t.Errorf("Wait: %v, %v; want Notified", wake, err)
	}
	l.Unreserve(slot)
	l.checkCount()
}

// TestInterrupt checks that Interrupt ends a wait while a managed thread runs for ever.
func TestInterrupt(t *testing.T) {
	l := newLab(t, Policy{})
	l.start(program(t, "clockwork"), "spin")
	if wake, err := l.Wait(t.Context(), epoch.Add(time.Second/2)); wake != AtLimit || err != nil {
		t.Fatalf("Wait: %v, %v; want the limit", wake, err)
	}
	go func() {
		for l.Now() < epoch.Add(time.Second) { // then it spins
			time.Sleep(time.Millisecond)
		}
		l.Interrupt()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wake, err := l.Wait(ctx, epoch.Add(time.Hour))
	if wake != Notified || err != nil || l.Now() != epoch.Add(time.Second) {
		t.Errorf("Wait: %v, %v at %v; want Notified after a second", wake, err, l.Now())
	}
	l.killAll()
}

// BenchmarkStep measures three kinds of steps of the clock: made in place by the only thread,
// handed from one thread to another, and with 20 threads in the kernel that the driver must check.
func BenchmarkStep(b *testing.B) {
	for _, bb := range []struct {
		name  string
		steps int
		args  []string
	}{
		{"sleep", 1, []string{"steps", "%d", "100"}},
		{"pingpong", 2, []string{"pingpong", "%d"}},
		{"crowd", 1, []string{"crowd", "%d"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			l := newLab(b, Policy{})
			args := append([]string(nil), bb.args...)
			args[1] = fmt.Sprintf(args[1], b.N)
			l.start(program(b, "clockwork"), args...)
			b.ResetTimer()
			l.run()
			b.StopTimer()
			st := l.Stats()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bb.steps), "ns/step")
			b.ReportMetric(float64(st.InPlace)/float64(st.InPlace+st.Driver), "in-place/step")
		})
	}
}
