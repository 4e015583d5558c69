package vclock

import (
	"os"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/procfs"
)

const (
	stallAfter  = 30 * time.Second
	repairAfter = 250 * time.Millisecond
	// A thread that has the turn and sleeps in the kernel for this long counts as waiting for another
	// thread.
	blockedAfter = 20 * time.Millisecond
	lookEvery    = 2 * time.Millisecond
	// Computing at one instant counts as an endless loop if it takes more CPU time than spinAfter,
	// and more than spinTimes times the longest real time of an earlier instant. Both limits are
	// high, because a scheduling pass takes no virtual time, however long it computes, and passes
	// grow with the queue.
	spinAfter = 15 * time.Minute
	spinTimes = 20
	// Processes "rest" if they use less than a hundredth of a CPU for restAfter.
	restAfter = 20 * time.Second
	restGap   = 2 * time.Second
	// If threads wait for a CPU for more than this share of the time, the processes neither rest nor
	// are stuck. The same applies if the driver computes, which may take long on a busy machine.
	maxWantedShare = 0.25
	// At most this many rests in a row are ignored because the driver itself waited for a CPU. On a permanently busy
	// machine, the driver's threads wait at each look. Without maxExcuses, a peer that never answers would go unnoticed on
	// such a machine.
	maxExcuses = 15
)

// stallWatch notices when real time passes without progress.
type stallWatch struct {
	after        time.Duration // real time without progress that counts as a stall
	last, looked time.Time     // times of the last noticed progress and of the last look
	used         demand        // until the last progress
	steps, epoch uint64        // of the clock at the last look
	busy         int32         // of the clock at the last look
	spin         spinWatch
	rest         restWatch
}

// begin is called when the driver starts to wait. A call of begin counts as progress: virtual time has advanced, or the
// driver has handled an input.
func (w *stallWatch) begin() {
	now := time.Now()
	w.progress()
	w.spin.reset(now)
	w.rest.returned(now)
}

func (w *stallWatch) progress() { w.last = time.Time{} }

// spinWatch notices when managed processes compute without end at one virtual instant.
type spinWatch struct {
	after   time.Duration // with less CPU time, computing is not an endless loop
	now     hpc.Time      // the current virtual instant
	since   time.Time     // when that instant began, in real time
	longest time.Duration // longest real time that an earlier instant took
	watched bool          // whether cpu is set
	cpu     time.Duration // CPU time when the watch begins, after the instant has lasted a tenth of after
}

func (w *spinWatch) reset(now time.Time) {
	if !w.since.IsZero() {
		w.longest = max(w.longest, now.Sub(w.since))
	}
	w.since, w.watched = now, false
}

// spins returns the CPU time since the watch began if it exceeds the limits, and otherwise 0. While an instant is
// short, spins does not read the CPU time.
func (w *spinWatch) spins(now hpc.Time, cpuUsed func() time.Duration) time.Duration {
	if now != w.now {
		w.now = now
		w.reset(time.Now())
		return 0
	}
	if time.Since(w.since) < w.after/10 {
		return 0
	}
	cpu := cpuUsed()
	if !w.watched {
		w.watched, w.cpu = true, cpu
	}
	if used := cpu - w.cpu; used > max(w.after, spinTimes*w.longest) {
		return used
	}
	return 0
}

// due reports whether it is time for the next look at the processes.
func (w *stallWatch) due() bool {
	now := time.Now()
	w.rest.seen = now
	if w.last.IsZero() {
		w.last, w.looked, w.used = now, now, demand{}
		return false
	}
	wait := max(lookEvery, now.Sub(w.last)/16)
	if now.Sub(w.looked) < wait {
		return false
	}
	w.looked = now
	return true
}

// moved reports whether a managed thread did something since the last look.
func (w *stallWatch) moved(s *shared) bool {
	steps, epoch, busy := s.steps.Load(), s.epoch.Load(), s.busy.Load()
	same := w.steps == steps && w.epoch == epoch && w.busy == busy
	w.steps, w.epoch, w.busy = steps, epoch, busy
	return !same
}

// lasts reports whether there was no progress for d of real time.
func (w *stallWatch) lasts(d time.Duration) bool { return time.Since(w.last) >= d }

// stuck reports whether, for w.after, the processes made no progress and used hardly any CPU time, although their
// threads did not have to wait for a CPU.
func (w *stallWatch) stuck(used func() demand) bool {
	if time.Since(w.last) < w.after {
		return false
	}
	d := used()
	if d.cpu > w.used.cpu+2*procfs.Tick || d.delay-w.used.delay > time.Duration(maxWantedShare*float64(w.after)) {
		w.used = d
		w.last = time.Now()
		return false
	}
	return true
}

// demand is the CPU time of processes, the time that their threads waited for a CPU, and the time
// that the driver's threads waited for a CPU.
type demand struct{ cpu, delay, driver time.Duration }

// restWatch notices when all processes wait in real time, although virtual time advances.
type restWatch struct {
	after         time.Duration // real time that counts as a rest
	excuses       int           // how many rests in a row may be ignored because the driver waited for a CPU
	since, looked time.Time     // when the watch began, and the last look
	used          demand        // at the begin of the watch
	seen          time.Time     // when the driver last waited for the processes
	away          time.Duration // time since the watch began in which the driver did other work
	excused       int           // number of consecutive rests during which the driver's threads waited for a CPU
}

// returned is called when the driver begins to wait again.
func (w *restWatch) returned(now time.Time) {
	if !w.seen.IsZero() {
		w.away += now.Sub(w.seen)
	}
	w.seen = now
}

// rests reports whether, for w.after, the processes used hardly any CPU time and hardly waited for a CPU. If rests was
// not called for some time, because the driver was busy or the machine was suspended, the watch starts anew. If the
// driver's threads waited for a CPU, the processes may have waited for the driver. In that case the watch continues, at
// most w.excuses times.
func (w *restWatch) rests(now time.Time, used func() demand) bool {
	gap := now.Sub(w.looked) > restGap
	w.looked = now
	if !gap && now.Sub(w.since) < w.after {
		return false
	}
	d := used()
	most := time.Duration(maxWantedShare * float64(w.after))
	cpu, wanted := d.cpu-w.used.cpu, d.delay-w.used.delay+w.away // both shrink when a thread ends
	driver := d.driver - w.used.driver
	w.since, w.used, w.away = now, d, 0
	if gap || cpu < 0 || cpu >= w.after/100 || wanted >= most {
		w.excused = 0
		return false
	}
	if driver >= most && w.excused < w.excuses {
		w.excused++
		return false
	}
	return true
}

// lookAfter collects processes that ended unnoticed, and returns a [*StallError] if there is a
// stall. It does not collect processes that the driver has started: virtual time must stand still
// until the driver has noticed their end and calls Collect.
func (c *Clock) lookAfter() error {
	if !c.stall.due() {
		return nil
	}
	for pid := range c.processes() {
		if !c.own[pid] && procfs.Process(pid).Ended() {
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

// repair completes a step of the clock during which a process was killed. An incomplete step has counted sleepers as
// running without waking them, or has changed the count without changing the thread's state. repair acts only while
// every thread sleeps and nothing has changed for repairAfter. Otherwise a live thread could be between the two
// changes, because the look at all threads is not a snapshot.
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

// starved reports whether a managed thread is runnable, or a process in real time is runnable or
// blocked on disk.
func (c *Clock) starved() bool {
	for _, pid := range c.outside {
		if states := procfs.TaskStates(pid); slices.Contains(states, 'R') || slices.Contains(states, 'D') {
			return true
		}
	}
	for i := range int(c.s.used.Load()) {
		sl := &c.s.slot[i]
		if sl.state.Load() == stateFree {
			continue
		}
		if procfs.Task(int(sl.pid.Load()), int(sl.tid.Load())).State == 'R' {
			return true
		}
	}
	return false
}

// cpuUsed returns the CPU time that the managed processes have used, user and system.
func (c *Clock) cpuUsed() (sum time.Duration) {
	for pid := range c.processes() {
		sum += procfs.Process(pid).CPU
	}
	return sum
}

// demand returns the demand of the managed processes, the processes in real time, and the driver.
func (c *Clock) demand() demand {
	d := demand{cpu: c.cpuUsed(), driver: procfs.Delay(os.Getpid())}
	for pid := range c.processes() {
		d.delay += procfs.Delay(pid)
	}
	for _, pid := range c.outside {
		d.cpu += procfs.Process(pid).CPU
		d.delay += procfs.Delay(pid)
	}
	return d
}
