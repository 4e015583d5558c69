package question

import (
	"fmt"
	"math"
	"time"
)

// View is what a reader looks at: the jobs of a [Filter] that ended in a range of time.
type View struct {
	Chosen      Filter
	From, Until time.Time
	Whole       bool // jobs without an end, too
	// Edges divide the range of time. The outermost ones are those of the range.
	Edges []time.Time
	Zone  *time.Location
}

// Panel is how the rows of a panel of the dashboards are asked for.
type Panel struct {
	Questions func(v View) []Question
	// Rows makes the rows of the panel of the answers' rows; nil if the only answer has them.
	Rows func(v View, answers [][][]any) [][]any
}

// failedStates are those of jobs that ended otherwise than their owners meant, or than anybody did.
var failedStates = []string{"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

// Filters and measures that several questions have.
var (
	completedJobs = Compare{Column: "state", Op: "=", Value: "COMPLETED"}
	failedJobs    = func() (states Any) {
		for _, state := range failedStates {
			states = append(states, Compare{Column: "state", Op: "=", Value: state})
		}
		return states
	}()
	countJobs  = Measure{Kind: Count}
	sumElapsed = Measure{Kind: Sum, Column: "elapsed_s"}
	sumUsed    = Measure{Kind: Sum, Column: "cpu_hours"}
	meanWait   = Measure{Kind: Mean, Column: "wait_s"}
	// The CPU seconds that jobs asked for and did not use are the difference of these.
	limited = []Measure{
		{Kind: Product, Column: "limit_s", Times: "cpus", Where: Known{Column: "elapsed_s"}},
		{Kind: Product, Column: "elapsed_s", Times: "cpus", Where: Known{Column: "limit_s"}},
	}
)

func whereFailed(m Measure) Measure {
	m.Where = failedJobs
	return m
}

// Ended is the filter of the view's jobs.
func (v View) Ended() All {
	if v.Whole {
		return All{v.Chosen}
	}
	return append(endsWithin(v.From, v.Until), v.Chosen)
}

func endsWithin(from, until time.Time) All {
	return All{Compare{Column: "end_time", Op: ">=", Value: from}, Compare{Column: "end_time", Op: "<", Value: until}}
}

// about makes the only question of a panel.
func about(by func(v View) []Key, where Filter, measures ...Measure) func(v View) []Question {
	return func(v View) []Question {
		q := Question{Where: append(v.Ended(), where), Measures: measures}
		if by != nil {
			q.By = by(v)
		}
		return []Question{q}
	}
}

func overTime(more ...Key) func(v View) []Key {
	return func(v View) []Key {
		return append([]Key{Instants{Column: "end_time", Edges: v.Edges}}, more...)
	}
}

// highestClass is the class of integers from which on jobs are counted all together: 2 to the power of 38
// seconds are 8,700 years.
const highestClass = 38

// classRanges are the classes of a column of integers, from that of 0.
func classRanges(column string, classes int) Ranges {
	r := Ranges{Column: column, Open: true}
	for k := -classes; k <= highestClass*classes; k++ {
		r.Edges = append(r.Edges, ClassEdge(int64(k), classes))
	}
	return r
}

// byClass asks for the jobs by the classes of columns.
func byClass(classes int, names ...string) *Panel {
	return &Panel{
		Questions: about(func(View) (keys []Key) {
			for _, name := range names {
				keys = append(keys, classRanges(name, classes))
			}
			return keys
		}, All{}, countJobs, sumUsed),
		Rows: func(_ View, answers [][][]any) [][]any {
			for _, row := range answers[0] {
				for i := range names {
					row[i] = row[i].(int64) - int64(classes)
				}
			}
			return answers[0]
		},
	}
}

// byValue asks for the first ten values of a column.
func byValue(column string, by int) *Panel {
	return &Panel{
		Questions: about(func(View) []Key {
			return []Key{Values{Column: column, Most: 10, By: by, First: true}}
		}, All{}, append([]Measure{countJobs, sumElapsed, sumUsed, meanWait, whereFailed(countJobs)}, limited...)...),
		Rows: func(_ View, answers [][][]any) (rows [][]any) {
			for _, row := range answers[0] {
				rows = append(rows, []any{row[0], row[1], less(row[2], nil), row[3], row[4], row[5], less(row[6], row[7])})
			}
			return rows
		},
	}
}

// less returns the hours of a number of seconds less another one; nil of nil.
func less(a, b any) any {
	if a == nil {
		return nil
	}
	if b != nil {
		a = value(a) - value(b)
	}
	return value(a) / 3600
}

func orZero(v any) any {
	if v == nil {
		return 0.0
	}
	return v
}

// Panels are those of the dashboards, by their names, but for the table of jobs.
var Panels = map[string]*Panel{
	"summary": {about(nil, All{}, append([]Measure{
		countJobs, whereFailed(countJobs), {Kind: Distinct, Column: "user_name"}, meanWait, sumElapsed, sumUsed, whereFailed(sumUsed),
		{Kind: Product, Column: "nodes", Times: "elapsed_s"}, {Kind: Sum, Column: "gpu_hours"},
	}, limited...)...), rawSummary},
	"jobs":        {about(overTime(Values{Column: "state", Most: 100}), All{}, countJobs), nil},
	"utilization": {askUtilization, rawUtilization},
	"shares": {about(func(View) []Key {
		return []Key{Values{Column: "partition", Most: 300}, Values{Column: "qos", Most: 100}}
	}, All{}, sumUsed, countJobs), nil},
	"users": byValue("user_name", 1), "accounts": byValue("account", 2), "partitions": byValue("partition", 2), "names": byValue("job_name", 0),
	"waits": byClass(2, "wait_s"), "runs": byClass(2, "elapsed_s"), "sizes": byClass(1, "nodes"),
	"requested": {about(func(View) []Key {
		r := Ranges{Column: "limit_used", Open: true}
		for k := range 21 {
			r.Edges = append(r.Edges, float64(5*k))
		}
		return []Key{r}
	}, All{}, countJobs, sumUsed), nil},
	"limits": func() *Panel {
		a := byClass(1, "limit_s", "elapsed_s")
		all := a.Questions
		a.Questions = func(v View) []Question {
			q := all(v)
			q[0].Where = All{q[0].Where, Compare{Column: "limit_s", Op: ">", Value: 0.0}}
			return q
		}
		return a
	}(),
	"waste": {about(overTime(), All{}, append([]Measure{
		{Kind: Sum, Column: "cpu_hours", Where: completedJobs}, whereFailed(sumUsed),
		{Kind: Sum, Column: "cpu_hours", Where: Not{Of: Any{completedJobs, failedJobs}}},
	}, limited...)...), func(_ View, answers [][][]any) (rows [][]any) {
		for _, row := range answers[0] {
			rows = append(rows, []any{row[0], orZero(row[1]), orZero(row[2]), orZero(row[3]), orZero(less(row[4], row[5]))})
		}
		return rows
	}},
	"exits": {about(overTime(Values{Column: Exit, Most: 500}), All{}, countJobs), rawExits},
	"week": {func(v View) []Question {
		step := time.Hour
		if _, offset := v.From.In(v.Zone).Zone(); offset%3600 != 0 {
			step = 15 * time.Minute
		}
		return []Question{{Where: v.Ended(), By: []Key{Hours{Column: "submit_time", Step: step}},
			Measures: []Measure{countJobs, meanWait, {Kind: Count, Where: Known{Column: "wait_s"}}}}}
	}, rawWeek},
}

func rawSummary(_ View, answers [][][]any) [][]any {
	if len(answers[0]) == 0 {
		return [][]any{{int64(0), int64(0), int64(0), nil, nil, nil, 0.0, nil, nil, nil}}
	}
	row := answers[0][0]
	if value(row[0]) > 0 {
		row[7] = orZero(row[7]) // of jobs whose nodes are not known
	}
	return [][]any{{row[0], row[1], row[2], row[3], less(row[4], nil), row[5], orZero(row[6]), less(row[9], row[10]), less(row[7], nil), row[8]}}
}

// rawExits reads the texts of exit codes, such as 3:0.
func rawExits(_ View, answers [][][]any) (rows [][]any) {
	for _, row := range answers[0] {
		var code, signal any
		var c, s int64
		if _, err := fmt.Sscanf(row[1].(string), "%d:%d", &c, &s); err == nil {
			code, signal = c, s
		}
		rows = append(rows, []any{row[0], code, signal, row[2]})
	}
	return rows
}

// rawWeek adds up hours to those of a week.
func rawWeek(v View, answers [][][]any) (rows [][]any) {
	type sum struct{ jobs, waits, wait float64 }
	var week [168]sum
	for _, row := range answers[0] {
		at := row[0].(time.Time)
		_, offset := at.In(v.Zone).Zone()
		if at.Before(v.From) {
			_, offset = v.From.In(v.Zone).Zone() // as the store counts
		}
		hour := &week[(at.Unix()+int64(offset))/3600%168]
		hour.jobs += value(row[1])
		if row[2] != nil && row[3] != nil {
			hour.waits += value(row[3])
			hour.wait += value(row[2]) * value(row[3])
		}
	}
	for k, hour := range week {
		if hour.jobs == 0 {
			continue
		}
		row := []any{int64(k+72) % 168, int64(hour.jobs), nil} // 1970-01-01 was a Thursday
		if hour.waits > 0 {
			row[2] = hour.wait / hour.waits
		}
		rows = append(rows, row)
	}
	return rows
}

// askUtilization asks for the jobs that ended in each bucket, and for those that ran at each edge.
func askUtilization(v View) []Question {
	edges := v.Edges
	ran := All{v.Chosen, Compare{Column: "elapsed_s", Op: ">", Value: 0.0}, Compare{Column: "cpus", Op: ">", Value: 0.0}}
	measures := []Measure{
		{Kind: Sum, Column: "cpus"}, {Kind: Product, Column: "start_time", Times: "cpus"}, {Kind: Product, Column: "end_time", Times: "cpus"},
	}
	return []Question{
		{Where: append(endsWithin(edges[0], edges[len(edges)-1]), ran), By: []Key{Instants{Column: "end_time", Edges: edges}}, Measures: measures},
		{Where: ran, By: []Key{Running{At: edges}}, Measures: measures[:2]},
	}
}

// rawUtilization makes, for each bucket, a row of the processors that were in use on average, as if they had
// started with the bucket, and one of their end with it. Their CPU seconds are those of jobs that ended in the
// bucket, and those up to its end of jobs that ran then, less those up to its beginning.
func rawUtilization(v View, answers [][][]any) (rows [][]any) {
	edges := v.Edges
	second := func(i int) float64 { return edges[i].Sub(edges[0]).Seconds() }
	busy := make([]float64, len(edges))
	for _, row := range answers[0] {
		if row[2] != nil && row[3] != nil {
			busy[row[0].(int64)] += (value(row[3]) - value(row[2])) / 1000
		}
	}
	for _, row := range answers[1] {
		i := row[0].(int64)
		if row[1] == nil || row[2] == nil {
			continue
		}
		used := (value(row[1])*float64(edges[i].UnixMilli()) - value(row[2])) / 1000
		busy[i] -= used
		if i > 0 {
			busy[i-1] += used
		}
	}
	for i := range len(edges) - 1 {
		cpus := max(0, busy[i]/(second(i+1)-second(i)))
		rows = append(rows, []any{int64(i), cpus, cpus * second(i)}, []any{int64(i + 1), -cpus, -cpus * second(i+1)})
	}
	return rows
}

// ClassEdge returns the least integer in a class, of which there are so many for each doubling.
func ClassEdge(class int64, classes int) float64 {
	return max(0, math.Ceil(math.Exp2(float64(class)/float64(classes))-0.5))
}

// value returns a number of a row, and NaN for nil.
func value(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}
