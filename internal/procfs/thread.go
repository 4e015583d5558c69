package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Thread has the open files stat and wchan of /proc/PID/task/TID. The kernel uses a thread id
// again within minutes. An open file belongs to the thread for which it was opened: reads fail
// once that thread has ended.
type Thread struct {
	stat, wchan int
}

// OpenThread opens the files of a thread. [Thread.Close] closes them.
func OpenThread(pid, tid int) (*Thread, error) {
	dir := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	stat, err := unix.Open(dir+"stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &Thread{stat: stat, wchan: -1}
	if channelsWork() {
		if t.wchan, err = unix.Open(dir+"wchan", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

// Close closes the files.
func (t *Thread) Close() {
	unix.Close(t.stat)
	if t.wchan >= 0 {
		unix.Close(t.wchan)
	}
}

// Asleep reports whether the thread sleeps in state S, interruptible. An error means that the
// thread is gone.
//
// State S alone does not prove that the thread sleeps. A thread enters the state before it checks its condition for the
// last time. Between these two steps, the thread can lose its CPU although it is ready to run, but such a thread is on
// a run queue, and a thread on a run queue has no wait channel.
func (t *Thread) Asleep() (bool, error) {
	channel, err := t.channel()
	if err != nil || channel == running {
		return false, err
	}
	if channel == interruptible {
		return true, nil
	}
	var buf [256]byte
	n, err := unix.Pread(t.stat, buf[:], 0)
	if err != nil || stateOf(buf[:n]) != 'S' {
		return false, err
	}
	channel, err = t.channel()
	return channel != running, err
}

// channel is the meaning of a thread's wait channel for its state. The wait channel is the
// kernel's function in which the thread sleeps.
type channel int

const (
	anyState      channel = iota // sleeps in state S or D, or unknown
	running                      // runs or is ready to run
	interruptible                // sleeps in state S
)

// channel reads the wait channel. Managed threads wait mostly in the functions named here, and a thread in such a
// function is never in state D, so the wait channel alone proves that the thread sleeps. If a thread waits in such a
// function, Asleep need not read the stat file, which takes longer than everything else.
func (t *Thread) channel() (channel, error) {
	if t.wchan < 0 {
		return anyState, nil
	}
	var buf [64]byte
	n, err := unix.Pread(t.wchan, buf[:], 0)
	if err != nil || n == 0 || buf[0] == '0' {
		return running, err
	}
	name, _, _ := bytes.Cut(buf[:n], []byte(".")) // compilers append to names: "do_sigtimedwait.isra.0"
	switch string(name) {
	case "poll_schedule_timeout", // poll, select: fs/select.c
		"do_epoll_wait", "ep_poll", // epoll_wait: fs/eventpoll.c
		"do_sigtimedwait", // kernel/signal.c
		"inet_csk_accept": // net/ipv4/inet_connection_sock.c
		return interruptible, nil
	}
	return anyState, nil
}

// channelsWork reports whether the kernel shows wait channels. The kernel does not show them if it
// was built without symbols, or if this process may not read them. The test works because a Go
// program always has threads that sleep.
var channelsWork = sync.OnceValue(func() bool {
	files, _ := filepath.Glob("/proc/self/task/*/wchan")
	for range 10 {
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && len(b) > 0 && b[0] != '0' {
				return true
			}
		}
		time.Sleep(time.Millisecond)
	}
	return false
})
