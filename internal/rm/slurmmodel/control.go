package slurmmodel

import (
	"errors"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
)

// Do implements [rm.ResourceManager].
func (e *Engine) Do(c rm.Command) error {
	if err := e.Can().Check(c); err != nil {
		return err
	}
	e.throttle()
	s := e.byID[c.Job]
	if s == nil {
		e.events = append(e.events, at(e.now, c.Unknown()))
		return nil
	}
	changed, over := false, false
	for _, j := range slices.Backward(slices.Clone(s.jobs)) { // slurmctld begins with the newest record of an array
		if !slices.ContainsFunc(j.ends(), c.For) {
			continue
		}
		if j.state == ended || j.state == completing {
			over = true
			continue
		}
		changed = true
		e.change(j, c)
	}
	if c.Kind == rm.Cancel {
		if changed && !over { // slurmctld does not count the request if a task of the array is over already
			e.stats.Cancelled++
		}
		return nil // the end of the job is the event
	}
	var refused error
	if !changed {
		refused = errors.New("the job has ended")
	}
	e.events = append(e.events, at(e.now, c.Done(s.index, s.number, refused)))
	return nil
}

func at(now hpc.Time, ev rm.Event) rm.Event {
	ev.At = now
	return ev
}

// change carries out a command to one record.
func (e *Engine) change(j *job, c rm.Command) {
	e.touch()
	switch c.Kind {
	case rm.Cancel:
		e.cancel(j, c)
		return
	case rm.Hold:
		if j.state == pending {
			e.hold(j, slurmspec.HeldByAdmin)
		}
	case rm.Release:
		if j.state == pending && j.priority == 0 {
			j.reason, j.priority = slurmspec.NoReason, 1
			j.direct = false
			e.account.setPriority(j)
		}
	case rm.SetPriority:
		if j.state == pending {
			j.priority, j.direct, j.perPart = c.Priority, true, nil
		}
	case rm.SetTimeLimit:
		e.setLimit(j, c)
	}
	e.loops.queued = true
}

// cancel ends a job as its user. A pending one is over at once, and wakes no scheduler.
func (e *Engine) cancel(j *job, c rm.Command) {
	if j.state == running {
		e.vacate(j, hpc.Cancelled, true, false)
		return
	}
	if len(j.tasks) > 0 && len(c.Tasks) > 0 {
		e.cancelTasks(j, c)
		return
	}
	e.finish(j, hpc.Cancelled, "")
}

// cancelTasks cancels some of the tasks that have no record of their own.
func (e *Engine) cancelTasks(j *job, c rm.Command) {
	var rest, over []int
	for _, t := range j.tasks {
		if c.For(t) {
			over = append(over, t)
		} else {
			rest = append(rest, t)
		}
	}
	if len(rest) == 0 {
		e.finish(j, hpc.Cancelled, "")
		return
	}
	j.tasks = rest
	for _, t := range over {
		one := *j
		one.task = t
		outcome := e.outcome(&one, hpc.Cancelled)
		outcome.End = e.now
		e.emit(&one, rm.Ended, "", outcome)
	}
}

// setLimit gives a job another time limit.
func (e *Engine) setLimit(j *job, c rm.Command) {
	minutes, err := slurmspec.Minutes(c.TimeLimit)
	if err != nil {
		return
	}
	j.limit = int64(minutes)
	if j.endless = minutes == slurmspec.Infinite; j.endless {
		j.limit = endless
	}
	if j.state == running {
		e.endAt(j, j.estimate+j.limit*60)
	}
}

// endAt sets when a running job will have to end, in seconds since 1970.
func (e *Engine) endAt(j *job, end int64) {
	at := slices.Index(e.running, j)
	e.running, e.horizon = slices.Delete(e.running, at, at+1), slices.Delete(e.horizon, at, at+1)
	j.end = end
	e.run(j)
}
