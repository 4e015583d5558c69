package elastic

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

// rows adds the rows of a bucket, whose outer keys are known.
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
		return errors.New("an aggregation is not in it")
	}
	list, ok := result["buckets"].([]any)
	if !ok {
		return errors.New("an aggregation is in it without its buckets")
	}
	if v, ok := by[0].(question.Values); ok {
		a.noteChoice(v, result)
	}
	for i, one := range list {
		below, ok := one.(object)
		if !ok {
			return errors.New("a bucket is no object")
		}
		if whole(below["doc_count"]) == 0 {
			continue
		}
		key, err := keyOf(by[0], i, below)
		if err != nil {
			return err
		}
		if err := a.rows(below, by[1:], append(slices.Clone(keys), key)); err != nil {
			return err
		}
	}
	return nil
}

// noteChoice notes what the buckets of a text leave out.
func (a *asking) noteChoice(v question.Values, result object) {
	if whole(result["doc_count_error_upper_bound"]) != 0 {
		a.note("The cluster has so many values of %s that it chooses the first ones approximately.", v.Column)
	}
	if n := whole(result["sum_other_doc_count"]); n > 0 && !v.First {
		a.note("%s with other values of %s left out.", quantity.Counted(int(n), "job is", "jobs are"), v.Column)
	}
}

// keyOf returns the key of a bucket for a row. place is its place among the buckets, which is its number
// only where buckets are filters: the cluster sorts ranges.
func keyOf(by question.Key, place int, bucket object) (any, error) {
	switch by.(type) {
	case question.Values:
		return fmt.Sprint(bucket["key"]), nil
	case question.Hours:
		ms, ok := number(bucket["key"]).(float64)
		if !ok {
			return nil, fmt.Errorf("the bucket %v has no instant", bucket["key"])
		}
		return time.UnixMilli(int64(ms)).UTC(), nil
	case question.Running:
		return int64(place), nil
	}
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(bucket["key"]), &n); err != nil {
		return nil, fmt.Errorf("the bucket %v has no number", bucket["key"])
	}
	return n, nil
}

// row adds the row of an innermost bucket.
func (a *asking) row(bucket object, keys []any) error {
	row := slices.Clone(keys)
	for i, m := range a.measures {
		result, ok := bucket[name(i)].(object)
		if m.request != nil && !ok {
			return errors.New("a measure is not in it")
		}
		row = append(row, m.value(bucket, result))
	}
	a.out.Rows = append(a.out.Rows, row)
	return nil
}

// number returns a JSON number as a float64, and nil for anything else.
func number(v any) any {
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return nil
}

// whole returns a JSON number as an int64, and 0 for anything else.
func whole(v any) int64 {
	f, _ := number(v).(float64)
	return int64(f)
}
