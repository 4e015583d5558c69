package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// Source has the jobs of pages that are not about the store's.
type Source interface {
	// Ask answers a question. It returns a [question.AbsentError] for a column that no job has.
	Ask(ctx context.Context, q question.Question) (*question.Answer, error)
	// Jobs returns a page's jobs, at most as many as it asks for.
	Jobs(ctx context.Context, p question.Page) ([]question.Job, error)
	// Job returns a job by its ID, and nil if there is none.
	Job(ctx context.Context, id string) (*question.Job, error)
}

// asked is how a panel's rows are asked of a [Source].
type asked struct {
	questions func(r *request) []question.Question
	// raw makes the rows of the panel's query of the answers' rows; nil if the only answer has them.
	raw func(r *request, answers [][][]any) [][]any
}

// failedStates are those that [failed] holds for.
var failedStates = []string{"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

// Filters and measures that several questions have.
var (
	completedJobs = question.Compare{Column: "state", Op: "=", Value: "COMPLETED"}
	failedJobs    = func() (any question.Any) {
		for _, state := range failedStates {
			any = append(any, question.Compare{Column: "state", Op: "=", Value: state})
		}
		return any
	}()
	countJobs  = question.Measure{Kind: question.Count}
	sumElapsed = question.Measure{Kind: question.Sum, Column: "elapsed_s"}
	sumUsed    = question.Measure{Kind: question.Sum, Column: "cpu_hours"}
	meanWait   = question.Measure{Kind: question.Mean, Column: "wait_s"}
	// The CPU seconds that jobs asked for and did not use are the difference of these.
	limited = []question.Measure{
		{Kind: question.Product, Column: "limit_s", Times: "cpus", Where: question.Known{Column: "elapsed_s"}},
		{Kind: question.Product, Column: "elapsed_s", Times: "cpus", Where: question.Known{Column: "limit_s"}},
	}
)

func whereFailed(m question.Measure) question.Measure {
	m.Where = failedJobs
	return m
}

// endedFilter is [request.ended] as a filter.
func (r *request) endedFilter() question.All {
	if r.whole {
		return question.All{r.chosen}
	}
	return append(r.endsWithin(r.from, r.until), r.chosen)
}

func (r *request) endsWithin(from, until time.Time) question.All {
	return question.All{question.Compare{Column: "end_time", Op: ">=", Value: from}, question.Compare{Column: "end_time", Op: "<", Value: until}}
}

// about makes the only question of a panel.
func about(by func(r *request) []question.Key, where question.Filter, measures ...question.Measure) func(r *request) []question.Question {
	return func(r *request) []question.Question {
		q := question.Question{Where: append(r.endedFilter(), where), Measures: measures}
		if by != nil {
			q.By = by(r)
		}
		return []question.Question{q}
	}
}

func overTime(more ...question.Key) func(r *request) []question.Key {
	return func(r *request) []question.Key {
		return append([]question.Key{question.Instants{Column: "end_time", Edges: r.buckets().edges}}, more...)
	}
}

// highestClass is the class of integers from which on a source counts all together: 2 to the power of 38
// seconds are 8,700 years.
const highestClass = 38

// classRanges are the classes of [store.Class], from that of 0.
func classRanges(column string, classes int) question.Ranges {
	r := question.Ranges{Column: column, Open: true}
	for k := -classes; k <= highestClass*classes; k++ {
		r.Edges = append(r.Edges, classEdge(int64(k), classes))
	}
	return r
}

// byClass asks for the jobs by the classes of columns.
func byClass(classes int, names ...string) *asked {
	return &asked{
		questions: about(func(*request) (keys []question.Key) {
			for _, name := range names {
				keys = append(keys, classRanges(name, classes))
			}
			return keys
		}, question.All{}, countJobs, sumUsed),
		raw: func(_ *request, answers [][][]any) [][]any {
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
func byValue(column string, by int) *asked {
	return &asked{
		questions: about(func(*request) []question.Key {
			return []question.Key{question.Values{Column: column, Most: 10, By: by, First: true}}
		}, question.All{}, append([]question.Measure{countJobs, sumElapsed, sumUsed, meanWait, whereFailed(countJobs)}, limited...)...),
		raw: func(_ *request, answers [][][]any) (rows [][]any) {
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

// askedPanels are the panels that a source is asked for, by their names. The table of jobs is another
// case.
var askedPanels = map[string]*asked{
	"summary": {about(nil, question.All{}, append([]question.Measure{
		countJobs, whereFailed(countJobs), {Kind: question.Distinct, Column: "user_name"}, meanWait, sumElapsed, sumUsed, whereFailed(sumUsed),
		{Kind: question.Product, Column: "nodes", Times: "elapsed_s"}, {Kind: question.Sum, Column: "gpu_hours"},
	}, limited...)...), rawSummary},
	"jobs":        {about(overTime(question.Values{Column: "state", Most: 100}), question.All{}, countJobs), nil},
	"utilization": {askUtilization, rawUtilization},
	"shares": {about(func(*request) []question.Key {
		return []question.Key{question.Values{Column: "partition", Most: 300}, question.Values{Column: "qos", Most: 100}}
	}, question.All{}, sumUsed, countJobs), nil},
	"users": byValue("user_name", 1), "accounts": byValue("account", 2), "partitions": byValue("partition", 2), "names": byValue("job_name", 0),
	"waits": byClass(2, "wait_s"), "runs": byClass(2, "elapsed_s"), "sizes": byClass(1, "nodes"),
	"requested": {about(func(*request) []question.Key {
		r := question.Ranges{Column: "limit_used", Open: true}
		for k := range 21 {
			r.Edges = append(r.Edges, float64(5*k))
		}
		return []question.Key{r}
	}, question.All{}, countJobs, sumUsed), nil},
	"limits": func() *asked {
		a := byClass(1, "limit_s", "elapsed_s")
		all := a.questions
		a.questions = func(r *request) []question.Question {
			q := all(r)
			q[0].Where = question.All{q[0].Where, question.Compare{Column: "limit_s", Op: ">", Value: 0.0}}
			return q
		}
		return a
	}(),
	"waste": {about(overTime(), question.All{}, append([]question.Measure{
		{Kind: question.Sum, Column: "cpu_hours", Where: completedJobs}, whereFailed(sumUsed),
		{Kind: question.Sum, Column: "cpu_hours", Where: question.Not{Of: question.Any{completedJobs, failedJobs}}},
	}, limited...)...), func(_ *request, answers [][][]any) (rows [][]any) {
		for _, row := range answers[0] {
			rows = append(rows, []any{row[0], orZero(row[1]), orZero(row[2]), orZero(row[3]), orZero(less(row[4], row[5]))})
		}
		return rows
	}},
	"exits": {about(overTime(question.Values{Column: question.Exit, Most: 500}), question.All{}, countJobs), rawExits},
	"week": {func(r *request) []question.Question {
		step := time.Hour
		if _, offset := r.from.In(r.zone).Zone(); offset%3600 != 0 {
			step = store.Quarter * time.Second
		}
		return []question.Question{{Where: r.endedFilter(), By: []question.Key{question.Hours{Column: "submit_time", Step: step}},
			Measures: []question.Measure{countJobs, meanWait, {Kind: question.Count, Where: question.Known{Column: "wait_s"}}}}}
	}, rawWeek},
}

func rawSummary(_ *request, answers [][][]any) [][]any {
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
func rawExits(_ *request, answers [][][]any) (rows [][]any) {
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
func rawWeek(r *request, answers [][][]any) (rows [][]any) {
	type sum struct{ jobs, waits, wait float64 }
	var week [168]sum
	for _, row := range answers[0] {
		at := row[0].(time.Time)
		_, offset := at.In(r.zone).Zone()
		if at.Before(r.from) {
			_, offset = r.from.In(r.zone).Zone() // as the store counts
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
func askUtilization(r *request) []question.Question {
	edges := r.buckets().edges
	ran := question.All{r.chosen, question.Compare{Column: "elapsed_s", Op: ">", Value: 0.0}, question.Compare{Column: "cpus", Op: ">", Value: 0.0}}
	measures := []question.Measure{
		{Kind: question.Sum, Column: "cpus"}, {Kind: question.Product, Column: "start_time", Times: "cpus"}, {Kind: question.Product, Column: "end_time", Times: "cpus"},
	}
	return []question.Question{
		{Where: append(r.endsWithin(edges[0], edges[len(edges)-1]), ran), By: []question.Key{question.Instants{Column: "end_time", Edges: edges}}, Measures: measures},
		{Where: ran, By: []question.Key{question.Running{At: edges}}, Measures: measures[:2]},
	}
}

// rawUtilization makes, for each bucket, a row of jobs that ran in it from its beginning to its end and
// had as many processors as were in use on average: the CPU seconds of jobs that ended in the bucket, and
// those up to its end of jobs that ran then, less those up to its beginning.
func rawUtilization(r *request, answers [][][]any) (rows [][]any) {
	edges := r.buckets().edges
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
		rows = append(rows, []any{int64(i), int64(i), cpus, cpus * second(i), cpus * second(i+1)})
	}
	return rows
}

// unsource makes the errors of a source those of this server.
func unsource(err error) error {
	var absent *question.AbsentError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &absent):
		return bad(err)
	}
	return &statusError{http.StatusBadGateway, err}
}

// askSource is ask of a panel about a source's jobs.
func (v *server) askSource(ctx context.Context, p *panel, r *request, s *sizes) (*table, error) {
	if p.name == "table" {
		return v.tableOf(ctx, p, r, s)
	}
	var answers [][][]any
	var notes []string
	for _, q := range askedPanels[p.name].questions(r) {
		a, err := v.jobs.Ask(ctx, q)
		var absent *question.AbsentError
		if errors.As(err, &absent) {
			return &table{Columns: []column{{"none", "not available", "", word}}, notes: []string{"This cannot be shown. " + absent.Error() + "."}, absent: true}, nil
		}
		if err != nil {
			return nil, unsource(err)
		}
		answers, notes = append(answers, a.Rows), append(notes, a.Notes...)
	}
	raw := answers[0]
	if convert := askedPanels[p.name].raw; convert != nil {
		raw = convert(r, answers)
	}
	t := p.shape(r, s, raw)
	if p.name == "week" {
		for i := range t.links {
			t.links[i] = r.url(func(url.Values) {}) // no source filters by hours of a week
		}
	}
	slices.Sort(notes)
	t.notes = append(t.notes, slices.Compact(notes)...)
	return t, nil
}

// tableOf returns the table of jobs of a source. The jobs go into a store in memory, so that a column
// means the same as in the store on disk.
func (v *server) tableOf(ctx context.Context, p *panel, r *request, s *sizes) (*table, error) {
	jobs, err := v.jobs.Jobs(ctx, question.Page{Where: r.endedFilter(), Sort: r.sort, Descending: r.descending, From: r.page * r.rows, Most: r.rows + 1})
	if err != nil {
		return nil, unsource(err)
	}
	more := len(jobs) > r.rows
	jobs = jobs[:min(len(jobs), r.rows)]
	var raw [][]any
	err = within(ctx, jobs, func(memory *store.Store) error {
		return memory.Read(ctx, func(snapshot *store.Snapshot) (err error) {
			raw, err = readRows(snapshot, r.list(condition{sql: "true"}, "ORDER BY seq"))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for _, row := range raw {
		row[0] = jobs[row[0].(int64)-1].ID
	}
	t := p.shape(r, s, raw)
	t.more = more
	return t, nil
}

// within calls do with a store in memory that has jobs, numbered from 1.
func within(ctx context.Context, jobs []question.Job, do func(s *store.Store) error) (err error) {
	s, err := store.Open(ctx, "", store.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var entries []store.Entry
	for i, job := range jobs {
		read := document.Parse(job.Document, job.Cluster)
		entries = append(entries, store.Entry{Seq: int64(i) + 1, Arrived: read.End, Source: store.Received, Document: job.Document, Job: read})
	}
	if len(entries) == 0 {
		return do(s)
	}
	if _, err := s.Apply(ctx, entries); err != nil {
		return fmt.Errorf("reading the jobs of the cluster: %w", err)
	}
	return do(s)
}

// sizesOf returns the clusters of a source. The store knows the sizes of some.
func (v *server) sizesOf(ctx context.Context, now time.Time) (*sizes, error) {
	real := question.All{
		question.Compare{Column: "end_time", Op: ">=", Value: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
		question.Compare{Column: "end_time", Op: "<=", Value: now.Add(24 * time.Hour)},
	}
	a, err := v.jobs.Ask(ctx, question.Question{Where: question.All{}, By: []question.Key{question.Values{Column: "cluster", Most: 1000}},
		Measures: []question.Measure{countJobs, {Kind: question.Least, Column: "end_time", Where: real}, {Kind: question.Most, Column: "end_time", Where: real}}})
	if err != nil {
		return nil, unsource(err)
	}
	found := &sizes{list: []size{}}
	for _, row := range a.Rows {
		one := size{Name: row[0].(string), Jobs: row[1].(int64)}
		if row[2] != nil && row[3] != nil {
			one.Oldest, one.Newest = time.UnixMilli(int64(value(row[2]))).UTC(), time.UnixMilli(int64(value(row[3]))).UTC()
		}
		found.list = append(found.list, one)
	}
	slices.SortFunc(found.list, func(a, b size) int { return cmp.Compare(a.Name, b.Name) })
	return found, v.store.Read(ctx, func(snapshot *store.Snapshot) error {
		for i := range found.list {
			c := &found.list[i]
			raw, err := readRows(snapshot, condition{"SELECT kind, nodes, cpus, gpus FROM clusters WHERE cluster = ?", []any{c.Name}})
			if err != nil || len(raw) == 0 {
				return err
			}
			c.Kind, _ = raw[0][0].(string)
			for k, to := range []**int64{&c.Nodes, &c.CPUs, &c.GPUs} {
				if n, ok := raw[0][k+1].(int64); ok {
					*to = &n
				}
			}
		}
		return nil
	})
}
