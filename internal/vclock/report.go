package vclock

import (
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/procfs"
)

// Thread describes one managed thread for people.
type Thread struct {
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Process string `json:"process"`
	Name    string `json:"name"`
	// State is "running", "waiting", "waiting in kernel" or "exiting". It is "ready" or "arrived"
	// for a thread that waits for its turn while another thread runs.
	State string `json:"state"`
	// WaitsFor says what the thread waits for: "condition variable 0x7f12", "sleep", "poll on fd 4".
	WaitsFor string `json:"waits_for,omitempty"`
	// Deadline is the virtual instant at which the wait times out, or zero.
	Deadline hpc.Time `json:"deadline_ns,omitempty"`
	// Kernel is the thread's state letter and wait channel in /proc, or "gone".
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

// fromProc fills in what /proc shows about the thread.
func (t *Thread) fromProc() {
	t.Process, t.Name = procfs.Name(t.PID, t.PID), procfs.Name(t.PID, t.TID)
	t.Kernel = "gone"
	if state := procfs.Task(t.PID, t.TID).State; state != 0 {
		t.Kernel = string(state)
	}
	if channel := procfs.WaitChannel(t.PID, t.TID); channel != "" {
		t.Kernel += " " + channel
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
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", t.Process, t.PID, t.TID, t.Name, t.State, t.WaitsFor, left,
			t.Kernel)
	}
	_ = w.Flush() // writing to a strings.Builder never fails
	return b.String()
}

// DeadlockError means that every managed thread waits and nothing will wake any of them: no wait
// has a deadline, and the driver has no next event.
type DeadlockError struct {
	Threads []Thread
	Now     hpc.Time
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("virtual time cannot go on at %v: every thread waits, none with a deadline, and no event is "+
		"left\n%s",
		e.Now, FormatThreads(e.Threads, e.Now))
}

// StallError means that there was no progress for After of real time, for one of three reasons. (1) Virtual time stood
// still, and the managed processes used hardly any CPU time (CPU is 0). (2) The managed processes used so much CPU time
// at one virtual instant that they probably never stop. (3) The managed processes repeatedly sent requests to a process
// in real time, and that process did not answer (Unanswered). The waits for that process ended at their time limits, so
// virtual time may have advanced.
type StallError struct {
	Threads    []Thread
	Now        hpc.Time
	After      time.Duration
	CPU        time.Duration
	Unanswered bool
}

func (e *StallError) Error() string {
	if e.Unanswered {
		return fmt.Sprintf("for %v of real time, until %v of virtual time, no process used the CPU: a process that runs in "+
			"real time, such as the database, does not answer\n%s",
			e.After.Round(time.Millisecond), e.Now, FormatThreads(e.Threads, e.Now))
	}
	what := "no managed process used the CPU"
	if e.CPU > 0 {
		what = fmt.Sprintf("managed processes used %v of CPU time, many times as much as ever "+
			"before between two instants", e.CPU.Round(time.Second))
	}
	return fmt.Sprintf("virtual time has stood still at %v for %v of real time while %s\n%s",
		e.Now, e.After.Round(time.Millisecond), what, FormatThreads(e.Threads, e.Now))
}

// CountError means that the driver has read more bytes than managed processes have sent. The clock
// then cannot tell whether a message is on its way.
type CountError struct {
	Extra int64 // number of bytes too many
	Now   hpc.Time
}

func (e *CountError) Error() string {
	return fmt.Sprintf("%d bytes too many had arrived at %v: another process than the replay's writes to the replay's "+
		"pipe or connections",
		e.Extra, e.Now)
}
