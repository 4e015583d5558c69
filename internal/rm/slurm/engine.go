// Package slurm is the real Slurm as a [rm.ResourceManager]: the stock slurmctld,
// and with accounting slurmdbd and MariaDB, as components of a discrete-event
// simulation.
//
// An [Engine] is one event loop. It owns the virtual clock and all compute nodes
// (package nodes), submits jobs over the wire as their own users, and learns of
// each job's end at the instant at which slurmctld records it, from the pipe into
// which the stock jobcomp/filetxt plugin writes. The daemons run below a guard
// process (package supervise) that lets nothing outlive the engine.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/supervise"
	"rmreplay/internal/vclock"
)

// Config says what to run.
type Config struct {
	Cluster *conf.Cluster
	Install *install.Installation
	// Users are those of the workload, with whoever submits one of its jobs. The cluster's own list
	// goes first.
	Users []hpc.User
	// Epoch is the instant at which the workload begins. The daemons start, and the
	// nodes register, before it.
	Epoch  hpc.Time
	Delays nodes.Delays
	// Usage is the fair-share usage with which slurmctld starts, lead before Epoch, but
	// for what preset jobs will add, which is Accrued. UsageAt is when it is what the
	// workload says.
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
	cfg     Config
	adapted *conf.Adapted
	// slurmConf is the adapted slurm.conf in force, which an action may replace. It has the
	// site's scheduling, which slurmctld has once the window has begun: not in the preRoll.
	slurmConf []byte
	preRoll   bool
	// hostname is this machine's, which slurm.conf has to name.
	hostname string

	clock   *vclock.Clock
	guard   *supervise.Guard
	network *network
	nodes   *nodes.Cluster
	place   place
	daemons daemons
	timers  agenda.Agenda[func()]
	timed   int // timers so far
	events  []rm.Event
	err     error // the first reason for which the run cannot go on
	notices chan supervise.Exit

	users        map[string]hpc.User
	groups       map[string]uint32
	selectPlugin uint32
	requeueExits []int // exit codes after which jobs go back to the queue

	submissions []*submission
	byID        map[string]*submission
	byNumber    map[uint32]*instance
	running     map[uint32]bool
	orphans     map[uint32][]completion  // by the number of a submission without an answer
	runTimes    map[taskOf]time.Duration // those that commands have changed
	priorities  []uint32                 // jobs of which to ask for the priority
	inputs      []func()                 // what the workload does and has not been sent yet
	unanswered  int                      // requests of inputs
	actions     actions
	pipeRest    []byte
	counters    counters
	warnings    []Warning
}

// Warning is something that a reader of the results must know.
type Warning struct {
	Code, Text    string
	AffectsResult bool
}

// maxTries is how often sbatch tries again what slurmctld was too busy to take, after a
// pause of 1 s, 2 s and so on (MAX_RETRIES in sbatch.c): two minutes in all.
const maxTries = 15

var (
	_ rm.ResourceManager = (*Engine)(nil)
	_ nodes.Environment  = (*Engine)(nil)
)

// Now implements [rm.ResourceManager].
func (e *Engine) Now() hpc.Time { return e.clock.Now() }

// At implements [nodes.Environment].
func (e *Engine) At(t hpc.Time, f func()) {
	e.timed++
	e.timers.Put(agenda.Entry[func()]{At: t, Seq: e.timed, What: f})
}

// Send implements [nodes.Environment].
func (e *Engine) Send(typ rpc.Type, body []byte) {
	e.network.send(&rpc.Message{Type: typ, Host: "localhost", Body: body}, func(_ *rpc.Message, err error) {
		if typ == rpc.MessageEpilogComplete && errors.Is(err, errNoAnswer) {
			return // slurmctld never answers this one
		}
		if err != nil && e.err == nil {
			e.warn("message-lost", fmt.Sprintf("a message (%v) of a node: %v", typ, err), true)
		}
	})
}

// Fail implements [nodes.Environment].
func (e *Engine) Fail(err error) { e.fail(err) }

func (e *Engine) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// failOn is fail if there is an error.
func (e *Engine) failOn(err error) {
	if err != nil {
		e.fail(err)
	}
}

// failUnlessEnded fails with err unless the reason turns out to be that a daemon has
// ended, of which the guard tells a moment later.
func (e *Engine) failUnlessEnded(err error) {
	for range 50 {
		e.takeNotices()
		if e.err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.fail(err)
}

func (e *Engine) warn(code, text string, affects bool) {
	e.warnings = append(e.warnings, Warning{code, text, affects})
}

// Warnings returns what has been noticed since the last call.
func (e *Engine) Warnings() []Warning {
	w := e.warnings
	e.warnings = nil
	return w
}

func (e *Engine) emit(ev rm.Event) {
	ev.At = e.Now()
	withoutBarrier(&ev)
	e.events = append(e.events, ev)
}

// Running is the number of jobs whose script runs.
func (e *Engine) Running() int { return len(e.running) }

// AdvanceTo implements [rm.ResourceManager].
func (e *Engine) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	for e.err == nil {
		e.runTimers()
		e.nextInput()
		limit := min(t, e.timers.Next())
		switch {
		case len(e.events) > 0:
			limit = e.Now()
		case len(e.inputs) > 0 && e.unanswered == 0:
			limit = min(limit, e.Now()+1) // an action holds them until then
		}
		wake, err := e.wait(ctx, limit)
		if err != nil {
			return e.take(), e.explain(err)
		}
		switch wake {
		case vclock.Input:
			if err := e.network.poll(); err != nil {
				e.fail(err)
			}
		case vclock.Notified:
			e.takeNotices()
		case vclock.AtLimit:
			switch {
			case len(e.events) > 0:
				return e.take(), nil
			case e.Now() >= t && e.timers.Next() > t:
				return nil, nil
			}
		}
	}
	return e.take(), e.err
}

// wait lets virtual time pass up to limit, or to the first thing that happens. While
// messages wait for a free connection it goes in small steps, from one instant at
// which all is quiet to the next, and looks for connections that slurmctld has closed:
// a close is nothing that the clock tells of.
func (e *Engine) wait(ctx context.Context, limit hpc.Time) (vclock.Wake, error) {
	if len(e.network.queue) == 0 {
		return e.clock.Wait(ctx, limit)
	}
	wake, err := e.clock.Wait(ctx, min(limit, e.Now().Add(e.network.patience)))
	if err == nil && wake == vclock.AtLimit {
		err = e.network.reap()
	}
	return wake, err
}

// nextInput sends the inputs that there are to slurmctld, in their order and each when the
// one before has been answered: many at once would be handled in the order in which
// slurmctld's threads get processors.
func (e *Engine) nextInput() {
	for len(e.inputs) > 0 && e.unanswered == 0 && !e.actions.hold(e.Now()) {
		send := e.inputs[0]
		e.inputs = e.inputs[1:]
		send()
	}
}

// sendInput sends the request of an input.
func (e *Engine) sendInput(m *rpc.Message, answered func(*rpc.Message, error)) {
	e.unanswered++
	e.network.send(m, func(reply *rpc.Message, err error) {
		e.unanswered--
		answered(reply, err)
	})
}

func (e *Engine) take() []rm.Event {
	ev := e.events
	e.events = nil
	return ev
}

func (e *Engine) runTimers() {
	for e.timers.Next() <= e.Now() && e.err == nil {
		e.timers.Pop().What()
	}
}

// explain makes an error of the clock one that says what to do.
func (e *Engine) explain(err error) error {
	if e.err != nil {
		return e.err
	}
	var stall *vclock.StallError
	var dead *vclock.DeadlockError
	if errors.As(err, &stall) || errors.As(err, &dead) {
		err = fmt.Errorf("running Slurm under virtual time: %w", err)
	}
	return err
}

// takeNotices handles the ends of processes that the guard has reported.
func (e *Engine) takeNotices() {
	for {
		select {
		case exit := <-e.notices:
			e.clock.Collect(exit.PID)
			e.processEnded(exit)
		default:
			return
		}
	}
}

// nodeMessage answers what slurmctld sent to a node.
func (e *Engine) nodeMessage(addr [4]byte, m *rpc.Message) (*rpc.Message, error) {
	index, ok := e.place.nodeIndex(addr)
	if !ok {
		return nil, fmt.Errorf("slurmctld sent a message (%v) to %d.%d.%d.%d, where no node is", m.Type, addr[0], addr[1], addr[2], addr[3])
	}
	return e.nodes.Handle(index, m)
}

func asErrno(err error) (rpc.Errno, bool) {
	var errno rpc.Errno
	ok := errors.As(err, &errno)
	return errno, ok
}
