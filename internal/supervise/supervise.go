// Package supervise starts the native processes of a replay and sees to it that
// none of them, and none of their files, outlives the replay, whatever ends it.
//
// The driver starts one guard: its own program again, in a session of its own. The
// guard is the parent of every process that the driver asks for, and adopts their
// orphans (PR_SET_CHILD_SUBREAPER, prctl(2)). It holds one end of a socket pair; when
// the driver's end closes, be it by Close or by kill -9, it kills every descendant,
// removes the directories that it was given, and ends. Its direct children die with
// it in turn (PR_SET_PDEATHSIG), and the driver kills what is left of its session;
// the directories are then the driver's to remove.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a process to start.
type Command struct {
	Path string   // absolute
	Args []string // with the program's name first
	Env  []string // complete
	Dir  string
	// Stdin, Stdout and Stderr are paths; empty means /dev/null. Output is appended.
	Stdin, Stdout, Stderr string
}

// Exit is the end of a process.
type Exit struct {
	PID int
	// Status is what wait(2) says.
	Status syscall.WaitStatus
	// CPU is the user and system time that the process and its collected children used.
	CPU time.Duration
}

// String says how the process ended.
func (e Exit) String() string {
	if e.Status.Signaled() {
		return "killed by signal " + unix.SignalName(e.Status.Signal())
	}
	return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
}

// request is what the driver sends, one JSON value each; reply is what comes back,
// an answer to the one request under way (Exit nil) or the end of a process.
type request struct {
	Start *Command
}

type reply struct {
	PID   int
	Error string
	Exit  *Exit
}

// Guard is the driver's handle on the guard process.
type Guard struct {
	cmd     *exec.Cmd
	conn    *os.File
	encode  *json.Encoder
	mu      sync.Mutex // one request at a time
	answers chan reply
	onExit  func(Exit)
	closing atomic.Bool
	close   func() error  // once
	done    chan struct{} // closed when the guard has gone
	waitErr error         // how it went, for who has seen done closed
}

// ErrGuardGone says that the guard process ended before it was told to.
var ErrGuardGone = errors.New("the guard process that watches over the daemons has gone")

// environment variables by which the program knows that it is a guard.
const (
	envGuard = "RMREPLAY_GUARD"
	connFD   = 3
)

// Start starts a guard that will remove the given directories at its end. onExit is
// called from another goroutine for every process that ended, and for the guard itself
// if it ended before it was told to. The calling program must
// call [RunIfGuard] first thing in main (and in TestMain).
func Start(remove []string, onExit func(Exit)) (*Guard, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "driver")
	defer theirs.Close()
	dirs, err := json.Marshal(remove)
	if err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"rmreplay-guard"}
	cmd.Env = append(os.Environ(), envGuard+"="+string(dirs))
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = ours.Close() // why the guard did not start is what the caller needs
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	g := &Guard{cmd: cmd, conn: ours, encode: json.NewEncoder(ours), answers: make(chan reply, 1), onExit: onExit, done: make(chan struct{})}
	g.close = sync.OnceValue(g.end)
	go g.listen()
	return g, nil
}

// listen passes on what the guard says until it has gone.
func (g *Guard) listen() {
	defer close(g.done)
	dec := json.NewDecoder(g.conn)
	for {
		var r reply
		if dec.Decode(&r) != nil {
			break
		}
		if r.Exit != nil {
			g.onExit(*r.Exit)
			continue
		}
		g.answers <- r
	}
	killed := !g.closing.Load()
	if killed {
		killSession(g.PID()) // before Wait, which gives the number back
	}
	g.waitErr = g.cmd.Wait()
	if killed {
		status, _ := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
		g.onExit(Exit{PID: g.PID(), Status: status})
	}
}

// Run starts a process and returns its id.
func (g *Guard) Run(c Command) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.encode.Encode(request{Start: &c}); err != nil {
		return 0, fmt.Errorf("starting %s: %w", c.Path, ErrGuardGone)
	}
	select {
	case r := <-g.answers:
		if r.Error != "" {
			return 0, fmt.Errorf("starting %s: %s", c.Path, r.Error)
		}
		return r.PID, nil
	case <-g.done:
		return 0, fmt.Errorf("starting %s: %w", c.Path, ErrGuardGone)
	}
}

// Done is closed when the guard has gone.
func (g *Guard) Done() <-chan struct{} { return g.done }

// PID is the guard's process id.
func (g *Guard) PID() int { return g.cmd.Process.Pid }

// Close has the guard kill every process and remove its directories, and waits
// until it has. Closing again does nothing and returns the same error.
func (g *Guard) Close() error { return g.close() }

func (g *Guard) end() error {
	g.closing.Store(true)
	err := unix.Shutdown(int(g.conn.Fd()), unix.SHUT_WR)
	<-g.done
	_ = g.conn.Close() // the guard has closed its end: nothing can be lost
	if g.waitErr != nil {
		return fmt.Errorf("ending the guard: %w", g.waitErr)
	}
	if err != nil && !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("ending the guard: %w", err)
	}
	return nil
}

var _ io.Closer = (*Guard)(nil)
