package policy

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/sim"
)

// reserving is EASY backfilling on any machine and with any order of the queue. The machine has the reservation of
// the head. A pass looks at every waiting job.
type reserving struct {
	machine  *sim.Machine
	key      func(*sim.Job) float64
	backfill func(*sim.Job) float64 // order of the jobs after the head; nil if it is the order by key
	fixed    bool                   // keys do not change while jobs wait
	queue    []keyed
	sorted   bool // by key
	idle     idle
}

// keyed is a waiting job with its key when the queue was last sorted.
type keyed struct {
	job *sim.Job
	key float64
}

// Add implements [sim.Policy]. If nothing has changed since a pass that backfilled no job, Add tests only the new job,
// because the others still do not fit.
func (p *reserving) Add(j *sim.Job) {
	k := keyed{j, p.key(j)}
	p.sorted = p.sorted && (len(p.queue) == 0 || p.queue[len(p.queue)-1].compare(k) < 0)
	p.queue = append(p.queue, k)
	if p.sorted && p.idle == p.state() && len(p.queue) > 1 && !p.machine.Fits(j) {
		return
	}
	p.Schedule()
}

// Remove implements [sim.Policy].
func (p *reserving) Remove(j *sim.Job) {
	p.queue = slices.DeleteFunc(p.queue, func(k keyed) bool { return k.job == j })
	p.idle = idle{}
}

// Change implements [sim.Policy].
func (p *reserving) Change(_ *sim.Job, change func()) {
	change()
	p.sorted, p.idle = false, idle{}
}

// idle is the machine's state after a pass that backfilled no job.
type idle struct {
	known bool
	in    sim.Generation
}

func (p *reserving) state() idle { return idle{true, p.machine.Generation()} }

// Schedule implements [sim.Policy].
func (p *reserving) Schedule() {
	m := p.machine
	if !p.sorted {
		p.sort(p.queue, p.key)
		p.sorted = p.fixed
	}
	head := 0
	for head < len(p.queue) && m.Fits(p.queue[head].job) {
		m.Start(p.queue[head].job)
		head++
	}
	p.queue = slices.Delete(p.queue, 0, head)
	started := false
	if len(p.queue) > 1 && m.Free() > 0 {
		if p.backfill != nil {
			p.sort(p.queue[1:], p.backfill)
			p.sorted = false
		}
		started = p.pass(p.queue[0].job)
	}
	if p.idle = (idle{}); !started {
		p.idle = p.state()
	}
}

// pass starts jobs behind the head that do not delay the head, and reports whether it started one. It makes the head's
// reservation only when it finds a job that fits.
func (p *reserving) pass(first *sim.Job) (some bool) {
	m, reserved := p.machine, false
	p.queue = slices.DeleteFunc(p.queue, func(k keyed) bool {
		if k.job == first || m.Free() == 0 || !m.Fits(k.job) {
			return false
		}
		if !reserved {
			reserved = true
			if m.Reserve(first); !m.Fits(k.job) {
				return false
			}
		}
		m.Start(k.job)
		some = true
		return true
	})
	m.Unreserve(first)
	return some
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
	slices.SortFunc(queue, keyed.compare)
}

// compare orders waiting jobs.
func (k keyed) compare(other keyed) int {
	return cmp.Or(cmp.Compare(k.key, other.key), cmp.Compare(k.job.Seq, other.job.Seq))
}
