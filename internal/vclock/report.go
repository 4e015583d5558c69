package vclock

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"rmreplay/internal/hpc"
)

// Thread describes one managed thread to a person.
type Thread struct {
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Process string `json:"process"`
	Name    string `json:"name"`
	// State is "running", "waiting", "waiting in kernel", "exiting", or "ready" or "arrived" if
	// the thread waits for its turn, because another one runs.
	State string `json:"state"`
	// WaitsFor names what the thread waits for: "condition variable 0x7f12", "sleep",
	// "poll on fd 4".
	WaitsFor string `json:"waits_for,omitempty"`
	// Deadline is the virtual instant at which the wait times out, or zero.
	Deadline hpc.Time `json:"deadline_ns,omitempty"`
	// Kernel is the thread's state letter and wait channel, as /proc shows them, or "gone".
	Kernel string `json:"kernel,omitempty"`
}

var stateNames = [...]string{"free", "running", "waiting", "waiting in kernel", "exiting", "ready", "arrived"}

// Threads lists the managed threads, ordered by process and thread id.
func (c *Clock) Threads() []Thread { return c.s.threads() }

func (s *shared) threads() []Thread {
	out := []Thread{}
	for i := range int(s.used.Load()) {
		sl := &s.slot[i]
		st := sl.state.Load()
		if st == stateFree || int(st) >= len(stateNames) {
			continue
		}
		t := Thread{
			PID: int(sl.pid.Load()), TID: int(sl.tid.Load()),
			State: stateNames[st],
		}
		if d := sl.deadline.Load(); d != never && (st == stateSlot || st == stateKernel) {
			t.Deadline = hpc.Time(d)
		}
		if why := sl.why.Load(); int(why) < len(whyNames) && (st == stateSlot || st == stateKernel || why == whyOutside) {
			t.WaitsFor = describeWait(whyNames[why], sl.object.Load())
		}
		t.fromProc()
		out = append(out, t)
	}
	sort.SliceStable(out, func(a, b int) bool {
		return out[a].PID < out[b].PID || out[a].PID == out[b].PID && out[a].TID < out[b].TID
	})
	return out
}

func describeWait(why string, object uint64) string {
	switch why {
	case "", "sleep", "signal", "computing time", "timer":
		return why
	case "poll", "connection", "input", "output", "outside peer":
		return fmt.Sprintf("%s on fd %d", why, int32(object))
	case "child process":
		if int32(object) <= 0 {
			return "any child process"
		}
		return fmt.Sprintf("%s %d", why, object)
	}
	return fmt.Sprintf("%s %#x", why, object)
}

// fromProc fills in what /proc says of the thread.
func (t *Thread) fromProc() {
	read := func(format string, args ...any) string {
		b, _ := os.ReadFile(fmt.Sprintf(format, args...))
		return strings.TrimSpace(string(b))
	}
	t.Process = read("/proc/%d/comm", t.PID)
	t.Name = read("/proc/%d/task/%d/comm", t.PID, t.TID)
	if st := statState([]byte(read("/proc/%d/task/%d/stat", t.PID, t.TID))); st != 0 {
		t.Kernel = string(st)
	} else {
		t.Kernel = "gone"
	}
	if w := read("/proc/%d/task/%d/wchan", t.PID, t.TID); w != "" && w != "0" {
		t.Kernel += " " + w
	}
}

// FormatThreads returns the threads as a table. Deadlines are relative to now.
func FormatThreads(threads []Thread, now hpc.Time) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tPID\tTID\tTHREAD\tSTATE\tWAITS FOR\tFOR\tKERNEL")
	for _, t := range threads {
		left := ""
		if !t.Deadline.IsZero() {
			left = t.Deadline.Sub(now).String()
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", t.Process, t.PID, t.TID, t.Name, t.State, t.WaitsFor, left, t.Kernel)
	}
	_ = w.Flush() // writing to a strings.Builder never fails
	return b.String()
}

// DeadlockError means that every managed thread waits and nothing will wake one: no wait has a
// deadline, and the driver has no further event.
type DeadlockError struct {
	Threads []Thread
	Now     hpc.Time
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("virtual time cannot go on at %v: every thread waits, none with a deadline, and no event is left\n%s",
		e.Now, FormatThreads(e.Threads, e.Now))
}

// StallError means that nothing has come of After of real time, for one of three reasons. Virtual
// time stood still, and no managed process used the CPU (CPU is 0); or the managed processes used so
// much CPU time at one virtual instant that they will hardly come to an end. Or they asked a process
// in real time again and again, which has not answered (Unanswered): each wait ended at its own time
// limit, so virtual time may have gone on.
type StallError struct {
	Threads    []Thread
	Now        hpc.Time
	After      time.Duration
	CPU        time.Duration
	Unanswered bool
}

func (e *StallError) Error() string {
	if e.Unanswered {
		return fmt.Sprintf("for %v of real time, until %v of virtual time, no process used the CPU: a process that runs in real time, such as the database, does not answer\n%s",
			e.After.Round(time.Millisecond), e.Now, FormatThreads(e.Threads, e.Now))
	}
	what := "no managed process used the CPU"
	if e.CPU > 0 {
		what = fmt.Sprintf("managed processes used %v of CPU time, many times as much as they ever did "+
			"before between two instants", e.CPU.Round(time.Second))
	}
	return fmt.Sprintf("virtual time has stood still at %v for %v of real time while %s\n%s",
		e.Now, e.After.Round(time.Millisecond), what, FormatThreads(e.Threads, e.Now))
}

// CountError means that the driver has read bytes that no managed process has sent to it, so the
// clock cannot know any more whether a message is on its way.
type CountError struct {
	Extra int64 // the number of these bytes
	Now   hpc.Time
}

func (e *CountError) Error() string {
	return fmt.Sprintf("%d bytes too many had arrived at %v: another process than the replay's writes to the replay's pipe or connections",
		e.Extra, e.Now)
}

const (
	stallAfter  = 30 * time.Second
	repairAfter = 250 * time.Millisecond
	// A thread that has the turn and sleeps so long in the kernel waits for another thread.
	blockedAfter = 20 * time.Millisecond
	lookEvery    = 2 * time.Millisecond
	// A scheduling pass takes no virtual time, however long it computes, and passes grow with
	// the queue. Computing at one instant counts as an endless loop once it has used more than
	// spinAfter of CPU time and spinTimes the longest real time that an instant took before.
	spinAfter = 15 * time.Minute
	spinTimes = 20
	// Processes rest that use less than a hundredth of the CPU for restAfter.
	restAfter = 20 * time.Second
	restGap   = 2 * time.Second
	// Processes do not rest, and are not stuck, if their threads waited for a CPU for more than this share of
	// the time, or the driver computed, which on a busy machine takes long.
	mostWanted = 0.25
)

// stallWatch notices when real time passes without progress.
type stallWatch struct {
	after        time.Duration // real time without progress that is a stall
	last, looked time.Time     // when the last progress was noticed, and when the last look was
	used         demand        // until the last progress
	steps, epoch uint64        // of the clock at the last look
	busy         int32         // of the clock at the last look
	spin         spinWatch
	rest         restWatch
}

// begin is called when the driver starts to wait. That is progress: virtual time has advanced, or
// the driver has handled an input.
func (w *stallWatch) begin() {
	now := time.Now()
	w.progress()
	w.spin.reset(now)
	w.rest.returned(now)
}

func (w *stallWatch) progress() { w.last = time.Time{} }

// spinWatch notices when managed processes compute for ever at one virtual instant.
type spinWatch struct {
	after   time.Duration // CPU time below which nothing is an endless loop
	now     hpc.Time      // the current virtual instant
	since   time.Time     // when it began, in real time
	longest time.Duration // longest real time that an earlier instant took
	watched bool          // whether cpu is set
	cpu     time.Duration // CPU time used when the watch began, a tenth of after into the instant
}

func (w *spinWatch) reset(now time.Time) {
	if !w.since.IsZero() {
		w.longest = max(w.longest, now.Sub(w.since))
	}
	w.since, w.watched = now, false
}

// spins returns the CPU time that has been used since the watch began, if that is too much, else
// 0. It does not ask for the CPU time of short instants.
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

// lasts reports whether there has been no progress for d of real time.
func (w *stallWatch) lasts(d time.Duration) bool { return time.Since(w.last) >= d }

// stuck reports whether there has been neither progress nor use of the CPU for w.after, although threads did
// not wait for a CPU.
func (w *stallWatch) stuck(used func() demand) bool {
	if time.Since(w.last) < w.after {
		return false
	}
	d := used()
	if d.cpu > w.used.cpu+2*time.Second/ticksPerSecond || d.delay-w.used.delay > time.Duration(mostWanted*float64(w.after)) {
		w.used = d
		w.last = time.Now()
		return false
	}
	return true
}

// demand is the CPU time that processes have used, and the time for which their threads have waited for a CPU.
type demand struct{ cpu, delay time.Duration }

// restWatch notices when all processes wait in real time, although virtual time goes on.
type restWatch struct {
	after         time.Duration // real time that is a rest
	since, looked time.Time     // when the watch began, and the last look
	used          demand        // until the watch began
	seen          time.Time     // when the driver last waited for the processes
	away          time.Duration // for which it has not waited since the watch began
}

// returned says that the driver begins to wait again.
func (w *restWatch) returned(now time.Time) {
	if !w.seen.IsZero() {
		w.away += now.Sub(w.seen)
	}
	w.seen = now
}

// rests reports whether hardly any CPU time was used for w.after, and hardly any wanted. The watch begins anew
// after a time without a look: the driver did something else, or the machine was suspended.
func (w *restWatch) rests(now time.Time, used func() demand) bool {
	gap := now.Sub(w.looked) > restGap
	w.looked = now
	if !gap && now.Sub(w.since) < w.after {
		return false
	}
	d := used()
	cpu, wanted := d.cpu-w.used.cpu, d.delay-w.used.delay+w.away // they count less once a thread has ended
	w.since, w.used, w.away = now, d, 0
	return !gap && cpu >= 0 && cpu < w.after/100 && wanted < time.Duration(mostWanted*float64(w.after))
}
