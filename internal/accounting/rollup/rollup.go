// Package rollup precomputes sums over jobs, so that questions about whole days need not read the
// jobs.
package rollup

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/waits"
)

// Rollup defines sums over jobs for each UTC day of their ends, each cluster, and each combination
// of some keys. The sums for one such combination are called a cell. For each part of the store, a
// file contains the cells of its jobs. Part and cells are written together and never change. The
// view daily_NAME has the cells of all parts without replaced or removed jobs.
type Rollup struct {
	Name string
	// Keys maps the view's columns to SQL expressions over the columns of jobs. The columns a and b
	// are texts, and x, y and z are integers.
	Keys     map[string]string
	Where    string   // SQL condition for the jobs in the rollup; empty for all jobs
	Measures []string // names in [Measures]
	of       func(j *Job, to *cellKey) bool
}

// Failed returns the SQL for whether a state is a failure. It uses a function, because DuckDB
// evaluates a function once per different state, but IN once per job.
func Failed(state string) string {
	return "contains('" + failures + "', ',' || " + state + " || ',')"
}

const failures = ",FAILED,TIMEOUT,NODE_FAIL,OUT_OF_MEMORY,BOOT_FAIL,DEADLINE,"

// Class returns the SQL for the class of a column of integers that are not negative. There are the
// given number of classes per doubling. Adding 1/2 gives 0 a class, and keeps the edges between
// integers.
func Class(name string, classes int) string {
	return fmt.Sprintf("floor(log2(%s + 0.5::DOUBLE) * %d)::BIGINT", name, classes)
}

func class(n int64, classes float64) int64 {
	return int64(math.Floor(math.Log2(float64(n)+0.5) * classes))
}

// LimitUsed is the SQL for the part of the time limit that a job used, in whole twentieths of the limit; at most 20.
const LimitUsed = "floor(least(20::DOUBLE * elapsed_s / limit_s, 20))"

// Unused is the SQL for the CPU seconds that a job did not use within its time limit. It is 0 for a job that exceeded
// its limit, and NULL for jobs that never ran and for lost runs.
const Unused = "cpus::DOUBLE * CASE WHEN start_time IS NULL OR lost = 1 THEN NULL WHEN elapsed_s >= limit_s THEN 0 " +
	"ELSE limit_s::DOUBLE - elapsed_s END"

// Started is the SQL for whether a job ran.
const Started = "start_time IS NOT NULL"

// Lost is the SQL for whether a run is known to be lost, and Last for whether the run counts as a
// job. All runs that are not known to be lost count as jobs.
const (
	Lost = "lost = 1"
	Last = "NOT coalesce(" + Lost + ", false)"
)

// Ran is the SQL for whether a job has processors, a start and an end.
const Ran = "cpus > 0 AND start_time <= end_time"

// Quarter is a quarter of an hour in seconds, the step of instants in rollups. All present time
// zones differ from UTC by a multiple of it.
const Quarter = 900

const (
	microsQuarter = Quarter * 1_000_000
	microsDay     = 86_400_000_000
)

func quarter(column string) string { return fmt.Sprintf("epoch_us(%s) // %d", column, microsQuarter) }

// sinceQuarter returns the SQL for the seconds from the beginning of the quarter of an hour to an
// instant.
func sinceQuarter(column string) string {
	return fmt.Sprintf("((epoch_us(%s) %% %d) / 1e6)", column, microsQuarter)
}

// Measures maps the names of measures to SQL aggregates over a cell's jobs. Times are in seconds.
// The sum of a measure over cells is the measure of their jobs, except for first_end and last_end.
var Measures = map[string]string{
	"runs": "count(*)", "jobs": "count(*) FILTER (" + Last + ")",
	"failed": "count(*) FILTER ((" + Failed("state") + ") AND (" + Last + "))", "waits": "count(wait_s)",
	"wait_s": "sum(wait_s)::DOUBLE", "eligible_waits": "count(wait_since_eligible_s)",
	"wait_since_eligible_s": "sum(wait_since_eligible_s)::DOUBLE",
	"elapsed_s":             "sum(elapsed_s)::DOUBLE", "cpu_hours": "sum(cpu_hours)", "failed_cpu_hours": "sum(cpu_hours) FILTER (" +
		Failed("state") + ")",
	"unused": "sum(" + Unused + ")", "node_hours": "sum(node_hours)", "gpu_hours": "sum(gpu_hours)",
	"cpus": "sum(cpus)::DOUBLE", "cpu_starts": "sum(cpus::DOUBLE * " + sinceQuarter("start_time") + ")",
	"cpu_ends":  "sum(cpus::DOUBLE * " + sinceQuarter("end_time") + ")",
	"first_end": "min(end_time)", "last_end": "max(end_time)",
}

// lacking are columns that may be unknown for jobs that ran. The measure no_COLUMN counts these
// jobs.
var lacking = []string{"wait_s", "cpus", "nodes", "gpus", "limit_s"}

// lacks are the measures that count jobs that never ran, and jobs with an unknown column.
var lacks = func() []string {
	names := []string{"never_ran"}
	Measures["never_ran"] = "count(*) FILTER (start_time IS NULL)"
	for _, column := range lacking {
		name := "no_" + column
		names, Measures[name] = append(names, name), "count(*) FILTER (("+Started+") AND ("+Last+") AND ("+column+" IS NULL))"
	}
	return names
}()

// parts are the measures of the parts of waits, in the order of [waits.Parts]. The columns have the
// same names.
var parts = func() (names []string) {
	for _, part := range waits.Parts {
		name := "wait_" + string(part) + "_s"
		names, Measures[name] = append(names, name), "sum("+name+")::DOUBLE"
	}
	return names
}()

// Rollups maps names to all rollups.
var Rollups = func() map[string]*Rollup {
	all := make(map[string]*Rollup)
	top := append([]string{"runs", "jobs", "failed", "waits", "wait_s", "eligible_waits", "wait_since_eligible_s",
		"elapsed_s", "cpu_hours", "unused"}, parts...)
	byText := func(column string, of func(j *Job) int32) *Rollup {
		return &Rollup{"", map[string]string{"a": "coalesce(" + column + ", '')"}, "", top, func(j *Job, to *cellKey) bool {
			to.a = of(j)
			return true
		}}
	}
	byInstant := func(name, column, where string, measures []string, of func(j *Job) columnar.Optional) *Rollup {
		return &Rollup{name, map[string]string{"x": quarter(column)}, where, measures, func(j *Job, to *cellKey) bool {
			at := of(j)
			to.x = columnar.Some(at.N / microsQuarter)
			return at.OK && (where != Ran || j.ran())
		}}
	}
	byClass := func(name, column, where string, classes float64, of func(j *Job) columnar.Optional) *Rollup {
		return &Rollup{name, map[string]string{"x": Class(column, int(classes))}, column + " >= 0 AND " + Started + where,
			[]string{"runs", "cpu_hours"}, func(j *Job, to *cellKey) bool {
				n := of(j)
				if !n.OK || n.N < 0 || !j.start.OK || j.lost.N != 0 && where != "" {
					return false
				}
				to.x = columnar.Some(class(n.N, classes))
				return true
			}}
	}
	user := byText("user_name", func(j *Job) int32 { return j.user })
	user.Name, user.Measures = "user", append([]string{"failed_cpu_hours", "node_hours", "gpu_hours"}, top...)
	account := byText("account", func(j *Job) int32 { return j.account })
	account.Name = "account"
	name := byText("job_name", func(j *Job) int32 { return j.name })
	name.Name = "name"
	for _, r := range []*Rollup{
		{"cluster", map[string]string{}, "", append([]string{"runs", "jobs", "first_end", "last_end"}, lacks...),
			func(*Job, *cellKey) bool { return true }},
		user, account, name,
		{"share", map[string]string{"a": `coalesce("partition", '')`, "b": "coalesce(qos, '')"}, "", top,
			func(j *Job, to *cellKey) bool {
				to.a, to.b = j.partition, j.qos
				return true
			}},
		{"state", map[string]string{"x": quarter("end_time"), "a": "coalesce(state, '')"}, "",
			[]string{"runs", "jobs", "cpu_hours", "unused"}, func(j *Job, to *cellKey) bool {
				to.x, to.a = columnar.Optional{N: j.End.N / microsQuarter, OK: j.End.OK}, j.state
				return true
			}},
		{"exit", map[string]string{"x": quarter("end_time"), "y": "exit_code", "z": "exit_signal"}, Started + " AND " + Last,
			[]string{"runs"},
			func(j *Job, to *cellKey) bool {
				to.x, to.y, to.z = columnar.Optional{N: j.End.N / microsQuarter, OK: j.End.OK}, j.exitCode, j.exitSignal
				return j.start.OK && j.lost.N == 0
			}},
		byInstant("submit", "submit_time", "submit_time IS NOT NULL", []string{"runs", "jobs", "waits", "wait_s"},
			func(j *Job) columnar.Optional { return j.submit }),
		byClass("wait", "wait_s", "", 2, func(j *Job) columnar.Optional { return j.wait }),
		byClass("run", "elapsed_s", " AND "+Last, 2, func(j *Job) columnar.Optional { return j.elapsed }),
		byClass("size", "nodes", " AND "+Last, 1, func(j *Job) columnar.Optional { return j.nodes }),
		{"used", map[string]string{"x": LimitUsed + "::BIGINT"},
			"limit_s > 0 AND elapsed_s IS NOT NULL AND " + Started + " AND " + Last,
			[]string{"runs", "cpu_hours"}, func(j *Job, to *cellKey) bool {
				if !j.limit.OK || j.limit.N <= 0 || !j.elapsed.OK || !j.start.OK || j.lost.N != 0 {
					return false
				}
				to.x = columnar.Some(int64(math.Floor(min(20*float64(j.elapsed.N)/float64(j.limit.N), 20))))
				return true
			}},
		{"limit", map[string]string{"x": Class("limit_s", 1), "y": Class("elapsed_s", 1)},
			"limit_s > 0 AND elapsed_s >= 0 AND " + Started + " AND " + Last,
			[]string{"runs", "cpu_hours"}, func(j *Job, to *cellKey) bool {
				if !j.limit.OK || j.limit.N <= 0 || !j.elapsed.OK || j.elapsed.N < 0 || !j.start.OK || j.lost.N != 0 {
					return false
				}
				to.x, to.y = columnar.Some(class(j.limit.N, 1)), columnar.Some(class(j.elapsed.N, 1))
				return true
			}},
		byInstant("start", "start_time", Ran, []string{"cpus", "cpu_starts"},
			func(j *Job) columnar.Optional { return j.start }),
		byInstant("end", "end_time", Ran, []string{"cpus", "cpu_ends"}, func(j *Job) columnar.Optional { return j.End }),
	} {
		all[r.Name] = r
	}
	return all
}()

// Names returns the names of all rollups, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Rollups)) }

// Columns returns the names of a rollup's keys and measures, and their SQL over jobs.
func (r *Rollup) Columns() (names, expressions []string) {
	for _, key := range slices.Sorted(maps.Keys(r.Keys)) {
		names, expressions = append(names, key), append(expressions, r.Keys[key])
	}
	for _, m := range r.Measures {
		names, expressions = append(names, m), append(expressions, Measures[m])
	}
	return names, expressions
}

// Counted returns SQL that computes, from the jobs of a view, the columns that stored cells have. The extra keys are
// further columns of the result.
func (r *Rollup) Counted(view, where string, extra ...string) string {
	names, expressions := r.Columns()
	for i := range names {
		expressions[i] += " AS " + names[i]
	}
	if r.Where != "" {
		where += " AND " + r.Where
	}
	return "SELECT " + strings.Join(append(extra, expressions...), ", ") + " FROM " + view + " WHERE " + where +
		" GROUP BY ALL"
}

// Layout describes a file of cells. Columns that a rollup lacks are NULL in its rows.
var Layout = columnar.New(append(partColumns(),
	columnar.Column{Name: "rollup", Kind: "VARCHAR", Null: false, Plain: false},
	columnar.Column{Name: "day", Kind: "INTEGER", Null: true, Plain: false},
	columnar.Column{Name: "cluster", Kind: "VARCHAR", Null: false, Plain: false},
	columnar.Column{Name: "a", Kind: "VARCHAR", Null: true, Plain: false},
	columnar.Column{Name: "b", Kind: "VARCHAR", Null: true, Plain: false},
	columnar.Column{Name: "x", Kind: "BIGINT", Null: true, Plain: false}, columnar.Column{Name: "y", Kind: "BIGINT",
		Null: true, Plain: false}, columnar.Column{Name: "z", Kind: "BIGINT", Null: true, Plain: false},
	columnar.Column{Name: "runs", Kind: "BIGINT", Null: true, Plain: false},
	columnar.Column{Name: "jobs", Kind: "BIGINT", Null: true, Plain: false}, columnar.Column{Name: "failed",
		Kind: "BIGINT", Null: true, Plain: false}, columnar.Column{Name: "waits", Kind: "BIGINT", Null: true, Plain: false},
	columnar.Column{Name: "wait_s", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "eligible_waits", Kind: "BIGINT", Null: true, Plain: false},
	columnar.Column{Name: "wait_since_eligible_s", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "elapsed_s", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "cpu_hours", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "failed_cpu_hours", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "unused", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "node_hours", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "gpu_hours", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "cpus", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "cpu_starts", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "cpu_ends", Kind: "DOUBLE", Null: true, Plain: true},
	columnar.Column{Name: "first_end", Kind: "TIMESTAMP", Null: true, Plain: true},
	columnar.Column{Name: "last_end", Kind: "TIMESTAMP", Null: true, Plain: true},
)...)

func partColumns() (list []columnar.Column) {
	for _, name := range lacks {
		list = append(list, columnar.Column{Name: name, Kind: "BIGINT", Null: true, Plain: false})
	}
	for _, name := range parts {
		list = append(list, columnar.Column{Name: name, Kind: "DOUBLE", Null: true, Plain: true})
	}
	return list
}

// Job has the columns from which cells are computed. Texts are indices of a dictionary; the empty
// text is 0.
type Job struct {
	Cluster, state, user, account, name, partition, qos                                              int32
	submit, start, End, wait, sinceEligible, elapsed, limit, cpus, nodes, gpus, exitCode, exitSignal columnar.Optional
	lost                                                                                             columnar.Optional
	cpuHours, nodeHours, gpuHours                                                                    sum

	waitParts [len(waits.Sums{}.Parts)]columnar.Optional
}

func (j *Job) ran() bool {
	return j.cpus.OK && j.cpus.N > 0 && j.start.OK && j.End.OK && j.start.N <= j.End.N
}

// countedColumns are the columns from which cells are computed.
var countedColumns = map[string]counted{
	"cluster": {text: func(j *Job) *int32 { return &j.Cluster }}, "state": {text: func(j *Job) *int32 { return &j.state }},
	"user_name":             {text: func(j *Job) *int32 { return &j.user }},
	"account":               {text: func(j *Job) *int32 { return &j.account }},
	"job_name":              {text: func(j *Job) *int32 { return &j.name }},
	"partition":             {text: func(j *Job) *int32 { return &j.partition }},
	"qos":                   {text: func(j *Job) *int32 { return &j.qos }},
	"submit_time":           {number: func(j *Job) *columnar.Optional { return &j.submit }},
	"start_time":            {number: func(j *Job) *columnar.Optional { return &j.start }},
	"end_time":              {number: func(j *Job) *columnar.Optional { return &j.End }},
	"wait_s":                {number: func(j *Job) *columnar.Optional { return &j.wait }},
	"wait_since_eligible_s": {number: func(j *Job) *columnar.Optional { return &j.sinceEligible }},
	"elapsed_s":             {number: func(j *Job) *columnar.Optional { return &j.elapsed }},
	"limit_s":               {number: func(j *Job) *columnar.Optional { return &j.limit }},
	"cpus":                  {number: func(j *Job) *columnar.Optional { return &j.cpus }},
	"nodes":                 {number: func(j *Job) *columnar.Optional { return &j.nodes }},
	"gpus":                  {number: func(j *Job) *columnar.Optional { return &j.gpus }},
	"lost":                  {number: func(j *Job) *columnar.Optional { return &j.lost }},
	"exit_code":             {number: func(j *Job) *columnar.Optional { return &j.exitCode }},
	"exit_signal":           {number: func(j *Job) *columnar.Optional { return &j.exitSignal }},
	"cpu_hours":             {hours: func(j *Job) *sum { return &j.cpuHours }},
	"node_hours":            {hours: func(j *Job) *sum { return &j.nodeHours }},
	"gpu_hours":             {hours: func(j *Job) *sum { return &j.gpuHours }},
}

// counted says where a column's values are stored: as a text, a whole number or a number of hours.
type counted struct {
	text   func(j *Job) *int32
	number func(j *Job) *columnar.Optional
	hours  func(j *Job) *sum
}

func init() {
	for i, name := range parts {
		countedColumns[name] = counted{number: func(j *Job) *columnar.Optional { return &j.waitParts[i] }}
	}
}

// Read reads the columns of a part's jobs that cells need. The result texts is the dictionary of
// their texts.
func Read(r *columnar.Reader) (jobs []Job, texts []string, err error) {
	jobs, texts = make([]Job, r.Rows()), []string{""}
	numbers := map[string]int32{"": 0}
	for _, name := range slices.Sorted(maps.Keys(countedColumns)) { // sorted: the same jobs always make the same file
		to, row := countedColumns[name], 0
		err := r.Each(r.Layout.Index(name), 0, func(values []parquet.Value) (bool, error) {
			for i := range values {
				j, v := &jobs[row], &values[i]
				row++
				switch {
				case v.IsNull():
				case to.text != nil:
					text := v.ByteArray()
					n, ok := numbers[string(text)]
					if !ok {
						n = int32(len(texts))
						texts = append(texts, string(text))
						numbers[texts[n]] = n
					}
					*to.text(j) = n
				case to.number != nil:
					*to.number(j) = columnar.Some(v.Int64())
				default:
					*to.hours(j) = sum{v.Double(), true}
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return jobs, texts, nil
}

// cellKey has the values that a cell's jobs have in common.
type cellKey struct {
	day     columnar.Optional
	cluster int32
	a, b    int32
	x, y, z columnar.Optional
}

// cell has the sums of a cell, for every rollup.
type cell struct {
	runs, jobs, failed, waits, eligibleWaits                                            int64
	waitS, sinceEligibleS, elapsedS, cpuHours, failedHours, unused, nodeHours, gpuHours sum
	cpus, cpuStarts, cpuEnds                                                            sum
	first, last                                                                         columnar.Optional
	waitParts                                                                           [len(waits.Sums{}.Parts)]sum
	lacks                                                                               [6]int64 // in the order of lacks
}

// sum is a sum that is NULL until a value is added.
type sum struct {
	value float64
	OK    bool
}

func (s *sum) add(v float64) { s.value, s.OK = s.value+v, true }

// join adds another sum.
func (s *sum) join(more sum) { s.value, s.OK = s.value+more.value, s.OK || more.OK }

func (c *cell) add(j *Job, failed bool) {
	c.runs++
	last := j.lost.N == 0
	if last {
		c.jobs++
	}
	switch {
	case !j.start.OK:
		c.lacks[0]++
	case last:
		for i, known := range []columnar.Optional{j.wait, j.cpus, j.nodes, j.gpus, j.limit} { // in the order of var lacking
			if !known.OK {
				c.lacks[1+i]++
			}
		}
	}
	c.cpuHours.join(j.cpuHours)
	c.nodeHours.join(j.nodeHours)
	c.gpuHours.join(j.gpuHours)
	if failed {
		if last {
			c.failed++
		}
		c.failedHours.join(j.cpuHours)
	}
	if j.wait.OK {
		c.waits++
		c.waitS.add(float64(j.wait.N))
	}
	if j.sinceEligible.OK {
		c.eligibleWaits++
		c.sinceEligibleS.add(float64(j.sinceEligible.N))
	}
	for i, part := range j.waitParts {
		if part.OK {
			c.waitParts[i].add(float64(part.N))
		}
	}
	if j.elapsed.OK {
		c.elapsedS.add(float64(j.elapsed.N))
	}
	if last && j.start.OK && j.cpus.OK && j.limit.OK && j.elapsed.OK {
		c.unused.add(float64(j.cpus.N) * max(0, float64(j.limit.N)-float64(j.elapsed.N)))
	}
	if j.cpus.OK {
		c.cpus.add(float64(j.cpus.N))
		if j.start.OK {
			c.cpuStarts.add(float64(j.cpus.N) * float64(j.start.N%microsQuarter) / 1e6)
		}
		if j.End.OK {
			c.cpuEnds.add(float64(j.cpus.N) * float64(j.End.N%microsQuarter) / 1e6)
		}
	}
	if j.End.OK {
		if !c.first.OK || j.End.N < c.first.N {
			c.first = j.End
		}
		if !c.last.OK || j.End.N > c.last.N {
			c.last = j.End
		}
	}
}

// cellRow is a row of a file of cells.
type cellRow struct {
	rollup *Rollup
	key    cellKey
	cell   *cell
}

// Write computes the cells of a part's jobs, and writes them into a file.
func Write(path string, jobs []Job, texts []string) (columnar.Sealed, error) {
	failed := make([]bool, len(texts))
	for i, text := range texts {
		failed[i] = strings.Contains(failures, ","+text+",")
	}
	var rows []cellRow
	for _, name := range Names() {
		rows = append(rows, Rollups[name].count(jobs, failed)...)
	}
	return Layout.Write(path, columnar.Small, true, func(column int, put func([]parquet.Value) error) error {
		values := make([]parquet.Value, 0, columnar.Chunk)
		for i := range rows {
			values = append(values, Layout.Leveled(column, rows[i].value(Layout.Columns[column].Name, texts)))
			if len(values) == columnar.Chunk || i == len(rows)-1 {
				if err := put(values); err != nil {
					return err
				}
				values = values[:0]
			}
		}
		return nil
	})
}

// count returns the cells of jobs, ordered by their keys, the day first.
func (r *Rollup) count(jobs []Job, failed []bool) []cellRow {
	cells := make(map[cellKey]*cell)
	for i := range jobs {
		j := &jobs[i]
		at := cellKey{cluster: j.Cluster, day: columnar.Optional{N: j.End.N / microsDay, OK: j.End.OK}}
		if !r.of(j, &at) {
			continue
		}
		c := cells[at]
		if c == nil {
			c = new(cell)
			cells[at] = c
		}
		c.add(j, failed[j.state] && j.state != 0)
	}
	rows := make([]cellRow, 0, len(cells))
	for at, c := range cells {
		rows = append(rows, cellRow{r, at, c})
	}
	slices.SortFunc(rows, func(a, b cellRow) int { return a.key.compare(&b.key) })
	return rows
}

func compareOptional(o, p columnar.Optional) int {
	switch {
	case o.OK != p.OK:
		return map[bool]int{true: 1, false: -1}[o.OK]
	case !o.OK:
		return 0
	}
	return cmp.Compare(o.N, p.N)
}

func (k *cellKey) compare(other *cellKey) int {
	return cmp.Or(compareOptional(k.day, other.day), cmp.Compare(k.cluster, other.cluster), cmp.Compare(k.a, other.a),
		cmp.Compare(k.b, other.b),
		compareOptional(k.x, other.x), compareOptional(k.y, other.y), compareOptional(k.z, other.z))
}

// value returns the value of a column of a row.
func (c *cellRow) value(column string, texts []string) parquet.Value {
	switch column {
	case "rollup":
		return columnar.Text(c.rollup.Name)
	case "cluster":
		return columnar.Text(texts[c.key.cluster])
	case "day":
		if !c.key.day.OK {
			return parquet.NullValue()
		}
		return parquet.Int32Value(int32(c.key.day.N))
	}
	if _, ok := c.rollup.Keys[column]; ok {
		switch column {
		case "a":
			return columnar.Text(texts[c.key.a])
		case "b":
			return columnar.Text(texts[c.key.b])
		}
		return map[string]columnar.Optional{"x": c.key.x, "y": c.key.y, "z": c.key.z}[column].Value()
	}
	if slices.Contains(c.rollup.Measures, column) {
		return c.cell.value(column)
	}
	return parquet.NullValue()
}

func (c *cell) value(measure string) parquet.Value {
	var s sum
	switch measure {
	case "runs":
		return columnar.Int(c.runs)
	case "jobs":
		return columnar.Int(c.jobs)
	case "failed":
		return columnar.Int(c.failed)
	case "waits":
		return columnar.Int(c.waits)
	case "first_end":
		return c.first.Value()
	case "last_end":
		return c.last.Value()
	case "eligible_waits":
		return columnar.Int(c.eligibleWaits)
	case "wait_s":
		s = c.waitS
	case "wait_since_eligible_s":
		s = c.sinceEligibleS
	case "elapsed_s":
		s = c.elapsedS
	case "cpu_hours":
		s = c.cpuHours
	case "failed_cpu_hours":
		s = c.failedHours
	case "unused":
		s = c.unused
	case "node_hours":
		s = c.nodeHours
	case "gpu_hours":
		s = c.gpuHours
	case "cpus":
		s = c.cpus
	case "cpu_starts":
		s = c.cpuStarts
	case "cpu_ends":
		s = c.cpuEnds
	default:
		if i := slices.Index(lacks, measure); i >= 0 {
			return columnar.Int(c.lacks[i])
		}
		s = c.waitParts[slices.Index(parts, measure)]
	}
	if !s.OK {
		return parquet.NullValue()
	}
	return parquet.DoubleValue(s.value)
}
