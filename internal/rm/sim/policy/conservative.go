package policy

import (
	"slices"

	"rmreplay/internal/rm/sim"
)

// conservative is the policy [Conservative].
type conservative struct {
	machine *sim.Machine
	queue   []*sim.Job
}

// Conservative is conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001, fig. 1).
// Every job gets a reservation when it arrives, at the earliest instant at which it delays no
// other job. The job never starts later than its reservation. When a job ends before its time
// limit, the policy compresses the schedule: in the order of arrival, it replaces each job's
// reservation by the earliest reservation that is now possible.
func Conservative(m *sim.Machine) sim.Policy { return &conservative{machine: m} }

// Add implements [sim.Policy].
func (p *conservative) Add(j *sim.Job) {
	if !p.start(j) {
		p.queue = append(p.queue, j)
	}
}

// start makes a reservation for a job. If the reservation begins now, start starts the job and returns true.
func (p *conservative) start(j *sim.Job) bool {
	if p.machine.Reserve(j) != p.machine.Now() {
		return false
	}
	p.machine.Start(j)
	return true
}

// Remove implements [sim.Policy].
func (p *conservative) Remove(j *sim.Job) {
	p.queue = slices.DeleteFunc(p.queue, func(other *sim.Job) bool { return other == j })
}

// Change implements [sim.Policy]. The job gets a new reservation in the next Schedule.
func (p *conservative) Change(_ *sim.Job, change func()) { change() }

// Schedule implements [sim.Policy].
func (p *conservative) Schedule() { p.queue = slices.DeleteFunc(p.queue, p.start) }

// Queue implements [sim.Queued].
func (p *conservative) Queue(yield func(*sim.Job) bool) { slices.Values(p.queue)(yield) }
