// Package procfs reads what Linux shows of processes and threads in /proc: see proc(5).
//
// A process can end at any time. Functions without an error then return zero values.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Tick is the resolution of CPU times in /proc: the kernel's USER_HZ, the same on every architecture
// that Go runs on.
const Tick = time.Second / 100

// Stat is a line of /proc/PID/stat or /proc/PID/task/TID/stat.
type Stat struct {
	// State is R, S, D, Z and so on; 0 if the process or thread is gone.
	State byte
	// Parent and Session are ids of processes.
	Parent, Session int
	// Threads is the number of threads of the process.
	Threads int
	// CPU is the CPU time used, user and system. Its resolution is [Tick].
	CPU time.Duration
}

// Ended reports whether the process has ended, whether or not its parent has collected it. A process
// whose first thread ended before the others is in state Z but has not ended.
func (s Stat) Ended() bool {
	return s.State == 0 || s.State == 'X' || s.State == 'Z' && s.Threads <= 1
}

// Process returns the stat line of a process.
func Process(pid int) Stat { return readStat(fmt.Sprintf("/proc/%d/stat", pid)) }

// Task returns the stat line of a thread.
func Task(pid, tid int) Stat { return readStat(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid)) }

func readStat(path string) Stat {
	line, _ := os.ReadFile(path) // an error means that the process or thread is gone
	return parseStat(line)
}

// stateOf returns the state letter in a stat line, or 0 for a line without a state. The command name
// in parentheses before it may contain any character, also parentheses.
func stateOf(line []byte) byte {
	if p := bytes.LastIndexByte(line, ')'); p >= 0 && p+2 < len(line) {
		return line[p+2]
	}
	return 0
}

func parseStat(line []byte) Stat {
	f := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	const parent, session, userTime, systemTime, threads = 1, 3, 11, 12, 17
	number := func(i int) int {
		if i >= len(f) {
			return 0
		}
		n, _ := strconv.Atoi(string(f[i])) // the kernel writes numbers
		return n
	}
	return Stat{
		State: stateOf(line), Parent: number(parent), Session: number(session), Threads: number(threads),
		CPU: time.Duration(number(userTime)+number(systemTime)) * Tick,
	}
}

// Processes returns the processes that have not ended, by id.
func Processes() map[int]Stat {
	out := map[int]Stat{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s := Process(pid); !s.Ended() {
			out[pid] = s
		}
	}
	return out
}

// TaskStates returns the states of the threads of a process, each a letter of [Stat].
func TaskStates(pid int) (states []byte) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is valid
	for _, f := range files {
		if s := readStat(f); s.State != 0 {
			states = append(states, s.State)
		}
	}
	return states
}

// Delay returns for how long the threads of a process have waited for a CPU (schedstat); 0 if the
// kernel does not show it.
func Delay(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is valid
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if fields := bytes.Fields(text); len(fields) > 1 {
			ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// PeakMemory returns the largest resident set that a process has had, in bytes (VmHWM).
func PeakMemory(pid int) int64 {
	fields := bytes.Fields(statusFrom(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:"))
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// Sleeps returns how often a thread has gone to sleep (voluntary_ctxt_switches). ok is false if the
// thread is gone.
func Sleeps(pid, tid int) (count int64, ok bool) {
	fields := bytes.Fields(statusFrom(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid), "voluntary_ctxt_switches:"))
	if len(fields) == 0 {
		return 0, false
	}
	count, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return count, err == nil
}

// statusFrom returns the text of a status file from a field's value on.
func statusFrom(path, field string) []byte {
	status, _ := os.ReadFile(path)
	_, rest, _ := bytes.Cut(status, []byte("\n"+field))
	return rest
}

// ThreadsOf returns the number of threads of a user's processes.
func ThreadsOf(uid int) (count uint64) {
	files, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is valid
	for _, path := range files {
		ids := bytes.Fields(statusFrom(path, "Uid:"))
		if len(ids) == 0 || string(ids[0]) != strconv.Itoa(uid) {
			continue
		}
		number, _, _ := bytes.Cut(statusFrom(path, "Threads:\t"), []byte("\n"))
		n, _ := strconv.ParseUint(string(number), 10, 64)
		count += n
	}
	return count
}

// Name returns the name of a thread. The name of a process is the name of its first thread.
func Name(pid, tid int) string { return readWord(pid, tid, "comm") }

// WaitChannel returns the kernel function in which a thread sleeps; "" if the thread does not
// sleep or the kernel hides the function.
func WaitChannel(pid, tid int) string {
	if name := readWord(pid, tid, "wchan"); name != "0" {
		return name
	}
	return ""
}

func readWord(pid, tid int, file string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/%s", pid, tid, file))
	return string(bytes.TrimSpace(text))
}

// BusyTimes returns how long each CPU has been busy since the machine was started (/proc/stat).
func BusyTimes() map[int]time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	busy := map[int]time.Duration{}
	for line := range bytes.Lines(text) { // cpu0 user nice system idle iowait irq softirq steal ...
		f := bytes.Fields(line)
		if len(f) < 9 || !bytes.HasPrefix(f[0], []byte("cpu")) {
			continue
		}
		cpu, err := strconv.Atoi(string(f[0][len("cpu"):]))
		if err != nil {
			continue // this line has the sum of all CPUs
		}
		var ticks int64
		for i, field := range f[1:9] {
			if n, err := strconv.ParseInt(string(field), 10, 64); err == nil && i != 3 && i != 4 {
				ticks += n
			}
		}
		busy[cpu] = time.Duration(ticks) * Tick
	}
	return busy
}
