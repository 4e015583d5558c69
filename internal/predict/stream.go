package predict

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// Case is a job of a workload together with its run time. Predictors receive only its Submission.
// The run time is for the caller of [Play].
type Case struct {
	Submission
	ID string // in the workload; "ARRAY_TASK" for a task
	// Job is the job's index in the workload, from 0.
	Job int `json:"-"`
	// Start and End say when the job ran. Both are 0 if the job never ran, or if the times are not
	// known. A job that was still running when its record was made has only a start.
	Start, End hpc.Time
	// Gone is when a job that never ran left the queue; 0 if this time is not known.
	Gone  hpc.Time
	State hpc.State
	// Used is the value of a measured target, in its unit; 0 if it is not known, and for the target
	// [RunTime].
	Used float64 `json:",omitempty"`

	target Target
}

// Ran reports whether the job ran and ended.
func (c *Case) Ran() bool { return c.End != 0 }

// Seconds returns the run time in seconds.
func (c *Case) Seconds() float64 { return seconds(c.End.Sub(c.Start)) }

// Observed reports whether the job ran, ended, and has a value of the target.
func (c *Case) Observed() bool { return c.Ran() && (!c.target.Measured() || c.Used > 0) }

// Value returns the target's value in its unit.
func (c *Case) Value() float64 {
	if c.target.Measured() {
		return c.Used
	}
	return c.Seconds()
}

// Cases are the jobs of a workload in the order of their submissions, with counts of jobs that lack
// data.
type Cases struct {
	List []Case
	// NeverRan counts jobs that left the queue without a start. Unknown counts jobs whose end is unknown. Predictors also
	// receive the submissions of jobs that never ran or whose end is unknown.
	NeverRan, Unknown int
	// NoStart counts jobs whose start is not recorded. A job without a recorded start is assumed to start at its
	// submission, the earliest possible instant.
	NoStart int
	// LeftOut counts the source's records that are not jobs, by the rule that excludes them, for example a
	// record without a run time.
	LeftOut map[string]int
	// NoUser counts jobs without a user. NoLimit counts jobs whose request has no value for the
	// target: no time limit, or no memory.
	NoUser, NoLimit int
	// NoValue counts jobs that ran but have no value of a measured target. Predictors do not learn
	// from them.
	NoValue int
	// Made counts the jobs by the fields that were not recorded, but made by rules: see
	// [Cases.MadeNote].
	Made   map[workload.Field]int
	Target Target
}

// NoStartNote returns the note about [Cases.NoStart] jobs.
func NoStartNote(n int) string {
	return "the " + quantity.Plural(n, "start of 1 job is not known; it is assumed to start at its submission",
		"starts of "+quantity.Regular(n, "job")+" are not known; these jobs are assumed to start at their submission")
}

// MadeNote returns a note about fields that predictors read and that rules made, and about what this means for scores.
// It returns "" if rules made no field that predictors read.
func (c *Cases) MadeNote() string {
	var made []string
	for _, f := range workload.Fields {
		if n := c.Made[f]; n > 0 && f != workload.FieldNodes && f != workload.FieldExclusive {
			made = append(made, fmt.Sprintf("%s (%d %s)", f.Words(), n, quantity.Plural(n, "job", "jobs")))
		}
	}
	if len(made) == 0 {
		return ""
	}
	return fmt.Sprintf("workload complete made fields by rules that use how the jobs ran: %s; the scores do not apply "+
		"to a log that has these fields recorded", strings.Join(made, ", "))
}

// CasesOf returns the jobs of a workload for predictions of run times: see [TargetCases].
func CasesOf(w *workload.Workload) (*Cases, error) { return TargetCases(w, RunTime) }

// TargetCases returns the jobs of a workload. Each task of an array is a job. A job's run time is its recorded end
// minus its recorded start, or the workload's run time if these are not recorded. TargetCases returns an error if the
// array of a job is not valid.
func TargetCases(w *workload.Workload, t Target) (*Cases, error) {
	c := &Cases{Target: t, List: make([]Case, 0, w.Jobs.Len()), LeftOut: map[string]int{}, Made: map[workload.Field]int{}}
	for _, u := range w.Unusable {
		c.LeftOut[u.Rule]++
	}
	var request *hpc.Request
	for i, job := range w.Jobs.All() {
		tasks := []int{-1}
		if job.Array != "" {
			array, err := hpc.ParseArray(job.Array)
			if err != nil {
				return nil, fmt.Errorf("job %s: array %q: %w", job.ID, job.Array, err)
			}
			tasks = array.Tasks
		}
		if request == nil || *request != job.Request {
			request = new(hpc.Request)
			*request = job.Request
		}
		for field := range workload.MadeFields(job) {
			c.Made[field] += len(tasks)
		}
		for _, task := range tasks {
			c.add(i, job, request, task)
		}
	}
	return c, nil
}

// Check returns an error if jobs ran but no job has a value of the target.
func (c *Cases) Check() error {
	for i := range c.List {
		if c.List[i].Observed() {
			return nil
		}
	}
	if c.NoValue == 0 {
		return nil // no job ran; the callers report this
	}
	want := "field 7 of SWF, or the steps' TRESUsageInTot of sacct"
	if c.Target == IO {
		want = "the steps' TRESUsageInTot and TRESUsageOutTot of sacct, or a trace with io"
	}
	return fmt.Errorf("the %s is not recorded: none of %d %s that ran has it (want %s)", c.Target.What(), c.NoValue,
		quantity.Plural(c.NoValue, "job", "jobs"),
		want)
}

// AtOnce returns the cases with each job's end moved to its submission, so each job's value is known at its submission,
// which is not possible in reality.
func (c *Cases) AtOnce() *Cases {
	known := *c
	known.List = slices.Clone(c.List)
	for i := range known.List {
		if one := &known.List[i]; one.Ran() {
			one.Start, one.End = one.At.Add(-one.End.Sub(one.Start)), one.At
		}
	}
	return &known
}

// add adds a job or a task of an array.
func (c *Cases) add(i int, job *hpc.Job, request *hpc.Request, task int) {
	one := Case{Submission: Submission{Number: int64(len(c.List)), At: job.Submit, Request: request}, ID: job.ID, Job: i,
		target: c.Target}
	var record hpc.Recorded
	if task >= 0 {
		one.ID += "_" + strconv.Itoa(task)
	}
	if job.Recorded != nil {
		record = job.Recorded.OfTask(task)
	}
	if one.State = record.State; task >= 0 && job.Recorded != nil &&
		(job.Recorded.TaskStarts != nil || job.Recorded.TaskEnds != nil) {
		one.State = taskState(job, task, &record)
	}
	ran := job.RunTimeOf(task)
	switch {
	case record.Start != 0 && record.End > record.Start && record.Start >= job.Submit:
		one.Start, one.End = record.Start, record.End
	case record.State == hpc.Cancelled && ran <= 0, record.State == hpc.Rejected, record.Start == 0 && record.End != 0:
		one.Gone = max(record.End, job.Submit)
		c.NeverRan++
	case ran == hpc.Unlimited || job.EndAt != 0:
		if record.Start >= job.Submit {
			one.Start = record.Start
		}
		c.Unknown++
	case record.Start >= job.Submit && record.Start != 0:
		one.Start, one.End = record.Start, record.Start.Add(ran)
	default:
		one.Start, one.End = job.Submit, job.Submit.Add(ran)
		c.NoStart++
	}
	if one.Used = c.Target.recorded(job, &record); one.Ran() && !one.Observed() {
		c.NoValue++
	}
	if request.User == "" {
		c.NoUser++
	}
	if c.Target.Asked(request) == 0 {
		c.NoLimit++
	}
	c.List = append(c.List, one)
}

// taskState returns the state in which a task of an array ended, from the task's own outcome. The
// recorded state is the state of the whole array, which is known only after the last task has
// ended.
func taskState(job *hpc.Job, task int, record *hpc.Recorded) hpc.State {
	switch {
	case record.End == 0:
		return ""
	case record.Start == 0:
		return hpc.Cancelled
	case job.RunTimeOf(task) == hpc.Unlimited:
		return hpc.TimedOut
	case job.ExitCodeOf(task) != 0:
		return hpc.Failed
	}
	return ""
}

// The classes of events at one instant; the package's comment explains their order.
const (
	classStart = iota
	classEnd
)

// Play calls a predictor with the events of cases in the order of time. If seen is not nil, Play
// calls it with each case and the prediction at its submission. Starts and ends up to and including
// an instant come before a submission at that instant. Play stops after the last submission, and
// leaves out later ends. It returns the context's error.
func Play(ctx context.Context, cases []Case, p Predictor, seen func(c *Case, p Prediction)) error {
	_, err := play(ctx, cases, p, seen)
	return err
}

// PlayUntil is [Play] for the events up to and including an instant. All cases must have been
// submitted by that instant.
func PlayUntil(ctx context.Context, cases []Case, until hpc.Time, p Predictor) error {
	due, err := play(ctx, cases, p, nil)
	if err == nil {
		advance(&due, p, until)
	}
	return err
}

func play(ctx context.Context, cases []Case, p Predictor, seen func(c *Case, p Prediction)) (due agenda.Agenda[*Case],
	err error) {
	for i := range cases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := &cases[i]
		advance(&due, p, c.At)
		prediction := p.Submit(c.Submission)
		if seen != nil {
			seen(c, prediction)
		}
		switch {
		case c.Ran() || c.Start != 0:
			due.Put(agenda.Entry[*Case]{What: c, At: c.Start, Seq: i, Class: classStart})
		case c.Gone != 0:
			due.Put(agenda.Entry[*Case]{What: c, At: c.Gone, Seq: i, Class: classEnd})
		}
	}
	return due, nil
}

// Quantiles calls a predictor with the events of a workload. For each job it returns the quantile q of the run time, in
// seconds, as predicted at the job's submission. For an array it returns the largest value of its tasks. The jobs must
// be in the order of their submissions ([workload.Workload.Sort]). Quantiles returns the context's error, or the error
// of [CasesOf].
func Quantiles(ctx context.Context, w *workload.Workload, p Predictor, q float64) ([]float64, error) {
	cases, err := CasesOf(w)
	if err != nil {
		return nil, err
	}
	list := make([]float64, w.Jobs.Len())
	err = Play(ctx, cases.List, p, func(c *Case, p Prediction) { list[c.Job] = max(list[c.Job], p.Quantile(q)) })
	return list, err
}

// advance calls the predictor with the starts and ends up to an instant.
func advance(due *agenda.Agenda[*Case], p Predictor, until hpc.Time) {
	for due.Next() <= until && len(*due) > 0 {
		entry := due.Pop()
		c := entry.What
		if entry.Class == classStart {
			p.Start(c.Number, c.Start)
			if c.Ran() {
				due.Put(agenda.Entry[*Case]{What: c, At: c.End, Seq: entry.Seq, Class: classEnd})
			}
			continue
		}
		if m, ok := p.(Measurer); ok && c.target.Measured() && c.Observed() {
			m.Measure(c.Number, c.Used)
		}
		p.End(c.Number, entry.At, c.State)
	}
}
