// Package supervise starts the native processes of a replay. It makes sure that the processes and
// their files do not outlive the replay, however the replay ends.
//
// The driver starts one guard: its own program again, in a new session. The guard is the parent of
// every process that the driver asks for, and adopts their orphans (PR_SET_CHILD_SUBREAPER,
// prctl(2)). The guard has one end of a socket pair. The driver's end is closed by Close, or when
// the driver dies, even by kill -9. The guard then kills all its descendants, removes the
// directories that Start named, and ends.
//
// If the machine allows it, the guard and its processes have a network of their own
// (network_namespaces(7)), which other processes cannot reach. The guard makes the driver's sockets
// in this network.
//
// If the guard itself is killed, the kernel kills its direct children (PR_SET_PDEATHSIG). The
// driver kills the rest of the guard's session; the directories are then left for the driver to
// remove.
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
	Path string   // absolute path of the program
	Args []string // arguments, the program's name first
	Env  []string // complete environment
	Dir  string   // working directory
	// Stdin, Stdout and Stderr are paths of files; empty means /dev/null. Output is appended.
	Stdin, Stdout, Stderr string
	// Reopens says that the process opens its standard output again, as /dev/stdout. The file then
	// belongs to [Options.User] until the guard ends.
	Reopens bool
}

// User is the user and the group of a process.
type User struct{ UID, GID int }

// Options say how a guard runs processes.
type Options struct {
	// Remove are the directories that the guard removes when it ends.
	Remove []string
	// User is the user of all processes; they have no supplementary groups. Nil means the guard's own
	// user, which is the driver's. Only root can give processes another user.
	User *User
	// Network says which network the processes have.
	Network Network
}

// Exit is the end of a process.
type Exit struct {
	PID int
	// Status is the status of wait(2).
	Status syscall.WaitStatus
	// CPU is the user and system time that the process and its collected children used.
	CPU time.Duration
}

// String describes how the process ended: "exit status 1", "killed by signal SIGKILL".
func (e Exit) String() string {
	if e.Status.Signaled() {
		return "killed by signal " + unix.SignalName(e.Status.Signal())
	}
	return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
}

// The driver sends a request to the guard, and the guard sends a reply back, one JSON value each.
// A reply without Exit answers the request under way. A reply with Exit reports the end of a
// process.
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
	mu      sync.Mutex // held during a request
	answers chan reply
	onExit  func(Exit)
	closing atomic.Bool
	close   func() error  // calls end once
	done    chan struct{} // closed when the guard has ended
	waitErr error         // the error of waiting for the guard; valid once done is closed

	network   Network
	whyShared error
	sockets   *os.File // the connection through which the guard sends sockets
	pool      []int    // sockets that Socket has not returned yet
}

// ErrGuardGone means that the guard process ended before Close.
var ErrGuardGone = errors.New("the guard process, which is the parent of the daemons, has ended")

// The environment variable envGuard tells the program that it is a guard. The guard's ends of the
// socket pairs are the descriptors connFD and, for sockets, socketsFD.
const (
	envGuard  = "RMREPLAY_GUARD"
	guardName = "rmreplay-guard" // the guard's process name, which the guard sets once it catches signals
	connFD    = 3
	socketsFD = 4
)

// Start starts a guard. Another goroutine calls onExit for every process that has ended, and for
// the guard itself if it ends before Close. The calling program must call [RunIfGuard] at the start
// of main and of TestMain. Start returns an error if the guard cannot be started. It also returns
// an error if the program does not call RunIfGuard: the guard would then start another guard.
func Start(opts Options, onExit func(Exit)) (*Guard, error) {
	if _, isGuard := os.LookupEnv(envGuard); isGuard {
		return nil, errors.New(
			"starting the guard: this process is a guard (its program has to call supervise.RunIfGuard first)")
	}
	var refused error
	for _, w := range opts.ways() {
		opts.Network = w.network
		g, err := start(opts, w.attr, onExit)
		if err != nil {
			if err = fmt.Errorf("with %s: %w", w.what, err); refused != nil {
				err = fmt.Errorf("%w; %w", refused, err)
			}
			refused = err
			continue
		}
		if g.network = w.network; g.network == SharedNetwork {
			g.whyShared = refused
		}
		return g, nil
	}
	return nil, fmt.Errorf("starting the guard: %w", refused)
}

// start starts a guard with the attributes.
func start(opts Options, attr *syscall.SysProcAttr, onExit func(Exit)) (*Guard, error) {
	options, err := json.Marshal(opts)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	sockets, theirSockets, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		_, _ = ours.Close(), theirs.Close() // the caller needs only the error of the socket pair
		return nil, err
	}
	giveUp := func() { _, _ = ours.Close(), sockets.Close() } // the caller needs only the other error
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{guardName}
	cmd.Env = append(os.Environ(), envGuard+"="+string(options))
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs, theirSockets}
	cmd.SysProcAttr = attr
	err = cmd.Start()
	// The guard now has its own copies. If ours stayed open, reading would not end when the guard
	// ends.
	_, _ = theirs.Close(), theirSockets.Close()
	if err != nil {
		giveUp()
		return nil, err
	}
	g := &Guard{
		cmd: cmd, conn: ours, encode: json.NewEncoder(ours),
		answers: make(chan reply, 1), onExit: onExit, done: make(chan struct{}), sockets: sockets,
	}
	g.close = sync.OnceValue(g.end)
	go g.listen()
	if err := g.begin(); err != nil {
		_ = g.Close() // the caller needs only the error of begin
		return nil, err
	}
	return g, nil
}

func socketPair(kind int) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "driver"), nil
}

// begin waits for the guard's first reply, which says whether its network is ready.
func (g *Guard) begin() error {
	select {
	case r := <-g.answers:
		if r.Error != "" {
			return errors.New(r.Error)
		}
	case <-g.done:
		return ErrGuardGone
	}
	patience := unix.NsecToTimeval(int64(socketPatience))
	return unix.SetsockoptTimeval(int(g.sockets.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience)
}

// listen passes on the guard's replies until the guard has ended.
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
		killSession(g.PID()) // before Wait: afterwards the kernel may use the id again
	}
	g.waitErr = g.cmd.Wait()
	if killed {
		status, _ := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
		g.onExit(Exit{PID: g.PID(), Status: status})
	}
}

// Run starts a process and returns its id. The error wraps [ErrGuardGone] if the guard has ended;
// otherwise it says why the process did not start.
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

// Done returns a channel that is closed when the guard has ended.
func (g *Guard) Done() <-chan struct{} { return g.done }

// PID returns the guard's process id.
func (g *Guard) PID() int { return g.cmd.Process.Pid }

// Close makes the guard kill every process and remove its directories, and waits until the guard
// has ended. A second Close does nothing and returns the same error.
func (g *Guard) Close() error { return g.close() }

func (g *Guard) end() error {
	g.closing.Store(true)
	defer g.closeSockets()
	err := unix.Shutdown(int(g.conn.Fd()), unix.SHUT_WR)
	<-g.done
	_ = g.conn.Close() // the guard has closed its end: no data can be lost
	if g.waitErr != nil {
		return fmt.Errorf("ending the guard: %w", g.waitErr)
	}
	if err != nil && !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("ending the guard: %w", err)
	}
	return nil
}

var _ io.Closer = (*Guard)(nil)
