// Package daemons starts and stops the processes of one run: slurmctld, slurmdbd and client
// commands under virtual time, and MariaDB in real time. All are children of a guard process
// (package supervise), which ends them when the run ends.
package daemons

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/procfs"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/supervise"
	"rmreplay/internal/vclock"
)

// Loop is the event loop, which advances virtual time.
type Loop interface {
	// Now returns the current virtual time.
	Now() hpc.Time
	// Until runs virtual time until done returns true.
	Until(ctx context.Context, done func() bool) error
	// Fail ends the run with an error. Err returns the error that ends the run, or nil.
	Fail(error)
	Err() error
}

// Config says how to start processes.
type Config struct {
	Sandbox *sandbox.Sandbox
	Install *install.Installation
	Loop    Loop
	LogDir  string
	// Network says whether the processes have a private network or share the machine's.
	Network supervise.Network
	// Progress is called with the name of each process that is started.
	Progress func(string)
}

// Daemons has the processes of a run. One goroutine uses it.
type Daemons struct {
	cfg       Config
	clock     *vclock.Clock
	hostsFile bool
	ready     chan struct{} // closed by Ready
	guard     *supervise.Guard
	notices   chan supervise.Exit
	names     map[int]string  // names of daemons by process id
	outside   sync.Map        // the process ids of the daemons that run in real time
	clients   map[int]*Client // running clients by process id
	started   int             // number of clients started so far
	closing   bool
}

// New starts the guard, and with it the network of all processes. [Daemons.Ready] must be called
// before any other process is started.
func New(cfg Config) (*Daemons, error) {
	d := &Daemons{cfg: cfg, ready: make(chan struct{}), notices: make(chan supervise.Exit, 4096), names: map[int]string{},
		clients: map[int]*Client{}}
	opts := supervise.Options{Remove: []string{cfg.Sandbox.Dir}, Network: cfg.Network}
	if !cfg.Sandbox.OwnUser() {
		opts.User = &cfg.Sandbox.User
	}
	var err error
	d.guard, err = supervise.Start(opts, func(exit supervise.Exit) {
		d.notices <- exit
		select {
		case <-d.ready:
			d.tell(exit.PID)
		default: // nothing waits for the clock yet
		}
	})
	return d, err
}

// Ready sets the clock under which the processes run, and says whether their configuration has a
// file of host names. When a process ends, the driver stops waiting for the clock, and
// [Daemons.TakeNotices] handles the end.
func (d *Daemons) Ready(clock *vclock.Clock, hostsFile bool) {
	d.clock, d.hostsFile = clock, hostsFile
	close(d.ready)
}

// tell interrupts the driver's wait after a process has ended. If the process is a daemon in real
// time, the run is over. tell then does not wait for managed threads: without that daemon, a
// thread may compute for ever.
func (d *Daemons) tell(pid int) {
	if _, ok := d.outside.Load(pid); ok {
		d.clock.Interrupt()
	} else {
		d.clock.Notify()
	}
}

// Socket returns a TCP socket in the processes' network.
func (d *Daemons) Socket() (int, error) { return d.guard.Socket() }

// Network returns the processes' network: private or shared.
func (d *Daemons) Network() supervise.Network { return d.guard.Network() }

// Client is a command, such as sacctmgr, that runs under virtual time.
type Client struct {
	name   string
	args   []string
	base   string // path of its input and output files, without their endings
	exited func(*Client)
	exit   supervise.Exit
}

// DaemonError says that a daemon ended before the run did.
type DaemonError struct {
	Name string
	Exit supervise.Exit
	// Log has the last lines of the daemon's log.
	Log []string
}

func (e *DaemonError) Error() string {
	s := fmt.Sprintf("%s ended in the middle of the run: %v", e.Name, e.Exit)
	if len(e.Log) > 0 {
		s += "; its last log lines:\n  " + strings.Join(e.Log, "\n  ")
	}
	return s
}

// SearchPath is the PATH of processes that need no programs of Slurm.
const SearchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// heap makes the C library's cache of each thread keep 500 free blocks of each size instead of
// seven. slurmctld's backfill scheduler frees hundreds of bitmaps at once, and reallocates them.
const heap = "GLIBC_TUNABLES=glibc.malloc.tcache_count=500"

// environment returns the environment of managed processes, without the variables for their slots.
func (d *Daemons) environment() []string {
	p := d.cfg.Sandbox
	env := []string{
		"PATH=" + p.File("bin") + ":" + strings.TrimPrefix(SearchPath, "PATH="), "HOME=/", "LANG=C", "TZ=UTC",
		"SLURM_CONF=" + p.File("conf", "slurm.conf"),
		"MYSQL_UNIX_PORT=" + p.File("db.sock"),
		"LD_PRELOAD=" + d.cfg.Install.NSSWrapper + ":" + p.Library, heap,
		"NSS_WRAPPER_PASSWD=" + p.File("passwd"), "NSS_WRAPPER_GROUP=" + p.File("group"),
	}
	if d.hostsFile {
		env = append(env, "NSS_WRAPPER_HOSTS="+p.File("conf", "hosts"))
	}
	env = append(env, d.cfg.Install.Environment()...)
	return append(env, d.clock.Environment()...)
}

// runManaged starts a process under virtual time.
func (d *Daemons) runManaged(c supervise.Command) (int, error) {
	slot, handOver := d.clock.Reserve()
	c.Env = append(append(d.environment(), handOver), c.Env...)
	c.Dir = d.cfg.Sandbox.Dir
	c.Path, c.Args = d.cfg.Install.Command(c.Path, c.Args)
	pid, err := d.guard.Run(c)
	if err != nil {
		d.clock.Unreserve(slot)
		return 0, err
	}
	d.clock.Started(slot, pid)
	return pid, nil
}

// Start starts a managed daemon and runs virtual time until the daemon listens at the port. If the
// daemon does not listen within five minutes of virtual time, the error has the last lines of its
// log.
func (d *Daemons) Start(ctx context.Context, name string, c supervise.Command, port uint16) error {
	d.cfg.Progress("starting " + name)
	// The daemon's LogFile is its standard output: see package conf.
	c.Stdout, c.Reopens = filepath.Join(d.cfg.LogDir, name+".log"), true
	c.Stderr = filepath.Join(d.cfg.LogDir, name+".out")
	pid, err := d.runManaged(c)
	if err != nil {
		return err
	}
	d.names[pid] = name
	const patience = 5 * time.Minute
	begun := d.cfg.Loop.Now()
	err = d.cfg.Loop.Until(ctx, func() bool { return d.clock.Listening(port) || d.cfg.Loop.Now().Sub(begun) > patience })
	if err == nil && !d.clock.Listening(port) {
		err = fmt.Errorf("%s did not listen at port %d within %v of virtual time; its last log lines:\n  %s",
			name, port, patience, strings.Join(d.LastLog(name), "\n  "))
	}
	return err
}

// Run runs a client command under virtual time and returns its standard output and standard error.
// stdin is the command's input; it may be empty. The error of a command that failed is a
// [CommandError] with its output.
func (d *Daemons) Run(ctx context.Context, stdin, path string, args ...string) (stdout, stderr string, err error) {
	exited := false
	cl, err := d.StartClient(stdin, path, args, func(*Client) { exited = true })
	if err != nil {
		return "", "", err
	}
	if err := d.cfg.Loop.Until(ctx, func() bool { return exited }); err != nil {
		return "", "", fmt.Errorf("running %s: %w", cl.name, err)
	}
	return cl.Result()
}

// StartClient starts a client command. It calls exited when the command has ended.
func (d *Daemons) StartClient(stdin, path string, args []string, exited func(*Client)) (*Client, error) {
	d.started++
	cl := &Client{name: filepath.Base(path), args: args, exited: exited}
	cl.base = d.cfg.Sandbox.File("out", cl.name+"-"+strconv.Itoa(d.started))
	c := supervise.Command{Path: path, Args: append([]string{path}, args...), Stdout: cl.base + ".out", Stderr: cl.base +
		".err"}
	if stdin != "" {
		c.Stdin = cl.base + ".in"
		if err := os.WriteFile(c.Stdin, []byte(stdin), 0o600); err != nil {
			return nil, fmt.Errorf("running %s: %w", cl.name, err)
		}
	}
	pid, err := d.runManaged(c)
	if err != nil {
		return nil, err
	}
	d.clients[pid] = cl
	return cl, nil
}

// Result returns the output of a client that has ended, and a [CommandError] if it failed.
func (cl *Client) Result() (stdout, stderr string, err error) {
	out, _ := os.ReadFile(cl.base + ".out")
	errOut, _ := os.ReadFile(cl.base + ".err")
	if cl.exit.Status != 0 {
		said := cmp.Or(strings.TrimSpace(string(errOut)), strings.TrimSpace(string(out)))
		err = &CommandError{Name: cl.name, Args: cl.args, Exit: cl.exit, Output: said}
	}
	return string(out), string(errOut), err
}

// CommandError says that a client command failed.
type CommandError struct {
	Name   string
	Args   []string
	Exit   supervise.Exit
	Output string // standard error, or else standard output
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("running %s %s: %v: %s", e.Name, strings.Join(e.Args, " "), e.Exit, e.Output)
}

// TakeNotices handles the ended processes that the guard has reported.
func (d *Daemons) TakeNotices() {
	for {
		select {
		case exit := <-d.notices:
			d.clock.Collect(exit.PID)
			d.ended(exit)
		default:
			return
		}
	}
}

// ended handles the end of a process. The end of a daemon or of the guard ends the run.
func (d *Daemons) ended(exit supervise.Exit) {
	if exit.PID == d.guard.PID() {
		d.cfg.Loop.Fail(fmt.Errorf("running Slurm: %w: %v", supervise.ErrGuardGone, exit))
		return
	}
	if cl := d.clients[exit.PID]; cl != nil {
		delete(d.clients, exit.PID)
		cl.exit = exit
		cl.exited(cl)
		return
	}
	if name, ok := d.names[exit.PID]; ok && !d.closing {
		delete(d.names, exit.PID)
		d.cfg.Loop.Fail(&DaemonError{Name: name, Exit: exit, Log: d.LastLog(name)})
	}
}

// LastLog returns the last lines of a daemon's log.
func (d *Daemons) LastLog(name string) []string {
	const lines, window = 8, 1 << 14
	for _, suffix := range []string{".log", ".out"} {
		f, err := os.Open(filepath.Join(d.cfg.LogDir, name+suffix))
		if err != nil {
			continue
		}
		defer f.Close()
		size, _ := f.Seek(0, 2)
		buf := make([]byte, min(size, window))
		_, _ = f.ReadAt(buf, size-int64(len(buf)))
		if text := strings.TrimSpace(string(buf)); text != "" {
			all := strings.Split(text, "\n")
			return all[max(0, len(all)-lines):]
		}
	}
	return nil
}

// CPU returns the CPU time, user and system, that each daemon has used.
func (d *Daemons) CPU() map[string]time.Duration {
	out := map[string]time.Duration{}
	for pid, name := range d.names {
		out[name] = procfs.Process(pid).CPU
	}
	return out
}

// PeakMemory returns the largest resident set of each daemon in bytes.
func (d *Daemons) PeakMemory() map[string]int64 {
	out := map[string]int64{}
	for pid, name := range d.names {
		out[name] = procfs.PeakMemory(pid)
	}
	return out
}

// StartOutside starts a daemon that runs in real time.
func (d *Daemons) StartOutside(name string, c supervise.Command) error {
	pid, err := d.guard.Run(c)
	if err == nil {
		d.names[pid] = name
		d.outside.Store(pid, true)
		d.clock.Outside(pid)
	}
	return err
}

// Pause waits for 10 ms of real time. It returns the error that ends the run, or nil.
func (d *Daemons) Pause(ctx context.Context) error {
	d.TakeNotices()
	if err := d.cfg.Loop.Err(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// Close ends all processes.
func (d *Daemons) Close() error {
	d.closing = true
	if d.guard == nil {
		return nil
	}
	return d.guard.Close()
}
