package search

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
)

// Limits of the aggregations of one request.
const (
	maxBuckets      = 65536 // maximum in one answer, as in Elasticsearch
	maxAggregations = 200
	maxNesting      = 8 // levels of buckets inside buckets
	maxFilters      = 256
	// maxDifferent bounds the number of cardinality aggregations, and maxPercentiles the number of
	// percentiles aggregations. For each of them, the database keeps the values of all jobs. For
	// percentiles these values, 16 MiB for a million jobs, do not count towards the database's
	// memory limit.
	maxDifferent   = 32
	maxPercentiles = 8
	// maxPercents bounds the number of percents in all percentiles aggregations together. Each
	// percent is a selection that cannot be interrupted: 64 of them take 4 s for a million jobs.
	maxPercents = 64
)

// aggregation is a bucket aggregation with its sub-aggregations, or a metric. The root of a
// request's aggregations is one bucket of all jobs that the query finds.
type aggregation struct {
	name     string
	metric   *metric
	buckets  *buckets
	children []*aggregation // sorted by name
}

// buckets says how jobs are sorted into buckets.
type buckets struct {
	typed string
	// key is the SQL of a job's bucket; NULL if the job is in no bucket. If several is true, key is
	// an array of numbers, and the job is in all buckets with these numbers.
	key      query.SQL
	keyType  string // SQL type of the key
	several  bool
	keyed    bool // the answer is an object of buckets, with the names in fixed
	minCount int64
	order    []order
	size     int64 // for terms: number of buckets; 0 means all
	// fixed are the names of buckets that exist even if they are empty. Their keys are the numbers
	// from 0.
	fixed []string
	// single means that there is only one bucket, which is the result itself.
	single bool
	// next returns the key after the given key. It is used to add empty buckets in gaps.
	next           func(key any) any
	minKey, maxKey any // lowest and highest key that must exist (extended_bounds); nil without bounds
	describe       func(key any, b map[string]any)
	describeFilter func(i int, b map[string]any)
}

// order is one criterion by which buckets are sorted.
type order struct {
	key        bool // sort by the bucket's key
	child      string
	output     output // output of the child's metric
	count      bool
	descending bool
}

// aggregations reads a body's aggregations, at the top or inside of another aggregation.
func (c *compiler) aggregations(v any, depth int) (list []*aggregation) {
	if v == nil {
		return nil
	}
	if depth > maxNesting {
		c.Fail(query.Illegal("aggregations within aggregations: more than %d levels", maxNesting))
		return nil
	}
	m := c.Object("aggs", v)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if c.aggregationsRead++; c.aggregationsRead > maxAggregations {
			c.Fail(query.Illegal("more than %d aggregations", maxAggregations))
		}
		if strings.ContainsAny(name, "[]>") || name == "" {
			c.Fail(query.Parsing("Invalid aggregation name [%s]. Aggregation names cannot contain '[', ']', and '>'", name))
		}
		if c.Err != nil {
			return nil
		}
		list = append(list, c.aggregation(name, m[name], depth))
	}
	return list
}

func (c *compiler) aggregation(name string, v any, depth int) *aggregation {
	m := c.Object(name, v)
	a := &aggregation{name: name}
	kind := ""
	var below any
	for _, member := range slices.Sorted(maps.Keys(m)) {
		switch {
		case member == "aggs" || member == "aggregations":
			below = m[member]
		case kind != "":
			c.Fail(query.Parsing("Found two aggregation type definitions in [%s]: [%s] and [%s]", name, kind, member))
		default:
			kind = member
		}
	}
	if kind == "" {
		c.Fail(query.Parsing("Missing definition for aggregation [%s]", name))
	}
	where := name + "." + kind
	if a.metric = c.newMetric(kind, where, m[kind]); a.metric != nil {
		if below != nil {
			c.Fail(query.Illegal("Aggregator [%s] of type [%s] cannot accept sub-aggregations", name, kind))
		}
		return a
	}
	if a.children = c.aggregations(below, depth+1); c.Err != nil {
		return a
	}
	switch kind {
	case "terms":
		a.buckets = c.termsBuckets(where, m[kind], a.children)
	case "date_histogram":
		a.buckets = c.dateHistogram(where, m[kind])
	case "histogram":
		a.buckets = c.histogram(where, m[kind])
	case "filter", "filters", "missing", "range", "date_range":
		a.buckets = c.filterBuckets(kind, where, m[kind])
	default:
		c.Fail(query.Unsupported("the aggregation [%s] of the type [%s]", name, kind))
	}
	return a
}

// fieldOf returns the field of an aggregation.
func (c *compiler) fieldOf(b *query.Body) *query.Field {
	name := b.Text("field", "")
	if name == "" {
		b.Fail(query.Illegal("Required one of fields [field, script], but none were specified for [%s]", b.Where))
	}
	return c.Field(name)
}

// orders reads the order of terms. NAME, NAME.OUTPUT and NAME[OUTPUT] refer to a metric inside the
// buckets.
func orders(b *query.Body, children []*aggregation) (list []order) {
	if !b.Given("order") {
		return []order{{count: true, descending: true}, {key: true}}
	}
	for _, e := range query.List(b.Members["order"]) {
		name, direction := b.OnlyMember(b.Where+".order", e)
		d := b.Scalar(b.Where+".order", direction)
		o := order{descending: strings.EqualFold(d, "desc"), count: name == "_count", key: name == "_key" || name == "_term"}
		if !o.descending && !strings.EqualFold(d, "asc") {
			b.Fail(query.Parsing("Unknown order direction [%s]", d))
		}
		if !o.count && !o.key {
			child, name := name, ""
			if at := strings.IndexAny(child, ".["); at >= 0 {
				child, name = child[:at], strings.TrimSuffix(child[at+1:], "]")
			}
			i := slices.IndexFunc(children, func(a *aggregation) bool { return a.name == child })
			if i < 0 || children[i].metric == nil {
				b.Fail(query.Illegal("Invalid aggregation order path: "+
					"the aggregation [%s] either does not exist, or is no metric", child))
				return nil
			}
			var ok bool
			if o.output, ok = children[i].metric.orders[name]; !ok {
				b.Fail(query.Illegal("Invalid aggregation order path: the aggregation [%s] has no value [%s]", child, name))
			}
			o.child = child
		}
		list = append(list, o)
	}
	return append(list, order{key: true}) // buckets with equal values are sorted by key
}

func (c *compiler) termsBuckets(where string, v any, children []*aggregation) *buckets {
	m := c.Read(where, v, "field", "size", "order", "missing", "min_doc_count", "shard_size")
	f := c.fieldOf(m)
	b := &buckets{
		size: m.Whole("size", 10, 1, maxBuckets), minCount: m.Whole("min_doc_count", 1, 1, math.MaxInt64),
		order: orders(m, children),
		key:   c.substitute(m, f, f.Expr, true), describe: func(key any, r map[string]any) { r["key"] = key },
	}
	switch f.Kind {
	case query.Keyword:
		b.typed, b.keyType = "sterms", "VARCHAR"
	case query.Double:
		b.typed, b.keyType = "dterms", "DOUBLE"
	default:
		b.typed, b.keyType = "lterms", "BIGINT"
	}
	if f.Kind == query.Date {
		b.key = query.Expression("epoch_ms(%s)", b.key)
		d := c.Dates("", time.UTC)
		b.describe = func(key any, r map[string]any) {
			r["key"], r["key_as_string"] = key, d.Format(time.UnixMilli(key.(int64)))
		}
	}
	return b
}

func (c *compiler) histogram(where string, v any) *buckets {
	m := c.Read(where, v, "field", "interval", "min_doc_count", "missing", "extended_bounds")
	interval := m.Number("interval", 0)
	if interval <= 0 {
		m.Fail(query.Illegal("[interval] must be >0 for histogram aggregation [%s]", where))
	}
	// The SQL key is the number of the interval, so that rounding errors do not add up.
	b := &buckets{
		typed: "histogram", keyType: "DOUBLE", key: query.Expression("floor(%s / %s::DOUBLE)", c.number(m),
			query.Value(interval)),
		describe: func(key any, r map[string]any) { r["key"] = finite(key.(float64) * interval) },
		next:     func(key any) any { return key.(float64) + 1 },
	}
	b.bounded(m, func(v any) any { return math.Floor(m.Float(where, v) / interval) })
	return b
}

// number returns the field of an aggregation of numbers. Jobs without the field have the value of
// the request's member "missing".
func (c *compiler) number(m *query.Body) query.SQL {
	f := c.fieldOf(m)
	return c.substitute(m, f, c.Number(f), false)
}

// bounded reads which empty buckets a histogram must have.
func (b *buckets) bounded(m *query.Body, key func(v any) any) {
	b.minCount = m.Whole("min_doc_count", 0, 0, math.MaxInt64)
	if !m.Given("extended_bounds") {
		return
	}
	limits := m.Read(m.Where+".extended_bounds", m.Members["extended_bounds"], "min", "max")
	for side, to := range map[string]*any{"min": &b.minKey, "max": &b.maxKey} {
		if limits.Given(side) && m.Err == nil {
			*to = key(limits.Members[side])
		}
	}
}

// dateHistogram makes buckets of time in the request's time zone. The zone's rules become sums and
// cases in the SQL, which is much faster than a conversion of each instant by the database.
func (c *compiler) dateHistogram(where string, v any) *buckets {
	m := c.Read(where, v, "field", "fixed_interval", "calendar_interval", "time_zone", "offset", "format",
		"min_doc_count", "missing", "extended_bounds")
	f, location := c.fieldOf(m), m.Zone("time_zone")
	if f.Kind != query.Date {
		m.Fail(query.Illegal("Field [%s] of type [%s] is not supported for aggregation [date_histogram]", f.Name, f.Kind))
	}
	d, step := c.Dates(m.Text("format", ""), location), newInterval(m, location, c.Now)
	if c.Err != nil {
		return nil
	}
	b := &buckets{typed: "date_histogram", keyType: "BIGINT", key: step.key(c.substitute(m, f, f.Expr, true))}
	b.describe = func(key any, r map[string]any) {
		t := step.instant(key.(int64))
		r["key"], r["key_as_string"] = t.UnixMilli(), d.Format(t)
	}
	b.next = func(key any) any { return step.next(key.(int64)) }
	b.bounded(m, func(v any) any {
		t, err := d.Parse(m.Scalar(where, v), false)
		m.Fail(err)
		return step.of(t)
	})
	return b
}

// filterBuckets makes the buckets of an aggregation in which each bucket has a condition.
func (c *compiler) filterBuckets(kind, where string, v any) *buckets {
	b := &buckets{typed: kind, keyType: "BIGINT", describeFilter: func(int, map[string]any) {}}
	var cases []query.SQL
	add := func(name string, condition query.SQL) {
		b.fixed = append(b.fixed, name)
		cases = append(cases, query.Expression("CASE WHEN %s THEN "+strconv.Itoa(len(cases))+"::BIGINT END", condition))
	}
	switch kind {
	case "filter":
		b.single = true
		add("", c.Query(v))
	case "missing":
		b.single = true
		add("", query.Expression("(%s IS NULL)", c.fieldOf(c.Read(where, v, "field")).Expr))
	case "filters":
		switch filters := c.Read(where, v, "filters").Members["filters"].(type) {
		case map[string]any:
			b.keyed = true
			for _, name := range slices.Sorted(maps.Keys(filters)) {
				add(name, c.Query(filters[name]))
			}
		case []any:
			for _, f := range filters {
				add("", c.Query(f))
			}
		}
	default:
		c.ranges(b, kind, where, v, add)
	}
	switch {
	case len(cases) == 0 || len(cases) > maxFilters:
		c.Fail(query.Illegal("[%s] has %d buckets (want 1 to %d)", where, len(cases), maxFilters))
	case len(cases) == 1:
		b.key = cases[0]
	default:
		b.several, b.key = true, query.Expression("[%s]", query.Join(cases, ", "))
	}
	return b
}

// ranges reads the aggregations range and date_range.
func (c *compiler) ranges(b *buckets, kind, where string, v any, add func(name string, condition query.SQL)) {
	m := c.Read(where, v, "field", "ranges", "format")
	f, format := c.fieldOf(m), m.Text("format", "")
	var d *query.Dates
	if kind == "date_range" {
		d = c.Dates(format, time.UTC)
	} else if format != "" {
		m.Fail(query.Unsupported("[%s] with a format of numbers", where))
	}
	if (d != nil) != (f.Kind == query.Date) || f.Kind == query.Keyword && !f.Raw {
		m.Fail(query.Illegal("Field [%s] of type [%s] is not supported for aggregation [%s]", f.Name, f.Kind, kind))
	}
	elements, _ := m.Members["ranges"].([]any)
	var ranges []bounded
	for _, e := range elements {
		r := bounded{Bounds: query.Bounds{FromIncluded: true, Format: format, FromNumber: true, ToNumber: true}}
		r.read(c.Read(where+".ranges", e, "key", "from", "to"), d)
		ranges = append(ranges, r)
	}
	// Like Elasticsearch, sort the buckets by their limits, and not in the order of the request.
	slices.SortStableFunc(ranges, func(x, y bounded) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to))
	})
	for _, r := range ranges {
		add(r.name, c.Between(f, r.Bounds))
	}
	b.describeFilter = func(i int, into map[string]any) {
		maps.Copy(into, ranges[i].shown)
		into["key"] = ranges[i].name
	}
}

// bounded is one range of an aggregation.
type bounded struct {
	query.Bounds
	name     string
	from, to float64        // infinite if there is no limit; dates are in milliseconds since 1970
	shown    map[string]any // the limits as shown in an answer
}

// read reads a range. The parameter dates is nil for numbers.
func (b *bounded) read(m *query.Body, dates *query.Dates) {
	b.from, b.to, b.shown = math.Inf(-1), math.Inf(1), map[string]any{}
	label := [2]string{"*", "*"}
	for i, side := range []string{"from", "to"} {
		if !m.Given(side) {
			continue
		}
		s := m.Text(side, "")
		var x float64
		if dates == nil {
			x = m.Number(side, 0)
			label[i] = decimal(x)
		} else {
			t, err := dates.Parse(s, false)
			m.Fail(err)
			x, label[i] = float64(t.UnixMilli()), dates.Format(t)
			b.shown[side+"_as_string"] = label[i]
		}
		b.shown[side] = x
		if i == 0 {
			b.From, b.HasFrom, b.from = s, true, x
		} else {
			b.To, b.HasTo, b.to = s, true, x
		}
	}
	b.name = m.Text("key", label[0]+"-"+label[1])
}

// decimal formats a number with a decimal point, as in the keys of answers.
func decimal(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
