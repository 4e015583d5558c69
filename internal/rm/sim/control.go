package sim

import (
	"cmp"
	"errors"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Can implements [rm.ResourceManager]. Commands on priorities are missing, because policies do not
// use priorities. A pool has no nodes, so SetNodes is missing there.
func (e *Engine) Can() rm.Capabilities {
	c := rm.Capabilities{
		Name:     "the simulator",
		Commands: []rm.CommandKind{rm.Cancel, rm.Hold, rm.Release, rm.SetTimeLimit, rm.Stretch, rm.SetRunTime},
	}
	if !e.machine.IsPool() {
		c.Commands = append(c.Commands, rm.SetNodes)
	}
	return c
}

// Act implements [rm.ResourceManager]. It returns an error, because the simulator has no administrator's commands.
func (e *Engine) Act(action hpc.Action) error { return e.Can().CheckAction(action) }

// Do implements [rm.ResourceManager]. A command takes effect at once. The next AdvanceTo then calls the policy, and
// returns the event.
func (e *Engine) Do(c rm.Command) error {
	if err := e.Can().Check(c); err != nil {
		return err
	}
	s := e.find(c.Job)
	if s == nil {
		e.report(c.Unknown())
		return nil
	}
	number, first := int(e.byID[c.Job])+1, uint32(0)
	if len(s.jobs) > 0 {
		first = uint32(s.jobs[0].Seq)
	}
	if err := e.carryOut(s, c); err != nil || c.Kind != rm.Cancel {
		e.report(c.Done(number, first, err))
	}
	return nil
}

var (
	errRefused = errors.New("the job was rejected")
	errOver    = errors.New("the job has ended")
	errRuns    = errors.New("the job runs")
	errNoTask  = errors.New("the job has no such task")
	errMoves   = errors.New("the run time of a job with I/O cannot be changed: it ends when its data are moved")
)

// carryOut carries out a command on a submission. It returns an error if the command cannot change a task. To cancel
// a submission that has ended is not an error.
func (e *Engine) carryOut(s *submission, c rm.Command) error {
	switch {
	case c.Kind == rm.Cancel && s.open == 0: // nothing to do
		return nil
	case s.refused:
		return errRefused
	case s.open == 0:
		return errOver
	case c.Kind == rm.Cancel && len(c.Tasks) == 0:
		e.finishAll(s, hpc.Cancelled, "")
		return nil
	}
	var refused error
	done := false
	for i := range s.jobs {
		j := &s.jobs[i]
		if !c.For(int(j.task)) {
			continue
		}
		if err := e.change(j, c); err != nil {
			refused = cmp.Or(refused, err)
		} else {
			done = true
		}
	}
	switch {
	case done:
		s.offer(e) // this task, or another task of the array, may start now
		return nil
	case refused != nil:
		return refused
	}
	return errNoTask
}

// change carries out a command to one job.
func (e *Engine) change(j *Job, c rm.Command) error {
	switch {
	case j.state == ended && c.Kind == rm.Cancel: // nothing to do
		return nil
	case j.state == ended:
		return errOver
	case j.state == running && c.Kind == rm.SetNodes:
		return errRuns
	case j.state == running && j.moves && (c.Kind == rm.Stretch || c.Kind == rm.SetRunTime):
		return errMoves
	}
	switch c.Kind {
	case rm.Cancel:
		e.finish(j, hpc.Cancelled, "")
	case rm.Hold:
		e.hold(j)
	case rm.Release:
		e.release(j)
	case rm.SetTimeLimit:
		e.setLimit(j, c.TimeLimit)
	case rm.SetNodes:
		return e.setNodesOf(j, c)
	case rm.Stretch:
		e.stretch(j, c.Factor)
	case rm.SetRunTime:
		if j.run = c.RunTime; j.state == running {
			e.endAt(j, after(j.Start, c.RunTime))
		}
	}
	return nil
}

// hold removes a pending job from the policy until it is released. A running job is held when it is
// requeued, as in Slurm.
func (e *Engine) hold(j *Job) {
	j.onHold = true
	if j.state == running {
		return
	}
	e.leave(j)
	j.state = blocked
	j.withdraw()
	e.explainJob(j, becauseHeld)
}

// withdraw makes a held job ineligible again.
func (j *Job) withdraw() {
	if j.offered {
		j.offered = false
		j.of.active--
	}
	j.of.next = 0
}

// release ends the hold of a job. If the whole submission was held, its other tasks stay held.
func (e *Engine) release(j *Job) {
	s := j.of
	if s.onHold {
		s.onHold = false
		for i := range s.jobs {
			s.jobs[i].onHold = true
		}
	}
	j.onHold, j.first, j.why = false, 0, becauseOrdinary
	s.next = 0
}

// setLimit changes a job's time limit. A job that has run longer than the new limit ends at once.
func (e *Engine) setLimit(j *Job, limit time.Duration) {
	switch {
	case j.state != running:
		e.changeWaiting(j, func() { e.limit(j, limit) })
		return
	case after(j.Start, limit) <= e.Now():
		j.Limit, j.Expected, j.cut = limit, limit, true
		e.end(j)
		return
	}
	e.limit(j, limit)
	e.foresee(j)
	e.freed = true // backfilling depends on the time limits of running jobs
}

// changeWaiting calls the function change on a job that is not running. If the policy has the job, changeWaiting
// calls change through the policy.
func (e *Engine) changeWaiting(j *Job, change func()) {
	if j.state != waiting || j.of.preset {
		change()
		return
	}
	e.policy.Change(j, func() {
		e.machine.Unreserve(j)
		change()
	})
	e.freed = true
}

// setNodesOf gives a pending job another number of nodes or other named nodes.
func (e *Engine) setNodesOf(j *Job, c rm.Command) error {
	request := *j.Request
	if c.Nodes > 0 {
		request.MinNodes, request.MaxNodes = c.Nodes, c.Nodes
	}
	request.NodeList = cmp.Or(c.NodeList, request.NodeList)
	changed := *j
	changed.Request = &request
	if err := e.machine.nodes.measure(&changed); err != nil {
		return err
	}
	e.changeWaiting(j, func() { j.Request, j.demand, j.Size = changed.Request, changed.demand, changed.Size })
	return nil
}

// stretch multiplies the rest of a job's run time by a factor.
func (e *Engine) stretch(j *Job, factor float64) {
	if j.state != running {
		j.run = stretched(j.run, factor)
		return
	}
	if j.end != hpc.Never {
		e.endAt(j, after(e.Now(), stretched(j.end.Sub(e.Now()), factor)))
	}
}

// stretched returns d times a factor. An unlimited run time stays unlimited.
func stretched(d time.Duration, factor float64) time.Duration {
	if d == hpc.Unlimited {
		return d
	}
	return time.Duration(min(float64(d)*factor, float64(hpc.Unlimited/2)))
}

// endAt makes a running job end on its own at the instant at, or now if this instant has passed.
func (e *Engine) endAt(j *Job, at hpc.Time) {
	j.end = max(at, e.Now())
	e.foresee(j)
}
