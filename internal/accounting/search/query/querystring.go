package query

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxQueryString is how many bytes a query string may have.
const maxQueryString = 32 << 10

// queryString compiles a query in Lucene's classic syntax.
func (c *Compiler) queryString(v any) (SQL, error) {
	m, err := Object("query_string", v)
	if err != nil {
		return SQL{}, err
	}
	if err := Known("query_string", m, "query", "default_field", "fields", "default_operator", "analyze_wildcard", "allow_leading_wildcard", "lenient", "time_zone",
		"boost", "escape", "auto_generate_synonyms_phrase_query", "enable_position_increments", "type"); err != nil {
		return SQL{}, err
	}
	if err := cmp.Or(Neutral("query_string", m, "escape", false), Neutral("query_string", m, "allow_leading_wildcard", true)); err != nil {
		return SQL{}, err
	}
	s, err := Text("query_string", m, "query", "")
	if err != nil {
		return SQL{}, err
	}
	if m["query"] == nil {
		return SQL{}, Parsing("[query_string] must be provided with a [query]")
	}
	names := m["fields"]
	if names == nil {
		names = m["default_field"]
	}
	fields, err := c.fieldList("query_string", names)
	if err != nil {
		return SQL{}, err
	}
	operator, err := Text("query_string", m, "default_operator", "or")
	if err != nil {
		return SQL{}, err
	}
	zoneName, err := Text("query_string", m, "time_zone", "")
	if err != nil {
		return SQL{}, err
	}
	location, err := Zone(zoneName)
	if err != nil {
		return SQL{}, err
	}
	lenient, err := Boolean("query_string", m, "lenient", false)
	if err != nil {
		return SQL{}, err
	}
	return c.lucene(s, fields, operator, lenient, location)
}

func (c *Compiler) lucene(text string, fields []*Field, operator string, lenient bool, zone *time.Location) (SQL, error) {
	if len(text) > maxQueryString {
		return SQL{}, Illegal("a query string of %d bytes (want at most %d)", len(text), maxQueryString)
	}
	p := &luceneParser{c: c, text: text, fields: fields, zone: zone, lenient: lenient}
	switch strings.ToLower(operator) {
	case "or":
	case "and":
		p.and = true
	default:
		return SQL{}, Illegal("default_operator [%s] (want AND or OR)", operator)
	}
	condition, err := p.query(fields)
	if err == nil && p.at < len(p.text) {
		err = p.fault("unexpected [%c]", p.peek())
	}
	return condition, err
}

// luceneParser reads a query string. Its structure is that of Lucene's classic query parser: AND,
// OR and NOT say of their neighbours whether they must, should or must not match.
type luceneParser struct {
	c       *Compiler
	text    string
	at      int
	and     bool // the default operator is AND
	lenient bool
	fields  []*Field // of terms without a field
	zone    *time.Location
	depth   int
}

func (p *luceneParser) fault(format string, args ...any) error {
	e := AsError(Parsing(format, args...))
	return Fault(400, "query_shard_exception", "Failed to parse query ["+p.text+"]: at character "+strconv.Itoa(utf8.RuneCountInString(p.text[:p.at])+1)+": "+e.Reason)
}

func (p *luceneParser) peek() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

func (p *luceneParser) space() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if r != ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\u3000' {
			return
		}
		p.at += n
	}
}

// take skips a symbol, or a word that ends there, if it comes next.
func (p *luceneParser) take(symbol string) bool {
	rest := p.text[p.at:]
	if !strings.HasPrefix(rest, symbol) {
		return false
	}
	if c := symbol[0]; 'A' <= c && c <= 'Z' && len(rest) > len(symbol) && !strings.ContainsRune(" \t\r\n\u3000()", []rune(rest[len(symbol):])[0]) {
		return false
	}
	p.at += len(symbol)
	return true
}

// luceneClause is a part of a query with what the operators beside it say.
type luceneClause struct {
	condition            SQL
	required, prohibited bool
}

// Query reads clauses up to the end or a closing parenthesis.
func (p *luceneParser) query(fields []*Field) (SQL, error) {
	if p.depth++; p.depth > maxDepth {
		return SQL{}, Illegal("a query string with parentheses within parentheses (want at most %d)", maxDepth)
	}
	defer func() { p.depth-- }()
	var clauses []luceneClause
	for {
		p.space()
		if p.at == len(p.text) || p.peek() == ')' {
			break
		}
		and, or := false, false
		if len(clauses) > 0 {
			and = p.take("AND") || p.take("&&")
			or = !and && (p.take("OR") || p.take("||"))
			p.space()
		}
		required, prohibited := false, false
		switch {
		case p.take("+"):
			required = true
		case p.take("-"), p.take("!"), p.take("NOT"):
			prohibited = true
		}
		p.space()
		condition, err := p.clause(fields)
		if err != nil {
			return SQL{}, err
		}
		if n := len(clauses); n > 0 && !clauses[n-1].prohibited {
			if and {
				clauses[n-1].required = true
			} else if p.and && or {
				clauses[n-1].required = false
			}
		}
		if p.and {
			required = !prohibited && (required || !or)
		} else {
			required = !prohibited && (required || and)
		}
		clauses = append(clauses, luceneClause{condition, required, prohibited})
	}
	if len(clauses) == 0 {
		if p.depth == 1 {
			return Never, nil
		}
		return SQL{}, p.fault("nothing between parentheses")
	}
	var must, should []SQL
	for _, c := range clauses {
		switch {
		case c.prohibited:
			must = append(must, Not(c.condition))
		case c.required:
			must = append(must, c.condition)
		default:
			should = append(should, c.condition)
		}
	}
	required := false
	for _, c := range clauses {
		required = required || c.required
	}
	if len(should) > 0 && !required {
		must = append(must, Or(should))
	}
	return And(must), nil
}

// clause reads a term, a phrase, a range or a query in parentheses, with or without a field.
func (p *luceneParser) clause(fields []*Field) (condition SQL, err error) {
	if err := p.c.count(); err != nil {
		return SQL{}, err
	}
	if p.take("*:*") {
		return Always, p.boost()
	}
	if p.at < len(p.text) && p.peek() != '(' && p.peek() != '"' {
		start := p.at
		if name, plain, ok := p.word(false); ok && p.at < len(p.text) && p.text[p.at] == ':' {
			p.at++
			p.space()
			if name == "_exists_" {
				f, _, ok := p.word(true)
				if !ok {
					return SQL{}, p.fault("_exists_ wants a field's name")
				}
				return p.c.exists(f)
			}
			if plain == "*" {
				name = "*"
			}
			if fields, err = Matching(name); err != nil {
				return SQL{}, err
			}
			for _, f := range fields {
				p.c.Raw = p.c.Raw || f.Raw
			}
			return p.value(fields, true)
		}
		p.at = start
	}
	return p.value(fields, false)
}

// Value reads what stands behind a field.
func (p *luceneParser) value(fields []*Field, named bool) (condition SQL, err error) {
	if p.at == len(p.text) {
		return SQL{}, p.fault("the query ends where a value should come")
	}
	switch r := p.peek(); r {
	case '(':
		p.at++
		if condition, err = p.query(fields); err != nil {
			return SQL{}, err
		}
		if p.at == len(p.text) {
			return SQL{}, p.fault("a closing parenthesis is missing")
		}
		p.at++
	case '"':
		s, err := p.phrase()
		if err != nil {
			return SQL{}, err
		}
		if p.take("~") {
			p.digits()
		}
		condition, err = p.any(fields, func(f *Field) (SQL, error) { return p.c.zoned(f, s, p.zone) })
		if err != nil {
			return SQL{}, err
		}
	case '[', '{':
		b, err := p.bounds()
		if err != nil {
			return SQL{}, err
		}
		if condition, err = p.any(fields, func(f *Field) (SQL, error) { return p.c.Between(f, b) }); err != nil {
			return SQL{}, err
		}
	case '<', '>':
		p.at++
		included := p.take("=")
		p.space()
		s, err := p.bound("")
		if err != nil {
			return SQL{}, err
		}
		b := Bounds{Zone: p.zone}
		if r == '>' {
			b.From, b.HasFrom, b.FromIncluded, b.FromNumber = s, true, included, isNumber(s)
		} else {
			b.To, b.HasTo, b.toIncluded, b.ToNumber = s, true, included, isNumber(s)
		}
		if condition, err = p.any(fields, func(f *Field) (SQL, error) { return p.c.Between(f, b) }); err != nil {
			return SQL{}, err
		}
	case '/':
		return SQL{}, p.fault("a regular expression is not supported by this server; put a value that begins with a slash between quotes")
	default:
		s, pattern, ok := p.word(named)
		if !ok {
			return SQL{}, p.fault("unexpected [%c]; put a backslash before it, or quotes around the value", r)
		}
		if p.at < len(p.text) && p.text[p.at] == '~' {
			return SQL{}, p.fault("a fuzzy term is not supported by this server")
		}
		condition, err = p.any(fields, func(f *Field) (SQL, error) {
			switch {
			case pattern == "*":
				return Expression("(%s IS NOT NULL)", f.Expr), nil
			case pattern != "":
				return p.c.wildcard(f, pattern, false)
			}
			return p.c.zoned(f, s, p.zone)
		})
		if err != nil {
			return SQL{}, err
		}
	}
	return condition, p.boost()
}

// zoned is [compiler.term] with dates in a time zone.
func (c *Compiler) zoned(f *Field, s string, zone *time.Location) (SQL, error) {
	if f.Kind == Date {
		return c.Between(f, Bounds{From: s, To: s, FromIncluded: true, toIncluded: true, HasFrom: true, HasTo: true, Zone: zone})
	}
	return c.term(f, s, false)
}

// any is true where one of the fields matches. In a lenient query a value that a field cannot
// have matches nothing.
func (p *luceneParser) any(fields []*Field, condition func(f *Field) (SQL, error)) (SQL, error) {
	s, err := p.c.anyField(fields, condition)
	if err != nil && p.lenient {
		return Never, nil
	}
	return s, err
}

// boost skips a boost, which changes scores only.
func (p *luceneParser) boost() error {
	if p.at < len(p.text) && p.text[p.at] == '^' {
		p.at++
		if p.digits() == 0 {
			return p.fault("a number should follow the ^")
		}
	}
	return nil
}

func (p *luceneParser) digits() (n int) {
	for p.at < len(p.text) && (p.text[p.at] == '.' || '0' <= p.text[p.at] && p.text[p.at] <= '9') {
		p.at++
		n++
	}
	return n
}

// word reads a term. plain has no backslashes left. pattern is empty for a term without wildcards,
// And otherwise the term with its backslashes. Within a value, colons and slashes are allowed, so
// that times and paths need no quotes.
func (p *luceneParser) word(value bool) (plain, pattern string, ok bool) {
	var b strings.Builder
	start, special := p.at, false
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if r == '\\' {
			if p.at+1 == len(p.text) {
				return "", "", false
			}
			r, n = utf8.DecodeRuneInString(p.text[p.at+1:])
			b.WriteRune(r)
			p.at += 1 + n
			continue
		}
		operator := p.at == start && strings.ContainsRune("+-!<>=", r) && (r != '-' || !value)
		if operator || r == ':' && !value || strings.ContainsRune(" \t\r\n\u3000()^[]\"{}~", r) {
			break
		}
		special = special || r == '*' || r == '?'
		b.WriteRune(r)
		p.at += n
	}
	if special {
		pattern = p.text[start:p.at]
	}
	return b.String(), pattern, p.at > start
}

// phrase reads a text between quotes.
func (p *luceneParser) phrase() (string, error) {
	var b strings.Builder
	p.at++
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += n
		switch {
		case r == '"':
			return b.String(), nil
		case r == '\\' && p.at < len(p.text):
			r, n = utf8.DecodeRuneInString(p.text[p.at:])
			p.at += n
		}
		b.WriteRune(r)
	}
	return "", p.fault("a closing quote is missing")
}

// bound reads one end of a range, up to a blank or one of the end characters.
func (p *luceneParser) bound(end string) (string, error) {
	if p.at < len(p.text) && p.text[p.at] == '"' {
		return p.phrase()
	}
	var b strings.Builder
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if strings.ContainsRune(" \t\r\n\u3000", r) || strings.ContainsRune(end, r) || end == "" && strings.ContainsRune("()^", r) {
			break
		}
		p.at += n
		if r == '\\' && p.at < len(p.text) {
			r, n = utf8.DecodeRuneInString(p.text[p.at:])
			p.at += n
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "", p.fault("a bound is missing")
	}
	return b.String(), nil
}

// Bounds reads a range: [1 TO 5], {1 TO 5}, [* TO 5}.
func (p *luceneParser) bounds() (b Bounds, err error) {
	b.Zone = p.zone
	b.FromIncluded = p.peek() == '['
	p.at++
	p.space()
	quoted := p.at < len(p.text) && p.text[p.at] == '"'
	if b.From, err = p.bound("]}"); err != nil {
		return b, err
	}
	b.HasFrom = quoted || b.From != "*"
	p.space()
	if !p.take("TO") {
		return b, p.fault("TO should stand between the bounds")
	}
	p.space()
	quoted = p.at < len(p.text) && p.text[p.at] == '"'
	if b.To, err = p.bound("]}"); err != nil {
		return b, err
	}
	b.HasTo = quoted || b.To != "*"
	p.space()
	switch {
	case p.take("]"):
		b.toIncluded = true
	case p.take("}"):
	default:
		return b, p.fault("a range ends with ] or }")
	}
	b.FromNumber, b.ToNumber = isNumber(b.From), isNumber(b.To)
	return b, nil
}

// isNumber reports whether a bound of a field without a column is compared as a number.
func isNumber(s string) bool {
	_, err := Numeric(&Field{}, s)
	return err == nil
}
