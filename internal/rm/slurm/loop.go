package slurm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/daemons"
	"rmreplay/internal/rm/slurm/network"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/vclock"
)

// loop is the event loop: it lets virtual time pass, sends what the workload does to
// slurmctld in order, and collects what happens. The parts of an engine share it.
type loop struct {
	clock   *vclock.Clock
	network *network.Network
	codec   rpc.Codec
	daemons *daemons.Daemons
	// holds reports whether inputs wait for an action at this instant.
	holds func(now hpc.Time) bool

	timers     agenda.Agenda[func()]
	timed      int      // timers so far
	inputs     []func() // what the workload does and has not been sent yet
	unanswered int      // requests of inputs
	events     []rm.Event
	warnings   []Warning
	err        error // the first reason for which the run cannot go on
}

// Now is the current virtual time.
func (l *loop) Now() hpc.Time { return l.clock.Now() }

// At has f run when virtual time reaches t.
func (l *loop) At(t hpc.Time, f func()) {
	l.timed++
	l.timers.Put(agenda.Entry[func()]{At: t, Seq: l.timed, What: f})
}

// Fail ends the run with its first error; nil changes nothing.
func (l *loop) Fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// Err is why the run cannot go on, or nil.
func (l *loop) Err() error { return l.err }

// failUnlessEnded fails with err unless the reason turns out to be that a daemon has
// ended, of which the guard tells a moment later.
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
	l.events = append(l.events, ev)
}

// advance lets virtual time pass up to t, or to the first instant before t at which something
// happened, and returns what happened then.
func (l *loop) advance(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	for l.err == nil {
		l.runTimers()
		l.nextInput()
		limit := min(t, l.timers.Next())
		switch {
		case len(l.events) > 0:
			limit = l.Now()
		case len(l.inputs) > 0 && l.unanswered == 0:
			limit = min(limit, l.Now()+1) // an action holds them until then
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

// wait lets virtual time pass up to limit, or to the first thing that happens. While
// messages wait for a free connection it goes in small steps, from one instant at
// which all is quiet to the next, and looks for connections that slurmctld has closed:
// a close is nothing that the clock tells of.
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

// nextInput sends the inputs that there are to slurmctld, in their order and each when the
// one before has been answered: many at once would be handled in the order in which
// slurmctld's threads get processors.
func (l *loop) nextInput() {
	for len(l.inputs) > 0 && l.unanswered == 0 && !l.holds(l.Now()) {
		send := l.inputs[0]
		l.inputs = l.inputs[1:]
		send()
	}
}

// input adds something that the workload does. It is sent when its turn comes.
func (l *loop) input(send func()) { l.inputs = append(l.inputs, send) }

// sendInput sends the request of an input.
func (l *loop) sendInput(m *rpc.Message, answered func(*rpc.Message, error)) {
	l.unanswered++
	l.network.Send(m, func(reply *rpc.Message, err error) {
		l.unanswered--
		answered(reply, err)
	})
}

// ask sends an administrator's question, which waits for no input and holds none up.
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

// explain makes an error of the clock one that says what to do.
func (l *loop) explain(err error) error {
	if l.err != nil {
		return l.err
	}
	var stall *vclock.StallError
	var dead *vclock.DeadlockError
	if errors.As(err, &stall) || errors.As(err, &dead) {
		err = fmt.Errorf("running Slurm under virtual time: %w", err)
	}
	return err
}

// step lets virtual time pass up to limit, or to the first thing that happens.
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

// Until lets virtual time pass until done. Nothing of the workload may be under way.
func (l *loop) Until(ctx context.Context, done func() bool) error {
	for !done() {
		// In steps, so that a condition that only time changes is looked at again.
		if _, err := l.step(ctx, l.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// quietly lets virtual time pass up to t. Nothing of the workload may be under way.
func (l *loop) quietly(ctx context.Context, t hpc.Time) error {
	for l.Now() < t {
		if _, err := l.step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
