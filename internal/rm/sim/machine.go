package sim

import (
	"fmt"
	"iter"
	"time"

	"rmreplay/internal/hpc"
)

// Machine is what jobs run on: a pool of processors that are all alike, or nodes. A
// policy reads it, starts jobs on it, and may reserve its future for jobs that wait.
type Machine struct {
	now        hpc.Time
	processors int
	free       int
	running    tree // by due instant, then by start
	starts     int64
	space      space
	nodes      *nodes // the space, if it is nodes; nil for a pool
	started    func(*Job)
}

// space knows what is free when. It holds the jobs that run, until they are due, and
// the reservations of jobs that wait.
type space interface {
	// fits says whether a job can start now and run to its time limit beside all that
	// is there.
	fits(j *Job) bool
	// earliest is when that will be possible first; hpc.Never if it will not.
	earliest(j *Job) hpc.Time
	// add puts a job there from an instant at which it fits until its time limit.
	add(j *Job, at hpc.Time)
	// remove takes it away, however long it had been meant to stay.
	remove(j *Job)
	// move makes a running job stay until due instead of [Job.Due]; due has not passed.
	move(j *Job, due hpc.Time)
}

// newPool is a machine of so many processors.
func newPool(processors int) *Machine {
	m := &Machine{processors: processors, free: processors}
	m.space = &pool{m: m}
	return m
}

// Now is the current instant.
func (m *Machine) Now() hpc.Time { return m.now }

// IsPool says that the machine is a pool of processors: as long as nothing is reserved,
// a job fits if its size is at most [Machine.Free], and nothing else matters.
func (m *Machine) IsPool() bool { return m.nodes == nil }

// Processors is how many processors the machine has.
func (m *Machine) Processors() int { return m.processors }

// Free is how many processors hold no job. On nodes some of them may be of no use to a
// job; [Machine.Fits] knows.
func (m *Machine) Free() int { return m.free }

// Fits says whether a job could start now and run to its time limit, beside what runs
// and what other jobs have reserved.
func (m *Machine) Fits(j *Job) bool { return j.Size <= m.free && m.space.fits(j) }

// Start starts a waiting job, which must fit, or have reserved the machine from now on.
func (m *Machine) Start(j *Job) {
	reserved := j.reserved && j.reservedAt == m.now && j.Size <= m.free
	if j.state != waiting || !reserved && !m.Fits(j) {
		panic(fmt.Sprintf("sim: the policy starts job %d, which cannot start", j.Seq))
	}
	if !reserved {
		m.Unreserve(j)
		m.space.add(j, m.now)
	}
	j.reserved = false
	m.free -= j.held()
	j.state, j.Start, j.Due = running, m.now, after(m.now, j.Limit)
	m.starts++
	m.running.insert(j, int64(j.Due), m.starts)
	m.started(j)
}

// Reserve sets the machine's future aside for a waiting job: from the earliest instant
// at which it could start and run to its time limit, beside what runs, until that is
// due, and what other jobs have reserved. A job has one reservation; an earlier one is
// given up first, so that to reserve again never makes it later while the machine has
// not become smaller. It returns the instant: [Machine.Now] if the job can start now,
// [hpc.Never] if no instant will do, and nothing is reserved then.
func (m *Machine) Reserve(j *Job) hpc.Time {
	m.Unreserve(j)
	at := m.space.earliest(j)
	if at != hpc.Never {
		m.space.add(j, at)
		j.reserved, j.reservedAt = true, at
	}
	return at
}

// Unreserve gives up a job's reservation, if it has one.
func (m *Machine) Unreserve(j *Job) {
	if j.reserved {
		m.space.remove(j)
		j.reserved = false
	}
}

// release takes a running job off the machine.
func (m *Machine) release(j *Job) {
	m.running.remove(j)
	m.free += j.held()
	m.space.remove(j)
}

// setLimit gives a running job another time limit, which it has not reached. What others
// have reserved may overlap with it then, until the policy reserves anew.
func (m *Machine) setLimit(j *Job, limit time.Duration) {
	due, tie := after(j.Start, limit), j.tie
	m.running.remove(j)
	m.space.move(j, due)
	j.Limit, j.Due = limit, due
	m.running.insert(j, int64(due), tie)
}

// Running are the running jobs in the order of [Job.Due]; those that are due at one
// instant in the order of their starts.
func (m *Machine) Running() iter.Seq[*Job] { return m.running.each }

// Shadow says when so many processors will be free if every running job runs to its
// time limit: the shadow time of EASY. With it come two readings of how many processors
// will then be left over. extra counts the jobs in the order of Running until there are
// enough; extraAll counts every job that is due by that instant. A size above what the
// machine has is never there: [hpc.Never], 0, 0. It takes logarithmic time, and it is for
// pools: it looks at neither reservations nor nodes.
func (m *Machine) Shadow(size int) (at hpc.Time, extra, extraAll int) {
	if size <= m.free {
		return m.now, m.free - size, m.free - size
	}
	last, sum := m.running.reach(int64(size - m.free))
	if last == nil {
		return hpc.Never, 0, 0
	}
	return last.Due, m.free + int(sum) - size, m.free + int(m.running.upTo(int64(last.Due))) - size
}
