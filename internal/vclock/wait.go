package vclock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
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

// Wait lets virtual time pass, to limit at most, and returns why it stopped. It blocks the thread
// of the calling goroutine in a futex, without the Go runtime's knowledge. The errors are
// [*DeadlockError], [*StallError], [*CountError] and ctx's.
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

// inherit takes the lock from a thread that was killed while it held the lock.
func (c *Clock) inherit() bool {
	owner := c.s.lock.Load()
	dead := owner != 0 && owner != driverOwns && ended(int(owner))
	if !dead || !c.s.lock.CompareAndSwap(owner, driverOwns) {
		return false
	}
	c.stats.Repairs++
	return true
}

func (c *Clock) unlockClock() { c.s.lock.Store(0) }

// backOff waits a moment. The more tries there were, the longer it waits.
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

// sleep waits until the driver's word changes, for a few ms at most.
func (c *Clock) sleep(word uint32) {
	s := c.s
	s.driverWaiting.Store(1)
	if s.turn.Load() != 0 || s.busy.Load() != 0 {
		futexWait(&s.driverWord, word, 2*time.Millisecond)
	}
	s.driverWaiting.Store(0)
}

// awaitArrival waits until a thread that the kernel has woken says so, but only a moment: the
// thread may sleep again without a word.
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

// advance lets the next thread run. If all threads wait and nothing is in flight, it moves the
// clock to the next deadline and wakes the thread that is due then. Of several it wakes the first
// slot's, as advance_in_place does in shim/clock.c.
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
		// A stream's bytes are counted after the driver may have read them, but before their
		// writer goes idle.
		return miscounted
	case !c.quiet():
		if c.notified.Load() && c.ownEnded() { // whose threads will never sleep
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
		if ended(pid) {
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

// trim forgets the free slots above the last one in use, so that searches do not look at them.
// slurmctld has hundreds of threads for a moment, and few later. A thread or process that takes a
// slot meanwhile raises the number again, or it is raised here.
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

// raiseUsed makes searches look at the slots below used, at least.
func (c *Clock) raiseUsed(used uint32) {
	for {
		now := c.s.used.Load()
		if now >= used || c.s.used.CompareAndSwap(now, used) {
			return
		}
	}
}

// wakeSignal is SIGRTMIN + 5 of the preload library. glibc keeps the first two real-time signals
// for itself.
const wakeSignal = unix.Signal(34 + 5)

func wake(sl *slot, from uint32) {
	if from == stateSlot {
		futexWake(&sl.state)
		return
	}
	// An error means that the thread has gone; its process is collected later.
	_ = unix.Tgkill(int(sl.pid.Load()), int(sl.tid.Load()), wakeSignal)
}

// quiet reports whether no thread runs and none is about to run. The caller holds the lock.
func (c *Clock) quiet() bool {
	s := c.s
	e := s.epoch.Load()
	signals := s.signals.Load()
	idle := func() bool {
		return s.busy.Load() == 0 && s.turn.Load() == 0 && s.inbox.Load() <= 0 && s.epoch.Load() == e
	}
	if !idle() {
		return false
	}
	if e == s.verified.Load() {
		return true
	}
	c.stats.Looks++
	c.user.become()
	asleep := c.allAsleep(signals)
	c.user.leave()
	if !asleep {
		c.stats.Retries++
		return false
	}
	if !idle() {
		return false
	}
	c.signals = signals
	s.verified.Store(e)
	return true
}

// allAsleep reports whether every thread sleeps that waits in the kernel, or that a signal since
// the last verified look can have woken.
func (c *Clock) allAsleep(signals uint32) bool {
	s := c.s
	twice := false
	for i := range int(s.used.Load()) {
		st := s.slot[i].state.Load()
		if (st == stateKernel || st == stateSlot && signals != c.signals) && !c.asleep(i) {
			return false
		}
		why := s.slot[i].why.Load()
		twice = twice || st == stateKernel && (why == whyWrite || why == whyStream)
	}
	return !twice || c.asleepTogether()
}

// threadStat has the open files stat and wchan of /proc/PID/task/TID. The kernel uses a thread id
// again within minutes. An open file stays with the thread for which it was opened: reading it
// fails once that thread has ended.
type threadStat struct {
	stat, wchan int
	pid, tid    int32
}

func openThread(pid, tid int32) (*threadStat, error) {
	dir := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	stat, err := unix.Open(dir+"stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &threadStat{stat: stat, wchan: -1, pid: pid, tid: tid}
	if wchanWorks() {
		if t.wchan, err = unix.Open(dir+"wchan", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (t *threadStat) close() {
	unix.Close(t.stat)
	if t.wchan >= 0 {
		unix.Close(t.wchan)
	}
}

// asleep reports whether the thread sleeps in state S, interruptible. State S alone does not prove
// that: a thread enters it before it checks its condition for the last time, and can lose its
// CPU in between while it is ready to run. But such a thread is on a run queue, and a thread on a
// run queue has no wait channel.
func (t *threadStat) asleep() (bool, error) {
	channel, err := t.channel()
	if err != nil || channel == running {
		return false, err
	}
	if channel == interruptible {
		return true, nil
	}
	var buf [256]byte
	n, err := unix.Pread(t.stat, buf[:], 0)
	if err != nil || statState(buf[:n]) != 'S' {
		return false, err
	}
	channel, err = t.channel()
	return channel != running, err
}

// channel is what a thread's wait channel says of its state. The wait channel is the kernel's
// function in which the thread sleeps.
type channel int

const (
	anyState      channel = iota // sleeps in state S or D, or unknown
	running                      // runs or is ready to run
	interruptible                // sleeps in state S
)

// channel reads the wait channel. Managed threads wait mostly in the functions that are named
// here, and a thread in one of these is never in state D. So the wait channel alone proves that it
// sleeps, and the stat file need not be read: the kernel takes longer to write that file than all
// the rest of a look takes.
func (t *threadStat) channel() (channel, error) {
	if t.wchan < 0 {
		return anyState, nil
	}
	var buf [64]byte
	n, err := unix.Pread(t.wchan, buf[:], 0)
	if err != nil || n == 0 || buf[0] == '0' {
		return running, err
	}
	name, _, _ := bytes.Cut(buf[:n], []byte(".")) // compilers rename: "do_sigtimedwait.isra.0"
	switch string(name) {
	case "poll_schedule_timeout", // poll, select: fs/select.c
		"do_epoll_wait", "ep_poll", // epoll_wait: fs/eventpoll.c
		"do_sigtimedwait", // kernel/signal.c
		"inet_csk_accept": // net/ipv4/inet_connection_sock.c
		return interruptible, nil
	}
	return anyState, nil
}

// wchanWorks reports whether the kernel shows wait channels. It does not if it was built without
// symbols, or if this process may not read them. The test works because a Go program always has
// threads that sleep.
var wchanWorks = sync.OnceValue(func() bool {
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

// asleep reports whether the thread of slot i sleeps in the kernel.
func (c *Clock) asleep(i int) bool {
	sl := &c.s.slot[i]
	pid, tid := sl.pid.Load(), sl.tid.Load()
	t := c.threads[i]
	if t != nil && (t.pid != pid || t.tid != tid) {
		t.close()
		t = nil
	}
	for range 2 {
		if t == nil {
			var err error
			if t, err = openThread(pid, tid); err != nil {
				break
			}
			c.threads[i] = t
		}
		if asleep, err := t.asleep(); err == nil {
			return asleep
		}
		t.close()
		t = nil
	}
	delete(c.threads, i)
	return false
}

// asleepTogether reports whether all threads that wait in the kernel sleep at the same instant.
// One look at each thread does not prove that if threads wake each other without a change of
// epoch, as the writer and the reader of a full pipe do. But a thread that sleeps in two looks,
// and has not gone to sleep in between, has slept all the time.
func (c *Clock) asleepTogether() bool {
	var switches [2][]string
	for look := range switches {
		for i := range int(c.s.used.Load()) {
			sl := &c.s.slot[i]
			if sl.state.Load() != stateKernel {
				continue
			}
			if look > 0 && !c.asleep(i) {
				return false
			}
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", sl.pid.Load(), sl.tid.Load()))
			if err != nil {
				return false
			}
			_, count, _ := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:"))
			switches[look] = append(switches[look], string(count))
		}
	}
	return slices.Equal(switches[0], switches[1])
}

// statState returns the state letter in a line of /proc/PID/stat, 0 if there is none. The command
// name before it may contain any character, also parentheses.
func statState(line []byte) byte {
	if p := bytes.LastIndexByte(line, ')'); p >= 0 && p+2 < len(line) {
		return line[p+2]
	}
	return 0
}

// lookAfter collects processes that ended unnoticed, and returns a [*StallError] if there is a
// stall. It leaves out the processes that the driver has started: virtual time must stand still
// until the driver knows of their end and calls Collect.
func (c *Clock) lookAfter() error {
	if !c.stall.due() {
		return nil
	}
	for pid := range c.processes() {
		if !c.own[pid] && ended(pid) {
			c.collectEnded(pid)
		}
	}
	if cpu := c.stall.spin.spins(c.Now(), c.cpuUsed); cpu > 0 {
		return &StallError{Threads: c.Threads(), Now: c.Now(), After: time.Since(c.stall.spin.since), CPU: cpu}
	}
	if c.stall.rest.rests(time.Now(), c.demand) && !c.starved() {
		return &StallError{Threads: c.Threads(), Now: c.Now(), After: c.stall.rest.after, Unanswered: true}
	}
	if c.stall.moved(c.s) {
		c.stall.progress()
		return nil
	}
	if c.stall.lasts(blockedAfter) {
		c.leaveBlocked()
	}
	if c.stall.lasts(repairAfter) {
		c.repair()
	}
	if c.stall.stuck(c.demand) && !c.starved() {
		return &StallError{Threads: c.Threads(), Now: c.Now(), After: c.stall.after}
	}
	return nil
}

// processes returns the ids of the processes that own slots.
func (c *Clock) processes() map[int]bool {
	pids := map[int]bool{}
	for i := range int(c.s.used.Load()) {
		if sl := &c.s.slot[i]; sl.state.Load() != stateFree {
			if pid := int(sl.pid.Load()); pid > 0 {
				pids[pid] = true
			}
		}
	}
	return pids
}

// ended reports whether a process has ended, whether or not its parent has collected it. A process
// whose first thread ended before the others is in state Z but has not ended.
func ended(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	if st := statState(line); st != 'Z' && st != 'X' {
		return false
	}
	f := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	const threads = 17 // num_threads: field 20 of proc(5)
	return len(f) <= threads || string(f[threads]) == "1"
}

// repair completes a step of the clock during which a process was killed: sleepers that were
// counted as running but not woken, or a count without its change of state. It acts only while
// every thread sleeps and nothing has moved for repairAfter. Otherwise a live thread could be
// between its count and its change of state, and the look at all threads is no snapshot.
func (c *Clock) repair() {
	s := c.s
	c.user.become()
	defer c.user.leave()
	busy, counted := s.busy.Load(), int32(0)
	var running []int
	for i := range int(s.used.Load()) {
		switch s.slot[i].state.Load() {
		case stateFree:
			continue
		case stateRunning:
			running = append(running, i)
			counted++
		case stateExiting, stateReady:
			counted++
		}
		if !c.asleep(i) {
			return
		}
	}
	if c.stall.moved(s) {
		return
	}
	for _, i := range running {
		sl := &s.slot[i]
		if why := sl.why.Load(); (why == whyPoll || why == whySignal) && sl.deadline.Load() <= s.now.Load() {
			wake(sl, stateKernel)
		} else {
			futexWake(&sl.state)
		}
	}
	if busy != counted && s.busy.CompareAndSwap(busy, counted) {
		c.stats.Repairs++
	}
}

// starved reports whether a managed thread would run if it had a CPU, or a process in real time if it
// had a CPU or its disk.
func (c *Clock) starved() bool {
	for _, pid := range c.outside {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, t := range threads {
			line, _ := os.ReadFile(t)
			if st := statState(line); st == 'R' || st == 'D' {
				return true
			}
		}
	}
	for i := range int(c.s.used.Load()) {
		sl := &c.s.slot[i]
		if sl.state.Load() == stateFree {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", sl.pid.Load(), sl.tid.Load()))
		if statState(line) == 'R' {
			return true
		}
	}
	return false
}

// cpuUsed returns the CPU time that the managed processes have used, user and system.
func (c *Clock) cpuUsed() (sum time.Duration) {
	for pid := range c.processes() {
		sum += CPUTime(pid)
	}
	return sum
}

// demand returns what the managed processes and those in real time have used, and wanted.
func (c *Clock) demand() demand {
	d := demand{cpu: c.cpuUsed()}
	for pid := range c.processes() {
		d.delay += delayOf(pid)
	}
	for _, pid := range c.outside {
		d.cpu += CPUTime(pid)
		d.delay += delayOf(pid)
	}
	return d
}

// delayOf returns for how long the threads of a process have waited for a CPU (schedstat of proc(5)); 0 if the
// kernel does not say it.
func delayOf(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if fields := bytes.Fields(text); len(fields) > 1 {
			ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// CPUTime returns the CPU time, user and system, that a process has used; 0 if there is no such
// process. Its resolution is 10 ms.
func CPUTime(pid int) time.Duration {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	var ticks uint64
	for _, i := range []int{11, 12} { // utime, stime: fields 14 and 15 of proc(5)
		if i < len(f) {
			n, _ := strconv.ParseUint(string(f[i]), 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// PeakMemory returns the largest resident set that a process has had, in bytes (VmHWM of
// proc(5)); 0 if there is no such process.
func PeakMemory(pid int) int64 {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, peak, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	fields := bytes.Fields(peak)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// ticksPerSecond is the kernel's USER_HZ, the same on every architecture that Go runs on.
const ticksPerSecond = 100

func futexWake(word *atomic.Uint32) {
	// The call fails only for an unmapped word. That no thread waits is not an error.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1, 0, 0, 0)
}

func futexWait(word *atomic.Uint32, value uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(timeout))
	// The caller reads the word again after a wake, a timeout, a signal or a changed value. The
	// call is raw, so that the Go runtime does not know of it: otherwise one of its own threads
	// would wake for every wait, to give the processor to another goroutine.
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// The operations are those of linux/futex.h.
const (
	futexOpWait = 0
	futexOpWake = 1
)
