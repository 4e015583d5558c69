package run

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/packed"
	"rmreplay/internal/rm"
)

// builder makes the rows of jobs.parquet from submissions and events. The writer uses it during the
// run, and the reader of a journal afterwards, so that both make the same rows.
//
// A builder stores every job until the run ends, and a run may have millions of jobs. So for each
// job it stores only the history and a pointer to the request, and makes the row when it is needed.
// When a row is on the disk, the builder stores only the row's packed outcome, for the metrics.
type builder struct {
	final finalRows              // the oldest submissions, if the writer has finalized them
	open  []*submission          // the others, in the order of submission
	heard []*submission          // known only from events, in the order of their first events
	byID  map[string]*submission // all submissions; nil until an event without a submission number
	spare []submission           // allocated, but not yet used

	accepted, rejected int
	reasons            bool // some events are reasons of pending jobs
	lastEvent          hpc.Time
}

// submission is one job, or one array with all its tasks.
type submission struct {
	first    taskRow // the row of the job, or of the array's first task
	made     bool    // first has been filled in
	answered bool
	heard    bool // known only from events
	final    bool // the row can no longer change
	array    *arrayRows
}

// arrayRows are all rows of a job array except the first.
type arrayRows struct {
	tasks []int // the tasks at submission; nil if they cannot be parsed
	more  []*taskRow
	index map[int]*taskRow // all rows by task; nil while the first row is the only one
}

// taskRow is the state from which a row is made.
type taskRow struct {
	job                          *hpc.Job
	submit, eligible, start, end hpc.Time
	first                        hpc.Time
	limit                        time.Duration // the time limit in force
	state                        hpc.State
	nodes                        string
	processors                   int
	nodeCount, task              int32
	priority                     uint32
	rmJob                        uint32
	started                      bool     // the Started event has arrived
	held                         bool     // the only segment begins at start; if false, rare has the segments
	rare                         *rareRow // nil for most jobs
}

// rareRow holds the values that few jobs have.
type rareRow struct {
	// The resource manager's values that differ from the job's; empty if they are the same.
	name, user, group, account, partition, qos, reservation string

	tres, reason               string
	resubmit                   hpc.Time
	suspended                  time.Duration
	stopped                    hpc.Time // when the current suspension began
	exitCode, signal, restarts int
	segments                   []Segment
}

func newBuilder() *builder { return &builder{} }

// submissionChunk is the number of submissions that are allocated together. With single allocations
// the simulation of the KTH log takes 5 % more time. Chunks of more than 32 KiB are also slower,
// because Go's allocator then needs a lock and new pages for each chunk.
const submissionChunk = 64

func (b *builder) newSubmission() *submission {
	if len(b.spare) == 0 {
		b.spare = make([]submission, submissionChunk)
	}
	s := &b.spare[0]
	b.spare = b.spare[1:]
	return s
}

// job records a submission. The caller must not change the job afterwards.
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
	// If the tasks of an array cannot be parsed, their events make their rows.
	if a, err := hpc.ParseArray(job.Array); err == nil {
		s.array.tasks = a.Tasks
	}
}

// without returns a list without one of its elements.
func without(list []*submission, s *submission) []*submission {
	for i := range list {
		if list[i] == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// submission returns the submission of an event.
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

// event applies one event to its rows and returns their submission. It returns nil for an event without a job.
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
	case rm.Waiting:
		b.reasons = true
		return s
	case rm.Started, rm.Suspend, rm.Resume, rm.Requeue, rm.Ended, rm.Dependency:
	default:
		return s
	}
	s.answered = true
	if e.Task != -1 || !s.made || s.first.task == -1 {
		s.row(e.Task).apply(e)
		return s
	}
	// An event of a whole array applies to all of its tasks that have not ended.
	for row := range s.rows {
		if !row.state.Ended() {
			row.apply(e)
		}
	}
	return s
}

// oldest returns the oldest submission that is not finalized, or nil.
func (b *builder) oldest() *submission {
	if len(b.open) == 0 {
		return nil
	}
	return b.open[0]
}

// finalize replaces the oldest open submission, which has ended, by its packed row.
func (b *builder) finalize() {
	s := b.open[0]
	s.final = true
	b.final.add(s)
	b.open[0] = nil
	b.open = b.open[1:]
}

// unfinalized returns the submissions that finalize has not packed, in the order of submission.
// Submissions that are known only from events come last.
func (b *builder) unfinalized() []*submission { return slices.Concat(b.open, b.heard) }

// hasEnded reports whether the job has ended. It always returns false for an array, because
// checking all tasks whenever one ends would take too long.
func (s *submission) hasEnded() bool {
	return s.array == nil && s.made && s.first.state.Ended()
}

// accept makes the rows of a submission. The resource manager accepts all tasks of an array at once.
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

// row returns the row of a task. It makes a row for a new task.
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
			// The array was accepted before its tasks were known.
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
	// A later task of an array that was accepted before its tasks were known.
	row.submit, row.rmJob, row.state = first.submit, first.rmJob, hpc.Pending
	s.array.more = append(s.array.more, row)
	s.array.index[task] = row
	return row
}

// rows yields the rows of a submission.
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

// accept records that the resource manager has accepted the job.
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

// rarely returns the part of the row that few jobs need.
func (r *taskRow) rarely() *rareRow {
	if r.rare == nil {
		r.rare = new(rareRow)
	}
	return r.rare
}

// apply updates the row with an event of its job.
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

// begin records a start of the job. It prefers the times of the outcome to the time of the event,
// because the outcome's times come from the accounting.
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

// endSuspension ends the job's suspension, if there is one, and adds its duration.
func (r *taskRow) endSuspension(at hpc.Time) {
	if r.rare == nil {
		return
	}
	if stopped := r.rare.stopped; stopped != 0 && at > stopped {
		r.rare.suspended += at.Sub(stopped)
	}
	r.rare.stopped = 0
}

// requeue records the end of the job's run, and makes the job pending again.
func (r *taskRow) requeue(e *rm.Event) {
	lost := e.At
	if o := e.Outcome; o != nil {
		if o.Start != 0 && o.Start <= e.At { // a later start is the start of the job's next run
			r.amend(o)
		}
		if o.End >= r.start && o.End != 0 {
			lost = o.End
		}
	}
	if r.state == hpc.Suspended { // so that the run ends here, and not when it was suspended
		r.openSegment(lost)
	}
	r.closeSegment(lost, rm.Requeue)
	r.preempted(e.Outcome)
	nodes, eligible := r.nodes, r.eligible // the outcome of a requeue may have the values of the next run
	rare := r.rarely()
	rare.restarts++
	r.merge(e.Outcome)
	r.keepLost(nodes, eligible, e.Outcome)
	r.state = hpc.Pending
	r.start, r.end, r.first, r.started, r.priority = 0, 0, 0, false, 0
	r.nodes, r.nodeCount, r.processors = "", 0, 0
	rare.suspended, rare.stopped, rare.tres = 0, 0, ""
	rare.exitCode, rare.signal = 0, 0
}

// amend sets the start and the processors of the present run to the accounting's values. The time of an event is the
// time at which the driver saw the event, so it may not fit the accounting's end. With gang scheduling, slurmctld's
// launch message for an exclusive job leaves out those processors of the job's nodes that other jobs hold. The
// accounting has all processors of the job.
func (r *taskRow) amend(o *rm.Outcome) {
	if !r.started {
		return
	}
	list, start := r.segments(), o.Start
	if r.held || len(list) == 0 {
		r.start, r.processors = start, cmp.Or(o.Processors, r.processors)
		return
	}
	first := len(list) - 1
	for first > 0 && list[first-1].EndedBy == rm.Suspend {
		first--
	}
	s := &list[first]
	if s.EndedBy != rm.Requeue && (s.End == 0 || start <= s.End) && (first == 0 || list[first-1].End <= start) {
		r.start, s.Start = start, start
		for i := range list[first:] {
			if p := &list[first+i]; p.NodeCount == o.NodeCount { // otherwise the job was resized
				p.Processors = cmp.Or(o.Processors, p.Processors)
			}
		}
	}
}

// keepLost stores the nodes of a lost run, its cause, and when the job became eligible for that run. The job's own
// fields will get the values of its next run. eligible is the time that was known before the requeue.
func (r *taskRow) keepLost(nodes string, eligible hpc.Time, o *rm.Outcome) {
	list := r.rare.segments
	if n := len(list); n > 0 && o != nil && o.State.Requeues() {
		list[n-1].Cause = o.State
	}
	for i := len(list) - 1; i >= 0; i-- {
		list[i].Nodes = nodes
		if i == 0 || list[i-1].EndedBy == rm.Requeue { // the run's first period
			if r.eligible <= list[i].Start {
				eligible = r.eligible
			}
			if eligible <= list[i].Start {
				list[i].Eligible = eligible
			}
			return
		}
	}
}

// finish records how the job ended.
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
	r.preempted(o)
}

// preempted records the job that preempted this job and so ended the last period, if it is known.
func (r *taskRow) preempted(o *rm.Outcome) {
	if o == nil || o.PreemptedBy == "" {
		return
	}
	if r.held {
		r.listSegments()
	}
	if list := r.segments(); len(list) > 0 {
		list[len(list)-1].PreemptedBy = o.PreemptedBy
	}
}

// finishAs copies what an outcome says about a job's end.
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
	// Slurm also gives a start time to a job that is cancelled while it is pending. A job that was cancelled while pending
	// had no nodes, so it did not start.
	if o.Start == 0 || (!r.started && o.NodeCount == 0 && o.Nodes == "") {
		return
	}
	r.amend(o)
	r.start = o.Start
	if segments := r.segments(); !r.held && (len(segments) == 0 || segments[len(segments)-1].EndedBy == rm.Requeue) {
		r.openSegment(o.Start)
	}
}

// segments returns the listed segments.
func (r *taskRow) segments() []Segment {
	if r.rare == nil {
		return nil
	}
	return r.rare.segments
}

// openSegment begins a period in which the job holds processors. The fields start and end describe
// the first period, so openSegment lists this period only when a second period begins.
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

// segment returns a period that begins at the given time.
func (r *taskRow) segment(at hpc.Time) Segment {
	return Segment{Start: at, NodeCount: int(r.nodeCount), Processors: r.processors}
}

// listSegments puts the job's only segment into a list.
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

// merge copies what an outcome says about the job itself. If the outcome's value is empty, the requested value stays.
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
	if o.First != 0 && (r.start == 0 || o.First <= r.start) { // in an end's event, First may be the end
		r.first = o.First
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

// mergeNames records the outcome's names that differ from the job's.
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

// same reports whether a name is empty or equal to the requested name.
func same(name, asked string) bool { return name == "" || name == asked }

// mergeSubmit stores the first submit time. For a requeued job, mergeSubmit also stores the latest submit time.
func (r *taskRow) mergeSubmit(at hpc.Time) {
	switch {
	case at == 0:
	case at > r.submit && r.rare != nil && r.rare.restarts > 0:
		r.rare.resubmit = at
	default: // the resource manager's own time, which Slurm cuts to seconds
		r.submit = at
	}
}

// put fills in the row, except the column request.
func (r *taskRow) put(row *Row) {
	job := r.job
	*row = Row{
		Job: job.ID, Task: int(r.task), RMJob: r.rmJob, Name: job.Name, User: job.User, Group: job.Group,
		Account: job.Account, Partition: job.Partition, QOS: job.QOS, Reservation: job.Reservation,
		State: r.state, RecordedSubmit: job.Submit, Submit: r.submit, Eligible: r.eligible, First: r.first, Start: r.start,
		End:       r.end,
		TimeLimit: r.limit, AskedRunTime: job.RunTimeOf(int(r.task)),
		Nodes: r.nodes, NodeCount: int(r.nodeCount), Processors: r.processors, Priority: r.priority,
		AskedMinNodes: job.MinNodes, AskedMaxNodes: job.MaxNodes,
		AskedTasks: job.Tasks, AskedCPUsPerTask: job.CPUsPerTask,
	}
	if job.Priority != nil {
		row.AskedPriority = *job.Priority
	}
	r.putDelays(row)
	if r.rare != nil {
		r.rare.put(row)
	}
}

// putDelays adds those parts of the request that delay the job's eligibility.
func (r *taskRow) putDelays(row *Row) {
	job := r.job
	row.AskedBegin, row.AskedHold, row.AskedDependency = max(0, job.Begin), job.Hold, job.Dependency != ""
	if _, limit, limited := strings.Cut(job.Array, "%"); limited {
		row.AskedArrayLimit, _ = strconv.Atoi(limit) // 0 if the text is not a limit
	}
	if strings.Contains(job.Dependency, "aftercorr") {
		row.ArrayEligible = -1
	}
}

// putOutcome sets *row to the job's outcome: the columns that metrics are computed from.
func (r *taskRow) putOutcome(row *Row) {
	*row = Row{
		Job: r.job.ID, Task: int(r.task), User: r.job.User, State: r.state,
		RecordedSubmit: r.job.Submit, Submit: r.submit, Eligible: r.eligible, First: r.first, Start: r.start, End: r.end,
		Nodes: r.nodes, NodeCount: int(r.nodeCount), Processors: r.processors, TimeLimit: r.limit,
	}
	r.putDelays(row)
	if rare := r.rare; rare != nil {
		row.User = cmp.Or(rare.user, row.User)
		row.Suspended, row.Restarts = rare.suspended, rare.restarts
		rare.putSegments(row)
	}
}

// put adds the values that few rows have.
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
	n := len(r.segments)
	// A single uninterrupted segment is the period from Start to End.
	if n > 1 || n == 1 && (row.Start == 0 || r.segments[0].EndedBy == rm.Suspend || r.segments[0].PreemptedBy != "") {
		row.Segments = slices.Clone(r.segments)
	}
}

// submitted returns the number of submitted jobs.
func (b *builder) submitted() int { return b.final.len() + len(b.open) }

// appendRows appends the rows of submission i to list, without requests. i counts from 0.
func (b *builder) appendRows(list []Row, i int) []Row {
	open := i - b.final.len()
	if open >= 0 {
		return b.open[open].appendRows(list)
	}
	list = append(list, Row{})
	b.final.get(i, &list[len(list)-1])
	return list
}

// appendRows appends the rows of an answered submission to list, without requests.
func (s *submission) appendRows(list []Row) []Row {
	for r := range s.rows { // none without an answer
		list = append(list, Row{})
		row := &list[len(list)-1]
		if r.put(row); s.array != nil && row.State == hpc.Rejected {
			row.Request = string(EncodeJob(s.first.job))
		}
	}
	return list
}

// list returns the rows of all answered jobs in the order of submission. The tasks of an array
// are in the order of their acceptance or of their first events.
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

// counts returns the numbers of submitted, accepted, rejected and ended jobs of a workload. The
// parameter workload is its number of submissions.
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

// finalRows are rows that can no longer change and are being written to the disk. A [packed.Store] has only the
// columns of their outcomes. With all columns, the simulation of the LLNL-Thunder log would take 7 % more time.
type finalRows struct {
	refs  []packed.Ref
	store *packed.Store[Row]
	row   Row // the last added row; a field, because a local variable would escape to the heap
	ended int // number of jobs that were accepted and have ended
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
