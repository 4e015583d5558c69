package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"

	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
)

// ErrEnough ends a run of [Watch] without an error.
var ErrEnough = errors.New("the watcher has seen enough")

// Watch makes the run that spec describes without a record: it calls see with every event. The run ends
// early, without an error, as soon as see returns [ErrEnough]; any other error of see ends it, too. The
// directory spec.Output, which must exist, gets the daemons' logs. The result is that of the run so far.
func Watch(ctx context.Context, spec Spec, see func(rm.Event) error) (replay.Result, error) {
	p, err := prepare(spec, func(string, bool) error { return nil })
	if err != nil {
		return replay.Result{}, err
	}
	result, err := p.engine.watch(ctx, p, watcher(see))
	if errors.Is(err, ErrEnough) {
		err = nil
	}
	return result, err
}

// watcher is a [replay.Recorder] that keeps nothing.
type watcher func(rm.Event) error

// Job implements [replay.Recorder].
func (watcher) Job(*hpc.Job) error { return nil }

// Event implements [replay.Recorder].
func (w watcher) Event(event rm.Event) error { return w(event) }

func (e *simEngine) watch(ctx context.Context, p *Prepared, see watcher) (replay.Result, error) {
	engine, err := sim.New(e.config)
	if err != nil {
		return replay.Result{}, inputError(err)
	}
	return p.play(ctx, engine, p.spec.Seed, see, replay.Options{Processors: e.cluster.Processors}, p.spec.rewriters()...)
}

func (e *slurmEngine) watch(ctx context.Context, p *Prepared, see watcher) (replay.Result, error) {
	defer interrupt.Hold()() // until the daemons have ended
	if _, err := os.Stat(p.spec.Output); err != nil {
		return replay.Result{}, fmt.Errorf("finding the directory for the daemons' logs: %w", err)
	}
	hooks := Hooks{}
	hooks.complete()
	engine, err := e.start(ctx, p, p.spec.Seed, p.spec.Output, nil, hooks)
	if err != nil {
		return replay.Result{}, err
	}
	rewriters, _ := e.rewriters(&p.spec)
	result, err := p.play(ctx, engine, p.spec.Seed, see, replay.Options{
		DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors,
	}, rewriters...)
	if closed := engine.Close(); err == nil {
		err = closed
	}
	return result, err
}
