package sim

import (
	"slices"

	"rmreplay/internal/hpc"
)

// Foremost jobs, which an operator has submitted with [hpc.TopPriority], are not the
// policy's to order. They are how a replay brings the machine into the state in which its
// window begins: each starts at once on the nodes that it names, however long others have
// waited for these.

func (j *Job) foremost() bool {
	p := j.Request.Priority
	return j.Request.AsOperator && p != nil && *p >= hpc.TopPriority
}

// startForemost starts the foremost jobs that fit beside what runs. What waiting jobs
// have reserved they give up: the policy is asked afterwards, and can reserve anew.
func (e *Engine) startForemost() {
	if len(e.foremost) == 0 {
		return
	}
	e.machine.unreserveAll()
	e.foremost = slices.DeleteFunc(e.foremost, func(j *Job) bool {
		fits := e.machine.Fits(j)
		if fits {
			e.machine.Start(j)
		}
		return fits
	})
}

// removeForemost takes a job out of the foremost ones that wait, and says whether it was
// one.
func (e *Engine) removeForemost(j *Job) bool {
	i := slices.Index(e.foremost, j)
	if i >= 0 {
		e.foremost = slices.Delete(e.foremost, i, i+1)
	}
	return i >= 0
}

// unreserveAll gives up what jobs have reserved on nodes.
func (m *Machine) unreserveAll() {
	if m.nodes == nil {
		return
	}
	for i := range m.nodes.list {
		for _, s := range slices.Clone(m.nodes.list[i].stays) {
			m.Unreserve(s.job)
		}
	}
}
