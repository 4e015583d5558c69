// Package slurm is the real Slurm as a [rm.ResourceManager]: the stock slurmctld,
// and with accounting slurmdbd and MariaDB, as components of a discrete-event
// simulation.
//
// An [Engine] ties together parts that can be read alone. Those of this package share one
// event loop (loop.go): the workload's jobs (jobs.go, ask.go), an administrator's actions
// (actions.go), the adapted configuration (configuration.go) and the users (users.go). The
// others are packages below this one: daemons starts and stops processes, network has the
// connections, nodes plays all compute nodes, accounting is slurmdbd, fairshare makes the
// usage that slurmctld starts with, jobcomp reads the ends of jobs, counters adds up sdiag's
// numbers, and audit compares slurmdbd with the run's record.
//
// Jobs are submitted over the wire as their own users. The end of each arrives at the instant
// at which slurmctld records it, through the pipe into which the stock jobcomp/filetxt plugin
// writes. The daemons run below a guard process (package supervise) that lets nothing outlive
// the engine.
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
)

// Config says what to run.
type Config struct {
	Cluster *conf.Cluster
	Install *install.Installation
	// Users are those of the workload, among them everybody who submits one of its jobs.
	// Numbers and groups in the cluster's own list win over those given here.
	Users []hpc.User
	// Epoch is the instant at which the workload begins. The daemons start, and the
	// nodes register, before it.
	Epoch  hpc.Time
	Delays nodes.Delays
	// Usage is the fair-share usage with which slurmctld starts, lead before Epoch. What
	// preset jobs will add (Accrued) is subtracted from it. UsageAt is the instant at which the
	// usage is what the workload says.
	Usage   []hpc.Usage
	Accrued []hpc.Accrual
	UsageAt hpc.Time
	// PreRoll says that the workload has a window, which begins with BeginWindow.
	PreRoll bool
	// PresetBurst is how many preset jobs start together at most.
	PresetBurst int
	// ClockFactor is how much virtual time a second of slurmctld's computing takes once
	// the workload begins, in seconds; 0: none, the frozen clock.
	ClockFactor float64
	// LogDir takes the logs of the daemons.
	LogDir string
	// WithoutAccounting leaves slurmdbd and the database out even if the site has them.
	WithoutAccounting bool
	// Progress is told what the start-up is doing; it may be nil.
	Progress func(string)
}

// Engine is a running Slurm under virtual time. It implements [rm.ResourceManager];
// one goroutine drives it.
type Engine struct {
	cfg      Config
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

// Warning is something that a reader of the results must know.
type Warning struct {
	Code, Text    string
	AffectsResult bool
}

var (
	_ rm.ResourceManager = (*Engine)(nil)
)

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

// BeginWindow implements [rm.ResourceManager].
func (e *Engine) BeginWindow() error {
	e.actions.beginWindow()
	return nil
}

// Running is the number of jobs whose script runs.
func (e *Engine) Running() int { return len(e.jobs.running) }

// Adapted is the configuration that the daemons run with, and what was changed in it.
func (e *Engine) Adapted() *conf.Adapted { return e.conf.adapted }

// ClockFile is where a running engine with that log directory shows its virtual clock,
// for [vclock.Look].
func ClockFile(logDir string) string { return filepath.Join(logDir, "clock") }

// Close ends all processes and removes what they left.
func (e *Engine) Close() error {
	var err error
	if e.loop.daemons != nil {
		err = e.loop.daemons.Close()
	}
	if e.loop.network != nil {
		e.loop.network.Close()
	}
	if e.loop.clock != nil {
		_ = os.Remove(ClockFile(e.cfg.LogDir)) // it leads nowhere now
		err = errors.Join(err, e.loop.clock.Close())
	}
	e.sandbox.Close()
	return err
}

// cpu is the CPU time, user and system, that each daemon has used so far.
func (e *Engine) cpu() map[string]time.Duration { return e.loop.daemons.CPU() }

func asErrno(err error) (slurmspec.Errno, bool) {
	var errno slurmspec.Errno
	ok := errors.As(err, &errno)
	return errno, ok
}
