package query

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxQueryString is the highest number of bytes in a query string.
const maxQueryString = 32 << 10

// queryString compiles a query string in Lucene's classic syntax.
func (c *Compiler) queryString(v any) SQL {
	b := c.Read("query_string", v, "query", "analyze_wildcard", "boost")
	if !b.Given("query") {
		b.Fail(Parsing("[query_string] must be provided with a [query]"))
	}
	p := &luceneParser{c: c, text: b.Text("query", ""), all: c.Matching("*")}
	if len(p.text) > maxQueryString {
		b.Fail(Illegal("a query string of %d bytes (want at most %d)", len(p.text), maxQueryString))
	}
	condition := p.query(p.all)
	if p.at < len(p.text) {
		p.fault("unexpected [%c]", p.peek())
	}
	return condition
}

// luceneParser parses a query string. As in Lucene's classic parser, AND, OR and NOT say whether
// the clauses beside them must, should or must not match.
type luceneParser struct {
	c     *Compiler
	text  string
	all   []*Field // fields for terms that name no field
	at    int
	depth int
}

// fault reports an error at the current position.
func (p *luceneParser) fault(format string, args ...any) SQL {
	p.c.Fail(Fault(400, "query_shard_exception", fmt.Sprintf("Failed to parse query [%s]: at character %d: %s",
		p.text, utf8.RuneCountInString(p.text[:p.at])+1, fmt.Sprintf(format, args...))))
	return Never
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

// take skips a symbol if the symbol comes next, and reports whether it did. A symbol that is a word must be followed
// by a blank, by a parenthesis or by the end of the text.
func (p *luceneParser) take(symbol string) bool {
	rest := p.text[p.at:]
	if !strings.HasPrefix(rest, symbol) {
		return false
	}
	if c := symbol[0]; 'A' <= c && c <= 'Z' && len(rest) > len(symbol) && !strings.ContainsRune(" \t\r\n\u3000()",
		[]rune(rest[len(symbol):])[0]) {
		return false
	}
	p.at += len(symbol)
	return true
}

// luceneClause is a clause, and whether the operators beside it say that it must, should or must
// not match.
type luceneClause struct {
	condition            SQL
	required, prohibited bool
}

// query reads clauses up to the end or a closing parenthesis.
func (p *luceneParser) query(fields []*Field) SQL {
	if p.depth++; p.depth > maxDepth {
		p.c.Fail(Illegal("parentheses in a query string are nested too deep (want at most %d levels)", maxDepth))
	}
	defer func() { p.depth-- }()
	var clauses []luceneClause
	for p.c.Err == nil {
		p.space()
		if p.at == len(p.text) || p.peek() == ')' {
			break
		}
		and := false
		if len(clauses) > 0 {
			if and = p.take("AND") || p.take("&&"); !and && !p.take("OR") {
				p.take("||")
			}
			p.space()
		}
		required := p.take("+")
		prohibited := !required && (p.take("-") || p.take("!") || p.take("NOT"))
		p.space()
		condition := p.clause(fields)
		if n := len(clauses); n > 0 && and && !clauses[n-1].prohibited {
			clauses[n-1].required = true
		}
		required = !prohibited && (required || and)
		clauses = append(clauses, luceneClause{condition, required, prohibited})
	}
	if len(clauses) == 0 {
		if p.depth > 1 {
			p.fault("nothing between parentheses")
		}
		return Never
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
	if len(should) > 0 && !slices.ContainsFunc(clauses, func(c luceneClause) bool { return c.required }) {
		must = append(must, Or(should))
	}
	return And(must)
}

// clause reads a term, a phrase, a range or a query in parentheses, with or without a field.
func (p *luceneParser) clause(fields []*Field) SQL {
	if !p.c.count() {
		return Never
	}
	if p.take("*:*") {
		p.boost()
		return Always
	}
	if p.at < len(p.text) && p.peek() != '(' && p.peek() != '"' {
		start := p.at
		if name, plain, ok := p.word(false); ok && p.at < len(p.text) && p.text[p.at] == ':' {
			p.at++
			p.space()
			if name == "_exists_" {
				f, _, ok := p.word(true)
				if !ok {
					return p.fault("_exists_ wants a field's name")
				}
				return p.c.exists(f)
			}
			if plain == "*" {
				name = "*"
			}
			return p.value(p.c.Matching(name), true)
		}
		p.at = start
	}
	return p.value(fields, false)
}

// value parses what follows a field name.
func (p *luceneParser) value(fields []*Field, named bool) (condition SQL) {
	if p.at == len(p.text) {
		return p.fault("the query ends where a value should come")
	}
	var match func(f *Field) SQL
	switch r := p.peek(); r {
	case '(':
		p.at++
		condition = p.query(fields)
		if !p.take(")") {
			return p.fault("a closing parenthesis is missing")
		}
		p.boost()
		return condition
	case '"':
		s := p.phrase()
		if p.take("~") {
			p.digits()
		}
		match = func(f *Field) SQL { return p.c.term(f, s, false) }
	case '[', '{':
		b := p.bounds()
		match = func(f *Field) SQL { return p.c.Between(f, b) }
	case '<', '>':
		p.at++
		included := p.take("=")
		p.space()
		s := p.bound("")
		b := Bounds{To: s, HasTo: true, toIncluded: included, ToNumber: isNumber(s)}
		if r == '>' {
			b = Bounds{From: s, HasFrom: true, FromIncluded: included, FromNumber: isNumber(s)}
		}
		match = func(f *Field) SQL { return p.c.Between(f, b) }
	case '/':
		return p.fault("a regular expression is not supported by this server; " +
			"put a value that begins with a slash between quotes")
	default:
		s, pattern, ok := p.word(named)
		switch {
		case !ok:
			return p.fault("unexpected [%c]; put a backslash before it, or quotes around the value", r)
		case p.at < len(p.text) && p.text[p.at] == '~':
			return p.fault("a fuzzy term is not supported by this server")
		case pattern == "*" && len(fields) == len(p.all):
			p.boost()
			return Always
		case pattern == "*":
			match = func(f *Field) SQL { return Expression("(%s IS NOT NULL)", f.Expr) }
		case pattern != "":
			match = func(f *Field) SQL { return p.c.Wildcard(f, pattern, false) }
		default:
			match = func(f *Field) SQL { return p.c.term(f, s, false) }
		}
	}
	condition = p.c.anyField(fields, match)
	p.boost()
	return condition
}

// boost skips a boost, which only affects scores.
func (p *luceneParser) boost() {
	if p.take("^") && p.digits() == 0 {
		p.fault("a number should follow the ^")
	}
}

func (p *luceneParser) digits() (n int) {
	for p.at < len(p.text) && (p.text[p.at] == '.' || '0' <= p.text[p.at] && p.text[p.at] <= '9') {
		p.at++
		n++
	}
	return n
}

// word parses a term. plain is the term without backslashes. If the term has wildcards, pattern is the term with its
// backslashes; otherwise it is empty. Inside a value, colons and slashes are allowed, so that times and paths need no
// quotes.
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

// phrase parses a text in quotes.
func (p *luceneParser) phrase() string {
	var b strings.Builder
	p.at++
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += n
		switch {
		case r == '"':
			return b.String()
		case r == '\\' && p.at < len(p.text):
			r, n = utf8.DecodeRuneInString(p.text[p.at:])
			p.at += n
		}
		b.WriteRune(r)
	}
	p.fault("a closing quote is missing")
	return ""
}

// bound parses one end of a range, up to a space or one of the characters of the parameter end.
func (p *luceneParser) bound(end string) string {
	if p.at < len(p.text) && p.text[p.at] == '"' {
		return p.phrase()
	}
	var b strings.Builder
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if strings.ContainsRune(" \t\r\n\u3000", r) || strings.ContainsRune(end, r) || end == "" &&
			strings.ContainsRune("()^", r) {
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
		p.fault("a bound is missing")
	}
	return b.String()
}

// bounds parses a range: [1 TO 5], {1 TO 5}, [* TO 5}.
func (p *luceneParser) bounds() (b Bounds) {
	one := func() (s string, given bool) {
		p.space()
		quoted := p.at < len(p.text) && p.text[p.at] == '"'
		s = p.bound("]}")
		p.space()
		return s, quoted || s != "*"
	}
	b.FromIncluded = p.peek() == '['
	p.at++
	b.From, b.HasFrom = one()
	if !p.take("TO") {
		p.fault("TO should stand between the bounds")
	}
	b.To, b.HasTo = one()
	if b.toIncluded = p.take("]"); !b.toIncluded && !p.take("}") {
		p.fault("a range ends with ] or }")
	}
	b.FromNumber, b.ToNumber = isNumber(b.From), isNumber(b.To)
	return b
}

// isNumber reports whether a bound of a field without a column is compared as a number.
func isNumber(s string) bool {
	_, ok := numeric(s)
	return ok
}
