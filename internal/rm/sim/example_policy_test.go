package sim_test

import (
	"slices"

	"rmreplay/internal/rm/sim"
)

// BestFit starts the job that fits and leaves the fewest processors idle. A large job may wait for
// ever, so a job that MaxBypass other jobs have passed is next.
type BestFit struct {
	MaxBypass int

	machine  *sim.Machine
	waiting  []*sim.Job
	bypassed map[*sim.Job]int
}

// NewBestFit implements sim.NewPolicy.
func NewBestFit(m *sim.Machine) sim.Policy {
	return &BestFit{MaxBypass: 100, machine: m, bypassed: map[*sim.Job]int{}}
}

// Add implements sim.Policy.
func (p *BestFit) Add(j *sim.Job) {
	p.waiting = append(p.waiting, j)
	p.Schedule()
}

// Remove implements sim.Policy.
func (p *BestFit) Remove(j *sim.Job) {
	p.waiting = slices.DeleteFunc(p.waiting, func(k *sim.Job) bool { return k == j })
	delete(p.bypassed, j)
}

// Change implements sim.Policy.
func (p *BestFit) Change(_ *sim.Job, change func()) { change() }

// Schedule implements sim.Policy.
func (p *BestFit) Schedule() {
	for best := p.best(); best != nil; best = p.best() {
		p.Remove(best)
		p.machine.Start(best)
		for _, j := range p.waiting {
			p.bypassed[j]++
		}
	}
}

// best returns the job to start now, or nil.
func (p *BestFit) best() *sim.Job {
	var best *sim.Job
	for _, j := range p.waiting {
		if p.bypassed[j] >= p.MaxBypass {
			if p.machine.Fits(j) {
				return j
			}
			return nil
		}
		if p.machine.Fits(j) && (best == nil || j.Size > best.Size) {
			best = j
		}
	}
	return best
}
