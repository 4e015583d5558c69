package sim

import (
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/window"
)

// Preset jobs are not given to the policy. They bring the machine into its state at the start of the window. Each
// starts at once on its named nodes, before all jobs that wait for these nodes.

// PlanWindow implements [rm.ResourceManager].
func (e *Engine) PlanWindow(w rm.Window) ([]hpc.ReservationEvent, error) {
	return window.Plan(w, e.Now()), nil
}

// SubmitPreset implements [rm.ResourceManager]. The job's begin time is its recorded start.
func (e *Engine) SubmitPreset(job *hpc.Job) error {
	preset := window.Job(job)
	preset.Begin = preset.Submit.Sub(e.Now())
	return e.submit(preset, true)
}

// BeginWindow implements [rm.ResourceManager]. The window's reservation ends by itself.
func (e *Engine) BeginWindow() error { return nil }

// startPresets starts the preset jobs that fit. It first cancels the reservations of waiting jobs. The policy is
// called afterwards, and can reserve again.
func (e *Engine) startPresets() {
	if len(e.presets) == 0 {
		return
	}
	e.machine.unreserveAll()
	e.presets = slices.DeleteFunc(e.presets, func(j *Job) bool {
		fits := e.machine.Fits(j)
		if fits {
			e.machine.Start(j)
		}
		return fits
	})
}

// removePreset removes a job from the waiting preset jobs, and reports whether it found the job.
func (e *Engine) removePreset(j *Job) bool {
	i := slices.Index(e.presets, j)
	if i >= 0 {
		e.presets = slices.Delete(e.presets, i, i+1)
	}
	return i >= 0
}

// unreserveAll cancels all reservations of waiting jobs on nodes.
func (m *Machine) unreserveAll() {
	if m.nodes == nil {
		return
	}
	for i := range m.nodes.list {
		for _, s := range slices.Clone(m.nodes.list[i].stays) {
			m.Unreserve(s.job)
		}
	}
}
