package procfs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAsleep compares what this package says of a thread with what the thread does.
func TestAsleep(t *testing.T) {
	if !channelsWork() {
		t.Skip("the kernel does not tell wait channels")
	}
	// inThread calls wait in a thread of its own. wait returns once its pipe has input.
	inThread := func(t *testing.T, wait func(fd int)) (pid, tid int) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		id, done := make(chan int), make(chan struct{})
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			id <- unix.Gettid()
			wait(fds[0])
			close(done)
		}()
		t.Cleanup(func() {
			_, _ = unix.Write(fds[1], []byte{1})
			<-done
			unix.Close(fds[0])
			unix.Close(fds[1])
		})
		return os.Getpid(), <-id
	}
	for _, c := range []struct {
		name  string
		want  channel
		start func(*testing.T) (pid, tid int)
	}{
		{"polls", interruptible, func(t *testing.T) (int, int) {
			return inThread(t, func(fd int) { _, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) })
		}},
		{"reads", anyState, func(t *testing.T) (int, int) {
			return inThread(t, func(fd int) { _, _ = unix.Read(fd, make([]byte, 1)) })
		}},
		{"computes", running, func(t *testing.T) (int, int) {
			busy := exec.Command("sh", "-c", "echo; while :; do :; done")
			started, err := busy.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := busy.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
			if _, err := started.Read(make([]byte, 1)); err != nil { // a program that is being loaded may sleep
				t.Fatal(err)
			}
			return busy.Process.Pid, busy.Process.Pid
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid, tid := c.start(t)
			thread, err := OpenThread(pid, tid)
			if err != nil {
				t.Fatal(err)
			}
			defer thread.Close()
			for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
				if got, _ := thread.channel(); got == c.want {
					break // the thread has reached this state
				}
			}
			for range 100 {
				if got, err := thread.channel(); err != nil || got != c.want {
					t.Fatalf("channel() = %v, %v, want %v", got, err, c.want)
				}
				if asleep, err := thread.Asleep(); err != nil || asleep != (c.want != running) {
					t.Fatalf("Asleep() = %v, %v", asleep, err)
				}
			}
		})
	}
}

// TestBusyTimes: the times of all CPUs are read, and they do not go back.
func TestBusyTimes(t *testing.T) {
	before, after := BusyTimes(), BusyTimes()
	if len(before) == 0 {
		t.Fatal("/proc/stat has no CPU")
	}
	for cpu, d := range before {
		if d <= 0 || after[cpu] < d {
			t.Errorf("CPU %d: busy for %v, then for %v", cpu, d, after[cpu])
		}
	}
}

func TestParseStat(t *testing.T) {
	for line, want := range map[string]Stat{
		"7 (a) R) b) S 3 7 5 0 -1 4 1 1 1 1 250 50 0 0 20 0 9 0 1": {
			State: 'S', Parent: 3, Session: 5, Threads: 9, CPU: 3 * time.Second,
		},
		"7 (sh) Z": {State: 'Z'},
		"":         {},
		"no name":  {},
	} {
		if got := parseStat([]byte(line)); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
	for _, tt := range []struct {
		s    Stat
		want bool
	}{
		{Stat{}, true}, {Stat{State: 'Z', Threads: 1}, true}, {Stat{State: 'X', Threads: 1}, true},
		{Stat{State: 'Z', Threads: 2}, false}, {Stat{State: 'S', Threads: 1}, false},
	} {
		if got := tt.s.Ended(); got != tt.want {
			t.Errorf("%+v: ended %v, want %v", tt.s, got, tt.want)
		}
	}
}

// TestOfAChild compares the values that are read for a child with the known values.
func TestOfAChild(t *testing.T) {
	child := exec.Command("sh", "-c", "read line; exec 0<&-; :")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	waits := func() bool { return WaitChannel(pid, pid) != "" && Name(pid, pid) == "sh" }
	for limit := time.Now().Add(10 * time.Second); !waits(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%q sleeps in %q", Name(pid, pid), WaitChannel(pid, pid))
		}
	}
	if s := Processes()[pid]; s.State != 'S' || s.Parent != os.Getpid() || s.Session != pid || s.Threads != 1 {
		t.Errorf("%+v", s)
	}
	if states := string(TaskStates(pid)); states != "S" {
		t.Errorf("the threads are in the states %q", states)
	}
	if n, ok := Sleeps(pid, pid); !ok || n == 0 {
		t.Errorf("went to sleep %d times, %v", n, ok)
	}
	if peak := PeakMemory(pid); peak < 100<<10 || peak > 100<<20 {
		t.Errorf("a peak of %d bytes", peak)
	}
	in.Close()
	for limit := time.Now().Add(10 * time.Second); !Process(pid).Ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it does not end")
		}
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if s := Task(pid, pid); s != (Stat{}) || !s.Ended() || PeakMemory(pid) != 0 || TaskStates(pid) != nil {
		t.Errorf("after its end: %+v", s)
	}
}

// TestOneReader: no other package reads what /proc shows of other processes.
func TestOneReader(t *testing.T) {
	reads := regexp.MustCompile("\"/proc/(%d|\\[0-9\\]|\" ?\\+)|ReadDir\\(\"/proc\"\\)")
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		own := filepath.Dir(path) == "../procfs" || strings.HasSuffix(path, "_test.go")
		if err != nil || filepath.Ext(path) != ".go" || own {
			return err
		}
		text, err := os.ReadFile(path)
		if found := reads.Find(text); found != nil {
			t.Errorf("%s reads %s (want a function of this package)", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("process.go"); err != nil || !reads.Match(text) {
		t.Errorf("the pattern does not find the reader itself (%v)", err)
	}
}
