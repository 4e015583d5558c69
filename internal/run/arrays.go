package run

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
)

// byJob visits the rows of each job: the tasks of an array, or one row.
func byJob(rows []Row) iter.Seq[[]Row] {
	return func(yield func([]Row) bool) {
		for begin, i := 0, 0; i < len(rows); i++ {
			if i+1 == len(rows) || rows[i+1].Job != rows[begin].Job {
				if !yield(rows[begin : i+1]) {
					return
				}
				begin = i + 1
			}
		}
	}
}

// giveAll sets [Row.Reasons] and [Row.ArrayEligible]. The rows belong to a run, or are all tasks of one array.
func (r *Reasons) giveAll(rows []Row, m *Manifest) {
	for i := range rows {
		rows[i].Reasons = nil
		r.give(&rows[i])
	}
	arrays := rowsByArray(rows, m)
	for tasks := range byJob(rows) {
		if tasks[0].Task < 0 {
			continue
		}
		setArrayEligible(tasks)
		if !m.OfSlurm() || !r.Any() {
			giveArrayLimit(tasks, arrays, m)
		}
	}
}

// rowsByArray returns the rows of a recorded workload by their arrays. The tasks of an array may be several jobs: tasks
// that ran when a window began are jobs such as 17_3, and the parts of workload build are jobs such as 17#2. In an
// engine, the limit of an array applies to each job, so for other runs the result is nil.
func rowsByArray(rows []Row, m *Manifest) map[string][]*Row {
	if m.Engine != EngineRecorded {
		return nil
	}
	list := map[string][]*Row{}
	for i := range rows {
		array, _, _ := hpc.ArrayOfTask(rows[i].Job, rows[i].Task)
		list[array] = append(list[array], &rows[i])
	}
	return list
}

// setArrayEligible sets [Row.ArrayEligible]. A job with a begin time is eligible at that time, even if its dependency
// is not met, so for an array with a begin time, ArrayEligible is the first start of a task.
func setArrayEligible(tasks []Row) {
	if !tasks[0].AskedHold && !tasks[0].AskedDependency {
		return
	}
	first := tasks[0].ArrayEligible
	if job, err := DecodeJob([]byte(tasks[0].Request)); err == nil && strings.Contains(job.Dependency, "aftercorr") {
		first = -1
	}
	for i := range tasks {
		at := tasks[i].FirstEligible()
		if tasks[i].AskedBegin > 0 {
			at = tasks[i].FirstStart()
		}
		if at != 0 {
			first = min(at, cmp.Or(first, at))
		}
	}
	for i := range tasks {
		tasks[i].ArrayEligible = first
	}
}

// giveArrayLimit adds the reason [AtArrayLimit] to those parts of the tasks' waits that no other reason explains. In
// the simulator, a task that waits for its array's limit is in the queue behind other tasks. If the task's [Row.First]
// is not known, the start of the task is used instead. The parameter arrays is from [rowsByArray].
func giveArrayLimit(tasks []Row, arrays map[string][]*Row, m *Manifest) {
	var runs, others []hpc.Interval
	var eligible []hpc.Time
	counted := map[int]bool{}
	count := func(row *Row, task int, runs *[]hpc.Interval) {
		counted[task] = true
		eligible = append(eligible, row.FirstEligible())
		for _, s := range row.Runs() {
			*runs = append(*runs, hpc.Interval{From: s.Start, To: cmp.Or(s.End, hpc.Never)})
		}
	}
	for i := range tasks {
		count(&tasks[i], tasks[i].Task, &runs)
	}
	array, _, _ := hpc.ArrayOfTask(tasks[0].Job, tasks[0].Task)
	for _, row := range arrays[array] {
		if _, task, ok := hpc.ArrayOfTask(row.Job, row.Task); ok && !counted[task] && row.User == tasks[0].User {
			count(row, task, &others)
		}
	}
	full := hpc.AtArrayLimit(runs, others, eligible, tasks[0].AskedArrayLimit)
	for i := range tasks {
		row := &tasks[i]
		until := cmp.Or(row.Start, row.End, hpc.Never)
		for _, at := range full {
			s := Span{From: max(at.From, row.Submit), To: min(at.To, until), Reason: AtArrayLimit}
			if s.From < s.To {
				row.Reasons = overlay(row.Reasons, s)
			}
		}
		if m.Engine == "sim" && row.AskedArrayLimit > 0 {
			row.First = cmp.Or(row.First, row.Start, row.End)
		}
	}
}

// overlay returns the spans of a wait. It puts more in place of the parts of spans that have no
// reason, or whose reason is the queue or the time before the window. The spans are in order of time.
func overlay(spans []Span, more Span) (list []Span) {
	add := func(s Span, from, to hpc.Time) {
		if s.From, s.To = max(s.From, from), min(s.To, to); s.From < s.To {
			list = append(list, s)
		}
	}
	from := more.From
	for _, s := range spans {
		if s.Reason == "" || s.Reason == "Resources" || s.Reason == "Priority" || s.Reason == BeforeWindow {
			add(s, s.From, more.From)
			add(s, more.To, s.To)
			continue
		}
		add(more, from, s.From)
		list = append(list, s)
		from = max(from, s.To)
	}
	add(more, from, more.To)
	slices.SortFunc(list, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return list
}
