package slurm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/accounting"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/daemons"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/network"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/supervise"
	"rmreplay/internal/vclock"
)

// daemonUser is the name of the daemons' user, as the daemons see it. The user's real name might
// also be the name of a user in the workload.
const daemonUser = "rmreplay"

// prepareLead is the virtual time, before slurmctld starts, in which slurmdbd starts and
// sacctmgr fills the database.
const prepareLead = 15 * time.Minute

// stateSaveInterval is the virtual time between two saves of slurmctld's whole state when
// computing takes no virtual time. By default, slurmctld saves its state every five seconds if
// anything changed (slurmctld/state_save.c). A replay never restarts slurmctld from that state,
// and with thousands of nodes the saves would take most of the CPU time.
const stateSaveInterval = time.Hour

// Start starts the daemons. It returns when the nodes have registered and virtual time is
// cfg.Epoch. slurmctld starts at cfg.Epoch - lead. For an unsupported release of Slurm, the error
// is an [slurmspec.UnsupportedError].
func Start(ctx context.Context, cfg Config, lead time.Duration) (_ *Engine, err error) {
	e := &Engine{cfg: cfg, began: cfg.Epoch.Add(-lead), loop: &loop{}}
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
	if e.loop.codec, err = rpc.NewCodec(cfg.Install.Release); err != nil {
		return nil, fmt.Errorf("starting Slurm: %w", err)
	}
	if e.sandbox, err = sandbox.New(len(cfg.Cluster.Nodes)); err != nil {
		return nil, err
	}
	e.loop.stateDir = e.sandbox.Dir
	e.checkClock()
	if err := e.prepare(lead); err != nil {
		return nil, err
	}
	if err := e.startAccounting(ctx); err != nil {
		return nil, err
	}
	if err := e.loop.quietly(ctx, cfg.Epoch.Add(-lead)); err != nil {
		return nil, err
	}
	if err := e.startController(ctx); err != nil {
		return nil, err
	}
	if e.Now() > cfg.Epoch {
		return nil, fmt.Errorf("starting Slurm took until %v, which is after the workload's begin %v (want a longer lead)",
			e.Now(), cfg.Epoch)
	}
	// If Epoch is at midnight, slurmctld resets its counters at Epoch. The last answer before Epoch then has the counters
	// from before the reset.
	e.counters = counters.Watch(controller{e.loop}, countEvery(cfg.ClockFactor), cfg.Statistics)
	if err := e.loop.quietly(ctx, cfg.Epoch); err != nil {
		return nil, err
	}
	// Computing takes no virtual time during the start; otherwise a slow controller might not be ready by Epoch. The start
	// is not part of the result.
	e.loop.clock.SetFactor(cfg.ClockFactor)
	return e, nil
}

// countEvery is the virtual time between two requests for slurmctld's statistics. With the
// measured clock the answers take virtual time, so the engine asks less often.
func countEvery(clockFactor float64) time.Duration {
	if clockFactor > 0 {
		return time.Hour
	}
	return counters.Every
}

// checkClock warns of functions that the daemons import and that the virtual clock does not
// handle. The result may be invalid if such a function is known to have an effect.
func (e *Engine) checkClock() {
	list, err := e.cfg.Install.Unhandled()
	switch {
	case err != nil: // slurmctld may be a script that starts the daemon
		e.loop.warn("clock-functions", fmt.Sprintf("it was not checked whether the virtual clock handles Slurm: %v",
			err), false)
	case len(list) > 0:
		affects := slices.ContainsFunc(list, func(i vclock.Import) bool { return i.Effect != vclock.NotKnown })
		e.loop.warn("clock-functions", "the virtual clock does not handle a function: "+install.DescribeImports(list),
			affects)
	}
}

// prepare makes the parts of the engine and everything that the daemons need: guard, directory,
// pipe, users, network, configuration and clock.
func (e *Engine) prepare(lead time.Duration) error {
	p, l := e.sandbox, e.loop
	which, err := install.Network()
	if err != nil {
		return err
	}
	l.daemons, err = daemons.New(daemons.Config{
		Sandbox: p, Install: e.cfg.Install, Loop: l, LogDir: e.cfg.LogDir, Network: which, Progress: e.cfg.Progress,
	})
	if err != nil && which == supervise.PrivateNetwork {
		return &install.NetworkError{Err: err}
	}
	if err != nil {
		return err
	}
	// The guard must run before the files exist, because it removes them.
	if err := p.Make(); err != nil {
		return err
	}
	pipe := p.File("jobcomp.pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		return fmt.Errorf("making the pipe of finished jobs: %w", err)
	}
	if err := p.Give(pipe); err != nil {
		return err
	}
	e.users = newUsers(p.User, e.cfg.Cluster.Users, e.cfg.Users)
	e.jobs = newJobs(l, e.users, e.cfg.Install.Release)
	e.jobs.endings.Path = filepath.Join(e.cfg.LogDir, "slurmctld.log")
	if e.jobs.transfers, err = newTransfers(e.jobs, e.cfg.FileSystems); err != nil {
		return err
	}
	l.network, err = network.Listen(l.daemons.Socket, p.Driver(), pipe,
		network.Handlers{NodeMessage: e.nodeMessage, PipeData: e.jobs.pipeData})
	if err != nil {
		return err
	}
	if err := p.FreePorts(l.daemons.Socket, &e.controlPort, &e.dbPort); err != nil {
		return err
	}
	if err := e.configure(); err != nil {
		return err
	}
	start := e.cfg.Epoch.Add(-lead - prepareLead)
	l.clock, err = vclock.New(p.Dir, start, vclock.Policy{
		Client: net.IP(l.network.Source[:]), Port: l.network.NodePort, Pipe: pipe,
		// slurmdbd sends updates to the address from which slurmctld connected.
		OwnAddress: true,
		// slurmctld starts its scripts without these variables.
		Inherited: []string{"NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"},
	})
	if err != nil {
		return err
	}
	if err := p.Give(l.clock.Path()); err != nil {
		return err
	}
	if !p.OwnUser() {
		l.clock.SetUser(p.User.UID, p.User.GID)
	}
	l.network.Connect(netip.AddrPortFrom(p.Control(), e.controlPort), l.codec, l.clock)
	if err := os.Symlink(l.clock.Path(), ClockFile(e.cfg.LogDir)); err != nil {
		return fmt.Errorf("linking the virtual clock in the log directory: %w", err)
	}
	_, hosts := e.conf.adapted.Files["hosts"]
	l.daemons.Ready(l.clock, hosts)
	delays := e.cfg.Delays
	if epilog, _ := e.cfg.Cluster.Get("Epilog"); epilog != "" {
		delays.HasEpilog = true // the epilog does not run, but the nodes report its end
	}
	e.nodes, err = nodes.New(e.conf.adapted.Nodes, l.codec, delays, nodeEnvironment{l, e.jobs})
	e.jobs.nodes = e.nodes
	return err
}

// configure adapts the site's configuration and sets the parts' values that depend on it.
func (e *Engine) configure() error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this machine's name: %w", err)
	}
	p := e.sandbox
	e.conf, err = configure(&e.cfg, conf.Environment{
		StateDir: p.Dir, LogDir: e.cfg.LogDir, DaemonUser: daemonUser, Hostname: hostname,
		ControlAddress: p.Control(), ControlPort: e.controlPort, DBPort: e.dbPort,
		NodePort: uint16(e.loop.network.NodePort), NodeAddress: p.NodeAddress, JobCompletionPath: p.File("jobcomp.pipe"),
		PluginDir: e.cfg.Install.PluginDir, WithoutAccounting: e.cfg.WithoutAccounting,
	}, p)
	if err != nil {
		return err
	}
	e.jobs.reasons.every = e.cfg.ReasonsEvery
	e.jobs.selectPlugin = rpc.SelectPluginID(e.conf.adapted.SelectType)
	read := func(c *conf.Cluster) { e.jobs.cluster, e.jobs.requeueExits = c, c.RequeueExits() }
	read(e.cfg.Cluster)
	e.actions = &actions{
		loop: e.loop, conf: e.conf, install: e.cfg.Install, logDir: e.cfg.LogDir,
		reconfigured: read,
		count:        func(then func()) { e.counters.AskBefore(then) },
		cut:          func() { e.counters.Cut() },
	}
	e.loop.holds = e.actions.hold
	return e.users.write(p)
}

// startAccounting starts slurmdbd if the site uses accounting. It also writes the fair-share usage
// with which slurmctld starts.
func (e *Engine) startAccounting(ctx context.Context) error {
	if !e.conf.adapted.Accounting {
		if len(e.cfg.Usage) > 0 {
			e.loop.warn("usage-ignored", "the workload has fair-share usage, but the cluster uses no accounting", true)
		}
		return nil
	}
	commands, madeUp := e.cfg.Cluster.AccountCommands(e.cfg.Users)
	if madeUp {
		e.loop.warn("accounts-made-up", "the cluster directory has no accounts.sacctmgr: every user gets an account named "+
			"after the user's group, all with equal shares", true)
	}
	tres, _ := e.cfg.Cluster.Get("AccountingStorageTRES")
	var complaint string
	var err error
	e.database, complaint, err = accounting.Start(ctx, accounting.Config{
		Daemons: e.loop.daemons, Sandbox: e.sandbox, Install: e.cfg.Install, Port: e.dbPort, LogDir: e.cfg.LogDir,
		Cluster: e.cfg.Cluster.Name, Commands: string(commands), TRES: tres, Since: e.cfg.Epoch.Add(-prepareLead),
		Progress: e.cfg.Progress,
	})
	if err != nil {
		return err
	}
	if complaint != "" {
		e.loop.warn("sacctmgr", "filling the accounting database: sacctmgr refused a command (logs/sacctmgr.log has its "+
			"whole output): "+complaint, true)
	}
	return e.giveUsage(ctx)
}

// giveUsage writes the fair-share usage into the files that slurmctld reads when it starts.
func (e *Engine) giveUsage(ctx context.Context) error {
	usage := fairshare.Usage{Given: e.cfg.Usage, Accrued: e.cfg.Accrued, At: e.cfg.UsageAt}.WithCluster(e.cfg.Cluster)
	if len(usage.Given) == 0 && (!e.cfg.PreRoll || !usage.LimitsEnforced) {
		return nil
	}
	known, err := fairshare.ReadAccounts(e.cfg.Cluster.Name, func(args ...string) (string,
		error) {
		return e.database.List(ctx, args...)
	})
	if err != nil {
		return fmt.Errorf("writing the fair-share usage: %w", err)
	}
	usage.CheckLimits(known, e.loop.warn)
	for name, content := range usage.Files(known, e.loop.codec, e.Now(), e.loop.warn) {
		if err := e.sandbox.WriteFile(content, "state", name); err != nil {
			return fmt.Errorf("writing the fair-share usage: %w", err)
		}
	}
	return nil
}

// startController starts slurmctld and runs virtual time until all nodes have registered.
func (e *Engine) startController(ctx context.Context) error {
	slurmctld := e.sandbox.File("bin", "slurmctld")
	c := supervise.Command{Path: slurmctld, Args: []string{slurmctld, "-D", "-c"}}
	if e.cfg.ClockFactor > 0 {
		// Only slurmctld's computing takes virtual time. Clients compute on their users' machines.
		// slurmdbd mostly waits for its database, and slurmctld schedules without waiting for slurmdbd,
		// so slurmdbd's CPU time says little.
		c.Env = []string{vclock.ChargedEnvironment}
	} else {
		c.Env = []string{vclock.CoarseEnvironment("sstate", stateSaveInterval)}
	}
	if err := e.loop.daemons.Start(ctx, "slurmctld", c, e.controlPort); err != nil {
		return err
	}
	e.cfg.Progress("registering the nodes")
	for i := range e.conf.adapted.Nodes {
		e.nodes.Register(i)
	}
	return e.loop.Until(ctx, e.loop.network.Idle)
}

// nodeMessage answers a message that slurmctld sent to a node's address.
func (e *Engine) nodeMessage(addr [4]byte, m *rpc.Message) (*rpc.Message, error) {
	index, ok := e.sandbox.NodeIndex(addr)
	if !ok {
		return nil, fmt.Errorf("slurmctld sent a message (%v) to %d.%d.%d.%d, which is not a node's address",
			m.Type, addr[0], addr[1], addr[2], addr[3])
	}
	return e.nodes.Handle(index, m)
}

// nodeEnvironment connects the compute nodes to the engine. It implements [nodes.Environment].
type nodeEnvironment struct {
	*loop
	jobs *jobs
}

var _ nodes.Environment = nodeEnvironment{}

// Send sends a message of a node to slurmctld.
func (n nodeEnvironment) Send(typ rpc.Type, body []byte) {
	n.ask(typ, body, func(_ *rpc.Message, err error) {
		if typ == rpc.MessageEpilogComplete && errors.Is(err, network.ErrNoAnswer) {
			return // slurmctld never answers this message
		}
		if err != nil && n.Err() == nil {
			n.warn("message-lost", fmt.Sprintf("sending a node's message (%v) to slurmctld: %v", typ, err), true)
		}
	})
}

// Script returns the run time and the end of a job's script.
func (n nodeEnvironment) Script(l *rpc.BatchLaunch) (nodes.Script, error) { return n.jobs.script(l) }

// JobStarted handles the launch of a job's script.
func (n nodeEnvironment) JobStarted(l *rpc.BatchLaunch) { n.jobs.started(l) }

// JobSuspended reports that a job was suspended or resumed.
func (n nodeEnvironment) JobSuspended(job uint32, resumed bool) { n.jobs.suspended(job, resumed) }

// controller asks slurmctld for its statistics. It implements [counters.Controller].
type controller struct{ *loop }

var _ counters.Controller = controller{}

// AskStats requests the statistics without waiting for the answer.
func (c controller) AskStats(answer func(*rpc.Stats, error)) {
	c.ask(rpc.RequestStats, c.codec.Body(&rpc.StatsRequest{}), func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if err != nil {
			answer(nil, err)
			return
		}
		answer(rpc.DecodeStats(reply))
	})
}
