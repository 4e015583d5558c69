package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
)

// Can implements [rm.ResourceManager].
func (e *Engine) Can() rm.Capabilities {
	return rm.Capabilities{
		Name: "Slurm",
		Commands: []rm.CommandKind{
			rm.Cancel, rm.Hold, rm.Release, rm.SetPriority, rm.SetTimeLimit, rm.SetNodes, rm.Stretch, rm.SetRunTime,
		},
		Actions: true, FixedPriorities: true, PresetLead: presetLead,
	}
}

// Do implements [rm.ResourceManager]. A command is an input ([Engine.nextInput]). The nodes
// carry out what changes a run time, and slurmctld everything else.
func (e *Engine) Do(c rm.Command) error {
	if err := e.Can().Check(c); err != nil {
		return err
	}
	s := e.byID[c.Job]
	e.inputs = append(e.inputs, func() {
		if s == nil {
			e.emit(c.Unknown())
			return
		}
		e.carryOut(s, c)
	})
	return nil
}

// carryOut does to a submission what a command says. A command to a job that slurmctld has
// not answered for waits until it has.
func (e *Engine) carryOut(s *submission, c rm.Command) {
	over := s.refused || s.ended >= len(s.tasks)
	switch {
	case !s.answered && c.Kind == rm.Cancel && len(c.Tasks) == 0:
		s.cancelled = true
	case !s.answered:
		s.waiting = append(s.waiting, func() { e.carryOut(s, c) })
	case c.Kind == rm.Cancel && over: // nothing is left to be done
	case s.refused:
		e.done(s, c, errors.New("the job was rejected"))
	case over:
		e.done(s, c, errors.New("the job has ended"))
	case c.Kind == rm.Cancel:
		e.kill(s, c)
	case c.Kind == rm.Stretch || c.Kind == rm.SetRunTime:
		e.done(s, c, e.changeRunTimes(s, c))
	default:
		e.update(s, c)
	}
}

func (e *Engine) done(s *submission, c rm.Command, refused error) {
	e.emit(c.Done(0, s.number, refused))
}

// target is what a command is for, as Slurm's clients send it: "12", "12_3", "12_1,3".
func target(s *submission, tasks []int) string {
	number := strconv.FormatUint(uint64(s.number), 10)
	if len(tasks) == 0 {
		return number
	}
	list := make([]string, len(tasks))
	for i, task := range tasks {
		list[i] = strconv.Itoa(task)
	}
	return number + "_" + strings.Join(list, ",")
}

// kill cancels a job that slurmctld has taken, as its user does with scancel.
func (e *Engine) kill(s *submission, c rm.Command) {
	u := e.users[s.job.User]
	kill := rpc.KillRequest{Job: target(s, c.Tasks), Signal: signalKill}
	m := &rpc.Message{Type: rpc.RequestKillJob, UID: u.UID, GID: u.GID, Host: "localhost", Body: kill.Append(nil)}
	e.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if errno, ok := asErrno(err); ok && errno == rpc.ErrAlreadyDone {
			return // it ended at this very instant
		}
		if err != nil {
			e.warn("cancel-refused", fmt.Sprintf("cancelling job %s: %v", s.job.ID, err), false)
			e.done(s, c, err)
		}
	})
}

const signalKill = 9

// update changes a job as an operator does with scontrol.
func (e *Engine) update(s *submission, c rm.Command) {
	j := rpc.NewJobUpdate(target(s, c.Tasks))
	if err := describeUpdate(j, c); err != nil {
		e.done(s, c, err)
		return
	}
	m := &rpc.Message{Type: rpc.RequestUpdateJob, Host: "localhost", Body: j.Append(nil)}
	e.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		e.done(s, c, err)
	})
}

// describeUpdate puts what a command changes into the description of a job. An error says
// what Slurm has no number for.
func describeUpdate(j *rpc.JobDesc, c rm.Command) error {
	switch c.Kind {
	case rm.Hold:
		j.Hold()
	case rm.Release:
		j.Release()
	case rm.SetPriority:
		return j.SetPriority(c.Priority)
	case rm.SetTimeLimit:
		return j.SetTimeLimit(c.TimeLimit)
	case rm.SetNodes:
		j.SetNodes(c.Nodes, c.NodeList)
	}
	return nil
}

// changeRunTimes changes how long the scripts of a job run: on the nodes those that run, and
// for those that are still to be launched what [Engine.Script] will say.
func (e *Engine) changeRunTimes(s *submission, c rm.Command) error {
	changed := 0
	running := map[int]bool{}
	for _, number := range slices.Sorted(maps.Keys(e.running)) {
		in := e.byNumber[number]
		if in == nil || in.of != s || !c.For(in.task) {
			continue
		}
		running[in.task] = true
		if c.Kind == rm.Stretch && e.nodes.Stretch(number, c.Factor) || c.Kind == rm.SetRunTime && e.nodes.SetRunTime(number, c.RunTime) {
			changed++
		}
	}
	for _, task := range s.tasks {
		switch {
		case !c.For(task) || s.fates[task] == over:
			continue
		case c.Kind == rm.SetRunTime: // also of a job that runs again, should it be requeued
			e.setRunTime(s, task, c.RunTime)
		case !running[task]:
			e.setRunTime(s, task, stretched(e.runTimeOf(s, task), c.Factor))
		default:
			continue
		}
		if !running[task] {
			changed++
		}
	}
	if changed == 0 {
		return errors.New("none of its tasks is left to run")
	}
	return nil
}

// runTimeOf is how long a task of a job runs; that of a job that is no array is task -1.
func (e *Engine) runTimeOf(s *submission, task int) time.Duration {
	if d, changed := e.runTimes[taskOf{s, task}]; changed {
		return d
	}
	return s.job.RunTimeOf(task)
}

func (e *Engine) setRunTime(s *submission, task int, d time.Duration) {
	if e.runTimes == nil {
		e.runTimes = map[taskOf]time.Duration{}
	}
	e.runTimes[taskOf{s, task}] = d
}

// taskOf is a task of a submission.
type taskOf struct {
	of   *submission
	task int
}

// stretched is d times a factor; what is unlimited stays so.
func stretched(d time.Duration, factor float64) time.Duration {
	if d == hpc.Unlimited {
		return d
	}
	return time.Duration(min(float64(d)*factor, float64(hpc.Unlimited/2)))
}
