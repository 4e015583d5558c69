package slurmmodel

import (
	"errors"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/window"
)

// PlanWindow implements [rm.ResourceManager], as a replay does.
func (e *Engine) PlanWindow(w rm.Window) ([]hpc.ReservationEvent, error) {
	if e.rules.WholeSeconds {
		return nil, errors.New("the model of Slurm does not play windows since 23.11, whose slurmctld restarts when " +
			"it reads its configuration (want --slurm 22.05, or a replay)")
	}
	return window.Plan(w, e.now), nil
}

// SubmitPreset implements [rm.ResourceManager]: an operator submits the job with a priority above all others.
func (e *Engine) SubmitPreset(work *hpc.Job) error {
	preset, priority := window.Job(work), uint32(math.MaxInt32)
	preset.Priority, preset.AsOperator = &priority, true
	return e.Submit(preset)
}

// presetLead is how long before its start a preset job is submitted, so that slurmctld's next turn finds it.
const presetLead = 100 * time.Microsecond

func presetAt(start, begin hpc.Time) hpc.Time { return min(start, begin).Add(-presetLead) }

// BeginWindow implements [rm.ResourceManager]: slurmctld reads the site's slurm.conf (read_slurm_conf). Each
// thread takes its own parameters the next time that it works. Nodes forget the weights of earlier tests.
func (e *Engine) BeginWindow() error {
	if !e.cfg.PreRoll {
		return nil
	}
	e.site = parameters.Read(e.cfg.Get)
	e.siteBackfill = true
	e.tester.ClearWeights()
	e.touch()
	e.loops.queued = true
	return nil
}

// readMain gives the main scheduler the parameters of slurm.conf anew.
func (e *Engine) readMain() {
	if e.site == nil {
		return
	}
	bf := e.par.BF
	bf.MinAge, bf.MinPriority = e.site.BF.MinAge, e.site.BF.MinPriority
	site := *e.site
	if e.siteBackfill { // backfill has not read its own yet
		site.BF = bf
	}
	e.par = &site
}

// readBackfill gives backfill the parameters of slurm.conf anew.
func (e *Engine) readBackfill() {
	if e.siteBackfill {
		e.siteBackfill, e.par.BF = false, e.site.BF
	}
}
