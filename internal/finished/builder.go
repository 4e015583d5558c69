package finished

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
)

// The rules that records of finished jobs can break. A record that breaks one of the first four,
// RuleNoStartAtAll or RuleArrayCut cannot be replayed; [workload.Workload.Unusable] keeps it.
const (
	RuleNoRecord      = "record_unreadable"      // not a record of the format
	RuleNoSubmit      = "no_submit_time"         // the submit time is unknown
	RuleNoSize        = "no_processors"          // no positive number of processors or nodes
	RuleDuplicate     = "duplicate_record"       // the same job occurs twice
	RuleTimesReversed = "times_reversed"         // the end is before the start, or the start before the submit time
	RuleElapsed       = "elapsed_too_long"       // Elapsed exceeds the time from start to end; that time is used
	RuleElapsedShort  = "elapsed_too_short"      // Elapsed is shorter than the time from start to end without suspensions
	RuleState         = "unknown_state"          // the state is not one of Slurm's; the exit code decides
	RuleBadValue      = "bad_value"              // a field that is not necessary has an invalid value, and is ignored
	RuleBadSubmitLine = "submit_line_unreadable" // the options of the command line contradict each other
	// RuleSubmitLineOption counts jobs with an unknown option or an option with an invalid value.
	// The option is ignored.
	RuleSubmitLineOption = "submit_line_option"
	// RuleSubmitLineDiffers counts jobs whose columns contradict their command line. The
	// values of the columns are used.
	RuleSubmitLineDiffers = "submit_line_differs"
	RuleNoStart           = "start_from_steps" // the job's start is missing; the start of its first step is used
	RuleNoStartAtAll      = "no_start_time"    // the job ended and used nodes, but its start is unknown
	RuleArrayCut          = "array_tasks_cut"  // sacct cut off the list of an array's tasks, and no other field has it
)

// The notes that a [Builder] counts. They are not mistakes in the source. They count decisions in
// cases where the source lacks what the workload needs.
const (
	NoteRequeued       = "requeued_run_folded"     // an earlier run of a requeued job, with missing or impossible times
	NoteRunning        = "still_running"           // the job had not ended; it runs until its time limit
	NotePastLimit      = "running_past_limit"      // a running job's limit passed long before the window; see [overrun]
	NoteOvertime       = "ran_past_limit"          // the job ran longer than its limit and [hpc.Overtime], and is not a TIMEOUT
	NoteNoInstants     = "cancelled_at_submission" // the job never started, and the time of its cancellation is unknown
	NoteExitsForOther  = "ends_with_exit_code"     // something other than its script or limit ended the job
	NoteNeverStarted   = "never_started"           // the job's run time is unknown; it runs until its time limit
	NoteBegin          = "begin_from_eligible"     // --begin replaces the unknown cause of a later eligible time
	NoteOutside        = "outside_window"          // the job ended before the window or was submitted after it
	NoteRequeuedPreset = "requeued_run_preset"     // the run at the window's start becomes a separate job
	NoteArrayParts     = "array_in_parts"          // tasks of an array that cannot be in one job with its other tasks
	NoteDependencyGone = "dependency_dropped"      // a condition on a job that had ended before the window
	NoteFromAllocation = "request_from_allocation" // the request is unknown; the job requests what it was allocated
	NoteNoCPUs         = "cpus_not_known"          // only the nodes or GPUs are known; see [Builder.lacksCPUs]
	// Two notes about records for accounting, of jobs that ran on an unknown number of processors: the requested
	// processors count as the allocated ones, or these are not known either.
	NoteCPUsRequested = "cpus_from_request"
	NoteNoCPUHours    = "cpu_hours_not_known"
	// options after --wrap are ignored, because they may belong to the wrapped command
	NoteWrapped      = "submit_line_wrapped"
	NoteHetJob       = "het_job_component" // a component of a heterogeneous job, which becomes a separate job
	NoteOtherCluster = "other_cluster"     // a record of a cluster that the options exclude
	// a record that is not about a job's submission, start or end
	NoteOtherRecord    = "other_record"
	NoteSuspension     = "suspension_not_known"  // as RuleElapsedShort, in a source that does not say suspensions
	NoteEndFromElapsed = "end_from_elapsed"      // the end is not recorded; it is computed from the start and the run time
	NoteTRES           = "tres_not_requested"    // resources in ReqTRES that cannot be requested, such as burst buffers
	NoteSuperseded     = "superseded_record"     // an earlier record of a job's state, which another record completes
	NoteResized        = "resized_run_folded"    // an earlier size of a job that was resized
	NoteStep           = "step_left_out"         // a step that is not needed, or whose job is missing
	NoteArrayList      = "array_tasks_from_line" // sacct cut off the list of tasks, and the command line has it
)

// drops are the rules and notes for records that are dropped: a dropped record is neither a job nor
// a part of a job. Readers count records that they drop for other reasons with [Builder.Drop].
var drops = []string{
	RuleNoRecord, RuleNoSubmit, RuleNoSize, RuleDuplicate, RuleNoStartAtAll, RuleArrayCut,
	NoteRequeued, NoteResized, NoteSuperseded, NoteOutside, NotePastLimit, NoteOtherCluster, NoteOtherRecord, NoteStep,
}

// Builder makes a workload from finished jobs. The jobs may be added in any order. A job's steps
// must be added after the job.
type Builder struct {
	w    *workload.Workload
	opts workload.ReadOptions
	book workload.RuleBook

	jobs     map[string]*built // by ID
	list     []*built          // in the order of the source; after settle, in the order of submission
	made     []*hpc.Job        // the workload's jobs, while they may change
	users    map[string]hpc.User
	ended    outsiders // jobs that ended before the window
	rows     workload.Rows
	clusters []string // the clusters of all jobs, if the source names them
	has      fieldPresence
	// doubtful are records that a later record's node list decides on; see [Builder.record].
	doubtful []Job
	arrays   arrays.Parts
	held     held
	// requeues has the first submission of each job that is the later run of a job at the window's start.
	requeues map[*hpc.Job]hpc.Time
	// cancelled has the instant at which an array was cancelled, by the array's ID; see
	// [Builder.cancelledArrays].
	cancelled map[string]hpc.Time
}

// built is a job under construction.
type built struct {
	rec Job
	// others are the further records with the same ID, until the method settle decides what they
	// mean.
	others []Job
	// startFromSteps is true if rec.Start is the start of a step.
	startFromSteps bool
	// requeued says that rec is the run that the job had when the window began, and that the job ran again later.
	requeued bool
	// atStart is nil unless rec is the later run of such a job. Then atStart is the run that the job had when the window
	// began.
	atStart *Job
	// lastSubmit is the submit time of the last run; rec.Submit is the submit time of the first run.
	lastSubmit hpc.Time
	// tasks are the tasks that rec stands for, if there are several. limit is the highest number of
	// them that may run at the same time; 0 means no limit.
	tasks []int
	limit int
}

// fieldPresence says which fields have a value in at least one record.
type fieldPresence struct {
	user, account, partition, qos, timeLimit, submitLine, nodeList, uid, memory, tres, constraint bool
}

// NewBuilder returns a builder for a workload. source describes the origin of the jobs.
func NewBuilder(source string, opts workload.ReadOptions) *Builder {
	return &Builder{
		w: &workload.Workload{Source: source, Start: opts.Start}, opts: opts, book: workload.RuleBook{Strict: opts.Strict},
		jobs: make(map[string]*built), users: make(map[string]hpc.User),
		requeues: make(map[*hpc.Job]hpc.Time),
	}
}

// Note counts a decision of the reader or the builder. A strict reader accepts such records,
// because they are not mistakes in the source.
func (b *Builder) Note(what string) { b.book.Note(what, 1) }

// Fall counts a record that breaks a rule and returns nil. With strict options, it returns an error
// instead.
func (b *Builder) Fall(rule, format string, args ...any) error {
	return b.book.Fall(rule, format, args...)
}

// At says where in the source the next records are; see [workload.RuleBook.At].
func (b *Builder) At(name, unit string, number int) { b.book.At(name, unit, number) }

// Row counts a record of the source. A reader must call it once for each record, before it
// processes the record.
func (b *Builder) Row() { b.rows.Read++ }

// Part counts a record that is not a job, but has data on the job with this ID, for example a step.
// If there is no such job, Part counts the record under [NoteStep] and returns false.
func (b *Builder) Part(job string) bool {
	if b.jobs[job] == nil {
		b.Note(NoteStep)
		return false
	}
	b.Joined()
	return true
}

// Joined counts a record with further data on a job that has a record of its own.
func (b *Builder) Joined() { b.rows.Parts++ }

// Drop counts a record that the reader drops under a rule of its own; see [Builder.Note].
func (b *Builder) Drop(what string) {
	b.Dropped()
	b.Note(what)
}

// Dropped counts a record that the reader drops, without naming a rule.
func (b *Builder) Dropped() { b.rows.Dropped++ }

// submitted adds an instant of submission to the span of the records.
func (b *Builder) submitted(at hpc.Time) {
	if b.w.FirstSubmit == 0 || at < b.w.FirstSubmit {
		b.w.FirstSubmit = at
	}
	b.w.LastSubmit = max(b.w.LastSubmit, at)
}

// Unusable keeps a record that cannot be replayed. With strict options, it returns an error
// instead. text is the unchanged record.
func (b *Builder) Unusable(rule, text, format string, args ...any) error {
	if err := b.book.Fall(rule, format, args...); err != nil {
		return err
	}
	b.w.Unusable = append(b.w.Unusable, workload.Unusable{Record: b.rows.Read, Rule: rule, Text: lines.UTF8([]byte(text))})
	return nil
}

// Add adds a record, and may change it. A job outside the window is counted and dropped. text is
// the unchanged record; the workload keeps it if the record cannot be replayed.
func (b *Builder) Add(r *Job, text string) error {
	switch {
	case r.Submit <= 0:
		return b.Unusable(RuleNoSubmit, text, "job %s: no submit time", r.ID)
	case !b.opts.InWindow(r.Submit, r.End) && !b.again(r.ID, r.Submit):
		late := *r
		return b.Outside(r.ID, r.Submit, r.End, func() error { return b.Add(&late, text) })
	}
	b.submitted(r.Submit)
	if b.opts.Record == nil {
		b.fromTRES(r)
	} else {
		_ = TakeTRES(r) // the error is handled when a workload is made from the record
	}
	if max(r.ReqCPUs, r.AllocCPUs, r.ReqNodes, r.AllocNodes) <= 0 {
		return b.Unusable(RuleNoSize, text, "job %s: neither processors nor nodes", r.ID)
	}
	for _, text := range []*string{
		&r.Name, &r.User, &r.Group, &r.Account, &r.WCKey, &r.Reservation, &r.Comment, &r.SubmitLine, &r.Script,
	} {
		if !utf8.ValidString(*text) { // for example a text from MariaDB that was not converted
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
	} else if err := before.again(b, r, text); err != nil {
		return err
	}
	return b.release(r)
}

// record passes a record that is a job to the function Record of the options. A job that left the queue without
// running has no start, as in a workload. If it is not known yet whether a job ran, the job
// is stored in b.doubtful.
func (b *Builder) record(r Job) error {
	if err := b.checkTimes(&r); err != nil {
		return err
	}
	if r.NodeList != "" && !b.has.nodeList {
		b.has.nodeList = true
		if err := b.recordDoubtful(); err != nil {
			return err
		}
	}
	if r.State.Ended() && r.noTime() && !b.gone(&r) {
		b.doubtful = append(b.doubtful, r)
		return nil
	}
	return b.pass(&r)
}

// recordDoubtful passes the jobs in b.doubtful to the function Record. It is called when a record with a node list has
// been read, or at the end.
func (b *Builder) recordDoubtful() error {
	for i := range b.doubtful {
		if err := b.pass(&b.doubtful[i]); err != nil {
			return err
		}
	}
	b.doubtful = nil
	return nil
}

func (b *Builder) pass(r *Job) error {
	if r.State.Ended() && b.gone(r) {
		r.Start = 0
	}
	if r.Start != 0 && r.AllocCPUs == 0 {
		if r.ReqCPUs > 0 {
			b.Note(NoteCPUsRequested)
		} else {
			b.Note(NoteNoCPUHours)
		}
	}
	if r.Start == 0 && r.lostStart() {
		if err := b.Fall(RuleNoStartAtAll, errNoStart, r.ID); err != nil {
			return err
		}
	}
	b.rows.Jobs++
	return b.opts.Record(r)
}

// latestSlack is how long after [workload.ReadOptions.Latest] an end may be, because clocks and time zones differ.
const latestSlack = 24 * time.Hour

// CheckSlurm corrects and counts contradictions in a record of Slurm's accounting, where Elapsed is exactly the time
// from start to end without suspensions. A reader calls it before [Builder.Add]. suspensions says whether the source
// has the time in which a job was suspended.
func (b *Builder) CheckSlurm(r *Job, suspensions bool) error {
	if err := b.checkState(r); err != nil {
		return err
	}
	if r.Start == 0 || r.End <= r.Start || r.resized() || !r.State.Ended() {
		return nil
	}
	missing := r.End.Sub(r.Start) - r.Suspended - r.Elapsed
	told := r.Elapsed >= 0
	read := hpc.Time(b.opts.Latest.UnixNano())
	latest := read.Add(latestSlack)
	switch {
	case told && missing <= rounding: // checkTimes compares an Elapsed that is too long
		return nil
	case !b.opts.Latest.IsZero() && r.Submit <= latest && r.End > latest:
		err := b.Fall(RuleBadValue, "job %s: End %s: after %s, when the record was read or its file last changed", r.ID,
			r.End, read)
		if r.End = 0; told && r.Elapsed > 0 {
			r.End = r.Start.Add(r.Elapsed + r.Suspended)
			b.Note(NoteEndFromElapsed)
		}
		return err
	case told && suspensions:
		return b.Fall(RuleElapsedShort, "job %s: it ran for %s and was suspended for %s between start %s and end %s (want "+
			"the time between them)", r.ID, r.Elapsed, r.Suspended, r.Start, r.End)
	case told:
		b.Note(NoteSuspension)
	}
	return nil
}

// checkState counts a state that Slurm does not have. Then an ended job failed if it has an exit code other than 0.
func (b *Builder) checkState(r *Job) error {
	if r.State == "" || slurmspec.IsRecordedState(r.State) {
		return nil
	}
	told := r.State
	switch {
	case r.End == 0:
		r.State = ""
	case r.ExitCode != 0 || r.Signal != 0:
		r.State = hpc.Failed
	default:
		r.State = hpc.Completed
	}
	return b.Fall(RuleState, "job %s: State %.40q: not a state of Slurm", r.ID, told)
}

// rounding is how much a recorded run time may exceed the time from start to end, because sources
// round.
const rounding = time.Second

// checkTimes corrects times of a record that contradict each other.
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
		r.Submit, r.Eligible = r.Start, min(r.Eligible, r.Start) // the last size of a resized job
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

// enter adds a record as a separate job.
func (b *Builder) enter(r *Job) *built {
	entry := &built{rec: *r, lastSubmit: r.Submit}
	b.jobs[r.ID] = entry
	b.list = append(b.list, entry)
	return entry
}

// note records which fields the record has.
func (b *Builder) note(r *Job) {
	h := &b.has
	h.user = h.user || r.User != ""
	h.account = h.account || r.Account != ""
	h.partition = h.partition || r.Partition != ""
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

// freeID returns an unused ID that begins with taken, an ID in use.
func (b *Builder) freeID(taken string) string {
	for n := 2; ; n++ {
		if id := taken + "#" + strconv.Itoa(n); b.jobs[id] == nil {
			return id
		}
	}
}

// preset reports whether a job in the window was running when the window began.
func (b *Builder) preset(r *Job) bool { return r.Start != 0 && r.Start < b.opts.Start }

// Step adds the start of a step. If the start of the job is missing, the builder uses the start of
// its first step.
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

// Used adds the resources that a step of a job used, in bytes: the memory of all its tasks, and
// the data that they read and wrote.
func (b *Builder) Used(job string, memory, moved float64) {
	const most = 1 << 60
	if entry := b.jobs[job]; entry != nil {
		r := entry.latest()
		r.UsedMemory = max(r.UsedMemory, int64(min(max(memory, 0), most)))
		r.MovedBytes = min(r.MovedBytes+int64(min(max(moved, 0), most)), most)
	}
}

// LacksStart reports whether the builder still needs a job's steps to know the job's start.
func (b *Builder) LacksStart(id []byte) bool {
	entry := b.jobs[string(id)]
	return entry != nil && (entry.latest().Start == 0 || entry.startFromSteps)
}

// Missing lists the fields that are missing for all jobs, and the consequences.
func (b *Builder) Missing() []string {
	var missing []string
	noCPUs, pastLimits := b.lacksCPUs(), b.pastLimits()
	for _, m := range []struct {
		has  bool
		text string
	}{
		{noCPUs == "", noCPUs},
		{pastLimits == "", pastLimits},
		{b.has.user, "no job has a user: a replay on Slurm rejects all jobs"},
		{b.has.uid, "no job has a UID: the cluster directory must name the users"},
		{b.has.account, "no job has an account: jobs run under their users' default accounts"},
		{b.has.partition, "no job has a partition: jobs run in the default partition"},
		{b.has.qos, "no job has a QOS: jobs run under their default QOS"},
		{b.has.timeLimit, "no job has a time limit: the partitions' defaults apply"},
		{b.has.memory, "no job asks for memory: the configuration's defaults apply"},
		{b.has.tres || b.has.submitLine, "no job has its resources (ReqTRES or AllocTRES): GPUs are not known, and " +
			"no job asks for GPUs"},
		{b.has.constraint || b.has.submitLine, "no job asks for features of nodes (Constraints): each may run on any " +
			"nodes of its partition"},
		{b.has.nodeList, "no job has a node list: jobs that run at the window's start cannot be put where they were"},
		{b.has.submitLine, "no job has its command line (SubmitLine): dependencies, limits of arrays (%N), switches, " +
			"node lists, tasks per node and the like are not known"},
	} {
		if !m.has {
			missing = append(missing, m.text)
		}
	}
	return missing
}

// lacksCPUs returns a text if at least half of the jobs lack CPUs, and otherwise "". Such a job asks for one CPU
// on each node, as with sbatch -N. The text does not propose whole nodes for all of them: on a cluster that gives only
// whole nodes, the configuration does so for each request, and on another cluster an unknown number of CPUs does
// not mean that the job had its nodes for itself.
func (b *Builder) lacksCPUs() string {
	lack, jobs := b.book.Counts[NoteNoCPUs], b.rows.Jobs
	if lack == 0 || 2*lack < jobs {
		return ""
	}
	who := "no job has CPUs: each"
	if lack < jobs {
		who = fmt.Sprintf("jobs without CPUs: %d of %d: each of these", lack, jobs)
	}
	return who + " asks for one CPU a node, as with sbatch -N alone (want the CPUs; if jobs had whole nodes, the nodes " +
		"times the CPUs of a node, which a table's map writes as cpus: {column: NODES, times: CPUS}; then the rule exclusive " +
		"of workload complete asks for whole nodes)"
}

// pastLimits returns a text about jobs that ran past their time limits if they are many, or "".
func (b *Builder) pastLimits() string {
	past, jobs := b.book.Counts[NoteOvertime], b.rows.Jobs
	if 20*past <= jobs {
		return ""
	}
	return fmt.Sprintf("%d of %s ran past the time limit and did not end as TIMEOUT: a run ends them at the limit "+
		"(check the time limits, in a table's map the unit of time_limit)", past, quantity.Regular(jobs, "job"))
}

// ErrNoJob says that a source has no usable job.
var ErrNoJob = errors.New("it has no usable job")

// Finish returns the workload. The caller must not use the builder afterwards. If the source has no
// usable job, Finish returns [ErrNoJob].
func (b *Builder) Finish() (*workload.Workload, error) {
	if len(b.clusters) > 1 {
		return nil, SeveralClusters(b.clusters)
	}
	b.At("", "", 0)
	b.drop()
	if b.opts.Record != nil && b.rows.Read > 0 {
		if err := b.settleRecords(); err != nil {
			return nil, err
		}
		if b.rows.Jobs == 0 && len(b.w.Unusable) == b.rows.Read {
			return nil, fmt.Errorf("%w%s", ErrNoJob, b.book.Summary())
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
		return nil, fmt.Errorf("%w%s%s", ErrNoJob, b.book.Summary(), b.span())
	}
	slices.SortStableFunc(b.made, func(x, y *hpc.Job) int { return cmp.Compare(x.Submit, y.Submit) })
	var order workload.OrderCheck // accounting records may have any order, but a gap between them is suspicious
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

// span says in which time the jobs were submitted, for an error, if jobs are outside the window.
func (b *Builder) span() string {
	if b.book.Counts[NoteOutside]+b.book.Counts[NotePastLimit] == 0 {
		return ""
	}
	return fmt.Sprintf("; the jobs were submitted from %s to %s (want a window within that time)", b.w.FirstSubmit,
		b.w.LastSubmit)
}

// counted returns how many records were read, used and dropped.
func (b *Builder) counted() workload.Rows {
	rows := b.rows
	for _, rule := range drops {
		if rule != RuleNoStartAtAll || b.opts.Record == nil { // the function Record gets a job without a start
			rows.Dropped += b.book.Counts[rule]
		}
	}
	return rows
}

// job makes a job from a record, or adds the record to the job of its array.
func (b *Builder) job(entry *built) error {
	r := &entry.rec
	if first := entry.atStart; first != nil { // it waits from the requeue on
		r.Submit = max(r.Submit, first.End)
		if r.Start != 0 {
			r.Submit = min(r.Submit, r.Start)
		}
		r.Eligible = max(r.Eligible, r.Submit)
	}
	behaviour, err := b.behaviour(r)
	if err != nil {
		return err
	}
	if behaviour == nil {
		return nil
	}
	request, beginMade, err := b.request(r)
	if err != nil {
		return err
	}
	if r.State == hpc.TimedOut && r.Start != 0 && request.TimeLimit > 0 && request.TimeLimit != hpc.Unlimited {
		behaviour.RunTime, behaviour.ExitCode = hpc.Unlimited, 0 // the time limit ends it
	} else if limit := r.TimeLimit; limit > 0 && limit != hpc.Unlimited && behaviour.RunTime != hpc.Unlimited &&
		behaviour.RunTime-hpc.Overtime > limit {
		b.Note(NoteOvertime)
	}
	if behaviour.ExitCode != 0 && r.State != hpc.Failed && r.State != hpc.Completed {
		b.Note(NoteExitsForOther)
	}
	if entry.requeued {
		request.Requeue = new(false) // its next run is a separate job
	}
	if entry.atStart != nil { // the later run does not wait again for what the first run waited for
		request.Dependency, request.Begin, beginMade = "", r.Eligible.Sub(r.Submit), true
	}
	if r.HetJob != 0 {
		b.Note(NoteHetJob)
	}
	job := &hpc.Job{
		ID: r.ID, Submit: r.Submit, Request: request, Behaviour: *behaviour,
		Recorded: r.Recorded(),
	}
	job.Recorded.BeginMade = beginMade && job.Begin > 0
	if entry.atStart != nil {
		b.requeues[job] = entry.atStart.Submit
	}
	if r.Start == 0 {
		job.Recorded.Processors = 0
	}
	switch {
	case !r.isTask(), entry.requeued:
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

// behaviour returns how the job behaves when it runs. If the job cannot be replayed, behaviour
// counts it and returns nil.
func (b *Builder) behaviour(r *Job) (*hpc.Behaviour, error) {
	if r.State.Ended() && r.Start == 0 && r.End == 0 && r.State != hpc.Completed && r.Elapsed <= 0 {
		r.End = r.Submit // the job must not run
		b.Note(NoteNoInstants)
	}
	ended := r.State.Ended() && r.End > 0
	neverRan := r.Start == 0 || ended && b.gone(r)
	switch {
	case neverRan && r.lostStart():
		return nil, b.Unusable(RuleNoStartAtAll, r.ID, errNoStart, r.ID)
	case ended && neverRan:
		// How long the job would have run if it had not been cancelled is unknown.
		b.Note(NoteNeverStarted)
		r.Start = 0
		return &hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: max(r.End.Sub(r.Submit), 1)}, nil
	case r.Start == 0:
		b.Note(NoteNeverStarted)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case !ended && b.pastLimit(r):
		b.Note(NotePastLimit)
		return nil, nil
	case !ended:
		b.Note(NoteRunning)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case r.Elapsed >= 0:
		return &hpc.Behaviour{RunTime: r.Elapsed, ExitCode: r.status()}, nil
	}
	return &hpc.Behaviour{RunTime: max(r.End.Sub(r.Start)-r.Suspended, 0), ExitCode: r.status()}, nil
}

// overrun is how long a job may run beyond its limit. Slurm's OverTimeLimit gives minutes. If a job's record has no
// end, and its limit passed longer before the window, then the record is older than the end, or the end was
// lost. The builder leaves such a job out, because it cannot have run when the window began.
const overrun = 24 * time.Hour

// pastLimit reports whether the limit of a running job passed longer than overrun before the window.
func (b *Builder) pastLimit(r *Job) bool {
	return r.State == hpc.Running && r.TimeLimit > 0 && r.TimeLimit != hpc.Unlimited && b.opts.Start > r.Start &&
		b.opts.Start.Sub(r.Start)-r.TimeLimit-r.Suspended > overrun
}

// errNoStart is the text of an error about a job; see [Job.lostStart].
const errNoStart = "job %s: it ran and ended, but no start is known"

// lostStart reports whether a job without a start ran nevertheless: it completed, or it has a run time.
func (r *Job) lostStart() bool {
	return r.State.Ended() && (r.State == hpc.Completed || r.Elapsed > 0)
}

// gone reports whether an ended job's start is only the instant at which it left the queue. slurmctld sets both
// instants when a pending job is cancelled or fails, and the job has no nodes then. If the source has no node lists,
// only the state can decide: a user or a deadline ends pending jobs, too.
func (b *Builder) gone(r *Job) bool {
	return r.noTime() && (r.State == hpc.Cancelled || r.State == hpc.Deadlined || b.has.nodeList)
}

// noTime reports whether a job that did not complete has the same start and end, and no nodes.
func (r *Job) noTime() bool {
	return r.Start == r.End && r.Elapsed <= 0 && !r.Ran && r.NodeList == "" && r.State != hpc.Completed
}

// arrayTask adds a task, or all tasks of a record, to the job of the array. Tasks with different
// requests, or with different times of cancellation, become several jobs. If the user cancelled
// the array, the cancellation of the job replaces those of the tasks.
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
	if at := b.cancelled[array]; at != 0 {
		job.CancelAfter = max(at.Sub(job.Submit), 1)
		if r.State == hpc.Cancelled && r.End >= at.Add(-rounding) {
			job.RunTime, job.ExitCode = hpc.Unlimited, 0 // the cancellation ends it
		}
	}
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

// finishArrays sets the task indices of each array.
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

// resolveDependencies drops conditions on jobs that are not in the workload, because they had ended before the
// workload began. A dependency may refer to a job by name if the name is unique, as the command lines of a replay's
// own jobs do. It may also refer to an array by number, even if the array became several jobs.
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
		b.submitEarlier(job)
		b.book.Note(NoteDependencyGone, gone)
		b.book.Note(arrays.NoteDependency, inexact)
		if job.Dependency == "" && arrays.BeginWhenEligible(job, b.opts.Start) {
			b.Note(NoteBegin)
		}
	}
}
