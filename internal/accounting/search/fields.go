package search

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"rmreplay/internal/accounting/store"
)

// kind is the type of a field, as in a mapping of Elasticsearch.
type kind string

const (
	keyword kind = "keyword"
	long    kind = "long"
	double  kind = "double"
	date    kind = "date"
)

// sql is a part of a statement with the values of its question marks. The text is made of constants
// of this package and names of columns. Values of a request are always arguments.
type sql struct {
	text string
	args []any
}

// expression returns a part of a statement. %s in the format stands for a part, in order.
func expression(format string, parts ...sql) sql {
	texts := make([]any, len(parts))
	var args []any
	for i, p := range parts {
		texts[i] = p.text
		args = append(args, p.args...)
	}
	return sql{fmt.Sprintf(format, texts...), args}
}

// value is an argument.
func value(v any) sql { return sql{"?", []any{v}} }

// join joins parts with a separator, which has no question mark.
func join(parts []sql, separator string) sql {
	var b strings.Builder
	var args []any
	for i, p := range parts {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(p.text)
		args = append(args, p.args...)
	}
	return sql{b.String(), args}
}

// field is a field of documents.
type field struct {
	name string // without .keyword
	kind kind
	expr sql // its value, which is NULL if a job has none
	// raw means that the field has no column. Its value is looked up in the document, which is slow.
	raw bool
	doc string
}

// renamed are the names of fields whose columns have other names, because Slurm's documents give
// the names to other fields: exit_code is "3:0" there.
var renamed = map[string]string{
	"exit_code": "exit_status", "exit_signal": "exit_signal", "derived_code": "derived_status", "derived_signal": "derived_signal",
}

// composed are fields of documents that several columns have.
var composed = []field{
	{name: "exit_code", kind: keyword, expr: sql{text: "(j.exit_code || ':' || j.exit_signal)"}, doc: "exit status and signal of the job's script, as 3:0"},
	{name: "derived_ec", kind: keyword, expr: sql{text: "(j.derived_code || ':' || j.derived_signal)"}, doc: "highest exit status of the job's steps and signal, as 3:0"},
	{name: "_id", kind: keyword, expr: sql{text: "j.id"}, doc: "cluster, job and run, as in a hit's _id"},
}

// unnamed is the index of documents that came without one, such as imported jobs.
const unnamed = "jobs"

// fields are those with columns, by their names: what Slurm's documents call them, or else the
// columns' own names.
var fields = func() map[string]*field {
	all := make(map[string]*field)
	for _, c := range store.Columns {
		name := c.Name
		if c.Field != "" {
			name = c.Field
		} else if other, ok := renamed[c.Name]; ok {
			name = other
		}
		f := &field{name: name, expr: sql{text: "j." + quote(c.Name)}, doc: c.Doc}
		switch strings.Fields(c.Type)[0] {
		case "BIGINT":
			f.kind = long
		case "DOUBLE":
			f.kind = double
		case "TIMESTAMP":
			f.kind = date
		default:
			f.kind = keyword
		}
		if c.Name == "collection" {
			f.expr = sql{text: "coalesce(j.collection, '" + unnamed + "')"}
		}
		all[name] = f
	}
	for i := range composed {
		all[composed[i].name] = &composed[i]
	}
	return all
}()

// names are the fields with columns, in the order of their names.
var names = func() []string {
	var list []string
	for name := range fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}()

// metadata reports whether a field is one of Elasticsearch's own, which patterns do not match.
func (f *field) metadata() bool { return f.name == "_id" || f.name == "_index" }

func quote(column string) string { return `"` + column + `"` }

// maxName is how many bytes the name of a field may have.
const maxName = 512

// lookup returns the field of a name. A name without a column stands for a member of the document:
// of the member with that very name, or of the path that its dots make.
func lookup(name string) (*field, error) {
	if f, ok := fields[name]; ok {
		return f, nil
	}
	base, isKeyword := strings.CutSuffix(name, ".keyword")
	if f, ok := fields[base]; ok && isKeyword && f.kind == keyword {
		return f, nil
	}
	switch {
	case base == "" || len(base) > maxName:
		return nil, illegal("a field's name has %d bytes (want 1 to %d)", len(base), maxName)
	case strings.ContainsAny(base, "*\x00"):
		return nil, illegal("field name [%s]: a pattern is not allowed here", base)
	case strings.HasPrefix(base, "_"):
		return nil, unsupported("the field [%s]", base)
	}
	member := func(pointer string) sql {
		return expression("TRY(json_extract_string(decode(d.document), %s::VARCHAR))", value(pointer))
	}
	escaped := strings.ReplaceAll(strings.ReplaceAll(base, "~", "~0"), "/", "~1")
	expr := member("/" + escaped)
	if strings.Contains(base, ".") {
		expr = expression("coalesce(%s, %s)", expr, member("/"+strings.ReplaceAll(escaped, ".", "/")))
	}
	return &field{name: base, kind: keyword, expr: expr, raw: true, doc: "member of the document"}, nil
}

// matching returns the fields with columns that match a pattern with asterisks, and for a name
// without one its field.
func matching(pattern string) ([]*field, error) {
	if !strings.Contains(pattern, "*") {
		f, err := lookup(pattern)
		return []*field{f}, err
	}
	var list []*field
	for _, name := range names {
		if f := fields[name]; !f.metadata() && matches(pattern, name) {
			list = append(list, f)
		}
	}
	return list, nil
}

// matches reports whether a name matches a pattern with asterisks.
func matches(pattern, name string) bool {
	// No other character is special, and an asterisk matches slashes too.
	escape := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`, "/", "\x00")
	ok, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// number returns an expression of the type DOUBLE for metrics.
func (f *field) number() (sql, error) {
	switch {
	case f.raw:
		return expression("TRY_CAST(%s AS DOUBLE)", f.expr), nil
	case f.kind == date:
		return expression("(epoch_us(%s) / 1000)", f.expr), nil
	case f.kind == keyword:
		return sql{}, illegal("Field [%s] of type [%s] is not supported for aggregations of numbers", f.name, f.kind)
	}
	return expression("%s::DOUBLE", f.expr), nil
}
