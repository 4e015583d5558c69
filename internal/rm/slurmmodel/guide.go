package slurmmodel

import (
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// taskOf returns the task for which a record stands.
func taskOf(j *job) guide.Task {
	t := guide.Task{Job: j.of.job.ID, Task: j.task, Restarts: j.restarts}
	if j.isHead() {
		t.Task = j.tasks[0]
	}
	return t
}

// view returns what is known of a job.
func (e *Engine) view(j *job) guide.View {
	v := guide.View{
		Task: taskOf(j), Partition: j.part.name, State: hpc.Pending, Priority: j.priority,
		Parts: e.account.points(j), Reason: j.reason.String(), Backfill: j.backfill,
	}
	if j.state != pending {
		v.State = hpc.Running
	}
	if e.isPlanned(j) {
		v.Planned = hpc.Unix(j.estimate)
	}
	idle := j.part.nodes.Clone()
	idle.And(e.available)
	v.IdleNodes = idle.Count() - idle.CountAnd(e.state.Busy())
	return v
}

// find returns the record of a task that has not ended; nil if there is none.
func (e *Engine) find(id string, task int) *job {
	s := e.byID[id]
	if s == nil {
		return nil
	}
	for _, j := range s.jobs {
		if j.state != ended && (j.task == task || task < 0 && j.isHead() || slices.Contains(j.tasks, task)) {
			return j
		}
	}
	return nil
}

// Look returns what the model knows of a task that has not ended. Task -1 of an array stands for the tasks that
// pend together.
func (e *Engine) Look(id string, task int) (v guide.View, ok bool) {
	if j := e.find(id, task); j != nil {
		return e.view(j), true
	}
	return v, false
}

// announce tells the guide the queue of a pass.
func (e *Engine) announce(byBackfill bool, queue []record) {
	if e.cfg.Guide == nil {
		return
	}
	list := make([]guide.Task, len(queue))
	for i, r := range queue {
		list[i] = taskOf(r.job)
	}
	e.cfg.Guide.Pass(byBackfill, list)
}

// guided asks the guide about a start, and returns the allocation with which the job starts.
func (e *Engine) guided(j *job, alloc *selection.Allocation) (*selection.Allocation, verdict) {
	if e.cfg.Guide == nil {
		return alloc, begun
	}
	nodes := e.names.Of(alloc.Nodes)
	switch on, blocks := e.cfg.Guide.Start(e.view(j), nodes); {
	case on == nodes:
		return alloc, begun
	case on != "":
		if other := e.allocateOn(j, on); other != nil {
			return other, begun
		}
		return alloc, begun
	case blocks:
		return nil, nodesBusy
	}
	return nil, overLimit
}

// allocateOn returns an allocation on named nodes; nil if the job does not fit there.
func (e *Engine) allocateOn(j *job, names string) *selection.Allocation {
	set, err := e.names.Set(names, e.place)
	if err != nil {
		return nil
	}
	n := set.Count()
	return e.tester.Test(e.state, e.requestOf(j), set, selection.Counts{Min: n, Max: n, Wanted: n}, selection.RunNow)
}

// mayEnd reports whether a running job ends now.
func (e *Engine) mayEnd(j *job) bool { return e.cfg.Guide == nil || e.cfg.Guide.End(taskOf(j)) }

// ForceStart starts a pending task on nodes, as if it had begun at an instant of this second. The error says
// why it cannot.
func (e *Engine) ForceStart(id string, task int, nodes string, at hpc.Time) error {
	j := e.find(id, task)
	if j == nil || j.state != pending || taskOf(j).Task != task {
		return fmt.Errorf("the model does not have job %s pending", id)
	}
	alloc := e.allocateOn(j, nodes)
	if alloc == nil {
		return fmt.Errorf("job %s does not fit on %s in the model", id, nodes)
	}
	now := e.now
	e.now = at
	j.totalCPUs = alloc.CPUs
	e.start(j, alloc, false)
	e.now = now
	return nil
}

// ForceEnd ends a task with a state, or ends its run and puts it back into the queue. The error says that the model does not have it running.
func (e *Engine) ForceEnd(id string, task int, how hpc.State, requeue bool) error {
	j := e.find(id, task)
	if j == nil || j.state != running {
		return fmt.Errorf("the model does not have job %s running", id)
	}
	e.vacate(j, how, false, requeue)
	return nil
}

// ForceReason gives a pending task another reason.
func (e *Engine) ForceReason(v guide.View, r slurmspec.Reason) {
	e.setReason(e.find(v.Job, v.Task.Task), r)
}
