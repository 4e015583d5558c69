package slurm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/resources"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/daemons"
	"rmreplay/internal/rm/slurm/network"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/vclock"
)

// loop is the event loop that the parts of an engine share. It advances virtual time, sends
// the workload's inputs to slurmctld in order, and collects events.
type loop struct {
	clock   *vclock.Clock
	network *network.Network
	codec   rpc.Codec
	daemons *daemons.Daemons
	// stateDir is the directory of the daemons' state.
	stateDir string
	// holds reports whether inputs must wait at this instant because an action is under way.
	holds func(now hpc.Time) bool

	timers     agenda.Agenda[func()]
	timed      int      // number of timers set so far
	inputs     []func() // inputs that have not been sent
	unanswered int      // number of sent inputs without an answer
	emitted    int      // number of events so far
	events     []rm.Event
	warnings   []Warning
	err        error // the first error that ends the run
}

// Now returns the current virtual time.
func (l *loop) Now() hpc.Time { return l.clock.Now() }

// At calls f when virtual time reaches t.
func (l *loop) At(t hpc.Time, f func()) {
	l.timed++
	l.timers.Put(agenda.Entry[func()]{At: t, Seq: l.timed, What: f})
}

// Fail ends the run with its first error. A nil error changes nothing.
func (l *loop) Fail(err error) {
	if l.err == nil && err != nil {
		l.err = l.unlessFull(err)
	}
}

// isFull reports whether the file system of the daemons' state is full.
func (l *loop) isFull() bool {
	free, _, err := resources.Room(l.stateDir)
	return err == nil && free < 1<<20
}

// unlessFull returns err, or an error about a full state directory: daemons that cannot write
// their state only log the failure.
func (l *loop) unlessFull(err error) error {
	if !l.isFull() {
		return err
	}
	free, total, _ := resources.Room(l.stateDir)
	return fmt.Errorf("the state directory %s is full: %s free of %s (want 512 MiB free when a replay begins; "+
		"set RMREPLAY_TMPDIR to use another directory): %w",
		l.stateDir, resources.Size(free), resources.Size(total), err)
}

// Err returns the error that ends the run, or nil.
func (l *loop) Err() error { return l.err }

// failUnlessEnded ends the run with err. If a daemon has ended, the run ends with an error about the daemon instead.
// For this, failUnlessEnded waits up to half a second of real time for the guard to report the end of a daemon.
func (l *loop) failUnlessEnded(err error) {
	for range 50 {
		l.daemons.TakeNotices()
		if l.err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.Fail(err)
}

func (l *loop) warn(code, text string, affects bool) {
	l.warnings = append(l.warnings, Warning{code, text, affects})
}

func (l *loop) emit(ev rm.Event) {
	ev.At = l.Now()
	withoutBarrier(&ev)
	l.emitted++
	l.events = append(l.events, ev)
}

// advance runs virtual time to t, or to the first earlier instant with events. It returns the
// events of that instant.
func (l *loop) advance(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	for l.err == nil {
		l.runTimers()
		l.nextInput()
		limit := min(t, l.timers.Next())
		switch {
		case len(l.events) > 0:
			limit = l.Now()
		case len(l.inputs) > 0 && l.unanswered == 0:
			limit = min(limit, l.Now()+1) // an action of this instant delays the inputs
		}
		wake, err := l.wait(ctx, limit)
		if err != nil {
			return l.take(), l.explain(err)
		}
		switch wake {
		case vclock.Input:
			if err := l.network.Poll(); err != nil {
				l.Fail(err)
			}
		case vclock.Notified:
			l.daemons.TakeNotices()
		case vclock.AtLimit:
			switch {
			case len(l.events) > 0:
				return l.take(), nil
			case l.Now() >= t && l.timers.Next() > t:
				return nil, nil
			}
		}
	}
	return l.take(), l.err
}

// wait runs virtual time to limit, or until the clock wakes the driver. While messages wait for a free connection, wait
// advances in small steps. After each step it looks for connections that slurmctld has closed, because the clock does
// not report a closed connection.
func (l *loop) wait(ctx context.Context, limit hpc.Time) (vclock.Wake, error) {
	patience, waiting := l.network.Waiting()
	if !waiting {
		return l.clock.Wait(ctx, limit)
	}
	wake, err := l.clock.Wait(ctx, min(limit, l.Now().Add(patience)))
	if err == nil && wake == vclock.AtLimit {
		err = l.network.Reap()
	}
	return wake, err
}

// nextInput sends the inputs to slurmctld in order. It waits for the answer to each input before
// it sends the next input, because slurmctld would handle several inputs at once in separate
// threads.
func (l *loop) nextInput() {
	for len(l.inputs) > 0 && l.unanswered == 0 && !l.holds(l.Now()) {
		send := l.inputs[0]
		l.inputs = l.inputs[1:]
		send()
	}
}

// input adds an input of the workload: a submission, a command, an event or an action.
// [loop.nextInput] calls send when the input's turn comes.
func (l *loop) input(send func()) { l.inputs = append(l.inputs, send) }

// sendInput sends the request of an input.
func (l *loop) sendInput(m *rpc.Message, answered func(*rpc.Message, error)) {
	l.unanswered++
	l.network.Send(m, func(reply *rpc.Message, err error) {
		l.unanswered--
		answered(reply, err)
	})
}

// ask sends an administrator's request at once. Inputs do not wait for the answer.
func (l *loop) ask(typ rpc.Type, body []byte, answered func(*rpc.Message, error)) {
	l.network.Send(&rpc.Message{Type: typ, Host: "localhost", Body: body}, answered)
}

func (l *loop) take() []rm.Event {
	ev := l.events
	l.events = nil
	return ev
}

func (l *loop) runTimers() {
	for l.timers.Next() <= l.Now() && l.err == nil {
		l.timers.Pop().What()
	}
}

// explain adds to an error of the clock what the driver was doing. If the run already has an error, explain returns
// that error.
func (l *loop) explain(err error) error {
	if l.err != nil {
		return l.err
	}
	var stall *vclock.StallError
	var dead *vclock.DeadlockError
	var count *vclock.CountError
	if errors.As(err, &stall) || errors.As(err, &dead) || errors.As(err, &count) {
		err = l.unlessFull(fmt.Errorf("running Slurm under virtual time: %w", err))
	}
	return err
}

// step runs virtual time to limit, to the next timer, or until the clock wakes the driver.
func (l *loop) step(ctx context.Context, limit hpc.Time) (vclock.Wake, error) {
	l.runTimers()
	wake, err := l.wait(ctx, min(limit, l.timers.Next()))
	if err != nil {
		return wake, l.explain(err)
	}
	switch wake {
	case vclock.Input:
		if err := l.network.Poll(); err != nil {
			l.Fail(err)
		}
	case vclock.Notified:
		l.daemons.TakeNotices()
	}
	return wake, l.err
}

// Until runs virtual time until done returns true. It sends no inputs, so it must be called only
// at the start and at the end of a run.
func (l *loop) Until(ctx context.Context, done func() bool) error {
	for !done() {
		// With short steps, the loop also notices a condition that becomes true merely because time
		// passes.
		if _, err := l.step(ctx, l.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// quietly runs virtual time to t. Like Until, it sends no inputs.
func (l *loop) quietly(ctx context.Context, t hpc.Time) error {
	for l.Now() < t {
		if _, err := l.step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
