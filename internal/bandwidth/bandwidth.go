// Package bandwidth says how fast jobs that share file systems move data.
//
// A running job is in one phase of its I/O at a time. The phase asks for a rate, and lasts as long
// as planned if the job gets this rate. If jobs together request more than a file system's
// bandwidth, they get max-min fair shares, weighted by their nodes (Bertsekas and Gallager, "Data
// Networks", 2nd ed., 6.5.2). No job gets more than it requests. Among the jobs that get less than
// they request, all nodes have equal shares. A job that gets a part of the requested rate makes
// progress at that part of its speed, so its run time grows.
//
// The arithmetic is in integers. A rate is a whole number of bytes per second, rounded down, so
// that a file system with n slowed jobs loses less than n bytes per second. The remaining part of
// a phase is counted exactly, in bytes x nanoseconds per second, with 128 bits. A phase ends at
// the first nanosecond at which nothing remains. So the result does not depend on how often
// [Model.Advance] is called.
package bandwidth

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Model has the jobs that run and their phases.
type Model struct {
	now     hpc.Time
	systems []*system
	jobs    map[int]*job
	order   []*job // in the order of their starts
	dirty   bool   // the shares must be computed again
	next    hpc.Time
}

// system is a file system.
type system struct {
	hpc.FileSystem
	asking []*job
	load   Load
}

// Load is the state of a file system: the bandwidth that the running jobs request and the
// bandwidth that they get, in bytes per second.
type Load struct{ Asked, Granted int64 }

// job is a running job.
type job struct {
	id     int
	nodes  int64
	phases []phase // the remaining phases, the current phase first
	rate   int64   // the rate that the current phase gets
	system *system // the file system of the current phase; nil while the job computes
	// suspended says that the job makes no progress and asks for nothing.
	suspended bool
}

// phase is the remaining part of a phase. A phase of computing asks for one unit and gets it.
type phase struct {
	left   work
	demand int64 // bytes per second
	system *system
}

// New makes the model of file systems without jobs.
func New(systems []hpc.FileSystem) (*Model, error) {
	m := &Model{jobs: map[int]*job{}, next: hpc.Never}
	for _, f := range systems {
		if err := f.Check(); err != nil {
			return nil, err
		}
		if m.system(f.Name) != nil {
			return nil, fmt.Errorf("file system %s is given twice", f.Name)
		}
		m.systems = append(m.systems, &system{FileSystem: f.Complete()})
	}
	return m, nil
}

func (m *Model) system(name string) *system {
	for _, s := range m.systems {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// FileSystems returns the file systems.
func (m *Model) FileSystems() []hpc.FileSystem {
	list := make([]hpc.FileSystem, len(m.systems))
	for i, s := range m.systems {
		list[i] = s.FileSystem
	}
	return list
}

// Load returns the load of a file system at the instant of the last call.
func (m *Model) Load(name string) Load {
	m.share()
	if s := m.system(name); s != nil {
		return s.load
	}
	return Load{}
}

// Rates returns the jobs that move data, with the rate that each of them gets, in bytes per second, at the instant of
// the last call. Jobs of one file system follow one another.
func (m *Model) Rates() iter.Seq2[int, int64] {
	m.share()
	return func(yield func(id int, rate int64) bool) {
		for _, s := range m.systems {
			for _, j := range s.asking {
				if !yield(j.id, j.rate) {
					return
				}
			}
		}
	}
}

// Start adds a job that starts at an instant, on a number of nodes. The parameter run is the job's
// run time without other jobs. The job's number must not be in use. A phase on a file system that
// the model does not have takes its planned time.
func (m *Model) Start(at hpc.Time, id, nodes int, run time.Duration, phases []hpc.Phase) {
	m.progress(at)
	j := &job{id: id, nodes: int64(max(nodes, 1))}
	for _, p := range hpc.SpreadPhases(phases, run) {
		next := phase{demand: 1}
		if s := m.system(p.FileSystem); s != nil && p.Rate > 0 {
			next.demand, next.system = p.Rate, s
		}
		if p.Duration == hpc.Unlimited {
			next.left = endless
		} else {
			next.left = times(next.demand, p.Duration)
		}
		j.phases = append(j.phases, next)
	}
	if len(j.phases) == 0 {
		j.phases = []phase{{demand: 1}} // this phase ends at once
	}
	m.jobs[id] = j
	m.order = append(m.order, j)
	j.enter(m)
}

// Stop removes a job at an instant. It does nothing for a job that the model does not have or that
// has ended.
func (m *Model) Stop(at hpc.Time, id int) {
	j := m.jobs[id]
	if j == nil {
		return
	}
	m.progress(at)
	j.leave(m)
	delete(m.jobs, id)
	m.order = slices.DeleteFunc(m.order, func(other *job) bool { return other == j })
}

// Suspend stops a job's progress at an instant. It does nothing for a job that the model does not
// have.
func (m *Model) Suspend(at hpc.Time, id int) {
	if j := m.jobs[id]; j != nil && !j.suspended {
		m.progress(at)
		j.leave(m)
		j.suspended = true
	}
}

// Resume continues the progress of a suspended job at an instant.
func (m *Model) Resume(at hpc.Time, id int) {
	if j := m.jobs[id]; j != nil && j.suspended {
		m.progress(at)
		j.suspended = false
		j.enter(m)
	}
}

// Next returns the next instant at which a phase of a job ends, or [hpc.Never].
func (m *Model) Next() hpc.Time {
	m.share()
	return m.next
}

// NextPhase returns the next instant at which a job enters another phase; [hpc.Never] if no job
// does.
func (m *Model) NextPhase() hpc.Time {
	m.share()
	at := hpc.Never
	for _, j := range m.order {
		if p := &j.phases[0]; len(j.phases) > 1 && p.left != endless && !j.suspended {
			at = min(at, m.now.Add(p.left.over(j.rate)))
		}
	}
	return at
}

// Advance moves to an instant, which must not be after [Model.Next]. It returns the jobs that have
// ended, in the order of their starts. They are no longer in the model.
func (m *Model) Advance(at hpc.Time) []int {
	m.progress(at)
	m.share()
	if at < m.next {
		return nil
	}
	var done []int
	m.order = slices.DeleteFunc(m.order, func(j *job) bool {
		for !j.suspended && len(j.phases) > 0 && j.phases[0].left == (work{}) {
			j.leave(m)
			j.phases = j.phases[1:]
			j.enter(m)
		}
		if len(j.phases) == 0 {
			done = append(done, j.id)
			delete(m.jobs, j.id)
		}
		return len(j.phases) == 0
	})
	m.dirty = true
	return done
}

// enter begins a job's first phase.
func (j *job) enter(m *Model) {
	m.dirty = true
	if len(j.phases) == 0 {
		return
	}
	j.rate = j.phases[0].demand
	if j.system = j.phases[0].system; j.system != nil {
		j.system.asking = append(j.system.asking, j)
	}
}

// leave ends a job's first phase.
func (j *job) leave(m *Model) {
	m.dirty = true
	if s := j.system; s != nil {
		s.asking = slices.DeleteFunc(s.asking, func(other *job) bool { return other == j })
		j.system = nil
	}
}

// progress subtracts the work that the jobs have done since the last instant.
func (m *Model) progress(at hpc.Time) {
	d := at.Sub(m.now)
	if d <= 0 {
		return
	}
	if len(m.order) > 0 {
		m.share()
		for _, j := range m.order {
			if p := &j.phases[0]; p.left != endless && !j.suspended {
				p.left = p.left.less(times(j.rate, d))
			}
		}
	}
	m.now = at
	m.next = max(m.next, at)
}

// share divides the bandwidths again if a phase has begun or ended.
func (m *Model) share() {
	if !m.dirty {
		return
	}
	m.dirty = false
	for _, s := range m.systems {
		s.share()
	}
	m.next = hpc.Never
	for _, j := range m.order {
		if p := &j.phases[0]; p.left != endless && !j.suspended {
			m.next = min(m.next, m.now.Add(p.left.over(j.rate)))
		}
	}
}

// share gives every job its max-min fair share. First, the jobs with the lowest demand for each
// node get their demand, as long as it is at most their nodes' part of the remaining bandwidth.
func (s *system) share() {
	s.load = Load{}
	nodes := int64(0)
	for _, j := range s.asking {
		j.rate = j.phases[0].demand
		s.load.Asked += min(j.rate, 1<<62-s.load.Asked)
		nodes += j.nodes
	}
	if s.load.Asked <= s.Bandwidth {
		s.load.Granted = s.load.Asked
		return
	}
	slices.SortStableFunc(s.asking, func(a, b *job) int {
		return compareProducts(a.phases[0].demand, b.nodes, b.phases[0].demand, a.nodes)
	})
	left := s.Bandwidth
	for i, j := range s.asking {
		if demand := j.phases[0].demand; compareProducts(demand, nodes, left, j.nodes) <= 0 {
			j.rate = demand
			left -= demand
			nodes -= j.nodes
			continue
		}
		for _, slowed := range s.asking[i:] {
			slowed.rate = share(left, slowed.nodes, nodes)
			s.load.Granted += slowed.rate
		}
		break
	}
	s.load.Granted += s.Bandwidth - left
}

// share returns left x nodes / all, at least one byte per second, so that every job ends.
func share(left, nodes, all int64) int64 {
	hi, lo := bits.Mul64(uint64(left), uint64(nodes))
	q, _ := bits.Div64(hi, lo, uint64(all))
	return max(int64(q), 1)
}

// compareProducts compares a x b with c x d, all of which are at least 0.
func compareProducts(a, b, c, d int64) int {
	return times(a, time.Duration(b)).compare(times(c, time.Duration(d)))
}

// work is a product of a rate and a time, in 128 bits.
type work struct{ hi, lo uint64 }

// endless is the work of a phase without end.
var endless = work{^uint64(0), ^uint64(0)}

// times returns rate x d.
func times(rate int64, d time.Duration) work {
	hi, lo := bits.Mul64(uint64(rate), uint64(d))
	return work{hi, lo}
}

func (w work) compare(other work) int {
	return cmp.Or(cmp.Compare(w.hi, other.hi), cmp.Compare(w.lo, other.lo))
}

// less returns w - other, at least 0.
func (w work) less(other work) work {
	if w.compare(other) <= 0 {
		return work{}
	}
	lo, borrow := bits.Sub64(w.lo, other.lo, 0)
	hi, _ := bits.Sub64(w.hi, other.hi, borrow)
	return work{hi, lo}
}

// over returns the time that the work takes at a rate, rounded up to a nanosecond.
func (w work) over(rate int64) time.Duration {
	if w.hi >= uint64(rate) {
		return hpc.Unlimited
	}
	q, r := bits.Div64(w.hi, w.lo, uint64(rate))
	if r > 0 {
		q++
	}
	return time.Duration(min(q, uint64(hpc.Unlimited)))
}
