package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm"
)

// ErrEnough ends a run of [Watch] without an error.
var ErrEnough = errors.New("the watcher has seen enough")

// Watcher says what [Watch] does with a run.
type Watcher struct {
	// See is called with every event. If it returns [ErrEnough], the run ends without an error. If it returns another
	// error, the run ends with that error.
	See func(rm.Event) error
	// Until is the instant at which the run ends; it may be [hpc.Never].
	Until hpc.Time
	// Controller submits the jobs instead of the specification's users. If it is nil, the specification's users
	// submit the jobs.
	Controller replay.Controller
}

// Watch makes the run that spec describes without a record. The daemons' logs are in the directory spec.Output, which
// must exist.
func Watch(ctx context.Context, spec Spec, with Watcher) (Watched, error) {
	p, err := prepare(spec, nil)
	if err != nil {
		return Watched{}, err
	}
	if with.Controller != nil {
		p.controller = func(time.Duration, uint64) replay.Controller { return with.Controller }
	}
	result, err := p.engine.watch(ctx, p, watcher{with.See, with.Until})
	if errors.Is(err, ErrEnough) {
		err = nil
	}
	return result, err
}

// Watched is what [Watch] returns about a run.
type Watched struct {
	replay.Result
	Warnings []slurm.Warning // the engine's warnings; from Slurm only those that affect the result
}

// watcher is a [replay.Recorder] that stores nothing. The run ends at the instant until.
type watcher struct {
	see   func(rm.Event) error
	until hpc.Time
}

// Job implements [replay.Recorder].
func (watcher) Job(*hpc.Job) error { return nil }

// Event implements [replay.Recorder].
func (w watcher) Event(event rm.Event) error { return w.see(event) }

// ending is a resource manager that ends the run at a given instant, even if nothing else happens then.
type ending struct {
	rm.ResourceManager
	at hpc.Time
}

// AdvanceTo implements [rm.ResourceManager].
func (e ending) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	if e.Now() >= e.at {
		return nil, ErrEnough
	}
	return e.ResourceManager.AdvanceTo(ctx, min(t, e.at))
}

func (e *simEngine) watch(ctx context.Context, p *Prepared, see watcher) (w Watched, err error) {
	engine, err := sim.New(e.config)
	if err != nil {
		return w, inputError(err)
	}
	w.Result, err = p.play(ctx, ending{engine, see.until}, p.spec.Seed, see,
		replay.Options{Processors: e.cluster.Processors}, p.spec.rewriters()...)
	return w, err
}

func (e *slurmEngine) watch(ctx context.Context, p *Prepared, see watcher) (w Watched, err error) {
	defer interrupt.Hold()() // until the daemons have ended
	if _, err := os.Stat(p.spec.Output); err != nil {
		return w, fmt.Errorf("finding the directory for the daemons' logs: %w", err)
	}
	hooks := Hooks{}
	hooks.complete()
	engine, err := e.start(ctx, p, p.spec.Seed, p.spec.Output, nil, hooks)
	if err != nil {
		return w, err
	}
	rewriters, _ := e.rewriters(&p.spec)
	w.Result, err = p.play(ctx, ending{engine, see.until}, p.spec.Seed, see, replay.Options{
		DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors,
	}, rewriters...)
	report, _ := engine.Report(ctx, nil) // without facts it sends no request, so it cannot fail
	w.Warnings = slices.DeleteFunc(report.Warnings, func(o slurm.Warning) bool { return !o.AffectsResult })
	if closed := engine.Close(); err == nil {
		err = closed
	}
	return w, err
}
