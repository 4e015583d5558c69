// Package jobtable makes tables of a run's jobs. Options select the jobs, the columns and the
// order. A run is a record, or a recorded workload ([rmreplay/internal/run.FromWorkload]).
package jobtable

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/vm"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Options choose the jobs, the columns and the order of a table. The zero value is all jobs with
// the default columns in the order of submission.
type Options struct {
	// Filter is an expression over [Fields]; "" for all jobs.
	Filter string
	// Columns are names of columns ([Columns]); [Default] if empty.
	Columns []string
	// Sort are columns to sort by, the most important first, each with ":desc" for the largest
	// first. Jobs without a value are at the end. Equal jobs keep the order of submission.
	Sort []string
	// Limit is the largest number of rows; 0 for all.
	Limit int
}

// Default are the columns of a table if the options name no columns.
var Default = []string{"id", "user", "account", "partition", "qos", "cpus", "nodes", "time_limit", "submit", "wait",
	"run_time", "state"}

// Fields are the names that a filter can use: the fields of `workload transform --filter`, and the
// fields of the job's outcome. A duration is in seconds, or -1 if the job did not reach its end.
type Fields struct {
	transform.Fields         // ID is as in the column id
	ArrayID          string  `expr:"array_id"` // the ID of a task's array, or ""
	Task             int     `expr:"task"`     // task of an array, or -1
	Started          bool    `expr:"started"`  // also true if the job waits again after a lost run
	Ended            bool    `expr:"ended"`
	Wait             float64 `expr:"wait_s"`
	Ran              float64 `expr:"ran_s"` // from start to end; run_time_s is the run time without interruption
	Turnaround       float64 `expr:"turnaround_s"`
	Slowdown         float64 `expr:"slowdown"`
	Start            float64 `expr:"start_s"` // since the window's start or the epoch, like submit_s
	End              float64 `expr:"end_s"`
	NodeCount        int     `expr:"node_count"` // allocated
	Processors       int     `expr:"processors"` // allocated
	NodeList         string  `expr:"node_list"`
	Priority         int     `expr:"priority"`
	Restarts         int     `expr:"restarts"`
	Signal           int     `expr:"signal"`
	Reason           string  `expr:"reason"`
	// The parts of the wait, as the columns of the same names.
	WaitSinceEligible float64 `expr:"wait_since_eligible_s"`
	WaitDependency    float64 `expr:"wait_dependency_s"`
	WaitBeginTime     float64 `expr:"wait_begin_time_s"`
	WaitHeld          float64 `expr:"wait_held_s"`
	WaitOwnLimit      float64 `expr:"wait_own_limit_s"`
	WaitLimit         float64 `expr:"wait_limit_s"`
	WaitReservation   float64 `expr:"wait_reservation_s"`
	WaitOutage        float64 `expr:"wait_node_outage_s"`
	WaitPriority      float64 `expr:"wait_priority_s"`
	WaitResources     float64 `expr:"wait_resources_s"`
	WaitRequeued      float64 `expr:"wait_requeued_s"`
	WaitUnknown       float64 `expr:"wait_unknown_s"`
}

// FilterFields returns the names of the fields that a filter can use in addition to the fields of
// `workload transform --filter`, in the order of [Fields].
func FilterFields() []string {
	workload := transform.Names(transform.Fields{})
	return slices.DeleteFunc(transform.Names(Fields{}), func(name string) bool { return slices.Contains(workload, name) })
}

// Table is a table of jobs.
type Table struct {
	Columns []*Column
	// Rows are the jobs of the table. Matched is the number of jobs that the filter keeps, and
	// Jobs the number of all jobs of the run.
	Rows          []*run.Row
	Matched, Jobs int
	// Absent names texts of the filter that no job has, if the filter keeps no job; see
	// [transform.Compared.Absent].
	Absent string
}

// plan has the parsed options of a table.
type plan struct {
	columns []*Column
	order   func(a, b *run.Row) int
	keep    *vm.Program // nil for all jobs
}

func (o *Options) plan() (p plan, err error) {
	if p.columns, err = columnsOf(o.Columns); err != nil {
		return p, err
	}
	if p.order, err = orderOf(o.Sort); err != nil {
		return p, err
	}
	if o.Filter != "" {
		if p.keep, err = transform.Compile(o.Filter, Fields{}); err != nil {
			return p, fmt.Errorf("filter %w", err)
		}
	}
	return p, nil
}

// Check returns an error if the options name an unknown column or have a wrong expression.
func Check(opts Options) error {
	_, err := opts.plan()
	return err
}

// FromRun returns a table of a run's jobs. The error is an error of [Check], of reading the run, or of
// evaluating the filter for a job.
func FromRun(r *run.Run, opts Options) (*Table, error) {
	p, err := opts.plan()
	if err != nil {
		return nil, err
	}
	rows, err := r.Histories()
	if err != nil {
		return nil, err
	}
	t := &Table{Columns: p.columns, Jobs: metrics.CountJobs(rows)}
	if t.Rows, t.Absent, err = keep(r, rows, opts.Filter, p.keep); err != nil {
		return nil, err
	}
	t.Matched = countJobs(t.Rows)
	slices.SortStableFunc(t.Rows, p.order)
	if opts.Limit > 0 && len(t.Rows) > opts.Limit {
		t.Rows = t.Rows[:opts.Limit]
	}
	return t, nil
}

// countJobs is [metrics.CountJobs] for the rows of a table.
func countJobs(rows []*run.Row) (n int) {
	for _, row := range rows {
		n += metrics.JobsOf(row)
	}
	return n
}

// Value returns a row's number in a column (seconds for a duration), or NaN if the row has no
// value. The error says that no column has this name, or that the column contains texts.
func (*Table) Value(r *run.Row, column string) (float64, error) {
	c, err := columnOf(column)
	if err == nil && c.number == nil {
		err = fmt.Errorf("column %s: its values are texts, not numbers", column)
	}
	if err != nil {
		return 0, err
	}
	return c.number(r), nil
}

// Filter returns the rows of a run ([run.Run.Histories]) for which an expression is true, in the
// language of [Options.Filter]; it returns all rows for "". absent is as in [Table]. The error
// names a fault of the expression or of a row.
func Filter(r *run.Run, rows []run.Row, filter string) (kept []*run.Row, absent string, err error) {
	o := Options{Filter: filter}
	p, err := o.plan()
	if err != nil {
		return nil, "", err
	}
	return keep(r, rows, filter, p.keep)
}

// keep returns the rows for which the program of a filter is true, or all rows if the program is
// nil.
func keep(r *run.Run, rows []run.Row, filter string, program *vm.Program) (kept []*run.Row, absent string, err error) {
	start := r.Manifest.WindowStart
	if start == 0 {
		start = r.Manifest.VirtualStart
	}
	w := &workload.Workload{Start: r.Manifest.WindowStart}
	machine, compared := vm.VM{}, transform.NewCompared(filter, Fields{})
	job := &hpc.Job{}
	for i := range rows {
		row := &rows[i]
		if program == nil {
			kept = append(kept, row)
			continue
		}
		if row.Request != "" {
			if job, err = run.DecodeJob([]byte(row.Request)); err != nil {
				return nil, "", fmt.Errorf("run record %s: row %d: %w", r.Dir, i, err)
			}
		} else if job.ID != row.Job { // the record has events of the job, but not the job itself
			job = &hpc.Job{ID: row.Job}
		}
		fields := fieldsOf(w, job, row, start)
		compared.Add(fields)
		value, err := machine.Run(program, fields)
		if err != nil {
			return nil, "", fmt.Errorf("filter: job %s: %w", row.Job, err)
		}
		if is, _ := value.(bool); is {
			kept = append(kept, row)
		}
	}
	if len(kept) == 0 {
		absent = compared.Absent()
	}
	return kept, absent, nil
}

func fieldsOf(w *workload.Workload, job *hpc.Job, row *run.Row, start hpc.Time) Fields {
	of := *job
	of.Submit = row.Submit
	of.Recorded = &hpc.Recorded{Start: row.Start, State: row.State}
	f := Fields{Fields: transform.FieldsOf(w, &of, start), Task: row.Task}
	if f.ID = id(row); row.Task >= 0 {
		f.ArrayID = row.Job
	}
	f.Name, f.User, f.Group, f.Account = row.Name, row.User, row.Group, row.Account
	f.Partition, f.QOS, f.Reservation, f.ExitCode = row.Partition, row.QOS, row.Reservation, row.ExitCode
	f.Started, f.Ended = row.FirstStart() != 0, row.End != 0
	number := func(name string) float64 {
		if v := byName[name].number(row); !math.IsNaN(v) {
			return v
		}
		return -1
	}
	f.Wait, f.Ran, f.Turnaround, f.Slowdown = number("wait"), number("run_time"), number("turnaround"), number("slowdown")
	f.WaitSinceEligible = number("wait_since_eligible")
	f.WaitDependency = number("wait_dependency")
	f.WaitBeginTime = number("wait_begin_time")
	f.WaitHeld = number("wait_held")
	f.WaitOwnLimit = number("wait_own_limit")
	f.WaitLimit = number("wait_limit")
	f.WaitReservation = number("wait_reservation")
	f.WaitOutage = number("wait_node_outage")
	f.WaitPriority = number("wait_priority")
	f.WaitResources = number("wait_resources")
	f.WaitRequeued = number("wait_requeued")
	f.WaitUnknown = number("wait_unknown")
	f.Start, f.End = -1, -1
	if row.Start != 0 {
		f.Start = row.Start.Sub(start).Seconds()
	}
	if f.Ended {
		f.End = row.End.Sub(start).Seconds()
	}
	f.NodeCount, f.Processors, f.NodeList = row.NodeCount, row.Processors, row.Nodes
	f.Priority, f.Restarts, f.Signal, f.Reason = int(row.Priority), row.Restarts, row.Signal, row.Reason
	return f
}

// columnsOf finds columns by their names.
func columnsOf(names []string) ([]*Column, error) {
	if len(names) == 0 {
		names = Default
	}
	var list []*Column
	for _, name := range names {
		c, err := columnOf(name)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// columnOf finds a column. The name may end in _s or _time, as in other outputs (wait_s,
// submit_time).
func columnOf(name string) (*Column, error) {
	for _, suffix := range []string{"", "_s", "_time"} {
		if short, ok := strings.CutSuffix(name, suffix); ok && byName[short] != nil {
			return byName[short], nil
		}
	}
	if c := byName[otherNames[name]]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("column %q: not known (%s)", name, spelling.Meant(name, Names()))
}

// orderOf returns the comparison of two rows.
func orderOf(keys []string) (func(a, b *run.Row) int, error) {
	type key struct {
		column *Column
		sign   int
	}
	var list []key
	for _, text := range keys {
		name, direction, given := strings.Cut(text, ":")
		sign := 1
		switch {
		case direction == "desc":
			sign = -1
		case given && direction != "asc":
			return nil, fmt.Errorf("sorting by %s: %q is not a direction (want asc or desc)", text, direction)
		}
		c, err := columnOf(name)
		if err != nil {
			return nil, fmt.Errorf("sorting by %w", err)
		}
		list = append(list, key{c, sign})
	}
	return func(a, b *run.Row) int {
		for _, k := range list {
			if d := k.column.compare(a, b, k.sign); d != 0 {
				return d
			}
		}
		return 0
	}, nil
}

// compare compares two rows by a column. A row without a value is last in either direction.
func (c *Column) compare(a, b *run.Row, sign int) int {
	if c.number == nil {
		return sign * cmp.Compare(c.text(a), c.text(b))
	}
	x, y := c.number(a), c.number(b)
	switch noX, noY := math.IsNaN(x), math.IsNaN(y); {
	case noX && noY:
		return 0
	case noX:
		return 1
	case noY:
		return -1
	}
	return sign * cmp.Compare(x, y)
}
