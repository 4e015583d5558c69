// Package vclock is the virtual clock under which unmodified programs run.
//
// Virtual time stands still while any managed thread can run. When all managed threads wait, virtual time jumps to the
// next deadline or to the driver's next event. On a slow machine a replay takes longer, but its result is the same.
// There is no clock rate to choose.
//
// A managed process is one that runs with the preload library in directory shim. A managed process shares one
// memory-mapped file, the clock, with the driver, which is the program that calls this package. Each thread of the
// process has a slot in the file. The comment in shim/clock.c describes the protocol. The driver follows these rules:
//
//   - The driver counts as one more running thread, except in [Clock.Wait]. Wait returns when the
//     driver's own next event is due, when a managed process has sent the driver something, or
//     when Notify or Interrupt was called.
//   - The driver calls [Clock.Touch] before it writes to a managed process, and
//     [Clock.TouchSignal] before it sends a signal to a managed process.
//   - It calls [Clock.Read] with the number of bytes that it has read.
//   - It reserves a slot for each process that it starts ([Clock.Reserve]) and frees the slots of
//     processes that have ended ([Clock.Collect]).
//
// One managed thread runs at a time, in an order that does not depend on the kernel: see turn.go.
// While a thread runs, Wait returns only when ctx ends, after Interrupt, or with a [StallError].
//
// If no message or wake-up is in flight, the last thread that begins to wait advances the clock itself, without a
// context switch to the driver. If a message or wake-up may be in flight, Wait advances the clock, and first checks in
// /proc that each thread that waits in the kernel is asleep (state S). If all are asleep, no wake-up is on its way.
package vclock

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
)

// Clock is the driver's handle on a virtual clock. Only the driver's goroutine may call its
// methods, except Notify, Interrupt and Now, which any goroutine may call.
type Clock struct {
	path     string
	mem      []byte
	s        *shared
	threads  map[int]openThread // by slot: open files that show a thread's state in the kernel
	notified atomic.Bool
	// interrupted makes Wait return while threads run.
	interrupted atomic.Bool
	stats       Stats
	stall       stallWatch
	outside     []int        // processes in real time, see Outside
	own         map[int]bool // processes that the driver has started and not yet collected
	user        *user        // the managed processes' user; nil if the driver itself may read their /proc files
	home        home
	signals     uint32 // shared.signals at the last look at every waiting thread
}

// Stats counts what the clock has done since New.
type Stats struct {
	// InPlace counts the advances made by managed threads without the driver.
	InPlace uint64
	// Driver counts the advances made by the driver.
	Driver uint64
	// Looks counts the looks at threads that wait in the kernel. Retries counts those looks that
	// found a thread still awake.
	Looks, Retries uint64
	// Repairs counts the steps of the clock that a process could not complete because it was killed.
	// The driver completed them.
	Repairs uint64
	// Charged is the virtual time that threads have waited because of their own computing, summed
	// over all threads: see SetFactor.
	Charged time.Duration
}

// Policy is the driver's settings for the processes under its clock. The zero value suits programs
// that do not talk to the driver.
type Policy struct {
	// Client is the IPv4 address from which the driver connects. No other process uses it.
	Client net.IP
	// Port is the TCP port at which the driver listens.
	Port int
	// Pipe is the path of a named pipe into which managed processes write and from which the driver
	// reads. It may be empty.
	Pipe string
	// OwnAddress makes a process that connects to a managed port bind to the destination address
	// instead of 127.0.0.1. A server can then connect to its client at that address.
	OwnAddress bool
	// Inherited names environment variables that every child process keeps, even if its parent starts
	// it without them.
	Inherited []string
}

// New creates the clock's file in dir, readable by its owner only. Virtual time stays at start until the first Wait,
// because the driver counts as running. New returns errors of the file system and of mmap, and an error if policy has
// too many variables.
func New(dir string, start hpc.Time, policy Policy) (*Clock, error) {
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
	c := &Clock{
		path: path, mem: mem, s: (*shared)(unsafe.Pointer(&mem[0])),
		threads: map[int]openThread{}, own: map[int]bool{},
		stall: stallWatch{
			after: stallAfter, spin: spinWatch{after: spinAfter}, rest: restWatch{after: restAfter, excuses: maxExcuses},
		},
	}
	s := c.s
	s.version, s.slots, s.slotSize = abiVersion, slotCount, slotSize
	if err := s.decide(policy); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the virtual clock: %w", err), unix.Munmap(mem))
	}
	s.now.Store(int64(start))
	s.limit.Store(int64(start))
	s.busy.Store(1)
	s.epoch.Store(1)
	c.home.settle(s, c.cpuUsed)
	s.magic = abiMagic
	return c, nil
}

// decide stores the policy where managed processes find it.
func (s *shared) decide(p Policy) error {
	copy(s.driverIP[:], p.Client.To4())
	s.driverPort = [2]byte{byte(p.Port >> 8), byte(p.Port)}
	if p.OwnAddress {
		s.ownAddress = 1
	}
	if p.Pipe != "" {
		var st unix.Stat_t
		if err := unix.Stat(p.Pipe, &st); err != nil {
			return fmt.Errorf("looking at the pipe %s: %w", p.Pipe, err)
		}
		s.fifoDev, s.fifoIno = st.Dev, st.Ino
	}
	names := strings.Join(p.Inherited, "\x00")
	if room := len(s.inherited) - 2; len(names) > room || len(p.Inherited) > maxInherited {
		return fmt.Errorf("%d names of environment variables, %d bytes in all (want at most %d names and %d bytes)",
			len(p.Inherited), len(names), maxInherited, room)
	}
	copy(s.inherited[:], names)
	return nil
}

// SetUser says that the driver is root and that the managed processes run as another user. Linux shows where a process
// waits only to the process's own user, and to root with the capability SYS_PTRACE. In a container, root often lacks
// the capability SYS_PTRACE.
func (c *Clock) SetUser(uid, gid int) {
	var caps [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0])
	if err != nil || caps[0].Effective>>unix.CAP_SYS_PTRACE&1 == 0 {
		c.user = &user{uid, gid}
	}
}

// Close unmaps the clock and returns munmap's error. Managed processes keep their own mappings.
func (c *Clock) Close() error {
	for _, t := range c.threads {
		t.files.Close()
	}
	c.threads = nil
	c.home.leave()
	mem := c.mem
	c.mem, c.s = nil, nil
	return unix.Munmap(mem)
}

// Now returns the current virtual time.
func (c *Clock) Now() hpc.Time { return hpc.Time(c.s.now.Load()) }

// Stats returns the counters so far.
func (c *Clock) Stats() Stats {
	st := c.stats
	st.InPlace = c.s.steps.Load()
	st.Charged = time.Duration(c.s.charged.Load())
	return st
}

// Path returns the path of the clock's file, for [Look].
func (c *Clock) Path() string { return c.path }

// Environment returns the environment variables that every managed process needs. The variable that
// Reserve returns is needed, too.
func (c *Clock) Environment() []string { return []string{"RMREPLAY_CLOCK=" + c.path} }

// ChargedEnvironment is the environment variable of a process whose computing takes virtual time:
// its CPU time times the factor of [Clock.SetFactor]. Children of the process do not inherit the
// variable.
const ChargedEnvironment = "RMREPLAY_CHARGED=1"

// SetFactor sets how much virtual time computing takes from now on, in processes with [ChargedEnvironment]: the CPU
// time of each thread, user and system, times the factor. The initial factor is 0: computing takes no virtual time.
// Threads that compute at the same time compute in parallel in virtual time, too. A thread is charged after about 0.1
// ms of CPU time, or after about 20 µs if it reads the clock: see charge in shim/shim.h.
func (c *Clock) SetFactor(factor float64) { c.s.factor.Store(math.Float64bits(factor)) }

// CoarseEnvironment returns the environment variable of a process in which one thread may work late. The parameter
// thread is the name that this thread gives itself (prctl(2), PR_SET_NAME). For this thread, time(2) advances in steps
// of length step, cut to whole seconds. The thread's waits for a condition with a time limit end at such a step.
// Children of the process do not inherit the variable.
func CoarseEnvironment(thread string, step time.Duration) string {
	return fmt.Sprintf("RMREPLAY_COARSE=%s=%d", thread, int64(step/time.Second))
}

// Reserve reserves a slot for a process that is about to be started. From now on the process counts
// as running. Reserve returns the slot's index, and the environment variable that tells the process
// its slot.
func (c *Clock) Reserve() (slot int, env string) {
	i := c.newSlot()
	return i, "RMREPLAY_SLOT=" + strconv.Itoa(i)
}

// Started records which process has the reserved slot. The process may already have recorded itself in the slot. When
// the process has ended, virtual time stands still until [Clock.Collect].
func (c *Clock) Started(slot, pid int) {
	c.own[pid] = true
	c.s.slot[slot].pid.CompareAndSwap(-1, int32(pid))
}

// Outside names a process in real time for which managed processes wait, such as their database.
// While this process computes, the clock does not report a stall.
func (c *Clock) Outside(pid int) { c.outside = append(c.outside, pid) }

// Unreserve frees a reserved slot whose process could not be started.
func (c *Clock) Unreserve(slot int) {
	if s := &c.s.slot[slot]; disown(s, -1) {
		c.freeSlot(s)
		c.s.turn.CompareAndSwap(uint32(slot)+1, 0)
	}
}

// Collect frees the slots of the process pid, which has ended.
func (c *Clock) Collect(pid int) {
	delete(c.own, pid)
	for i := range c.s.used.Load() {
		if s := &c.s.slot[i]; disown(s, pid) {
			c.freeSlot(s)
			c.s.turn.CompareAndSwap(i+1, 0)
		}
	}
}

// Touch must be called before the driver does anything that wakes a managed thread in the kernel,
// such as a write or a connection.
func (c *Clock) Touch() { c.s.epoch.Add(1) }

// TouchSignal must be called before the driver signals a managed process. A signal also reaches
// threads that do not wait in the kernel.
func (c *Clock) TouchSignal() {
	c.s.signals.Add(1)
	c.s.epoch.Add(1)
}

// Read says that the driver has read n bytes that managed processes had sent to it.
func (c *Clock) Read(n int) { c.s.inbox.Add(-int64(n)) }

// Inbox returns the number of bytes that managed processes have sent to the driver and the driver
// has not read.
func (c *Clock) Inbox() int64 { return c.s.inbox.Load() }

// Notify makes Wait return soon. Any goroutine may call it.
func (c *Clock) Notify() {
	c.notified.Store(true)
	c.wakeDriver()
}

// Interrupt makes Wait return at once, even while managed threads run. It is only for a run that
// cannot continue: afterwards, the order in which threads run is not deterministic. Any goroutine
// may call it.
func (c *Clock) Interrupt() {
	c.interrupted.Store(true)
	c.wakeDriver()
}

func (c *Clock) wakeDriver() {
	c.s.driverWord.Add(1)
	futexWake(&c.s.driverWord)
}

// Listening reports whether a managed process has ever listened at the TCP port.
func (c *Clock) Listening(port uint16) bool {
	return c.s.ports[port>>6].Load()>>(port&63)&1 != 0
}

// newSlot takes a free slot, which then counts as running, and returns its index.
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
		s.ticket.Store(c.s.tickets.Add(1) - 1)
		s.state.Store(stateReady)
		c.raiseUsed(uint32(i) + 1)
		return i
	}
	panic("vclock: no free slot")
}

// disown takes a slot from its process and reports whether it succeeded. The caller may free the slot only if disown
// succeeded; otherwise the process's parent frees the slot, and the slot may already have a new owner.
func disown(s *slot, pid int) bool { return s.pid.CompareAndSwap(int32(pid), 0) }

// freeSlot frees the slot of a dead thread, which then no longer counts as running. disown must
// have succeeded before.
func (c *Clock) freeSlot(s *slot) {
	switch s.state.Swap(stateFree) {
	case stateRunning, stateReady, stateExiting:
		c.s.busy.Add(-1)
	}
}
