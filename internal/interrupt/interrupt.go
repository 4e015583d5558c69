// Package interrupt ends the program after SIGINT, SIGTERM or SIGHUP.
//
// The first signal cancels the context of the command. A [Hold] protects work that must be
// completed, such as the record of a run: the program continues until the work is complete. All
// other code ends within [Grace], wherever it is: in a blocked read, in a decompression, in a long
// computation. So only the code under a hold has to look at its context. A second signal ends the
// program at once.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Grace is the real time in which a command without a hold may end by itself.
const Grace = 500 * time.Millisecond

// echo is the real time in which several signals count as one. When a terminal closes, the
// kernel and the shell both send SIGHUP, and timeout(1) sends its signal to the process and to
// its group.
const echo = 250 * time.Millisecond

// holds counts the holds. released is when the last hold was released.
var holds struct {
	sync.Mutex
	number   int
	released time.Time
}

// Hold keeps the program running after the first signal until the caller calls the function
// release. The caller must end soon once its context is cancelled.
func Hold() (release func()) {
	holds.Lock()
	defer holds.Unlock()
	holds.number++
	return sync.OnceFunc(func() {
		holds.Lock()
		defer holds.Unlock()
		holds.number--
		holds.released = time.Now()
	})
}

// idle returns the time since the last hold was released, but at most the time since the given
// instant. It returns 0 if there is a hold.
func idle(since time.Time) time.Duration {
	holds.Lock()
	defer holds.Unlock()
	if holds.number > 0 {
		return 0
	}
	if holds.released.After(since) {
		since = holds.released
	}
	return time.Since(since)
}

// caught returns the signals that interrupt the program. nohup(1) makes a program ignore SIGHUP;
// the program then keeps ignoring it.
func caught() []os.Signal {
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Run calls a command and returns its exit status. The result ended is false if the program must
// exit although the command has not returned. The command may continue to run until the program
// ends.
func Run(command func(context.Context) int) (status int, ended bool) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, caught()...)
	defer signal.Stop(signals)
	return run(command, signals)
}

func run(command func(context.Context) int, signals <-chan os.Signal) (status int, ended bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan int, 1)
	go func() { done <- command(ctx) }()
	select {
	case status := <-done:
		return status, true
	case <-signals:
	}
	first := time.Now()
	cancel()
	look := time.NewTicker(Grace / 10)
	defer look.Stop()
	for {
		select {
		case status := <-done:
			return status, true
		case <-signals:
			if time.Since(first) > echo {
				return 0, false
			}
		case <-look.C:
			if idle(first) > Grace {
				return 0, false
			}
		}
	}
}
