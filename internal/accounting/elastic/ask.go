package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

const (
	// shardSize is how many values of a text each shard counts. An answer is exact if no shard has more.
	shardSize = 10_000
	// precision is the number of values up to which the cluster counts different ones nearly exactly: the
	// most that it offers.
	precision = 40_000
)

// notRun are the lists of nodes that Slurm writes for a job that never ran.
var notRun = []string{"(null)", "None assigned", ""}

// asking is one question on its way.
type asking struct {
	fields *fields
	question.Question
	measures []measure
	derived  []string // columns that only documents of this program have
	out      question.Answer
}

// measure is a measure with its aggregation.
type measure struct {
	request object // nil for what a bucket has by itself
	value   func(bucket, result object) any
}

// Ask answers a question. A measure of a column that the cluster does not have is nil, with a note.
// Another use of such a column is a [question.AbsentError].
func (c *Cluster) Ask(ctx context.Context, q question.Question) (*question.Answer, error) {
	known, err := c.known(ctx)
	if err != nil {
		return nil, err
	}
	a := &asking{fields: known, Question: q}
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
		return nil, fmt.Errorf("reading the cluster's answer: %w", err)
	}
	if other, ok := top["other"].(object); ok {
		if n := whole(other["doc_count"]); n > 0 {
			slices.Sort(a.derived)
			a.note("%s did not come to the cluster through this program, and have no %s.", quantity.Counted(int(n), "job", "jobs"), join(slices.Compact(a.derived)))
		}
	}
	return &a.out, nil
}

func (a *asking) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(a.out.Notes, text) {
		a.out.Notes = append(a.out.Notes, text)
	}
}

// of returns the field of a column, and notes which are of this program.
func (a *asking) of(column string) (field, error) {
	f, err := a.fields.of(column)
	if f.derived {
		a.derived = append(a.derived, column)
	}
	return f, err
}

// request returns the search. It is nil if no job can be in any bucket.
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
				continue // all jobs are in the bucket without a value
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

// key returns the aggregation of a key; nil if no document has the column. The measures are below the
// innermost one, and so order its values alone.
func (a *asking) key(key question.Key, innermost bool) (object, error) {
	bounded := func(column string, edges []string, open bool) (field, []object, error) {
		f, err := a.of(column)
		var ranges []object
		for i := range edges {
			r := object{"key": fmt.Sprint(i), "from": edges[i]}
			if i+1 < len(edges) {
				r["to"] = edges[i+1]
			} else if !open {
				break
			}
			ranges = append(ranges, r)
		}
		return f, ranges, err
	}
	var f field
	var err error
	var body object
	var kind string
	switch key := key.(type) {
	case question.Ranges:
		var edges []string
		for _, e := range key.Edges {
			edges = append(edges, fmt.Sprintf("%.0f", e))
		}
		var ranges []object
		f, ranges, err = bounded(key.Column, edges, key.Open)
		for _, r := range ranges {
			for _, side := range []string{"from", "to"} {
				if text, ok := r[side].(string); ok {
					r[side] = json.Number(text)
				}
			}
		}
		kind, body = "range", object{"ranges": ranges}
	case question.Instants:
		var edges []string
		for _, e := range key.Edges {
			edges = append(edges, e.UTC().Format(instantFormat))
		}
		var ranges []object
		f, ranges, err = bounded(key.Column, edges, false)
		kind, body = "date_range", object{"format": "strict_date_optional_time", "ranges": ranges}
	case question.Hours:
		f, err = a.of(key.Column)
		kind, body = "date_histogram", object{"fixed_interval": fmt.Sprintf("%dm", key.Step/time.Minute), "min_doc_count": 1}
	case question.Values:
		f, err = a.of(key.Column)
		order := object{"_count": "desc"}
		if m := a.Measures[key.By]; innermost && m.Kind == question.Sum && a.measures[key.By].request != nil {
			order = object{name(key.By) + ".sum": "desc"}
		}
		kind, body = "terms", object{"size": key.Most, "shard_size": shardSize, "missing": "", "order": []object{order, {"_key": "asc"}}}
	case question.Running:
		return a.running(key)
	default:
		return nil, fmt.Errorf("a key of the type %T", key)
	}
	if err != nil || f.name == "" {
		return nil, err
	}
	body["field"] = f.name
	return object{kind: body}, nil
}

func (a *asking) running(key question.Running) (object, error) {
	var filters []question.Filter
	for _, at := range key.At {
		filters = append(filters, question.All{
			question.Compare{Column: "start_time", Op: "<", Value: at}, question.Compare{Column: "end_time", Op: ">=", Value: at},
		})
	}
	list, err := a.fields.filters(filters)
	if err != nil {
		return nil, err
	}
	return object{"filters": object{"filters": list}}, nil
}

// unknown is a measure that the cluster does not have.
var unknown = measure{nil, func(object, object) any { return nil }}

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
	}}, nil
}

// unfiltered is measure without the condition.
func (a *asking) unfiltered(m question.Measure) (measure, error) {
	if m.Kind == question.Count {
		return measure{nil, func(bucket, _ object) any { return whole(bucket["doc_count"]) }}, nil
	}
	f, err := a.of(m.Column)
	var absent *question.AbsentError
	if errors.As(err, &absent) {
		if m.Column == "wait_s" && m.Kind == question.Mean {
			return a.meanWait()
		}
		a.note("%s: not known, since %s.", m.Column, absent.Why)
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
		}}
	}
	switch m.Kind {
	case question.Distinct:
		return measure{object{"cardinality": object{"field": f.name, "precision_threshold": precision}}, func(_, result object) any { return whole(result["value"]) }}, nil
	case question.Sum:
		return stats("sum"), nil
	case question.Mean:
		return stats("avg"), nil
	case question.Least:
		return stats("min"), nil
	case question.Most:
		return stats("max"), nil
	case question.Product:
		weight, err := a.of(m.Times)
		if err != nil || weight.name == "" {
			return unknown, err
		}
		return product(f, weight), nil
	}
	return unknown, fmt.Errorf("a measure of the kind %d", m.Kind)
}

// product is the sum of the products of two fields: their weighted mean times the weights' sum, over
// the jobs that have both.
func product(f, weight field) measure {
	both := []object{{"exists": object{"field": f.name}}, {"exists": object{"field": weight.name}}}
	return measure{object{"filter": object{"bool": object{"filter": both}}, "aggs": object{
		"mean":    object{"weighted_avg": object{"value": object{"field": f.name}, "weight": object{"field": weight.name}}},
		"weights": object{"stats": object{"field": weight.name}},
	}}, func(_, result object) any {
		mean, weights := result["mean"].(object), result["weights"].(object)
		if whole(weights["count"]) == 0 {
			return nil
		}
		m, ok := number(mean["value"]).(float64)
		if !ok {
			return 0.0 // all weights are 0
		}
		return m * number(weights["sum"]).(float64)
	}}
}

// meanWait is the mean of the times from eligible to start of jobs that ran, of a cluster whose
// documents do not have them: the difference of the means.
func (a *asking) meanWait() (measure, error) {
	start, err := a.fields.of("start_time")
	if err != nil {
		return unknown, err
	}
	eligible, err := a.fields.of("eligible_time")
	if err != nil {
		return unknown, err
	}
	nodes, err := a.fields.of("node_list")
	if err != nil || start.name == "" || eligible.name == "" || nodes.name == "" {
		return unknown, err
	}
	var ran []object
	for _, f := range []field{start, eligible, nodes} {
		ran = append(ran, object{"exists": object{"field": f.name}})
	}
	return measure{object{
		"filter": object{"bool": object{"filter": ran, "must_not": []object{{"terms": object{nodes.name: notRun}}}}},
		"aggs":   object{"start": object{"avg": object{"field": start.name}}, "eligible": object{"avg": object{"field": eligible.name}}},
	}, func(_, result object) any {
		from, ok := number(result["eligible"].(object)["value"]).(float64)
		to, known := number(result["start"].(object)["value"]).(float64)
		if !ok || !known {
			return nil
		}
		return (to - from) / 1000
	}}, nil
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
