package sim

import (
	"fmt"
	"iter"
	"time"

	"rmreplay/internal/bandwidth"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim/order"
)

// Machine is the machine on which jobs run: a pool of identical processors, or nodes. A policy
// reads the machine's state, starts jobs, and may reserve processors or nodes for waiting jobs.
type Machine struct {
	now        hpc.Time
	processors int
	free       int
	running    order.Tree[Job] // by Job.Due, then by start
	starts     int64
	// reservations is the number of waiting jobs with a reservation of the policy.
	reservations int
	freed        int // see Generation
	generation   Generation
	generationAt hpc.Time
	space        space
	nodes        *nodes // a machine of nodes uses it as space; nil on a pool
	started      func(*Job)
	forecast     *forecast // nil without predictions
	wake         func(at hpc.Time, ready func() bool)
	io           *bandwidth.Model // nil without file systems
	// transferred is called when phases of I/O have ended; nil if the policy did not call OnTransfer.
	transferred func() bool
}

// space has the use of the machine over time: running jobs until they are due, and reservations.
type space interface {
	// fits reports whether a job can start now and run for as long as expected.
	fits(j *Job) bool
	// earliest returns the first instant at which a job will fit; hpc.Never if it never fits. The parameter after is the
	// earliest possible result.
	earliest(j *Job, after hpc.Time) hpc.Time
	// add adds the use of a job from an instant at which the job fits, for its expected run time.
	add(j *Job, at hpc.Time)
	// remove removes the use of a job.
	remove(j *Job)
	// move changes the expected end of a running job from [Job.Due] to the instant due, which is not before now.
	move(j *Job, due hpc.Time)
}

// newPool makes a pool with the given number of processors.
func newPool(processors int) *Machine {
	m := &Machine{processors: processors, free: processors}
	m.space = &pool{m: m}
	return m
}

// Now returns the current instant.
func (m *Machine) Now() hpc.Time { return m.now }

// IsPool reports whether the machine is a pool of processors. On a pool without reservations a job
// fits if its size is at most [Machine.Free].
func (m *Machine) IsPool() bool { return m.nodes == nil }

// Processors returns the number of processors of the machine.
func (m *Machine) Processors() int { return m.processors }

// Free returns the number of processors that no job holds. On a machine of nodes a job may be
// unable to use some of these ([Machine.Fits]).
func (m *Machine) Free() int { return m.free }

// Fits reports whether a job can start now and run for as long as expected, given the running jobs
// and the reservations of other jobs.
func (m *Machine) Fits(j *Job) bool { return m.mayFit(j) && m.space.fits(j) }

// mayFit compares a job's size with the number of free processors. It returns true for jobs that
// get whole nodes, because the size of such a job depends on its nodes.
func (m *Machine) mayFit(j *Job) bool {
	return j.Size <= m.free || j.demand != nil && j.demand.perNode[cpu] == wholeNode
}

// Start starts a waiting job. The job must fit, or have a reservation that begins now.
func (m *Machine) Start(j *Job) {
	reserved := j.reserved && j.reservedAt == m.now && m.mayFit(j)
	if j.state != waiting || !reserved && !m.Fits(j) {
		panic(fmt.Sprintf("sim: the policy starts job %d, which cannot start", j.Seq))
	}
	if !reserved {
		m.Unreserve(j)
		m.space.add(j, m.now)
	}
	if j.reserved {
		m.reservations--
	}
	j.reserved = false
	m.free -= j.held()
	j.state, j.Start, j.Due = running, m.now, after(m.now, j.Expected)
	m.starts++
	m.running.Insert(j.place(), int64(j.Due), m.starts)
	m.started(j)
}

// Reserve reserves processors or nodes for a waiting job. It returns the begin of the reservation. The reservation
// begins at the earliest instant at which the job can start and run for as long as expected, given the running jobs
// until they are due and the reservations of other jobs. If there is no such instant, Reserve reserves nothing and
// returns [hpc.Never]. Reserve first cancels an earlier reservation of the job, so a second call returns no later
// instant, unless the machine has become smaller.
func (m *Machine) Reserve(j *Job) hpc.Time {
	m.Unreserve(j)
	at := m.space.earliest(j, m.now)
	if at != hpc.Never {
		m.space.add(j, at)
		j.reserved, j.reservedAt = true, at
		m.reservations++
	}
	return at
}

// Unreserve cancels a job's reservation, if it has one.
func (m *Machine) Unreserve(j *Job) {
	if j.reserved {
		m.space.remove(j)
		m.freed++
		j.reserved = false
		m.reservations--
	}
}

// release removes a running job from the machine.
func (m *Machine) release(j *Job) {
	m.freed++
	m.running.Remove(&j.entry)
	m.free += j.held()
	m.space.remove(j)
}

// expect changes the expected run time of a running job. expected must exceed the time for which the job
// has already run. Reservations of other jobs may overlap with the job until the policy reserves again.
func (m *Machine) expect(j *Job, expected time.Duration) {
	due, tie := after(j.Start, expected), j.entry.Tie()
	m.freed++
	m.running.Remove(&j.entry)
	m.space.move(j, due)
	j.Expected, j.Due = expected, due
	m.running.Insert(j.place(), int64(due), tie)
}

// Running returns the running jobs in the order of [Job.Due]. Jobs due at the same instant are in
// the order of their starts.
func (m *Machine) Running() iter.Seq[*Job] {
	return func(yield func(*Job) bool) { m.running.Each(func(e *order.Entry[Job]) bool { return yield(e.Job) }) }
}

// Shadow returns the shadow time of EASY for a job of this size: the instant at which enough processors will be free if
// every running job runs for as long as expected. It also returns how many processors then remain. The result extra
// counts the processors of jobs in the order of Running, up to the first job at whose end enough processors are free.
// The result extraAll counts the processors of all jobs that are due by the shadow time. If size exceeds the machine's
// processors, Shadow returns [hpc.Never], 0, 0. Shadow takes logarithmic time. It is for pools: it ignores reservations
// and nodes.
func (m *Machine) Shadow(size int) (at hpc.Time, extra, extraAll int) {
	if size <= m.free {
		return m.now, m.free - size, m.free - size
	}
	last, sum := m.running.Reach(int64(size - m.free))
	if last == nil {
		return hpc.Never, 0, 0
	}
	due := last.Job.Due
	return due, m.free + int(sum) - size, m.free + int(m.running.UpTo(int64(due))) - size
}
