package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kind is the kind of disturbance: what a hit does to a replay.
type kind string

const (
	nothing   kind = "nothing"
	signalOne kind = "signal"        // one signal to one process
	twice     kind = "signal twice"  // the program gets a second signal shortly after the first
	group     kind = "signal group"  // the program's process group, as from a terminal
	pause     kind = "stop and cont" // a process is stopped for a while
	strangers kind = "strangers"     // connections with random bytes to the ports of the run
)

// victim is the process that gets a signal.
type victim string

const (
	program victim = "program"
	guard   victim = "guard"
	daemon  victim = "daemon" // any other process of the replay: daemons, their children, clients
)

// hit is a disturbance of a replay, with its instant.
type hit struct {
	Kind   kind           `json:"kind"`
	Victim victim         `json:"victim,omitempty"`
	Signal syscall.Signal `json:"-"`
	Name   string         `json:"signal,omitempty"`  // name of the signal
	After  time.Duration  `json:"after_ns"`          // time since the start of the program
	Struck string         `json:"process,omitempty"` // the command name of the process that was hit
	// Network is the network of the replay's daemons: private, or shared with the machine.
	Network string `json:"network"`
	Reached int    `json:"reached,omitempty"` // the number of connections that strangers made
}

// String describes the hit in a line.
func (h hit) String() string {
	if h.Kind == nothing {
		return "nothing, network " + h.Network
	}
	s := string(h.Kind)
	if h.Victim != "" {
		s = fmt.Sprintf("%s %s %s", h.Kind, h.Name, h.Victim)
	}
	if h.Struck != "" {
		s += " (" + h.Struck + ")"
	}
	return fmt.Sprintf("%s after %.2f s, network %s", s, h.After.Seconds(), h.Network)
}

// programSignals may be sent to the program and its guard, and daemonSignals to any other process.
var (
	programSignals = []syscall.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGKILL, unix.SIGABRT, unix.SIGSEGV, unix.SIGPIPE,
	}
	daemonSignals = []syscall.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGKILL, unix.SIGABRT, unix.SIGSEGV, unix.SIGUSR1,
		unix.SIGUSR2, unix.SIGPIPE,
	}
)

// draw chooses a hit at a random instant. The parameter typical is the usual duration of a replay. One in twenty hits
// comes in the first 50 ms, when the program has just begun, and one in twenty comes too late.
func draw(random *rand.Rand, typical time.Duration) hit {
	h := hit{After: time.Duration(random.Float64() * 1.05 * float64(typical)), Network: "private"}
	if random.IntN(3) == 0 {
		h.Network = "shared"
	}
	if random.IntN(20) == 0 {
		h.After = time.Duration(random.Float64() * float64(50*time.Millisecond))
	}
	switch n := random.IntN(100); {
	case n < 8:
		h.Kind, h.After = nothing, 0
	case n < 38:
		h.Kind, h.Victim = signalOne, program
	case n < 44:
		h.Kind, h.Victim = signalOne, guard
	case n < 74:
		h.Kind, h.Victim = signalOne, daemon
	case n < 80:
		h.Kind, h.Victim = twice, program
	case n < 86:
		h.Kind, h.Victim = group, program
	case n < 92:
		h.Kind, h.Victim = pause, pick(random, []victim{program, guard, daemon})
	default:
		h.Kind = strangers
	}
	switch {
	case h.Kind == pause:
		h.Signal = unix.SIGSTOP
	case h.Kind == twice || h.Kind == group:
		h.Signal = pick(random, []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP})
	case h.Victim == daemon:
		h.Signal = pick(random, daemonSignals)
	case h.Victim != "":
		h.Signal = pick(random, programSignals)
	}
	if h.Signal != 0 {
		h.Name = strings.TrimPrefix(unix.SignalName(h.Signal), "SIG")
	}
	return h
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// strike carries out the hit. It returns when the hit is over. ended closes when the program has
// ended. strike fills in Struck; it stays empty if the victim did not exist.
func (h *hit) strike(leader int, scratch string, random *rand.Rand, ended <-chan struct{}) {
	if h.Kind == nothing || !sleep(h.After, ended) {
		return
	}
	if h.Kind == strangers {
		h.Struck = "ports"
		h.Reached = bother(scratch, random, ended)
		return
	}
	pid := h.choose(leader, scratch, random)
	if pid == 0 {
		return
	}
	h.Struck = commandName(pid)
	target := pid
	if h.Kind == group {
		target = -pid
	}
	_ = unix.Kill(target, h.Signal)
	switch h.Kind {
	case pause:
		sleep(time.Duration(random.IntN(int(2*time.Second))), nil)
		_ = unix.Kill(pid, unix.SIGCONT)
	case twice:
		if sleep(time.Duration(random.IntN(int(300*time.Millisecond))), ended) {
			_ = unix.Kill(pid, h.Signal)
		}
	}
}

// choose returns the victim's process ID, or 0 if no such process exists now.
func (h *hit) choose(leader int, scratch string, random *rand.Rand) int {
	if h.Victim == program {
		return leader
	}
	var others []int
	for _, pid := range processesOf(scratch) {
		switch {
		case pid == leader:
		case isGuard(pid):
			if h.Victim == guard {
				return pid
			}
		default:
			others = append(others, pid)
		}
	}
	if h.Victim == guard || len(others) == 0 {
		return 0
	}
	return pick(random, others)
}

// sleep waits. It returns false if ended closes first.
func sleep(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-time.After(d):
		return true
	}
}

// bother connects to the listening ports of the replay's processes, sends random bytes, and
// returns how many connections it made.
func bother(scratch string, random *rand.Rand, ended <-chan struct{}) (made int) {
	for range 40 {
		for _, addr := range listening(processesOf(scratch)) {
			conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
			if err != nil {
				continue
			}
			made++
			bytes := make([]byte, random.IntN(64))
			for i := range bytes {
				bytes[i] = byte(random.Uint32())
			}
			if random.IntN(2) == 0 { // a length that no message has
				copy(bytes, []byte{0xff, 0xff, 0xff, 0xff})
			}
			_ = conn.SetDeadline(time.Now().Add(200 * time.Millisecond))
			_, _ = conn.Write(bytes)
			_ = conn.Close()
		}
		if !sleep(20*time.Millisecond, ended) {
			break
		}
	}
	return made
}

// processesOf returns the processes of the replay with the given scratch directory: their
// environment, command line or mappings contain its name.
func processesOf(scratch string) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ", "maps"} {
			text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if strings.Contains(string(text), scratch) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// isGuard reports whether the process is the guard of a replay.
func isGuard(pid int) bool {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Contains(string(env), "RMREPLAY_GUARD=")
}

func commandName(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// listening returns the addresses of the IPv4 sockets on which the processes listen.
func listening(pids []int) []string {
	inodes := map[string]bool{}
	var text []byte
	for _, pid := range pids {
		sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid)) // sockets in the process's own network
		text = append(text, sockets...)
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			link, _ := os.Readlink(filepath.Join(dir, e.Name()))
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var addrs []string
	for line := range strings.Lines(string(text)) {
		// Index, local address, remote address, state (0A is LISTEN), and the inode as the
		// tenth field: proc(5).
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
			continue
		}
		if addr := parseAddress(f[1]); addr != "" && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// parseAddress reads an address of /proc/net/tcp: the IPv4 address as a number in host byte order
// (here little endian), and the port.
func parseAddress(text string) string {
	host, port, _ := strings.Cut(text, ":")
	h, err1 := strconv.ParseUint(host, 16, 32)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if err1 != nil || err2 != nil {
		return ""
	}
	if h == 0 {
		h = 0x0100007f
	}
	return fmt.Sprintf("%d.%d.%d.%d:%d", byte(h), byte(h>>8), byte(h>>16), byte(h>>24), p)
}
