package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/question"
)

// The types of fields.
const (
	integer = question.Integer
	decimal = question.Decimal
	instant = question.Instant
)

// field is something that jobs can be filtered by.
type field struct {
	*question.Field
	kind question.Type
	sql  func(r *request) string // its value; the text has no values of users
}

// fields has each field by its name and by the key of Slurm's document. columns has the names of
// the columns in their order.
var (
	columns = question.Columns
	fields  = func() map[string]*field {
		computed := map[string]func(r *request) string{
			"limit_used": func(*request) string { return "(100::DOUBLE * elapsed_s / nullif(limit_s, 0))" },
			"hour":       func(r *request) string { return "(" + r.weekHour("submit_time") + " % 24)" },
			"weekday":    func(r *request) string { return "(" + r.weekHour("submit_time") + " // 24)" },
		}
		all := make(map[string]*field)
		for name, f := range question.Fields {
			sql, ok := computed[f.Name]
			if !ok {
				sql = func(*request) string { return `"` + f.Name + `"` }
			}
			all[name] = &field{f, f.Type, sql}
		}
		return all
	}()
)

// term is a filter that a click adds: a field, a relation and a value.
type term struct {
	field *field
	op    string
	value string
}

// parseTerm reads a term, such as partition=gpu or elapsed_s>=3600.
func parseTerm(s string) (term, error) {
	t, err := question.ParseTerm(s)
	if err != nil {
		return term{}, err
	}
	return term{fields[t.Field.Name], t.Op, t.Value}, nil
}

// String returns the term as it stands in a URL.
func (t term) String() string { return t.field.Name + t.op + t.value }

// condition is a part of a WHERE clause. Values of users are in args alone.
type condition struct {
	sql  string
	args []any
}

// and joins conditions, all of which must hold.
func and(list ...condition) condition { return join(" AND ", "true", list) }

// or joins conditions, one of which must hold.
func or(list ...condition) condition { return join(" OR ", "false", list) }

func join(by, none string, list []condition) condition {
	var parts []string
	var all condition
	for _, c := range list {
		parts = append(parts, "("+c.sql+")")
		all.args = append(all.args, c.args...)
	}
	if all.sql = strings.Join(parts, by); all.sql == "" {
		all.sql = none
	}
	return all
}

// condition returns the SQL of a filter.
func (r *request) condition(f question.Filter) condition {
	list := func(parts []question.Filter) (all []condition) {
		for _, p := range parts {
			all = append(all, r.condition(p))
		}
		return all
	}
	switch f := f.(type) {
	case question.All:
		return and(list(f)...)
	case question.Any:
		return or(list(f)...)
	case question.Known:
		return condition{sql: fields[f.Column].sql(r) + " IS NOT NULL"}
	case question.Compare:
		return r.compare(f, f.Op)
	case question.Like:
		like := " LIKE"
		if f.AnyCase {
			like = " ILIKE"
		}
		return condition{fields[f.Column].sql(r) + like + ` ? ESCAPE '\'`, []any{likePattern(f.Pattern)}}
	case question.Not:
		switch of := f.Of.(type) {
		case question.Known:
			return condition{sql: fields[of.Column].sql(r) + " IS NULL"}
		case question.Compare:
			if of.Op == "=" {
				return r.compare(of, "IS DISTINCT FROM")
			}
		}
		c := r.condition(f.Of)
		return condition{"NOT coalesce(" + c.sql + ", false)", c.args}
	}
	panic(fmt.Sprintf("a filter of the type %T", f)) // there are no others
}

// compare returns the SQL of a comparison. Numbers and instants are written from the values that were
// parsed. DuckDB prunes rows by constants.
func (r *request) compare(c question.Compare, op string) condition {
	sql := fields[c.Column].sql(r) + " " + op + " "
	switch v := c.Value.(type) {
	case float64:
		if v == math.Trunc(v) {
			return condition{sql: sql + strconv.FormatInt(int64(v), 10)}
		}
		return condition{sql: sql + strconv.FormatFloat(v, 'e', -1, 64)}
	case time.Time:
		return condition{sql: sql + timestamp(v)}
	}
	return condition{sql + "?", []any{c.Value}}
}

// likePattern returns the pattern of LIKE of one with * and ?.
func likePattern(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteByte('%')
		case c == '?':
			b.WriteByte('_')
		case c == '\\' && i+1 < len(pattern):
			i++
			if strings.IndexByte(`\%_`, pattern[i]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(pattern[i])
		case c == '%' || c == '_':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// timestamp returns an instant as SQL has it.
func timestamp(t time.Time) string {
	return "TIMESTAMP '" + t.UTC().Format("2006-01-02 15:04:05.999999") + "'"
}
