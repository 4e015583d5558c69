// Package vclock is the virtual clock under which stock programs run.
//
// Virtual time stands still while any managed thread can run, and jumps to the
// next deadline, or to the driver's next event, the moment all of them wait. A
// slow machine makes a replay slower, never wrong, and there is no rate to choose.
//
// A managed process has the library of package shim preloaded and shares one
// memory-mapped file, the clock, with the driver. Each of its threads has a slot
// there. The comment in shim/clock.c describes the protocol; this package is the
// driver's end of it:
//
//   - The driver counts as one more running thread while it works, and gives that
//     up in [Clock.Wait], which returns when the driver's own next event is due,
//     when a managed process has sent it something, or when it was notified.
//   - Before it writes to a managed process, or signals one, it calls [Clock.Touch].
//   - It counts what it has read with [Clock.Read].
//   - It reserves a slot for each process that it starts ([Clock.Reserve]) and
//     collects those that ended ([Clock.Collect]).
//
// Threads that idle while nothing is in flight advance the clock themselves,
// without a context switch. Wait does what needs a look at the kernel: whether each
// thread that waits there is asleep (state S), so that no wake-up is on its way.
package vclock

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
)

// Clock is the driver's end of a virtual clock. Its methods belong to the driver's
// goroutine, except Notify and Now, which anyone may call.
type Clock struct {
	path     string
	mem      []byte
	s        *shared
	threads  map[int]*threadStat // by slot: how to look at a thread in the kernel
	notified atomic.Bool
	stats    Stats
	stall    stallWatch
	own      map[int]bool // processes that the driver has started and not collected
	signals  uint32       // of the shared counter, when every waiting thread was last looked at
}

// Stats counts what the clock did.
type Stats struct {
	// InPlace counts the advances made by managed threads without the driver.
	InPlace uint64
	// Driver counts the advances made by the driver.
	Driver uint64
	// Looks counts the looks at threads in the kernel, and Retries those that found one not asleep yet.
	Looks, Retries uint64
	// Repairs counts what a process left undone that was killed in the midst of a
	// step of the clock, and that the driver has done in its stead.
	Repairs uint64
	// Paid is the virtual time that threads have waited for what they had computed,
	// all of them together: see SetFactor.
	Paid time.Duration
}

// Addresses tell the shim which of a process's peers is the driver.
type Addresses struct {
	// Client is the IPv4 address from which the driver connects; nobody else uses it.
	Client net.IP
	// NodePort is the TCP port at which the driver listens for all compute nodes.
	NodePort int
	// Pipe is the path of a named pipe that managed processes write and the driver
	// reads, or empty.
	Pipe string
}

// New creates the clock's file in dir, readable by its owner only, with virtual
// time standing at start. The driver counts as running.
func New(dir string, start hpc.Time, addr Addresses) (*Clock, error) {
	path := filepath.Join(dir, "clock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the virtual clock: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(int64(sharedSize)); err != nil {
		return nil, fmt.Errorf("creating the virtual clock: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the virtual clock: %w", err)
	}
	c := &Clock{path: path, mem: mem, s: (*shared)(unsafe.Pointer(&mem[0])), threads: map[int]*threadStat{}, own: map[int]bool{},
		stall: stallWatch{after: stallAfter, spin: spinWatch{after: spinAfter}}}
	s := c.s
	s.version, s.slots, s.slotSize = abiVersion, slotCount, slotSize
	copy(s.driverIP[:], addr.Client.To4())
	s.driverPort = [2]byte{byte(addr.NodePort >> 8), byte(addr.NodePort)}
	if addr.Pipe != "" {
		var st unix.Stat_t
		if err := unix.Stat(addr.Pipe, &st); err != nil {
			return nil, fmt.Errorf("looking at the pipe %s: %w", addr.Pipe, err)
		}
		s.fifoDev, s.fifoIno = st.Dev, st.Ino
	}
	s.now.Store(int64(start))
	s.limit.Store(int64(start))
	s.busy.Store(1)
	s.epoch.Store(1)
	s.magic = abiMagic
	return c, nil
}

// Close unmaps the clock. Managed processes keep their own mappings.
func (c *Clock) Close() error {
	for _, t := range c.threads {
		t.close()
	}
	c.threads = nil
	mem := c.mem
	c.mem, c.s = nil, nil
	return unix.Munmap(mem)
}

// Now is the current virtual time.
func (c *Clock) Now() hpc.Time { return hpc.Time(c.s.now.Load()) }

// Stats returns the counters so far.
func (c *Clock) Stats() Stats {
	st := c.stats
	st.InPlace = c.s.steps.Load()
	st.Paid = time.Duration(c.s.paid.Load())
	return st
}

// Path is the clock's file, for [Look].
func (c *Clock) Path() string { return c.path }

// Environment is what a managed process needs besides its reserved slot.
func (c *Clock) Environment() []string { return []string{"RMREPLAY_CLOCK=" + c.path} }

// PaysEnvironment is the environment variable of a process whose computing takes virtual
// time once SetFactor says so. Its children do not inherit it.
const PaysEnvironment = "RMREPLAY_PAYS=1"

// SetFactor says how much virtual time the computing of processes with
// [PaysEnvironment] takes from here on: the CPU time, user and system, of each thread,
// times factor. 0, as at the start, is none. Threads that compute at the same time do
// so in parallel in virtual time, too. What they have computed is paid for in pieces of
// 0.1 ms of CPU time, or 20 µs where they look at the clock.
func (c *Clock) SetFactor(factor float64) { c.s.factor.Store(math.Float64bits(factor)) }

// CoarseEnvironment returns the environment variable of a process that has a thread whose
// work can wait: for the thread that calls itself thread (prctl(2), PR_SET_NAME), time(2)
// goes in steps of step, in whole seconds, and a wait for a condition with a time limit ends
// at a step. The children of the process do not inherit it.
func CoarseEnvironment(thread string, step time.Duration) string {
	return fmt.Sprintf("RMREPLAY_COARSE=%s=%d", thread, int64(step/time.Second))
}

// Reserve takes a slot for a process that is about to be started, which counts as
// running from here on. It returns the slot and the environment variable that hands
// it to the process.
func (c *Clock) Reserve() (slot int, env string) {
	i := c.newSlot()
	return i, "RMREPLAY_SLOT=" + strconv.Itoa(i)
}

// Started says which process got the reserved slot. The process may have said so first.
// Time does not go on after its end before [Clock.Collect].
func (c *Clock) Started(slot, pid int) {
	c.own[pid] = true
	c.s.slot[slot].pid.CompareAndSwap(-1, int32(pid))
}

// Unreserve gives a slot back whose process could not be started.
func (c *Clock) Unreserve(slot int) {
	if s := &c.s.slot[slot]; disown(s, -1) {
		c.freeSlot(s)
	}
}

// Collect frees the slots of a process that has ended.
func (c *Clock) Collect(pid int) {
	delete(c.own, pid)
	for i := range c.s.used.Load() {
		if s := &c.s.slot[i]; disown(s, pid) {
			c.freeSlot(s)
		}
	}
}

// Touch says that something which may wake a managed thread in the kernel is about
// to happen: the driver's write or connection.
func (c *Clock) Touch() { c.s.epoch.Add(1) }

// TouchSignal is Touch for a signal, which reaches threads that wait for something
// else, too.
func (c *Clock) TouchSignal() {
	c.s.signals.Add(1)
	c.s.epoch.Add(1)
}

// Read says that the driver has read n bytes that managed processes had sent it.
func (c *Clock) Read(n int) { c.s.inbox.Add(-int64(n)) }

// Inbox is the number of bytes on their way to the driver.
func (c *Clock) Inbox() int64 { return c.s.inbox.Load() }

// Notify makes Wait return soon. Any goroutine may call it.
func (c *Clock) Notify() {
	c.notified.Store(true)
	c.s.driverWord.Add(1)
	futexWake(&c.s.driverWord)
}

// Listening reports whether a managed process listens at the TCP port.
func (c *Clock) Listening(port uint16) bool {
	return c.s.ports[port>>6].Load()>>(port&63)&1 != 0
}

// newSlot returns the index of a fresh slot in state running, counted.
func (c *Clock) newSlot() int {
	for i := range c.s.slot {
		s := &c.s.slot[i]
		if s.state.Load() != stateFree {
			continue
		}
		c.s.busy.Add(1)
		if !s.state.CompareAndSwap(stateFree, stateRunning) {
			c.s.busy.Add(-1)
			continue
		}
		s.pid.Store(-1)
		s.tid.Store(0)
		s.why.Store(0)
		s.deadline.Store(never)
		for {
			used := c.s.used.Load()
			if used > uint32(i) || c.s.used.CompareAndSwap(used, uint32(i)+1) {
				return i
			}
		}
	}
	panic("vclock: no free slot")
}

// disown takes a slot from its process. Who frees a slot must have done so: the
// process's parent may be about to free it as well, and it may have a new owner then.
func disown(s *slot, pid int) bool { return s.pid.CompareAndSwap(int32(pid), 0) }

// freeSlot takes a dead thread, whose slot the caller has disowned, out of the count.
func (c *Clock) freeSlot(s *slot) {
	if st := s.state.Swap(stateFree); st == stateRunning || st == stateExiting {
		c.s.busy.Add(-1)
	}
}
