package policy

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim"
)

// TieRules say how EASY decides two cases of equality that the literature leaves open. The zero
// value is the usual decision.
type TieRules struct {
	// EndBefore says that a backfilled job must end before the shadow time; otherwise it may also end at the shadow time.
	EndBefore bool
	// ExtraFirst limits the running jobs that count for the extra processors: only jobs up to the
	// first job at whose end the head fits. Otherwise every job that is due by the shadow time counts.
	ExtraFirst bool
}

// window returns the conditions for backfilling on a pool behind a head that does not fit. A job may run for at most
// the duration within, or use at most extra processors.
func (t TieRules) window(m *sim.Machine, head *sim.Job) (extra int, within time.Duration) {
	shadow, first, all := m.Shadow(head.Size)
	extra, within = all, shadow.Sub(m.Now())
	switch {
	case shadow == hpc.Never: // the head has no shadow time, so no job can delay it
		within = hpc.Unlimited
	case t.ExtraFirst:
		extra = first
	}
	if t.EndBefore && within != hpc.Unlimited {
		within--
	}
	return extra, within
}

// textbook is EASY backfilling on a pool, with an order of the queue that does not change while
// jobs wait.
type textbook struct {
	machine *sim.Machine
	queue   sim.Queue
	key     func(*sim.Job) float64
	ties    TieRules
}

// Textbook is EASY backfilling as Mu'alem and Feitelson describe it ("Utilization, predictability, workloads, and user
// runtime estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001, fig. 2). Whenever a job arrives
// or ends, the policy starts jobs from the head of the queue as long as they fit. Then the policy reserves processors
// for the head at the shadow time. Last, the policy goes through the rest of the queue and starts each job that fits
// and does not delay the head.
func Textbook(ties TieRules) sim.NewPolicy {
	return func(m *sim.Machine) sim.Policy { return newEASY(m, arrival, ties) }
}

// newEASY makes textbook EASY with an order of the queue, in the form that suits the machine.
func newEASY(m *sim.Machine, o order, ties TieRules) sim.Policy {
	key := o.keys(m)
	if m.IsPool() && !o.changes {
		return &textbook{machine: m, key: key, ties: ties}
	}
	return &reserving{machine: m, key: key, fixed: !o.changes}
}

// Add implements [sim.Policy].
func (p *textbook) Add(j *sim.Job) {
	p.queue.Push(j, p.key(j))
	p.Schedule()
}

// Remove implements [sim.Policy].
func (p *textbook) Remove(j *sim.Job) { p.queue.Remove(j) }

// Change implements [sim.Policy].
func (p *textbook) Change(j *sim.Job, change func()) {
	p.queue.Remove(j)
	change()
	p.queue.Push(j, p.key(j))
}

// Schedule implements [sim.Policy].
func (p *textbook) Schedule() {
	m := p.machine
	head := p.queue.First()
	for ; head != nil && m.Fits(head); head = p.queue.First() {
		p.queue.Remove(head)
		m.Start(head)
	}
	if head == nil || m.Free() == 0 {
		return
	}
	extra, within := p.ties.window(m, head)
	p.queue.Remove(head)
	p.queue.Backfill(m.Free(), extra, within, m.Start)
	p.queue.Push(head, p.key(head))
}

// Queue implements [sim.Queued].
func (p *textbook) Queue(yield func(*sim.Job) bool) {
	if j := p.queue.First(); j != nil {
		yield(j)
	}
}
