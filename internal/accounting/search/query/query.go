package query

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
	MaxTerms   = 65536 // values of a query of terms, as in Elasticsearch
	maxPattern = 1000  // characters of a wildcard
)

// Compiler makes conditions of queries.
type Compiler struct {
	Now     time.Time
	depth   int
	clauses int
	Raw     bool // a field without a column was used
}

// Always and Never are the conditions of all jobs and of none.
var (
	Always = SQL{Text: "true"}
	Never  = SQL{Text: "false"}
)

// Field looks a field up, and notes whether the documents are needed.
func (c *Compiler) Field(name string) (*Field, error) {
	f, err := lookup(name)
	if err == nil && f.Raw {
		c.Raw = true
	}
	return f, err
}

// count counts a clause.
func (c *Compiler) count() error {
	if c.clauses++; c.clauses > maxClauses {
		return Fault(400, "too_many_nested_clauses", "Query contains too many clauses; maxClauseCount is set to "+strconv.Itoa(maxClauses))
	}
	return nil
}

// Query makes the condition of a query of the query DSL.
func (c *Compiler) Query(v any) (SQL, error) {
	if c.depth++; c.depth > maxDepth {
		return SQL{}, Illegal("The nested depth of the query exceeds the maximum nested depth for queries set to %d", maxDepth)
	}
	defer func() { c.depth-- }()
	if err := c.count(); err != nil {
		return SQL{}, err
	}
	name, body, err := Only("query", v)
	if err != nil {
		return SQL{}, err
	}
	switch name {
	case "match_all":
		return Always, nil
	case "match_none":
		return Never, nil
	case "bool":
		return c.bool(body)
	case "constant_score":
		m, err := Object(name, body)
		if err != nil {
			return SQL{}, err
		}
		if err := Known(name, m, "filter", "boost"); err != nil {
			return SQL{}, err
		}
		return c.Query(m["filter"])
	case "dis_max":
		m, err := Object(name, body)
		if err != nil {
			return SQL{}, err
		}
		if err := Known(name, m, "queries", "tie_breaker", "boost"); err != nil {
			return SQL{}, err
		}
		parts, err := c.all(m["queries"])
		if err != nil || len(parts) == 0 {
			return Never, err
		}
		return Or(parts), nil
	case "exists":
		m, err := Object(name, body)
		if err != nil {
			return SQL{}, err
		}
		if err := Known(name, m, "field", "boost"); err != nil {
			return SQL{}, err
		}
		n, err := Text(name, m, "field", "")
		if err != nil {
			return SQL{}, err
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
	return SQL{}, Unsupported("the query [%s]", name)
}

// all compiles a query or an array of them.
func (c *Compiler) all(v any) (parts []SQL, err error) {
	if v == nil {
		return nil, nil
	}
	for _, q := range List(v) {
		p, err := c.Query(q)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// And is true where all parts are.
func And(parts []SQL) SQL {
	if len(parts) == 0 {
		return Always
	}
	return Expression("(%s)", Join(parts, " AND "))
}

// Or is true where one of the parts is.
func Or(parts []SQL) SQL {
	if len(parts) == 0 {
		return Never
	}
	return Expression("(%s)", Join(parts, " OR "))
}

// Not is true where a condition is false or unknown: a job without the field is no match.
func Not(p SQL) SQL { return Expression("(%s IS NOT TRUE)", Expression("(%s)", p)) }

func (c *Compiler) bool(v any) (SQL, error) {
	m, err := Object("bool", v)
	if err != nil {
		return SQL{}, err
	}
	if err := Known("bool", m, "must", "filter", "should", "must_not", "minimum_should_match", "boost", "adjust_pure_negative"); err != nil {
		return SQL{}, err
	}
	if err := Neutral("bool", m, "adjust_pure_negative", true); err != nil {
		return SQL{}, err
	}
	var parts []SQL
	for _, name := range []string{"must", "filter"} {
		more, err := c.all(m[name])
		if err != nil {
			return SQL{}, err
		}
		parts = append(parts, more...)
	}
	should, err := c.all(m["should"])
	if err != nil {
		return SQL{}, err
	}
	least := 0
	if len(should) > 0 && len(parts) == 0 {
		least = 1
	}
	if v := m["minimum_should_match"]; v != nil {
		n, err := minimumShouldMatch(v, len(should))
		if err != nil {
			return SQL{}, err
		}
		// Elasticsearch sets nothing for 0, as for "50%" of one clause, so that Lucene still wants one clause
		// of those that have no other beside them. Without must, filter and should there is nothing to count.
		if n > 0 && len(parts)+len(should) > 0 {
			least = n
		}
	}
	switch {
	case least > len(should):
		parts = append(parts, Never)
	case least == 1:
		parts = append(parts, Or(should))
	case least > 1:
		ones := make([]SQL, len(should))
		for i, s := range should {
			ones[i] = Expression("CASE WHEN %s THEN 1 ELSE 0 END", s)
		}
		parts = append(parts, Expression("((%s) >= %s)", Join(ones, " + "), Value(int64(least))))
	}
	excluded, err := c.all(m["must_not"])
	if err != nil {
		return SQL{}, err
	}
	for _, p := range excluded {
		parts = append(parts, Not(p))
	}
	return And(parts), nil
}

// minimumShouldMatch reads 2, -1, "75%" or "-25%", of n clauses.
func minimumShouldMatch(v any, n int) (int, error) {
	s, err := Scalar("minimum_should_match", v)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	number, percent := strings.CutSuffix(s, "%")
	k, err := strconv.Atoi(number)
	if err != nil || k < -maxClauses || k > maxClauses {
		return 0, Unsupported("minimum_should_match [%s]", s)
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

func (c *Compiler) exists(name string) (SQL, error) {
	fields, err := Matching(name)
	if err != nil {
		return SQL{}, err
	}
	var parts []SQL
	for _, f := range fields {
		c.Raw = c.Raw || f.Raw
		parts = append(parts, Expression("%s IS NOT NULL", f.Expr))
	}
	return Or(parts), nil
}

func (c *Compiler) ids(v any) (SQL, error) {
	m, err := Object("ids", v)
	if err != nil {
		return SQL{}, err
	}
	if err := Known("ids", m, "values", "boost"); err != nil {
		return SQL{}, err
	}
	return c.identity(List(m["values"]))
}

// identity is true for the jobs with one of some _ids.
func (c *Compiler) identity(ids []any) (SQL, error) {
	var parts []SQL
	if len(ids) > MaxTerms {
		return SQL{}, Illegal("%d ids (want at most %d)", len(ids), MaxTerms)
	}
	for _, v := range ids {
		id, err := Scalar("ids", v)
		if err != nil {
			return SQL{}, err
		}
		if cluster, job, run, ok := store.ParseID(id); ok {
			parts = append(parts, Expression("(%s, %s, %s)", Value(cluster), Value(job), Value(run)))
		}
	}
	if len(parts) == 0 {
		return Never, nil
	}
	return Expression("((j.cluster, j.jobid, j.run) IN (%s))", Join(parts, ", ")), nil
}

func (c *Compiler) terms(v any) (SQL, error) {
	m, err := Object("terms", v)
	if err != nil {
		return SQL{}, err
	}
	var name string
	var values []any
	for n, v := range m {
		if n == "boost" {
			continue
		}
		a, ok := v.([]any)
		if !ok {
			return SQL{}, Unsupported("[terms] of [%s] with %s", n, KindOf(v))
		}
		if name != "" {
			return SQL{}, Parsing("[terms] query does not support multiple fields")
		}
		name, values = n, a
	}
	if name == "" {
		return SQL{}, Parsing("[terms] query requires a field name")
	}
	if len(values) > MaxTerms {
		return SQL{}, Illegal("The number of terms [%d] used in the Terms Query request has exceeded the allowed maximum of [%d]", len(values), MaxTerms)
	}
	f, err := c.Field(name)
	if err != nil {
		return SQL{}, err
	}
	if f.Name == "_id" {
		return c.identity(values)
	}
	if f.Kind == Keyword {
		var parts []SQL
		for _, v := range values {
			s, err := Scalar("terms."+name, v)
			if err != nil {
				return SQL{}, err
			}
			parts = append(parts, Value(s))
		}
		if len(parts) == 0 {
			return Never, nil
		}
		return Expression("(%s IN (%s))", f.Expr, Join(parts, ", ")), nil
	}
	if len(values) > maxClauses {
		return SQL{}, Illegal("[terms] of the field [%s] of type [%s]: %d values (want at most %d)", name, f.Kind, len(values), maxClauses)
	}
	var parts []SQL
	for _, v := range values {
		p, err := c.term(f, v, false)
		if err != nil {
			return SQL{}, err
		}
		parts = append(parts, p)
	}
	return Or(parts), nil
}

// term is true for the jobs whose field has a value.
func (c *Compiler) term(f *Field, v any, anyCase bool) (SQL, error) {
	s, err := Scalar(f.Name, v)
	if err != nil {
		return SQL{}, err
	}
	switch {
	case f.Name == "_id":
		return c.identity([]any{s})
	case f.Kind == Keyword && anyCase:
		return Expression("(lower(%s) = lower(%s::VARCHAR))", f.Expr, Value(s)), nil
	case f.Kind == Keyword:
		return Expression("(%s = %s)", f.Expr, Value(s)), nil
	case f.Kind == Date:
		return c.Between(f, Bounds{From: s, To: s, FromIncluded: true, toIncluded: true, HasFrom: true, HasTo: true})
	}
	n, err := Numeric(f, s)
	if err != nil {
		return SQL{}, err
	}
	return Expression("(%s = %s)", f.Expr, n), nil
}

// Numeric reads a number as an argument. Integers keep all their digits.
func Numeric(f *Field, s string) (SQL, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Expression("%s::BIGINT", Value(n)), nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) || strings.ContainsAny(s, "xX_pP") {
		return SQL{}, Fault(400, "query_shard_exception", "failed to create query: For input string: \""+s+"\" (the field ["+f.Name+"] is of type ["+string(f.Kind)+"])")
	}
	return Expression("%s::DOUBLE", Value(n)), nil
}

// Bounds are those of a range.
type Bounds struct {
	From, To                 string
	HasFrom, HasTo           bool
	FromIncluded, toIncluded bool
	FromNumber, ToNumber     bool // they came as numbers, which matters for fields without a column
	Format                   string
	Zone                     *time.Location
}

// Between is true for the jobs whose field is within bounds.
func (c *Compiler) Between(f *Field, b Bounds) (SQL, error) {
	var parts []SQL
	compare := func(expr SQL, included bool, operator string, v SQL) {
		if included {
			operator += "="
		}
		parts = append(parts, Expression("%s "+operator+" %s", expr, v))
	}
	switch f.Kind {
	case Date:
		zone := b.Zone
		if zone == nil {
			zone = time.UTC
		}
		d, err := NewDates(b.Format, zone, c.Now)
		if err != nil {
			return SQL{}, err
		}
		// Dates count milliseconds. "At most t" is "before t + 1 ms".
		if b.HasFrom {
			t, err := d.Parse(b.From, !b.FromIncluded)
			if err != nil {
				return SQL{}, err
			}
			if !b.FromIncluded {
				t = t.Add(time.Millisecond)
			}
			parts = append(parts, Expression("%s >= make_timestamp(%s::BIGINT)", f.Expr, Value(t.UnixMicro())))
		}
		if b.HasTo {
			t, err := d.Parse(b.To, b.toIncluded)
			if err != nil {
				return SQL{}, err
			}
			if b.toIncluded {
				t = t.Add(time.Millisecond)
			}
			parts = append(parts, Expression("%s < make_timestamp(%s::BIGINT)", f.Expr, Value(t.UnixMicro())))
		}
	case Keyword:
		side := func(s string, included, isNumber bool, operator string) error {
			if !f.Raw || !isNumber {
				compare(f.Expr, included, operator, Expression("%s::VARCHAR", Value(s)))
				return nil
			}
			n, err := Numeric(f, s)
			if err != nil {
				return err
			}
			compare(Expression("TRY_CAST(%s AS DOUBLE)", f.Expr), included, operator, n)
			return nil
		}
		if b.HasFrom {
			if err := side(b.From, b.FromIncluded, b.FromNumber, ">"); err != nil {
				return SQL{}, err
			}
		}
		if b.HasTo {
			if err := side(b.To, b.toIncluded, b.ToNumber, "<"); err != nil {
				return SQL{}, err
			}
		}
	default:
		if b.HasFrom {
			n, err := Numeric(f, b.From)
			if err != nil {
				return SQL{}, err
			}
			compare(f.Expr, b.FromIncluded, ">", n)
		}
		if b.HasTo {
			n, err := Numeric(f, b.To)
			if err != nil {
				return SQL{}, err
			}
			compare(f.Expr, b.toIncluded, "<", n)
		}
	}
	if len(parts) == 0 {
		return Expression("(%s IS NOT NULL)", f.Expr), nil
	}
	return And(parts), nil
}

func (c *Compiler) rangeQuery(v any) (SQL, error) {
	name, body, err := Only("range", v)
	if err != nil {
		return SQL{}, err
	}
	m, err := Object("range."+name, body)
	if err != nil {
		return SQL{}, err
	}
	if err := Known("range", m, "gt", "gte", "lt", "lte", "format", "time_zone", "boost", "relation"); err != nil {
		return SQL{}, err
	}
	f, err := c.Field(name)
	if err != nil {
		return SQL{}, err
	}
	var b Bounds
	for side, v := range m {
		if v == nil || side[0] != 'g' && side[0] != 'l' {
			continue
		}
		s, err := Scalar("range."+name+"."+side, v)
		if err != nil {
			return SQL{}, err
		}
		_, isNumber := v.(json.Number)
		if side[0] == 'g' {
			if b.HasFrom {
				return SQL{}, Illegal("[range] of [%s] has both gt and gte", name)
			}
			b.From, b.HasFrom, b.FromIncluded, b.FromNumber = s, true, side == "gte", isNumber
		} else {
			if b.HasTo {
				return SQL{}, Illegal("[range] of [%s] has both lt and lte", name)
			}
			b.To, b.HasTo, b.toIncluded, b.ToNumber = s, true, side == "lte", isNumber
		}
	}
	if b.Format, err = Text("range", m, "format", ""); err != nil {
		return SQL{}, err
	}
	zoneName, err := Text("range", m, "time_zone", "")
	if err != nil {
		return SQL{}, err
	}
	if b.Zone, err = Zone(zoneName); err != nil {
		return SQL{}, err
	}
	return c.Between(f, b)
}

// leaf compiles a query with one field: {"FIELD": VALUE} or {"FIELD": {"value": VALUE, ...}}. A
// string is one term, so that matches are matches of the whole value.
func (c *Compiler) leaf(kind string, v any) (SQL, error) {
	name, body, err := Only(kind, v)
	if err != nil {
		return SQL{}, err
	}
	anyCase := false
	if m, ok := body.(map[string]any); ok {
		member := "query"
		allowed := []string{"query", "operator", "minimum_should_match", "lenient", "zero_terms_query", "auto_generate_synonyms_phrase_query", "boost", "slop", "max_expansions"}
		switch kind {
		case "term", "prefix":
			member, allowed = "value", []string{"value", "case_insensitive", "boost", "rewrite"}
		case "wildcard":
			member, allowed = "value", []string{"value", "wildcard", "case_insensitive", "boost", "rewrite"}
			if m["value"] == nil {
				member = "wildcard"
			}
		}
		if err := Known(kind, m, allowed...); err != nil {
			return SQL{}, err
		}
		if anyCase, err = Boolean(kind, m, "case_insensitive", false); err != nil {
			return SQL{}, err
		}
		body = m[member]
	}
	f, err := c.Field(name)
	if err != nil {
		return SQL{}, err
	}
	switch kind {
	case "term", "match", "match_phrase":
		return c.term(f, body, anyCase)
	}
	s, err := Scalar(kind+"."+name, body)
	if err != nil {
		return SQL{}, err
	}
	if kind == "wildcard" {
		return c.wildcard(f, s, anyCase)
	}
	return c.prefix(f, s, anyCase)
}

func (c *Compiler) prefix(f *Field, s string, anyCase bool) (SQL, error) {
	if err := c.patternField(f, "prefix"); err != nil {
		return SQL{}, err
	}
	if anyCase {
		return Expression("starts_with(lower(%s), lower(%s::VARCHAR))", f.Expr, Value(s)), nil
	}
	return Expression("starts_with(%s, %s::VARCHAR)", f.Expr, Value(s)), nil
}

func (c *Compiler) patternField(f *Field, kind string) error {
	if f.Kind != Keyword {
		return Fault(400, "query_shard_exception", "Can only use "+kind+" queries on keyword, text and wildcard fields - not on ["+f.Name+"] which is of type ["+string(f.Kind)+"]")
	}
	return nil
}

// wildcard matches a pattern with * for any text and ? for one character. A backslash before a
// character makes it stand for itself.
func (c *Compiler) wildcard(f *Field, pattern string, anyCase bool) (SQL, error) {
	if err := c.patternField(f, "wildcard"); err != nil {
		return SQL{}, err
	}
	if len(pattern) > maxPattern {
		return SQL{}, Illegal("a wildcard of %d characters (want at most %d)", len(pattern), maxPattern)
	}
	expr, like := f.Expr, Expression("%s::VARCHAR", Value(LikePattern(pattern)))
	if anyCase {
		expr, like = Expression("lower(%s)", expr), Expression("lower(%s)", like)
	}
	return Expression(`(%s LIKE %s ESCAPE '\')`, expr, like), nil
}

// LikePattern translates a wildcard to a pattern of LIKE with a backslash as the escape character.
func LikePattern(pattern string) string {
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

func (c *Compiler) multiMatch(v any) (SQL, error) {
	m, err := Object("multi_match", v)
	if err != nil {
		return SQL{}, err
	}
	if err := Known("multi_match", m, "query", "fields", "type", "operator", "lenient", "boost", "tie_breaker", "minimum_should_match"); err != nil {
		return SQL{}, err
	}
	kind, err := Text("multi_match", m, "type", "best_fields")
	if err != nil {
		return SQL{}, err
	}
	switch kind {
	case "best_fields", "most_fields", "phrase", "cross_fields":
	default:
		return SQL{}, Unsupported("[multi_match] of type [%s]", kind)
	}
	s, err := Scalar("multi_match.query", m["query"])
	if err != nil {
		return SQL{}, err
	}
	fields, err := c.fieldList("multi_match", m["fields"])
	if err != nil {
		return SQL{}, err
	}
	return c.anyField(fields, func(f *Field) (SQL, error) { return c.term(f, s, false) })
}

// fieldList reads names and patterns of fields, which may have boosts: "user*^2". Without any,
// it is all fields with columns.
func (c *Compiler) fieldList(where string, v any) (fields []*Field, err error) {
	if v == nil {
		v = "*"
	}
	if len(List(v)) > maxClauses {
		return nil, Illegal("[%s]: %d fields (want at most %d)", where, len(List(v)), maxClauses)
	}
	for _, e := range List(v) {
		name, err := Scalar(where+".fields", e)
		if err != nil {
			return nil, err
		}
		name, _, _ = strings.Cut(name, "^")
		more, err := Matching(name)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			c.Raw = c.Raw || f.Raw
		}
		fields = append(fields, more...)
	}
	return fields, nil
}

// anyField is true where one of several fields matches. A field whose type cannot have the value is
// left out, unless it is the only one.
func (c *Compiler) anyField(fields []*Field, condition func(f *Field) (SQL, error)) (SQL, error) {
	if len(fields) == 1 {
		return condition(fields[0])
	}
	var parts []SQL
	for _, f := range fields {
		if err := c.count(); err != nil {
			return SQL{}, err
		}
		if p, err := condition(f); err == nil {
			parts = append(parts, p)
		}
	}
	return Or(parts), nil
}
