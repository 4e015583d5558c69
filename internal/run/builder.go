package run

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// builder makes the rows of jobs.parquet from submissions and events. The
// writer feeds it while the run goes on and the reader of a journal afterwards,
// so both arrive at the same rows.
type builder struct {
	jobs  map[string]*submission
	order []*submission // as submitted, or as first heard of

	submitted, accepted, rejected int
	lastEvent                     hpc.Time
}

// submission is one job, or one array with all its tasks.
type submission struct {
	base     Row // what every row of it starts as
	tasks    []int
	runTimes map[int]time.Duration // of tasks that differ from the base
	rows     []*taskRow
	index    map[int]*taskRow // by task; nil while there is one row at most

	answered bool
}

// taskRow is a row in the making.
type taskRow struct {
	Row
	stopped hpc.Time // since when it is suspended
	started bool     // its Started event came
}

func newBuilder() *builder {
	return &builder{jobs: make(map[string]*submission)}
}

// job notes a submission; request is its encoding.
func (b *builder) job(job *hpc.Job, request string) {
	b.submitted++
	s := b.submission(job.ID)
	s.base = baseRow(job, request)
	s.tasks, s.runTimes = nil, job.TaskRunTimes
	if job.Array != "" {
		// The tasks of an array that cannot be read get their rows as their events come.
		if a, err := hpc.ParseArray(job.Array); err == nil {
			s.tasks = a.Tasks
		}
	}
}

// submission returns the submission of an ID, and makes one for an ID that is new.
func (b *builder) submission(id string) *submission {
	s := b.jobs[id]
	if s == nil {
		s = &submission{base: Row{Job: id, Task: -1}}
		b.jobs[id] = s
		b.order = append(b.order, s)
	}
	return s
}

// baseRow is what is known of a job before the resource manager answers.
func baseRow(job *hpc.Job, request string) Row {
	row := Row{
		Job: job.ID, Task: -1, Name: job.Name, User: job.User, Group: job.Group,
		Account: job.Account, Partition: job.Partition, QOS: job.QOS, Reservation: job.Reservation,
		TimeLimit: job.TimeLimit, AskedRunTime: job.RunTime, RecordedSubmit: job.Submit,
		AskedMinNodes: job.MinNodes, AskedMaxNodes: job.MaxNodes,
		AskedTasks: job.Tasks, AskedCPUsPerTask: job.CPUsPerTask,
		Request: request,
	}
	if job.Priority != nil {
		row.AskedPriority = *job.Priority
	}
	return row
}

// event applies one event to the rows that it is about.
func (b *builder) event(e rm.Event) {
	b.lastEvent = max(b.lastEvent, e.At)
	if e.Job == "" {
		return
	}
	s := b.submission(e.Job)
	switch e.Kind {
	case rm.Accepted:
		b.accepted++
		s.accept(e)
		return
	case rm.Refused:
		b.rejected++
		s.answered = true
		for _, row := range s.concerned(e.Task) {
			row.reject(e)
		}
		return
	case rm.Started, rm.Suspend, rm.Resume, rm.Requeue, rm.Ended:
	default:
		return
	}
	s.answered = true
	for _, row := range s.concerned(e.Task) {
		row.apply(e)
	}
}

// accept makes the rows of a submission: all tasks of an array at once, since
// the resource manager has them all from now on.
func (s *submission) accept(e rm.Event) {
	s.answered = true
	tasks := s.tasks
	if len(tasks) == 0 {
		tasks = []int{e.Task}
	}
	for _, task := range tasks {
		row := s.row(task)
		row.RMJob = e.RMJob
		if row.State == "" {
			row.State = hpc.Pending
		}
		if row.Submit == 0 {
			row.Submit = e.At
		}
		row.merge(e.Outcome)
	}
}

// row returns the row of a task, and makes one for a task that is new.
func (s *submission) row(task int) *taskRow {
	if row := s.index[task]; row != nil {
		return row
	}
	if s.index == nil && len(s.rows) == 1 {
		only := s.rows[0]
		if only.Task == task {
			return only
		}
		if only.Task == -1 && !only.started {
			// The array was accepted, and its tasks were not known until now.
			only.Task = task
			only.AskedRunTime = s.askedRunTime(task)
			s.index = map[int]*taskRow{task: only}
			return only
		}
		s.index = map[int]*taskRow{only.Task: only}
	}
	row := &taskRow{Row: s.base}
	row.Task = task
	row.AskedRunTime = s.askedRunTime(task)
	if len(s.rows) > 0 {
		// A later task of an array whose tasks were not known at acceptance.
		first := s.rows[0]
		row.Submit, row.RMJob, row.State = first.Submit, first.RMJob, hpc.Pending
	}
	s.rows = append(s.rows, row)
	if s.index != nil {
		s.index[task] = row
	}
	return row
}

// askedRunTime is how long the workload wants a task to run.
func (s *submission) askedRunTime(task int) time.Duration {
	if d, ok := s.runTimes[task]; ok {
		return d
	}
	return s.base.AskedRunTime
}

// concerned returns the rows that an event of a task is about. An event of a
// whole array (task -1) is about all of its tasks that have not ended.
func (s *submission) concerned(task int) []*taskRow {
	if task != -1 || len(s.rows) == 0 || s.rows[0].Task == -1 {
		return []*taskRow{s.row(task)}
	}
	var rows []*taskRow
	for _, row := range s.rows {
		if !row.State.Ended() {
			rows = append(rows, row)
		}
	}
	return rows
}

// reject notes the resource manager's refusal.
func (r *taskRow) reject(e rm.Event) {
	r.State, r.Reason, r.RMJob = hpc.Rejected, e.Reason, e.RMJob
	if r.Submit == 0 {
		r.Submit = e.At
	}
}

// apply moves the row along with an event of its job.
func (r *taskRow) apply(e rm.Event) {
	if e.RMJob != 0 {
		r.RMJob = e.RMJob
	}
	if e.Reason != "" {
		r.Reason = e.Reason
	}
	switch e.Kind {
	case rm.Started:
		r.merge(e.Outcome)
		r.start(e)
	case rm.Suspend:
		r.closeSegment(e.At, rm.Suspend)
		r.State, r.stopped = hpc.Suspended, e.At
	case rm.Resume:
		r.resume(e.At)
	case rm.Requeue:
		r.requeue(e)
	case rm.Ended:
		r.end(e)
	}
}

// start gives the job its nodes. The outcome's instants are preferred to the
// event's own: they are what the resource manager accounts with.
func (r *taskRow) start(e rm.Event) {
	r.started = true
	r.State, r.Start, r.End, r.Suspended, r.stopped = hpc.Running, e.At, 0, 0, 0
	if e.Outcome != nil && e.Outcome.Start != 0 {
		r.Start = e.Outcome.Start
	}
	r.openSegment(r.Start)
}

// resume continues a suspended job.
func (r *taskRow) resume(at hpc.Time) {
	r.State = hpc.Running
	r.endSuspension(at)
	r.openSegment(at)
}

// endSuspension adds the time since the job was stopped, if it is.
func (r *taskRow) endSuspension(at hpc.Time) {
	if r.stopped != 0 && at > r.stopped {
		r.Suspended += at.Sub(r.stopped)
	}
	r.stopped = 0
}

// requeue takes the job's nodes away and makes it pending again.
func (r *taskRow) requeue(e rm.Event) {
	lost := e.At
	if o := e.Outcome; o != nil && o.End >= r.Start && o.End != 0 {
		lost = o.End
	}
	r.closeSegment(lost, rm.Requeue)
	r.Restarts++
	r.merge(e.Outcome)
	r.State = hpc.Pending
	r.Start, r.End, r.Suspended, r.stopped, r.started = 0, 0, 0, 0, false
	r.Nodes, r.NodeCount, r.Processors, r.TRES = "", 0, 0, ""
	r.ExitCode, r.Signal = 0, 0
}

// end notes the job's fate.
func (r *taskRow) end(e rm.Event) {
	r.State, r.End = StateUnknown, e.At
	o := e.Outcome
	r.merge(o)
	if o != nil {
		r.endOutcome(o)
	}
	r.endSuspension(r.End)
	r.closeSegment(r.End, rm.Ended)
}

// endOutcome takes over what an outcome says about a job's end.
func (r *taskRow) endOutcome(o *rm.Outcome) {
	if o.State != "" {
		r.State = o.State
	}
	if o.End != 0 {
		r.End = o.End
	}
	r.ExitCode, r.Signal = o.ExitCode, o.Signal
	// Slurm gives a job that is cancelled while it waits a start time as well;
	// it had no nodes, so it did not start.
	if o.Start == 0 || (!r.started && o.NodeCount == 0 && o.Nodes == "") {
		return
	}
	r.Start = o.Start
	if n := len(r.Segments); n == 0 || r.Segments[n-1].EndedBy == rm.Requeue {
		r.openSegment(o.Start)
	}
}

func (r *taskRow) openSegment(at hpc.Time) {
	r.Segments = append(r.Segments, Segment{Start: at, NodeCount: r.NodeCount, Processors: r.Processors})
}

// closeSegment ends the open segment, if there is one.
func (r *taskRow) closeSegment(at hpc.Time, by rm.EventKind) {
	if n := len(r.Segments); n > 0 && r.Segments[n-1].EndedBy == "" {
		last := &r.Segments[n-1]
		last.End, last.EndedBy = max(at, last.Start), by
	}
}

// merge takes over what an outcome knows of the job itself; what it leaves
// empty stays as it was asked for.
func (r *taskRow) merge(o *rm.Outcome) {
	if o == nil {
		return
	}
	for _, f := range []struct{ to, from *string }{
		{&r.Name, &o.Name}, {&r.User, &o.User}, {&r.Group, &o.Group},
		{&r.Account, &o.Account}, {&r.Partition, &o.Partition}, {&r.QOS, &o.QOS},
		{&r.Reservation, &o.Reservation}, {&r.Nodes, &o.Nodes}, {&r.TRES, &o.TRES},
	} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	r.mergeSubmit(o.Submit)
	if o.Eligible != 0 {
		r.Eligible = o.Eligible
	}
	if o.NodeCount != 0 {
		r.NodeCount = o.NodeCount
	}
	if o.Processors != 0 {
		r.Processors = o.Processors
	}
	r.Restarts = max(r.Restarts, o.Restarts)
	switch {
	case o.TimeLimit < 0:
		r.TimeLimit = hpc.Unlimited
	case o.TimeLimit > 0:
		r.TimeLimit = time.Duration(o.TimeLimit) * time.Second
	}
}

// mergeSubmit keeps the first submit time as such and a requeued job's later
// one beside it.
func (r *taskRow) mergeSubmit(at hpc.Time) {
	switch {
	case at == 0:
	case r.Restarts > 0:
		if at > r.Submit {
			r.Resubmit = at
		}
	default:
		r.Submit = at
	}
}

// finished returns the row for the table: a single segment that nothing
// interrupted says no more than Start and End do.
func (r *taskRow) finished() Row {
	row := r.Row
	if len(row.Segments) == 1 && row.Start != 0 && row.Segments[0].EndedBy != rm.Suspend {
		row.Segments = nil
	}
	return row
}

// rows returns all rows in the order of submission, tasks in the order in which
// they were accepted or first heard of.
func (b *builder) rows() []Row {
	n := 0
	for _, s := range b.order {
		if s.answered {
			n += len(s.rows)
		}
	}
	if n == 0 {
		return nil
	}
	rows := make([]Row, 0, n)
	for _, s := range b.order {
		if !s.answered {
			continue
		}
		for _, row := range s.rows {
			rows = append(rows, row.finished())
		}
	}
	return rows
}

// counts says how far the jobs of a workload of so many submissions came.
func (b *builder) counts(workload int, rows []Row) Counts {
	c := Counts{
		Submitted: b.submitted, NotSubmitted: max(0, workload-b.submitted),
		Accepted: b.accepted, Rejected: b.rejected, Rows: len(rows),
	}
	for _, s := range b.order {
		if !s.answered {
			c.Unanswered++
		}
	}
	for i := range rows {
		if rows[i].State.Ended() && rows[i].State != hpc.Rejected {
			c.Ended++
		}
	}
	return c
}
