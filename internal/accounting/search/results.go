package search

import (
	"cmp"
	"slices"
)

// results builds the results of aggregations.
type results struct {
	typed bool // names begin with the types (typed_keys)
	total int  // number of buckets so far
}

// below adds the results of a bucket's sub-aggregations to the object into. b is the bucket, or nil if the bucket is
// empty.
func (r *results) below(a *aggregation, b *bucket, into map[string]any) error {
	for _, child := range a.children {
		name := child.name
		if child.metric != nil {
			if r.typed {
				name = child.metric.typed + "#" + name
			}
			outputs := make([]any, len(child.metric.outputs))
			if b != nil {
				outputs = b.outputs[child.name]
			}
			into[name] = child.metric.render(outputs)
			continue
		}
		if r.typed {
			name = child.buckets.typed + "#" + name
		}
		var g *group
		if b != nil {
			g = b.below[child.name]
		}
		if g == nil {
			g = &group{}
		}
		result, err := r.group(child, g)
		if err != nil {
			return err
		}
		into[name] = result
	}
	return nil
}

// one returns the result for one bucket; b is nil for an empty bucket.
func (r *results) one(a *aggregation, b *bucket) (map[string]any, error) {
	if r.total++; r.total > maxBuckets {
		return nil, tooMany()
	}
	result := map[string]any{"doc_count": 0}
	if b != nil {
		result["doc_count"] = b.count
	}
	return result, r.below(a, b, result)
}

// group returns the result of a bucket aggregation.
func (r *results) group(a *aggregation, g *group) (map[string]any, error) {
	own := a.buckets
	if own.fixed != nil {
		return r.fixed(a, g)
	}
	list := g.list
	if own.next != nil {
		var err error
		if list, err = own.complete(a.children, list); err != nil {
			return nil, err
		}
	}
	rows := make([]any, 0, len(list))
	shown := int64(0)
	for _, b := range list {
		result, err := r.one(a, b)
		if err != nil {
			return nil, err
		}
		own.describe(b.key(), result)
		shown += b.count
		rows = append(rows, result)
	}
	if own.size > 0 {
		return map[string]any{"doc_count_error_upper_bound": 0, "sum_other_doc_count": g.total - shown, "buckets": rows}, nil
	}
	return map[string]any{"buckets": rows}, nil
}

// fixed returns the result of an aggregation whose buckets always exist.
func (r *results) fixed(a *aggregation, g *group) (map[string]any, error) {
	own := a.buckets
	found := make(map[any]*bucket)
	for _, b := range g.list {
		found[b.key()] = b
	}
	rows, byName := []any{}, map[string]any{}
	for i, name := range own.fixed {
		result, err := r.one(a, found[int64(i)])
		if err != nil || own.single {
			return result, err
		}
		own.describeFilter(i, result)
		rows = append(rows, result)
		byName[name] = result
	}
	if own.keyed {
		return map[string]any{"buckets": byName}, nil
	}
	return map[string]any{"buckets": rows}, nil
}

// complete adds the empty buckets of a histogram, removes buckets with too few jobs, and sorts the
// buckets.
func (b *buckets) complete(children []*aggregation, list []*bucket) (all []*bucket, err error) {
	slices.SortFunc(list, func(x, y *bucket) int { return compareKeys(x.key(), y.key()) })
	if b.minCount > 0 {
		return slices.DeleteFunc(list, func(x *bucket) bool { return x.count < b.minCount }), nil
	}
	least, most := b.minKey, b.maxKey
	if n := len(list); n > 0 {
		if first := list[0].key(); least == nil || compareKeys(first, least) < 0 {
			least = first
		}
		if last := list[n-1].key(); most == nil || compareKeys(last, most) > 0 {
			most = last
		}
	}
	if least == nil || most == nil {
		return nil, nil
	}
	for key := least; compareKeys(key, most) <= 0; {
		if len(list) > 0 && compareKeys(list[0].key(), key) <= 0 {
			key = list[0].key()
			all = append(all, list[0])
			list = list[1:]
		} else {
			all = append(all, b.empty(children, key))
		}
		if len(all) > maxBuckets {
			return nil, tooMany()
		}
		following := b.next(key)
		if compareKeys(following, key) <= 0 {
			break // the keys are so large that adding 1 does not change them
		}
		key = following
	}
	return append(all, list...), nil
}

// empty returns a bucket without jobs.
func (b *buckets) empty(children []*aggregation, key any) *bucket {
	e := newBucket([]any{key}, 0)
	for _, child := range children {
		if child.metric != nil {
			e.outputs[child.name] = make([]any, len(child.metric.outputs))
		}
	}
	return e
}

// compareKeys compares two keys of a histogram.
func compareKeys(x, y any) int {
	if a, ok := x.(int64); ok {
		return cmp.Compare(a, y.(int64))
	}
	return cmp.Compare(x.(float64), y.(float64))
}
