package workload

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// The rules that records of Slurm's accounting fall under. A record under one of the
// first four is no job to replay and is kept in [Workload.Unusable].
const (
	RuleNoRecord      = "record_unreadable"      // not a record of the format
	RuleNoSubmit      = "no_submit_time"         // the submit time is not known
	RuleNoSize        = "no_processors"          // no positive number of processors or nodes
	RuleDuplicate     = "duplicate_record"       // the same job is there twice
	RuleTimesReversed = "times_reversed"         // it ends before it starts, or starts before it is submitted
	RuleBadValue      = "bad_value"              // a field that is not necessary has no sense, and is ignored
	RuleBadSubmitLine = "submit_line_unreadable" // the command line is not sbatch's as we know it
	RuleNoStart       = "start_from_steps"       // the job's start is missing and taken from its first step
	RuleNoStartAtAll  = "no_start_time"          // it ended and used nodes, but no start is known
)

// The notes that a [Builder] counts: not dirt, but decisions where the source does not
// say what the workload needs.
const (
	NoteRequeued       = "requeued_run_folded" // an earlier run of a job that was requeued
	NoteRunning        = "still_running"       // the job had not ended: it runs until its time limit
	NoteNeverStarted   = "never_started"       // what it would have run is not known: until its time limit
	NoteBegin          = "begin_from_eligible" // --begin stands for whatever kept the job from being eligible
	NoteOutside        = "outside_window"      // jobs that ended before the window or were submitted after it
	NoteRequeuedPreset = "requeued_run_preset" // the one that ran at the window's start is a job of its own
	NoteArrayParts     = "array_in_parts"      // tasks of an array that cannot be one job with the others
	NoteDependencyGone = "dependency_dropped"  // on jobs that had ended before the window
	NoteHetJob         = "het_job_component"   // components of heterogeneous jobs are jobs of their own
)

// Record is a job as Slurm's accounting has it: one record for each task of an array
// that has started, and one for each time that a job ran. A zero value means that
// the source does not say.
type Record struct {
	ID        string // as sacct prints it: "17", "17_3", "17_[4-9%2]" or "17+1"
	Number    uint32 // the job's own number (JobIDRaw); 0 if not known
	ArrayJob  uint32 // the array's number; 0 for a job that is none
	ArrayTask int    // -1 for a job that is no single task
	ArrayRest string // the tasks that never started, as "4-9%2"
	HetJob    bool   // a component of a heterogeneous job

	Name, User, Group, Account, Partition, QOS, WCKey, Reservation string
	UID, GID                                                       uint32
	HasUID                                                         bool
	Constraint, Licenses, Comment                                  string

	Submit, Eligible, Start, End hpc.Time
	Suspended                    time.Duration
	// Elapsed is how long it ran; -1 if not known.
	Elapsed   time.Duration
	TimeLimit time.Duration
	State     hpc.State
	ExitCode  int
	Signal    int  // that ended its script; 0 for none
	Held      bool // the reason for its waiting was that somebody held it
	Priority  *uint32

	ReqCPUs, ReqNodes, AllocCPUs, AllocNodes int
	MemPerNode, MemPerCPU                    int64  // MiB
	Memory                                   int64  // MiB for the whole job, where only that is known
	GRES                                     string // per node
	GPUs                                     string // for the whole job
	NodeList                                 string

	// SubmitLine is the command that submitted it; Script the batch script.
	SubmitLine, Script string
}

// Builder makes a workload of accounting records. They may come in any order, except
// that steps follow the record of their job.
type Builder struct {
	w    *Workload
	opts ReadOptions
	book ruleBook

	jobs    map[string]*built // by ID
	list    []*built          // in the order of the source
	made    []*hpc.Job        // of them, while they may change
	users   map[string]hpc.User
	records int
	has     fieldPresence
	arrays  arrayParts
}

// built is a job in the making.
type built struct {
	rec Record
	// startFromSteps says that rec.Start is that of a step.
	startFromSteps bool
	// requeued says that this is the run at the window's start of a job that ran again.
	requeued bool
	// atStart is that run, of the job that the last run is; else nil.
	atStart *Record
	// lastSubmit is when the last run went to the queue. Where it is one of several, rec.Submit is
	// when the first did.
	lastSubmit hpc.Time
}

// fieldPresence says of which fields any record had something.
type fieldPresence struct {
	user, account, qos, timeLimit, submitLine, nodeList, uid, memory bool
}

// NewBuilder returns a builder for a workload from a source of the given name.
func NewBuilder(source string, opts ReadOptions) *Builder {
	return &Builder{
		w: &Workload{Source: source, Start: opts.Start}, opts: opts, book: ruleBook{strict: opts.Strict},
		jobs: make(map[string]*built), users: make(map[string]hpc.User),
	}
}

// note counts a decision. It is no dirt, so a strict reader takes it.
func (b *Builder) note(what string) { b.noteN(what, 1) }

func (b *Builder) noteN(what string, n int) {
	if n == 0 {
		return
	}
	if b.book.counts == nil {
		b.book.counts = make(map[string]int)
	}
	b.book.counts[what] += n
}

// Unusable keeps a record that is no job, or returns it as an error if the reading is
// strict. text is the record as the source has it.
func (b *Builder) Unusable(rule, text, format string, args ...any) error {
	if err := b.book.fall(rule, format, args...); err != nil {
		return err
	}
	b.w.Unusable = append(b.w.Unusable, Unusable{Record: b.records, Rule: rule, Text: validText([]byte(text))})
	return nil
}

// InWindow reports whether a job with these times belongs to the window: it was
// submitted before the window's end and had not ended at its start (Martinasso et
// al., SC'18, Fig. 2). An end of 0 is not known.
func (o *ReadOptions) InWindow(submit, end hpc.Time) bool {
	return (o.End.IsZero() || submit < o.End) && (end.IsZero() || o.Start.IsZero() || end > o.Start)
}

// Add takes a record; one of a job outside the window is counted and forgotten. text
// is the record as the source has it, to be kept if it is no job.
func (b *Builder) Add(r *Record, text string) error {
	b.records++
	switch {
	case r.Submit <= 0:
		return b.Unusable(RuleNoSubmit, text, "job %s: no submit time", r.ID)
	case !b.opts.InWindow(r.Submit, r.End):
		b.note(NoteOutside)
		return nil
	case max(r.ReqCPUs, r.AllocCPUs, r.ReqNodes, r.AllocNodes) <= 0:
		return b.Unusable(RuleNoSize, text, "job %s: neither processors nor nodes", r.ID)
	}
	for _, text := range []*string{
		&r.Name, &r.User, &r.Group, &r.Account, &r.WCKey, &r.Reservation, &r.Comment, &r.SubmitLine, &r.Script,
	} {
		if !utf8.ValidString(*text) { // as MariaDB gives it, if nobody converted it
			*text = validText([]byte(*text))
		}
	}
	if err := b.checkTimes(r); err != nil {
		return err
	}
	if before := b.jobs[r.ID]; before != nil {
		return b.again(before, r, text)
	}
	b.enter(r)
	return nil
}

// checkTimes makes the times of a record agree.
func (b *Builder) checkTimes(r *Record) error {
	switch {
	case r.Start > 0 && r.Start < r.Submit:
		r.Start = r.Submit
		r.End = max(r.End, r.Start)
	case r.Start > 0 && r.End > 0 && r.End < r.Start, r.Start == 0 && r.End > 0 && r.End < r.Submit:
		r.End = max(r.Start, r.Submit)
	default:
		return nil
	}
	return b.book.fall(RuleTimesReversed, "job %s: submit %s, start %s and end %s contradict each other", r.ID, r.Submit, r.Start, r.End)
}

// enter takes a record as a job of its own.
func (b *Builder) enter(r *Record) *built {
	entry := &built{rec: *r, lastSubmit: r.Submit}
	b.jobs[r.ID] = entry
	b.list = append(b.list, entry)
	h := &b.has
	h.user = h.user || r.User != ""
	h.account = h.account || r.Account != ""
	h.qos = h.qos || r.QOS != ""
	h.timeLimit = h.timeLimit || r.TimeLimit != 0
	h.submitLine = h.submitLine || r.SubmitLine != ""
	h.nodeList = h.nodeList || r.NodeList != ""
	h.uid = h.uid || r.HasUID
	h.memory = h.memory || r.Memory != 0 || r.MemPerCPU != 0 || r.MemPerNode != 0
	if _, known := b.users[r.User]; !known && r.User != "" && r.HasUID {
		user := hpc.User{Name: r.User, UID: r.UID, Group: r.Group, GID: r.GID}
		if user.Group == "" {
			user.Group = strconv.FormatUint(uint64(r.GID), 10)
		}
		b.users[r.User] = user
		b.w.Users = append(b.w.Users, user)
	}
	return entry
}

// again takes another record of a job that is known: another run of it, the same
// again, or another job of that number.
func (b *Builder) again(before *built, r *Record, text string) error {
	last := before.rec
	last.Submit = before.lastSubmit
	earlier, later := &last, r
	if later.Submit < earlier.Submit || later.Submit == earlier.Submit && later.Start != 0 && later.Start < earlier.Start {
		earlier, later = later, earlier
	}
	switch {
	case earlier.Submit == later.Submit && earlier.Start == later.Start && earlier.End == later.End:
		return b.Unusable(RuleDuplicate, text, "job %s is there twice", r.ID)
	case wasRequeued(earlier.State) && b.preset(earlier):
		preset := *earlier
		preset.ID = b.freeID(r.ID)
		before.atStart = &preset
		if later == r {
			before.rec, before.lastSubmit = *r, r.Submit
		}
		b.enter(&preset).requeued = true
		b.note(NoteRequeuedPreset)
		return nil
	case wasRequeued(earlier.State):
		// The job was submitted once; its last run says how long it runs.
		first := before.rec
		if r.Submit < first.Submit {
			first = *r
		}
		if later == r {
			before.rec, before.lastSubmit = *r, r.Submit
		}
		before.rec.Submit, before.rec.Eligible = first.Submit, first.Eligible
		b.note(NoteRequeued)
		return nil
	}
	other := *r
	other.ID = b.freeID(r.ID)
	b.enter(&other)
	return b.book.fall(RuleRenamed, "job %s is there twice, with other times", r.ID)
}

// freeID makes an ID that no job has of one that some job has.
func (b *Builder) freeID(taken string) string {
	for n := 2; ; n++ {
		if id := taken + "#" + strconv.Itoa(n); b.jobs[id] == nil {
			return id
		}
	}
}

// preset reports whether a job of the window ran at its start.
func (b *Builder) preset(r *Record) bool { return r.Start != 0 && r.Start < b.opts.Start }

// wasRequeued reports whether a job that ended a run like this can run again.
func wasRequeued(s hpc.State) bool {
	switch s {
	case hpc.Requeued, hpc.NodeFail, hpc.Preempted, hpc.BootFail, "RESIZING":
		return true
	}
	return false
}

// Step takes the start of a job's step: where the job's own start is missing, that of
// its first step stands for it.
func (b *Builder) Step(job string, start hpc.Time) {
	entry := b.jobs[job]
	if entry == nil || start <= 0 {
		return
	}
	r := &entry.rec
	if r.Start != 0 && (!entry.startFromSteps || r.Start <= start) || start < r.Submit {
		return
	}
	if r.Start == 0 {
		b.note(RuleNoStart)
	}
	r.Start, entry.startFromSteps = start, true
}

// Missing says what the source does not say of any job, and what follows from that.
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
		{b.has.nodeList, "no job has a node list: jobs that run at the window's start cannot be put where they were"},
		{b.has.submitLine, "no job has its command line (SubmitLine): dependencies, switches, node lists, tasks per node and the like are not known"},
	} {
		if !m.has {
			missing = append(missing, m.text)
		}
	}
	return missing
}

// Finish returns the workload. The builder must not be used afterwards. A source
// without a job is an error.
func (b *Builder) Finish() (*Workload, error) {
	b.arrays = make(arrayParts)
	for _, entry := range b.list {
		if err := b.job(entry); err != nil {
			return nil, err
		}
	}
	b.finishArrays()
	if len(b.made) == 0 {
		return nil, fmt.Errorf("no usable job in it%s", ruleList(b.book.counts))
	}
	slices.SortStableFunc(b.made, func(x, y *hpc.Job) int { return cmp.Compare(x.Submit, y.Submit) })
	var order orderCheck // of accounting records the order means nothing, but a gap does
	for _, job := range b.made {
		if err := order.job(&b.book, job.Submit); err != nil {
			return nil, fmt.Errorf("job %s: %w", job.ID, err)
		}
	}
	b.resolveDependencies()
	b.w.Jobs = JobsOf(b.made...)
	b.w.sort()
	b.w.Epoch = hpc.Unix(b.w.Jobs.Submit(0).UnixSeconds())
	b.w.Rules = b.book.counts
	return b.w, nil
}

// job makes a job of a record, or adds it to the job that its array is.
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
	}
	if entry.requeued {
		request.Requeue = new(false) // its next run is there already
	}
	if entry.atStart != nil { // what it waited for then it does not wait for again
		request.Dependency, request.Begin = "", r.Eligible.Sub(r.Submit)
	}
	if r.HetJob {
		b.note(NoteHetJob)
	}
	job := &hpc.Job{
		ID: r.ID, Submit: r.Submit, Request: request, Behaviour: *behaviour,
		Recorded: &hpc.Recorded{
			Eligible: r.Eligible, Start: r.Start, End: r.End, State: r.State,
			Nodes: r.NodeList, Processors: r.AllocCPUs,
		},
	}
	if r.Start == 0 {
		job.Recorded.Processors = 0
	}
	if r.Priority != nil {
		job.Recorded.Priority = *r.Priority
	}
	switch {
	case r.ArrayJob == 0, r.ArrayTask < 0 && r.ArrayRest == "", entry.requeued:
	case b.preset(r):
		b.arrays.add(r.array(), &arrayPart{job: job, tasks: []int{r.ArrayTask}, alone: true})
	default:
		return b.arrayTask(r, job)
	}
	job.Array = ""
	b.made = append(b.made, job)
	return nil
}

// behaviour says what the job does once it runs. It is nil for a job that cannot be
// replayed, which is counted.
func (b *Builder) behaviour(r *Record) (*hpc.Behaviour, error) {
	ended := r.State.Ended() && r.End > 0
	neverRan := r.Start == 0 || ended && r.Start == r.End && r.NodeList == "" && r.Elapsed <= 0
	switch {
	case ended && neverRan && (r.State == hpc.Completed || r.Elapsed > 0):
		return nil, b.Unusable(RuleNoStartAtAll, r.ID, "job %s: it ran and ended, but no start is known", r.ID)
	case ended && neverRan:
		// It would have run for a time that nobody knows, had it not been cancelled.
		b.note(NoteNeverStarted)
		r.Start = 0
		return &hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: max(r.End.Sub(r.Submit), 1)}, nil
	case r.Start == 0:
		b.note(NoteNeverStarted)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case !ended:
		b.note(NoteRunning)
		return &hpc.Behaviour{RunTime: hpc.Unlimited}, nil
	case r.Elapsed >= 0:
		return &hpc.Behaviour{RunTime: r.Elapsed, ExitCode: r.status()}, nil
	}
	return &hpc.Behaviour{RunTime: max(r.End.Sub(r.Start)-r.Suspended, 0), ExitCode: r.status()}, nil
}

// status is what the script of a job that ran exits with, so that who waits for the job
// sees it end as it did, well or not. Of one that a signal ended it is what a shell makes
// of that (bash(1), EXIT STATUS); one that something else ended, as the failure of a
// node, exits with 1.
func (r *Record) status() int {
	switch {
	case r.ExitCode != 0 || r.State == hpc.Completed:
		return r.ExitCode
	case r.Signal != 0:
		return min(128+r.Signal, 255)
	}
	return 1
}

// request says what the job asked for: its command line where there is one, and what
// the record says, which has the last word.
func (b *Builder) request(r *Record) (hpc.Request, error) {
	request, known, err := b.commandLine(r)
	if err != nil {
		return request, err
	}
	if !known {
		request = hpc.Request{}
		recordedSize(&request, r)
	}
	request.User = r.User
	request.Name = orElse(r.Name, request.Name)
	request.Account = orElse(r.Account, request.Account)
	request.QOS = orElse(r.QOS, request.QOS)
	request.WCKey = orElse(strings.TrimPrefix(r.WCKey, "*"), request.WCKey) // a default key has a star
	if b.preset(r) || !slices.Contains(strings.Split(request.Partition, ","), r.Partition) {
		request.Partition = r.Partition // a preset job runs where it did
	}
	if request.Group = ""; r.Group != "" && r.Group != b.users[r.User].Group {
		request.Group = r.Group
	}
	if r.TimeLimit > 0 {
		request.TimeLimit = r.TimeLimit
	}
	request.Reservation = orElse(request.Reservation, r.Reservation)
	request.Constraint = orElse(request.Constraint, r.Constraint)
	request.Licenses = orElse(request.Licenses, r.Licenses)
	request.Comment = orElse(request.Comment, r.Comment)
	if r.Held && r.Start == 0 {
		request.Hold = true
	}
	eligible := r.Eligible
	released := request.Hold && r.Start != 0
	if released {
		request.Hold = false
		if eligible == 0 {
			eligible = r.Start // by then at the latest
		}
	}
	// A job that waited for another, or whose array has a limit, became eligible
	// later without anybody's wish.
	if eligible > r.Submit && !request.Hold && (released || !known && r.ArrayJob == 0) {
		request.Begin = eligible.Sub(r.Submit)
		b.note(NoteBegin)
	}
	return request, nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// commandLine reads the options of the batch script and the command line. ok is false
// if there is none, or it cannot be read, which is counted.
func (b *Builder) commandLine(r *Record) (request hpc.Request, ok bool, err error) {
	words, err := sbatch.Split(r.SubmitLine)
	if len(words) < 2 && r.Script == "" {
		return request, false, nil
	}
	if err == nil && len(words) > 0 {
		words = words[1:] // sbatch itself
	}
	var s *sbatch.Submission
	if err == nil {
		s, err = sbatch.Parse(append(scriptOptions(r.Script), words...), r.Submit)
	}
	if err != nil {
		return request, false, b.book.fall(RuleBadSubmitLine, "job %s: its command line: %v", r.ID, err)
	}
	return s.Request, true, nil
}

// scriptOptions are the words of a batch script's #SBATCH lines, which end at the
// first line that is neither blank nor a comment (sbatch(1)).
func scriptOptions(script string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			break
		}
		if options, ok := strings.CutPrefix(line, "#SBATCH"); ok {
			if more, err := sbatch.Split(options); err == nil {
				words = append(words, more...)
			}
		}
	}
	return words
}

// recordedSize takes the size from what the database has of the request.
func recordedSize(request *hpc.Request, r *Record) {
	request.MinNodes = r.ReqNodes
	if request.MinNodes == 0 {
		request.MinNodes = r.AllocNodes
	}
	if request.MinNodes == r.AllocNodes {
		request.MaxNodes = r.AllocNodes // as it ran; who asked for no number may have got more
	}
	request.Tasks = r.ReqCPUs
	if request.Tasks == 0 {
		request.Tasks = r.AllocCPUs
	}
	switch {
	case r.MemPerCPU > 0:
		request.MemPerCPU = r.MemPerCPU
	case r.MemPerNode > 0:
		request.MemPerNode = r.MemPerNode
	case r.Memory > 0:
		request.MemPerNode = r.Memory / int64(max(request.MinNodes, 1))
	}
	request.GRES, request.GPUs = r.GRES, r.GPUs
}

// arrayTask adds a task to the job that its array is. Tasks that differ in what they
// ask for, or in when they were cancelled, make several jobs.
func (b *Builder) arrayTask(r *Record, job *hpc.Job) error {
	tasks := []int{r.ArrayTask}
	if r.ArrayTask < 0 {
		a, err := hpc.ParseArray(r.ArrayRest)
		if err != nil {
			return b.Unusable(RuleNoRecord, r.ID, "job %s: %v", r.ID, err)
		}
		tasks = a.Tasks
		if a.Limit > 0 && !strings.Contains(job.Array, "%") {
			job.Array = "%" + strconv.Itoa(a.Limit)
		}
	}
	var limit string
	if at := strings.IndexByte(job.Array, '%'); at >= 0 {
		limit = job.Array[at:]
	}
	job.Array = limit
	array, parts := r.array(), 0
	for _, part := range b.arrays[array] {
		if part.alone {
			continue
		}
		if sameArray(part.job, job) {
			part.join(job, tasks)
			return nil
		}
		parts++
	}
	job.ID = array
	if parts > 0 {
		b.note(NoteArrayParts)
		job.ID += "#" + strconv.Itoa(parts+1)
	}
	part := &arrayPart{job: job, tasks: tasks}
	part.fate(job, tasks)
	b.arrays.add(array, part)
	b.made = append(b.made, job)
	return nil
}

// array is what the record's array is called.
func (r *Record) array() string { return strconv.FormatUint(uint64(r.ArrayJob), 10) }

// sameArray reports whether two tasks can be one job. A limit on how many run at once
// may be known of one only.
func sameArray(a, b *hpc.Job) bool {
	x, y := a.Request, b.Request
	if x.Array == "" || y.Array == "" {
		x.Array, y.Array = "", ""
	}
	return a.Submit == b.Submit && a.CancelAfter == b.CancelAfter && reflect.DeepEqual(x, y)
}

// join adds tasks to the job of an array.
func (p *arrayPart) join(task *hpc.Job, tasks []int) {
	job := p.job
	for _, i := range tasks {
		differs(&job.TaskRunTimes, i, task.RunTime, job.RunTime)
		differs(&job.TaskExitCodes, i, task.ExitCode, job.ExitCode)
	}
	p.fate(task, tasks)
	p.tasks = append(p.tasks, tasks...)
	job.Array = orElse(job.Array, task.Array)
	whole, part := job.Recorded, task.Recorded
	whole.Eligible = earlier(whole.Eligible, part.Eligible)
	if part.Start != 0 && earlier(whole.Start, part.Start) != whole.Start {
		whole.Start, whole.Priority, whole.Processors = part.Start, part.Priority, part.Processors
	}
	whole.End = max(whole.End, part.End)
	whole.Nodes = "" // each has its own
	if whole.State != part.State {
		whole.State = ""
	}
}

// fate notes what became of some of its tasks.
func (p *arrayPart) fate(task *hpc.Job, tasks []int) {
	whole, part := p.job.Recorded, task.Recorded
	for _, i := range tasks {
		differs(&whole.TaskStarts, i, part.Start, 0)
		differs(&whole.TaskEnds, i, part.End, 0)
		differs(&whole.TaskNodes, i, part.Nodes, "")
	}
}

// earlier is the earlier of two instants, of which either may not be known.
func earlier(a, b hpc.Time) hpc.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// differs notes what is so of a task of an array, where it is not so of the array.
func differs[V comparable](tasks *map[int]V, task int, value, ofArray V) {
	if value == ofArray {
		return
	}
	if *tasks == nil {
		*tasks = make(map[int]V)
	}
	(*tasks)[task] = value
}

// finishArrays writes down which tasks each array has.
func (b *Builder) finishArrays() {
	b.noteN(NoteArrayLimit, b.arrays.limited())
	for _, parts := range b.arrays {
		for _, p := range parts {
			slices.Sort(p.tasks)
			p.tasks = slices.Compact(p.tasks)
			if !p.alone {
				p.job.Array = indexList(p.tasks) + p.job.Array
			}
		}
	}
}

// resolveDependencies drops the conditions on jobs that the workload does not have:
// they had ended before it. A job may be called by its name where that is unique, as
// in the command lines of a replay's own jobs, and an array by its number where it is
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
		gone, inexact := b.arrays.rewrite(job, known)
		b.noteN(NoteDependencyGone, gone)
		b.noteN(NoteDependencyParts, inexact)
		if job.Dependency == "" && BeginWhenEligible(job, b.opts.Start) {
			b.note(NoteBegin)
		}
	}
}
