package supervise

import (
	"encoding/json"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/procfs"
)

// RunIfGuard returns at once in an ordinary process. In a guard process, which [Start] has started,
// it does the guard's work and then exits.
func RunIfGuard() {
	options, ok := os.LookupEnv(envGuard)
	if !ok {
		return
	}
	g := guard{lent: map[string]os.FileInfo{}}
	if err := json.Unmarshal([]byte(options), &g.Options); err != nil {
		os.Exit(2)
	}
	g.serve(os.NewFile(connFD, "driver"))
	os.Exit(0)
}

// guard is the guard process.
type guard struct {
	Options
	lent map[string]os.FileInfo // files that now belong to User, with their earlier owners
}

// serve serves the driver until the driver's end of the connection closes.
func (g *guard) serve(conn *os.File) {
	// The kernel sends PDEATHSIG when the forking thread ends, so this thread makes all forks.
	runtime.LockOSThread()
	// The driver handles signals of the terminal; the guard must outlive the driver. The guard
	// catches these signals and does nothing. If it ignored them, its children would, too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0o600) // for ps
	unix.CloseOnExec(connFD)
	unix.CloseOnExec(socketsFD)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	var mu sync.Mutex // held during a reply
	enc := json.NewEncoder(conn)
	send := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(r) // if the driver has ended, Decode notices it
	}
	go func() {
		for range children {
			_ = reap(func(e Exit) { send(reply{PID: e.PID, Exit: &e}) })
		}
	}()
	first := reply{}
	if err := g.prepareNetwork(); err != nil {
		first.Error = err.Error()
	}
	send(first)
	go serveSockets(socketsFD)
	dec := json.NewDecoder(conn)
	for {
		var r request
		if dec.Decode(&r) != nil {
			break
		}
		if r.Start != nil {
			send(g.start(r.Start))
		}
	}
	killDescendants()
	for path, info := range g.lent {
		if was, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = os.Lchown(path, int(was.Uid), int(was.Gid)) // it may have been removed
		}
	}
	for _, d := range g.Remove {
		_ = os.RemoveAll(d)
	}
}

// lend makes a file belong to the user of the processes.
func (g *guard) lend(f *os.File) error {
	if g.User == nil || g.lent[f.Name()] != nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	g.lent[f.Name()] = info
	return f.Chown(g.User.UID, g.User.GID)
}

// start forks and executes a command in a new process group.
func (g *guard) start(c *Command) reply {
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
		if i == 1 && c.Reopens {
			if err := g.lend(f); err != nil {
				return reply{Error: err.Error()}
			}
		}
		files = append(files, f.Fd())
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if g.User != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(g.User.UID), Gid: uint32(g.User.GID)}
	}
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: attr})
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{PID: pid}
}

// reap collects and reports every child that has ended. It returns false if no child is left,
// running or ended.
func reap(report func(Exit)) (children bool) {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return err == nil
		}
		report(Exit{PID: pid, Status: ws, CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano())})
	}
}

// killDescendants kills descendants again and again until all have ended, because a process may fork before the kill
// reaches it. A process that loses its parent becomes the guard's child, so when the guard has no child, it has no
// descendant. killDescendants also waits until all are collected. Only then are their files certainly closed, even if a
// process's first thread ended before its other threads.
func killDescendants() {
	for range patience {
		if !reap(func(Exit) {}) {
			return
		}
		kill(descendants(os.Getpid()))
		time.Sleep(pause)
	}
}

// killSession kills the processes of a session until all have ended.
func killSession(leader int) {
	for range patience {
		var pids []int
		for pid, p := range procfs.Processes() {
			if p.Session == leader {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return
		}
		kill(pids)
		time.Sleep(pause)
	}
}

// The guard waits at most patience × pause for a process that the kernel cannot end at once, for
// example because it waits for a disk.
const (
	patience = 1000
	pause    = 2 * time.Millisecond
)

func kill(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
}

// descendants returns the ids of the processes whose ancestor is pid.
func descendants(pid int) []int {
	all := procfs.Processes()
	var out []int
	for id := range all {
		for p := all[id].Parent; p > 1; p = all[p].Parent {
			if p == pid {
				out = append(out, id)
				break
			}
		}
	}
	return out
}
