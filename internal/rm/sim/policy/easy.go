package policy

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim"
)

// easy is EASY backfilling on a pool, with a reservation for the head of the queue.
type easy struct {
	machine *sim.Machine
	queue   sim.Queue // the jobs after the head
	head    *sim.Job  // first job, which has the reservation and does not fit; nil if no job waits
	shadow  hpc.Time  // when the head will fit
	extra   int       // processors that will remain free when the head starts then
}

// EASY is the aggressive backfilling of Lifka ("The ANL/IBM SP Scheduling System", JSSPP 1995). It
// follows the rules of the scheduler that "Replay with Feedback" (FGCS 2024) used, and reproduces
// the results of that paper:
//
//   - Only the head of the queue has a reservation. To find its shadow time, EASY goes through the
//     running jobs in the order of their expected ends until the head fits. The processors that
//     then remain free are extra. Further jobs that are due at the same instant do not count.
//   - When jobs end, EASY computes the shadow time and extra again, and scans the queue in order.
//     A job starts if it fits and either ends by the shadow time or is no larger than extra.
//   - A job that arrives starts if it fits. If the queue has a head, the job must also meet the
//     rule for the scan.
//
// The rules above are for pools. On nodes, EASY is [Textbook] EASY.
func EASY(m *sim.Machine) sim.Policy {
	if !m.IsPool() {
		return newEASY(m, arrival, TieRules{})
	}
	return &easy{machine: m}
}

// Add implements [sim.Policy].
func (p *easy) Add(j *sim.Job) {
	m := p.machine
	switch {
	case p.head == nil && m.Fits(j):
		m.Start(j)
	case p.head == nil:
		p.head = j
		p.foresee()
	case !m.Fits(j):
		p.queue.Push(j, 0)
	case j.Expected <= p.within():
		m.Start(j)
	case j.Size <= p.extra:
		p.extra -= j.Size
		m.Start(j)
	default:
		p.queue.Push(j, 0)
	}
}

// Remove implements [sim.Policy].
func (p *easy) Remove(j *sim.Job) {
	if j != p.head {
		p.queue.Remove(j)
		return
	}
	if p.head = p.queue.Pop(); p.head != nil {
		p.foresee()
	}
}

// Change implements [sim.Policy].
func (p *easy) Change(j *sim.Job, change func()) {
	if j == p.head {
		change()
		return
	}
	p.queue.Remove(j)
	change()
	p.queue.Push(j, 0)
}

// Schedule implements [sim.Policy].
func (p *easy) Schedule() {
	m := p.machine
	for p.head != nil && m.Fits(p.head) {
		m.Start(p.head)
		p.head = p.queue.Pop()
	}
	if p.head == nil {
		return
	}
	p.foresee()
	p.extra = p.queue.Backfill(m.Free(), p.extra, p.within(), m.Start)
}

// Queue implements [sim.Queued].
func (p *easy) Queue(yield func(*sim.Job) bool) {
	if p.head != nil {
		yield(p.head)
	}
}

// foresee computes when the head will fit, and how many processors will then remain free.
func (p *easy) foresee() { p.shadow, p.extra, _ = p.machine.Shadow(p.head.Size) }

// within returns for how long a job may run to end by the shadow time. If there is no shadow time,
// no job can delay the head.
func (p *easy) within() time.Duration {
	if p.shadow == hpc.Never {
		return hpc.Unlimited
	}
	return p.shadow.Sub(p.machine.Now())
}
