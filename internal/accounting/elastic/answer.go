package elastic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

// rows adds the rows of a bucket. keys are the keys of this bucket and of the buckets that contain it.
func (a *asking) rows(bucket object, by []question.Key, keys []any) error {
	if len(by) == 0 {
		return a.row(bucket, keys)
	}
	if v, ok := by[0].(question.Values); ok {
		if f, err := a.fields.of(v.Column); err != nil || f.name == "" {
			return a.rows(bucket, by[1:], append(slices.Clone(keys), ""))
		}
	}
	result, ok := bucket["by"].(object)
	if !ok {
		return errors.New("an aggregation of the request is missing")
	}
	list, ok := result["buckets"].([]any)
	if !ok {
		return errors.New("an aggregation has no buckets")
	}
	if v, ok := by[0].(question.Values); ok {
		a.noteChoice(v, result)
	}
	if len(keys) == 0 && a.Counted() {
		a.out.Outside = whole(bucket["doc_count"])
		for _, one := range list {
			below, _ := one.(object)
			a.out.Outside -= whole(below["doc_count"])
		}
	}
	for _, one := range list {
		below, ok := one.(object)
		if !ok {
			return errors.New("a bucket is not a JSON object")
		}
		if whole(below["doc_count"]) == 0 {
			continue
		}
		key, err := a.keyOf(by[0], below)
		if err != nil {
			return err
		}
		if err := a.rows(below, by[1:], append(slices.Clone(keys), key)); err != nil {
			return err
		}
	}
	return nil
}

// noteChoice adds a note if the answer omits some of the buckets of a text column, or if the choice of the buckets is
// approximate.
func (a *asking) noteChoice(v question.Values, result object) {
	if whole(result["doc_count_error_upper_bound"]) != 0 {
		a.note("The Elasticsearch cluster has so many values of %s that its choice of the largest ones is "+
			"approximate.", v.Column)
	}
	if n := whole(result["sum_other_doc_count"]); n > 0 && !v.First {
		a.note("%s with other values of %s left out.", quantity.Counted(int(n), "job is", "jobs are"), v.Column)
	}
}

// keyOf returns the key of a bucket for a row. The key of a range is its number.
func (a *asking) keyOf(by question.Key, bucket object) (any, error) {
	switch by.(type) {
	case question.Values:
		return question.Cut(fmt.Sprint(bucket["key"])), nil
	case question.WeekHours:
		ms, ok := number(bucket["key"]).(float64)
		if !ok {
			return nil, fmt.Errorf("the bucket %v has no instant", bucket["key"])
		}
		return a.Clock.WeekHour(time.UnixMilli(int64(ms))), nil
	}
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(bucket["key"]), &n); err != nil {
		return nil, fmt.Errorf("the bucket %v has no number", bucket["key"])
	}
	return n, nil
}

// row adds the row of an innermost bucket. keys are the keys of this bucket and of the buckets that contain it.
func (a *asking) row(bucket object, keys []any) error {
	row, weights := slices.Clone(keys), make([]any, len(a.measures))
	for i, m := range a.measures {
		result, ok := bucket[name(i)].(object)
		if m.request != nil && !ok {
			return errors.New("a measure of the request is missing")
		}
		row = append(row, m.value(bucket, result))
		if m.weight != nil {
			weights[i] = m.weight(result)
		}
	}
	if len(a.By) == 1 && a.By[0] == question.Key(question.WeekHours{}) {
		return a.addTo(row, weights)
	}
	a.out.Rows = append(a.out.Rows, row)
	return nil
}

// weekHour has the sums for one hour of the week. Elasticsearch returns a separate row for each
// week.
type weekHour struct {
	row     []any
	weights []float64 // weights of the measures that are means
}

// addTo adds a row to the sums for its hour of the week.
func (a *asking) addTo(row, weights []any) error {
	key := row[0].(int64)
	hour := a.hours[key]
	if hour == nil {
		hour = &weekHour{append([]any{key}, make([]any, len(a.measures))...), make([]float64, len(a.measures))}
		a.hours[key] = hour
	}
	for i, m := range a.Measures {
		to := &hour.row[1+i]
		switch v := row[1+i].(type) {
		case nil:
		case int64:
			sum, _ := (*to).(int64)
			*to = sum + v
		case float64:
			sum, _ := (*to).(float64)
			weight, known := weights[i].(float64)
			switch {
			case known:
				hour.weights[i] += weight
				*to = sum + (v-sum)*weight/hour.weights[i]
			case m.Kind == question.Sum:
				*to = sum + v
			default:
				return fmt.Errorf("adding up the hours of a week: measures of the kind %d cannot be added up", m.Kind)
			}
		}
	}
	return nil
}

// addHours adds a row for each hour of the week, in order.
func (a *asking) addHours() {
	for _, key := range slices.Sorted(maps.Keys(a.hours)) {
		a.out.Rows = append(a.out.Rows, a.hours[key].row)
	}
}

// number converts a JSON number to a float64. It returns nil for anything else.
func number(v any) any {
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return nil
}

// whole converts a JSON number to an int64. It returns 0 for anything else.
func whole(v any) int64 {
	f, _ := number(v).(float64)
	return int64(f)
}
