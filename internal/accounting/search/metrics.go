package search

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
)

// metric is an aggregation that makes numbers of a bucket's jobs.
type metric struct {
	typed string // its type, as in typed_keys
	// input is an expression for each job. outputs are aggregates of it; %s stands for its name.
	input   query.SQL
	outputs []string
	// orders are the names by which terms can be sorted, with the output that they stand for.
	orders map[string]int
	// render makes the result of the outputs' values. They are nil for a bucket without jobs.
	render func(v []any) map[string]any
}

// newMetric returns the metric of a type, and nil for a type that is none.
func (c *compiler) newMetric(kind, where string, body any) (*metric, error) {
	switch kind {
	case "sum", "avg", "min", "max", "value_count", "cardinality", "stats", "extended_stats", "percentiles":
	case "weighted_avg":
		return c.weightedAverage(where, body)
	default:
		return nil, nil
	}
	m, err := query.Object(where, body)
	if err != nil {
		return nil, err
	}
	allowed := []string{"field", "missing", "format", "value_type"}
	switch kind {
	case "cardinality":
		allowed = append(allowed, "precision_threshold", "execution_hint")
	case "extended_stats":
		allowed = append(allowed, "sigma")
	case "percentiles":
		allowed = append(allowed, "percents", "keyed", "tdigest", "hdr", "compression")
	}
	if err := query.Known(where, m, allowed...); err != nil {
		return nil, err
	}
	name, err := query.Text(where, m, "field", "")
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, query.Illegal("Required one of fields [field, script], but none were specified for [%s]", where)
	}
	f, err := c.Field(name)
	if err != nil {
		return nil, err
	}
	input := f.Expr
	if kind != "value_count" && kind != "cardinality" {
		if input, err = f.Number(); err != nil {
			return nil, err
		}
	}
	if missing, given := m["missing"]; given {
		if input, err = c.substitute(f, input, where, missing, kind == "value_count" || kind == "cardinality"); err != nil {
			return nil, err
		}
	}
	show, err := c.showing(f, where, m)
	if err != nil {
		return nil, err
	}
	one := func(output string, empty any) *metric {
		return &metric{typed: kind, input: input, outputs: []string{output}, orders: map[string]int{"": 0, "value": 0}, render: func(v []any) map[string]any {
			if v[0] == nil {
				return map[string]any{"value": empty}
			}
			r := map[string]any{"value": finite(v[0])}
			if kind != "value_count" && kind != "cardinality" {
				show(r, "value", v[0])
			}
			return r
		}}
	}
	switch kind {
	case "sum":
		return one("sum(%s)", 0.0), nil
	case "avg":
		return one("avg(%s)", nil), nil
	case "min":
		return one("min(%s)", nil), nil
	case "max":
		return one("max(%s)", nil), nil
	case "value_count":
		return one("count(%s)", 0), nil
	case "cardinality":
		return one("count(DISTINCT %s)", 0), nil
	case "percentiles":
		return percentiles(where, m, input, show)
	}
	return stats(kind, where, m, input, show)
}

// weightedAverage is the average of a field over the jobs that have it and the field of the weights.
func (c *compiler) weightedAverage(where string, body any) (*metric, error) {
	m, err := query.Object(where, body)
	if err != nil {
		return nil, err
	}
	if err := query.Known(where, m, "value", "weight", "value_type"); err != nil {
		return nil, err
	}
	var parts []query.SQL
	for _, side := range []string{"value", "weight"} {
		at := where + "." + side
		own, err := query.Object(at, m[side])
		if err != nil {
			return nil, err
		}
		if err := query.Known(at, own, "field", "missing"); err != nil {
			return nil, err
		}
		f, err := c.fieldOf(at, own)
		if err != nil {
			return nil, err
		}
		number, err := f.Number()
		if err != nil {
			return nil, err
		}
		if missing, given := own["missing"]; given {
			if number, err = c.substitute(f, number, at, missing, false); err != nil {
				return nil, err
			}
		}
		parts = append(parts, number)
	}
	return &metric{
		typed: "weighted_avg", input: query.Expression("[%s, %s]", parts...), orders: map[string]int{"": 0, "value": 0},
		outputs: []string{"sum(%[1]s[1] * %[1]s[2]) / nullif(sum(%[1]s[2]) FILTER (%[1]s[1] IS NOT NULL), 0)"},
		render:  func(v []any) map[string]any { return map[string]any{"value": finite(v[0])} },
	}, nil
}

// substitute replaces the NULL of jobs without the field by a value of the request.
func (c *compiler) substitute(f *query.Field, input query.SQL, where string, v any, own bool) (query.SQL, error) {
	s, err := query.Scalar(where+".missing", v)
	if err != nil {
		return query.SQL{}, err
	}
	switch {
	case f.Kind == query.Date:
		d, err := query.NewDates("", time.UTC, c.Now)
		if err != nil {
			return query.SQL{}, err
		}
		t, err := d.Parse(s, false)
		if err != nil {
			return query.SQL{}, err
		}
		if own {
			return query.Expression("coalesce(%s, make_timestamp(%s::BIGINT))", input, query.Value(t.UnixMicro())), nil
		}
		return query.Expression("coalesce(%s, %s::DOUBLE)", input, query.Value(float64(t.UnixMilli()))), nil
	case f.Kind == query.Keyword && own:
		return query.Expression("coalesce(%s, %s::VARCHAR)", input, query.Value(s)), nil
	}
	n, err := query.Numeric(f, s)
	if err != nil {
		return query.SQL{}, err
	}
	return query.Expression("coalesce(%s, %s)", input, n), nil
}

// showing returns a function that adds the text of a number in milliseconds, if the field is a date.
func (c *compiler) showing(f *query.Field, where string, m map[string]any) (func(r map[string]any, name string, v any), error) {
	format, err := query.Text(where, m, "format", "")
	if err != nil {
		return nil, err
	}
	if f.Kind != query.Date {
		if format != "" {
			return nil, query.Unsupported("[%s] with a format of numbers", where)
		}
		return func(map[string]any, string, any) {}, nil
	}
	d, err := query.NewDates(format, time.UTC, c.Now)
	if err != nil {
		return nil, err
	}
	return func(r map[string]any, name string, v any) {
		if ms, ok := v.(float64); ok && finite(ms) != nil {
			r[name+"_as_string"] = d.Format(time.UnixMilli(int64(ms)))
		}
	}, nil
}

// finite returns nil for a number that JSON does not have.
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

func stats(kind, where string, m map[string]any, input query.SQL, show func(map[string]any, string, any)) (*metric, error) {
	s := &metric{
		typed: kind, input: input, outputs: []string{"count(%s)", "min(%s)", "max(%s)", "avg(%s)", "sum(%s)"},
		orders: map[string]int{"count": 0, "min": 1, "max": 2, "avg": 3, "sum": 4},
	}
	plain := func(v []any) map[string]any {
		r := map[string]any{"count": v[0], "min": finite(v[1]), "max": finite(v[2]), "avg": finite(v[3]), "sum": finite(v[4])}
		for i, name := range []string{"min", "max", "avg", "sum"} {
			show(r, name, v[i+1])
		}
		if v[0] == nil {
			r["count"] = 0
		}
		if v[4] == nil {
			r["sum"] = 0.0
		}
		return r
	}
	s.render = plain
	if kind == "stats" {
		return s, nil
	}
	sigma := 2.0
	if v, given := m["sigma"]; given {
		n, ok := v.(json.Number)
		f, err := n.Float64()
		if !ok || err != nil || f < 0 {
			return nil, query.Illegal("[%s] sigma wants a number of at least 0", where)
		}
		sigma = f
	}
	s.outputs = append(s.outputs, "sum(%[1]s * %[1]s)", "var_pop(%s)", "var_samp(%s)")
	for i, name := range []string{"sum_of_squares", "variance", "variance_sampling"} {
		s.orders[name] = 5 + i
	}
	s.orders["variance_population"] = 6
	s.render = func(v []any) map[string]any {
		r := plain(v)
		r["sum_of_squares"] = finite(v[5])
		r["variance"], r["variance_population"], r["variance_sampling"] = finite(v[6]), finite(v[6]), finite(v[7])
		bounds := map[string]any{"upper": nil, "lower": nil, "upper_population": nil, "lower_population": nil, "upper_sampling": nil, "lower_sampling": nil}
		mean, hasMean := amount(v[3])
		for i, name := range []string{"population", "sampling"} {
			r["std_deviation_"+name] = nil
			if variance, ok := amount(v[6+i]); ok && hasMean {
				deviation := math.Sqrt(variance)
				r["std_deviation_"+name] = deviation
				bounds["upper_"+name], bounds["lower_"+name] = mean+sigma*deviation, mean-sigma*deviation
			}
		}
		r["std_deviation"] = r["std_deviation_population"]
		bounds["upper"], bounds["lower"] = bounds["upper_population"], bounds["lower_population"]
		r["std_deviation_bounds"] = bounds
		return r
	}
	return s, nil
}

// maxPercents is how many percentiles one aggregation may have.
const maxPercents = 100

// percentiles are exact, and interpolated between the two nearest jobs.
func percentiles(where string, m map[string]any, input query.SQL, show func(map[string]any, string, any)) (*metric, error) {
	percents := []float64{1, 5, 25, 50, 75, 95, 99}
	if v, given := m["percents"]; given {
		percents = nil
		for _, e := range query.List(v) {
			n, ok := e.(json.Number)
			p, err := n.Float64()
			if !ok || err != nil || !(p >= 0 && p <= 100) {
				return nil, query.Illegal("[%s] percents wants numbers from 0 to 100", where)
			}
			percents = append(percents, p)
		}
		if len(percents) == 0 || len(percents) > maxPercents {
			return nil, query.Illegal("[%s] percents wants 1 to %d numbers", where, maxPercents)
		}
	}
	keyed, err := query.Boolean(where, m, "keyed", true)
	if err != nil {
		return nil, err
	}
	var fractions []string
	p := &metric{typed: "tdigest_percentiles", input: input, orders: map[string]int{}}
	for _, percent := range percents {
		fractions = append(fractions, strconv.FormatFloat(percent/100, 'f', -1, 64)+"::DOUBLE")
	}
	p.outputs = []string{"quantile_cont(%s, [" + strings.Join(fractions, ", ") + "])"}
	p.render = func(v []any) map[string]any {
		found, _ := v[0].([]any)
		byName, rows := map[string]any{}, []any{}
		for i, percent := range percents {
			var x any
			if i < len(found) {
				x = finite(found[i])
			}
			name := strconv.FormatFloat(percent, 'f', -1, 64)
			if !strings.Contains(name, ".") {
				name += ".0"
			}
			row := map[string]any{"key": percent, "value": x}
			show(row, "value", x)
			rows = append(rows, row)
			byName[name] = x
			if s, ok := row["value_as_string"]; ok {
				byName[name+"_as_string"] = s
			}
		}
		if keyed {
			return map[string]any{"values": byName}
		}
		return map[string]any{"values": rows}
	}
	return p, nil
}

// columns are the outputs' expressions over an input's name.
func (m *metric) columns(input string) []string {
	list := make([]string, len(m.outputs))
	for i, o := range m.outputs {
		list[i] = fmt.Sprintf(o, input)
	}
	return list
}
