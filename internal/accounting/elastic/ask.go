package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

const (
	// shardSize is the number of values of a text that each shard counts. If no shard has more than
	// shardSize values, the answer is exact.
	shardSize = 10_000
	// precision is the number of distinct values up to which Elasticsearch's counts are almost exact.
	// It is the highest value that Elasticsearch offers.
	precision = 40_000
)

// notRun are the node lists that Slurm writes for jobs that never ran.
var notRun = []string{"(null)", "None assigned", ""}

// asking is the state of one question.
type asking struct {
	fields *fields
	question.Question
	measures []measure
	derived  []string // used columns that only documents of this program have
	out      question.Answer
	hours    map[int64]*weekHour // nil unless the question has [question.WeekHours]
}

// measure is a measure with its aggregation.
type measure struct {
	request object // nil if the response has the value without an aggregation
	value   func(bucket, result object) any
	weight  func(result object) any // number of jobs in a mean; nil for measures that are added up
}

// Ask answers questions. A measure of a column that the cluster lacks is nil, with a note. If a
// key or a filter needs a missing column, the error is a [question.AbsentError].
func (c *Cluster) Ask(ctx context.Context, questions ...question.Question) ([]question.Answer, error) {
	var answers []question.Answer
	for _, q := range questions {
		a, err := c.ask(ctx, q)
		if err != nil {
			return nil, remote(err)
		}
		answers = append(answers, *a)
	}
	return answers, nil
}

// remote marks an error as an error of another server, unless the error is a
// [question.AbsentError].
func remote(err error) error {
	var absent *question.AbsentError
	if err == nil || errors.As(err, &absent) {
		return err
	}
	return &question.RemoteError{Err: err}
}

func (c *Cluster) ask(ctx context.Context, q question.Question) (*question.Answer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	known, err := c.known(ctx)
	if err != nil {
		return nil, err
	}
	a := &asking{fields: known, Question: q, hours: make(map[int64]*weekHour)}
	body, err := a.request()
	if err != nil || body == nil {
		return &a.out, err
	}
	f, err := c.search(ctx, body)
	if err != nil {
		return nil, err
	}
	top := object{"doc_count": json.Number(fmt.Sprint(f.Hits.Total.Value))}
	for name, result := range f.Aggregations {
		top[name] = result
	}
	if err := a.rows(top, q.By, nil); err != nil {
		return nil, fmt.Errorf("reading the answer of the Elasticsearch cluster: %w", err)
	}
	a.addHours()
	if other, ok := top["other"].(object); ok {
		if n := whole(other["doc_count"]); n > 0 {
			slices.Sort(a.derived)
			a.note("%s %s, because this program did not send %s to the Elasticsearch cluster.",
				quantity.Counted(int(n), "job lacks", "jobs lack"), join(slices.Compact(a.derived)),
				quantity.Plural(int(n), "it", "them"))
		}
	}
	return &a.out, nil
}

func (a *asking) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(a.out.Notes, text) {
		a.out.Notes = append(a.out.Notes, text)
	}
}

// of returns the field of a column. If only documents of this program have the column, it adds the
// column to a.derived.
func (a *asking) of(column string) (field, error) {
	f, err := a.fields.of(column)
	if f.derived {
		a.derived = append(a.derived, column)
	}
	return f, err
}

// request returns the body of the search. It is nil if every bucket would be empty.
func (a *asking) request() (object, error) {
	where, err := a.fields.filter(a.Where)
	if err != nil {
		return nil, err
	}
	aggregations := object{}
	for i, m := range a.Measures {
		one, err := a.measure(m)
		if err != nil {
			return nil, err
		}
		a.measures = append(a.measures, one)
		if one.request != nil {
			aggregations[name(i)] = one.request
		}
	}
	for i, key := range slices.Backward(a.By) {
		kind, err := a.key(key, i == len(a.By)-1)
		if err != nil {
			return nil, err
		}
		if kind == nil {
			if _, ok := key.(question.Values); ok {
				continue // all jobs are in the bucket of the empty text
			}
			return nil, nil
		}
		if len(aggregations) > 0 {
			kind["aggs"] = aggregations
		}
		aggregations = object{"by": kind}
	}
	if len(a.derived) > 0 {
		aggregations["other"] = object{"missing": object{"field": forward.Member + ".source"}}
	}
	body := object{"size": 0, "track_total_hits": true, "query": where}
	if len(aggregations) > 0 {
		body["aggs"] = aggregations
	}
	return body, nil
}

func name(measure int) string { return fmt.Sprintf("m%d", measure) }

// key returns the Elasticsearch aggregation for a key, or nil if no document has the key's column. Elasticsearch can
// order buckets by a measure only in the innermost aggregation, because only that aggregation contains the measures.
func (a *asking) key(key question.Key, innermost bool) (object, error) {
	var f field
	var err error
	var body object
	var kind string
	switch key := key.(type) {
	case question.Classes:
		f, err = a.of(key.Column)
		kind = "range"
		edge := func(n int) any { return question.ClassEdge(int64(n), key.Each) }
		body = ranges(-key.Each, (question.HighestClass+1)*key.Each+1, edge)
	case question.Steps:
		f, err = a.of(key.Column)
		kind, body = "range", ranges(0, key.Count, func(n int) any { return key.Width * n })
	case question.Instants:
		f, err = a.of(key.Column)
		kind = "date_range"
		body = ranges(0, len(key.Edges), func(n int) any { return key.Edges[n].UTC().Format(instantFormat) })
		list := body["ranges"].([]object)
		list = list[:len(list)-1] // omit the range after the last edge
		if key.Before {
			list = append(list, object{"key": "-1", "to": list[0]["from"]})
		}
		body["ranges"], body["format"] = list, "strict_date_optional_time"
	case question.WeekHours:
		f, err = a.of("submit_time")
		step := 60
		if !a.Clock.Within(time.Hour) {
			step = 15
		}
		kind, body = "date_histogram", object{"fixed_interval": fmt.Sprintf("%dm", step), "min_doc_count": 1}
	case question.Values:
		f, err = a.of(key.Column)
		order := object{"_count": "desc"}
		if m := a.Measures[key.By]; innermost && m.Kind == question.Sum && a.measures[key.By].request != nil {
			order = object{name(key.By) + ".sum": "desc"}
		}
		kind, body = "terms", object{
			"size": key.Most, "shard_size": max(shardSize, key.Most), "missing": "", "order": []object{order, {"_key": "asc"}},
		}
	default:
		return nil, fmt.Errorf("grouping by a key of the type %T is not supported", key)
	}
	if err != nil || f.name == "" {
		return nil, err
	}
	body["field"] = f.name
	return object{kind: body}, nil
}

// ranges returns the buckets with the numbers from first to end-1. The function edge returns the lower edge of a
// bucket, which is the upper edge of the previous bucket. The last bucket has no upper edge.
func ranges(first, end int, edge func(number int) any) object {
	var list []object
	for n := first; n < end; n++ {
		r := object{"key": fmt.Sprint(n), "from": edge(n)}
		if n+1 < end {
			if r["to"] = edge(n + 1); r["to"] == r["from"] {
				continue // no integer belongs to this range
			}
		}
		list = append(list, r)
	}
	return object{"ranges": list}
}

// unknown is a measure that is always nil, for a column that the cluster lacks.
var unknown = measure{nil, func(object, object) any { return nil }, nil}

// measure returns the aggregation of a measure.
func (a *asking) measure(m question.Measure) (measure, error) {
	one, err := a.unfiltered(m)
	if err != nil || m.Where == nil {
		return one, err
	}
	where, err := a.fields.filter(m.Where)
	var absent *question.AbsentError
	if errors.As(err, &absent) {
		a.note("%s: not known, since %s.", absent.Column, absent.Why)
		return unknown, nil
	}
	if err != nil {
		return one, err
	}
	within := object{"filter": where}
	if one.request != nil {
		within["aggs"] = object{"of": one.request}
	}
	return measure{within, func(_, result object) any {
		below, _ := result["of"].(object)
		return one.value(result, below)
	}, one.weight}, nil
}

// unfiltered does the work of measure, but ignores the measure's filter.
func (a *asking) unfiltered(m question.Measure) (measure, error) {
	switch m.Kind {
	case question.Count:
		return measure{nil, func(bucket, _ object) any { return whole(bucket["doc_count"]) }, nil}, nil
	case question.Unused:
		return a.unused()
	case question.Moment:
		// Elasticsearch's instants are in milliseconds.
		since := float64(m.Since.UnixMilli())
		return a.product(m.Column, m.Times, "", func(mean float64) float64 { return (mean - since) / 1000 })
	}
	f, err := a.of(m.Column)
	var absent *question.AbsentError
	if errors.As(err, &absent) {
		switch {
		case m.Column == "wait_s" && m.Kind == question.Mean:
			return a.meanWait("submit_time")
		case m.Column == "wait_since_eligible_s" && m.Kind == question.Mean:
			return a.meanWait("eligible_time")
		case m.Column == "node_hours" && m.Kind == question.Sum:
			return a.nodeHours()
		}
		name := m.Column
		if strings.HasPrefix(name, "wait_") { // all parts share one note
			name = "waits and their parts"
		}
		a.note("%s: not known, since %s.", name, absent.Why)
		return unknown, nil
	}
	if err != nil || f.name == "" {
		return unknown, err
	}
	stats := func(output string) measure {
		return measure{object{"stats": object{"field": f.name}}, func(_, result object) any {
			if whole(result["count"]) == 0 {
				return nil
			}
			return number(result[output])
		}, nil}
	}
	switch m.Kind {
	case question.Distinct:
		request := object{"cardinality": object{"field": f.name, "precision_threshold": precision}}
		return measure{request, func(_, result object) any { return whole(result["value"]) }, nil}, nil
	case question.Sum:
		return stats("sum"), nil
	case question.Mean:
		mean := stats("avg")
		mean.weight = func(result object) any { return number(result["count"]) }
		return mean, nil
	case question.Least:
		return stats("min"), nil
	case question.Most:
		return stats("max"), nil
	}
	return unknown, fmt.Errorf("making the aggregation of a measure: the kind %d is not known", m.Kind)
}

// product returns the sum over jobs of column times weight: the weighted mean of the column times
// the sum of the weights. It counts only jobs that have both columns. The parameter also, if not
// "", names a third column that the jobs must have. The functions in change are applied to the
// mean before the multiplication.
func (a *asking) product(column, weight, also string, change ...func(mean float64) float64) (measure, error) {
	var list []field
	var both []object
	for _, name := range []string{column, weight, also} {
		if name == "" {
			continue
		}
		f, err := a.of(name)
		var absent *question.AbsentError
		if errors.As(err, &absent) {
			a.note("%s: not known, since %s.", absent.Column, absent.Why)
			return unknown, nil
		}
		if err != nil || f.name == "" {
			return unknown, err
		}
		list, both = append(list, f), append(both, object{"exists": object{"field": f.name}})
	}
	return measure{object{"filter": object{"bool": object{"filter": both}}, "aggs": object{
		"mean": object{"weighted_avg": object{"value": object{"field": list[0].name},
			"weight": object{"field": list[1].name}}},
		"weights": object{"stats": object{"field": list[1].name}},
	}}, func(_, result object) any {
		mean, weights := result["mean"].(object), result["weights"].(object)
		if whole(weights["count"]) == 0 {
			return nil
		}
		m, ok := number(mean["value"]).(float64)
		if !ok {
			return 0.0 // all weights are 0
		}
		for _, f := range change {
			m = f(m)
		}
		return m * number(weights["sum"]).(float64)
	}, nil}, nil
}

// unused returns the CPU seconds that jobs could still have used within their time limits. A query
// cannot compare two fields, so only the column limit_used shows which jobs exceeded their limits.
func (a *asking) unused() (measure, error) {
	limit, err := a.product("limit_s", "cpus", "elapsed_s")
	if err != nil {
		return unknown, err
	}
	used, err := a.product("elapsed_s", "cpus", "limit_s")
	left := less(limit, used)
	if err != nil || left.request == nil {
		return unknown, err
	}
	known, err := a.fields.filter(question.All{question.Known{Column: "start_time"}, question.Known{Column: "cpus"},
		question.Known{Column: "limit_s"}, question.Known{Column: "elapsed_s"}, question.Not{Of: question.Lost{}}})
	if err != nil {
		return unknown, err
	}
	asked := question.All{question.Compare{Column: "limit_s", Op: ">", Value: 0.0}}
	var absent *question.AbsentError
	if _, err := a.of("limit_used"); errors.As(err, &absent) {
		a.note("Jobs that ran beyond their limits make the unused CPU hours too low, " +
			"since the Elasticsearch cluster cannot leave these jobs out.")
	} else if err == nil {
		asked = append(asked, question.Not{Of: question.Compare{Column: "limit_used", Op: ">", Value: 100.0}})
	}
	within, err := a.fields.filter(asked)
	inner := object{"filter": within, "aggs": object{"of": left.request}}
	return measure{object{"filter": known, "aggs": object{"left": inner}},
		func(_, result object) any {
			if whole(result["doc_count"]) == 0 {
				return nil
			}
			below := result["left"].(object)
			if v, ok := left.value(below, below["of"].(object)).(float64); ok {
				return v
			}
			return 0.0
		}, nil}, err
}

// less returns the difference of two measures.
func less(a, b measure) measure {
	if a.request == nil || b.request == nil {
		return unknown
	}
	both := object{"filter": everything, "aggs": object{"a": a.request, "b": b.request}}
	return measure{both, func(bucket, result object) any {
		x, ok := a.value(bucket, result["a"].(object)).(float64)
		y, known := b.value(bucket, result["b"].(object)).(float64)
		if !ok || !known {
			return nil
		}
		return x - y
	}, nil}
}

// nodeHours computes the node hours for a cluster whose documents lack this column.
func (a *asking) nodeHours() (measure, error) {
	m, err := a.product("nodes", "elapsed_s", "")
	seconds := m.value
	m.value = func(bucket, result object) any {
		if s, ok := seconds(bucket, result).(float64); ok {
			return s / 3600
		}
		return nil
	}
	return m, err
}

// meanWait computes the mean time from an instant to the start, over the jobs that ran, as the
// difference of two means. It is for clusters whose documents lack waits.
func (a *asking) meanWait(since string) (measure, error) {
	var names []string
	var ran []object
	for _, column := range []string{"start_time", since, "node_list"} {
		f, err := a.fields.of(column)
		if err != nil || f.name == "" {
			return unknown, err
		}
		names, ran = append(names, f.name), append(ran, object{"exists": object{"field": f.name}})
	}
	return measure{object{
		"filter": object{"bool": object{"filter": ran, "must_not": []object{{"terms": object{names[2]: notRun}}}}},
		"aggs": object{"start": object{"avg": object{"field": names[0]}},
			"since": object{"avg": object{"field": names[1]}}},
	}, func(_, result object) any {
		from, ok := number(result["since"].(object)["value"]).(float64)
		to, known := number(result["start"].(object)["value"]).(float64)
		if !ok || !known {
			return nil
		}
		return (to - from) / 1000
	}, func(result object) any { return number(result["doc_count"]) }}, nil
}

func join(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " and " + w
		} else {
			text += ", " + w
		}
	}
	return text
}
