package vclock

import (
	"golang.org/x/sys/unix"

	"rmreplay/internal/procfs"
)

// Turns. One managed thread runs at a time: the thread that has the turn (shared.turn). The
// comment in shim/clock.c describes the order. A thread that begins to wait gives the turn to the
// next thread itself. The driver gives the turn to threads that the kernel has woken. The driver
// also gives the turn if the last thread could not pass it on, for example because its process was
// killed. The caller of these functions must hold the clock's lock.

// giveTurn gives the turn to the thread of slot i. The thread must count as running, and its state
// must be from. giveTurn returns false if the thread is in another state. After true, the caller
// wakes the thread.
func (c *Clock) giveTurn(i int, from uint32) bool {
	c.s.turn.Store(uint32(i) + 1)
	if c.s.slot[i].state.CompareAndSwap(from, stateRunning) {
		return true
	}
	c.s.turn.Store(0)
	return false
}

// passTurn gives the turn to the ready thread with the lowest ticket. It returns false if no thread
// is ready.
func (c *Clock) passTurn() bool {
	s := c.s
	next := -1
	for i := range int(s.used.Load()) {
		sl := &s.slot[i]
		if sl.state.Load() == stateReady && (next < 0 || sl.ticket.Load() < s.slot[next].ticket.Load()) {
			next = i
		}
	}
	if next < 0 || !c.giveTurn(next, stateReady) {
		return false
	}
	futexWake(&s.slot[next].state)
	return true
}

// admit makes all threads that the kernel has woken ready, in the order of their slots, and gives
// the turn to the first. It returns false if there are none. All other threads sleep now, so the
// set of woken threads does not depend on the kernel.
func (c *Clock) admit() bool {
	s := c.s
	admitted := false
	for i := range int(s.used.Load()) {
		sl := &s.slot[i]
		if sl.state.Load() != stateArrived {
			continue
		}
		s.busy.Add(1)
		sl.ticket.Store(s.tickets.Add(1) - 1)
		if sl.state.CompareAndSwap(stateArrived, stateReady) {
			admitted = true
		} else {
			s.busy.Add(-1)
		}
	}
	return admitted && c.passTurn()
}

// withoutTurn handles the case that threads count as running, but no thread has the turn or is
// ready for it: either their process is ending, or the threads are blocked.
func (c *Clock) withoutTurn() advanceResult {
	s := c.s
	if c.notified.Load() {
		return c.acceptNotice()
	}
	exiting := false
	for i := range int(s.used.Load()) {
		sl := &s.slot[i]
		pid := int(sl.pid.Load())
		switch {
		case sl.state.Load() == stateExiting:
			exiting = true
			if !c.own[pid] && procfs.Process(pid).Ended() {
				c.collectEnded(pid)
			}
		case sl.state.Load() == stateRunning && sl.why.Load() != whyOutside && c.asleep(i) && c.admit():
			return moved
		}
	}
	if exiting {
		return inFlight
	}
	return computing
}

// collectEnded collects a process that has ended and that the driver did not start. The kernel shows state Z a moment
// before it wakes the parent, but the kernel holds the lock of its process table until then. Sending signal 0 to our
// own process group only waits for this lock.
func (c *Clock) collectEnded(pid int) {
	_ = unix.Kill(0, 0)
	c.Collect(pid)
}

// leaveBlocked takes the turn from a thread that sleeps in the kernel, because the thread may wait
// for another thread in a way that the preload library does not handle. It does not take the turn
// from a thread that waits for an unmanaged peer. If the thread waits for the driver to read,
// [Clock.Wait] then returns, and the driver can read.
func (c *Clock) leaveBlocked() {
	c.lockClock()
	defer c.unlockClock()
	turn := c.s.turn.Load()
	if turn == 0 {
		return
	}
	sl := &c.s.slot[turn-1]
	pid := int(sl.pid.Load())
	gone := pid <= 0 && c.notified.Load() || pid > 0 && procfs.Process(pid).Ended()
	if gone || sl.state.Load() == stateRunning && sl.why.Load() != whyOutside && c.asleep(int(turn-1)) {
		c.s.turn.CompareAndSwap(turn, 0)
	}
}
