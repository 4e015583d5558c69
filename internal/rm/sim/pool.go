package sim

import (
	"slices"

	"rmreplay/internal/hpc"
)

// pool is the space of a machine without nodes: the number of free processors over time. It keeps
// steps only after the first reservation, because most policies only need [Machine.Shadow].
type pool struct {
	m     *Machine
	steps []step // by time; nil until they are needed
}

// step is the number of free processors from an instant until the next step.
type step struct {
	at   hpc.Time
	free int
}

func (p *pool) fits(j *Job) bool {
	if p.steps == nil {
		return j.Size <= p.m.free
	}
	p.trim()
	return p.fitsAt(j, 0, p.m.now)
}

// fitsAt reports whether a job fits for its expected run time if it starts at an instant. The
// parameter from is the index of the step at that instant.
func (p *pool) fitsAt(j *Job, from int, at hpc.Time) bool {
	end := after(at, j.Expected)
	for i := from; i < len(p.steps) && (i == from || p.steps[i].at < end); i++ {
		if p.steps[i].free < j.Size {
			return false
		}
	}
	return true
}

func (p *pool) earliest(j *Job, notBefore hpc.Time) hpc.Time {
	p.need()
	p.trim()
	for i := range p.steps {
		if i+1 < len(p.steps) && p.steps[i+1].at <= notBefore {
			continue
		}
		if at := max(p.steps[i].at, notBefore); at != hpc.Never && p.fitsAt(j, i, at) {
			return at
		}
	}
	return hpc.Never
}

func (p *pool) add(j *Job, at hpc.Time) { p.change(at, after(at, j.Expected), -j.Size) }

func (p *pool) remove(j *Job) {
	from, until := j.Start, j.Due
	if j.reserved {
		from, until = j.reservedAt, after(j.reservedAt, j.Expected)
	}
	p.change(max(from, p.m.now), until, j.Size)
}

func (p *pool) move(j *Job, due hpc.Time) {
	if due > j.Due {
		p.change(j.Due, due, -j.Size)
	} else {
		p.change(due, j.Due, j.Size)
	}
}

// need makes the steps from the running jobs, if they do not exist yet.
func (p *pool) need() {
	if p.steps != nil {
		return
	}
	p.steps = []step{{p.m.now, p.m.processors}}
	for j := range p.m.Running() {
		p.change(p.m.now, j.Due, -j.Size)
	}
}

// change adds n free processors between two instants.
func (p *pool) change(from, until hpc.Time, n int) {
	if p.steps == nil || from >= until {
		return
	}
	p.trim()
	first, last := p.stepAt(from), p.stepAt(until)
	for i := first; i < last; i++ {
		p.steps[i].free += n
	}
	p.merge(last)
	p.merge(first)
}

// stepAt returns the index of the step that begins at an instant. It inserts a missing step.
func (p *pool) stepAt(t hpc.Time) int {
	i, found := slices.BinarySearchFunc(p.steps, t, func(s step, t hpc.Time) int { return compareTimes(s.at, t) })
	if !found {
		p.steps = slices.Insert(p.steps, i, step{t, p.steps[i-1].free})
	}
	return i
}

func compareTimes(a, b hpc.Time) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// merge removes step i if it has as many free processors as the previous step.
func (p *pool) merge(i int) {
	if i > 0 && p.steps[i].free == p.steps[i-1].free {
		p.steps = slices.Delete(p.steps, i, i+1)
	}
}

// trim removes the steps of the past, so that the first step begins now.
func (p *pool) trim() {
	i := 0
	for i+1 < len(p.steps) && p.steps[i+1].at <= p.m.now {
		i++
	}
	p.steps = p.steps[:copy(p.steps, p.steps[i:])]
	p.steps[0].at = p.m.now
}
