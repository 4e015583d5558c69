package question

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of a query.
const (
	longestQuery  = 4096 // bytes
	maxClauses    = 100
	maxQueryDepth = 20 // parentheses and negations within each other
)

// queryFields are the fields that are searched for a word without a field name.
var queryFields = []string{"user_name", "account", "partition", "qos", "state", "job_name"}

// query reads the query bar's language:
//
//	query   = all { "OR" all }
//	all     = not { [ "AND" ] not }
//	not     = ( "NOT" | "-" ) not | "(" query ")" | clause
//	clause  = field relation value | field ":" values | word
//	values  = value | "(" value { [ "OR" ] value } ")" | "[" value "TO" value "]"
//
// The relations are =, !=, <, <=, >, >= and :, which means =. A value is a word or a text in
// double quotes. \ quotes the next character of a text. In a word, * stands for any number of
// characters and ? for one character.
type query struct {
	r       Reader
	text    string
	at      int
	clauses int
	depth   int
}

// Query returns the filter of a query. An empty query chooses all jobs.
func (r Reader) Query(s string) (Filter, error) {
	if len(s) > longestQuery {
		return nil, fmt.Errorf("the query has %d bytes (want at most %d)", len(s), longestQuery)
	}
	q := &query{r: r, text: s}
	if q.space(); q.end() {
		return All{}, nil
	}
	c, err := q.any()
	if err == nil && !q.end() {
		err = fmt.Errorf("unexpected %q", q.rest())
	}
	if err != nil {
		return nil, fmt.Errorf("the query at character %d: %w", utf8.RuneCountInString(s[:q.at])+1, err)
	}
	return c, nil
}

func (q *query) end() bool { return q.at >= len(q.text) }

// rest returns the next 20 characters of the query, for error messages.
func (q *query) rest() string {
	rest := []rune(q.text[q.at:])
	return string(rest[:min(len(rest), 20)])
}

func (q *query) space() {
	for !q.end() {
		c, size := utf8.DecodeRuneInString(q.text[q.at:])
		if !unicode.IsSpace(c) {
			return
		}
		q.at += size
	}
}

// take skips s and the spaces after it, and reports whether s came next.
func (q *query) take(s string) bool {
	if !strings.HasPrefix(q.text[q.at:], s) {
		return false
	}
	q.at += len(s)
	q.space()
	return true
}

// next reports whether the given word comes next, followed by a space, a parenthesis or the end of
// the query.
func (q *query) next(word string) bool {
	after, ok := strings.CutPrefix(q.text[q.at:], word)
	c, _ := utf8.DecodeRuneInString(after)
	return ok && (after == "" || unicode.IsSpace(c) || c == '(' || c == ')')
}

// keyword skips the given word and the spaces after it, and reports whether the word came next.
func (q *query) keyword(word string) bool { return q.next(word) && q.take(word) }

func (q *query) any() (Filter, error) {
	list, err := q.series(q.all, func() bool { return q.keyword("OR") })
	return Any(list), err
}

func (q *query) all() (Filter, error) {
	list, err := q.series(q.not, func() bool {
		if q.keyword("AND") {
			return true
		}
		return !q.end() && q.text[q.at] != ')' && !q.next("OR")
	})
	return All(list), err
}

// series reads one part, and further parts as long as more returns true.
func (q *query) series(part func() (Filter, error), more func() bool) (list []Filter, err error) {
	for {
		c, err := part()
		if err != nil {
			return nil, err
		}
		if list = append(list, c); !more() {
			return list, nil
		}
	}
}

func (q *query) not() (Filter, error) {
	if q.depth++; q.depth > maxQueryDepth {
		return nil, fmt.Errorf("parentheses and negations are nested more than %d deep", maxQueryDepth)
	}
	defer func() { q.depth-- }()
	switch {
	case q.next("AND"), q.next("OR"):
		return nil, fmt.Errorf(`no condition before %q (put the word in quotes if it is not an operator)`,
			q.rest())
	case q.keyword("NOT") || q.take("-"):
		c, err := q.not()
		return Not{c}, err
	case q.take("("):
		c, err := q.any()
		if err == nil && !q.take(")") {
			err = errors.New(`a "(" without its ")"`)
		}
		return c, err
	}
	return q.clause()
}

func (q *query) clause() (Filter, error) {
	if q.clauses++; q.clauses > maxClauses {
		return nil, fmt.Errorf("more than %d conditions", maxClauses)
	}
	name := q.text[q.at:]
	if end := strings.IndexFunc(name, func(c rune) bool { return c != '_' && c != '@' && (c < 'a' || c > 'z') }); end > 0 {
		name = name[:end]
		after := q.text[q.at+end:]
		for _, op := range []string{":>=", ":<=", ":>", ":<", ":", "!=", ">=", "<=", "=", ">", "<"} {
			if strings.HasPrefix(after, op) {
				f, err := LookUp(name)
				if err != nil {
					return nil, err
				}
				q.at += end + len(op)
				if op == ":" {
					return q.values(f)
				}
				return q.value(f, strings.TrimPrefix(op, ":"))
			}
		}
	}
	word, quoted, err := q.word(`()"`)
	if err != nil {
		return nil, err
	}
	pattern := strings.ReplaceAll(word, `\`, `\\`)
	if quoted {
		pattern = strings.NewReplacer("*", `\*`, "?", `\?`).Replace(pattern)
	}
	var list Any
	for _, name := range queryFields {
		like, err := newLike(name, "*"+pattern+"*", true)
		if err != nil {
			return nil, err
		}
		list = append(list, like)
	}
	if number, err := q.r.value(Fields["jobid"], word); err == nil && !quoted {
		list = append(list, Compare{"jobid", "=", number})
	}
	return list, nil
}

// values reads what follows a colon: a range in brackets, a list in parentheses, or one value.
func (q *query) values(f *Field) (Filter, error) {
	switch {
	case q.take("["):
		low, _, err := q.word("[]")
		if err != nil {
			return nil, err
		}
		if !q.keyword("TO") {
			return nil, fmt.Errorf(`%s: want "TO" between the two values of a range`, f.Name)
		}
		high, _, err := q.word("[]")
		if err != nil {
			return nil, err
		}
		if !q.take("]") {
			return nil, fmt.Errorf(`%s: a "[" without its "]"`, f.Name)
		}
		from, err := q.r.Compare(f, ">=", low, false)
		if err != nil {
			return nil, err
		}
		to, err := q.r.Compare(f, "<=", high, false)
		return All{from, to}, err
	case q.take("("):
		list, err := q.series(func() (Filter, error) {
			if q.clauses++; q.clauses > maxClauses {
				return nil, fmt.Errorf("more than %d conditions", maxClauses)
			}
			return q.value(f, "=")
		}, func() bool { q.keyword("OR"); return !q.end() && q.text[q.at] != ')' })
		if err == nil && !q.take(")") {
			err = fmt.Errorf(`%s: a "(" without its ")"`, f.Name)
		}
		return Any(list), err
	}
	return q.value(f, "=")
}

func (q *query) value(f *Field, op string) (Filter, error) {
	word, quoted, err := q.word(`()"`)
	if err != nil {
		return nil, err
	}
	if word == "*" && !quoted { // an asterisk without quotes is true for jobs that have a value
		op, word = map[bool]string{true: "!=", false: "="}[op == "="], ""
	}
	return q.r.Compare(f, op, word, !quoted)
}

// word reads a text in double quotes. Without quotes, it reads up to a space or one of the
// characters in ends.
func (q *query) word(ends string) (word string, quoted bool, err error) {
	defer q.space()
	if !strings.HasPrefix(q.text[q.at:], `"`) {
		end := strings.IndexFunc(q.text[q.at:], func(c rune) bool {
			return unicode.IsSpace(c) ||
				strings.ContainsRune(ends, c)
		})
		if end < 0 {
			end = len(q.text) - q.at
		}
		if end == 0 {
			return "", false, errors.New("want a value here")
		}
		q.at += end
		return q.text[q.at-end : q.at], false, nil
	}
	var b strings.Builder
	for i := q.at + 1; i < len(q.text); i++ {
		switch c := q.text[i]; {
		case c == '"':
			q.at = i + 1
			return b.String(), true, nil
		case c == '\\' && i+1 < len(q.text):
			i++
			b.WriteByte(q.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", true, errors.New(`a text without its closing "`)
}
