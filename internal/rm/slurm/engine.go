// Package slurm makes real Slurm a [rm.ResourceManager]. It runs the stock slurmctld, and with
// accounting slurmdbd and MariaDB, as components of a discrete-event simulation.
//
// An [Engine] connects parts that can be read separately. The parts in this package share one
// event loop:
//
//	start.go          starts the daemons and makes the parts
//	loop.go           advances virtual time, sends inputs in order, collects events
//	jobs.go, ask.go   submit the workload's jobs and follow them to their ends
//	io.go             slows down jobs that share file systems
//	control.go        carries out commands: cancel, hold, release, change
//	admin.go          changes nodes and reservations as scontrol does
//	actions.go        runs an administrator's commands and shells
//	configuration.go  adapts slurm.conf and replaces it on request
//	window.go         brings Slurm into the state in which a workload's window begins
//	users.go          decides which users exist
//	report.go         asks the daemons for everything that the run's record needs
//
// The other parts are packages:
//
//	install     finds Slurm's programs and their release
//	conf        reads and adapts slurm.conf, gres.conf and topology.conf
//	sandbox     has the directory and the loopback addresses of one run
//	daemons     starts and stops processes
//	network     has the driver's connections
//	rpc         encodes and decodes Slurm's messages
//	nodes       simulates all compute nodes
//	accounting  runs slurmdbd and MariaDB
//	fairshare   makes the usage that slurmctld starts with
//	jobcomp     reads the records of finished jobs
//	counters    adds up sdiag's counters
//	audit       compares slurmdbd's records with the run's
//
// The engine submits each job over the wire as the job's own user. slurmctld's jobcomp/filetxt
// plugin writes each job's end into a pipe, which the engine reads at that instant of virtual
// time. The daemons run below a guard process (package supervise), which ends them when the engine
// ends.
package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/accounting"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/supervise"
)

// Config says what [Start] runs.
type Config struct {
	Cluster *conf.Cluster
	Install *install.Installation
	// Users are the workload's users. They include the submitters of all jobs. If the cluster lists a
	// user too, the cluster's number and group are used.
	Users []hpc.User
	// Epoch is the instant at which the workload begins. The daemons start and the nodes register
	// before Epoch.
	Epoch  hpc.Time
	Delays nodes.Delays
	// FileSystems are the file systems that jobs share. Jobs with I/O on them slow each other down.
	FileSystems []hpc.FileSystem
	// Usage is the workload's fair-share usage at the instant UsageAt. slurmctld starts with this
	// usage minus Accrued, which is the usage that the preset jobs add later.
	Usage   []hpc.Usage
	Accrued []hpc.Accrual
	UsageAt hpc.Time
	// PreRoll is set if the workload has a window. [Engine.BeginWindow] begins the window.
	PreRoll bool
	// PreRollBackfill is the interval of backfill cycles before the window, in whole seconds; 0 turns backfill off until
	// the window begins. The intervals count from slurmctld's start. The first cycle in the window begins at the end of
	// one of these intervals.
	PreRollBackfill time.Duration
	// PresetBurst is the largest number of preset jobs that start together.
	PresetBurst int
	// ClockFactor is the virtual time, in seconds, that passes after Epoch while slurmctld uses one
	// second of CPU time. With 0, the frozen clock, computing takes no virtual time.
	ClockFactor float64
	// ReasonsEvery is the interval, in virtual time, at which the engine asks why jobs are pending
	// ([rm.Waiting]); 0 for never.
	ReasonsEvery time.Duration
	// Statistics is called with slurmctld's counters, as sdiag shows them, every ten minutes of
	// virtual time, or every hour with the measured clock. It may be nil.
	Statistics func(rm.Statistics)
	// LogDir is the directory for the daemons' logs.
	LogDir string
	// WithoutAccounting runs no slurmdbd and no database, even if the site has them.
	WithoutAccounting bool
	// Progress is called with each step of the start-up. It may be nil.
	Progress func(string)
}

// Engine is a running Slurm under virtual time. It implements [rm.ResourceManager];
// one goroutine drives it.
type Engine struct {
	cfg      Config
	began    hpc.Time // when slurmctld started
	sandbox  *sandbox.Sandbox
	loop     *loop
	conf     *configuration
	users    *users
	jobs     *jobs
	nodes    *nodes.Cluster
	actions  *actions
	counters *counters.Counters
	// database is nil without accounting.
	database    *accounting.Database
	controlPort uint16
	dbPort      uint16
}

// Warning is a remark that readers of the results must see.
type Warning struct {
	// Code names the kind of warning: "sacct-differs". Text is for people.
	Code, Text string
	// AffectsResult says that the result may be invalid.
	AffectsResult bool
}

var _ rm.ResourceManager = (*Engine)(nil)

// Now implements [rm.ResourceManager].
func (e *Engine) Now() hpc.Time { return e.loop.Now() }

// AdvanceTo implements [rm.ResourceManager].
func (e *Engine) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	return e.loop.advance(ctx, t)
}

// Submit implements [rm.ResourceManager].
func (e *Engine) Submit(job *hpc.Job) error { return e.jobs.submit(job) }

// Act implements [rm.ResourceManager].
func (e *Engine) Act(a hpc.Action) error { return e.actions.act(a) }

// Running returns the number of jobs whose script runs.
func (e *Engine) Running() int { return len(e.jobs.running) }

// Adapted returns the configuration with which the daemons started, and its differences from the
// site's.
func (e *Engine) Adapted() *conf.Adapted { return e.conf.adapted }

// Network returns the network of the daemons: private or shared.
func (e *Engine) Network() supervise.Network { return e.loop.daemons.Network() }

// ClockFile returns the path of the link to the virtual clock that a running engine makes in
// logDir. [vclock.Look] reads it.
func ClockFile(logDir string) string { return filepath.Join(logDir, "clock") }

// Close ends all processes and removes their files.
func (e *Engine) Close() error {
	var err error
	if e.loop.daemons != nil {
		err = e.loop.daemons.Close()
	}
	if e.loop.network != nil {
		e.loop.network.Close()
	}
	if e.loop.clock != nil {
		_ = os.Remove(ClockFile(e.cfg.LogDir)) // the file itself is removed below
		err = errors.Join(err, e.loop.clock.Close())
	}
	e.sandbox.Close()
	return err
}

// cpu returns the CPU time, user and system, that each daemon has used.
func (e *Engine) cpu() map[string]time.Duration { return e.loop.daemons.CPU() }

func asErrno(err error) (slurmspec.Errno, bool) {
	var errno slurmspec.Errno
	ok := errors.As(err, &errno)
	return errno, ok
}
