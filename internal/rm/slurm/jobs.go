package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/workload/sbatch"
)

// submission is a job of the workload on its way through Slurm.
type submission struct {
	job *hpc.Job
	// number is Slurm's, of the whole array if it is one; 0 until slurmctld has answered.
	number   uint32
	answered bool
	refused  bool
	// early are events that came before the answer to the submission.
	early []rm.Event
	// waiting are the submissions that depend on this one and cannot be sent before
	// it has its number.
	waiting []func()
	// cancelled says that the user cancelled it before slurmctld had answered.
	cancelled bool
	// tries is how often slurmctld was too busy to take it.
	tries int
	// tasks are the task numbers of an array, the one -1 of any other job.
	tasks []int
	fates map[int]fate
	// ended counts the tasks that are over.
	ended int
}

// fate is what is known of a task.
type fate uint8

const (
	inArray fate = iota // it waits, as far as is known in one record with others of its array
	alone               // slurmctld has made it a job of its own
	over
)

// instance is one job of Slurm's: a job, or a task of an array.
type instance struct {
	of    *submission
	task  int
	nodes string // as launched
	// nodeCount and cpus are what it was launched with.
	nodeCount, cpus int
	// start is when it was launched, and resized says that its size has changed since.
	start   hpc.Time
	resized bool
	// priority is the one with which it started; 0 if that was not asked for.
	priority uint32
}

// scriptMark begins the line of a batch script that says which job of the workload
// it is. slurmctld hands scripts to nodes as they were submitted, so a node knows
// whose script it has even before slurmctld has answered the submission.
const scriptMark = "# rmreplay job "

func scriptOf(index int) string {
	return "#!/bin/sh\n" + scriptMark + strconv.Itoa(index) + "\n"
}

// submissionOf finds the submission that a script was made for.
func (e *Engine) submissionOf(script string) (*submission, error) {
	if _, mark, ok := strings.Cut(script, scriptMark); ok {
		line, _, _ := strings.Cut(mark, "\n")
		if i, err := strconv.Atoi(line); err == nil && i >= 0 && i < len(e.submissions) {
			return e.submissions[i], nil
		}
	}
	return nil, fmt.Errorf("slurmctld launched a script that is none of the workload's: %.100q", script)
}

// Submit implements [rm.ResourceManager]. Since it is an input ([Engine.nextInput]), the
// numbers of jobs are in the workload's order and a job may depend on any before it.
// slurmctld sleeps for a microsecond of virtual time over each (_throttle_start in
// proc_req.c), as it does when they come all at once.
func (e *Engine) Submit(job *hpc.Job) error {
	s := &submission{job: job, tasks: []int{-1}, fates: map[int]fate{}}
	if job.Array != "" {
		array, err := hpc.ParseArray(job.Array)
		if err != nil {
			return fmt.Errorf("submitting job %s: --array %s: %w", job.ID, job.Array, err)
		}
		s.tasks = array.Tasks
	}
	if _, twice := e.byID[job.ID]; twice {
		return fmt.Errorf("submitting job %s: there is already a job of this name", job.ID)
	}
	e.byID[job.ID] = s
	e.submissions = append(e.submissions, s)
	index := len(e.submissions) - 1
	e.inputs = append(e.inputs, func() { e.sendSubmission(index) })
	return nil
}

func (e *Engine) sendSubmission(index int) {
	s := e.submissions[index]
	if on := e.unnumbered(s.job.Dependency); on != nil {
		on.waiting = append(on.waiting, func() { e.sendSubmission(index) })
		return
	}
	body, uid, gid, err := e.encodeSubmission(s, index)
	if err != nil {
		e.refuse(s, err.Error())
		return
	}
	if s.job.AsOperator {
		uid, gid = 0, 0
	}
	m := &rpc.Message{Type: rpc.RequestSubmitBatchJob, UID: uid, GID: gid, Host: "localhost", Body: body}
	e.sendInput(m, func(reply *rpc.Message, err error) {
		if err != nil {
			e.failUnlessEnded(fmt.Errorf("submitting job %s: %w", s.job.ID, err))
			return
		}
		e.submitted(s, index, reply)
	})
}

func (e *Engine) encodeSubmission(s *submission, index int) (body []byte, uid, gid uint32, err error) {
	job := s.job
	dependency, err := e.dependency(job.Dependency)
	if err != nil {
		return nil, 0, 0, err
	}
	u, known := e.users[job.User]
	if !known {
		return nil, 0, 0, fmt.Errorf("user %q does not exist (want one of the cluster's or the workload's)", job.User)
	}
	sub := rpc.Submission{
		Request: job.Request, Dependency: dependency, Script: scriptOf(index), Args: []string{"script"},
		StdOut: "/dev/null", StdErr: "/dev/null", UID: u.UID, GID: u.GID, Now: e.Now(), SelectPlugin: e.selectPlugin,
	}
	if job.Group != "" {
		if gid, ok := e.groups[job.Group]; ok {
			sub.GID = gid
		}
	}
	if sub.Name == "" {
		sub.Name = job.ID
	}
	sub.SubmitLine = submitLine(sub.Request, dependency)
	sub.Name, sub.WCKey = recordable(sub.Name), recordable(sub.WCKey)
	desc, err := sub.JobDesc()
	if err != nil {
		return nil, 0, 0, err
	}
	return desc.Append(nil), sub.UID, sub.GID, nil
}

// submitLine is the command line that would have submitted the job, for accounting:
// with it, a workload can be made of the run's own database.
func submitLine(r hpc.Request, dependency string) string {
	r.User, r.Group, r.Dependency = "", "", dependency
	return sbatch.Join(append(append([]string{"sbatch"}, sbatch.Format(&r)...), "script"))
}

// unnumbered finds a submission that the dependency names and that has no number yet,
// since slurmctld was too busy to take it at first. It is nil if there is none.
func (e *Engine) unnumbered(spec string) *submission {
	deps, err := sbatch.ParseDependency(spec)
	if spec == "" || err != nil {
		return nil // for encodeSubmission to say
	}
	for _, d := range deps.List {
		if on, _ := e.dependedOn(d.Job); on != nil && !on.answered {
			return on
		}
	}
	return nil
}

// dependedOn finds the submission that a dependency names, and the task of it if it
// names one. It is nil where there is none.
func (e *Engine) dependedOn(name string) (on *submission, task string) {
	if on = e.byID[name]; on != nil {
		return on, ""
	}
	array, task, _ := strings.Cut(name, "_")
	return e.byID[array], task
}

// dependency puts Slurm's job numbers into a dependency over the workload's names.
func (e *Engine) dependency(spec string) (string, error) {
	if spec == "" {
		return "", nil
	}
	deps, err := sbatch.ParseDependency(spec)
	if err != nil {
		return "", fmt.Errorf("dependency %s: %w", spec, err)
	}
	terms := make([]string, 0, len(deps.List))
	for _, d := range deps.List {
		if d.Job == "" {
			terms = append(terms, d.Type)
			continue
		}
		on, task := e.dependedOn(d.Job)
		switch {
		case on == nil:
			return "", fmt.Errorf("dependency %s on job %s, which has not been submitted", spec, d.Job)
		case on.refused:
			return "", fmt.Errorf("dependency %s on job %s, which was rejected", spec, d.Job)
		}
		term := fmt.Sprintf("%s:%d", d.Type, on.number)
		if task != "" {
			term += "_" + task
		}
		if d.DelayMinutes != 0 {
			term += fmt.Sprintf("+%d", d.DelayMinutes)
		}
		terms = append(terms, term)
	}
	separator := ","
	if deps.Any {
		separator = "?"
	}
	return strings.Join(terms, separator), nil
}

// submitted takes slurmctld's answer to a submission.
func (e *Engine) submitted(s *submission, index int, reply *rpc.Message) {
	resp, err := rpc.DecodeSubmitResponse(reply)
	if err != nil {
		if errno, ok := asErrno(err); ok && errno.Again() && s.tries < maxTries {
			s.tries++
			e.At(e.Now().Add(time.Duration(s.tries)*time.Second), func() { e.sendSubmission(index) })
			return
		}
		e.refuse(s, err.Error())
		return
	}
	e.answer(s)
	s.number = resp.JobID
	e.byNumber[resp.JobID] = &instance{of: s, task: -1}
	reason := ""
	if resp.Code != 0 {
		reason = resp.Code.Error()
	}
	e.emit(rm.Event{Kind: rm.Accepted, Job: s.job.ID, Task: -1, RMJob: resp.JobID, Reason: reason})
	for _, ev := range s.early {
		e.emit(ev)
	}
	s.early = nil
	for _, c := range e.orphans[resp.JobID] {
		e.completed(c)
	}
	delete(e.orphans, resp.JobID)
	if s.cancelled {
		e.kill(s, rm.Command{Kind: rm.Cancel, Job: s.job.ID})
	}
}

// answer notes that a submission's fate is known and lets go of those that wait for it,
// ahead of all that were submitted later.
func (e *Engine) answer(s *submission) {
	s.answered = true
	if len(s.waiting) > 0 {
		e.inputs = append(s.waiting, e.inputs...)
		s.waiting = nil
	}
}

func (e *Engine) refuse(s *submission, reason string) {
	e.answer(s)
	s.refused = true
	s.ended = len(s.tasks)
	e.emit(rm.Event{Kind: rm.Refused, Job: s.job.ID, Task: -1, Reason: reason})
}

// Script implements [nodes.Environment].
func (e *Engine) Script(l *rpc.BatchLaunch) (nodes.Script, error) {
	s, err := e.submissionOf(l.Script)
	if err != nil {
		return nodes.Script{}, err
	}
	task := -1
	if l.ArrayJobID != 0 {
		task = int(l.ArrayTaskID)
	}
	script := nodes.Script{RunTime: e.runTimeOf(s, task), ExitCode: s.job.ExitCodeOf(task)}
	if at := s.job.EndAt; at != 0 {
		script.RunTime, script.End = max(0, at.Sub(e.Now())), at
	}
	return script, nil
}

// JobStarted implements [nodes.Environment].
func (e *Engine) JobStarted(l *rpc.BatchLaunch) {
	s, err := e.submissionOf(l.Script)
	if err != nil {
		e.fail(err)
		return
	}
	task := -1
	if l.ArrayJobID != 0 {
		task = int(l.ArrayTaskID)
	}
	if s.fates[task] == over {
		// An administrator has put it back into the queue (scontrol requeue).
		s.ended--
		e.emit(rm.Event{Kind: rm.Requeue, Job: s.job.ID, Task: task, RMJob: l.JobID, Reason: "requeued after its end"})
	}
	s.fates[task] = alone
	in := &instance{of: s, task: task, nodes: l.Nodes, nodeCount: int(l.Credential.NodeCount), cpus: rpc.CPUs(l.CPUsPerNode), start: e.Now()}
	e.byNumber[l.JobID] = in
	e.running[l.JobID] = true
	if s.answered && s.job.Priority == nil && e.Now().UnixSeconds() != s.job.Submit.UnixSeconds() {
		e.askForPriority(l.JobID)
	}
	ev := rm.Event{At: e.Now(), Kind: rm.Started, Job: s.job.ID, Task: task, RMJob: l.JobID, Outcome: &rm.Outcome{
		State: hpc.Running, Start: e.Now(), Nodes: l.Nodes, NodeCount: in.nodeCount, Processors: in.cpus,
		Account: l.Account, Partition: partitionOf(l.Partition), QOS: l.QOS, Restarts: int(l.RestartCount),
	}}
	if s.answered {
		e.emit(ev)
	} else {
		s.early = append(s.early, ev)
	}
}

// JobSuspended implements [nodes.Environment].
func (e *Engine) JobSuspended(number uint32, resumed bool) {
	in := e.byNumber[number]
	if in == nil {
		return
	}
	kind := rm.Suspend
	if resumed {
		kind = rm.Resume
	}
	e.emit(rm.Event{Kind: kind, Job: in.of.job.ID, Task: in.task, RMJob: number})
}

// pipeData takes the records of finished jobs as they come.
func (e *Engine) pipeData(data []byte) {
	e.pipeRest = append(e.pipeRest, data...)
	for {
		record, rest := nextCompletion(e.pipeRest)
		if record == nil {
			break
		}
		c, err := parseCompletion(record)
		e.pipeRest = rest
		if err != nil {
			e.fail(err)
			return
		}
		e.completed(c)
	}
	e.pipeRest = append([]byte(nil), e.pipeRest...)
}

// completed takes the end of a job, or of a run of a job that goes back to the queue.
func (e *Engine) completed(c completion) {
	in := e.byNumber[c.job]
	if in == nil {
		array := e.byNumber[c.arrayJob]
		if c.arrayJob == 0 || array == nil {
			// slurmctld has not answered the submission yet.
			key := c.job
			if c.arrayJob != 0 {
				key = c.arrayJob
			}
			e.orphans[key] = append(e.orphans[key], c)
			return
		}
		in = &instance{of: array.of, task: c.task}
		e.byNumber[c.job] = in
	}
	if c.task >= 0 {
		in.task = c.task
	}
	if name := in.of.job.Name; c.outcome.Name == recordable(name) {
		c.outcome.Name = name
	}
	if c.outcome.State == resizing {
		in.resized = true // and goes on
		return
	}
	if in.resized && c.outcome.Start != 0 {
		c.outcome.Start = hpc.Unix(in.start.UnixSeconds()) // the record has the last change's instant
	}
	delete(e.running, c.job)
	c.outcome.Priority = in.priority
	// Whether these states are the end is for slurmctld to say: a job that lost its
	// nodes may go back to the queue. And a record that was too long lacks its end.
	if c.truncated || c.outcome.State == hpc.NodeFail || c.outcome.State == hpc.Preempted {
		e.askAbout(c, in)
		return
	}
	e.over(c.job, in, c.outcome, c.outcome.State == hpc.Pending || e.requeues(&c.outcome))
}

// resizing is the state in the record of a job that goes on with other nodes, because it
// lost one and does not mind (--no-kill), or because it was told to (job_pre_resize_acctg in
// job_mgr.c).
const resizing hpc.State = "RESIZING"

// requeues reports whether a job with that end goes back to the queue when its nodes are done
// with it, for its exit code (job_hold_requeue in job_mgr.c).
func (e *Engine) requeues(o *rm.Outcome) bool {
	return o.State != hpc.Cancelled && slices.Contains(e.requeueExits, o.ExitCode)
}

// over emits the event for the end of a job's run, or of the run that goes back to the
// queue. What is left of an array as one record ends for all its tasks at once.
func (e *Engine) over(number uint32, in *instance, o rm.Outcome, requeued bool) {
	if o.Start != 0 {
		o.Partition = partitionOf(o.Partition)
	}
	s := in.of
	if in.task >= 0 || s.job.Array == "" {
		e.taskOver(number, s, in.task, o, requeued)
		return
	}
	// Some may be split off that have not started. Their own records come at this instant.
	e.At(e.Now()+1, func() {
		for _, task := range s.tasks {
			if s.fates[task] == inArray {
				e.taskOver(number, s, task, o, requeued)
			}
		}
	})
}

// partitionOf is the partition in which a job runs, or ran last. Of one that may run in
// several slurmctld names all, that one first, in case it goes back to the queue
// (rebuild_job_part_list in job_scheduler.c).
func partitionOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}

// taskOver is over for one task, or for a job that is no array.
func (e *Engine) taskOver(number uint32, s *submission, task int, o rm.Outcome, requeued bool) {
	if s.fates[task] == over {
		return
	}
	ev := rm.Event{Kind: rm.Ended, Job: s.job.ID, Task: task, RMJob: number, Outcome: &o}
	if requeued {
		ev.Kind = rm.Requeue
	} else {
		s.fates[task] = over
		s.ended++
	}
	e.emit(ev)
	// By the array's own number its tasks are known that have no record yet; the last of
	// them keeps it (job_array_split in job_mgr.c).
	if !requeued && number != s.number {
		delete(e.byNumber, number)
	}
	switch {
	case s.ended >= len(s.tasks):
		delete(e.byNumber, s.number)
	case !requeued && number == s.number:
		e.askForTasks(s)
	}
}
