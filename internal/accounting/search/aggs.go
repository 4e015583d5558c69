package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
)

// Limits of the aggregations of one request.
const (
	maxBuckets      = 65536 // of one answer, as in Elasticsearch
	maxAggregations = 200
	maxNesting      = 8 // of buckets within buckets
	maxFilters      = 256
)

// aggregation is a bucket aggregation with what is below it, or a metric. The root of a request's
// aggregations is a bucket of all jobs that the query finds.
type aggregation struct {
	name     string
	metric   *metric
	buckets  *buckets
	children []*aggregation // in the order of their names
}

// buckets says how jobs are sorted into buckets.
type buckets struct {
	typed string
	// key is an expression whose value tells a job's bucket; NULL means none. With several, it is
	// an array of numbers, and a job is in all of their buckets.
	key      query.SQL
	keyType  string // in SQL
	several  bool
	keyed    bool // buckets are an object
	minCount int64
	order    []order
	size     int64 // for terms: how many; 0 stands for all
	// fixed are the names of buckets that are always there, with numbers from 0 as keys.
	fixed []string
	// single means that there is one bucket, which is the result itself.
	single bool
	// next returns the key behind one, for buckets without jobs between others.
	next           func(key any) any
	least, most    any // keys that must be there (extended_bounds); nil for none
	describe       func(key any, b map[string]any)
	describeFilter func(i int, b map[string]any)
}

// order is what buckets are sorted by.
type order struct {
	key        bool // the key
	child      string
	output     string // of the child's metric
	count      bool
	descending bool
}

// bucket is a bucket of a result.
type bucket struct {
	keys    []any // of the buckets that it is in, from the outside to the inside, and its own
	count   int64
	outputs map[string][]any // of metrics
	below   map[string]*group
}

// group is the buckets of one aggregation within one bucket.
type group struct {
	list  []*bucket
	total int64 // jobs in all buckets that have enough of them, with those behind the last place
}

// key returns the bucket's own key.
func (b *bucket) key() any { return b.keys[len(b.keys)-1] }

func newBucket(keys []any, count int64) *bucket {
	return &bucket{keys: keys, count: count, outputs: map[string][]any{}, below: map[string]*group{}}
}

// aggregations reads the aggregations of a request or of an aggregation.
func (c *compiler) aggregations(v any, depth int, total *int) (list []*aggregation, err error) {
	if v == nil {
		return nil, nil
	}
	if depth > maxNesting {
		return nil, query.Illegal("aggregations within aggregations: more than %d levels", maxNesting)
	}
	m, err := query.Object("aggs", v)
	if err != nil {
		return nil, err
	}
	for name, body := range m {
		if *total++; *total > maxAggregations {
			return nil, query.Illegal("more than %d aggregations", maxAggregations)
		}
		if strings.ContainsAny(name, "[]>") || name == "" {
			return nil, query.Parsing("Invalid aggregation name [%s]. Aggregation names cannot contain '[', ']', and '>'", name)
		}
		a, err := c.aggregation(name, body, depth, total)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *aggregation) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

func (c *compiler) aggregation(name string, v any, depth int, total *int) (*aggregation, error) {
	m, err := query.Object(name, v)
	if err != nil {
		return nil, err
	}
	a := &aggregation{name: name}
	kind := ""
	var below any
	for member := range m {
		switch member {
		case "aggs", "aggregations":
			below = m[member]
		case "meta":
			return nil, query.Unsupported("[meta] of the aggregation [%s]", name)
		default:
			if kind != "" {
				return nil, query.Parsing("Found two aggregation type definitions in [%s]: [%s] and [%s]", name, min(kind, member), max(kind, member))
			}
			kind = member
		}
	}
	if kind == "" {
		return nil, query.Parsing("Missing definition for aggregation [%s]", name)
	}
	where := name + "." + kind
	if a.metric, err = c.newMetric(kind, where, m[kind]); err != nil {
		return nil, err
	}
	if a.metric != nil {
		if below != nil {
			return nil, query.Illegal("Aggregator [%s] of type [%s] cannot accept sub-aggregations", name, kind)
		}
		return a, nil
	}
	if a.children, err = c.aggregations(below, depth+1, total); err != nil {
		return nil, err
	}
	switch kind {
	case "terms":
		a.buckets, err = c.termsBuckets(where, m[kind], a.children)
	case "date_histogram":
		a.buckets, err = c.dateHistogram(where, m[kind], a.children)
	case "histogram":
		a.buckets, err = c.histogram(where, m[kind], a.children)
	case "filter", "filters", "missing", "range", "date_range":
		a.buckets, err = c.filterBuckets(kind, where, m[kind])
	default:
		err = query.Unsupported("the aggregation [%s] of the type [%s]", name, kind)
	}
	return a, err
}

// fieldOf returns the field of an aggregation.
func (c *compiler) fieldOf(where string, m map[string]any) (*query.Field, error) {
	name, err := query.Text(where, m, "field", "")
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, query.Illegal("Required one of fields [field, script], but none were specified for [%s]", where)
	}
	return c.Field(name)
}

// orders reads the order of buckets.
func orders(where string, v any, children []*aggregation, byDefault []order) ([]order, error) {
	if v == nil {
		return byDefault, nil
	}
	var list []order
	elements, ok := v.([]any)
	if !ok {
		elements = []any{v}
	}
	for _, e := range elements {
		name, direction, err := query.Only(where+".order", e)
		if err != nil {
			return nil, err
		}
		d, err := query.Scalar(where+".order", direction)
		if err != nil {
			return nil, err
		}
		o := order{}
		switch strings.ToLower(d) {
		case "asc":
		case "desc":
			o.descending = true
		default:
			return nil, query.Parsing("Unknown order direction [%s]", d)
		}
		switch name {
		case "_count":
			o.count = true
		case "_key", "_term":
			o.key = true
		default:
			child, output, _ := strings.Cut(name, ".")
			i := slices.IndexFunc(children, func(a *aggregation) bool { return a.name == child })
			if i < 0 || children[i].metric == nil {
				return nil, query.Illegal("Invalid aggregation order path [%s]. The provided aggregation [%s] either does not exist, or is no metric", name, child)
			}
			if _, ok := children[i].metric.orders[output]; !ok {
				return nil, query.Illegal("Invalid aggregation order path [%s]: [%s] has no such value", name, child)
			}
			o.child, o.output = child, output
		}
		list = append(list, o)
	}
	return append(list, order{key: true}), nil // the same count: by key
}

func (c *compiler) termsBuckets(where string, v any, children []*aggregation) (*buckets, error) {
	m, err := query.Object(where, v)
	if err != nil {
		return nil, err
	}
	if err := query.Known(where, m, "field", "size", "order", "missing", "min_doc_count", "include", "exclude", "format", "shard_size",
		"show_term_doc_count_error", "execution_hint", "collect_mode", "value_type"); err != nil {
		return nil, err
	}
	if err := query.Neutral(where, m, "show_term_doc_count_error", false); err != nil {
		return nil, err
	}
	f, err := c.fieldOf(where, m)
	if err != nil {
		return nil, err
	}
	b := &buckets{key: f.Expr}
	if b.size, err = query.Whole(where, m, "size", 10, 1, maxBuckets); err != nil {
		return nil, err
	}
	if b.minCount, err = query.Whole(where, m, "min_doc_count", 1, 1, math.MaxInt64); err != nil {
		return nil, err
	}
	if b.order, err = orders(where, m["order"], children, []order{{count: true, descending: true}, {key: true}}); err != nil {
		return nil, err
	}
	if missing, given := m["missing"]; given {
		if b.key, err = c.substitute(f, b.key, where, missing, true); err != nil {
			return nil, err
		}
	}
	switch f.Kind {
	case query.Keyword:
		b.typed, b.keyType = "sterms", "VARCHAR"
	case query.Long:
		b.typed, b.keyType = "lterms", "BIGINT"
	case query.Double:
		b.typed, b.keyType = "dterms", "DOUBLE"
	case query.Date:
		b.typed, b.keyType = "lterms", "BIGINT"
		b.key = query.Expression("epoch_ms(%s)", b.key)
	}
	if f.Kind == query.Date {
		format, err := query.Text(where, m, "format", "")
		if err != nil {
			return nil, err
		}
		d, err := query.NewDates(format, time.UTC, c.Now)
		if err != nil {
			return nil, err
		}
		b.describe = func(key any, r map[string]any) {
			r["key"], r["key_as_string"] = key, d.Format(time.UnixMilli(key.(int64)))
		}
	} else {
		if m["format"] != nil {
			return nil, query.Unsupported("[%s] with a format of numbers", where)
		}
		b.describe = func(key any, r map[string]any) { r["key"] = key }
	}
	return b, b.restrict(where, m)
}

// restrict reads which terms have buckets.
func (b *buckets) restrict(where string, m map[string]any) error {
	for _, side := range []string{"include", "exclude"} {
		v, given := m[side]
		if !given {
			continue
		}
		values, ok := v.([]any)
		if !ok {
			return query.Unsupported("[%s] with [%s] that is no array", where, side)
		}
		if len(values) > query.MaxTerms {
			return query.Illegal("[%s] %s: %d values (want at most %d)", where, side, len(values), query.MaxTerms)
		}
		var parts []query.SQL
		for _, v := range values {
			s, err := query.Scalar(where+"."+side, v)
			if err != nil {
				return err
			}
			parts = append(parts, query.Expression("%s::VARCHAR", query.Value(s)))
		}
		if len(parts) == 0 {
			parts = []query.SQL{{Text: "NULL"}}
		}
		test := query.Expression("((%s)::VARCHAR IN (%s))", b.key, query.Join(parts, ", "))
		if side == "exclude" {
			test = query.Not(test)
		}
		b.key = query.Expression("CASE WHEN %s THEN %s END", test, b.key)
	}
	return nil
}

func (c *compiler) histogram(where string, v any, children []*aggregation) (*buckets, error) {
	m, err := query.Object(where, v)
	if err != nil {
		return nil, err
	}
	if err := query.Known(where, m, "field", "interval", "offset", "min_doc_count", "missing", "keyed", "order", "extended_bounds", "hard_bounds"); err != nil {
		return nil, err
	}
	f, err := c.fieldOf(where, m)
	if err != nil {
		return nil, err
	}
	input, err := f.Number()
	if err != nil {
		return nil, err
	}
	if missing, given := m["missing"]; given {
		if input, err = c.substitute(f, input, where, missing, false); err != nil {
			return nil, err
		}
	}
	interval, err := float(where, m, "interval", 0)
	if err != nil {
		return nil, err
	}
	if interval <= 0 {
		return nil, query.Illegal("[interval] must be >0 for histogram aggregation [%s]", where)
	}
	offset, err := float(where, m, "offset", 0)
	if err != nil {
		return nil, err
	}
	// A bucket is the number of its interval, so that no key is the sum of many roundings.
	b := &buckets{typed: "histogram", keyType: "DOUBLE", key: query.Expression("floor((%s - %s::DOUBLE) / %s::DOUBLE)", input, query.Value(offset), query.Value(interval))}
	number := func(x float64) float64 { return math.Floor((x - offset) / interval) }
	b.describe = func(key any, r map[string]any) { r["key"] = finite(key.(float64)*interval + offset) }
	b.next = func(key any) any { return key.(float64) + 1 }
	return b, c.histogramOptions(b, where, m, children, func(v any) (any, error) {
		s, err := query.Scalar(where, v)
		if err != nil {
			return nil, err
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || finite(x) == nil {
			return nil, query.Illegal("[%s] bounds: [%s] is no number", where, s)
		}
		return number(x), nil
	})
}

// float returns the number of a member.
func float(where string, m map[string]any, name string, byDefault float64) (float64, error) {
	v, given := m[name]
	if !given {
		return byDefault, nil
	}
	s, err := query.Scalar(where+"."+name, v)
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || finite(x) == nil {
		return 0, query.Illegal("[%s] %s: [%s] is no number", where, name, s)
	}
	return x, nil
}

// histogramOptions reads what both histograms have.
func (c *compiler) histogramOptions(b *buckets, where string, m map[string]any, children []*aggregation, bound func(v any) (any, error)) (err error) {
	if b.minCount, err = query.Whole(where, m, "min_doc_count", 0, 0, math.MaxInt64); err != nil {
		return err
	}
	if b.keyed, err = query.Boolean(where, m, "keyed", false); err != nil {
		return err
	}
	if b.order, err = orders(where, m["order"], children, []order{{key: true}}); err != nil {
		return err
	}
	for _, name := range []string{"extended_bounds", "hard_bounds"} {
		v, given := m[name]
		if !given {
			continue
		}
		limits, err := query.Object(where+"."+name, v)
		if err != nil {
			return err
		}
		if err := query.Known(where+"."+name, limits, "min", "max"); err != nil {
			return err
		}
		for side, v := range limits {
			if v == nil {
				continue
			}
			key, err := bound(v)
			if err != nil {
				return err
			}
			switch {
			case name == "hard_bounds" && side == "min":
				b.key = query.Expression("CASE WHEN %s >= %s::"+b.keyType+" THEN %s END", b.key, query.Value(key), b.key)
			case name == "hard_bounds":
				b.key = query.Expression("CASE WHEN %s <= %s::"+b.keyType+" THEN %s END", b.key, query.Value(key), b.key)
			case side == "min":
				b.least = key
			default:
				b.most = key
			}
		}
	}
	return nil
}

// addBucket adds a bucket with its condition, unless there is an error, which it returns.
type addBucket func(name string, condition query.SQL, err error) error

// filterBuckets makes the buckets of aggregations whose buckets are conditions.
func (c *compiler) filterBuckets(kind, where string, v any) (*buckets, error) {
	b := &buckets{typed: kind, keyType: "BIGINT"}
	var conditions []query.SQL
	add := func(name string, condition query.SQL, err error) error {
		b.fixed = append(b.fixed, name)
		conditions = append(conditions, condition)
		if len(conditions) > maxFilters {
			return query.Illegal("[%s] has more than %d buckets", where, maxFilters)
		}
		return err
	}
	switch kind {
	case "filter":
		b.single = true
		condition, err := c.Query(v)
		if err := add("", condition, err); err != nil {
			return nil, err
		}
	case "missing":
		b.single = true
		m, err := query.Object(where, v)
		if err != nil {
			return nil, err
		}
		if err := query.Known(where, m, "field"); err != nil {
			return nil, err
		}
		f, err := c.fieldOf(where, m)
		if err != nil {
			return nil, err
		}
		if err := add("", query.Expression("(%s IS NULL)", f.Expr), nil); err != nil {
			return nil, err
		}
	case "filters":
		if err := c.filters(b, where, v, add, func() query.SQL { return query.Or(conditions) }); err != nil {
			return nil, err
		}
	default:
		if err := c.ranges(b, kind, where, v, add); err != nil {
			return nil, err
		}
	}
	b.several = len(conditions) > 1
	cases := make([]query.SQL, len(conditions))
	for i, condition := range conditions {
		cases[i] = query.Expression("CASE WHEN %s THEN "+strconv.Itoa(i)+"::BIGINT END", condition)
	}
	if b.several {
		b.key = query.Expression("[%s]", query.Join(cases, ", "))
	} else {
		b.key = cases[0]
	}
	return b, nil
}

// filters reads the aggregation filters. all returns the condition that one of the filters holds.
func (c *compiler) filters(b *buckets, where string, v any, add addBucket, all func() query.SQL) error {
	m, err := query.Object(where, v)
	if err != nil {
		return err
	}
	if err := query.Known(where, m, "filters", "other_bucket", "other_bucket_key", "keyed"); err != nil {
		return err
	}
	b.keyed = true
	switch filters := m["filters"].(type) {
	case map[string]any:
		var names []string
		for name := range filters {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			condition, err := c.Query(filters[name])
			if err := add(name, condition, err); err != nil {
				return err
			}
		}
	case []any:
		b.keyed = false
		for _, f := range filters {
			condition, err := c.Query(f)
			if err := add("", condition, err); err != nil {
				return err
			}
		}
	}
	if len(b.fixed) == 0 {
		return query.Parsing("[%s] wants [filters], an object or an array that is not empty", where)
	}
	otherKey, err := query.Text(where, m, "other_bucket_key", "")
	if err != nil {
		return err
	}
	other, err := query.Boolean(where, m, "other_bucket", otherKey != "")
	if err != nil {
		return err
	}
	if other {
		if otherKey == "" {
			otherKey = "_other_"
		}
		if err := add(otherKey, query.Not(all()), nil); err != nil {
			return err
		}
	}
	b.describeFilter = func(int, map[string]any) {}
	return nil
}

// ranges reads the aggregations range and date_range.
func (c *compiler) ranges(b *buckets, kind, where string, v any, add addBucket) error {
	m, err := query.Object(where, v)
	if err != nil {
		return err
	}
	if err := query.Known(where, m, "field", "ranges", "keyed", "format", "time_zone"); err != nil {
		return err
	}
	f, err := c.fieldOf(where, m)
	if err != nil {
		return err
	}
	if kind == "date_range" && f.Kind != query.Date || kind == "range" && (f.Kind == query.Date || f.Kind == query.Keyword && !f.Raw) {
		return query.Illegal("Field [%s] of type [%s] is not supported for aggregation [%s]", f.Name, f.Kind, kind)
	}
	if b.keyed, err = query.Boolean(where, m, "keyed", false); err != nil {
		return err
	}
	format, err := query.Text(where, m, "format", "")
	if err != nil {
		return err
	}
	if format != "" && kind == "range" {
		return query.Unsupported("[%s] with a format of numbers", where)
	}
	zoneName, err := query.Text(where, m, "time_zone", "")
	if err != nil {
		return err
	}
	location, err := query.Zone(zoneName)
	if err != nil {
		return err
	}
	d, err := query.NewDates(format, location, c.Now)
	if err != nil {
		return err
	}
	if kind == "range" {
		d = nil
	}
	elements, _ := m["ranges"].([]any)
	if len(elements) == 0 {
		return query.Illegal("No [ranges] specified for the [%s] aggregation", where)
	}
	var ranges []bounded
	for _, e := range elements {
		r := bounded{Bounds: query.Bounds{FromIncluded: true, Format: format, Zone: location, FromNumber: true, ToNumber: true}}
		if err := r.read(where, e, d); err != nil {
			return err
		}
		ranges = append(ranges, r)
	}
	// Buckets come in the order of their limits, whatever the order in the request, as in Elasticsearch.
	slices.SortStableFunc(ranges, func(x, y bounded) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to))
	})
	for _, r := range ranges {
		condition, err := c.Between(f, r.Bounds)
		if err := add(r.name, condition, err); err != nil {
			return err
		}
	}
	b.describeFilter = func(i int, into map[string]any) {
		maps.Copy(into, ranges[i].shown)
		if !b.keyed {
			into["key"] = ranges[i].name
		}
	}
	return nil
}

// bounded is one range of an aggregation.
type bounded struct {
	query.Bounds
	name     string
	from, to float64        // infinite without a limit; a date in milliseconds since 1970
	shown    map[string]any // how an answer has the limits
}

// read reads a range. dates is nil for numbers.
func (b *bounded) read(where string, v any, dates *query.Dates) error {
	m, err := query.Object(where+".ranges", v)
	if err != nil {
		return err
	}
	if err := query.Known(where+".ranges", m, "key", "from", "to"); err != nil {
		return err
	}
	b.from, b.to, b.shown = math.Inf(-1), math.Inf(1), map[string]any{}
	label := [2]string{"*", "*"}
	for i, side := range []string{"from", "to"} {
		if m[side] == nil {
			continue
		}
		s, err := query.Scalar(where+"."+side, m[side])
		if err != nil {
			return err
		}
		x, text, err := limit(where+"."+side, s, dates)
		if err != nil {
			return err
		}
		label[i], b.shown[side] = text, x
		if dates != nil {
			b.shown[side+"_as_string"] = text
		}
		if i == 0 {
			b.From, b.HasFrom, b.from = s, true, x
		} else {
			b.To, b.HasTo, b.to = s, true, x
		}
	}
	b.name, err = query.Text(where, m, "key", label[0]+"-"+label[1])
	return err
}

// limit reads a limit of a range, and returns it with how a bucket's name has it.
func limit(where, s string, dates *query.Dates) (x float64, text string, err error) {
	if dates != nil {
		t, err := dates.Parse(s, false)
		return float64(t.UnixMilli()), dates.Format(t), err
	}
	if x, err = strconv.ParseFloat(s, 64); err != nil || finite(x) == nil {
		return 0, "", query.Illegal("[%s] wants a number, not [%s]", where, s)
	}
	text = strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return x, text, nil
}

// dateHistogram makes buckets of time. The time zone counts: its rules become sums and cases of
// the statement, which is much faster than to let the database convert each instant.
func (c *compiler) dateHistogram(where string, v any, children []*aggregation) (*buckets, error) {
	m, err := query.Object(where, v)
	if err != nil {
		return nil, err
	}
	if err := query.Known(where, m, "field", "fixed_interval", "calendar_interval", "time_zone", "offset", "format", "min_doc_count", "missing", "keyed", "order", "extended_bounds", "hard_bounds"); err != nil {
		return nil, err
	}
	f, err := c.fieldOf(where, m)
	if err != nil {
		return nil, err
	}
	if f.Kind != query.Date {
		return nil, query.Illegal("Field [%s] of type [%s] is not supported for aggregation [date_histogram]", f.Name, f.Kind)
	}
	zoneName, err := query.Text(where, m, "time_zone", "")
	if err != nil {
		return nil, err
	}
	location, err := query.Zone(zoneName)
	if err != nil {
		return nil, err
	}
	format, err := query.Text(where, m, "format", "")
	if err != nil {
		return nil, err
	}
	d, err := query.NewDates(format, location, c.Now)
	if err != nil {
		return nil, err
	}
	step, err := newInterval(where, m, location)
	if err != nil {
		return nil, err
	}
	input := f.Expr
	if missing, given := m["missing"]; given {
		if input, err = c.substitute(f, input, where, missing, true); err != nil {
			return nil, err
		}
	}
	b := &buckets{typed: "date_histogram", keyType: "BIGINT", key: step.key(input)}
	b.describe = func(key any, r map[string]any) {
		t := step.instant(key.(int64))
		r["key"], r["key_as_string"] = t.UnixMilli(), d.Format(t)
	}
	b.next = func(key any) any { return step.next(key.(int64)) }
	return b, c.histogramOptions(b, where, m, children, func(v any) (any, error) {
		s, err := query.Scalar(where, v)
		if err != nil {
			return nil, err
		}
		t, err := d.Parse(s, false)
		if err != nil {
			return nil, err
		}
		return step.of(t), nil
	})
}

// node is an aggregation with buckets, and the ones that it is in, from the outside to the inside.
type node struct {
	path []*buckets
	self *aggregation
}

// run makes the buckets of all aggregations below a root bucket. from is what comes behind SELECT's
// list: tables and condition.
func (root *aggregation) run(v *store.Snapshot, from query.SQL) (*bucket, error) {
	e := &evaluation{v: v, from: from}
	top := newBucket(nil, 0)
	index := map[string]*bucket{"": top}
	return top, e.level(node{self: root}, index)
}

// evaluation is the run of one request's aggregations.
type evaluation struct {
	v     *store.Snapshot
	from  query.SQL
	total int // buckets so far
}

func tooMany() error {
	return query.Fault(400, "too_many_buckets_exception", "Trying to create too many buckets. Must be less than or equal to: ["+strconv.Itoa(maxBuckets)+"]")
}

// level makes the buckets of one aggregation in all buckets of the one above, which index has by
// their keys, and then those of its children.
func (e *evaluation) level(n node, above map[string]*bucket) error {
	found := above
	if n.self.buckets != nil {
		found = make(map[string]*bucket)
	}
	if err := e.query(n, above, found); err != nil {
		return err
	}
	for _, child := range n.self.children {
		if child.buckets == nil {
			continue
		}
		path := n.path
		if n.self.buckets != nil {
			path = append(slices.Clone(n.path), n.self.buckets)
		}
		if len(found) == 0 {
			continue
		}
		if err := e.level(node{path: path, self: child}, found); err != nil {
			return err
		}
	}
	return nil
}

// query runs the statement of one aggregation: a group for each list of keys from the outermost
// bucket to its own, with the metrics directly below it.
func (e *evaluation) query(n node, above, found map[string]*bucket) error {
	own := n.self.buckets
	path := n.path
	if own != nil {
		path = append(slices.Clone(path), own)
	}
	statement, outputs := e.statement(n, path, above)
	rows, err := e.v.Query(statement.Text, statement.Args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	width := len(path) + 2 + outputs
	values := make([]any, width)
	pointers := make([]any, width)
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		count, total := values[len(path)].(int64), values[len(path)+1].(int64)
		var b *bucket
		if own == nil {
			b = above[""]
			b.count = count
		} else {
			if e.total++; e.total > maxBuckets {
				return tooMany()
			}
			parent, ok := above[keyPath(values[:len(path)-1])]
			if !ok {
				continue
			}
			b = newBucket(slices.Clone(values[:len(path)]), count)
			found[keyPath(values[:len(path)])] = b
			g := parent.below[n.self.name]
			if g == nil {
				g = &group{total: total}
				parent.below[n.self.name] = g
			}
			g.list = append(g.list, b)
		}
		at := len(path) + 2
		for _, child := range n.self.children {
			if child.metric != nil {
				b.outputs[child.name] = slices.Clone(values[at : at+len(child.metric.outputs)])
				at += len(child.metric.outputs)
			}
		}
	}
	return rows.Err()
}

// keyPath makes one text of the keys of a bucket and of those that it is in.
func keyPath(keys []any) string {
	var b strings.Builder
	for _, k := range keys {
		s := fmt.Sprint(k)
		fmt.Fprintf(&b, "%d:%s", len(s), s)
	}
	return b.String()
}

// statement returns the statement of a level, and how many columns its metrics have. Its columns
// are the keys, the number of jobs, the number of jobs of all buckets beside it, and the outputs.
func (e *evaluation) statement(n node, path []*buckets, above map[string]*bucket) (statement query.SQL, outputs int) {
	// The innermost part has each job's keys and the inputs of metrics.
	var columns []query.SQL
	var keys, inputs, aggregates []string
	for i, b := range path {
		keys = append(keys, fmt.Sprintf("k%d", i))
		columns = append(columns, query.Expression("%s AS "+keys[i], b.key))
	}
	for _, child := range n.self.children {
		if child.metric == nil {
			continue
		}
		input := fmt.Sprintf("m%d", len(inputs))
		columns = append(columns, query.Expression("%s AS "+input, child.metric.input))
		inputs = append(inputs, input)
		for _, column := range child.metric.columns(input) {
			aggregates = append(aggregates, fmt.Sprintf("%s AS o%d", column, len(aggregates)))
		}
	}
	if len(columns) == 0 {
		columns = []query.SQL{{Text: "1 AS one"}}
	}
	inner := query.Expression("SELECT %s %s", query.Join(columns, ", "), e.from)
	for i, b := range path {
		if b.several {
			inner = query.Expression("SELECT * REPLACE (unnest("+keys[i]+") AS "+keys[i]+") FROM (%s)", inner)
		}
	}
	where := []query.SQL{}
	for _, k := range keys {
		where = append(where, query.SQL{Text: k + " IS NOT NULL"})
	}
	if restriction, ok := restrict(n.path, keys, above); ok {
		where = append(where, restriction)
	}
	all := append(slices.Clone(keys), "count(*) AS c")
	all = append(all, aggregates...)
	grouped := query.Expression("SELECT "+strings.Join(all, ", ")+" FROM (%s) WHERE %s", inner, query.And(where))
	own := n.self.buckets
	if len(keys) == 0 {
		grouped = query.Expression("SELECT c, c AS total, * EXCLUDE (c) FROM (%s)", grouped)
		return grouped, len(aggregates)
	}
	grouped.Text += " GROUP BY " + strings.Join(keys, ", ")
	partition := ""
	if len(keys) > 1 {
		partition = "PARTITION BY " + strings.Join(keys[:len(keys)-1], ", ")
	}
	order := own.ordering(n.self.children, keys[len(keys)-1])
	selected := append(slices.Clone(keys), "c", "(sum(c) OVER ("+partition+"))::BIGINT AS total")
	for i := range aggregates {
		selected = append(selected, fmt.Sprintf("o%d", i))
	}
	if own.size > 0 {
		grouped.Text += fmt.Sprintf(" HAVING count(*) >= %d", own.minCount)
		text := fmt.Sprintf("SELECT %s, row_number() OVER (%s ORDER BY %s) AS place FROM (%%s)", strings.Join(selected, ", "), partition, order)
		grouped = query.Expression(text, grouped)
		text = fmt.Sprintf("SELECT * EXCLUDE (place) FROM (%%s) WHERE place <= %d ORDER BY place LIMIT %d", own.size, maxBuckets+1)
		return query.Expression(text, grouped), len(aggregates)
	}
	text := fmt.Sprintf("SELECT %s FROM (%%s) ORDER BY %s LIMIT %d", strings.Join(selected, ", "), order, maxBuckets+1)
	return query.Expression(text, grouped), len(aggregates)
}

// restrict limits a level to the buckets that the level above has kept.
func restrict(path []*buckets, keys []string, above map[string]*bucket) (query.SQL, bool) {
	chosen := false
	for _, b := range path {
		chosen = chosen || b.size > 0
	}
	if !chosen {
		return query.SQL{}, false
	}
	var tuples []query.SQL
	for _, b := range above {
		parts := make([]query.SQL, len(path))
		for i, key := range b.keys {
			parts[i] = query.Expression("%s::"+path[i].keyType, query.Value(key))
		}
		tuples = append(tuples, query.Expression("(%s)", query.Join(parts, ", ")))
	}
	return query.Expression("("+strings.Join(keys[:len(path)], ", ")+") IN (%s)", query.Join(tuples, ", ")), true
}

// ordering returns the order of a level's buckets. key is the name of its own key.
func (b *buckets) ordering(children []*aggregation, key string) string {
	var list []string
	for _, o := range b.order {
		column := key
		switch {
		case o.count:
			column = "c"
		case !o.key:
			column = fmt.Sprintf("o%d", outputIndex(children, o))
		}
		if o.descending {
			column += " DESC"
		}
		list = append(list, column+" NULLS LAST")
	}
	if len(list) == 0 {
		list = []string{key}
	}
	return strings.Join(list, ", ")
}

// outputIndex returns which of the columns of all metrics an order means.
func outputIndex(children []*aggregation, o order) (index int) {
	for _, child := range children {
		switch {
		case child.metric == nil:
		case child.name == o.child:
			return index + child.metric.orders[o.output]
		default:
			index += len(child.metric.outputs)
		}
	}
	return index
}

// results are the answers of aggregations.
type results struct {
	typed bool // with their types before their names
	total int  // buckets so far
}

// below makes the results of what is below a bucket, which is nil for a bucket without jobs.
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

// one makes the result of one bucket.
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

// group makes the result of an aggregation with buckets.
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
	rows, byName := make([]any, 0, len(list)), map[string]any{}
	shown := int64(0)
	for _, b := range list {
		result, err := r.one(a, b)
		if err != nil {
			return nil, err
		}
		own.describe(b.key(), result)
		shown += b.count
		rows = append(rows, result)
		if own.keyed {
			name, ok := result["key_as_string"]
			if !ok {
				name = fmt.Sprint(result["key"])
			}
			byName[name.(string)] = result
		}
	}
	switch {
	case own.size > 0:
		return map[string]any{"doc_count_error_upper_bound": 0, "sum_other_doc_count": g.total - shown, "buckets": rows}, nil
	case own.keyed:
		return map[string]any{"buckets": byName}, nil
	}
	return map[string]any{"buckets": rows}, nil
}

// fixed makes the result of an aggregation whose buckets are always there.
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

// complete adds the buckets of a histogram that have no jobs, leaves out those with too few, and
// sorts them.
func (b *buckets) complete(children []*aggregation, list []*bucket) ([]*bucket, error) {
	slices.SortFunc(list, func(x, y *bucket) int { return compareKeys(x.key(), y.key()) })
	var all []*bucket
	if b.minCount == 0 {
		least, most := b.least, b.most
		if n := len(list); n > 0 {
			if first := list[0].key(); least == nil || compareKeys(first, least) < 0 {
				least = first
			}
			if last := list[n-1].key(); most == nil || compareKeys(last, most) > 0 {
				most = last
			}
		}
		if least != nil && most != nil {
			rest := list
			for key := least; compareKeys(key, most) <= 0; {
				if len(rest) > 0 && compareKeys(rest[0].key(), key) <= 0 {
					key = rest[0].key()
					all = append(all, rest[0])
					rest = rest[1:]
				} else {
					all = append(all, b.empty(children, key))
				}
				if len(all) > maxBuckets {
					return nil, tooMany()
				}
				following := b.next(key)
				if compareKeys(following, key) <= 0 {
					break // the numbers are so large that one more is no other number
				}
				key = following
			}
			all = append(all, rest...)
		}
	} else {
		for _, x := range list {
			if x.count >= b.minCount {
				all = append(all, x)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *bucket) int {
		for _, o := range b.order {
			var c int
			switch {
			case o.count:
				c = cmp.Compare(x.count, y.count)
			case o.key:
				c = compareKeys(x.key(), y.key())
			default:
				c = o.compareOutputs(children, x, y)
			}
			if o.descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return all, nil
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

// compareOutputs compares two buckets by a metric. A bucket without a value comes last.
func (o order) compareOutputs(children []*aggregation, x, y *bucket) int {
	i := slices.IndexFunc(children, func(a *aggregation) bool { return a.name == o.child })
	at := children[i].metric.orders[o.output]
	number := func(b *bucket) float64 {
		switch n := b.outputs[o.child][at].(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
		if o.descending {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}
	return cmp.Compare(number(x), number(y))
}

// compareKeys compares two keys of a histogram.
func compareKeys(x, y any) int {
	if a, ok := x.(int64); ok {
		return cmp.Compare(a, y.(int64))
	}
	return cmp.Compare(x.(float64), y.(float64))
}
