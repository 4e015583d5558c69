package sim

import (
	"fmt"
	"iter"

	"rmreplay/internal/hpc"
)

// Machine is what jobs run on: a pool of processors that are all alike, or nodes. A
// policy reads it and starts jobs on it.
type Machine struct {
	now        hpc.Time
	processors int
	free       int
	running    tree // by due instant, then by start
	starts     int64
	nodes      *nodes // nil for a pool
	started    func(*Job)
}

// newPool is a machine of so many processors.
func newPool(processors int) *Machine {
	return &Machine{processors: processors, free: processors}
}

// Now is the current instant.
func (m *Machine) Now() hpc.Time { return m.now }

// IsPool says that the machine is a pool of processors: a job fits if its size is at
// most [Machine.Free], and nothing else matters.
func (m *Machine) IsPool() bool { return m.nodes == nil }

// Processors is how many processors the machine has.
func (m *Machine) Processors() int { return m.processors }

// Free is how many processors hold no job. On nodes some of them may be of no use to a
// job; [Machine.Fits] knows.
func (m *Machine) Free() int { return m.free }

// Fits says whether a job could start now.
func (m *Machine) Fits(j *Job) bool {
	if m.nodes != nil {
		return m.nodes.fits(j, m.now)
	}
	return j.Size <= m.free
}

// Start starts a waiting job, which must fit.
func (m *Machine) Start(j *Job) {
	if j.state != waiting || !m.Fits(j) {
		panic(fmt.Sprintf("sim: the policy starts job %d, which cannot start", j.Seq))
	}
	if m.nodes != nil {
		m.nodes.allocate(j)
	}
	m.free -= j.Size
	j.state, j.Start, j.Due = running, m.now, after(m.now, j.Limit)
	m.starts++
	m.running.insert(j, int64(j.Due), m.starts)
	m.started(j)
}

// release takes a running job off the machine.
func (m *Machine) release(j *Job) {
	m.running.remove(j)
	if m.nodes != nil {
		m.nodes.release(j)
	}
	m.free += j.Size
}

// Running are the running jobs in the order of [Job.Due]; those that are due at one
// instant in the order of their starts.
func (m *Machine) Running() iter.Seq[*Job] { return m.running.each }

// Shadow says when so many processors of a pool will be free if every running job runs
// to its time limit: the shadow time of EASY. With it come two readings of how many
// processors will then be left over. extra counts the jobs in the order of Running until
// there are enough; extraAll counts every job that is due by that instant. A size above
// what the machine has is never there: [Never], 0, 0.
func (m *Machine) Shadow(size int) (at hpc.Time, extra, extraAll int) {
	if size <= m.free {
		return m.now, m.free - size, m.free - size
	}
	last, sum := m.running.reach(int64(size - m.free))
	if last == nil {
		return Never, 0, 0
	}
	return last.Due, m.free + int(sum) - size, m.free + int(m.running.upTo(int64(last.Due))) - size
}
