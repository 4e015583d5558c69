package slurm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/workload/arrays"
)

// If some tasks of an array run when the window begins, the window divides the array into several
// jobs ([arrays.Split]): a preset job for each running task, and an array of the other tasks. For
// the array's limit (%N), slurmctld counts only running tasks of the same array. Therefore the
// engine submits the whole array to slurmctld. Until the window begins, the window's barrier
// reservation (package rm/window) keeps the tasks pending. At the recorded start of a preset task,
// an operator moves this task into that reservation.

// presetTasks returns the preset tasks, by task number, that slurmctld can keep in one array with the job's tasks.
// These tasks are not submitted yet, and pin can make them preset jobs. presetTasks returns nil if the array has no
// limit, or if more tasks run than the limit allows.
func (j *jobs) presetTasks(job *hpc.Job) map[int]*submission {
	array, err := hpc.ParseArray(job.Array)
	if err != nil || array.Limit == 0 {
		return nil
	}
	parts := map[int]*submission{}
	for task, preset := range j.cut[job.ID] {
		p := window.OperatorsJob(preset)
		// slurmctld ignores an update of a limit that does not change the limit.
		pends := p.TimeLimit == job.TimeLimit && admission.Admitted(j.cluster, p) != p
		if j.byID[preset.ID] == nil && updatable(job, p) && !pends {
			parts[task] = newSubmission(p)
		}
	}
	if len(parts) == 0 || len(parts) > array.Limit {
		return nil
	}
	return parts
}

// updatable reports whether pin can turn a pending task of the array into the preset job p. The
// two requests may differ only in values that pin changes or that do not affect p.
func updatable(array, p *hpc.Job) bool {
	x, y := array.Request, p.Request
	if array.Begin > 0 && array.Submit.Add(array.Begin) > p.Recorded.Start {
		return false
	}
	x.Begin, x.Array = 0, ""
	x.NodeList, x.MinNodes, x.MaxNodes = y.NodeList, y.MinNodes, y.MaxNodes
	x.Reservation, x.Priority, x.AsOperator, x.TimeLimit = y.Reservation, y.Priority, y.AsOperator, y.TimeLimit
	return reflect.DeepEqual(x, y)
}

// wholeArray returns the --array value for the submission's tasks and the preset tasks of the same
// array.
func (s *submission) wholeArray() string {
	if len(s.parts) == 0 {
		return s.job.Array
	}
	_, limit, _ := strings.Cut(s.job.Array, "%")
	tasks := append(slices.Collect(maps.Keys(s.parts)), s.tasks...)
	slices.Sort(tasks)
	return arrays.IndexList(tasks) + "%" + limit
}

// taskOf returns the submission to which a task of slurmctld's array belongs, and the task's
// number in that submission. A preset task is a separate submission, so its number is -1.
func (s *submission) taskOf(task int) (*submission, int) {
	switch {
	case s.parts[task] != nil:
		return s.parts[task], -1
	case s.whole != nil:
		return s, -1
	}
	return s, task
}

// arrayGrace is how long a preset task waits for its array to be submitted. A task that started
// when its array was submitted becomes a preset task that is due window.PresetLead before the
// array.
const arrayGrace = window.PresetLead + time.Millisecond

// submitPreset submits a preset job, if possible as a task of its array.
func (j *jobs) submitPreset(job *hpc.Job) error {
	array, task, cut := j.cutTask(job)
	if !cut {
		return j.submit(window.OperatorsJob(job))
	}
	if whole := j.byID[array]; whole != nil {
		return j.submitTask(whole, task, job)
	}
	j.At(j.Now().Add(arrayGrace), func() {
		if whole := j.byID[array]; whole != nil {
			j.Fail(j.submitTask(whole, task, job))
			return
		}
		j.Fail(j.submit(window.OperatorsJob(job)))
	})
	return nil
}

// cutTask returns the array and the task number of a preset job that the window cut from an array.
func (j *jobs) cutTask(job *hpc.Job) (array string, task int, cut bool) {
	array, task, cut = hpc.SplitTask(job.ID)
	return array, task, cut && j.cut[array][task] != nil
}

// submitTask submits a preset job as a task of its array. If slurmctld does not have the task in
// the array, submitTask submits a separate job.
func (j *jobs) submitTask(whole *submission, task int, job *hpc.Job) error {
	part := whole.parts[task]
	if part == nil {
		return j.submit(window.OperatorsJob(job))
	}
	part.job, part.whole, part.task = window.OperatorsJob(job), whole, task
	if err := j.add(part); err != nil {
		return err
	}
	index := len(j.submissions) - 1
	j.input(func() { j.pin(part, index) })
	return nil
}

// pin makes a pending task of an array a preset job: the task gets the job's nodes and priority,
// and may start in the window's barrier reservation.
func (j *jobs) pin(part *submission, index int) {
	whole := part.whole
	switch {
	case !whole.answered:
		whole.waiting = append(whole.waiting, func() { j.pin(part, index) })
		return
	case whole.refused:
		j.apart(part)
		j.sendSubmission(index)
		return
	}
	job := part.job
	update := rpc.NewJobUpdate(target(part, nil))
	update.SetNodes(job.MinNodes, job.NodeList)
	update.Reservation, update.Priority = job.Reservation, window.TopPriority
	if job.TimeLimit != whole.job.TimeLimit {
		if err := update.SetTimeLimit(job.TimeLimit); err != nil {
			j.Fail(fmt.Errorf("submitting job %s: %w", job.ID, err))
			return
		}
	}
	m := &rpc.Message{Type: rpc.RequestUpdateJob, Host: "localhost", Body: j.codec.Body(update)}
	j.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if err != nil {
			j.failUnlessEnded(fmt.Errorf("submitting job %s as a task of job %s: %w", job.ID, whole.job.ID, err))
			return
		}
		j.accepted(part, "")
	})
}

// apart removes a preset task from its array and makes it a separate job.
func (j *jobs) apart(part *submission) {
	delete(part.whole.parts, part.task)
	part.whole, part.task = nil, 0
}

// warnCut adds a warning that names the arrays whose limit does not count all tasks that ran when
// the window began.
func (j *jobs) warnCut() {
	var names []string
	for id, tasks := range j.cut {
		s := j.byID[id]
		if s == nil || s.refused || !strings.Contains(s.job.Array, "%") {
			continue
		}
		for task := range tasks {
			if s.parts[task] == nil {
				names = append(names, id)
				break
			}
		}
	}
	if n := len(names); n > 0 {
		slices.Sort(names)
		j.warn("array-limit", fmt.Sprintf("the tasks that ran when the window began are separate jobs in slurmctld, and do "+
			"not count towards the limit (%%N) of %s: %s",
			quantity.Regular(n, "array"), strings.Join(names[:min(n, 5)], ", ")), true)
	}
}
