package sim

import (
	"rmreplay/internal/bandwidth"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// shareFileSystems makes the model of the file systems' bandwidth.
func (e *Engine) shareFileSystems() (err error) {
	if len(e.cfg.FileSystems) == 0 {
		return nil
	}
	e.machine.io, err = bandwidth.New(e.cfg.FileSystems)
	return err
}

// beginIO adds a job that starts to the model of bandwidth, if the job does I/O. It leaves out jobs
// with a given end (EndAt), such as preset jobs, which therefore take no bandwidth from other jobs.
func (e *Engine) beginIO(j *Job) {
	if len(j.of.job.IO) == 0 || e.machine.io == nil || j.of.job.EndAt != 0 {
		return
	}
	j.moves, j.end = true, hpc.Never
	e.machine.io.Start(e.Now(), j.Seq, j.Nodes(), j.run, j.of.job.IO)
	if e.moving == nil {
		e.moving = map[int]*Job{}
	}
	e.moving[j.Seq] = j
}

// endIO removes a job that leaves the machine from the model.
func (e *Engine) endIO(j *Job) {
	if j.moves {
		j.moves = false
		e.machine.io.Stop(e.Now(), j.Seq)
		delete(e.moving, j.Seq)
	}
}

// transfer advances the model to this instant, and ends the jobs that have moved all their data.
func (e *Engine) transfer() {
	if e.machine.io == nil {
		return
	}
	for _, seq := range e.machine.io.Advance(e.Now()) {
		e.endAt(e.moving[seq], e.Now())
	}
	if e.machine.transferred != nil && e.machine.transferred() {
		e.freed = true
	}
}

// foreseeTransfers sets the timer for the next end of a phase of I/O.
func (e *Engine) foreseeTransfers() {
	if e.machine.io == nil {
		return
	}
	if next := e.machine.io.Next(); next != hpc.Never && (next < e.transfersAt || e.transfersAt <= e.Now()) {
		e.transfersAt = next
		e.timers.add(next, transfersChange, nil, e.transfer)
	}
}

// wake calls the function ready at an instant, and then the policy if ready returns true.
func (e *Engine) wake(at hpc.Time, ready func() bool) {
	e.timers.add(max(at, e.Now()), machineChanges, nil, func() { e.freed = ready() || e.freed })
}

// Wake makes the engine call the function ready at an instant. If it returns true, the engine
// calls the policy's Schedule, even if nothing has changed.
func (m *Machine) Wake(at hpc.Time, ready func() bool) { m.wake(at, ready) }

// OnTransfer makes the engine call the function ready whenever phases of I/O have ended. If it
// returns true, the engine calls the policy's Schedule.
func (m *Machine) OnTransfer(ready func() bool) { m.transferred = ready }

// FileSystems returns the file systems that the jobs share.
func (m *Machine) FileSystems() []hpc.FileSystem {
	if m.io == nil {
		return nil
	}
	return m.io.FileSystems()
}

// IOLoad returns the bandwidth that jobs demand of a file system, and the bandwidth that they get.
func (m *Machine) IOLoad(name string) bandwidth.Load {
	if m.io == nil {
		return bandwidth.Load{}
	}
	return m.io.Load(name)
}

// NodeCount returns the number of nodes in service. For a pool, NodeCount returns the number of processors.
func (m *Machine) NodeCount() int {
	if m.nodes == nil {
		return m.processors
	}
	count := 0
	for i := range m.nodes.list {
		if m.nodes.list[i].usable() {
			count++
		}
	}
	return count
}

// Earliest returns the first instant at which a waiting job can start and run for as long as expected. The parameter
// after is the earliest possible result. Earliest considers running jobs and reservations of other jobs. If there is no
// such instant, the result is [hpc.Never].
func (m *Machine) Earliest(j *Job, after hpc.Time) hpc.Time {
	return m.space.earliest(j, max(after, m.now))
}

// ReserveAt reserves processors or nodes for a waiting job that has no reservation. The instant at
// must be a result of [Machine.Earliest].
func (m *Machine) ReserveAt(j *Job, at hpc.Time) {
	m.space.add(j, at)
	j.reserved, j.reservedAt = true, at
	m.reservations++
}

// ReserveIdle makes future reservations prefer nodes that are idle now.
func (m *Machine) ReserveIdle() {
	if m.nodes != nil {
		m.nodes.idleFirst = true
	}
}

// Nodes returns the number of nodes of a running job. For a waiting job, the result is the smallest number that the job
// may get. On a pool every processor counts as a node.
func (j *Job) Nodes() int {
	switch {
	case j.demand == nil:
		return j.Size
	case j.state == running:
		return len(j.placement.nodes)
	}
	return j.demand.minNodesForTasks()
}

// minNodesForTasks returns the smallest number of nodes that have room for the tasks.
func (q *demand) minNodesForTasks() int {
	if q.tasksPerNode > 0 {
		return max(q.minNodes, (q.tasks+q.tasksPerNode-1)/q.tasksPerNode)
	}
	return q.minNodes
}

// Estimate returns an estimator's result for the job. The estimator may use the job's behaviour, which is hidden from
// the policy.
func (j *Job) Estimate(e ioaware.Estimator, f *hpc.FileSystem) ioaware.Estimate {
	return e.Estimate(j.of.job, int(j.task), f)
}
