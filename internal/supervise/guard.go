package supervise

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RunIfGuard does nothing in an ordinary process. In one that [Start] has started it
// does the guard's work and does not return.
func RunIfGuard() {
	dirs, ok := os.LookupEnv(envGuard)
	if !ok {
		return
	}
	var remove []string
	if err := json.Unmarshal([]byte(dirs), &remove); err != nil {
		os.Exit(2)
	}
	guard(os.NewFile(connFD, "driver"), remove)
	os.Exit(0)
}

// guard serves the driver until its end of the connection closes.
func guard(conn *os.File, remove []string) {
	// PDEATHSIG belongs to the thread that forks, so all forks are this one's.
	runtime.LockOSThread()
	// Signals of the terminal are the driver's affair; ours is to outlive it. They are
	// caught, not ignored, since children would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	unix.CloseOnExec(connFD)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	var mu sync.Mutex // one reply at a time
	enc := json.NewEncoder(conn)
	send := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(r) // the driver may have gone; the read says so
	}
	go func() {
		for range children {
			reap(func(e Exit) { send(reply{PID: e.PID, Exit: &e}) })
		}
	}()
	dec := json.NewDecoder(conn)
	for {
		var r request
		if dec.Decode(&r) != nil {
			break
		}
		if r.Start != nil {
			send(start(r.Start))
		}
	}
	killDescendants()
	for _, d := range remove {
		_ = os.RemoveAll(d)
	}
}

// start forks and executes a command in a process group of its own.
func start(c *Command) reply {
	open := func(path string, flags int) (*os.File, error) {
		if path == "" {
			path = os.DevNull
		}
		return os.OpenFile(path, flags, 0o600)
	}
	const output = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	var files []uintptr
	for i, path := range []string{c.Stdin, c.Stdout, c.Stderr} {
		flags := output
		if i == 0 {
			flags = os.O_RDONLY
		}
		f, err := open(path, flags)
		if err != nil {
			return reply{Error: err.Error()}
		}
		defer f.Close()
		files = append(files, f.Fd())
	}
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{PID: pid}
}

// reap collects every process that has ended and reports it.
func reap(report func(Exit)) {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		report(Exit{PID: pid, Status: ws, CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano())})
	}
}

// killDescendants kills until nothing is left to kill: a process may have forked
// between the look at it and its end.
func killDescendants() {
	for range 1000 {
		pids := descendants(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		reap(func(Exit) {})
		time.Sleep(2 * time.Millisecond)
	}
}

// descendants are the processes below pid, zombies not counted.
func descendants(pid int) []int {
	parent := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// After the command name in parentheses: state, parent (proc(5)).
		f := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
		if len(f) < 2 || f[0][0] == 'Z' {
			continue
		}
		parent[id], _ = strconv.Atoi(string(f[1]))
	}
	var out []int
	for id := range parent {
		for p := parent[id]; p > 1; p = parent[p] {
			if p == pid {
				out = append(out, id)
				break
			}
		}
	}
	return out
}
