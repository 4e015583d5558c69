package search

import (
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
)

// metric is an aggregation that computes numbers from a bucket's jobs.
type metric struct {
	typed string // the type's name, for typed_keys
	// input is the SQL for one job. outputs are aggregates of the input; %[1]s is replaced by its
	// name.
	input   query.SQL
	outputs []string
	// orders maps names to outputs. Terms can be sorted by these names.
	orders map[string]output
	// render makes the result from the values of outputs. All values are nil for an empty bucket.
	render func(v []any) map[string]any
}

// output refers to one of a metric's outputs. If the output is a list, element is the index of an
// element, from 1.
type output struct{ index, element int }

// simple maps types to metrics with only one number.
var simple = map[string]string{
	"sum": "sum(%[1]s)", "avg": "avg(%[1]s)", "min": "min(%[1]s)", "max": "max(%[1]s)", "value_count": "count(%[1]s)",
	"cardinality": "count(DISTINCT %[1]s)",
}

// options are the members that a metric of a type allows besides field and missing.
var options = map[string][]string{
	"sum": nil, "avg": nil, "min": nil, "max": nil, "value_count": nil, "stats": nil,
	"cardinality": {"precision_threshold"}, "extended_stats": {"sigma"}, "percentiles": {"percents"},
}

// newMetric returns the metric of a type, and nil if the type is not a metric.
func (c *compiler) newMetric(kind, where string, body any) *metric {
	if kind == "weighted_avg" {
		return c.weightedAverage(where, body)
	}
	more, known := options[kind]
	if !known {
		return nil
	}
	m := c.Read(where, body, append([]string{"field", "missing"}, more...)...)
	if most, costly := map[string]int{"cardinality": maxDifferent, "percentiles": maxPercentiles}[kind]; costly {
		if c.costly[kind]++; c.costly[kind] > most {
			m.Fail(query.Illegal("more than %d aggregations of the type %s", most, kind))
		}
	}
	f := c.fieldOf(m)
	counting := kind == "value_count" || kind == "cardinality"
	input := f.Expr
	if !counting {
		input = c.Number(f)
	}
	made := &metric{typed: kind, input: c.substitute(m, f, input, counting)}
	show := func(map[string]any, string, any) {}
	if f.Kind == query.Date && !counting {
		d := c.Dates("", time.UTC)
		show = func(r map[string]any, name string, v any) {
			if ms, ok := amount(v); ok {
				r[name+"_as_string"] = d.Format(time.UnixMilli(int64(ms)))
			}
		}
	}
	switch kind {
	case "percentiles":
		c.percentiles(made, m, show)
	case "stats", "extended_stats":
		stats(made, kind, m, show)
	default:
		made.outputs, made.orders = []string{simple[kind]}, map[string]output{"": {}, "value": {}}
		made.render = func(v []any) map[string]any {
			r := map[string]any{"value": finite(v[0])}
			if v[0] == nil && (counting || kind == "sum") {
				r["value"] = 0.0
			}
			show(r, "value", v[0])
			return r
		}
	}
	return made
}

// weightedAverage returns the metric for the weighted average of a field over the jobs that have
// the field and its weight.
func (c *compiler) weightedAverage(where string, body any) *metric {
	m := c.Read(where, body, "value", "weight")
	value, weight := c.Read(where+".value", m.Members["value"], "field", "missing"), c.Read(where+".weight",
		m.Members["weight"], "field", "missing")
	return &metric{
		typed: "weighted_avg", input: query.Expression("[%s, %s]", c.number(value), c.number(weight)),
		orders:  map[string]output{"": {}, "value": {}},
		outputs: []string{"sum(%[1]s[1] * %[1]s[2]) / nullif(sum(%[1]s[2]) FILTER (%[1]s[1] IS NOT NULL), 0)"},
		render:  func(v []any) map[string]any { return map[string]any{"value": finite(v[0])} },
	}
}

// substitute replaces NULL, for jobs without the field, by the value of the member "missing", if
// the request has this member. If own is true, the result has the field's own type; otherwise it
// is a number.
func (c *compiler) substitute(m *query.Body, f *query.Field, input query.SQL, own bool) query.SQL {
	if _, given := m.Members["missing"]; !given {
		return input
	}
	s := m.Text("missing", "")
	var value query.SQL
	switch {
	case f.Kind == query.Date:
		t, err := c.Dates("", time.UTC).Parse(s, false)
		m.Fail(err)
		value = query.Expression("make_timestamp(%s::BIGINT)", query.Value(t.UnixMicro()))
		if !own {
			value = query.Expression("%s::DOUBLE", query.Value(float64(t.UnixMilli())))
		}
	case f.Kind == query.Keyword && own:
		value = query.Expression("%s::VARCHAR", query.Value(s))
	default:
		value = c.Numeric(f, s)
	}
	return query.Expression("coalesce(%s, %s)", input, value)
}

// finite returns nil for numbers that JSON cannot express.
func finite(v any) any {
	if n, ok := v.(float64); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
		return nil
	}
	return v
}

// amount returns an output as a number.
func amount(v any) (float64, bool) {
	n, ok := v.(float64)
	return n, ok && finite(n) != nil
}

// statistics are the outputs of extended_stats. The first five are the outputs of stats.
var statistics = []struct{ name, output string }{
	{"count", "count(%[1]s)"}, {"min", "min(%[1]s)"}, {"max", "max(%[1]s)"}, {"avg", "avg(%[1]s)"}, {"sum", "sum(%[1]s)"},
	{"sum_of_squares", "sum(%[1]s * %[1]s)"}, {"variance", "var_pop(%[1]s)"}, {"variance_sampling", "var_samp(%[1]s)"},
}

func stats(s *metric, kind string, m *query.Body, show func(map[string]any, string, any)) {
	list := statistics[:5]
	if kind == "extended_stats" {
		list = statistics
	}
	s.orders = map[string]output{}
	for i, o := range list {
		s.outputs = append(s.outputs, o.output)
		s.orders[o.name] = output{index: i}
	}
	if kind == "extended_stats" {
		// Sorting by variance also sorts by standard deviation.
		for name, of := range map[string]string{
			"variance_population": "variance", "std_deviation": "variance", "std_deviation_population": "variance",
			"std_deviation_sampling": "variance_sampling",
		} {
			s.orders[name] = s.orders[of]
		}
	}
	sigma := m.Number("sigma", 2)
	if sigma < 0 {
		m.Fail(query.Illegal("[%s] sigma wants a number of at least 0", m.Where))
	}
	s.render = func(v []any) map[string]any {
		r := map[string]any{}
		for i, o := range list {
			r[o.name] = finite(v[i])
			if i > 0 && i < 5 {
				show(r, o.name, v[i])
			}
		}
		if v[0] == nil {
			r["count"] = 0
		}
		if v[4] == nil {
			r["sum"] = 0.0
		}
		if kind == "extended_stats" {
			deviations(r, sigma)
		}
		return r
	}
}

// deviations adds to the results what can be computed from the variances.
func deviations(r map[string]any, sigma float64) {
	r["variance_population"] = r["variance"]
	bounds := map[string]any{}
	mean, hasMean := amount(r["avg"])
	for _, name := range []string{"_population", "_sampling", ""} {
		r["std_deviation"+name], bounds["upper"+name], bounds["lower"+name] = nil, nil, nil
		if variance, ok := amount(r["variance"+name]); ok && hasMean {
			deviation := math.Sqrt(variance)
			r["std_deviation"+name] = deviation
			bounds["upper"+name], bounds["lower"+name] = mean+sigma*deviation, mean-sigma*deviation
		}
	}
	r["std_deviation_bounds"] = bounds
}

// percentiles computes exact percentiles, with interpolation between the values of the two nearest jobs.
func (c *compiler) percentiles(p *metric, m *query.Body, show func(map[string]any, string, any)) {
	percents := []float64{1, 5, 25, 50, 75, 95, 99}
	if m.Given("percents") {
		percents = nil
		for _, e := range query.List(m.Members["percents"]) {
			x := m.Float(m.Where+".percents", e) // Grafana sends the numbers as strings
			if x < 0 || x > 100 {
				m.Fail(query.Illegal("[%s] percents wants numbers from 0 to 100", m.Where))
			}
			percents = append(percents, x)
		}
	}
	if c.percentsRead += len(percents); c.percentsRead > maxPercents || len(percents) == 0 {
		m.Fail(query.Illegal("[%s] percents wants at least one number, and at most %d in all aggregations of a request",
			m.Where, maxPercents))
	}
	var fractions []string
	p.typed, p.orders = "tdigest_percentiles", map[string]output{}
	for i, percent := range percents {
		fractions = append(fractions, strconv.FormatFloat(percent/100, 'f', -1, 64)+"::DOUBLE")
		p.orders[decimal(percent)] = output{element: i + 1}
		p.orders[strconv.FormatFloat(percent, 'f', -1, 64)] = output{element: i + 1}
	}
	p.outputs = []string{"quantile_cont(%[1]s, [" + strings.Join(fractions, ", ") + "])"}
	p.render = func(v []any) map[string]any {
		found, _ := v[0].([]any)
		values := map[string]any{}
		for i, percent := range percents {
			values[decimal(percent)] = nil
			if i < len(found) {
				values[decimal(percent)] = finite(found[i])
				show(values, decimal(percent), found[i])
			}
		}
		return map[string]any{"values": values}
	}
}
