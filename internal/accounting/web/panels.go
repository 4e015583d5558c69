package web

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/embedded"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

// panel is a part of a page. It says how the answers to questions are shown. Unless the panel is
// about schedulers, [question.Panels] has the questions under the panel's name.
type panel struct {
	name, title string
	about       string // what the panel shows, in a sentence
	wide        bool
	health      func(b embedded.Bars) embedded.Query // the query of a panel about schedulers; nil for others
	shape       func(r *request, s *sizes, raw [][]any) *table
	draw        func(r *request, t *table, s scale) (*chart, error) // nil for a panel with a table only
	// lines are the columns that are drawn, for two schedulers, as lines in one chart. unit is the
	// label of the chart's axis. A panel without lines has one chart for each scheduler.
	// aboutLines replaces about for this chart, unless it is empty.
	lines      []string
	unit       string
	aboutLines string
	times      bool // the panel shows how long slurmctld took for something
	largest    bool // the panel shows the largest numbers in answers of sdiag
}

// format says how a value is formatted.
type format int

const (
	word format = iota
	count
	hours
	seconds
	percent
	moment
	number // unformatted
)

// column is a column of a panel's table.
type column struct {
	Name   string `json:"name"`
	Label  string `json:"label"`
	Unit   string `json:"unit,omitempty"`
	format format
}

// table is the content of a panel. A value is an int64, a float64, a string, a time or nil.
type table struct {
	Columns []column
	Rows    [][]any
	links   []string           // links of the first column; an empty text means that there is no link
	bar     int                // index of the column that also has bars; 0 without bars
	series  []int              // indices of the columns that a chart shows
	sums    map[string]float64 // sum of the values of each name, if pivot made the table
	colours []int              // colour of each series, as an index of figure.Colours
	names   string             // the field whose values are the series' names; may be empty
	notes   []string
	tiles   bool // the only row is shown as tiles
	alone   bool // the only series is drawn without a legend
	levels  bool // values must not be added up over time
	more    bool // there are more jobs after those in the table
	absent  bool // the source lacks the columns that the panel needs; notes explain this
}

// panels are the panels of the page about jobs, in their order.
var panels = []*panel{
	{name: "summary", title: "Summary", about: "The finished jobs of this view.", wide: true, shape: shapeSummary},
	{name: "jobs", title: "Finished jobs", about: "How many jobs ended, by state.", wide: true, shape: shapeStates,
		draw: drawTimeline("jobs")},
	{name: "utilization", title: "Utilization",
		about: "Processors that finished jobs held, also in runs that were lost. Jobs that still run are not counted.",
		shape: shapeUtilization, draw: drawTimeline("")},
	{name: "shares", title: "CPU hours by partition and QOS", about: "The inner ring has the partitions, the outer ring " +
		"the QOS within each.", shape: shapeShares, draw: drawRings},
	{name: "users", title: "Top users", about: "The ten users with the longest total run time.",
		shape: shapeTop("user_name", "user", 2)},
	{name: "accounts", title: "Top accounts", about: "The ten accounts with the most CPU hours.",
		shape: shapeTop("account", "account", 3)},
	{name: "waits", title: "Waits", about: "From submission to start, less lost runs, of jobs that ran.",
		shape: shapeClasses("wait_s", "wait", 2, "s", seconds), draw: drawDistribution("wait_s")},
	{name: "reasons", title: "Why jobs waited", about: "The parts of all waits, which add up to the waits.",
		shape: shapeReasons},
	{name: groups, title: "Who waited, and why", about: "The ten groups whose jobs waited longest in all, and the " +
		"largest parts of their waits.", wide: true, shape: shapeGroups},
	{name: "runs", title: "Run times",
		about: "From start to end of each job's last run. Jobs that never ran are not counted.",
		shape: shapeClasses("elapsed_s", "run time", 2, "s", seconds), draw: drawDistribution("elapsed_s")},
	{name: "sizes", title: "Job sizes", about: "Allocated nodes of jobs that ran.",
		shape: shapeClasses("nodes", "nodes", 1, "", number), draw: drawDistribution("nodes")},
	{name: "requested", title: "Time used of the time limit", about: "Run time in per cent of the time limit, of jobs " +
		"that ran and have one.", shape: shapeLimitUsed, draw: drawDistribution("limit_used")},
	{name: "limits", title: "Requested against used time", about: "Each cell counts the jobs with this limit and " +
		"this run time.", shape: shapeLimits, draw: drawLimits},
	{name: "waste", title: "Waste", about: "CPU hours of completed runs, of failed runs, and of cancelled, lost and " +
		"other runs. Above them are the CPU hours that jobs asked for by their time limits and did not use. A job that " +
		"ran beyond its limit adds none of these.", shape: shapeWaste, draw: drawTimeline("CPU hours")},
	{name: "exits", title: "Exit codes", about: "The exit codes and signals of the scripts of jobs that " +
		"ran.", shape: shapeExits, draw: drawTimeline("jobs")},
	{name: "week", title: "Submissions by hour and weekday", about: "Each cell counts the jobs that were submitted in " +
		"that hour of that weekday.", shape: shapeWeek, draw: drawWeek},
	{name: "partitions", title: "Top partitions", about: "The ten partitions with the most CPU hours.",
		shape: shapeTop("partition", "partition", 3)},
	{name: "names", title: "Top job names", about: "The ten job names with the most runs.",
		shape: shapeTop("job_name", "job name", 1)},
	{name: "table", title: "Jobs",
		about: "One row for each run of a job. A click on the number opens all fields of the job.",
		wide:  true, shape: shapeJobs},
}

func panelOf(name string) *panel {
	for _, p := range slices.Concat(panels, healthPanels) {
		if p.name == name {
			return p
		}
	}
	return nil
}

func shapeSummary(r *request, s *sizes, raw [][]any) *table {
	if len(raw) == 0 {
		raw = [][]any{{int64(0), int64(0), int64(0), nil, nil, nil, nil, nil, nil, nil, nil}}
	}
	row := raw[0]
	row[1], row[7] = ratio(value(row[1]), value(row[0])), ratio(value(orZero(row[7])), value(row[6]))
	row[5], row[8] = inHours(row[5]), inHours(row[8])
	t := &table{tiles: true, Rows: raw, Columns: []column{
		{"jobs", "jobs", "", count},
		{"failed", "failed, of the jobs", "%", percent},
		{"users", "users", "", count},
		{"wait", "mean wait", "s", seconds},
		{"wait_since_eligible", "mean wait since eligible", "s", seconds},
		{"elapsed", "run time", "h", hours},
		{"cpu_hours", "CPU hours", "h", hours},
		{"failed_cpu_hours", "failed, of the CPU hours", "%", percent},
		{"unused_cpu_hours", "CPU hours asked for, not used", "h", hours},
		{"node_hours", "node hours", "h", hours},
		{"gpu_hours", "GPU hours", "h", hours},
	}}
	if note := s.addedUp(r.chosen); note != "" {
		t.notes = append(t.notes, note)
	}
	return t
}

// value converts a number of an answer. It returns NaN for nil.
func value(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case int32:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

// inHours converts seconds to hours. It returns nil for nil.
func inHours(v any) any {
	if v == nil {
		return nil
	}
	return value(v) / 3600
}

// orZero replaces nil by 0.
func orZero(v any) any {
	if v == nil {
		return 0.0
	}
	return v
}

// known converts a number of an answer. It returns 0 for nil, which adds nothing to charts and sums.
func known(v any) float64 { return value(orZero(v)) }

// ratio returns part as a percentage of whole, or nil if whole is not positive.
func ratio(part, whole float64) any {
	if !(whole > 0) {
		return nil
	}
	return 100 * part / whole
}

// longestLabel is the number of bytes of a name that are repeated beside each number of a table.
const longestLabel = 80

// maxSeries is the highest number of series in a stacked chart; the sum of the rest is one more series.
const maxSeries = 7

// pivot makes a table with a row for each bucket and a column for each name. A raw row has a bucket, a
// name and a value. The names with the highest sums come first. If the request has the sums of both
// sides of a comparison, their order is by these sums.
func pivot(r *request, b buckets, raw [][]any, unit string, f format) *table {
	sums := make(map[string]float64)
	for _, row := range raw {
		sums[row[1].(string)] += value(row[2])
	}
	t := timeTable(r, b)
	if t.sums = sums; r.sums != nil {
		sums = r.sums
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), strings.Compare(a, b)) })
	others := len(names) > maxSeries
	if others {
		names = append(names[:maxSeries-1:maxSeries-1], "others")
	}
	at := make(map[string]int)
	for i, name := range names {
		at[name] = i
		label := name
		if len(name) > longestLabel {
			label = quantity.Name(name)
		}
		t.Columns = append(t.Columns, column{name, label, unit, f})
		t.series = append(t.series, 2+i)
	}
	for i := range t.Rows {
		for range names {
			t.Rows[i] = append(t.Rows[i], 0.0)
		}
	}
	for _, row := range raw {
		k, ok := row[0].(int64)
		if !ok || k < 0 || int(k) >= len(t.Rows) {
			continue
		}
		i, ok := at[row[1].(string)]
		if !ok {
			i = len(names) - 1
		}
		t.Rows[k][2+i] = value(t.Rows[k][2+i]) + value(row[2])
	}
	return t
}

// timeTable returns a table with a row for each bucket, which has the bucket's beginning and end.
func timeTable(r *request, b buckets) *table {
	t := &table{Columns: []column{{"from", "from", "", moment}, {"until", "until", "", moment}}}
	for i := 1; i < len(b.edges); i++ {
		t.Rows = append(t.Rows, []any{b.edges[i-1], b.edges[i]})
		t.links = append(t.links, r.during(b.edges[i-1].Add(-r.shift), b.edges[i].Add(-r.shift)))
	}
	return t
}

func shapeStates(r *request, _ *sizes, raw [][]any) *table {
	var rows [][]any
	for _, row := range raw {
		if row[3] != int64(0) { // if 0, only lost runs ended in this state
			rows = append(rows, []any{row[0], row[1], row[3]})
		}
	}
	t := pivot(r, r.buckets(), rows, "jobs", count)
	t.names = "state"
	fixed := map[string]int{"COMPLETED": 0, "FAILED": 1, "TIMEOUT": 4, "OUT_OF_MEMORY": 3, "NODE_FAIL": 6, "CANCELLED": 5,
		"PREEMPTED": 2}
	for _, c := range t.series {
		colour, ok := fixed[t.Columns[c].Name]
		if !ok {
			colour = 7
		}
		t.colours = append(t.colours, colour)
	}
	return t
}

func shapeExits(r *request, _ *sizes, raw [][]any) *table {
	var named [][]any
	for _, row := range raw {
		name := "not known"
		var code, signal int64
		if _, err := fmt.Sscanf(row[1].(string), "%d:%d", &code, &signal); err == nil {
			switch {
			case signal > 0:
				name = fmt.Sprintf("signal %d", signal)
			case code == 0:
				name = "0"
			default:
				name = fmt.Sprintf("exit %d", code)
			}
		}
		named = append(named, []any{row[0], name, row[2]})
	}
	return plainColours(pivot(r, r.buckets(), named, "jobs", count))
}

// plainColours gives the first series the first colour, the second series the second colour, and so
// on. The series "others" is grey.
func plainColours(t *table) *table {
	for i, c := range t.series {
		if t.Columns[c].Name == "others" {
			i = 7
		}
		t.colours = append(t.colours, i)
	}
	return t
}

func shapeWaste(r *request, _ *sizes, raw [][]any) *table {
	t := timeTable(r, r.buckets())
	t.Columns = append(t.Columns, column{"completed", "completed", "h", hours}, column{"failed", "failed", "h", hours},
		column{"other", "cancelled, lost and others", "h", hours}, column{"unused", "asked for, not used", "h", hours})
	t.series, t.colours = []int{2, 3, 4, 5}, []int{0, 1, 5, 7}
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], 0.0, 0.0, 0.0, 0.0)
	}
	for _, row := range raw {
		if k, ok := row[0].(int64); ok && k >= 0 && int(k) < len(t.Rows) {
			t.Rows[k] = append(t.Rows[k][:2], row[1], row[2], row[3], inHours(row[4]))
			for i, jobs := range row[5:] {
				if jobs == int64(0) { // with jobs, nil means that their hours are unknown
					t.Rows[k][2+i] = orZero(t.Rows[k][2+i])
				}
			}
		}
	}
	return t
}

// shapeUtilization sums the processor seconds of each bucket. A raw row is about the jobs that
// start in a bucket, or about the jobs that end there. It has two sums over these jobs: the sum of
// their processors, and the sum of the processors times the instant of the start or end, in
// seconds since the first bucket's beginning. Both sums are negative for jobs that end.
func shapeUtilization(r *request, s *sizes, raw [][]any) *table {
	b := r.buckets()
	n := len(b.edges) - 1
	edge := func(k int) float64 { return b.edges[k].Sub(b.edges[0]).Seconds() }
	level := 0.0 // processors in use when a bucket begins
	changes, instants := make([]float64, n), make([]float64, n)
	for _, row := range raw {
		k, ok := row[0].(int64)
		switch {
		case !ok || k >= int64(n):
		case k < 0:
			level += value(orZero(row[1]))
		default:
			changes[k] += value(orZero(row[1]))
			instants[k] += value(orZero(row[2]))
		}
	}
	busy := make([]float64, n)
	for k := range busy {
		busy[k] = max(0, level*(edge(k+1)-edge(k))+changes[k]*edge(k+1)-instants[k])
		level += changes[k]
	}
	if b.edges[n-1].Before(r.after) && r.after.Before(b.edges[n]) {
		b.edges[n] = r.after // after the newest end, the last quarter of an hour has only idle time
	}
	t := timeTable(r, b)
	capacity, unknown := s.capacity(r.chosen)
	t.Columns = append(t.Columns, column{"cpus", "processors in use", "", count})
	t.series, t.colours, t.alone = []int{2}, []int{0}, true
	if capacity > 0 {
		t.Columns = append(t.Columns, column{"utilization", "in use", "%", percent})
		t.series = []int{3}
		t.notes = append(t.notes, "100 % are "+quantity.Counted(int(capacity), "processor.", "processors."))
	} else {
		t.notes = append(t.notes, fmt.Sprintf("The number of processors of %s is not known, so there is no percentage.",
			cmp.Or(strings.Join(unknown, ", "), "the cluster")))
	}
	for k := range t.Rows {
		mean := busy[k] / (edge(k+1) - edge(k))
		if t.Rows[k] = append(t.Rows[k], mean); capacity > 0 {
			t.Rows[k] = append(t.Rows[k], 100*mean/float64(capacity))
		}
	}
	return t
}

func shapeShares(r *request, _ *sizes, raw [][]any) *table {
	sums, total := make(map[string]float64), 0.0
	for _, row := range raw {
		sums[row[0].(string)] += known(row[2])
		total += known(row[2])
	}
	slices.SortStableFunc(raw, func(a, b []any) int {
		p, q := a[0].(string), b[0].(string)
		return cmp.Or(cmp.Compare(sums[q], sums[p]), strings.Compare(p, q), cmp.Compare(known(b[2]), known(a[2])),
			strings.Compare(a[1].(string), b[1].(string)))
	})
	t := &table{bar: 2, Columns: []column{{"partition", "partition", "", word}, {"qos", "QOS", "", word},
		{"cpu_hours", "CPU hours", "h", hours}, {"share", "share", "%", percent}, {"jobs", "jobs", "", count}}}
	for _, row := range raw {
		t.Rows = append(t.Rows, []any{row[0], row[1], row[2], ratio(value(row[2]), total), row[3]})
		t.links = append(t.links, r.only("partition", row[0].(string), "qos", row[1].(string)))
	}
	return t
}

func shapeTop(name, label string, bar int) func(r *request, _ *sizes, raw [][]any) *table {
	return func(r *request, _ *sizes, raw [][]any) *table {
		t := &table{bar: bar, Columns: []column{
			{name, label, "", word},
			{"jobs", "jobs", "", count},
			{"elapsed", "run time", "h", hours},
			{"cpu_hours", "CPU hours", "h", hours},
			{"wait", "mean wait", "s", seconds},
			{"wait_since_eligible", "mean wait since eligible", "s", seconds},
			{"failed", "failed", "%", percent},
			{"unused_cpu_hours", "CPU h not used", "h", hours},
		}}
		for _, row := range raw {
			row[2], row[6], row[7] = inHours(row[2]), ratio(value(row[6]), value(row[1])), inHours(row[7])
			t.Rows = append(t.Rows, row[:len(t.Columns)])
			t.links = append(t.links, r.only(name, row[0].(string)))
		}
		return t
	}
}

func shapeClasses(name, label string, classes int, unit string, f format) func(r *request, _ *sizes,
	raw [][]any) *table {
	return func(r *request, _ *sizes, raw [][]any) *table {
		t := &table{series: []int{2}, colours: []int{0}, Columns: []column{{"from", label + " from", unit, f},
			{"below", "below", unit, f}, {"jobs", "jobs", "", count}, {"cpu_hours", "CPU hours", "h", hours},
			{"share", "jobs up to here", "%", percent}}}
		at := make(map[int64][]any)
		total := 0.0
		for _, row := range raw {
			at[row[0].(int64)] = row
			total += value(row[1])
		}
		if len(raw) == 0 {
			return t
		}
		sum := 0.0
		for k := raw[0][0].(int64); k <= raw[len(raw)-1][0].(int64); k++ {
			jobs, used := any(int64(0)), any(0.0)
			if row, ok := at[k]; ok {
				jobs, used = row[1], row[2]
			}
			sum += value(jobs)
			low, high := question.ClassEdge(k, classes), question.ClassEdge(k+1, classes)
			if low == high {
				continue // no integer belongs to this class
			}
			t.Rows = append(t.Rows, []any{low, high, jobs, used, ratio(sum, total)})
			t.links = append(t.links, r.between(name, low, high, "start_time!="))
		}
		for _, part := range []float64{50, 90} {
			for _, row := range t.Rows {
				if value(row[4]) >= part {
					t.notes = append(t.notes, fmt.Sprintf("%.0f %% or more are below %s, where a bar ends.", part, r.write(f, row[1])))
					break
				}
			}
		}
		return t
	}
}

// between returns a link to the page that filters a field from low to below high, and adds the
// filters in the list more. It replaces the limits that the page's filters set for the field.
func (r *request) between(name string, low, high float64, more ...string) string {
	return r.url(func(v url.Values) {
		for _, term := range more {
			if !slices.Contains(v["f"], term) {
				v.Add("f", term)
			}
		}
		v["f"] = slices.DeleteFunc(v["f"], func(s string) bool {
			return strings.HasPrefix(s, name+">=") || strings.HasPrefix(s, name+"<")
		})
		if low > 0 {
			v.Add("f", fmt.Sprintf("%s>=%g", name, low))
		}
		if !math.IsInf(high, 0) {
			v.Add("f", fmt.Sprintf("%s<%g", name, high))
		}
	})
}

func shapeLimitUsed(r *request, _ *sizes, raw [][]any) *table {
	t := &table{series: []int{2}, colours: []int{2}, Columns: []column{{"from", "used from", "%", percent},
		{"below", "below", "%", percent}, {"jobs", "jobs", "", count}, {"cpu_hours", "CPU hours", "h", hours}}}
	for k := range 21 {
		low, high := float64(5*k), float64(5*k+5)
		if k == 20 {
			high = math.Inf(1)
		}
		t.links = append(t.links, r.between("limit_used", low, high, "start_time!="))
		if k == 20 {
			high = 105 // the chart's last bar has all values from 100
		}
		t.Rows = append(t.Rows, []any{low, high, int64(0), 0.0})
	}
	for _, row := range raw {
		if k := int(value(row[0])); k >= 0 {
			t.Rows[k][2], t.Rows[k][3] = row[1], row[2]
		}
	}
	t.notes = append(t.notes, "The last bar has all jobs that used their whole limit.")
	return t
}

func shapeLimits(r *request, _ *sizes, raw [][]any) *table {
	t := &table{series: []int{4}, colours: []int{0}, Columns: []column{{"limit_from", "limit from", "s", seconds},
		{"limit_below", "below", "s", seconds}, {"run_from", "run time from", "s", seconds},
		{"run_below", "below", "s", seconds}, {"jobs", "jobs", "", count}, {"cpu_hours", "CPU hours", "h", hours}}}
	for _, row := range raw {
		limit, run := row[0].(int64), row[1].(int64)
		edges := []float64{question.ClassEdge(limit, 1), question.ClassEdge(limit+1, 1), question.ClassEdge(run, 1),
			question.ClassEdge(run+1, 1)}
		t.Rows = append(t.Rows, []any{edges[0], edges[1], edges[2], edges[3], row[2], row[3]})
		t.links = append(t.links, r.add(fmt.Sprintf("limit_s>=%.0f", edges[0]), fmt.Sprintf("limit_s<%.0f", edges[1]),
			fmt.Sprintf("elapsed_s>=%.0f", edges[2]), fmt.Sprintf("elapsed_s<%.0f", edges[3]), "start_time!="))
	}
	return t
}

func shapeWeek(r *request, _ *sizes, raw [][]any) *table {
	t := &table{series: []int{2}, colours: []int{0}, Columns: []column{{"weekday", "weekday", "", word},
		{"hour", "hour", "", number}, {"jobs", "jobs", "", count}, {"wait", "mean wait", "s", seconds}}}
	for k := range 168 {
		day := time.Weekday((k/24 + 1) % 7)
		t.Rows = append(t.Rows, []any{day.String(), int64(k % 24), int64(0), nil})
		t.links = append(t.links, r.add(fmt.Sprintf("weekday=%d", day), fmt.Sprintf("hour=%d", k%24)))
	}
	for _, row := range raw {
		if k, ok := row[0].(int64); ok && k >= 0 && k < 168 {
			t.Rows[k][2], t.Rows[k][3] = row[1], row[2]
		}
	}
	return t
}

func shapeJobs(r *request, _ *sizes, raw [][]any) *table {
	t := &table{Columns: []column{{"seq", "", "", number}}}
	for _, name := range r.columns {
		c := column{Name: name, Label: strings.TrimSuffix(strings.TrimSuffix(name, "_time"), "_s")}
		switch f := question.Fields[name]; {
		case f.Type == question.Instant:
			c.format = moment
		case strings.HasSuffix(name, "_s"):
			c.format, c.Unit = seconds, "s"
		case f.Type == question.Decimal:
			c.format = hours
		case f.Type == question.Integer:
			c.format = number
		}
		t.Columns = append(t.Columns, c)
	}
	t.Rows = raw
	return t
}
