package policy

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/sim"
)

// reserving is EASY backfilling on any machine and under any queue order. The machine keeps the
// reservation of the head. A pass looks at every waiting job.
type reserving struct {
	machine  *sim.Machine
	key      func(*sim.Job) float64
	backfill func(*sim.Job) float64 // the order of the jobs after the head; nil for key's
	queue    []keyed
}

// keyed is a waiting job with its place in the order as of the last sorting.
type keyed struct {
	job *sim.Job
	key float64
}

// Add implements [sim.Policy].
func (p *reserving) Add(j *sim.Job) {
	p.queue = append(p.queue, keyed{job: j})
	p.Schedule()
}

// Remove implements [sim.Policy].
func (p *reserving) Remove(j *sim.Job) {
	p.queue = slices.DeleteFunc(p.queue, func(k keyed) bool { return k.job == j })
}

// Change implements [sim.Policy].
func (p *reserving) Change(_ *sim.Job, change func()) { change() }

// Schedule implements [sim.Policy].
func (p *reserving) Schedule() {
	m := p.machine
	p.sort(p.queue, p.key)
	head := 0
	for head < len(p.queue) && m.Fits(p.queue[head].job) {
		m.Start(p.queue[head].job)
		head++
	}
	p.queue = slices.Delete(p.queue, 0, head)
	if len(p.queue) < 2 || m.Free() == 0 {
		return
	}
	first := p.queue[0].job
	if p.backfill != nil {
		p.sort(p.queue[1:], p.backfill)
	}
	m.Reserve(first)
	p.queue = slices.DeleteFunc(p.queue, func(k keyed) bool {
		if k.job == first || !m.Fits(k.job) {
			return false
		}
		m.Start(k.job)
		return true
	})
	m.Unreserve(first)
}

// Queue implements [sim.Queued].
func (p *reserving) Queue(yield func(*sim.Job) bool) {
	for _, k := range p.queue {
		if !yield(k.job) {
			return
		}
	}
}

// sort sorts a queue. Jobs with the same key are in the order of their submission.
func (p *reserving) sort(queue []keyed, key func(*sim.Job) float64) {
	for i := range queue {
		queue[i].key = key(queue[i].job)
	}
	slices.SortFunc(queue, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.Seq, b.job.Seq))
	})
}
