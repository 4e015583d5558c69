package policy

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/sim"
)

// sjbf is EASY backfilling on a pool, with the shortest jobs backfilled first.
type sjbf struct {
	machine *sim.Machine
	arrived []*sim.Job // all waiting jobs, in the order of their submission
	queue   sim.Queue  // the same jobs, shortest first
	ties    TieRules
}

// SJBF is textbook EASY with one change (Tsafrir, Etsion and Feitelson, "Backfilling using
// system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6), 2007, section
// 5.3). The head of the queue and its reservation follow the order of submission, but the other
// jobs are backfilled in the order of their expected run times.
func SJBF(ties TieRules) sim.NewPolicy {
	return func(m *sim.Machine) sim.Policy {
		if m.IsPool() {
			return &sjbf{machine: m, ties: ties}
		}
		return &reserving{machine: m, key: arrival.keys(m), backfill: expected}
	}
}

// expected returns a job's key in the order by expected run time.
func expected(j *sim.Job) float64 { return float64(j.Expected) }

// Add implements [sim.Policy].
func (p *sjbf) Add(j *sim.Job) {
	i, _ := p.find(j)
	p.arrived = slices.Insert(p.arrived, i, j)
	p.queue.Push(j, expected(j))
	p.Schedule()
}

// Remove implements [sim.Policy].
func (p *sjbf) Remove(j *sim.Job) {
	p.queue.Remove(j)
	p.forget(j)
}

// Change implements [sim.Policy].
func (p *sjbf) Change(j *sim.Job, change func()) {
	p.queue.Remove(j)
	change()
	p.queue.Push(j, expected(j))
}

// find returns the index of a job in the order of submission.
func (p *sjbf) find(j *sim.Job) (int, bool) {
	return slices.BinarySearchFunc(p.arrived, j, func(a, b *sim.Job) int { return cmp.Compare(a.Seq, b.Seq) })
}

// forget removes a job from arrived.
func (p *sjbf) forget(j *sim.Job) {
	i, _ := p.find(j)
	p.arrived = slices.Delete(p.arrived, i, i+1)
}

// Schedule implements [sim.Policy].
func (p *sjbf) Schedule() {
	m := p.machine
	for len(p.arrived) > 0 && m.Fits(p.arrived[0]) {
		j := p.arrived[0]
		p.Remove(j)
		m.Start(j)
	}
	if len(p.arrived) < 2 || m.Free() == 0 {
		return
	}
	head := p.arrived[0]
	extra, within := p.ties.window(m, head)
	p.queue.Remove(head)
	p.queue.Backfill(m.Free(), extra, within, func(j *sim.Job) {
		p.forget(j)
		m.Start(j)
	})
	p.queue.Push(head, expected(head))
}

// Queue implements [sim.Queued].
func (p *sjbf) Queue(yield func(*sim.Job) bool) { slices.Values(p.arrived)(yield) }
