package policy

import (
	"slices"

	"rmreplay/internal/rm/sim"
)

// fcfs is the policy [FCFS].
type fcfs struct {
	machine *sim.Machine
	queue   []*sim.Job
}

// FCFS starts the jobs strictly in the order in which they became eligible. If a job does not fit, all jobs behind it
// wait, too.
func FCFS(m *sim.Machine) sim.Policy { return &fcfs{machine: m} }

// Add implements [sim.Policy].
func (p *fcfs) Add(j *sim.Job) {
	p.queue = append(p.queue, j)
	if len(p.queue) == 1 {
		p.Schedule()
	}
}

// Remove implements [sim.Policy].
func (p *fcfs) Remove(j *sim.Job) {
	i := slices.Index(p.queue, j)
	p.queue = slices.Delete(p.queue, i, i+1)
}

// Change implements [sim.Policy].
func (p *fcfs) Change(_ *sim.Job, change func()) { change() }

// Schedule implements [sim.Policy].
func (p *fcfs) Schedule() {
	for len(p.queue) > 0 && p.machine.Fits(p.queue[0]) {
		j := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.machine.Start(j)
	}
}

// Queue implements [sim.Queued].
func (p *fcfs) Queue(yield func(*sim.Job) bool) {
	if len(p.queue) > 0 {
		yield(p.queue[0])
	}
}
