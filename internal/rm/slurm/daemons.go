package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/supervise"
	"rmreplay/internal/vclock"
)

// daemons are the processes of a run.
type daemons struct {
	controlPort, dbPort uint16
	names               map[int]string  // of the daemons, by process id
	clients             map[int]*client // that run, by process id
	started             int             // clients so far
	closing             bool
}

// client is a command such as sacctmgr that runs under virtual time.
type client struct {
	name   string
	args   []string
	base   string // of the files of its input and output
	exited func(*client)
	exit   supervise.Exit
}

// DaemonError says that a daemon ended although the run had not.
type DaemonError struct {
	Name string
	Exit supervise.Exit
	// Log are the last lines that it logged.
	Log []string
}

func (e *DaemonError) Error() string {
	s := fmt.Sprintf("%s ended in the middle of the run: %v", e.Name, e.Exit)
	if len(e.Log) > 0 {
		s += "; its last log lines:\n  " + strings.Join(e.Log, "\n  ")
	}
	return s
}

// daemonUser is the name that the user who runs the replay has in Slurm's world, so
// that it cannot be the name of a user of the workload.
const daemonUser = "rmreplay"

// Lead times, in virtual time: the database is filled long before slurmctld starts,
// and slurmctld runs for Lead before the workload begins.
const prepareLead = 15 * time.Minute

// stateSaveInterval is how often slurmctld writes its whole state to disk where its
// computing takes no time. It would every five seconds in which anything changed
// (slurmctld/state_save.c), for a restart that there is not, and on a machine of
// thousands of nodes spend more CPU time on it than on all else.
const stateSaveInterval = time.Hour

// Start starts the daemons and returns when the nodes have registered and virtual
// time is cfg.Epoch. lead is how long slurmctld has been running by then.
func Start(ctx context.Context, cfg Config, lead time.Duration) (_ *Engine, err error) {
	e := &Engine{
		cfg: cfg, notices: make(chan supervise.Exit, 4096),
		byID: map[string]*submission{}, byNumber: map[uint32]*instance{}, running: map[uint32]bool{}, orphans: map[uint32][]completion{},
		daemons: daemons{names: map[int]string{}, clients: map[int]*client{}},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if cfg.Progress == nil {
		e.cfg.Progress = func(string) {}
	}
	if e.cfg.LogDir, err = filepath.Abs(cfg.LogDir); err != nil {
		return nil, fmt.Errorf("finding the log directory: %w", err)
	}
	e.nameUsers()
	if e.place, err = newPlace(len(cfg.Cluster.Nodes)); err != nil {
		return nil, err
	}
	if err := e.openWorld(lead); err != nil {
		return nil, err
	}
	if e.adapted.Accounting {
		if err := e.startAccounting(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.giveUsage(ctx); err != nil {
		return nil, err
	}
	if err := e.advanceQuietly(ctx, cfg.Epoch.Add(-lead)); err != nil {
		return nil, err
	}
	if err := e.startController(ctx); err != nil {
		return nil, err
	}
	if e.Now() > cfg.Epoch {
		return nil, fmt.Errorf("starting Slurm took until %v, beyond the workload's beginning %v", e.Now(), cfg.Epoch)
	}
	if err := e.advanceQuietly(ctx, cfg.Epoch); err != nil {
		return nil, err
	}
	// Not before: a slow controller would not be ready by then, nor is its start of interest.
	e.clock.SetFactor(cfg.ClockFactor)
	e.watchCounters()
	return e, nil
}

// openWorld makes everything that the daemons need to find: configuration, users,
// pipe, network, clock and guard.
func (e *Engine) openWorld(lead time.Duration) error {
	p := &e.place
	pipe := p.file("jobcomp.pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		return fmt.Errorf("making the pipe of finished jobs: %w", err)
	}
	var err error
	if e.network, err = listen(p.driver(), pipe); err != nil {
		return err
	}
	e.network.nodeMessage, e.network.pipeData = e.nodeMessage, e.pipeData
	if err := p.freePorts(&e.daemons.controlPort, &e.daemons.dbPort); err != nil {
		return err
	}
	e.network.ctld = unix.SockaddrInet4{Addr: p.control().As4(), Port: int(e.daemons.controlPort)}
	if err := e.configure(); err != nil {
		return err
	}
	start := e.cfg.Epoch.Add(-lead - prepareLead)
	e.clock, err = vclock.New(p.dir, start, vclock.Addresses{Client: net.IP(e.network.source[:]), NodePort: e.network.nodePort, Pipe: pipe})
	if err != nil {
		return err
	}
	e.network.clock = e.clock
	if err := os.Symlink(e.clock.Path(), ClockFile(e.cfg.LogDir)); err != nil {
		return fmt.Errorf("showing where the virtual clock is: %w", err)
	}
	e.guard, err = supervise.Start([]string{p.dir}, func(exit supervise.Exit) {
		e.notices <- exit
		e.clock.Notify()
	})
	if err != nil {
		return err
	}
	delays := e.cfg.Delays
	if epilog, _ := e.cfg.Cluster.Get("Epilog"); epilog != "" {
		delays.HasEpilog = true // it does not run here, but that nodes report it is heard
	}
	e.nodes, err = nodes.New(e.adapted.Nodes, e.cfg.Install.Version, delays, e)
	return err
}

// environmentOf is what the configuration is adapted to.
func (e *Engine) environmentOf() conf.Environment {
	p := &e.place
	return conf.Environment{
		StateDir: p.dir, LogDir: e.cfg.LogDir, DaemonUser: daemonUser, Hostname: e.hostname,
		ControlAddress: p.control(), ControlPort: e.daemons.controlPort, DBPort: e.daemons.dbPort,
		NodePort: uint16(e.network.nodePort), NodeAddress: p.address, JobCompletionPath: p.file("jobcomp.pipe"),
		PluginDir: e.cfg.Install.PluginDir, WithoutAccounting: e.cfg.WithoutAccounting,
	}
}

// configure adapts the site's configuration and writes it where the daemons look.
func (e *Engine) configure() (err error) {
	p := &e.place
	if e.hostname, err = os.Hostname(); err != nil {
		return fmt.Errorf("finding this machine's name: %w", err)
	}
	if e.adapted, err = conf.Adapt(e.cfg.Cluster, e.environmentOf()); err != nil {
		return err
	}
	selectType, _ := e.cfg.Cluster.Get("SelectType")
	e.selectPlugin = rpc.SelectPluginID(selectType)
	e.requeueExits = e.cfg.Cluster.RequeueExits()
	e.preRoll = e.cfg.PreRoll
	if err := e.writeConfs(e.adapted); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(e.cfg.LogDir, "slurm.conf"), e.adapted.Files["slurm.conf"], 0o644); err != nil {
		return fmt.Errorf("keeping the adapted slurm.conf: %w", err)
	}
	// slurmctld looks at the name that it was started by.
	if err := os.Symlink(e.cfg.Install.Slurmctld, p.file("bin", "slurmctld")); err != nil {
		return fmt.Errorf("giving slurmctld its name: %w", err)
	}
	return e.writeUsers()
}

// ClockFile is where a running engine with that log directory shows its virtual clock,
// for [vclock.Look].
func ClockFile(logDir string) string { return filepath.Join(logDir, "clock") }

// environment is that of the managed processes, but for the slot.
func (e *Engine) environment() []string {
	p := &e.place
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C", "TZ=UTC",
		"SLURM_CONF=" + p.file("conf", "slurm.conf"),
		"MYSQL_UNIX_PORT=" + p.file("db.sock"),
		"LD_PRELOAD=" + e.cfg.Install.NSSWrapper + ":" + p.library,
		"NSS_WRAPPER_PASSWD=" + p.file("passwd"), "NSS_WRAPPER_GROUP=" + p.file("group"),
	}
	if _, ok := e.adapted.Files["hosts"]; ok {
		env = append(env, "NSS_WRAPPER_HOSTS="+p.file("conf", "hosts"))
	}
	return append(env, e.clock.Environment()...)
}

// runManaged starts a process under virtual time.
func (e *Engine) runManaged(c supervise.Command) (int, error) {
	slot, handOver := e.clock.Reserve()
	c.Env = append(append(e.environment(), handOver), c.Env...)
	c.Dir = e.place.dir
	pid, err := e.guard.Run(c)
	if err != nil {
		e.clock.Unreserve(slot)
		return 0, err
	}
	e.clock.Started(slot, pid)
	return pid, nil
}

// startDaemon starts a managed daemon and lets virtual time pass until it listens.
func (e *Engine) startDaemon(ctx context.Context, name string, c supervise.Command, port uint16) error {
	e.cfg.Progress("starting " + name)
	c.Stdout = filepath.Join(e.cfg.LogDir, name+".out")
	c.Stderr = c.Stdout
	pid, err := e.runManaged(c)
	if err != nil {
		return err
	}
	e.daemons.names[pid] = name
	const patience = 5 * time.Minute
	begun := e.Now()
	err = e.advanceUntil(ctx, func() bool { return e.clock.Listening(port) || e.Now().Sub(begun) > patience })
	if err == nil && !e.clock.Listening(port) {
		err = fmt.Errorf("%s did not listen at port %d within %v of virtual time; its last log lines:\n  %s",
			name, port, patience, strings.Join(e.lastLog(name), "\n  "))
	}
	return err
}

func (e *Engine) startController(ctx context.Context) error {
	slurmctld := e.place.file("bin", "slurmctld")
	c := supervise.Command{Path: slurmctld, Args: []string{slurmctld, "-D", "-c"}}
	if e.cfg.ClockFactor > 0 {
		// Only slurmctld is charged for its CPU time. Clients compute on their users' machines.
		// slurmdbd mostly waits for its database, and slurmctld does not wait for slurmdbd to
		// schedule.
		c.Env = []string{vclock.ChargedEnvironment}
	} else {
		c.Env = []string{vclock.CoarseEnvironment("sstate", stateSaveInterval)}
	}
	err := e.startDaemon(ctx, "slurmctld", c, e.daemons.controlPort)
	if err != nil {
		return err
	}
	e.cfg.Progress("registering the nodes")
	for i := range e.adapted.Nodes {
		e.nodes.Register(i)
	}
	return e.advanceUntil(ctx, func() bool { return e.network.open == 0 && len(e.network.queue) == 0 })
}

// step lets virtual time pass up to limit, or to the first thing that happens.
func (e *Engine) step(ctx context.Context, limit hpc.Time) (vclock.Wake, error) {
	e.runTimers()
	wake, err := e.wait(ctx, min(limit, e.timers.Next()))
	if err != nil {
		return wake, e.explain(err)
	}
	switch wake {
	case vclock.Input:
		if err := e.network.poll(); err != nil {
			e.fail(err)
		}
	case vclock.Notified:
		e.takeNotices()
	}
	return wake, e.err
}

// advanceUntil lets virtual time pass until done. Nothing of the workload is under way.
func (e *Engine) advanceUntil(ctx context.Context, done func() bool) error {
	for !done() {
		// In steps, so that a condition that only time changes is looked at again.
		if _, err := e.step(ctx, e.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) advanceQuietly(ctx context.Context, t hpc.Time) error {
	for e.Now() < t {
		if _, err := e.step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// run runs a client command under virtual time and returns what it wrote to standard
// output and standard error. stdin is its input, or empty. A failure is an error with
// the command's own words.
func (e *Engine) run(ctx context.Context, stdin, path string, args ...string) (stdout, stderr string, err error) {
	exited := false
	cl, err := e.startClient(stdin, path, args, func(*client) { exited = true })
	if err != nil {
		return "", "", err
	}
	if err := e.advanceUntil(ctx, func() bool { return exited }); err != nil {
		return "", "", fmt.Errorf("running %s: %w", cl.name, err)
	}
	return cl.result()
}

// startClient starts a client command; exited is called when it has ended.
func (e *Engine) startClient(stdin, path string, args []string, exited func(*client)) (*client, error) {
	e.daemons.started++
	cl := &client{name: filepath.Base(path), args: args, exited: exited}
	cl.base = e.place.file("out", cl.name+"-"+strconv.Itoa(e.daemons.started))
	c := supervise.Command{Path: path, Args: append([]string{path}, args...), Stdout: cl.base + ".out", Stderr: cl.base + ".err"}
	if stdin != "" {
		c.Stdin = cl.base + ".in"
		if err := os.WriteFile(c.Stdin, []byte(stdin), 0o600); err != nil {
			return nil, fmt.Errorf("running %s: %w", cl.name, err)
		}
	}
	pid, err := e.runManaged(c)
	if err != nil {
		return nil, err
	}
	e.daemons.clients[pid] = cl
	return cl, nil
}

// result is what a client that has ended wrote, and a [CommandError] if it failed.
func (cl *client) result() (stdout, stderr string, err error) {
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
	Output string // what it wrote to standard error, or else to standard output
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("running %s %s: %v: %s", e.Name, strings.Join(e.Args, " "), e.Exit, e.Output)
}

// processEnded takes the news that a process has ended.
func (e *Engine) processEnded(exit supervise.Exit) {
	if exit.PID == e.guard.PID() {
		e.fail(fmt.Errorf("running Slurm: %w: %v", supervise.ErrGuardGone, exit))
		return
	}
	if cl := e.daemons.clients[exit.PID]; cl != nil {
		delete(e.daemons.clients, exit.PID)
		cl.exit = exit
		cl.exited(cl)
		return
	}
	if name, ok := e.daemons.names[exit.PID]; ok && !e.daemons.closing {
		delete(e.daemons.names, exit.PID)
		e.fail(&DaemonError{Name: name, Exit: exit, Log: e.lastLog(name)})
	}
}

// lastLog is the end of a daemon's log.
func (e *Engine) lastLog(name string) []string {
	const lines, window = 8, 1 << 14
	for _, suffix := range []string{".log", ".out"} {
		f, err := os.Open(filepath.Join(e.cfg.LogDir, name+suffix))
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

// CPU is the CPU time, user and system, that each daemon has used so far.
func (e *Engine) CPU() map[string]time.Duration {
	out := map[string]time.Duration{}
	for pid, name := range e.daemons.names {
		out[name] = vclock.CPUTime(pid)
	}
	return out
}

// PeakMemory is the largest resident set, in bytes, that each daemon has had so far.
func (e *Engine) PeakMemory() map[string]int64 {
	out := map[string]int64{}
	for pid, name := range e.daemons.names {
		out[name] = vclock.PeakMemory(pid)
	}
	return out
}

// ClockSteps returns how often virtual time was advanced, and the virtual time that slurmctld's
// threads have waited for their own computing, summed over all threads.
func (e *Engine) ClockSteps() (steps uint64, charged time.Duration) {
	s := e.clock.Stats()
	return s.InPlace + s.Driver, s.Charged
}

// Adapted is the configuration that the daemons run with, and what was changed in it.
func (e *Engine) Adapted() *conf.Adapted { return e.adapted }

// Close ends all processes and removes what they left.
func (e *Engine) Close() error {
	e.daemons.closing = true
	var err error
	if e.guard != nil {
		err = e.guard.Close()
	}
	if e.network != nil {
		e.network.close()
	}
	if e.clock != nil {
		_ = os.Remove(ClockFile(e.cfg.LogDir)) // it leads nowhere now
		err = errors.Join(err, e.clock.Close())
	}
	e.place.remove()
	return err
}
