package query

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
)

// Limits of one request.
const (
	maxDepth   = 30    // levels of nested queries, as in Elasticsearch
	maxClauses = 1024  // queries in one request
	MaxTerms   = 65536 // values in a terms query, as in Elasticsearch
	// maxPattern, maxOnes and maxAutomata bound wildcards. A wildcard becomes an automaton of RE2, unless it only asks
	// for a prefix, a suffix or a substring. The number of the automaton's states doubles with each question mark after
	// an asterisk: 12 question marks take 8 ns per byte of text, and 16 take 360 ns.
	maxPattern  = 1000 // bytes in a wildcard
	maxOnes     = 10   // question marks after an asterisk
	maxAutomata = 128  // automata in one request
)

// Compiler compiles queries to conditions. After an error, Err is set, and results are meaningless.
type Compiler struct {
	Reader
	Now      time.Time
	depth    int
	clauses  int
	automata int
	members  members // members of documents that the queries use
}

// Always is true for all jobs, and Never is false for all jobs.
var (
	Always = SQL{Text: "true"}
	Never  = SQL{Text: "false"}
)

// count counts a clause, and reports whether the limit still allows it.
func (c *Compiler) count() bool {
	if c.clauses++; c.clauses > maxClauses {
		c.Fail(Fault(400, "too_many_nested_clauses",
			"Query contains too many clauses; maxClauseCount is set to "+strconv.Itoa(maxClauses)))
	}
	return c.clauses <= maxClauses
}

// Query compiles a query of the query DSL to a condition.
func (c *Compiler) Query(v any) SQL {
	if c.depth++; c.depth > maxDepth {
		c.Fail(Illegal("The nested depth of the query exceeds the maximum nested depth for queries set to %d", maxDepth))
	}
	defer func() { c.depth-- }()
	if !c.count() || c.Err != nil {
		return Never
	}
	name, body := c.OnlyMember("query", v)
	switch name {
	case "match_all":
		return Always
	case "match_none":
		return Never
	case "bool":
		return c.bool(body)
	case "exists":
		return c.exists(c.Read(name, body, "field", "boost").Text("field", ""))
	case "ids":
		return c.identity(c.Read(name, body, "values", "boost").Members["values"])
	case "terms":
		return c.terms(body)
	case "range":
		return c.rangeQuery(body)
	case "query_string":
		return c.queryString(body)
	case "term", "match", "match_phrase", "prefix", "wildcard":
		return c.leaf(name, body)
	}
	c.Fail(Unsupported("the query [%s]", name))
	return Never
}

// all compiles a query or an array of queries.
func (c *Compiler) all(v any) (parts []SQL) {
	if v == nil {
		return nil
	}
	for _, q := range List(v) {
		parts = append(parts, c.Query(q))
	}
	return parts
}

// And returns a condition that is true if all parts are true.
func And(parts []SQL) SQL {
	if len(parts) == 0 {
		return Always
	}
	return Expression("(%s)", Join(parts, " AND "))
}

// Or returns a condition that is true if at least one part is true.
func Or(parts []SQL) SQL {
	if len(parts) == 0 {
		return Never
	}
	return Expression("(%s)", Join(parts, " OR "))
}

// Not returns a condition that is true if p is false or unknown. It is thus true for jobs without
// the field.
func Not(p SQL) SQL { return Expression("(%s IS NOT TRUE)", Expression("(%s)", p)) }

func (c *Compiler) bool(v any) SQL {
	b := c.Read("bool", v, "must", "filter", "should", "must_not", "minimum_should_match", "boost")
	given := b.Whole("minimum_should_match", 0, -maxClauses, maxClauses)
	parts := append(c.all(b.Members["must"]), c.all(b.Members["filter"])...)
	should := c.all(b.Members["should"])
	least := 0
	if len(should) > 0 && len(parts) == 0 {
		least = 1
	}
	if given < 0 {
		given += int64(len(should))
	}
	// If minimum_should_match is 0, Elasticsearch does not pass it to Lucene. Lucene then requires
	// one of the should clauses, unless there are other clauses. Without must, filter and should,
	// minimum_should_match has no effect.
	if given > 0 && len(parts)+len(should) > 0 {
		least = int(given)
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
	for _, p := range c.all(b.Members["must_not"]) {
		parts = append(parts, Not(p))
	}
	return And(parts)
}

func (c *Compiler) exists(name string) SQL {
	var parts []SQL
	for _, f := range c.Matching(name) {
		parts = append(parts, Expression("%s IS NOT NULL", f.Expr))
	}
	return Or(parts)
}

// identity returns the condition for jobs with one of the given _ids.
func (c *Compiler) identity(v any) SQL {
	var parts []SQL
	for _, id := range c.Scalars("ids", v, MaxTerms) {
		if cluster, job, run, ok := store.ParseID(id); ok {
			parts = append(parts, Expression("(%s, %s, %s)", Value(cluster), Value(job), Value(run)))
		}
	}
	if len(parts) == 0 {
		return Never
	}
	return Expression("((j.cluster, j.jobid, j.run) IN (%s))", Join(parts, ", "))
}

func (c *Compiler) terms(v any) SQL {
	m := c.Object("terms", v)
	delete(m, "boost")
	name, v := c.OnlyMember("terms", m)
	if _, ok := v.([]any); !ok {
		c.Fail(Unsupported("[terms] of [%s] with %s", name, KindOf(v)))
	}
	values, f := c.Scalars("terms."+name, v, MaxTerms), c.Field(name)
	switch {
	case len(values) == 0:
		return Never
	case f.Name == "_id":
		return c.identity(v)
	case f.Kind != Keyword && len(values) > maxClauses:
		c.Fail(Illegal("[terms] of the field [%s] of type [%s]: %d values (want at most %d)", name, f.Kind, len(values),
			maxClauses))
		return Never
	}
	parts := make([]SQL, len(values))
	for i, s := range values {
		if f.Kind == Keyword {
			parts[i] = Value(s)
		} else {
			parts[i] = c.term(f, s, false)
		}
	}
	if f.Kind == Keyword {
		return Expression("(%s IN (%s))", f.Expr, Join(parts, ", "))
	}
	return Or(parts)
}

// term returns the condition for jobs whose field has a value.
func (c *Compiler) term(f *Field, s string, anyCase bool) SQL {
	switch {
	case f.Name == "_id":
		return c.identity(s)
	case f.Kind == Keyword:
		field, text := f.text(s, anyCase)
		return Expression("(%s = %s)", field, text)
	case f.Kind == Date:
		return c.Between(f, Bounds{From: s, To: s, FromIncluded: true, toIncluded: true, HasFrom: true, HasTo: true})
	}
	return Expression("(%s = %s)", f.Expr, c.Numeric(f, s))
}

// Numeric parses a number for a comparison with a field. Integers keep all their digits.
func (c *Compiler) Numeric(f *Field, s string) SQL {
	n, ok := numeric(s)
	if !ok {
		c.Fail(Fault(400, "query_shard_exception",
			fmt.Sprintf("failed to create query: For input string: %q (the field [%s] is of type [%s])", s, f.Name, f.Kind)))
	}
	return n
}

func numeric(s string) (n SQL, ok bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Expression("%s::BIGINT", Value(n)), true
	}
	x, err := strconv.ParseFloat(s, 64)
	ok = err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) && !strings.ContainsAny(s, "xX_pP")
	return Expression("%s::DOUBLE", Value(x)), ok
}

// Bounds are the bounds of a range.
type Bounds struct {
	From, To                 string
	HasFrom, HasTo           bool
	FromIncluded, toIncluded bool
	FromNumber, ToNumber     bool // not given as a string; only fields without a column distinguish these
	Format                   string
}

// Between returns the condition for jobs whose field is within bounds.
func (c *Compiler) Between(f *Field, b Bounds) SQL {
	var parts []SQL
	side := func(s string, lower, included, isNumber bool) {
		operator := map[bool]string{true: ">", false: "<"}[lower]
		if f.Kind == Date {
			// Dates are in milliseconds, so "at most t" becomes "before t + 1 ms".
			t, err := c.Dates(b.Format, time.UTC).Parse(s, lower != included)
			c.Fail(err)
			if lower {
				operator = ">="
			}
			if lower != included {
				t = t.Add(time.Millisecond)
			}
			parts = append(parts, Expression("%s "+operator+" make_timestamp(%s::BIGINT)", f.Expr, Value(t.UnixMicro())))
			return
		}
		if included {
			operator += "="
		}
		field, limit := f.text(s, false)
		if f.Kind != Keyword || f.Raw && isNumber {
			limit = c.Numeric(f, s)
			if f.Raw {
				field = c.Number(f)
			}
		}
		parts = append(parts, Expression("%s "+operator+" %s", field, limit))
	}
	if b.HasFrom {
		side(b.From, true, b.FromIncluded, b.FromNumber)
	}
	if b.HasTo {
		side(b.To, false, b.toIncluded, b.ToNumber)
	}
	if len(parts) == 0 {
		return Expression("(%s IS NOT NULL)", f.Expr)
	}
	return And(parts)
}

func (c *Compiler) rangeQuery(v any) SQL {
	name, body := c.OnlyMember("range", v)
	r := c.Read("range."+name, body, "gt", "gte", "lt", "lte", "from", "to", "format", "boost")
	b := Bounds{Format: r.Text("format", "")}
	for _, side := range []string{"gt", "gte", "from", "lt", "lte", "to"} { // Grafana's annotations use from and to
		if !r.Given(side) {
			continue
		}
		s := r.Text(side, "")
		_, isNumber := r.Members[side].(json.Number)
		lower := side[0] == 'g' || side == "from"
		switch {
		case lower && b.HasFrom, !lower && b.HasTo:
			r.Fail(Illegal("[range] of [%s] has two lower or two upper bounds", name))
		case lower:
			b.From, b.HasFrom, b.FromIncluded, b.FromNumber = s, true, side != "gt", isNumber
		default:
			b.To, b.HasTo, b.toIncluded, b.ToNumber = s, true, side != "lt", isNumber
		}
	}
	return c.Between(c.Field(name), b)
}

// leafMembers are the allowed members of queries on one field. The first one is the value.
var leafMembers = map[string][]string{
	"term": {"value", "case_insensitive", "boost"}, "prefix": {"value", "case_insensitive", "boost", "rewrite"},
	"wildcard": {"value", "case_insensitive", "boost", "rewrite"}, "match": {"query", "operator", "boost"},
	"match_phrase": {"query", "boost", "slop"},
}

// leaf compiles a query on one field: {"FIELD": VALUE} or {"FIELD": {"value": VALUE, ...}}. A
// string is a single term, so match compares the whole value.
func (c *Compiler) leaf(kind string, v any) SQL {
	name, body := c.OnlyMember(kind, v)
	anyCase := false
	if _, ok := body.(map[string]any); ok {
		b := c.Read(kind, body, leafMembers[kind]...)
		anyCase = b.Boolean("case_insensitive", false)
		body = b.Members[leafMembers[kind][0]]
	}
	s, f := c.Scalar(kind+"."+name, body), c.Field(name)
	switch kind {
	case "prefix":
		c.patternField(f, kind)
		field, text := f.text(s, anyCase)
		return Expression("starts_with(%s, %s)", field, text)
	case "wildcard":
		return c.Wildcard(f, s, anyCase)
	}
	return c.term(f, s, anyCase)
}

func (c *Compiler) patternField(f *Field, kind string) {
	if f.Kind != Keyword {
		c.Fail(Fault(400, "query_shard_exception",
			fmt.Sprintf("Can only use %s queries on keyword, text and wildcard fields - "+
				"not on [%s] which is of type [%s]", kind, f.Name, f.Kind)))
	}
}

// text returns a field and a text to compare it with. If the parameter anyCase is true, both are
// in lower case.
func (f *Field) text(s string, anyCase bool) (field, text SQL) {
	field, text = f.Expr, Expression("%s::VARCHAR", Value(s))
	if anyCase {
		field, text = Expression("lower(%s)", field), Expression("lower(%s)", text)
	}
	return field, text
}

// Wildcard returns the condition for a pattern: * matches any text, ? matches one character, and \
// quotes the next character. Matching takes linear time, unlike with DuckDB's LIKE.
func (c *Compiler) Wildcard(f *Field, pattern string, anyCase bool) SQL {
	c.patternField(f, "wildcard")
	if len(pattern) > maxPattern {
		c.Fail(Illegal("a wildcard of %d bytes (want at most %d)", len(pattern), maxPattern))
		return Never
	}
	g := newGlob(pattern)
	function, operand := "regexp_full_match(%s, %s)", g.regex
	switch texts := g.texts; {
	case g.ones > 0:
	case len(texts) == 1:
		function, operand = "(%s = %s)", texts[0]
	case len(texts) == 2 && texts[1] == "":
		function, operand = "starts_with(%s, %s)", texts[0]
	case len(texts) == 2 && texts[0] == "":
		function, operand = "suffix(%s, %s)", texts[1]
	case len(texts) == 3 && texts[0]+texts[2] == "":
		function, operand = "contains(%s, %s)", texts[1]
	}
	if operand == g.regex && f.Kind == Keyword {
		if g.behind > maxOnes {
			c.Fail(Illegal("a wildcard with %d question marks after an asterisk (want at most %d)", g.behind, maxOnes))
		}
		if c.automata++; c.automata > maxAutomata {
			c.Fail(Illegal("more than %d wildcards with an asterisk or a question mark inside, counted once for each field "+
				"(want fewer wildcards, or only one field)", maxAutomata))
		}
	}
	field, text := f.text(operand, anyCase)
	return Expression(function, field, text)
}

// glob is a parsed wildcard.
type glob struct {
	texts        []string // between the asterisks
	regex        string   // equivalent regular expression
	ones, behind int      // number of question marks, and of question marks after an asterisk
}

func newGlob(pattern string) (g glob) {
	var text strings.Builder
	regex := "(?s)" // a dot matches a line break, too
	literal := func(r rune) {
		text.WriteRune(r)
		regex += regexp.QuoteMeta(string(r))
	}
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			literal(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			g.texts = append(g.texts, text.String())
			text.Reset()
			regex += ".*"
		case r == '?':
			g.ones++
			if len(g.texts) > 0 {
				g.behind++
			}
			regex += "."
		default:
			literal(r)
		}
	}
	if escaped {
		literal('\\')
	}
	g.texts, g.regex = append(g.texts, text.String()), regex
	return g
}

// anyField returns a condition that is true if one of several fields matches. It omits fields
// whose type cannot have the value, unless there is only one field.
func (c *Compiler) anyField(fields []*Field, condition func(f *Field) SQL) SQL {
	if len(fields) == 1 {
		return condition(fields[0])
	}
	var parts []SQL
	for _, f := range fields {
		if !c.count() || c.Err != nil {
			return Never
		}
		p := condition(f)
		if c.Err == nil {
			parts = append(parts, p)
		} else if c.automata <= maxAutomata {
			c.Err = nil
		}
	}
	return Or(parts)
}
