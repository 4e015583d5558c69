package vclock

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAsleep compares what the driver says of a thread with what the thread does.
func TestAsleep(t *testing.T) {
	if !wchanWorks() {
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
			runtime.LockOSThread() // which ends with the goroutine
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
			thread, err := openThread(int32(pid), int32(tid))
			if err != nil {
				t.Fatal(err)
			}
			defer thread.close()
			for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
				if got, _ := thread.channel(); got == c.want {
					break // it got there
				}
			}
			for range 100 {
				if got, err := thread.channel(); err != nil || got != c.want {
					t.Fatalf("channel() = %v, %v, want %v", got, err, c.want)
				}
				if asleep, err := thread.asleep(); err != nil || asleep != (c.want != running) {
					t.Fatalf("asleep() = %v, %v", asleep, err)
				}
			}
		})
	}
}
