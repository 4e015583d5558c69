package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/audit"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/jobcomp"
	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
)

// jobs follows the workload's jobs from their submissions to their ends.
type jobs struct {
	*loop
	users *users
	// selectPlugin is the number of slurm.conf's SelectType. Each submission carries it.
	selectPlugin uint32
	requeueExits []int         // exit codes after which slurmctld requeues a job
	cluster      *conf.Cluster // with the slurm.conf in force

	submissions []*submission
	byID        map[string]*submission
	cut         map[string]map[int]*hpc.Job // the arrays of a window ([rm.Window])
	byNumber    map[uint32]*instance
	running     map[uint32]bool
	orphans     map[uint32][]jobcomp.Record // records before the answer to their submission, by Slurm's job number
	priorities  []uint32                    // jobs to ask slurmctld about ([jobs.askForPriority])
	records     *jobcomp.Stream
	// nodes simulates the compute nodes, on which the jobs run.
	nodes    *nodes.Cluster
	runTimes map[taskOf]time.Duration // run times that commands have changed
	reasons  *reasons
	// endings reads slurmctld's log when slurmctld reports that a job was preempted, or that a job with dependencies
	// was cancelled.
	endings audit.Endings
	// transfers decides when jobs that share file systems end.
	transfers *transfers
}

func newJobs(l *loop, u *users, release slurmspec.Release) *jobs {
	j := &jobs{
		loop: l, users: u, byID: map[string]*submission{}, byNumber: map[uint32]*instance{}, running: map[uint32]bool{},
		orphans: map[uint32][]jobcomp.Record{}, records: jobcomp.NewStream(release),
	}
	j.reasons = &reasons{jobs: j, told: map[uint32]told{}}
	return j
}

// submission is a job of the workload that the engine submits to Slurm.
type submission struct {
	job *hpc.Job
	// number is Slurm's number of the job, or of the whole array. It is 0 until slurmctld has
	// answered.
	number   uint32
	answered bool
	refused  bool
	// early are the events that arrived before the answer to the submission.
	early []rm.Event
	// waiting sends the inputs that need this submission's number: commands to the job, and
	// submissions that depend on the job.
	waiting []func()
	// cancelled is set if the user cancelled the job before slurmctld answered.
	cancelled bool
	// tries counts how often slurmctld was too busy to accept the job.
	tries int
	// forgotten are the jobs on which this job depends in the workload but not in Slurm, because
	// slurmctld has forgotten them.
	forgotten map[string]bool
	// parts are the preset tasks, by their numbers, that slurmctld has in the same array as this
	// submission's tasks. In the submission of a preset task, whole is the array and task is the
	// task's number.
	parts map[int]*submission
	whole *submission
	task  int
	// tasks are the task numbers of an array; the single number -1 for a job that is not an array.
	tasks []int
	fates map[int]fate
	// ended is the number of tasks that are over.
	ended int
}

// maxTries is how often sbatch retries a submission for which slurmctld was too busy (MAX_RETRIES in sbatch.c). sbatch
// pauses for 1 s, 2 s and so on, two minutes in all.
const maxTries = 15

// fate is the state of a task.
type fate uint8

const (
	inArray fate = iota // pending and, as far as the engine knows, in one record with other tasks
	alone               // slurmctld has made the task a job of its own
	over                // ended
)

// instance is one job in Slurm: a job of the workload, or a task of an array.
type instance struct {
	of    *submission
	task  int
	nodes string // the job's nodes at the launch
	// nodeCount and cpus are the job's size at the launch.
	nodeCount, cpus int
	// start is the instant of the launch. resized is set if the job's size has changed since then.
	start   hpc.Time
	resized bool
	// priority is the job's priority when it started; 0 if the engine did not ask for it.
	priority uint32
	// eligible is when the pending job becomes eligible, according to slurmctld's last answer; 0
	// without an answer.
	eligible hpc.Time
}

// eligibleBefore returns when a starting job became eligible; 0 if that is not known yet. The
// record of the job's end has the final value, but an interrupted run lacks that record. number is
// Slurm's number of the job.
func (j *jobs) eligibleBefore(number uint32, job *hpc.Job, restarts uint16) hpc.Time {
	if in := j.byNumber[number]; in != nil && in.eligible != 0 && in.eligible <= j.Now() {
		return in.eligible
	}
	if restarts > 0 || job.Begin != 0 || job.Hold || job.Dependency != "" || strings.Contains(job.Array, "%") {
		return 0
	}
	return hpc.Unix(job.Submit.UnixSeconds()) // the job asked for no delay
}

// scriptMark begins a line of the batch script that contains the job's ID in the workload.
// slurmctld sends scripts to nodes unchanged. So a node can identify a script's job even before
// slurmctld has answered the submission.
const scriptMark = "# rmreplay job "

func scriptOf(index int) string {
	return "#!/bin/sh\n" + scriptMark + strconv.Itoa(index) + "\n"
}

// submissionOf finds the submission of a script.
func (j *jobs) submissionOf(script string) (*submission, error) {
	if _, mark, ok := strings.Cut(script, scriptMark); ok {
		line, _, _ := strings.Cut(mark, "\n")
		if i, err := strconv.Atoi(line); err == nil && i >= 0 && i < len(j.submissions) {
			return j.submissions[i], nil
		}
	}
	return nil, fmt.Errorf("slurmctld launched a script that does not belong to the workload: %.100q", script)
}

// submit submits a job of the workload. A submission is an input ([loop.nextInput]). So Slurm
// numbers the jobs in the workload's order, and a job may depend on any earlier job. slurmctld
// sleeps for a microsecond of virtual time at each submission (_throttle_start in proc_req.c), as
// it does when clients submit many jobs at once.
func (j *jobs) submit(job *hpc.Job) error {
	s := newSubmission(job)
	if job.Array != "" {
		array, err := hpc.ParseArray(job.Array)
		if err != nil {
			return fmt.Errorf("submitting job %s: --array %s: %w", job.ID, job.Array, err)
		}
		s.tasks, s.parts = array.Tasks, j.presetTasks(job)
	}
	if err := j.add(s); err != nil {
		return err
	}
	index := len(j.submissions) - 1
	j.input(func() { j.sendSubmission(index) })
	return nil
}

// newSubmission returns the submission of a job that is not an array.
func newSubmission(job *hpc.Job) *submission {
	return &submission{job: job, tasks: []int{-1}, fates: map[int]fate{}}
}

// add appends a submission to j.submissions. The index of a submission in this list is also in its batch script.
func (j *jobs) add(s *submission) error {
	if _, twice := j.byID[s.job.ID]; twice {
		return fmt.Errorf("submitting job %s: a job with this ID has been submitted before", s.job.ID)
	}
	j.byID[s.job.ID] = s
	j.submissions = append(j.submissions, s)
	return nil
}

func (j *jobs) sendSubmission(index int) {
	s := j.submissions[index]
	if on := j.unnumbered(s.job.Dependency); on != nil {
		on.waiting = append(on.waiting, func() { j.sendSubmission(index) })
		return
	}
	body, uid, gid, err := j.encodeSubmission(s, index)
	if err != nil {
		j.refuse(s, err.Error())
		return
	}
	if s.job.AsOperator {
		uid, gid = 0, 0
	}
	m := &rpc.Message{Type: rpc.RequestSubmitBatchJob, UID: uid, GID: gid, Host: "localhost", Body: body}
	j.sendInput(m, func(reply *rpc.Message, err error) {
		if err != nil {
			j.failUnlessEnded(fmt.Errorf("submitting job %s: %w", s.job.ID, err))
			return
		}
		j.submitted(s, index, reply)
	})
}

func (j *jobs) encodeSubmission(s *submission, index int) (body []byte, uid, gid uint32, err error) {
	job := s.job
	dependency, err := j.dependency(job.Dependency, s.forgotten)
	if err != nil {
		return nil, 0, 0, err
	}
	u, known := j.users.byName[job.User]
	if !known {
		return nil, 0, 0, fmt.Errorf("user %q does not exist (want a user of the cluster or of the workload)", job.User)
	}
	now := j.Now()
	now -= now % hpc.Time(time.Millisecond) // without the nanoseconds that the clock adds within an instant
	sub := jobdesc.Submission{
		Request: job.Request, Dependency: dependency, Script: scriptOf(index), Args: []string{"script"},
		StdOut: "/dev/null", StdErr: "/dev/null", UID: u.UID, GID: u.GID, Now: now,
		Release: j.codec.Release(), SelectPlugin: j.selectPlugin,
	}
	if job.Group != "" {
		if gid, ok := j.users.groups[job.Group]; ok {
			sub.GID = gid
		}
	}
	if sub.Name == "" {
		sub.Name = job.ID
	}
	sub.Array = s.wholeArray()
	sub.SubmitLine = submitLine(sub.Request, dependency)
	admitted := admission.Admitted(j.cluster, job)
	sub.TimeLimit, sub.TimeMin = admitted.TimeLimit, admitted.TimeMin
	sub.Name, sub.WCKey = jobcomp.Name(sub.Name), jobcomp.Name(sub.WCKey)
	desc, err := sub.JobDesc()
	if err != nil {
		return nil, 0, 0, err
	}
	return j.codec.Body(desc), sub.UID, sub.GID, nil
}

// submitLine returns a command line for the job's submission. Accounting stores it, so a run's
// database can be turned back into a workload.
func submitLine(r hpc.Request, dependency string) string {
	r.User, r.Group, r.Dependency = "", "", dependency
	return sbatch.Join(append(append([]string{"sbatch"}, sbatch.Format(&r)...), "script"))
}

// unnumbered returns a submission in the dependency that has no number yet, because slurmctld was
// too busy to accept it. It returns nil if all submissions have numbers.
func (j *jobs) unnumbered(spec string) *submission {
	deps, err := sbatch.ParseDependency(spec)
	if spec == "" || err != nil {
		return nil // encodeSubmission reports the error
	}
	for _, d := range deps.List {
		if on, _ := j.dependedOn(d.Job); on != nil && !on.answered {
			return on
		}
	}
	return nil
}

// dependedOn finds the submission that a dependency names, and the task if the dependency names
// one. It returns nil if the submission does not exist.
func (j *jobs) dependedOn(name string) (on *submission, task string) {
	if on = j.byID[name]; on != nil {
		return on, ""
	}
	array, task, _ := strings.Cut(name, "_")
	return j.byID[array], task
}

// dependency replaces the workload's job names in a dependency by Slurm's numbers. It drops
// conditions on forgotten jobs.
func (j *jobs) dependency(spec string, forgotten map[string]bool) (string, error) {
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
		if forgotten[d.Job] {
			continue
		}
		on, task := j.dependedOn(d.Job)
		switch {
		case on == nil:
			return "", fmt.Errorf("dependency %s on job %s, which has not been submitted", spec, d.Job)
		case on.refused:
			return "", fmt.Errorf("dependency %s on job %s, which was rejected", spec, d.Job)
		}
		term := d.Type + ":" + target(on, nil)
		if len(on.parts) > 0 {
			term = fmt.Sprintf("%s:%d", d.Type, on.number) // another condition names each preset task
		}
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

// submitted handles slurmctld's answer to a submission.
func (j *jobs) submitted(s *submission, index int, reply *rpc.Message) {
	resp, err := rpc.DecodeSubmitResponse(reply)
	if err != nil {
		errno, ok := asErrno(err)
		if ok && errno.Retryable() && s.tries < maxTries {
			s.tries++
			j.At(j.Now().Add(time.Duration(s.tries)*time.Second), func() { j.sendSubmission(index) })
			return
		}
		if errno == slurmspec.ErrWritingToFile && j.isFull() { // no later job could be submitted either
			j.Fail(fmt.Errorf("submitting job %s: %w", s.job.ID, err))
		}
		if errno == slurmspec.ErrDependency {
			j.withoutForgotten(s, index, err)
			return
		}
		j.refuse(s, err.Error())
		return
	}
	s.number = resp.JobID
	j.byNumber[resp.JobID] = &instance{of: s, task: -1}
	if admission.Admitted(j.cluster, s.job) != s.job {
		s.waiting = append(s.waiting, func() { j.raiseLimit(s) })
	}
	reason := ""
	if resp.Code != 0 {
		reason = resp.Code.Error()
	}
	j.accepted(s, reason)
}

// raiseLimit gives a preset job that slurmctld has admitted with another time limit ([admission.Admitted])
// the job's own limit, as an operator does with scontrol.
func (j *jobs) raiseLimit(s *submission) {
	update := rpc.NewJobUpdate(target(s, nil))
	if err := update.SetTimeLimit(s.job.TimeLimit); err != nil {
		j.Fail(fmt.Errorf("raising the time limit of job %s: %w", s.job.ID, err))
		return
	}
	m := &rpc.Message{Type: rpc.RequestUpdateJob, Host: "localhost", Body: j.codec.Body(update)}
	j.sendInput(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if errno, ok := asErrno(err); ok && errno == slurmspec.ErrAlreadyDone {
			return // the job has ended at once
		}
		if err != nil {
			j.failUnlessEnded(fmt.Errorf("raising the time limit of job %s: %w", s.job.ID, err))
		}
	})
}

// accepted handles slurmctld's acceptance of a submission. It emits the events and handles the
// records and the cancellation that arrived before this answer.
func (j *jobs) accepted(s *submission, reason string) {
	j.answer(s)
	j.emit(rm.Event{Kind: rm.Accepted, Job: s.job.ID, Task: -1, RMJob: s.number, Reason: reason})
	if s.number != 0 {
		j.reasons.waits(s.number)
	}
	for _, ev := range s.early {
		j.emit(ev)
	}
	s.early = nil
	for _, c := range j.orphans[s.number] {
		j.completed(c)
	}
	delete(j.orphans, s.number)
	if s.cancelled {
		j.kill(s, rm.Command{Kind: rm.Cancel, Job: s.job.ID})
	}
}

// answer records that slurmctld has answered a submission. The inputs that waited for the answer
// go before all other inputs.
func (j *jobs) answer(s *submission) {
	s.answered = true
	if len(s.waiting) > 0 {
		j.inputs = append(s.waiting, j.inputs...)
		s.waiting = nil
	}
}

func (j *jobs) refuse(s *submission, reason string) {
	j.answer(s)
	s.refused = true
	s.ended = len(s.tasks)
	j.emit(rm.Event{Kind: rm.Refused, Job: s.job.ID, Task: -1, Reason: reason})
}

// taskLaunched returns the number of the task whose script slurmctld launches; -1 if the job is not
// in an array.
func taskLaunched(l *rpc.BatchLaunch) int {
	if l.ArrayJobID == 0 {
		return -1
	}
	return int(l.ArrayTaskID)
}

// script returns the run time and the end of a job's script.
func (j *jobs) script(l *rpc.BatchLaunch) (nodes.Script, error) {
	s, err := j.submissionOf(l.Script)
	if err != nil {
		return nodes.Script{}, err
	}
	s, task := s.taskOf(taskLaunched(l))
	script := nodes.Script{RunTime: j.transfers.runTime(s, task), ExitCode: s.job.ScriptExit(task)}
	if at := s.job.EndAt; at != 0 {
		script.RunTime, script.End = max(0, at.Sub(j.Now())), at
	}
	return script, nil
}

// started handles the launch of a job's script.
func (j *jobs) started(l *rpc.BatchLaunch) {
	s, err := j.submissionOf(l.Script)
	if err != nil {
		j.Fail(err)
		return
	}
	s, task := s.taskOf(taskLaunched(l))
	if s.whole != nil {
		s.number = l.JobID
	}
	if s.fates[task] == over {
		// An administrator has requeued the ended job (scontrol requeue).
		s.ended--
		j.emit(rm.Event{Kind: rm.Requeue, Job: s.job.ID, Task: task, RMJob: l.JobID, Reason: "requeued after its end"})
	}
	s.fates[task] = alone
	eligible := j.eligibleBefore(l.JobID, s.job, l.RestartCount)
	in := &instance{of: s, task: task, nodes: l.Nodes, nodeCount: int(l.Credential.NodeCount),
		cpus: rpc.CPUs(l.CPUsPerNode), start: j.Now()}
	j.byNumber[l.JobID] = in
	j.running[l.JobID] = true
	j.transfers.begin(l.JobID, in)
	if s.answered && s.job.Priority == nil && j.Now().UnixSeconds() != s.job.Submit.UnixSeconds() {
		j.askForPriority(l.JobID)
	}
	ev := rm.Event{At: j.Now(), Kind: rm.Started, Job: s.job.ID, Task: task, RMJob: l.JobID, Outcome: &rm.Outcome{
		State: hpc.Running, Eligible: eligible, Start: j.Now(), Nodes: l.Nodes, NodeCount: in.nodeCount, Processors: in.cpus,
		Account: l.Account, Partition: partitionOf(l.Partition), QOS: l.QOS, Restarts: int(l.RestartCount),
	}}
	if s.answered {
		j.emit(ev)
	} else {
		s.early = append(s.early, ev)
	}
}

// suspended reports that a job was suspended or resumed.
func (j *jobs) suspended(number uint32, resumed bool) {
	in := j.byNumber[number]
	if in == nil {
		return
	}
	kind := rm.Suspend
	if resumed {
		kind = rm.Resume
	}
	j.transfers.suspend(number, resumed)
	j.emit(rm.Event{Kind: kind, Job: in.of.job.ID, Task: in.task, RMJob: number})
}

// pipeData reads records of finished jobs from the bytes that arrive in the pipe.
func (j *jobs) pipeData(data []byte) {
	j.Fail(j.records.Take(data, j.completed))
}

// completed handles the record of a job's end, or of a run after which slurmctld requeues the job.
func (j *jobs) completed(c jobcomp.Record) {
	in := j.byNumber[c.Job]
	if in == nil {
		array := j.byNumber[c.ArrayJob]
		if c.ArrayJob == 0 || array == nil {
			// slurmctld has not answered the submission yet.
			key := c.Job
			if c.ArrayJob != 0 {
				key = c.ArrayJob
			}
			j.orphans[key] = append(j.orphans[key], c)
			return
		}
		in = &instance{of: array.of, task: c.Task}
		j.byNumber[c.Job] = in
	}
	if c.Task >= 0 {
		in.of, in.task = in.of.taskOf(c.Task)
	}
	if name := in.of.job.Name; c.Outcome.Name == jobcomp.Name(name) {
		c.Outcome.Name = name
	}
	if c.Outcome.State == slurmspec.Resizing {
		in.resized = true // the job continues
		return
	}
	if in.resized && c.Outcome.Start != 0 {
		c.Outcome.Start = hpc.Unix(in.start.UnixSeconds()) // the record's start is the instant of the last resize
	}
	delete(j.running, c.Job)
	j.transfers.end(c.Job)
	c.Outcome.Priority = in.priority
	// A record of a job that lost its nodes or was preempted does not show whether slurmctld requeues
	// the job. A truncated record lacks fields.
	if c.Truncated || c.Outcome.State == hpc.NodeFail || c.Outcome.State == hpc.Preempted {
		j.askAbout(c, in)
		return
	}
	j.over(c.Job, in, c.Outcome, c.Outcome.State == hpc.Pending || j.requeues(&c.Outcome))
}

// requeues reports whether slurmctld requeues a job because of its exit code
// (job_hold_requeue in job_mgr.c).
func (j *jobs) requeues(o *rm.Outcome) bool {
	return o.State != hpc.Cancelled && slices.Contains(j.requeueExits, o.ExitCode)
}

// over emits the event that a job's run has ended. If requeued is set, slurmctld puts the job back
// into the queue. For the record of an array, the event ends each task that has no record of its
// own.
func (j *jobs) over(number uint32, in *instance, o rm.Outcome, requeued bool) {
	if o.Start != 0 {
		o.Partition = partitionOf(o.Partition)
	}
	s := in.of
	if in.task >= 0 || s.job.Array == "" {
		j.taskOver(number, s, in.task, o, requeued)
		return
	}
	// Some of these tasks may have become separate jobs before they started. The records of such jobs arrive at this
	// instant, so the engine ends the other tasks just after it.
	j.At(j.Now()+1, func() {
		for _, task := range s.tasks {
			if s.fates[task] == inArray {
				j.taskOver(number, s, task, o, requeued)
			}
		}
	})
}

// partitionOf returns the partition in which a job runs, or ran last. If a job may run in several
// partitions, slurmctld lists them all, in case it requeues the job. The partition of the run comes
// first (rebuild_job_part_list in job_scheduler.c).
func partitionOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}

// taskOver does the work of [jobs.over] for one task, or for a job that is not an array.
func (j *jobs) taskOver(number uint32, s *submission, task int, o rm.Outcome, requeued bool) {
	if s.fates[task] == over {
		return
	}
	ev := rm.Event{Kind: rm.Ended, Job: s.job.ID, Task: task, RMJob: number, Outcome: &o}
	if requeued {
		ev.Kind = rm.Requeue
	} else {
		s.fates[task] = over
		s.ended++
		ev.Reason = j.whyCancelled(number, s, o.State)
	}
	j.emit(ev)
	// All tasks without their own record share the array's number. The last such task keeps this number (job_array_split
	// in job_mgr.c).
	if requeued {
		j.reasons.waits(number)
	}
	if !requeued && number != s.number {
		delete(j.byNumber, number)
	}
	switch {
	case s.ended >= len(s.tasks):
		delete(j.byNumber, s.number)
	case !requeued && number == s.number:
		j.askForTasks(s)
	}
}
