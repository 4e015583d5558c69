package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload/arrays"
)

// Can implements [rm.ResourceManager].
func (e *Engine) Can() rm.Capabilities {
	before := e.presetsBefore()
	return rm.Capabilities{
		Name: "Slurm",
		Commands: []rm.CommandKind{
			rm.Cancel, rm.Hold, rm.Release, rm.SetPriority, rm.SetTimeLimit, rm.SetNodes, rm.Stretch, rm.SetRunTime,
		},
		Actions: true, FixedPriorities: true,
		// slurmctld gets the site's scheduling parameters shortly before the window begins, after the submission of all
		// preset jobs. So a preset job that started after this change of parameters is submitted and started earlier.
		PresetAt: func(start, begin hpc.Time) hpc.Time {
			return min(start, begin.Add(-before)).Add(-window.PresetLead)
		},
	}
}

// Do implements [rm.ResourceManager]. A command is an input of the event loop ([loop.nextInput]).
// The engine's nodes carry out the commands that change run times. slurmctld carries out all other
// commands.
func (e *Engine) Do(c rm.Command) error {
	if err := e.Can().Check(c); err != nil {
		return err
	}
	s := e.jobs.byID[c.Job]
	e.loop.input(func() {
		if s == nil {
			e.loop.emit(c.Unknown())
			return
		}
		e.jobs.carryOut(s, c)
	})
	return nil
}

// carryOut applies a command to a submission. It waits until slurmctld has answered the
// submission.
func (j *jobs) carryOut(s *submission, c rm.Command) {
	over := s.refused || s.ended >= len(s.tasks)
	switch {
	case !s.answered && c.Kind == rm.Cancel && len(c.Tasks) == 0:
		s.cancelled = true
	case !s.answered:
		s.waiting = append(s.waiting, func() { j.carryOut(s, c) })
	case c.Kind == rm.Cancel && over: // nothing to do
	case s.refused:
		j.done(s, c, errors.New("the job was rejected"))
	case over:
		j.done(s, c, errors.New("the job has ended"))
	case c.Kind == rm.Cancel:
		j.kill(s, c)
	case (c.Kind == rm.Stretch || c.Kind == rm.SetRunTime) && j.moves(s, c):
		j.done(s, c, errMoves)
	case c.Kind == rm.Stretch || c.Kind == rm.SetRunTime:
		j.done(s, c, j.changeRunTimes(s, c))
	default:
		j.update(s, c)
	}
}

func (j *jobs) done(s *submission, c rm.Command, refused error) {
	j.emit(c.Done(0, s.number, refused))
}

// target names the job and tasks of a command as Slurm's clients send them: "12", "12_3",
// "12_1,3-5".
func target(s *submission, tasks []int) string {
	number := strconv.FormatUint(uint64(s.number), 10)
	switch {
	case s.whole != nil:
		return strconv.FormatUint(uint64(s.whole.number), 10) + "_" + strconv.Itoa(s.task)
	case len(tasks) == 0 && len(s.parts) > 0:
		tasks = s.tasks // without the preset tasks
	case len(tasks) == 0:
		return number
	}
	return number + "_" + arrays.IndexList(tasks)
}

// kill cancels a job that slurmctld has accepted, as its user does with scancel.
func (j *jobs) kill(s *submission, c rm.Command) {
	u := j.users.byName[s.job.User]
	kill := rpc.KillRequest{Job: target(s, c.Tasks), Signal: signalKill}
	m := &rpc.Message{Type: rpc.RequestKillJob, UID: u.UID, GID: u.GID, Host: "localhost", Body: j.codec.Body(&kill)}
	j.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if errno, ok := asErrno(err); ok && errno == slurmspec.ErrAlreadyDone {
			return // the job ended at this instant
		}
		if err != nil {
			j.warn("cancel-refused", fmt.Sprintf("cancelling job %s: %v", s.job.ID, err), false)
			j.done(s, c, err)
		}
	})
}

const signalKill = 9

// update changes a job as an operator does with scontrol.
func (j *jobs) update(s *submission, c rm.Command) {
	update := rpc.NewJobUpdate(target(s, c.Tasks))
	if err := describeUpdate(update, c); err != nil {
		j.done(s, c, err)
		return
	}
	m := &rpc.Message{Type: rpc.RequestUpdateJob, Host: "localhost", Body: j.codec.Body(update)}
	j.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		j.done(s, c, err)
	})
}

// describeUpdate sets the fields of a job description that a command changes. It returns an
// error for a value that Slurm's messages cannot express.
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

// moves reports whether the command is for a running task that does I/O. No command can change the run time of a task
// that does I/O.
func (j *jobs) moves(s *submission, c rm.Command) bool {
	for number := range j.running {
		if in := j.byNumber[number]; in != nil && in.of == s && c.For(in.task) {
			return j.transfers.decides(s.job)
		}
	}
	return false
}

// changeRunTimes changes the run times of a job's scripts. The nodes change the scripts that
// run. [jobs.script] uses the new run times for scripts that slurmctld launches later.
func (j *jobs) changeRunTimes(s *submission, c rm.Command) error {
	changed := 0
	running := map[int]bool{}
	for _, number := range slices.Sorted(maps.Keys(j.running)) {
		in := j.byNumber[number]
		if in == nil || in.of != s || !c.For(in.task) {
			continue
		}
		running[in.task] = true
		if c.Kind == rm.Stretch && j.nodes.Stretch(number, c.Factor) || c.Kind == rm.SetRunTime &&
			j.nodes.SetRunTime(number, c.RunTime) {
			changed++
		}
	}
	for _, task := range s.tasks {
		switch {
		case !c.For(task) || s.fates[task] == over:
			continue
		case c.Kind == rm.SetRunTime: // this run time also applies after a requeue
			j.setRunTime(s, task, c.RunTime)
		case !running[task]:
			j.setRunTime(s, task, stretched(j.runTimeOf(s, task), c.Factor))
		default:
			continue
		}
		if !running[task] {
			changed++
		}
	}
	if changed == 0 {
		return errors.New("all tasks of the job have ended")
	}
	return nil
}

// runTimeOf returns the run time of a task of a job. A job that is not an array has a single task,
// -1.
func (j *jobs) runTimeOf(s *submission, task int) time.Duration {
	if d, changed := j.runTimes[taskOf{s, task}]; changed {
		return d
	}
	return s.job.RunTimeOf(task)
}

func (j *jobs) setRunTime(s *submission, task int, d time.Duration) {
	if j.runTimes == nil {
		j.runTimes = map[taskOf]time.Duration{}
	}
	j.runTimes[taskOf{s, task}] = d
}

// taskOf identifies a task of a submission.
type taskOf struct {
	of   *submission
	task int
}

// stretched returns d times factor. An unlimited run time stays unlimited.
func stretched(d time.Duration, factor float64) time.Duration {
	if d == hpc.Unlimited {
		return d
	}
	return time.Duration(min(float64(d)*factor, float64(hpc.Unlimited/2)))
}
