// Package complete fills in fields that a workload's record lacks: time limits, users, accounts,
// QOS, partitions, memory, whole nodes, and the usage before the workload begins. A declared rule
// makes each field from the rest of the record, from facts about the site and from random numbers
// of the field's own seed. So a field that was not recorded becomes a distribution: every draw is
// one workload that the record allows.
//
// The workload has the rules and all data that they need ([workload.Completion]). Each job names
// its fields that were made ([hpc.Job.Made]). [Redraw] makes them again with other seeds.
package complete

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Options say how a workload is completed.
type Options struct {
	// Rules replaces the default rules of fields; "none" leaves a field out.
	Rules map[workload.Field]string
	Site  workload.SiteFacts
	Like  *workload.Likeness // data of the rule "like"; nil without a log to learn from
	Seed  uint64
}

// None is the rule that leaves a field out.
const None = "none"

// Complete returns a workload in which rules have made the fields that w lacks. A field that was
// already made is made again, by the same rule or by the rule that the options give. A rule of the
// options makes its field for each job that lacks it, even if w as a whole does not lack the field
// ([workload.Lacks]). The workload w is not changed. The error names a rule that is unknown or that lacks data. If w lacks no field,
// the result has no completion.
func Complete(w *workload.Workload, opts Options) (*workload.Workload, error) {
	base := cleared(w)
	c := &workload.Completion{Site: opts.Site, Like: opts.Like}
	before := map[workload.Field]string{}
	if w.Completion != nil {
		for _, f := range w.Completion.Fields {
			before[f.Field] = f.Rule
		}
	}
	lacks := workload.Lacks(base)
	for _, field := range workload.Fields {
		rule, set := opts.Rules[field]
		lacking := slices.ContainsFunc(lacks, func(l workload.Lack) bool { return l.Field == field })
		if !lacking && (!set || field == workload.FieldUsage) {
			continue
		}
		if !set {
			rule, set = before[field]
		}
		if !set {
			rule = defaultRule(field, base, &opts)
		}
		if rule == None {
			continue
		}
		if err := check(field, rule, &opts); err != nil {
			return nil, fmt.Errorf("completing %s: %s=%s: %w", w.Source, field, rule, err)
		}
		c.Fields = append(c.Fields, workload.MadeField{Field: field, Rule: rule, Draw: opts.Seed})
	}
	return apply(base, c)
}

// Redraw returns a copy of the workload with new random values in the fields that rules filled in. The parameter draw
// gives the seed of each field. A workload without such fields is returned unchanged.
func Redraw(w *workload.Workload, draw func(place int, f workload.Field) uint64) (*workload.Workload, error) {
	if w.Completion == nil {
		return w, nil
	}
	c := *w.Completion
	c.Fields = slices.Clone(c.Fields)
	opts := Options{Site: c.Site, Like: c.Like}
	for i := range c.Fields {
		f := &c.Fields[i]
		if err := check(f.Field, f.Rule, &opts); err != nil {
			return nil, fmt.Errorf("drawing %s again: %s=%s: %w", w.Source, f.Field, f.Rule, err)
		}
		f.Draw = draw(i, f.Field)
	}
	return apply(cleared(w), &c)
}

// cleared returns a copy of the workload without the fields that rules made.
func cleared(w *workload.Workload) *workload.Workload {
	out := *w
	if w.Completion == nil {
		return &out
	}
	out.Completion = nil
	for _, f := range w.Completion.Fields {
		if f.Field == workload.FieldUsage {
			out.Usage = nil
		}
	}
	out.Jobs = rebuilt(&w.Jobs, func(_ int, job *hpc.Job) {
		made := workload.MadeFields(job)
		if made[workload.FieldTimeLimit] != "" {
			runAsRecorded(job)
		}
		for field := range made {
			(&values{}).put(job, field)
		}
		job.Made = ""
	})
	return &out
}

// rebuilt returns a new list with changed copies of the jobs, so that draws in several goroutines
// share no memory.
func rebuilt(jobs *workload.Jobs, change func(i int, job *hpc.Job)) (out workload.Jobs) {
	for i, job := range jobs.All() {
		change(i, job)
		out.Append(job)
		if origin := jobs.Origin(i); origin != (workload.Origin{}) {
			out.SetOrigin(i, origin)
		}
	}
	return out
}

// apply makes the fields of a completion. It drops fields that no job got.
func apply(w *workload.Workload, c *workload.Completion) (*workload.Workload, error) {
	m := newMaker(w, c)
	for i := range c.Fields {
		f := &c.Fields[i]
		m.rng = rand.New(rand.NewPCG(f.Draw, stream(f.Field)))
		if err := m.make(f); err != nil {
			return nil, fmt.Errorf("completing %s: %s=%s: %w", w.Source, f.Field, f.Rule, err)
		}
	}
	out := *w
	out.Jobs = rebuilt(&w.Jobs, func(i int, job *hpc.Job) { m.facts[i].write(job, c.Fields) })
	if m.usage != nil {
		out.Usage = m.usage
	}
	leaveOutHomeless(&out)
	c.Fields = slices.DeleteFunc(c.Fields, func(f workload.MadeField) bool { return f.Jobs == 0 })
	if len(c.Fields) > 0 {
		out.Completion = c
	}
	return &out, nil
}

// leaveOutHomeless removes the jobs that ran when the window began and whose nodes are unknown,
// because a replay cannot start them.
func leaveOutHomeless(w *workload.Workload) {
	w.Rules = maps.Clone(w.Rules)
	w.Jobs.Delete(w.LeavesRunning(w.LacksNodes))
}

// stream returns the number of a field's stream of random numbers.
func stream(f workload.Field) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f)) // a hash never returns an error
	return h.Sum64()
}

// fact has the data about a job that rules use, and the fields that the rules make.
type fact struct {
	submit, start, end hpc.Time      // start and end are recorded instants; 0 if not recorded
	run                time.Duration // the longest run time of its tasks; 0 if only the limit ends the job
	cpus, nodes        int
	usedMemory         int64 // KiB per processor
	batch              int
	timedOut           bool // the job's limit ended the job
	completed          bool // the job ended by itself
	unknown            bool // the record lacks the state of a task
	need               need // known only if the record lacks the partition
	values
	lacking, made uint16 // each has a bit for each of workload.Fields
}

// values are the fields of a job that rules make.
type values struct {
	partition, user, account, exclusive, qos string
	nodeList                                 string
	limit                                    time.Duration
	memory                                   int64 // MiB per CPU
}

// put sets a field of a job.
func (v *values) put(job *hpc.Job, field workload.Field) {
	switch field {
	case workload.FieldPartition:
		job.Partition = v.partition
	case workload.FieldUser:
		job.User = v.user
	case workload.FieldAccount:
		job.Account = v.account
	case workload.FieldMemory:
		job.MemPerCPU = v.memory
	case workload.FieldExclusive:
		job.Exclusive = v.exclusive
	case workload.FieldTimeLimit:
		job.TimeLimit = v.limit
	case workload.FieldQOS:
		job.QOS = v.qos
	case workload.FieldNodes:
		record := *job.Recorded
		record.Nodes = v.nodeList
		job.Recorded = &record
	}
}

func bit(field workload.Field) uint16 { return 1 << slices.Index(workload.Fields, field) }

// lacks reports whether the job's record lacks a field.
func (f *fact) lacks(field workload.Field) bool { return f.lacking&bit(field) != 0 }

// write stores the values that rules made in a job, and the names of the fields and their rules in the job's field
// Made.
func (f *fact) write(job *hpc.Job, fields []workload.MadeField) {
	var made []string
	for _, field := range fields {
		if f.made&bit(field.Field) != 0 {
			f.put(job, field.Field)
			if field.Field == workload.FieldTimeLimit {
				runUntilLimit(job)
			}
			made = append(made, string(field.Field)+"="+strings.ReplaceAll(field.Rule, ",", "+")) // Made is a list with commas
		}
	}
	job.Made = strings.Join(made, ",")
}

// timedOut reports whether, according to the record, the time limit ended a task, and after what
// run time.
func timedOut(job *hpc.Job, task int) (ran time.Duration, ended bool) {
	if job.Recorded == nil {
		return 0, false
	}
	rec := job.Recorded.OfTask(task)
	return rec.End.Sub(rec.Start), rec.State == hpc.TimedOut && rec.Start > 0 && rec.End > rec.Start
}

// recordedRun returns the run time of a task. If only the limit ends the task, recordedRun returns how long the task
// ran according to the record.
func recordedRun(job *hpc.Job, task int, run time.Duration) time.Duration {
	if ran, ended := timedOut(job, task); ended && run == hpc.Unlimited {
		return ran
	}
	return run
}

// runUntilLimit makes each task that a limit ended in the record run until its limit, because the job now has a limit.
// The exit code stays, but has no effect: such a run never ends by itself.
func runUntilLimit(job *hpc.Job) {
	eachRun(job, func(task int, run time.Duration) time.Duration {
		if _, ended := timedOut(job, task); ended {
			return hpc.Unlimited
		}
		return run
	})
}

// runAsRecorded is the inverse of [runUntilLimit]. If a run has no exit code, it ran until its
// limit even before the completion.
func runAsRecorded(job *hpc.Job) {
	eachRun(job, func(task int, run time.Duration) time.Duration {
		if job.ExitCodeOf(task) == 0 {
			return run
		}
		return recordedRun(job, task, run)
	})
}

// eachRun changes the run times of a job, or of the tasks of an array.
func eachRun(job *hpc.Job, change func(task int, run time.Duration) time.Duration) {
	if job.Array == "" {
		job.RunTime = change(-1, job.RunTime)
		return
	}
	runs := map[int]time.Duration{}
	for _, task := range workload.TasksOf(job) {
		if run := change(task, job.RunTimeOf(task)); run != job.RunTime {
			runs[task] = run
		}
	}
	if job.TaskRunTimes = runs; len(runs) == 0 {
		job.TaskRunTimes = nil
	}
}

// newFact returns the facts of a job.
func newFact(w *workload.Workload, job *hpc.Job) fact {
	f := fact{
		submit: job.Submit, cpus: workload.CPUs(&job.Request), nodes: job.MinNodes,
		values: values{
			partition: job.Partition, user: job.User, account: job.Account, exclusive: job.Exclusive, qos: job.QOS, limit: job.TimeLimit,
		},
	}
	for _, task := range workload.TasksOf(job) {
		f.run = max(f.run, recordedRun(job, task, job.RunTimeOf(task)))
		state := hpc.State("")
		if job.Recorded != nil {
			state = job.Recorded.OfTask(task).State
		}
		f.timedOut, f.unknown = f.timedOut || state == hpc.TimedOut, f.unknown || state == ""
	}
	if f.run == hpc.Unlimited {
		f.run = 0
	}
	if rec := job.Recorded; rec != nil {
		f.start, f.end, f.usedMemory = rec.Start, rec.End, rec.UsedMemory
		f.completed = rec.State == hpc.Completed
		f.cpus = max(f.cpus, rec.Processors)
	}
	if job.Partition == "" {
		f.need = needOf(&job.Request, f.cpus)
	}
	for _, l := range []struct {
		field workload.Field
		is    bool
	}{
		{workload.FieldPartition, job.Partition == ""}, {workload.FieldUser, job.User == ""}, {workload.FieldAccount, job.Account == ""},
		{workload.FieldMemory, job.MemPerCPU == 0 && job.MemPerNode == 0 && job.MemPerGPU == 0},
		{workload.FieldExclusive, job.Exclusive == ""}, {workload.FieldTimeLimit, job.TimeLimit == 0}, {workload.FieldQOS, job.QOS == ""},
		{workload.FieldNodes, w.LacksNodes(job)},
	} {
		// A preset job already has its nodes, so the option --exclusive has no effect on it.
		if l.is && (l.field != workload.FieldExclusive || !w.Preset(job)) {
			f.lacking |= bit(l.field)
		}
	}
	return f
}
