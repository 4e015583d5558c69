package vclock

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/procfs"
)

// Wake is the reason why [Clock.Wait] returned.
type Wake int

const (
	// AtLimit: virtual time has reached the driver's own next event.
	AtLimit Wake = iota
	// Input: a managed process has sent the driver something.
	Input
	// Notified: Notify or Interrupt was called, or the context ended.
	Notified
)

// Wait lets virtual time pass, at most to limit, and returns why it stopped. It blocks the thread
// of the calling goroutine in a futex, which the Go runtime does not notice. The errors are
// [*DeadlockError], [*StallError], [*CountError] and ctx's error.
func (c *Clock) Wait(ctx context.Context, limit hpc.Time) (Wake, error) {
	s := c.s
	s.limit.Store(int64(limit))
	s.busy.Add(-1)
	c.stall.begin()
	for tries := 0; ; {
		c.home.look()
		word := s.driverWord.Load()
		if c.interrupted.Swap(false) || ctx.Err() != nil {
			c.hold()
			return Notified, ctx.Err()
		}
		switch c.advance(limit) {
		case hasInput:
			return Input, nil
		case wasNotified:
			return Notified, nil
		case reachedLimit:
			return AtLimit, nil
		case moved:
			tries = 0
			c.stall.progress()
			continue
		case noDeadline:
			c.hold()
			return AtLimit, &DeadlockError{Threads: c.Threads(), Now: c.Now()}
		case miscounted:
			c.hold()
			return AtLimit, &CountError{Extra: -s.inbox.Load(), Now: c.Now()}
		case inFlight:
			tries++
			c.awaitArrival(word, tries)
		case computing:
			c.sleep(word)
			tries = 0
		}
		if err := c.lookAfter(); err != nil {
			c.hold()
			return AtLimit, err
		}
	}
}

// hold makes the driver count as running again.
func (c *Clock) hold() {
	c.lockClock()
	c.s.busy.Add(1)
	c.unlockClock()
}

func (c *Clock) lockClock() {
	for i := 0; !c.s.lock.CompareAndSwap(0, driverOwns); i++ {
		if i > 100 {
			backOff(i)
		}
		if i%500 == 499 && c.inherit() {
			return
		}
		runtime.Gosched()
	}
}

// driverOwns marks the driver as the owner of the clock's lock. Other owners are thread ids.
const driverOwns = ^uint32(0)

// inherit takes the lock from a thread that was killed while it held the lock. It returns false if
// the owner is alive.
func (c *Clock) inherit() bool {
	owner := c.s.lock.Load()
	dead := owner != 0 && owner != driverOwns && procfs.Process(int(owner)).Ended()
	if !dead || !c.s.lock.CompareAndSwap(owner, driverOwns) {
		return false
	}
	c.stats.Repairs++
	return true
}

func (c *Clock) unlockClock() { c.s.lock.Store(0) }

// backOff pauses for a moment. The pause grows with tries.
func backOff(tries int) {
	switch {
	case tries < 20:
		runtime.Gosched()
	case tries < 200:
		time.Sleep(10 * time.Microsecond)
	default:
		time.Sleep(200 * time.Microsecond)
	}
}

// sleep waits until the driver's word changes, but a few ms at most.
func (c *Clock) sleep(word uint32) {
	s := c.s
	s.driverWaiting.Store(1)
	if s.turn.Load() != 0 || s.busy.Load() != 0 {
		futexWait(&s.driverWord, word, 2*time.Millisecond)
	}
	s.driverWaiting.Store(0)
}

// awaitArrival waits until a thread that the kernel has woken announces itself. It waits only a
// moment, because the thread may go back to sleep without announcing itself.
func (c *Clock) awaitArrival(word uint32, tries int) {
	s := c.s
	s.driverWaiting.Store(1)
	futexWait(&s.driverWord, word, min(time.Duration(tries)*20*time.Microsecond, 200*time.Microsecond))
	s.driverWaiting.Store(0)
}

type advanceResult int

const (
	inFlight     advanceResult = iota // a thread is about to run
	computing                         // a thread runs
	hasInput                          // there is input; the driver counts as running
	wasNotified                       // Notify was called; the driver counts as running
	moved                             // the clock is at the next deadline
	reachedLimit                      // the clock is at the limit; the driver counts as running
	noDeadline                        // no thread will ever wake
	miscounted                        // the driver has read more bytes than were sent to it
)

// advance lets the next thread run. If all threads wait and nothing is in flight, advance moves the clock to the next
// deadline and wakes the thread that is due then. If several threads are due, advance wakes the one with the first
// slot, as advance_in_place in shim/clock.c does.
func (c *Clock) advance(limit hpc.Time) advanceResult {
	s := c.s
	if s.turn.Load() != 0 {
		return computing
	}
	c.lockClock()
	defer c.unlockClock()
	switch {
	case s.turn.Load() != 0:
		return computing
	case s.busy.Load() != 0 && c.passTurn():
		return moved
	case s.inbox.Load() > 0:
		s.busy.Add(1)
		return hasInput
	case s.busy.Load() != 0:
		return c.withoutTurn()
	case s.inbox.Load() < 0:
		// The bytes of a stream are counted before their writer begins to wait, but the driver may have
		// read them even earlier.
		return miscounted
	case !c.quiet():
		if c.notified.Load() && c.ownEnded() { // the threads of an ended process never sleep
			return c.acceptNotice()
		}
		return inFlight
	case c.admit():
		return moved
	case c.notified.Load():
		return c.acceptNotice()
	}
	return c.step(limit)
}

// acceptNotice lets Wait return because of Notify. The caller holds the lock.
func (c *Clock) acceptNotice() advanceResult {
	c.notified.Store(false)
	c.s.busy.Add(1)
	return wasNotified
}

// ownEnded reports whether a process that the driver has started has ended.
func (c *Clock) ownEnded() bool {
	for pid := range c.own {
		if procfs.Process(pid).Ended() {
			return true
		}
	}
	return false
}

// step moves the clock to the next deadline, or to the limit. The caller holds the lock, and all
// threads wait.
func (c *Clock) step(limit hpc.Time) advanceResult {
	c.trim()
	s := c.s
	next, due, from := int64(never), 0, stateFree
	for i := range int(s.used.Load()) {
		sl := &s.slot[i]
		st := sl.state.Load()
		if st != stateSlot && st != stateKernel {
			continue
		}
		if d := sl.deadline.Load(); d < next {
			next, due, from = d, i, st
		}
	}
	if next >= int64(limit) {
		if limit == hpc.Never {
			return noDeadline
		}
		s.now.Store(max(s.now.Load(), int64(limit)))
		s.busy.Add(1)
		return reachedLimit
	}
	s.now.Store(max(s.now.Load(), next))
	c.stats.Driver++
	s.busy.Add(1)
	if c.giveTurn(due, from) {
		wake(&s.slot[due], from)
	} else {
		s.busy.Add(-1)
	}
	return moved
}

// trim lowers the number of used slots to the last slot in use, which keeps searches short.
// slurmctld has hundreds of threads for short periods, and few threads otherwise. If a thread or
// process takes a higher slot meanwhile, it raises the number again, or trim does.
func (c *Clock) trim() {
	s := c.s
	for used := s.used.Load(); used > 0 && s.slot[used-1].state.Load() == stateFree; used-- {
		if !s.used.CompareAndSwap(used, used-1) {
			return
		}
		if s.slot[used-1].state.Load() != stateFree {
			c.raiseUsed(used)
			return
		}
	}
}

// raiseUsed makes searches include at least the slots below used.
func (c *Clock) raiseUsed(used uint32) {
	for {
		now := c.s.used.Load()
		if now >= used || c.s.used.CompareAndSwap(now, used) {
			return
		}
	}
}

// wakeSignal is SIGRTMIN + 5 of the preload library. glibc reserves the first two real-time signals
// for itself.
const wakeSignal = unix.Signal(34 + 5)

func wake(sl *slot, from uint32) {
	if from == stateSlot {
		futexWake(&sl.state)
		return
	}
	// An error means that the thread has ended; its process is collected later.
	_ = unix.Tgkill(int(sl.pid.Load()), int(sl.tid.Load()), wakeSignal)
}

func futexWake(word *atomic.Uint32) {
	// The call fails only if the word is not mapped. The call also succeeds if no thread waits.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1, 0, 0, 0)
}

func futexWait(word *atomic.Uint32, value uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(timeout))
	// The caller reads the word again after a wake, a timeout, a signal or a changed value. The call
	// is raw, so the Go runtime does not notice it. Otherwise a thread of the runtime would wake for
	// every wait to give the processor to another goroutine.
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// The operations of linux/futex.h.
const (
	futexOpWait = 0
	futexOpWake = 1
)
