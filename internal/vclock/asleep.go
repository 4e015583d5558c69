package vclock

import (
	"slices"

	"rmreplay/internal/procfs"
)

// quiet reports whether all threads sleep and no wake-up is under way. The caller holds the
// clock's lock.
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

// allAsleep reports whether two kinds of threads sleep in the kernel: all threads that wait in the
// kernel, and all threads that a signal may have woken since the driver last found all threads
// asleep.
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

// openThread holds the open /proc files of a slot's thread.
type openThread struct {
	files    *procfs.Thread
	pid, tid int
}

// asleep reports whether the thread of slot i sleeps in the kernel.
func (c *Clock) asleep(i int) bool {
	sl := &c.s.slot[i]
	pid, tid := int(sl.pid.Load()), int(sl.tid.Load())
	t := c.threads[i]
	if t.files != nil && (t.pid != pid || t.tid != tid) {
		t.files.Close()
		t.files = nil
	}
	for range 2 {
		if t.files == nil {
			files, err := procfs.OpenThread(pid, tid)
			if err != nil {
				break
			}
			t = openThread{files, pid, tid}
			c.threads[i] = t
		}
		if asleep, err := t.files.Asleep(); err == nil {
			return asleep
		}
		t.files.Close()
		t.files = nil
	}
	delete(c.threads, i)
	return false
}

// asleepTogether reports whether all threads that wait in the kernel sleep at the same instant. A
// single look at each thread does not prove this: some threads wake each other without raising
// epoch, such as the writer and the reader of a full pipe. asleepTogether therefore looks at each
// thread twice. A thread has slept the whole time if it sleeps in both looks and has not fallen
// asleep in between.
func (c *Clock) asleepTogether() bool {
	var sleeps [2][]int64
	for look := range sleeps {
		for i := range int(c.s.used.Load()) {
			sl := &c.s.slot[i]
			if sl.state.Load() != stateKernel {
				continue
			}
			if look > 0 && !c.asleep(i) {
				return false
			}
			count, ok := procfs.Sleeps(int(sl.pid.Load()), int(sl.tid.Load()))
			if !ok {
				return false
			}
			sleeps[look] = append(sleeps[look], count)
		}
	}
	return slices.Equal(sleeps[0], sleeps[1])
}
