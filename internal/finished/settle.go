package finished

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// again stores another record of a known ID, unless it repeats a known record. Because files may be
// read in any order, settle decides about the records only when it has all of them.
func (e *built) again(b *Builder, r *Job, text string) error {
	e.startFromSteps = false
	for i := -1; i < len(e.others); i++ {
		known := &e.rec
		if i >= 0 {
			known = &e.others[i]
		}
		if known.Submit != r.Submit || known.Start != r.Start || known.End != r.End {
			continue
		}
		if compareKnowledge(known, r) < 0 {
			*known = *r
		}
		return b.Unusable(RuleDuplicate, text, "job %s occurs twice", r.ID)
	}
	e.others = append(e.others, *r)
	return nil
}

// latest returns the record that was added last.
func (e *built) latest() *Job {
	if n := len(e.others); n > 0 {
		return &e.others[n-1]
	}
	return &e.rec
}

// settle decides what the records of each ID mean. It sorts the jobs by submit time and then by
// number, so that the result does not depend on the order of the source.
func (b *Builder) settle() error {
	entries := b.list
	b.list = make([]*built, 0, len(entries))
	for _, e := range entries {
		if err := b.runs(e); err != nil {
			return err
		}
	}
	for _, e := range b.list {
		b.settleLostRuns(&e.rec)
	}
	if err := b.settleArrays(); err != nil {
		return err
	}
	b.cancelled = b.cancelledArrays()
	slices.SortStableFunc(b.list, b.compareSubmission)
	return nil
}

// compareSubmission orders jobs by submit time, number, and task or component. An array's tasks
// that have not started precede those that have started, unless their cancellation makes them a
// job of their own: then the lower task precedes, because slurmctld starts it first.
func (b *Builder) compareSubmission(x, y *built) int {
	place := func(e *built) (number uint32, at int) {
		switch r := &e.rec; {
		case r.ArrayJob != 0 && len(e.tasks) > 0 && r.State.Ended() && b.cancelled[r.array()] == 0:
			return r.ArrayJob, e.tasks[0]
		case r.ArrayJob != 0:
			return r.ArrayJob, r.ArrayTask
		case r.HetJob != 0:
			return r.HetJob, r.HetOffset
		}
		return e.rec.Number, 0
	}
	number, at := place(x)
	otherNumber, otherAt := place(y)
	return cmp.Or(cmp.Compare(x.rec.Submit, y.rec.Submit), cmp.Compare(number, otherNumber), cmp.Compare(at, otherAt))
}

// runs combines the records of an ID into a job: earlier records of its state, its sizes, and its
// runs. Runs that cannot belong to the same job become separate jobs.
func (b *Builder) runs(e *built) error {
	list := b.looks(e, NoteOutside)
	if len(list) == 0 {
		return nil
	}
	e.rec, e.lastSubmit = list[0], list[0].Submit
	b.list = append(b.list, e)
	last := e
	for i := range list[1:] {
		var err error
		if last, err = b.next(last, &list[i+1]); err != nil {
			return err
		}
	}
	return b.checkTimes(&e.rec)
}

// looks returns the sorted records of an ID. It leaves out records that another record supersedes. If the builder
// dropped the record with the end of a run, the rule in the parameter ended counts the run's other records.
func (b *Builder) looks(e *built, ended string) []Job {
	list := append([]Job{e.rec}, e.others...)
	e.others = nil
	slices.SortFunc(list, func(x, y Job) int {
		return cmp.Or(cmp.Compare(x.Submit, y.Submit), cmp.Compare(x.startOrNever(), y.startOrNever()),
			cmp.Compare(x.End, y.End))
	})
	list = slices.DeleteFunc(list, func(r Job) bool {
		gone := r.open() && b.ended.saw(&r)
		if gone {
			b.Note(ended)
		}
		return gone
	})
	return b.supersede(list)
}

// settleRecords processes the records that had to wait for other records: records of jobs that had
// not ended or were resized. Each run of a job becomes a separate record.
func (b *Builder) settleRecords() error {
	for _, e := range b.list {
		list := b.looks(e, NoteSuperseded)
		for i := range list {
			r := &list[i]
			switch {
			case r.State == slurmspec.Resizing && i+1 < len(list):
				r.resize(&list[i+1])
				list[i+1] = *r
				b.Note(NoteResized)
			case r.open() && b.allEnded(r):
				b.Note(NoteSuperseded)
			default:
				if err := b.record(*r); err != nil {
					return err
				}
			}
		}
	}
	return b.recordDoubtful()
}

// allEnded reports whether each task of a record of several tasks has a record of its own with an
// end.
func (b *Builder) allEnded(r *Job) bool {
	if r.ArrayJob == 0 || r.ArrayTask >= 0 {
		return false
	}
	a, err := hpc.ParseArray(r.ArrayRest)
	return err == nil && !slices.ContainsFunc(a.Tasks, func(task int) bool {
		id := strconv.FormatUint(uint64(r.ArrayJob), 10) + "_" + strconv.Itoa(task)
		return b.jobs[id] == nil && !b.ended.has(id, r.Submit) && !b.ended.has(id+requeuedMark, r.Submit)
	})
}

// resized reports whether a record can be one of several sizes of a job. slurmdbd records the
// instant of the change as the submit time of the next size.
func (r *Job) resized() bool {
	return r.State == slurmspec.Resizing || r.Start != 0 && r.Start < r.Submit
}

// open reports whether the record was written before the job ended.
func (r *Job) open() bool { return r.End == 0 && !r.State.Ended() }

// supersede drops records that a later record completes. A record of a waiting or running job is
// dropped if another record has the job's end. Of several records without an end, only the last is
// kept. The list must be sorted.
func (b *Builder) supersede(list []Job) []Job {
	last := -1 // index of the last open record
	for i := range list {
		if o := &list[i]; o.open() && (last < 0 || o.sameOwner(&list[last]) &&
			(o.Submit > list[last].Submit || o.Start > list[last].Start)) {
			last = i
		}
	}
	dropped := make([]bool, len(list))
	for i := range list {
		o := &list[i]
		if !o.open() {
			continue
		}
		by := slices.IndexFunc(list, func(x Job) bool { return !x.open() && o.sawBefore(&x) })
		if by < 0 && i != last && o.sameOwner(&list[last]) {
			by = last
		}
		if by < 0 {
			continue
		}
		dropped[i] = true
		b.Note(NoteSuperseded)
		// After a requeue, only the first run has the first submit time.
		if !slices.ContainsFunc(list, func(x Job) bool { return x.State.Requeues() && x.Submit <= o.Submit }) {
			list[by].earlier(o)
		}
	}
	kept := list[:0]
	for i := range list {
		if !dropped[i] {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// startOrNever returns the start, or [hpc.Never] for a job that has not started. Sorted by this
// result, the record of a run comes before a record in which the job waits again.
func (r *Job) startOrNever() hpc.Time {
	if r.Start == 0 {
		return hpc.Never
	}
	return r.Start
}

// sameOwner reports whether two records with the same ID can belong to the same user's job.
func (r *Job) sameOwner(o *Job) bool { return r.User == "" || o.User == "" || r.User == o.User }

// sawBefore reports whether the open record r was written during the run whose end is in the record
// ended, or during an earlier run. A job cannot be submitted or started again before it has ended.
func (r *Job) sawBefore(ended *Job) bool {
	switch {
	case !r.sameOwner(ended):
		return false
	case ended.State == slurmspec.Resizing: // the next size has the same start
		return r.Submit < ended.End
	case r.Start != 0:
		return r.Start < ended.End || r.Start == ended.Start
	case ended.State.Requeues() && r.Submit == ended.Submit: // the job waits again
		return false
	}
	return r.Submit < ended.End || r.Submit == ended.Submit
}

// earlier copies the first submit time from look, an earlier record of the job. If the job was resized after that
// record, earlier also copies the first request.
func (r *Job) earlier(look *Job) {
	r.UsedMemory, r.MovedBytes = max(r.UsedMemory, look.UsedMemory), max(r.MovedBytes, look.MovedBytes)
	switch {
	case look.Submit >= r.Submit:
	case look.Start != 0 && look.Start == r.Start:
		first := *look
		first.resize(r)
		*r = first
	default:
		r.Submit, r.Eligible = look.Submit, look.Eligible
	}
}

// resize adds the next record of a resized job. The job keeps its original request, and its end is
// the end of its last size.
func (r *Job) resize(next *Job) {
	r.Elapsed = -1
	if next.Start == r.Start {
		r.Elapsed = next.Elapsed
	}
	r.End, r.State, r.Restarts = next.End, next.State, next.Restarts
	r.ExitCode, r.Signal, r.HasExit = next.ExitCode, next.Signal, next.HasExit
	r.Suspended = max(r.Suspended, next.Suspended)
	r.UsedMemory, r.MovedBytes = max(r.UsedMemory, next.UsedMemory),
		r.MovedBytes+min(next.MovedBytes, math.MaxInt64-r.MovedBytes)
}

// next adds the next record of an ID to the job of the previous record: as its next size, as its
// next run, or as the same run with a later end. A record of another job with the same number
// becomes a separate job. next returns the record's job.
func (b *Builder) next(before *built, r *Job) (*built, error) {
	last := before.rec
	last.Submit = before.lastSubmit
	follow := func() {
		id, lost := before.rec.ID, before.rec.LostRuns
		before.rec, before.lastSubmit = *r, r.Submit
		before.rec.ID, before.rec.LostRuns = id, lost
	}
	switch {
	case last.Submit == r.Submit && last.Start == r.Start && last.sameOwner(r):
		first := before.rec
		follow()
		before.rec.Submit, before.rec.Eligible = first.Submit, first.Eligible
		b.Note(NoteSuperseded)
	case last.State == slurmspec.Resizing:
		before.rec.resize(r)
		before.lastSubmit = r.Submit
		b.Note(NoteResized)
	case last.State.Requeues() && !last.sameOwner(r) && b.late(r.Submit):
		b.Note(NoteOutside)
	case last.State.Requeues() && b.preset(&last):
		last.ID = b.freeID(r.ID)
		follow()
		before.atStart = &last
		b.enter(&last).requeued = true
		b.Note(NoteRequeuedPreset)
	case last.State.Requeues():
		// The user submitted the job once. The run time is the last run's.
		first := before.rec
		follow()
		before.rec.Submit, before.rec.Eligible = first.Submit, first.Eligible
		run := hpc.LostRun{Start: last.Start, End: last.End, Nodes: last.NodeList, Processors: last.AllocCPUs,
			Cause: last.State}
		if r.Eligible >= last.End {
			run.EligibleAgain = r.Eligible
		}
		before.rec.LostRuns = append(before.rec.LostRuns, run)
	case b.late(r.Submit): // another job that got the same number after the window
		b.Note(NoteOutside)
	default:
		other := *r
		other.ID = b.freeID(r.ID)
		entry := b.enter(&other)
		if err := b.checkTimes(&entry.rec); err != nil {
			return nil, err
		}
		return entry, b.book.Fall(workload.RuleRenamed, "job %s occurs twice, with different times", r.ID)
	}
	return before, nil
}

// settleLostRuns drops and counts the lost runs that are not between a job's submission and its
// last run.
func (b *Builder) settleLostRuns(r *Job) {
	after, until := r.Submit, cmp.Or(r.Start, r.End, hpc.Never)
	r.LostRuns = slices.DeleteFunc(r.LostRuns, func(run hpc.LostRun) bool {
		if run.Start < after || run.End < run.Start || run.End > until {
			b.Note(NoteRequeued)
			return true
		}
		after = run.End
		b.Joined()
		return false
	})
	if len(r.LostRuns) == 0 {
		r.LostRuns = nil
	}
}

// compareKnowledge orders two records of the same run by the number of their fields with a value.
// If these numbers are equal, their content decides, so the order of the source does not matter.
func compareKnowledge(a, b *Job) int {
	fields := func(r *Job) (n int) {
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				n++
			}
		}
		return n
	}
	text := func(r *Job) []byte {
		text, _ := json.Marshal(r) // a struct of numbers and texts can always be encoded
		return text
	}
	ended := func(r *Job) int {
		if r.State.Ended() {
			return 1
		}
		return 0
	}
	if c := cmp.Or(cmp.Compare(ended(a), ended(b)), cmp.Compare(fields(a), fields(b))); c != 0 {
		return c
	}
	return bytes.Compare(text(a), text(b))
}

// outsiders are ended jobs whose records are not stored, such as jobs that ended before the
// window. Another file may have a record that was written while the job waited or ran. There can
// be many of these jobs, so only hashes are stored: of the ID with the submit time, and of the ID
// with the negative start.
type outsiders struct {
	hashes []uint64
	sorted bool
}

var outsiderSeed = maphash.MakeSeed()

func hashOf(id string, submit hpc.Time) uint64 {
	return maphash.Comparable(outsiderSeed, struct {
		id     string
		submit hpc.Time
	}{id, submit})
}

// add adds a job if it ended before the given instant.
func (o *outsiders) add(id string, submit, end, before hpc.Time) {
	if end != 0 && end <= before {
		o.hashes, o.sorted = append(o.hashes, hashOf(id, submit)), false
	}
}

// addRun adds a run that has ended.
func (o *outsiders) addRun(r *Job) {
	o.add(r.ID, -r.Start, r.End, r.End)
	if r.State.Requeues() {
		o.add(r.ID+requeuedMark, r.Submit, r.End, r.End)
	} else {
		o.add(r.ID, r.Submit, r.End, r.End)
		o.add(r.ID+lastMark, 0, r.End, r.End)
	}
}

// Suffixes of IDs before hashing, for runs that were requeued and for last runs.
const requeuedMark, lastMark = " requeued", " last"

// saw reports whether the run in an open record is known to have ended. A waiting job with the
// submit time of a requeued run waits again, unless the job's last run has ended, too.
func (o *outsiders) saw(r *Job) bool {
	return o.has(r.ID, r.Submit) || r.Start != 0 && o.has(r.ID, -r.Start) || o.has(r.ID+requeuedMark, r.Submit) &&
		o.has(r.ID+lastMark, 0)
}

func (o *outsiders) has(id string, submit hpc.Time) bool {
	if !o.sorted {
		slices.Sort(o.hashes)
		o.sorted = true
	}
	_, found := slices.BinarySearch(o.hashes, hashOf(id, submit))
	return found
}

// settleArrays reads the lists of tasks that have not started. It removes the tasks that another
// record covers better: their own record, or a later list.
func (b *Builder) settleArrays() error {
	waiting := make(map[uint32][]*built) // records of several tasks, by array
	for _, e := range b.list {
		if e.rec.ArrayJob != 0 && e.rec.ArrayTask < 0 && e.rec.ArrayRest != "" && !e.requeued {
			waiting[e.rec.ArrayJob] = append(waiting[e.rec.ArrayJob], e)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	own := make(map[uint32]map[int][]hpc.Time) // the submit times of tasks with their own records
	for _, e := range b.list {
		if array := e.rec.ArrayJob; e.rec.ArrayTask >= 0 && waiting[array] != nil {
			if own[array] == nil {
				own[array] = make(map[int][]hpc.Time)
			}
			own[array][e.rec.ArrayTask] = append(own[array][e.rec.ArrayTask], e.rec.Submit)
		}
	}
	gone := make(map[*built]bool)
	for _, e := range b.list { // in the order of the source, so that unusable records are in this order
		if waiting[e.rec.ArrayJob] == nil || e.rec.ArrayTask >= 0 || e.rec.ArrayRest == "" || e.requeued {
			continue
		}
		usable, err := b.readTasks(e)
		if err != nil {
			return err
		}
		gone[e] = !usable
	}
	for array, list := range waiting {
		list = slices.DeleteFunc(list, func(e *built) bool { return gone[e] })
		b.claim(list, own[array])
		for _, e := range list {
			if len(e.tasks) == 0 {
				gone[e] = true
				b.Note(NoteSuperseded)
			}
		}
	}
	b.list = slices.DeleteFunc(b.list, func(e *built) bool { return gone[e] })
	return nil
}

// claim removes certain tasks from the records of an array's waiting tasks: tasks with their own
// record, tasks that ended before the window, and tasks that another record of several tasks
// covers better.
func (b *Builder) claim(list []*built, own map[int][]hpc.Time) {
	slices.SortFunc(list, func(x, y *built) int {
		return cmp.Or(-cmp.Compare(x.rec.End, y.rec.End), cmp.Compare(len(x.tasks), len(y.tasks)),
			slices.Compare(x.tasks, y.tasks),
			-compareKnowledge(&x.rec, &y.rec))
	})
	type task struct {
		number int
		submit hpc.Time
	}
	taken := make(map[task]bool)
	for _, e := range list {
		r := &e.rec
		e.tasks = slices.DeleteFunc(e.tasks, func(number int) bool {
			t := task{number, r.Submit}
			if taken[t] || slices.ContainsFunc(own[number], func(submit hpc.Time) bool {
				return submit >= r.Submit && (r.End == 0 || submit <= r.End)
			}) {
				return true
			}
			taken[t] = true
			return r.open() && b.ended.has(strconv.FormatUint(uint64(r.ArrayJob), 10)+"_"+strconv.Itoa(number), r.Submit)
		})
	}
}

// readTasks reads the tasks in a record of several tasks. If it cannot, it counts the record and
// returns false.
func (b *Builder) readTasks(e *built) (usable bool, err error) {
	r := &e.rec
	if !strings.Contains(r.ArrayRest, cut) {
		a, err := hpc.ParseArray(r.ArrayRest)
		if err != nil {
			return false, b.Unusable(RuleNoRecord, r.ID, "job %s: %v", r.ID, err)
		}
		e.tasks, e.limit = a.Tasks, a.Limit
		return true, nil
	}
	a, ok := cutTasks(r)
	if !ok {
		return false, b.Unusable(RuleArrayCut, r.ID,
			"job %s: sacct has cut the list of its tasks (want SLURM_BITSTR_LEN=0 in sacct's environment, or the column "+
				"SubmitLine with --array)", r.ID)
	}
	e.tasks, e.limit = a.Tasks, a.Limit
	b.Note(NoteArrayList)
	return true, nil
}

// cut is what Slurm's commands write when they cut off a list of tasks at SLURM_BITSTR_LEN bytes,
// 64 by default. They may cut inside of a number, so the last number is unknown ("1,4,7,1...%2").
const cut = "..."

// cutTasks returns the tasks of a list that was cut off: the tasks in the list, and all later tasks
// in the command line or the script. ok is false if neither the command line nor the script has a
// list that begins like the cut list.
func cutTasks(r *Job) (a hpc.Array, ok bool) {
	listed, rest, _ := strings.Cut(r.ArrayRest, cut)
	a, err := hpc.ParseArray(r.Asked().Array)
	if err != nil {
		return a, false
	}
	if _, limit, has := strings.Cut(rest, "%"); has { // scontrol can change the limit
		if n, err := strconv.Atoi(limit); err == nil && n > 0 {
			a.Limit = n
		}
	}
	at := strings.LastIndexByte(listed, ',')
	if at < 0 {
		return a, false // a single range whose end was cut off
	}
	known, err := hpc.ParseArray(listed[:at])
	if err != nil {
		return a, false
	}
	for _, task := range known.Tasks {
		if _, found := slices.BinarySearch(a.Tasks, task); !found {
			return a, false
		}
	}
	last := known.Tasks[len(known.Tasks)-1]
	behind, found := slices.BinarySearch(a.Tasks, last)
	if found {
		behind++
	}
	a.Tasks = append(known.Tasks, a.Tasks[behind:]...)
	return a, true
}

// killWait is how long the processes of a running job may outlive its cancellation. Slurm's
// KillWait is 30 seconds by default.
const killWait = time.Minute

// cancelledArrays returns the instants at which users cancelled their arrays. It returns no
// instant for an array of which a task ran on after the cancellation, or whose tasks were
// cancelled at different instants.
func (b *Builder) cancelledArrays() map[string]hpc.Time {
	// ends are the first and the last end of tasks that never ran, and the last end of other
	// tasks.
	type ends struct{ first, last, others hpc.Time }
	arrays := make(map[string]ends)
	for _, e := range b.list {
		r := &e.rec
		if !r.isTask() || e.requeued || b.preset(r) {
			continue
		}
		of := arrays[r.array()]
		switch end := r.End; {
		case end == 0 || !r.State.Ended():
			of.others = hpc.Never
		case r.State != hpc.Completed && r.Elapsed <= 0 && (r.Start == 0 || b.gone(r)):
			of.first, of.last = cmp.Or(min(of.first, end), end), max(of.last, end)
		case r.State == hpc.Cancelled:
			of.others = max(of.others, end.Add(-killWait))
		default:
			of.others = max(of.others, end)
		}
		arrays[r.array()] = of
	}
	cancelled := make(map[string]hpc.Time)
	for array, of := range arrays {
		if of.first != 0 && of.last.Sub(of.first) <= rounding && of.others <= of.last {
			cancelled[array] = of.last
		}
	}
	return cancelled
}
