package search

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
)

// Limits of one request.
const (
	maxDepth   = 30    // of queries within queries, as in Elasticsearch
	maxClauses = 1024  // queries of one request
	maxTerms   = 65536 // values of a query of terms, as in Elasticsearch
	maxPattern = 1000  // characters of a wildcard
)

// compiler makes conditions of queries.
type compiler struct {
	now     time.Time
	depth   int
	clauses int
	raw     bool // a field without a column was used
}

var (
	always = sql{text: "true"}
	never  = sql{text: "false"}
)

// field looks a field up, and notes whether the documents are needed.
func (c *compiler) field(name string) (*field, error) {
	f, err := lookup(name)
	if err == nil && f.raw {
		c.raw = true
	}
	return f, err
}

// count counts a clause.
func (c *compiler) count() error {
	if c.clauses++; c.clauses > maxClauses {
		return &apiError{400, "too_many_nested_clauses", "Query contains too many clauses; maxClauseCount is set to " + strconv.Itoa(maxClauses)}
	}
	return nil
}

// query makes the condition of a query of the query DSL.
func (c *compiler) query(v any) (sql, error) {
	if c.depth++; c.depth > maxDepth {
		return sql{}, illegal("The nested depth of the query exceeds the maximum nested depth for queries set to %d", maxDepth)
	}
	defer func() { c.depth-- }()
	if err := c.count(); err != nil {
		return sql{}, err
	}
	name, body, err := only("query", v)
	if err != nil {
		return sql{}, err
	}
	switch name {
	case "match_all":
		return always, nil
	case "match_none":
		return never, nil
	case "bool":
		return c.bool(body)
	case "constant_score":
		m, err := object(name, body)
		if err != nil {
			return sql{}, err
		}
		if err := known(name, m, "filter", "boost", "_name"); err != nil {
			return sql{}, err
		}
		return c.query(m["filter"])
	case "dis_max":
		m, err := object(name, body)
		if err != nil {
			return sql{}, err
		}
		if err := known(name, m, "queries", "tie_breaker", "boost", "_name"); err != nil {
			return sql{}, err
		}
		parts, err := c.all(m["queries"])
		if err != nil || len(parts) == 0 {
			return never, err
		}
		return or(parts), nil
	case "exists":
		m, err := object(name, body)
		if err != nil {
			return sql{}, err
		}
		if err := known(name, m, "field", "boost", "_name"); err != nil {
			return sql{}, err
		}
		n, err := text(name, m, "field", "")
		if err != nil {
			return sql{}, err
		}
		return c.exists(n)
	case "ids":
		return c.ids(body)
	case "terms":
		return c.terms(body)
	case "range":
		return c.rangeQuery(body)
	case "query_string":
		return c.queryString(body)
	case "multi_match":
		return c.multiMatch(body)
	case "term", "match", "match_phrase", "match_phrase_prefix", "prefix", "wildcard":
		return c.leaf(name, body)
	}
	return sql{}, unsupported("the query [%s]", name)
}

// all compiles a query or an array of them.
func (c *compiler) all(v any) (parts []sql, err error) {
	if v == nil {
		return nil, nil
	}
	for _, q := range list(v) {
		p, err := c.query(q)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func and(parts []sql) sql {
	if len(parts) == 0 {
		return always
	}
	return expression("(%s)", join(parts, " AND "))
}

func or(parts []sql) sql {
	if len(parts) == 0 {
		return never
	}
	return expression("(%s)", join(parts, " OR "))
}

// not is true where a condition is false or unknown: a job without the field is no match.
func not(p sql) sql { return expression("(%s IS NOT TRUE)", expression("(%s)", p)) }

func (c *compiler) bool(v any) (sql, error) {
	m, err := object("bool", v)
	if err != nil {
		return sql{}, err
	}
	if err := known("bool", m, "must", "filter", "should", "must_not", "minimum_should_match", "boost", "_name", "adjust_pure_negative"); err != nil {
		return sql{}, err
	}
	var parts []sql
	for _, name := range []string{"must", "filter"} {
		more, err := c.all(m[name])
		if err != nil {
			return sql{}, err
		}
		parts = append(parts, more...)
	}
	should, err := c.all(m["should"])
	if err != nil {
		return sql{}, err
	}
	least := 0
	if len(should) > 0 && len(parts) == 0 {
		least = 1
	}
	if v, given := m["minimum_should_match"]; given {
		if least, err = minimumShouldMatch(v, len(should)); err != nil {
			return sql{}, err
		}
	}
	switch {
	case least > len(should):
		parts = append(parts, never)
	case least == 1:
		parts = append(parts, or(should))
	case least > 1:
		ones := make([]sql, len(should))
		for i, s := range should {
			ones[i] = expression("CASE WHEN %s THEN 1 ELSE 0 END", s)
		}
		parts = append(parts, expression("((%s) >= %s)", join(ones, " + "), value(int64(least))))
	}
	excluded, err := c.all(m["must_not"])
	if err != nil {
		return sql{}, err
	}
	for _, p := range excluded {
		parts = append(parts, not(p))
	}
	return and(parts), nil
}

// minimumShouldMatch reads 2, -1, "75%" or "-25%", of n clauses.
func minimumShouldMatch(v any, n int) (int, error) {
	s, err := scalar("minimum_should_match", v)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	number, percent := strings.CutSuffix(s, "%")
	k, err := strconv.Atoi(number)
	if err != nil || k < -maxClauses || k > maxClauses {
		return 0, unsupported("minimum_should_match [%s]", s)
	}
	if percent {
		part := k * n / 100 // towards 0, as in Lucene
		if k < 0 {
			return max(n+part, 0), nil
		}
		return part, nil
	}
	if k < 0 {
		return max(n+k, 0), nil
	}
	return k, nil
}

func (c *compiler) exists(name string) (sql, error) {
	fields, err := matching(name)
	if err != nil {
		return sql{}, err
	}
	var parts []sql
	for _, f := range fields {
		c.raw = c.raw || f.raw
		parts = append(parts, expression("%s IS NOT NULL", f.expr))
	}
	return or(parts), nil
}

func (c *compiler) ids(v any) (sql, error) {
	m, err := object("ids", v)
	if err != nil {
		return sql{}, err
	}
	if err := known("ids", m, "values", "boost", "_name"); err != nil {
		return sql{}, err
	}
	return c.identity(list(m["values"]))
}

// identity is true for the jobs with one of some _ids.
func (c *compiler) identity(ids []any) (sql, error) {
	var parts []sql
	if len(ids) > maxTerms {
		return sql{}, illegal("%d ids (want at most %d)", len(ids), maxTerms)
	}
	for _, v := range ids {
		id, err := scalar("ids", v)
		if err != nil {
			return sql{}, err
		}
		if cluster, job, run, ok := store.ParseID(id); ok {
			parts = append(parts, expression("(%s, %s, %s)", value(cluster), value(job), value(run)))
		}
	}
	if len(parts) == 0 {
		return never, nil
	}
	return expression("((j.cluster, j.jobid, j.run) IN (%s))", join(parts, ", ")), nil
}

func (c *compiler) terms(v any) (sql, error) {
	m, err := object("terms", v)
	if err != nil {
		return sql{}, err
	}
	var name string
	var values []any
	for n, v := range m {
		if n == "boost" || n == "_name" {
			continue
		}
		a, ok := v.([]any)
		if !ok {
			return sql{}, unsupported("[terms] of [%s] with %s", n, kindOf(v))
		}
		if name != "" {
			return sql{}, parsing("[terms] query does not support multiple fields")
		}
		name, values = n, a
	}
	if name == "" {
		return sql{}, parsing("[terms] query requires a field name")
	}
	if len(values) > maxTerms {
		return sql{}, illegal("The number of terms [%d] used in the Terms Query request has exceeded the allowed maximum of [%d]", len(values), maxTerms)
	}
	f, err := c.field(name)
	if err != nil {
		return sql{}, err
	}
	if f.name == "_id" {
		return c.identity(values)
	}
	if f.kind == keyword {
		var parts []sql
		for _, v := range values {
			s, err := scalar("terms."+name, v)
			if err != nil {
				return sql{}, err
			}
			parts = append(parts, value(s))
		}
		if len(parts) == 0 {
			return never, nil
		}
		return expression("(%s IN (%s))", f.expr, join(parts, ", ")), nil
	}
	if len(values) > maxClauses {
		return sql{}, illegal("[terms] of the field [%s] of type [%s]: %d values (want at most %d)", name, f.kind, len(values), maxClauses)
	}
	var parts []sql
	for _, v := range values {
		p, err := c.term(f, v, false)
		if err != nil {
			return sql{}, err
		}
		parts = append(parts, p)
	}
	return or(parts), nil
}

// term is true for the jobs whose field has a value.
func (c *compiler) term(f *field, v any, anyCase bool) (sql, error) {
	s, err := scalar(f.name, v)
	if err != nil {
		return sql{}, err
	}
	switch {
	case f.name == "_id":
		return c.identity([]any{s})
	case f.kind == keyword && anyCase:
		return expression("(lower(%s) = lower(%s::VARCHAR))", f.expr, value(s)), nil
	case f.kind == keyword:
		return expression("(%s = %s)", f.expr, value(s)), nil
	case f.kind == date:
		return c.between(f, bounds{from: s, to: s, fromIncluded: true, toIncluded: true, hasFrom: true, hasTo: true})
	}
	n, err := numeric(f, s)
	if err != nil {
		return sql{}, err
	}
	return expression("(%s = %s)", f.expr, n), nil
}

// numeric reads a number as an argument. Integers keep all their digits.
func numeric(f *field, s string) (sql, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return expression("%s::BIGINT", value(n)), nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) || strings.ContainsAny(s, "xX_pP") {
		return sql{}, &apiError{400, "query_shard_exception", "failed to create query: For input string: \"" + s + "\" (the field [" + f.name + "] is of type [" + string(f.kind) + "])"}
	}
	return expression("%s::DOUBLE", value(n)), nil
}

// bounds are those of a range.
type bounds struct {
	from, to                 string
	hasFrom, hasTo           bool
	fromIncluded, toIncluded bool
	fromNumber, toNumber     bool // they came as numbers, which matters for fields without a column
	format                   string
	zone                     *time.Location
}

// between is true for the jobs whose field is within bounds.
func (c *compiler) between(f *field, b bounds) (sql, error) {
	var parts []sql
	compare := func(expr sql, included bool, operator string, v sql) {
		if included {
			operator += "="
		}
		parts = append(parts, expression("%s "+operator+" %s", expr, v))
	}
	switch f.kind {
	case date:
		zone := b.zone
		if zone == nil {
			zone = time.UTC
		}
		d, err := newDates(b.format, zone, c.now)
		if err != nil {
			return sql{}, err
		}
		// Dates count milliseconds. "At most t" is "before t + 1 ms".
		if b.hasFrom {
			t, err := d.parse(b.from, !b.fromIncluded)
			if err != nil {
				return sql{}, err
			}
			if !b.fromIncluded {
				t = t.Add(time.Millisecond)
			}
			parts = append(parts, expression("%s >= make_timestamp(%s::BIGINT)", f.expr, value(t.UnixMicro())))
		}
		if b.hasTo {
			t, err := d.parse(b.to, b.toIncluded)
			if err != nil {
				return sql{}, err
			}
			if b.toIncluded {
				t = t.Add(time.Millisecond)
			}
			parts = append(parts, expression("%s < make_timestamp(%s::BIGINT)", f.expr, value(t.UnixMicro())))
		}
	case keyword:
		side := func(s string, included, isNumber bool, operator string) error {
			if !f.raw || !isNumber {
				compare(f.expr, included, operator, expression("%s::VARCHAR", value(s)))
				return nil
			}
			n, err := numeric(f, s)
			if err != nil {
				return err
			}
			compare(expression("TRY_CAST(%s AS DOUBLE)", f.expr), included, operator, n)
			return nil
		}
		if b.hasFrom {
			if err := side(b.from, b.fromIncluded, b.fromNumber, ">"); err != nil {
				return sql{}, err
			}
		}
		if b.hasTo {
			if err := side(b.to, b.toIncluded, b.toNumber, "<"); err != nil {
				return sql{}, err
			}
		}
	default:
		if b.hasFrom {
			n, err := numeric(f, b.from)
			if err != nil {
				return sql{}, err
			}
			compare(f.expr, b.fromIncluded, ">", n)
		}
		if b.hasTo {
			n, err := numeric(f, b.to)
			if err != nil {
				return sql{}, err
			}
			compare(f.expr, b.toIncluded, "<", n)
		}
	}
	if len(parts) == 0 {
		return expression("(%s IS NOT NULL)", f.expr), nil
	}
	return and(parts), nil
}

func (c *compiler) rangeQuery(v any) (sql, error) {
	name, body, err := only("range", v)
	if err != nil {
		return sql{}, err
	}
	m, err := object("range."+name, body)
	if err != nil {
		return sql{}, err
	}
	if err := known("range", m, "gt", "gte", "lt", "lte", "format", "time_zone", "boost", "relation", "_name"); err != nil {
		return sql{}, err
	}
	f, err := c.field(name)
	if err != nil {
		return sql{}, err
	}
	var b bounds
	for side, v := range m {
		if v == nil || side[0] != 'g' && side[0] != 'l' {
			continue
		}
		s, err := scalar("range."+name+"."+side, v)
		if err != nil {
			return sql{}, err
		}
		_, isNumber := v.(json.Number)
		if side[0] == 'g' {
			if b.hasFrom {
				return sql{}, illegal("[range] of [%s] has both gt and gte", name)
			}
			b.from, b.hasFrom, b.fromIncluded, b.fromNumber = s, true, side == "gte", isNumber
		} else {
			if b.hasTo {
				return sql{}, illegal("[range] of [%s] has both lt and lte", name)
			}
			b.to, b.hasTo, b.toIncluded, b.toNumber = s, true, side == "lte", isNumber
		}
	}
	if b.format, err = text("range", m, "format", ""); err != nil {
		return sql{}, err
	}
	zoneName, err := text("range", m, "time_zone", "")
	if err != nil {
		return sql{}, err
	}
	if b.zone, err = zone(zoneName); err != nil {
		return sql{}, err
	}
	return c.between(f, b)
}

// leaf compiles a query with one field: {"FIELD": VALUE} or {"FIELD": {"value": VALUE, ...}}. A
// string is one term, so that matches are matches of the whole value.
func (c *compiler) leaf(kind string, v any) (sql, error) {
	name, body, err := only(kind, v)
	if err != nil {
		return sql{}, err
	}
	anyCase := false
	if m, ok := body.(map[string]any); ok {
		member := "query"
		allowed := []string{"query", "operator", "minimum_should_match", "lenient", "zero_terms_query", "auto_generate_synonyms_phrase_query", "boost", "_name", "slop", "max_expansions"}
		switch kind {
		case "term", "prefix":
			member, allowed = "value", []string{"value", "case_insensitive", "boost", "_name", "rewrite"}
		case "wildcard":
			member, allowed = "value", []string{"value", "wildcard", "case_insensitive", "boost", "_name", "rewrite"}
			if m["value"] == nil {
				member = "wildcard"
			}
		}
		if err := known(kind, m, allowed...); err != nil {
			return sql{}, err
		}
		if anyCase, err = boolean(kind, m, "case_insensitive", false); err != nil {
			return sql{}, err
		}
		body = m[member]
	}
	f, err := c.field(name)
	if err != nil {
		return sql{}, err
	}
	switch kind {
	case "term", "match", "match_phrase":
		return c.term(f, body, anyCase)
	}
	s, err := scalar(kind+"."+name, body)
	if err != nil {
		return sql{}, err
	}
	if kind == "wildcard" {
		return c.wildcard(f, s, anyCase)
	}
	return c.prefix(f, s, anyCase)
}

func (c *compiler) prefix(f *field, s string, anyCase bool) (sql, error) {
	if err := c.patternField(f, "prefix"); err != nil {
		return sql{}, err
	}
	if anyCase {
		return expression("starts_with(lower(%s), lower(%s::VARCHAR))", f.expr, value(s)), nil
	}
	return expression("starts_with(%s, %s::VARCHAR)", f.expr, value(s)), nil
}

func (c *compiler) patternField(f *field, kind string) error {
	if f.kind != keyword {
		return &apiError{400, "query_shard_exception", "Can only use " + kind + " queries on keyword, text and wildcard fields - not on [" + f.name + "] which is of type [" + string(f.kind) + "]"}
	}
	return nil
}

// wildcard matches a pattern with * for any text and ? for one character. A backslash before a
// character makes it stand for itself.
func (c *compiler) wildcard(f *field, pattern string, anyCase bool) (sql, error) {
	if err := c.patternField(f, "wildcard"); err != nil {
		return sql{}, err
	}
	if len(pattern) > maxPattern {
		return sql{}, illegal("a wildcard of %d characters (want at most %d)", len(pattern), maxPattern)
	}
	expr, like := f.expr, expression("%s::VARCHAR", value(likePattern(pattern)))
	if anyCase {
		expr, like = expression("lower(%s)", expr), expression("lower(%s)", like)
	}
	return expression(`(%s LIKE %s ESCAPE '\')`, expr, like), nil
}

// likePattern translates a wildcard to a pattern of LIKE with a backslash as the escape character.
func likePattern(pattern string) string {
	var b strings.Builder
	escaped := false
	for _, r := range pattern {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '*':
			b.WriteByte('%')
		case !escaped && r == '?':
			b.WriteByte('_')
		default:
			if r == '%' || r == '_' || r == '\\' {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		escaped = false
	}
	if escaped {
		b.WriteString(`\\`)
	}
	return b.String()
}

func (c *compiler) multiMatch(v any) (sql, error) {
	m, err := object("multi_match", v)
	if err != nil {
		return sql{}, err
	}
	if err := known("multi_match", m, "query", "fields", "type", "operator", "lenient", "boost", "_name", "tie_breaker", "minimum_should_match"); err != nil {
		return sql{}, err
	}
	kind, err := text("multi_match", m, "type", "best_fields")
	if err != nil {
		return sql{}, err
	}
	switch kind {
	case "best_fields", "most_fields", "phrase", "cross_fields":
	default:
		return sql{}, unsupported("[multi_match] of type [%s]", kind)
	}
	s, err := scalar("multi_match.query", m["query"])
	if err != nil {
		return sql{}, err
	}
	fields, err := c.fieldList("multi_match", m["fields"])
	if err != nil {
		return sql{}, err
	}
	return c.anyField(fields, func(f *field) (sql, error) { return c.term(f, s, false) })
}

// fieldList reads names and patterns of fields, which may have boosts: "user*^2". Without any,
// it is all fields with columns.
func (c *compiler) fieldList(where string, v any) (fields []*field, err error) {
	if v == nil {
		v = "*"
	}
	if len(list(v)) > maxClauses {
		return nil, illegal("[%s]: %d fields (want at most %d)", where, len(list(v)), maxClauses)
	}
	for _, e := range list(v) {
		name, err := scalar(where+".fields", e)
		if err != nil {
			return nil, err
		}
		name, _, _ = strings.Cut(name, "^")
		more, err := matching(name)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			c.raw = c.raw || f.raw
		}
		fields = append(fields, more...)
	}
	return fields, nil
}

// anyField is true where one of several fields matches. A field whose type cannot have the value is
// left out, unless it is the only one.
func (c *compiler) anyField(fields []*field, condition func(f *field) (sql, error)) (sql, error) {
	if len(fields) == 1 {
		return condition(fields[0])
	}
	var parts []sql
	for _, f := range fields {
		if err := c.count(); err != nil {
			return sql{}, err
		}
		if p, err := condition(f); err == nil {
			parts = append(parts, p)
		}
	}
	return or(parts), nil
}
