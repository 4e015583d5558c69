package run

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/packed"
	"rmreplay/internal/rm"
)

// builder makes the rows of jobs.parquet from submissions and events. The
// writer feeds it while the run goes on and the reader of a journal afterwards,
// so both arrive at the same rows.
//
// It keeps a job for as long as the run goes on, and there may be millions: so it holds
// what happened to a job and a pointer to what was asked for, and makes the row when it
// is wanted. Of a row that is on the disk it keeps the outcome for the metrics, packed.
type builder struct {
	final finalRows              // of the oldest submissions, where the writer has finalized them
	open  []*submission          // the others, in the order of submission
	heard []*submission          // known from events alone, in the order of their first events
	byID  map[string]*submission // all submissions; nil until an event comes without a number
	spare []submission           // allocated and not in use

	accepted, rejected int
	lastEvent          hpc.Time
}

// submission is one job, or one array with all its tasks.
type submission struct {
	first    taskRow // of the job, or of the first task
	made     bool    // first is a row
	answered bool
	heard    bool // only events have named the job
	final    bool // the row cannot change any more
	array    *arrayRows
}

// arrayRows are the rows of a job array but the first.
type arrayRows struct {
	tasks []int // those that it was submitted with; nil if they cannot be read
	more  []*taskRow
	index map[int]*taskRow // all by task, the first as well; nil while that is the only one
}

// taskRow is a row in the making.
type taskRow struct {
	job                          *hpc.Job
	submit, eligible, start, end hpc.Time
	limit                        time.Duration // in force
	state                        hpc.State
	nodes                        string
	processors                   int
	nodeCount, task              int32
	priority                     uint32
	rmJob                        uint32
	started                      bool     // its Started event came
	held                         bool     // since start, as the only segment; those of rare count otherwise
	rare                         *rareRow // nil for most jobs
}

// rareRow is what is worth a word for few jobs.
type rareRow struct {
	// What the resource manager says otherwise than the job does; empty if it does not.
	name, user, group, account, partition, qos, reservation string

	tres, reason               string
	resubmit                   hpc.Time
	suspended                  time.Duration
	stopped                    hpc.Time // since when it is suspended
	exitCode, signal, restarts int
	segments                   []Segment
}

func newBuilder() *builder { return &builder{} }

// submissionChunk is how many submissions are allocated at once: one at a time would take 8 %
// more time for the KTH log.
const submissionChunk = 256

func (b *builder) newSubmission() *submission {
	if len(b.spare) == 0 {
		b.spare = make([]submission, submissionChunk)
	}
	s := &b.spare[0]
	b.spare = b.spare[1:]
	return s
}

// job notes a submission. The job must not change from now on.
func (b *builder) job(job *hpc.Job) {
	s := b.byID[job.ID]
	switch {
	case s == nil:
		s = b.newSubmission()
		if b.byID != nil {
			b.byID[job.ID] = s
		}
		b.open = append(b.open, s)
	case s.heard:
		b.heard = without(b.heard, s)
		b.open = append(b.open, s)
		s.heard = false
	}
	s.first.job = job
	if job.Array == "" {
		return
	}
	s.array = &arrayRows{}
	// The tasks of an array that cannot be read get their rows as their events come.
	if a, err := hpc.ParseArray(job.Array); err == nil {
		s.array.tasks = a.Tasks
	}
}

// without is a list without one of its elements.
func without(list []*submission, s *submission) []*submission {
	for i := range list {
		if list[i] == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// submission returns the submission that an event is about.
func (b *builder) submission(e *rm.Event) *submission {
	if n := e.Submission - b.final.len(); n > 0 && n <= len(b.open) && len(b.heard) == 0 {
		return b.open[n-1]
	}
	if b.byID == nil {
		b.byID = make(map[string]*submission, len(b.open))
		var row Row
		for i := range b.final.len() {
			b.final.get(i, &row)
			b.byID[row.Job] = &submission{final: true, first: taskRow{job: &hpc.Job{ID: row.Job}}}
		}
		for _, s := range b.open {
			b.byID[s.first.job.ID] = s
		}
	}
	s := b.byID[e.Job]
	if s == nil {
		s = &submission{heard: true, first: taskRow{job: &hpc.Job{ID: e.Job}}}
		b.byID[e.Job] = s
		b.heard = append(b.heard, s)
	}
	return s
}

// event applies one event to the rows that it is about, and returns their submission;
// nil for an event of no job.
func (b *builder) event(e *rm.Event) *submission {
	b.lastEvent = max(b.lastEvent, e.At)
	if e.Job == "" {
		return nil
	}
	s := b.submission(e)
	switch e.Kind {
	case rm.Accepted:
		b.accepted++
		s.accept(e)
		return s
	case rm.Refused:
		b.rejected++
	case rm.Started, rm.Suspend, rm.Resume, rm.Requeue, rm.Ended:
	default:
		return s
	}
	s.answered = true
	if e.Task != -1 || !s.made || s.first.task == -1 {
		s.row(e.Task).apply(e)
		return s
	}
	// An event of a whole array is about all of its tasks that have not ended.
	for row := range s.rows {
		if !row.state.Ended() {
			row.apply(e)
		}
	}
	return s
}

// oldest is the first submission of which the builder keeps more than the row; nil if there
// is none.
func (b *builder) oldest() *submission {
	if len(b.open) == 0 {
		return nil
	}
	return b.open[0]
}

// finalize keeps only the packed row of the oldest open submission, which has ended.
func (b *builder) finalize() {
	s := b.open[0]
	s.final = true
	b.final.add(s)
	b.open[0] = nil
	b.open = b.open[1:]
}

// unfinalized returns the submissions that finalize has not packed, in the order of
// submission. Submissions that are known from events alone come last.
func (b *builder) unfinalized() []*submission { return slices.Concat(b.open, b.heard) }

// hasEnded reports whether the job has ended. It is always false for an array: to know, it
// would have to look at all tasks at each task's end.
func (s *submission) hasEnded() bool {
	return s.array == nil && s.made && s.first.state.Ended()
}

// accept makes the rows of a submission: all tasks of an array at once, since
// the resource manager has them all from now on.
func (s *submission) accept(e *rm.Event) {
	s.answered = true
	if s.array == nil || len(s.array.tasks) == 0 {
		s.row(e.Task).accept(e)
		return
	}
	for _, task := range s.array.tasks {
		s.row(task).accept(e)
	}
}

// row returns the row of a task, and makes one for a task that is new.
func (s *submission) row(task int) *taskRow {
	first := &s.first
	switch {
	case !s.made:
		s.made = true
		first.task, first.limit = int32(task), first.job.TimeLimit
		return first
	case s.array == nil || s.array.index == nil:
		if int(first.task) == task {
			return first
		}
		if s.array == nil {
			s.array = &arrayRows{}
		}
		s.array.index = map[int]*taskRow{}
		if first.task == -1 && !first.started {
			// The array was accepted, and its tasks were not known until now.
			first.task = int32(task)
			s.array.index[task] = first
			return first
		}
		s.array.index[int(first.task)] = first
	}
	if row := s.array.index[task]; row != nil {
		return row
	}
	row := &taskRow{job: first.job, limit: first.job.TimeLimit, task: int32(task)}
	// A later task of an array whose tasks were not known at acceptance.
	row.submit, row.rmJob, row.state = first.submit, first.rmJob, hpc.Pending
	s.array.more = append(s.array.more, row)
	s.array.index[task] = row
	return row
}

// rows are the rows of a submission.
func (s *submission) rows(yield func(*taskRow) bool) {
	if !s.made || !yield(&s.first) || s.array == nil {
		return
	}
	for _, row := range s.array.more {
		if !yield(row) {
			return
		}
	}
}

// accept notes that the resource manager has the job.
func (r *taskRow) accept(e *rm.Event) {
	r.rmJob = e.RMJob
	if r.state == "" {
		r.state = hpc.Pending
	}
	if r.submit == 0 {
		r.submit = e.At
	}
	r.merge(e.Outcome)
}

// rarely returns the part of the row that most jobs do without.
func (r *taskRow) rarely() *rareRow {
	if r.rare == nil {
		r.rare = new(rareRow)
	}
	return r.rare
}

// apply moves the row along with an event of its job.
func (r *taskRow) apply(e *rm.Event) {
	if e.RMJob != 0 {
		r.rmJob = e.RMJob
	}
	if e.Reason != "" {
		r.rarely().reason = e.Reason
	}
	switch e.Kind {
	case rm.Refused:
		r.state, r.rmJob = hpc.Rejected, e.RMJob
		if r.submit == 0 {
			r.submit = e.At
		}
	case rm.Started:
		r.begin(e)
	case rm.Suspend:
		r.closeSegment(e.At, rm.Suspend)
		r.state, r.rarely().stopped = hpc.Suspended, e.At
	case rm.Resume:
		r.state = hpc.Running
		r.endSuspension(e.At)
		r.openSegment(e.At)
	case rm.Requeue:
		r.requeue(e)
	case rm.Ended:
		r.finish(e)
	}
}

// begin gives the job its nodes. The outcome's instants are preferred to the
// event's own: they are what the resource manager accounts with.
func (r *taskRow) begin(e *rm.Event) {
	if r.held {
		r.listSegments()
	}
	r.merge(e.Outcome)
	if r.rare != nil {
		r.rare.suspended, r.rare.stopped = 0, 0
	}
	r.started, r.state, r.start, r.end = true, hpc.Running, e.At, 0
	if e.Outcome != nil && e.Outcome.Start != 0 {
		r.start = e.Outcome.Start
	}
	r.openSegment(r.start)
}

// endSuspension adds the time since the job was stopped, if it is.
func (r *taskRow) endSuspension(at hpc.Time) {
	if r.rare == nil {
		return
	}
	if stopped := r.rare.stopped; stopped != 0 && at > stopped {
		r.rare.suspended += at.Sub(stopped)
	}
	r.rare.stopped = 0
}

// requeue takes the job's nodes away and makes it pending again.
func (r *taskRow) requeue(e *rm.Event) {
	lost := e.At
	if o := e.Outcome; o != nil && o.End >= r.start && o.End != 0 {
		lost = o.End
	}
	r.closeSegment(lost, rm.Requeue)
	rare := r.rarely()
	rare.restarts++
	r.merge(e.Outcome)
	r.state = hpc.Pending
	r.start, r.end, r.started, r.priority = 0, 0, false, 0
	r.nodes, r.nodeCount, r.processors = "", 0, 0
	rare.suspended, rare.stopped, rare.tres = 0, 0, ""
	rare.exitCode, rare.signal = 0, 0
}

// finish notes the job's fate.
func (r *taskRow) finish(e *rm.Event) {
	r.state, r.end = StateUnknown, e.At
	o := e.Outcome
	r.merge(o)
	if o != nil {
		r.finishAs(o)
	}
	r.endSuspension(r.end)
	if !r.held {
		r.closeSegment(r.end, rm.Ended)
	}
}

// finishAs takes over what an outcome says about a job's end.
func (r *taskRow) finishAs(o *rm.Outcome) {
	if o.State != "" {
		r.state = o.State
	}
	if o.End != 0 {
		r.end = o.End
	}
	if o.ExitCode != 0 || o.Signal != 0 || r.rare != nil {
		r.rarely().exitCode, r.rare.signal = o.ExitCode, o.Signal
	}
	// Slurm gives a job that is cancelled while it waits a start time as well;
	// it had no nodes, so it did not start.
	if o.Start == 0 || (!r.started && o.NodeCount == 0 && o.Nodes == "") {
		return
	}
	r.start = o.Start
	if segments := r.segments(); !r.held && (len(segments) == 0 || segments[len(segments)-1].EndedBy == rm.Requeue) {
		r.openSegment(o.Start)
	}
}

// segments are those that are listed.
func (r *taskRow) segments() []Segment {
	if r.rare == nil {
		return nil
	}
	return r.rare.segments
}

// openSegment begins a period in which the job holds processors. The first of them
// follows from start and end, so that it is not listed until there is more to say.
func (r *taskRow) openSegment(at hpc.Time) {
	if !r.held && len(r.segments()) == 0 {
		r.held = true
		return
	}
	if r.held {
		r.listSegments()
	}
	r.rare.segments = append(r.rare.segments, r.segment(at))
}

// segment is a period that begins at an instant.
func (r *taskRow) segment(at hpc.Time) Segment {
	return Segment{Start: at, NodeCount: int(r.nodeCount), Processors: r.processors}
}

// listSegments makes the only segment the first of a list.
func (r *taskRow) listSegments() {
	only := r.segment(r.start)
	if r.state.Ended() {
		only.End, only.EndedBy = r.end, rm.Ended
	}
	r.held = false
	rare := r.rarely()
	rare.segments = append(rare.segments, only)
}

// closeSegment ends the open segment, if there is one.
func (r *taskRow) closeSegment(at hpc.Time, by rm.EventKind) {
	if r.held {
		r.listSegments()
	}
	list := r.segments()
	if n := len(list); n > 0 && list[n-1].EndedBy == "" {
		last := &list[n-1]
		last.End, last.EndedBy = max(at, last.Start), by
	}
}

// merge takes over what an outcome knows of the job itself; what it leaves
// empty stays as it was asked for.
func (r *taskRow) merge(o *rm.Outcome) {
	if o == nil {
		return
	}
	r.mergeNames(o)
	r.mergeSubmit(o.Submit)
	if o.Nodes != "" {
		r.nodes = o.Nodes
	}
	if o.Eligible != 0 {
		r.eligible = o.Eligible
	}
	if o.NodeCount != 0 {
		r.nodeCount = int32(o.NodeCount)
	}
	if o.Processors != 0 {
		r.processors = o.Processors
	}
	if o.Priority != 0 {
		r.priority = o.Priority
	}
	if o.Restarts > 0 {
		r.rarely().restarts = max(r.rare.restarts, o.Restarts)
	}
	switch {
	case o.TimeLimit < 0:
		r.limit = hpc.Unlimited
	case o.TimeLimit > 0:
		r.limit = time.Duration(o.TimeLimit) * time.Second
	}
}

// mergeNames notes what the outcome calls otherwise than the job does.
func (r *taskRow) mergeNames(o *rm.Outcome) {
	job := r.job
	if r.rare == nil && same(o.Name, job.Name) && same(o.User, job.User) && same(o.Group, job.Group) &&
		same(o.Account, job.Account) && same(o.Partition, job.Partition) && same(o.QOS, job.QOS) &&
		same(o.Reservation, job.Reservation) && o.TRES == "" {
		return
	}
	rare := r.rarely()
	for _, f := range []struct{ to, from *string }{
		{&rare.name, &o.Name}, {&rare.user, &o.User}, {&rare.group, &o.Group},
		{&rare.account, &o.Account}, {&rare.partition, &o.Partition}, {&rare.qos, &o.QOS},
		{&rare.reservation, &o.Reservation}, {&rare.tres, &o.TRES},
	} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
}

// same reports whether a name says nothing new.
func same(name, asked string) bool { return name == "" || name == asked }

// mergeSubmit keeps the first submit time as such and a requeued job's later
// one beside it.
func (r *taskRow) mergeSubmit(at hpc.Time) {
	switch {
	case at == 0:
	case r.rare != nil && r.rare.restarts > 0:
		if at > r.submit {
			r.rare.resubmit = at
		}
	default:
		r.submit = at
	}
}

// put writes the row, but for the request.
func (r *taskRow) put(row *Row) {
	job := r.job
	*row = Row{
		Job: job.ID, Task: int(r.task), RMJob: r.rmJob, Name: job.Name, User: job.User, Group: job.Group,
		Account: job.Account, Partition: job.Partition, QOS: job.QOS, Reservation: job.Reservation,
		State: r.state, RecordedSubmit: job.Submit, Submit: r.submit, Eligible: r.eligible, Start: r.start, End: r.end,
		TimeLimit: r.limit, AskedRunTime: job.RunTimeOf(int(r.task)),
		Nodes: r.nodes, NodeCount: int(r.nodeCount), Processors: r.processors, Priority: r.priority,
		AskedMinNodes: job.MinNodes, AskedMaxNodes: job.MaxNodes,
		AskedTasks: job.Tasks, AskedCPUsPerTask: job.CPUsPerTask,
	}
	if job.Priority != nil {
		row.AskedPriority = *job.Priority
	}
	if r.rare != nil {
		r.rare.put(row)
	}
}

// putOutcome makes *row the outcome of the job: the columns that metrics are computed from.
func (r *taskRow) putOutcome(row *Row) {
	*row = Row{
		Job: r.job.ID, Task: int(r.task), User: r.job.User, State: r.state,
		RecordedSubmit: r.job.Submit, Submit: r.submit, Eligible: r.eligible, Start: r.start, End: r.end,
		NodeCount: int(r.nodeCount), Processors: r.processors,
	}
	if rare := r.rare; rare != nil {
		row.User = cmp.Or(rare.user, row.User)
		row.Suspended, row.Restarts = rare.suspended, rare.restarts
		rare.putSegments(row)
	}
}

// put adds what few rows have.
func (r *rareRow) put(row *Row) {
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&row.Name, r.name}, {&row.User, r.user}, {&row.Group, r.group}, {&row.Account, r.account},
		{&row.Partition, r.partition}, {&row.QOS, r.qos}, {&row.Reservation, r.reservation},
	} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	row.TRES, row.Reason = r.tres, r.reason
	row.Resubmit, row.Suspended = r.resubmit, r.suspended
	row.ExitCode, row.Signal, row.Restarts = r.exitCode, r.signal, r.restarts
	r.putSegments(row)
}

func (r *rareRow) putSegments(row *Row) {
	// A single segment that nothing interrupted says no more than Start and End do.
	if n := len(r.segments); n > 1 || n == 1 && (row.Start == 0 || r.segments[0].EndedBy == rm.Suspend) {
		row.Segments = slices.Clone(r.segments)
	}
}

// submitted is how many jobs were submitted.
func (b *builder) submitted() int { return b.final.len() + len(b.open) }

// appendRows appends the rows of submission i, from 0, to list, without requests.
func (b *builder) appendRows(list []Row, i int) []Row {
	open := i - b.final.len()
	if open >= 0 {
		return b.open[open].appendRows(list)
	}
	list = append(list, Row{})
	b.final.get(i, &list[len(list)-1])
	return list
}

// appendRows appends the rows of a submission that was answered to list, without requests.
func (s *submission) appendRows(list []Row) []Row {
	if !s.answered {
		return list
	}
	for r := range s.rows {
		list = append(list, Row{})
		r.put(&list[len(list)-1])
	}
	return list
}

// list returns the rows of all jobs that were answered, in the order of submission. The
// tasks of an array are in the order in which they were accepted or first heard of.
func (b *builder) list() []Row {
	var list []Row
	for _, s := range b.unfinalized() {
		first := len(list)
		if list = s.appendRows(list); !s.heard && len(list) > first {
			list[first].Request = string(EncodeJob(s.first.job))
		}
	}
	return list
}

// counts says how far the jobs of a workload of so many submissions came.
func (b *builder) counts(workload int) Counts {
	submitted := b.submitted()
	c := Counts{
		Submitted: submitted, NotSubmitted: max(0, workload-submitted),
		Accepted: b.accepted, Rejected: b.rejected,
		Rows: b.final.len(), Ended: b.final.ended,
	}
	for _, s := range b.unfinalized() {
		if !s.answered {
			c.Unanswered++
			continue
		}
		for row := range s.rows {
			c.Rows++
			if row.state.Ended() && row.state != hpc.Rejected {
				c.Ended++
			}
		}
	}
	return c
}

// finalRows are rows that cannot change any more and are on their way to the disk. They are
// packed ([packed.Store]) with the columns of an outcome: all columns would take 5 % of the
// time in which the LLNL-Thunder log is simulated.
type finalRows struct {
	refs  []packed.Ref
	store *packed.Store[Row]
	row   Row // the last one that was added: one on the stack would escape
	ended int // how many of the jobs were accepted and have ended
}

func (f *finalRows) len() int { return len(f.refs) }

// add adds the only row of a submission.
func (f *finalRows) add(s *submission) {
	if f.store == nil {
		f.store = packed.NewStore[Row]()
	}
	s.first.putOutcome(&f.row)
	f.refs = append(f.refs, f.store.Put(&f.row))
	if f.row.State != hpc.Rejected {
		f.ended++
	}
}

// get writes row i to *row.
func (f *finalRows) get(i int, row *Row) { f.store.Get(f.refs[i], row) }
