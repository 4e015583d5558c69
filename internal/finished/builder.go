package finished

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
)

// The rules that records of finished jobs may break. A record under one of the first four rules, or under
// RuleNoStartAtAll or RuleArrayCut, cannot be replayed: [workload.Workload.Unusable] keeps it.
const (
	RuleNoRecord      = "record_unreadable"      // not a record of the format
	RuleNoSubmit      = "no_submit_time"         // the submit time is not known
	RuleNoSize        = "no_processors"          // no positive number of processors or nodes
	RuleDuplicate     = "duplicate_record"       // the same job occurs twice
	RuleTimesReversed = "times_reversed"         // it ends before it starts, or starts before it is submitted
	RuleElapsed       = "elapsed_too_long"       // longer than from its start to its end, which counts
	RuleBadValue      = "bad_value"              // an unnecessary field makes no sense, and is ignored
	RuleBadSubmitLine = "submit_line_unreadable" // the options of the command line contradict each other
	// RuleSubmitLineOption counts jobs with an option that is not known, or whose value makes no
	// sense. The option is left out.
	RuleSubmitLineOption = "submit_line_option"
	// RuleSubmitLineDiffers counts jobs whose columns say something else than their command line.
	// The columns count.
	RuleSubmitLineDiffers = "submit_line_differs"
	RuleNoStart           = "start_from_steps" // the job's start is missing and taken from its first step
	RuleNoStartAtAll      = "no_start_time"    // it ended and used nodes, but no start is known
	RuleArrayCut          = "array_tasks_cut"  // sacct has cut the list of an array's tasks, and nothing else has it
)

// The notes that a [Builder] counts. They are not faults of the source, but decisions where the
// source does not say what the workload needs.
const (
	NoteRequeued       = "requeued_run_folded"     // an earlier run of a requeued job, whose times are not known
	NoteRunning        = "still_running"           // the job had not ended: it runs until its time limit
	NoteNoInstants     = "cancelled_at_submission" // it never started, and when it was cancelled is not known
	NoteExitsForOther  = "ends_with_exit_code"     // it ran until something else than its script or its limit ended it
	NoteNeverStarted   = "never_started"           // how long it would have run is not known: until its time limit
	NoteBegin          = "begin_from_eligible"     // --begin stands for whatever kept the job from being eligible
	NoteOutside        = "outside_window"          // jobs that ended before the window or were submitted after it
	NoteRequeuedPreset = "requeued_run_preset"     // the run at the window's start is a job of its own
	NoteArrayParts     = "array_in_parts"          // tasks of an array that cannot be one job with the others
	NoteDependencyGone = "dependency_dropped"      // on jobs that had ended before the window
	NoteFromAllocation = "request_from_allocation" // what the job asked for is not known: it asks for what it got
	// options behind --wrap are not read, because they may belong to the wrapped command
	NoteWrapped      = "submit_line_wrapped"
	NoteHetJob       = "het_job_component" // components of heterogeneous jobs are jobs of their own
	NoteOtherCluster = "other_cluster"     // records of clusters that the options do not ask for
	// records of the source that are not about a job's submission, start or end
	NoteOtherRecord    = "other_record"
	NoteEndFromElapsed = "end_from_elapsed"      // the end is not recorded: it is the start and the time that the job ran
	NoteTRES           = "tres_not_requested"    // resources in ReqTRES that a request cannot have, such as burst buffers
	NoteSuperseded     = "superseded_record"     // an earlier look at a job about which another record says more
	NoteResized        = "resized_run_folded"    // an earlier size of a job that became smaller or larger
	NoteStep           = "step_left_out"         // steps of jobs that are not read, or of which only the job is asked for
	NoteArrayList      = "array_tasks_from_line" // sacct has cut the list of tasks, and the command line has it
)

// drops are the rules under which a record becomes nothing: neither a job nor a part of one. Readers
// with such rules of their own add them with [Builder.Drop].
var drops = []string{
	RuleNoRecord, RuleNoSubmit, RuleNoSize, RuleDuplicate, RuleNoStartAtAll, RuleArrayCut,
	NoteRequeued, NoteResized, NoteSuperseded, NoteOutside, NoteOtherCluster, NoteOtherRecord, NoteStep,
}

// Builder makes a workload of finished jobs. The jobs may come in any order. The steps of a job
// must come after the job.
type Builder struct {
	w    *workload.Workload
	opts workload.ReadOptions
	book workload.RuleBook

	jobs    map[string]*built // by ID
	list    []*built          // in the order of the source; after settle, in the order of the submissions
	made    []*hpc.Job        // of them, while they may change
	users   map[string]hpc.User
	ended   outsiders // jobs that ended before the window
	rows    workload.Rows
	cluster string // whose jobs they are, if the source says it
	has     fieldPresence
	arrays  arrays.Parts
}

// built is a job under construction.
type built struct {
	rec Job
	// others are the other records of the same ID, until settle decides what they are.
	others []Job
	// startFromSteps says that rec.Start is the start of a step.
	startFromSteps bool
	// requeued says that this is the run at the window's start, and that the job ran again later.
	requeued bool
	// atStart is the run at the window's start of the same job, if rec is a later run; else
	// nil.
	atStart *Job
	// lastSubmit is when the last run was queued. rec.Submit is when the first one was.
	lastSubmit hpc.Time
	// tasks are the tasks of a record that stands for several tasks. limit is how many of them may run
	// at once; 0 for any number.
	tasks []int
	limit int
}

// fieldPresence says which fields have a value in any record.
type fieldPresence struct {
	user, account, qos, timeLimit, submitLine, nodeList, uid, memory, tres, constraint bool
}

// NewBuilder returns a builder for a workload. source names where the jobs come from.
func NewBuilder(source string, opts workload.ReadOptions) *Builder {
	return &Builder{
		w: &workload.Workload{Source: source, Start: opts.Start}, opts: opts, book: workload.RuleBook{Strict: opts.Strict},
		jobs: make(map[string]*built), users: make(map[string]hpc.User),
	}
}

// Note counts a decision of the reader or the builder. A strict reader accepts such records,
// because a decision is no fault of the source.
func (b *Builder) Note(what string) { b.book.Note(what, 1) }

// Fall counts a record that breaks a rule and returns nil. With strict options it returns the
// fault as an error instead.
func (b *Builder) Fall(rule, format string, args ...any) error {
	return b.book.Fall(rule, format, args...)
}

// Row counts a record of the source. A reader calls it once for each record that it finds, before it
// makes anything of it.
func (b *Builder) Row() { b.rows.Read++ }

// Part counts a record that is not a job, but says something of the job with this ID, such as a
// step. It returns false, and counts the record under [NoteStep], if there is no such job.
func (b *Builder) Part(job string) bool {
	if b.jobs[job] == nil {
		b.Note(NoteStep)
		return false
	}
	b.Joined()
	return true
}

// Joined counts a record that says something of a job which has another record.
func (b *Builder) Joined() { b.rows.Parts++ }

// Drop is [Builder.Note] for a rule of the reader's own under which a record becomes nothing.
func (b *Builder) Drop(what string) {
	b.Dropped()
	b.Note(what)
}

// Dropped counts a record that becomes nothing under a rule of the reader's own.
func (b *Builder) Dropped() { b.rows.Dropped++ }

// Outside counts a job outside the window for which the reader did not even make a [Job].
func (b *Builder) Outside(id string, submit, end hpc.Time) {
	b.ended.add(id, submit, end, b.opts.Start)
	b.Note(NoteOutside)
}

// Unusable keeps a record that is no job to replay. With strict options it returns the fault as
// an error instead. text is the record as the source has it.
func (b *Builder) Unusable(rule, text, format string, args ...any) error {
	if err := b.book.Fall(rule, format, args...); err != nil {
		return err
	}
	b.w.Unusable = append(b.w.Unusable, workload.Unusable{Record: b.rows.Read, Rule: rule, Text: lines.UTF8([]byte(text))})
	return nil
}

// Add adds a record, which it may change. It counts and drops a job outside the window. text is
// the record as the source has it; the workload keeps it if the record is no job to replay.
func (b *Builder) Add(r *Job, text string) error {
	switch {
	case r.Submit <= 0:
		return b.Unusable(RuleNoSubmit, text, "job %s: no submit time", r.ID)
	case !b.opts.InWindow(r.Submit, r.End):
		b.Outside(r.ID, r.Submit, r.End)
		return nil
	}
	if b.opts.Record == nil {
		b.fromTRES(r)
	} else {
		_ = TakeTRES(r) // who makes a workload of the record decides on the rest
	}
	if max(r.ReqCPUs, r.AllocCPUs, r.ReqNodes, r.AllocNodes) <= 0 {
		return b.Unusable(RuleNoSize, text, "job %s: neither processors nor nodes", r.ID)
	}
	for _, text := range []*string{
		&r.Name, &r.User, &r.Group, &r.Account, &r.WCKey, &r.Reservation, &r.Comment, &r.SubmitLine, &r.Script,
	} {
		if !utf8.ValidString(*text) { // as MariaDB gives it, if nobody converted it
			*text = lines.UTF8([]byte(*text))
		}
	}
	if b.opts.Record != nil && !r.open() && !r.resized() {
		b.ended.addRun(r)
		return b.record(*r)
	}
	b.note(r)
	before := b.jobs[r.ID]
	if before == nil {
		b.enter(r)
		return nil
	}
	return before.again(b, r, text)
}

// record hands over a record that is a job.
func (b *Builder) record(r Job) error {
	if err := b.checkTimes(&r); err != nil {
		return err
	}
	b.rows.Jobs++
	return b.opts.Record(&r)
}

// rounding is how much a recorded run time may exceed the time from start to end: sources round both.
const rounding = time.Second

// checkTimes changes times of a record that contradict each other.
func (b *Builder) checkTimes(r *Job) error {
	if r.Start > 0 && r.End >= r.Start && r.Elapsed > r.End.Sub(r.Start)+rounding {
		told := r.Elapsed
		r.Elapsed = max(r.End.Sub(r.Start)-r.Suspended, 0)
		err := b.book.Fall(RuleElapsed, "job %s: it ran for %s between start %s and end %s (want at most the time between "+
			"them)", r.ID, told, r.Start, r.End)
		if err != nil {
			return err
		}
	}
	submit, start, end := r.Submit, r.Start, r.End
	switch {
	case r.Start > 0 && r.Start < r.Submit && r.Submit < r.End && r.Elapsed == r.End.Sub(r.Start)-r.Suspended:
		r.Submit, r.Eligible = r.Start, min(r.Eligible, r.Start) // the last size of a job that was resized
	case r.Start > 0 && r.Start < r.Submit:
		r.Start = r.Submit
		r.End = max(r.End, r.Start)
	case r.Start > 0 && r.End > 0 && r.End < r.Start, r.Start == 0 && r.End > 0 && r.End < r.Submit:
		r.End = max(r.Start, r.Submit)
	default:
		return nil
	}
	return b.book.Fall(RuleTimesReversed, "job %s: submit %s, start %s and end %s contradict each other", r.ID, submit,
		start, end)
}

// enter adds a record as a job of its own.
func (b *Builder) enter(r *Job) *built {
	entry := &built{rec: *r, lastSubmit: r.Submit}
	b.jobs[r.ID] = entry
	b.list = append(b.list, entry)
	return entry
}

// note notes which fields a record has.
func (b *Builder) note(r *Job) {
	h := &b.has
	h.user = h.user || r.User != ""
	h.account = h.account || r.Account != ""
	h.qos = h.qos || r.QOS != ""
	h.timeLimit = h.timeLimit || r.TimeLimit != 0
	h.submitLine = h.submitLine || r.SubmitLine != ""
	h.nodeList = h.nodeList || r.NodeList != ""
	h.uid = h.uid || r.HasUID
	h.constraint = h.constraint || r.Constraint != ""
	h.tres = h.tres || r.ReqTRES != "" || r.AllocTRES != "" || r.GRES != "" || r.GPUs != ""
	h.memory = h.memory || r.Memory != 0 || r.MemPerCPU != 0 || r.MemPerNode != 0
}

// addUser adds the user of a record to the workload.
func (b *Builder) addUser(r *Job) {
	if _, known := b.users[r.User]; known || r.User == "" || !r.HasUID {
		return
	}
	user := hpc.User{Name: r.User, UID: r.UID, Group: r.Group, GID: r.GID}
	if user.Group == "" {
		user.Group = strconv.FormatUint(uint64(r.GID), 10)
	}
	b.users[r.User] = user
	b.w.Users = append(b.w.Users, user)
}

// freeID returns an unused ID that begins with a used one.
func (b *Builder) freeID(taken string) string {
	for n := 2; ; n++ {
		if id := taken + "#" + strconv.Itoa(n); b.jobs[id] == nil {
			return id
		}
	}
}

// preset reports whether a job of the window ran when the window began.
func (b *Builder) preset(r *Job) bool { return r.Start != 0 && r.Start < b.opts.Start }

// Step adds the start of a step. If the job's own start is missing, the start of its first step
// replaces it.
func (b *Builder) Step(job string, start hpc.Time) {
	entry := b.jobs[job]
	if entry == nil || start <= 0 {
		return
	}
	r := entry.latest()
	if r.Start != 0 && (!entry.startFromSteps || r.Start <= start) || start < r.Submit {
		return
	}
	if r.Start == 0 {
		b.Note(RuleNoStart)
	}
	r.Start, entry.startFromSteps = start, true
}

// Used adds what a step of a job used: the memory of all its tasks, and what they read and wrote, in
// bytes.
func (b *Builder) Used(job string, memory, moved float64) {
	const most = 1 << 60
	if entry := b.jobs[job]; entry != nil {
		r := entry.latest()
		r.UsedMemory = max(r.UsedMemory, int64(min(max(memory, 0), most)))
		r.MovedBytes = min(r.MovedBytes+int64(min(max(moved, 0), most)), most)
	}
}

// LacksStart reports whether the builder still needs the steps of a job to know its start.
func (b *Builder) LacksStart(id []byte) bool {
	entry := b.jobs[string(id)]
	return entry != nil && (entry.latest().Start == 0 || entry.startFromSteps)
}

// Missing lists the fields that the source has for no job, and what follows from that.
func (b *Builder) Missing() []string {
	var missing []string
	for _, m := range []struct {
		has  bool
		text string
	}{
		{b.has.user, "no job has a user: nobody submits them"},
		{b.has.uid, "no job has a UID: the cluster directory must name the users"},
		{b.has.account, "no job has an account: they run under their users' default accounts"},
		{b.has.qos, "no job has a QOS: they run under their default QOS"},
		{b.has.timeLimit, "no job has a time limit: the partitions' defaults apply"},
		{b.has.memory, "no job asks for memory: the configuration's defaults apply"},
		{b.has.tres || b.has.submitLine, "no job has its resources (ReqTRES or AllocTRES): GPUs are not known, and no job " +
			"asks for any"},
		{b.has.constraint || b.has.submitLine, "no job asks for features of nodes (Constraints): each may run on any nodes " +
			"of its partition"},
		{b.has.nodeList, "no job has a node list: jobs that run at the window's start cannot be put where they were"},
		{b.has.submitLine, "no job has its command line (SubmitLine): dependencies, switches, node lists, tasks per node " +
			"and the like are not known"},
	} {
		if !m.has {
			missing = append(missing, m.text)
		}
	}
	return missing
}

// Finish returns the workload. The caller must not use the builder afterwards. A source without
// a usable job is an error.
func (b *Builder) Finish() (*workload.Workload, error) {
	if b.opts.Record != nil && b.rows.Read > 0 {
		if err := b.settleRecords(); err != nil {
			return nil, err
		}
		if b.rows.Jobs == 0 && len(b.w.Unusable) == b.rows.Read {
			return nil, fmt.Errorf("it has no usable job%s", b.book.Summary())
		}
		b.w.Jobs, b.w.Rules, b.w.Rows, b.w.Mistake = workload.JobsOf(), b.book.Counts, b.counted(), b.book.Mistake()
		return b.w, nil
	}
	if err := b.settle(); err != nil {
		return nil, err
	}
	b.arrays = make(arrays.Parts)
	for _, entry := range b.list {
		b.addUser(&entry.rec)
		if err := b.job(entry); err != nil {
			return nil, err
		}
	}
	b.finishArrays()
	if len(b.made) == 0 {
		return nil, fmt.Errorf("it has no usable job%s", b.book.Summary())
	}
	slices.SortStableFunc(b.made, func(x, y *hpc.Job) int { return cmp.Compare(x.Submit, y.Submit) })
	var order workload.OrderCheck // of accounting records the order means nothing, but a gap does
	for _, job := range b.made {
		if err := order.Job(&b.book, job.Submit); err != nil {
			return nil, fmt.Errorf("job %s: %w", job.ID, err)
		}
	}
	b.resolveDependencies()
	b.w.Jobs = workload.JobsOf(b.made...)
	b.w.Sort()
	b.w.Epoch = hpc.Unix(b.w.Jobs.Submit(0).UnixSeconds())
	b.w.Rules, b.w.Rows, b.w.Mistake = b.book.Counts, b.counted(), b.book.Mistake()
	return b.w, nil
}

// counted returns what became of the records.
func (b *Builder) counted() workload.Rows {
	rows := b.rows
	for _, rule := range drops {
		rows.Dropped += b.book.Counts[rule]
	}
	return rows
}

// job makes a job of a record, or adds the record to the job of its array.
func (b *Builder) job(entry *built) error {
	r := &entry.rec
	if first := entry.atStart; first != nil {
		r.Submit, r.Eligible = first.Submit, max(r.Eligible, first.End)
	}
	behaviour, err := b.behaviour(r)
	if err != nil {
		return err
	}
	if behaviour == nil {
		return nil
	}
	request, err := b.request(r)
	if err != nil {
		return err
	}
	if r.State == hpc.TimedOut && r.Start != 0 && request.TimeLimit > 0 && request.TimeLimit != hpc.Unlimited {
		behaviour.RunTime, behaviour.ExitCode = hpc.Unlimited, 0 // its limit is what ends it
	} else if behaviour.ExitCode != 0 && r.State != hpc.Failed && r.State != hpc.Completed {
		b.Note(NoteExitsForOther)
	}
	if entry.requeued {
		request.Requeue = new(false) // its next run is there already
	}
	if entry.atStart != nil { // it does not wait again for what the first run waited for
		request.Dependency, request.Begin = "", r.Eligible.Sub(r.Submit)
	}
	if r.HetJob != 0 {
		b.Note(NoteHetJob)
	}
	job := &hpc.Job{
		ID: r.ID, Submit: r.Submit, Request: request, Behaviour: *behaviour,
		Recorded: r.Recorded(),
	}
	if r.Start == 0 {
		job.Recorded.Processors = 0
	}
	switch {
	case r.ArrayJob == 0, r.ArrayTask < 0 && r.ArrayRest == "", entry.requeued:
	case b.preset(r):
		b.arrays.Add(r.array(), &arrays.Part{Job: job, Tasks: []int{r.ArrayTask}, Alone: true})
	default:
		b.arrayTask(entry, job)
		return nil
	}
	job.Array = ""
	b.rows.Jobs++
	b.made = append(b.made, job)
	return nil
}

// behaviour returns what the job does when it runs. It returns nil for a job that cannot be
// replayed, and counts it.
func (b *Builder) behaviour(r *Job) (*hpc.Behaviour, error) {
	if r.State.Ended() && r.Start == 0 && r.End == 0 && r.State != hpc.Completed && r.Elapsed <= 0 {
		r.End = r.Submit // it must not run
		b.Note(NoteNoInstants)
	}
	ended := r.State.Ended() && r.End > 0
	neverRan := r.Start == 0 || ended && r.Start == r.End && r.NodeList == "" && r.Elapsed <= 0
	switch {
	case ended && neverRan && (r.State == hpc.Completed || r.Elapsed > 0):
		return nil, b.Unusable(RuleNoStartAtAll, r.ID, "job %s: it ran and ended, but no start is known", r.ID)
	case ended && neverRan:
		// Nobody knows how long the job would have run if it had not been cancelled.
		b.Note(NoteNeverStarted)
		r.Start = 0
		return &hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: max(r.End.Sub(r.Submit), 1)}, nil
	case r.Start == 0:
		b.Note(NoteNeverStarted)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case !ended:
		b.Note(NoteRunning)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case r.Elapsed >= 0:
		return &hpc.Behaviour{RunTime: r.Elapsed, ExitCode: r.status()}, nil
	}
	return &hpc.Behaviour{RunTime: max(r.End.Sub(r.Start)-r.Suspended, 0), ExitCode: r.status()}, nil
}

// arrayTask adds a task, or the tasks of a record of several tasks, to the job of its array. Tasks
// that ask for different things, or that were cancelled at different times, make several jobs.
func (b *Builder) arrayTask(entry *built, job *hpc.Job) {
	r, tasks := &entry.rec, entry.tasks
	if r.ArrayTask >= 0 {
		tasks = []int{r.ArrayTask}
	} else if entry.limit > 0 && !strings.Contains(job.Array, "%") {
		job.Array = "%" + strconv.Itoa(entry.limit)
	}
	b.rows.Jobs++
	var limit string
	if at := strings.IndexByte(job.Array, '%'); at >= 0 {
		limit = job.Array[at:]
	}
	job.Array = limit
	array, parts := r.array(), 0
	for _, part := range b.arrays[array] {
		if part.Alone {
			continue
		}
		if arrays.Same(part.Job, job) {
			part.Join(job, tasks)
			return
		}
		parts++
	}
	job.ID = array
	if parts > 0 {
		b.Note(NoteArrayParts)
		job.ID += "#" + strconv.Itoa(parts+1)
	}
	part := &arrays.Part{Job: job, Tasks: tasks}
	part.Record(job, tasks)
	b.arrays.Add(array, part)
	b.made = append(b.made, job)
}

// finishArrays writes the task indices of each array.
func (b *Builder) finishArrays() {
	b.book.Note(arrays.NoteLimit, b.arrays.Limited())
	for _, parts := range b.arrays {
		for _, p := range parts {
			slices.Sort(p.Tasks)
			p.Tasks = slices.Compact(p.Tasks)
			if !p.Alone {
				p.Job.Recorded.Unify(p.Tasks)
				p.Job.Array = arrays.IndexList(p.Tasks) + p.Job.Array
			}
		}
	}
}

// resolveDependencies drops the conditions on jobs that are not in the workload, because those
// had ended before it. A dependency may give the name of a job if the name is unique, as the
// command lines of a replay's own jobs do. It may give the number of an array that became
// several jobs.
func (b *Builder) resolveDependencies() {
	ids, names := make(map[string]bool, len(b.made)), make(map[string]string)
	for _, job := range b.made {
		ids[job.ID] = true
		if _, twice := names[job.Name]; twice {
			names[job.Name] = ""
		} else {
			names[job.Name] = job.ID
		}
	}
	known := func(id string) string {
		if ids[id] {
			return id
		}
		return names[id]
	}
	for _, job := range b.made {
		if job.Dependency == "" {
			continue
		}
		gone, inexact := b.arrays.Rewrite(job, known)
		b.book.Note(NoteDependencyGone, gone)
		b.book.Note(arrays.NoteDependency, inexact)
		if job.Dependency == "" && arrays.BeginWhenEligible(job, b.opts.Start) {
			b.Note(NoteBegin)
		}
	}
}
