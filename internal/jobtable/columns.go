package jobtable

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/inert"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// kind says how a column's values are written.
type kind int

const (
	words   kind = iota
	count        // a whole number
	seconds      // a duration
	instant      // seconds since 1970
	factor       // a number without a unit
)

// Column is one property of a job.
type Column struct {
	Name string // name in tables and options
	Doc  string
	kind kind
	// text is set for words, number for all others. A number is NaN if the job has no such
	// value.
	text   func(*run.Row) string
	number func(*run.Row) float64
}

// Key is the column's name in CSV and JSON, with its unit: wait_s.
func (c *Column) Key() string {
	if c.kind == seconds {
		return c.Name + "_s"
	}
	return c.Name
}

// Columns are all columns, in the order of the help.
var Columns = slices.Concat([]*Column{
	{Name: "id", Doc: "the workload's ID; ID_TASK for a task of an array", text: id},
	{Name: "rm_job", Doc: "the resource manager's number", kind: count,
		number: whole(func(r *run.Row) int { return int(r.RMJob) })},
	{Name: "name", Doc: "its name", text: func(r *run.Row) string { return r.Name }},
	{Name: "user", Doc: "its user", text: func(r *run.Row) string { return r.User }},
	{Name: "group", Doc: "its group", text: func(r *run.Row) string { return r.Group }},
	{Name: "account", Doc: "its account", text: func(r *run.Row) string { return r.Account }},
	{Name: "partition", Doc: "its partition", text: func(r *run.Row) string { return r.Partition }},
	{Name: "qos", Doc: "its QOS", text: func(r *run.Row) string { return r.QOS }},
	{Name: "reservation", Doc: "its reservation", text: func(r *run.Row) string { return r.Reservation }},
	{Name: "state", Doc: "its last state", text: func(r *run.Row) string { return string(r.State) }},
	{Name: "submit", Doc: "when it was submitted", kind: instant,
		number: at(func(r *run.Row) hpc.Time { return r.Submit })},
	{Name: "eligible", Doc: "the earliest instant at which it could start", kind: instant,
		number: at((*run.Row).FirstEligible)},
	{Name: "start", Doc: "when its last run started", kind: instant,
		number: at(func(r *run.Row) hpc.Time { return r.Start })},
	{Name: "end", Doc: "when it ended", kind: instant, number: at(func(r *run.Row) hpc.Time { return r.End })},
	{Name: "wait", Doc: "start - submit, without the time of lost runs", kind: seconds, number: waits.Seconds},
	{Name: "wait_since_eligible", Doc: "the wait after dependencies, begin time and holds", kind: seconds,
		number: sinceEligible},
	{Name: "run_time", Doc: "end - start", kind: seconds, number: between(startOf, endOf)},
	{Name: "turnaround", Doc: "end - submit, if it started", kind: seconds, number: turnaround},
	{Name: "slowdown", Doc: "turnaround / run time", kind: factor, number: slowdown},
	{Name: "time_limit", Doc: "its time limit", kind: seconds, number: limit},
	{Name: "cpus", Doc: "allocated CPUs; without them requested tasks x CPUs per task", kind: count,
		number: whole(func(r *run.Row) int { return cmp.Or(r.Processors, r.AskedTasks*max(r.AskedCPUsPerTask, 1)) })},
	{Name: "nodes", Doc: "number of allocated nodes; requested nodes if it is not recorded", kind: count,
		number: whole(func(r *run.Row) int { return cmp.Or(r.NodeCount, r.AskedMinNodes) })},
	{Name: "node_list", Doc: "the allocated nodes", text: func(r *run.Row) string { return r.Nodes }},
	{Name: "tres", Doc: "the allocated TRES", text: func(r *run.Row) string { return r.TRES }},
	{Name: "cpu_time", Doc: "CPUs x time of its runs that ended, also of lost runs", kind: seconds, number: cpuTime},
	{Name: "priority", Doc: "its priority at its start, or its last one if it never started", kind: count,
		number: whole(func(r *run.Row) int { return int(r.Priority) })},
	{Name: "restarts", Doc: "how often it was requeued", kind: count,
		number: func(r *run.Row) float64 { return float64(r.Restarts) }},
	{Name: "preempted_by", Doc: "the jobs that preempted it", text: preemptors},
	{Name: "interrupted_cpu_time", Doc: "CPUs x time of its runs that a requeue or a preemption ended", kind: seconds,
		number: lostTime},
	{Name: "exit_code", Doc: "its exit code", kind: count, number: ended(func(r *run.Row) int { return r.ExitCode })},
	{Name: "signal", Doc: "the signal that ended it", kind: count,
		number: ended(func(r *run.Row) int { return r.Signal })},
	{Name: "reason", Doc: "why it was rejected, requeued or ended", text: func(r *run.Row) string { return r.Reason }},
}, waitColumns())

// waitColumns are the parts of the wait.
func waitColumns() (list []*Column) {
	for _, part := range waits.Parts {
		list = append(list, &Column{Name: "wait_" + string(part), Doc: "waiting " + part.MeaningInAny(), kind: seconds,
			number: partOf(part)})
	}
	return list
}

// preemptors lists the jobs that preempted a job, in order.
func preemptors(r *run.Row) string {
	var list []string
	for _, s := range r.Segments {
		if s.PreemptedBy != "" {
			list = append(list, s.PreemptedBy)
		}
	}
	return strings.Join(list, ",")
}

// lostTime sums up the runs that ended in a requeue or by a preemption, as package metrics does
// for lost processor seconds; NaN for a job without such runs.
func lostTime(r *run.Row) float64 {
	lost, run := math.NaN(), 0.0
	held := r.Held()
	for i, s := range held {
		run += s.End.Sub(s.Start).Seconds() * float64(s.Processors)
		over, requeued, preempted := r.RunEnd(held, i)
		if !over {
			continue
		}
		if requeued || preempted {
			if math.IsNaN(lost) {
				lost = 0
			}
			lost += run
		}
		run = 0
	}
	return lost
}

// sinceEligible returns the wait since the job was eligible.
func sinceEligible(r *run.Row) float64 {
	if s, ok := waits.Sum(r); ok && s.Eligible {
		return s.SinceEligible.Seconds()
	}
	return math.NaN()
}

// partOf returns the function that reads a part of the wait from a row.
func partOf(part waits.Part) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		if s, ok := waits.Sum(r); ok {
			return s.Part(part).Seconds()
		}
		return math.NaN()
	}
}

// otherNames maps names that other outputs and sacct use to the names of columns.
var otherNames = map[string]string{
	"job": "id", "jobid": "id", "job_id": "id", "processors": "cpus", "node_count": "nodes", "nodelist": "node_list",
	"elapsed": "run_time", "timelimit": "time_limit", "exitcode": "exit_code", "jobname": "name",
}

var byName = func() map[string]*Column {
	m := make(map[string]*Column, len(Columns))
	for _, c := range Columns {
		m[c.Name] = c
	}
	return m
}()

// Names returns the names of all columns.
func Names() []string {
	var names []string
	for _, c := range Columns {
		names = append(names, c.Name)
	}
	return names
}

func id(r *run.Row) string {
	if r.Task < 0 {
		return r.Job
	}
	return r.Job + "_" + strconv.Itoa(r.Task)
}

func submitOf(r *run.Row) hpc.Time { return r.Submit }
func startOf(r *run.Row) hpc.Time  { return r.Start }
func endOf(r *run.Row) hpc.Time    { return r.End }

// whole returns the function that reads a column of whole numbers from a row. The number 0 means that the job has no
// value.
func whole(of func(*run.Row) int) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		if n := of(r); n != 0 {
			return float64(n)
		}
		return math.NaN()
	}
}

// ended returns the function that reads a column from a row. Only jobs that ran and ended have a value in this column.
func ended(of func(*run.Row) int) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		if r.Start == 0 || r.End == 0 {
			return math.NaN()
		}
		return float64(of(r))
	}
}

// at returns the function that reads a column of instants from a row, in seconds since 1970.
func at(of func(*run.Row) hpc.Time) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		if t := of(r); t != 0 {
			return t.Seconds()
		}
		return math.NaN()
	}
}

func between(from, to func(*run.Row) hpc.Time) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		a, b := from(r), to(r)
		if a == 0 || b == 0 {
			return math.NaN()
		}
		return b.Sub(a).Seconds()
	}
}

func turnaround(r *run.Row) float64 {
	if r.Start == 0 {
		return math.NaN()
	}
	return between(submitOf, endOf)(r)
}

func slowdown(r *run.Row) float64 {
	ran := between(startOf, endOf)(r)
	if ran <= 0 {
		return math.NaN()
	}
	return turnaround(r) / ran
}

func limit(r *run.Row) float64 {
	switch r.TimeLimit {
	case 0:
		return math.NaN()
	case hpc.Unlimited:
		return math.Inf(1)
	}
	return r.TimeLimit.Seconds()
}

// cpuTime sums up the ended periods in which the job held processors, including periods of lost
// runs; NaN for a job without such periods. rmreplay metrics has the sums of these times as
// held_processor_s_by_state.
func cpuTime(r *run.Row) float64 {
	sum := math.NaN()
	for _, s := range r.Held() {
		if s.End == 0 {
			continue
		}
		if math.IsNaN(sum) {
			sum = 0
		}
		sum += s.End.Sub(s.Start).Seconds() * float64(s.Processors)
	}
	return sum
}

// forPeople writes a row's value for people, or "-" if the row has no value.
func (c *Column) forPeople(r *run.Row, zone *time.Location) string {
	text := ""
	if c.number == nil {
		text = c.text(r)
	} else if v := c.number(r); !math.IsNaN(v) {
		switch c.kind {
		case seconds:
			text = durationText(v)
		case instant:
			text = hpc.Time(math.Round(v * 1e9)).Std().Round(time.Second).In(zone).Format("2006-01-02T15:04:05")
		case factor:
			text = strconv.FormatFloat(v, 'f', 2, 64)
		default:
			text = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	if text == "" {
		return "-"
	}
	return inert.Line(text)
}

// durationText writes a duration in whole seconds, as sacct does: 1-02:03:04.
func durationText(v float64) string {
	if math.IsInf(v, 1) {
		return "UNLIMITED"
	}
	s := int64(math.Round(math.Abs(v)))
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	if v < 0 && s > 0 {
		text = "-" + text
	}
	return text
}

// forPrograms writes a row's value for programs: durations in seconds, dates in RFC 3339 in UTC, and "" if the row has
// no value. JSON output has the results of the method value instead.
func (c *Column) forPrograms(r *run.Row) string {
	switch v := c.value(r).(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return ""
	}
}

// value returns a row's value: a string, a number, or nil for no value. An unlimited time limit is
// "unlimited".
func (c *Column) value(r *run.Row) any {
	if c.number == nil {
		if text := c.text(r); text != "" {
			return text
		}
		return nil
	}
	v := c.number(r)
	switch {
	case math.IsNaN(v):
		return nil
	case math.IsInf(v, 1):
		return "unlimited"
	case c.kind == instant:
		return hpc.Time(math.Round(v * 1e9)).Std().Round(time.Microsecond).Format(time.RFC3339Nano)
	}
	return v
}
