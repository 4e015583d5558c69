package hpc

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Recorded is what happened to a job when its workload was recorded. Start, End, Nodes, Processors
// and Priority belong to its last run. Eligible is when the job might first start, before all its
// runs. A time of 0 means that the event did not happen, or is not known. For a job array,
// Eligible and Start are the earliest of the tasks. Priority and Processors belong to the task
// that started first. End is the latest of the tasks. State is the common state of all tasks
// (empty if the states differ).
type Recorded struct {
	Eligible, Start, End Time
	State                State
	Nodes                string // host list
	Processors           int
	Priority             uint32
	// TimeLimit is the effective time limit if it differs from the requested limit: the partition's
	// default, for example, or a limit that an operator set. It is 0 if it does not differ or is not
	// known, and for an array whose tasks had different limits.
	TimeLimit time.Duration
	// BeginMade says that the request's begin time is not the user's: it stands for an unknown cause that made the job
	// eligible later. See [WithoutMadeBegin].
	BeginMade bool
	// UsedMemory is the largest memory that the job used, in KiB for each of its processors (field
	// 7 of an SWF record). MovedBytes is how much it read and wrote, in bytes. Both are 0 if
	// unknown.
	UsedMemory, MovedBytes int64
	// Interruptions are the interruptions of a job that is not an array.
	Interruptions
	// TaskEligible says when single tasks of a job array might first start, by task index, if these times differ. A
	// task is missing if it never became eligible, or if the time is not known.
	TaskEligible map[int]Time
	// TaskProcessors and TaskPriorities are the values of single tasks that started, if they
	// differ.
	TaskProcessors map[int]int
	TaskPriorities map[int]uint32
	// TaskStarts, TaskEnds and TaskNodes say when and where single tasks of a job array
	// ran, by task index.
	TaskStarts, TaskEnds map[int]Time
	TaskNodes            map[int]string
	// TaskStates are the states of single tasks, by task index, if they differ. State is then
	// empty.
	TaskStates map[int]State
	// TaskUsedMemory and TaskMovedBytes are UsedMemory and MovedBytes of single tasks.
	TaskUsedMemory, TaskMovedBytes map[int]int64
	// TaskInterruptions are the interruptions of single tasks, by task index.
	TaskInterruptions map[int]Interruptions
}

// Interruptions are the events that ended or stopped runs of a job, or of a task of an array. For
// most jobs they are empty.
type Interruptions struct {
	// LostRuns are the runs before the last run, in order. After each, the job was in the queue
	// again.
	LostRuns []LostRun
	// Suspensions are the times in which the job was suspended during any of its runs, in order.
	Suspensions []Suspension
	// PreemptedBy is the job that preempted this one and so ended the last run: its ID, or ID_TASK
	// for a task. It is empty if there is no such job, or if the job is unknown.
	PreemptedBy string
}

// LostRun is a run whose work was lost: the job was preempted or requeued, or lost its nodes.
type LostRun struct {
	Start, End Time
	// EligibleAgain is when the job might start again; 0 if not known.
	EligibleAgain Time
	Nodes         string // host list; empty if not known
	Processors    int    // 0 if not known
	// Cause is what ended the run: [Preempted], [Requeued] by a user or an administrator,
	// [NodeFail] or [BootFail]; empty if not known.
	Cause State
	// PreemptedBy is the job that preempted this one and so ended the run: its ID, or ID_TASK for a
	// task. It is empty if there is no such job, or if the job is unknown.
	PreemptedBy string
}

// Suspension is a time in which a job did not run but kept its nodes.
type Suspension struct {
	From, To Time // To is 0 if the job was not resumed
}

// IsEmpty reports whether there are no interruptions.
func (i *Interruptions) IsEmpty() bool {
	return len(i.LostRuns) == 0 && len(i.Suspensions) == 0 && i.PreemptedBy == ""
}

// Preempted reports whether the preempting job of one of the runs is known.
func (i *Interruptions) Preempted() bool {
	return i.PreemptedBy != "" || slices.ContainsFunc(i.LostRuns, func(run LostRun) bool { return run.PreemptedBy != "" })
}

// NeverStarted reports whether the job ended while it waited. If a log lacks a start and an end, this is not known,
// and the result is false.
func (r *Recorded) NeverStarted() bool { return r != nil && r.Start == 0 && r.End != 0 }

// OfTask returns what is recorded about one task of a job array. It returns the record of the
// whole job if single tasks have no records, or if task is -1 because the job is not an array.
func (r *Recorded) OfTask(task int) Recorded {
	of := *r
	of.TaskEligible, of.TaskStarts, of.TaskEnds, of.TaskNodes = nil, nil, nil, nil
	of.TaskUsedMemory, of.TaskMovedBytes = nil, nil
	of.TaskStates, of.TaskInterruptions, of.TaskProcessors, of.TaskPriorities = nil, nil, nil, nil
	if state, ok := r.TaskStates[task]; ok {
		of.State = state
	}
	if task >= 0 && r.TaskEligible != nil {
		of.Eligible = r.TaskEligible[task]
	}
	if task < 0 || r.TaskStarts == nil && r.TaskEnds == nil && r.TaskInterruptions == nil {
		return of
	}
	of.Start, of.End, of.Nodes = r.TaskStarts[task], r.TaskEnds[task], r.TaskNodes[task]
	of.UsedMemory, of.MovedBytes = r.TaskUsedMemory[task], r.TaskMovedBytes[task]
	of.Interruptions = r.TaskInterruptions[task]
	if r.TaskProcessors != nil {
		of.Processors = r.TaskProcessors[task]
	}
	if r.TaskPriorities != nil {
		of.Priority = r.TaskPriorities[task]
	}
	if of.Start == 0 {
		of.Processors, of.Priority = 0, 0
		if of.State == "" && of.End != 0 {
			of.State = Cancelled
		}
	}
	return of
}

// HaveEligibleDates reports whether a record says when jobs might first start: most jobs that started have such a date.
func HaveEligibleDates(jobs iter.Seq2[int, *Job]) bool {
	dated := 0
	for _, job := range jobs {
		switch r := job.Recorded; {
		case r == nil || r.Start == 0:
		case r.Eligible != 0:
			dated++
		default:
			dated--
		}
	}
	return dated > 0
}

// NeverEligible reports whether a recorded job that requests a delay has neither a start nor an eligible date. In a
// record with such dates ([HaveEligibleDates]), this job, or each task of this array, ended before it might start.
func (job *Job) NeverEligible() bool {
	r := job.Recorded
	return r != nil && r.Eligible == 0 && r.Start == 0 && (job.Dependency != "" || job.Hold || job.Begin > 0)
}

// WithoutMadeBegin returns a recorded job without its begin time if the begin time is the instant at which the job
// became eligible. The builder of the workload made such begin times, and the record does not say what the job
// waited for.
func WithoutMadeBegin(job *Job) *Job {
	if job.Begin <= 0 || !job.Recorded.BeginMade && job.Submit.Add(job.Begin) != job.Recorded.Eligible {
		return job
	}
	unasked := *job
	unasked.Begin = 0
	return &unasked
}

// Interval is the time from From until To.
type Interval struct{ From, To Time }

// AtArrayLimit returns the intervals, in order, in which the number of running tasks of a job array was at the array's
// limit (%N). No other task could start in them. runs are the runs of the tasks. others are the runs of other jobs that
// are tasks of the same array. They count only if all runs together kept the limit: in a run, for example, each job had
// the limit. Suspended tasks count, as in Slurm, and a task that has not ended runs until [Never]. If limit is 0, for
// example because the output of sacct lacks SubmitLine, the times at which the tasks became eligible may show the
// limit. The list is empty if the limit is not known.
func AtArrayLimit(runs, others []Interval, eligible []Time, limit int) (list []Interval) {
	if all := slices.Concat(runs, others); limit == 0 || mostAtOnce(all) <= limit {
		runs = all
	}
	starts, ends, at := changes(runs)
	if limit == 0 {
		limit = limitSeen(runs, eligible)
	}
	if limit == 0 {
		return nil
	}
	running, from := 0, Time(0)
	for _, t := range at {
		before := running
		running += starts[t] - ends[t]
		switch full := running >= limit; {
		case full && before < limit:
			from = t
		case !full && before >= limit:
			list = append(list, Interval{from, t})
		}
	}
	return list
}

// changes returns how many of the intervals begin and end at each instant, and these instants in order.
func changes(list []Interval) (starts, ends map[Time]int, at []Time) {
	starts, ends = map[Time]int{}, map[Time]int{}
	for _, i := range list {
		starts[i.From]++
		ends[i.To]++
		at = append(at, i.From, i.To)
	}
	slices.Sort(at)
	return starts, ends, slices.Compact(at)
}

// mostAtOnce returns how many of the intervals share an instant at most. An interval does not contain its end.
func mostAtOnce(list []Interval) (most int) {
	starts, ends, at := changes(list)
	now := 0
	for _, t := range at {
		now += starts[t] - ends[t]
		most = max(most, now)
	}
	return most
}

// eligibleAgain is the longest time, for an array at its limit, from the end of a task until the next task becomes
// eligible. Slurm makes the next task eligible in its next cycle (batch_sched_delay, 3 s by default), and times are
// whole seconds.
const eligibleAgain = 4 * time.Second

// limitSeen returns the array's limit if the record shows it, and otherwise 0. When an array is at its limit, Slurm
// clears the eligible times of its waiting tasks, and sets them again when a task ends (slurmctld/job_mgr.c,
// job_array_start_test). The limit is the highest number of tasks that ran at once. This holds only if each later task
// became eligible when that many tasks ran and one of them ended.
func limitSeen(runs []Interval, eligible []Time) int {
	starts, ends, at := changes(runs)
	limit := mostAtOnce(runs)
	times := slices.Sorted(slices.Values(eligible))
	times = slices.Compact(slices.DeleteFunc(times, func(t Time) bool { return t == 0 }))
	if len(times) < 2 {
		return 0 // the tasks became eligible together
	}
	var room []Time // when a task ended while the array was at its limit
	running := 0
	for _, t := range at {
		if running == limit && ends[t] > 0 {
			room = append(room, t)
		}
		running += starts[t] - ends[t]
	}
	for _, t := range times[1:] {
		if i, _ := slices.BinarySearch(room, t+1); i == 0 || t.Sub(room[i-1]) > eligibleAgain {
			return 0
		}
	}
	return limit
}

// Unify drops the values of single tasks that are the same for all tasks of the array, because the
// array itself has these values. tasks are all tasks of the array.
func (r *Recorded) Unify(tasks []int) {
	if alike(r.TaskEligible, tasks) {
		r.TaskEligible = nil
	}
	var started []int
	for _, task := range tasks {
		if r.TaskStarts[task] != 0 {
			started = append(started, task)
		}
	}
	if alike(r.TaskProcessors, started) {
		r.TaskProcessors = nil
	}
	if alike(r.TaskPriorities, started) {
		r.TaskPriorities = nil
	}
}

// alike reports whether all tasks have the same value.
func alike[V comparable](values map[int]V, tasks []int) bool {
	return !slices.ContainsFunc(tasks, func(task int) bool { return values[task] != values[tasks[0]] })
}

// CheckRuns returns an error if the runs of a job, or of one task of an array, are impossible. Each
// run must end after it starts and before the next one starts, and each suspension must be within a
// run.
func (r *Recorded) CheckRuns() error {
	after := Time(0)
	for _, run := range r.LostRuns {
		switch {
		case run.Start == 0 || run.End == 0:
			return fmt.Errorf("a lost run has no %s", map[bool]string{true: "start", false: "end"}[run.Start == 0])
		case run.Start < after || run.End < run.Start:
			return fmt.Errorf("the lost run from %s to %s is not after %s (want runs in order, each with its end)",
				run.Start, run.End, max(after, run.Start))
		case run.Processors < 0:
			return fmt.Errorf("the lost run from %s has %d processors", run.Start, run.Processors)
		}
		after = run.End
	}
	if r.Start != 0 && r.Start < after {
		return fmt.Errorf("the last run starts at %s, before the end of the previous lost run, at %s", r.Start, after)
	}
	after = 0
	for _, s := range r.Suspensions {
		if s.From < after || s.From == 0 || s.To != 0 && s.To < s.From || !r.ranAt(s) {
			return fmt.Errorf("the suspension from %s to %s is not within a run, or not after the previous suspension",
				s.From, s.To)
		}
		if after = s.To; after == 0 {
			after = Never
		}
	}
	return nil
}

// ranAt reports whether a suspension is within one of the runs.
func (r *Recorded) ranAt(s Suspension) bool {
	if r.Start != 0 && s.From >= r.Start {
		return r.End == 0 || max(s.From, s.To) <= r.End
	}
	return slices.ContainsFunc(r.LostRuns, func(run LostRun) bool {
		return s.From >= run.Start && s.To != 0 && s.To <= run.End
	})
}

// each calls a function with the interruptions of the job and of each task. The function may change
// them.
func (r *Recorded) each(visit func(*Interruptions)) {
	visit(&r.Interruptions)
	for task, of := range r.TaskInterruptions {
		visit(&of)
		r.TaskInterruptions[task] = of
	}
}

// MoveTimes replaces each time that is not 0 by the result of the function move.
func (r *Recorded) MoveTimes(move func(Time) Time) {
	replace := func(times ...*Time) {
		for _, t := range times {
			if *t != 0 {
				*t = move(*t)
			}
		}
	}
	replace(&r.Eligible, &r.Start, &r.End)
	for _, tasks := range []map[int]Time{r.TaskEligible, r.TaskStarts, r.TaskEnds} {
		for task, at := range tasks {
			replace(&at)
			tasks[task] = at
		}
	}
	r.each(func(i *Interruptions) {
		for k := range i.LostRuns {
			run := &i.LostRuns[k]
			replace(&run.Start, &run.End, &run.EligibleAgain)
		}
		for k := range i.Suspensions {
			replace(&i.Suspensions[k].From, &i.Suspensions[k].To)
		}
	})
}

// NodeLists calls a function with each host list, which the function may change. It stops at the
// first error and returns it.
func (r *Recorded) NodeLists(visit func(list *string) error) (err error) {
	err = visit(&r.Nodes)
	for task, list := range r.TaskNodes {
		if err == nil {
			err = visit(&list)
			r.TaskNodes[task] = list
		}
	}
	r.each(func(i *Interruptions) {
		for k := range i.LostRuns {
			if err == nil {
				err = visit(&i.LostRuns[k].Nodes)
			}
		}
	})
	return err
}

// RenamePreemptors replaces the IDs of preempting jobs. The function rename gets the ID of a job,
// or ID_TASK.
func (r *Recorded) RenamePreemptors(rename func(name string) string) {
	replace := func(name *string) {
		if *name != "" {
			*name = rename(*name)
		}
	}
	r.each(func(i *Interruptions) {
		replace(&i.PreemptedBy)
		for k := range i.LostRuns {
			replace(&i.LostRuns[k].PreemptedBy)
		}
	})
}
