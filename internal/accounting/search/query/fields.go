package query

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"rmreplay/internal/accounting/store"
)

// Kind is the type of a field, as in a mapping of Elasticsearch.
type Kind string

// The kinds of fields.
const (
	Keyword Kind = "keyword"
	Long    Kind = "long"
	Double  Kind = "double"
	Date    Kind = "date"
)

// SQL is a part of a statement with the values of its question marks. The text is made of constants
// of this package and names of columns. Values of a request are always arguments.
type SQL struct {
	Text string
	Args []any
}

// Expression returns a part of a statement. %s in the format stands for a part, in order.
func Expression(format string, parts ...SQL) SQL {
	texts := make([]any, len(parts))
	var args []any
	for i, p := range parts {
		texts[i] = p.Text
		args = append(args, p.Args...)
	}
	return SQL{fmt.Sprintf(format, texts...), args}
}

// Value is an argument.
func Value(v any) SQL { return SQL{"?", []any{v}} }

// Join joins parts with a separator, which has no question mark.
func Join(parts []SQL, separator string) SQL {
	var b strings.Builder
	var args []any
	for i, p := range parts {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(p.Text)
		args = append(args, p.Args...)
	}
	return SQL{b.String(), args}
}

// Field is a field of documents.
type Field struct {
	Name string // without .keyword
	Kind Kind
	Expr SQL // its value, which is NULL if a job has none
	// Raw means that the field has no column. Its value is looked up in the document, which is slow.
	Raw bool
	doc string
}

// renamed are the names of fields whose columns have other names, because Slurm's documents give
// the names to other fields: exit_code is "3:0" there.
var renamed = map[string]string{
	"exit_code": "exit_status", "exit_signal": "exit_signal", "derived_code": "derived_status", "derived_signal": "derived_signal",
}

// NameOf returns the name of the field of a column.
func NameOf(c store.Column) string { return cmp.Or(c.Field, renamed[c.Name], c.Name) }

// composed are fields of documents that several columns have.
var composed = []Field{
	{Name: "exit_code", Kind: Keyword, Expr: SQL{Text: "(j.exit_code || ':' || j.exit_signal)"}, doc: "exit status and signal of the job's script, as 3:0"},
	{Name: "derived_ec", Kind: Keyword, Expr: SQL{Text: "(j.derived_code || ':' || j.derived_signal)"}, doc: "highest exit status of the job's steps and signal, as 3:0"},
	{Name: "limit_used", Kind: Double, Expr: SQL{Text: "(100::DOUBLE * j.elapsed_s / nullif(j.limit_s, 0))"}, doc: "run time in per cent of the time limit"},
	{Name: "_id", Kind: Keyword, Expr: SQL{Text: "j.id"}, doc: "cluster, job and run, as in a hit's _id"},
}

// unnamed is the index of documents that came without one, such as imported jobs.
const unnamed = "jobs"

// Fields are those with columns, by their names: what Slurm's documents call them, or else the
// columns' own names.
var Fields = func() map[string]*Field {
	all := make(map[string]*Field)
	for _, c := range store.Columns {
		name := NameOf(c)
		f := &Field{Name: name, Expr: SQL{Text: "j." + quote(c.Name)}, doc: c.Doc}
		switch strings.Fields(c.Type)[0] {
		case "BIGINT":
			f.Kind = Long
		case "DOUBLE":
			f.Kind = Double
		case "TIMESTAMP":
			f.Kind = Date
		default:
			f.Kind = Keyword
		}
		switch c.Name {
		case "collection":
			f.Expr = SQL{Text: "coalesce(j.collection, '" + unnamed + "')"}
		case "arrived":
			// A date has milliseconds in Elasticsearch, and so have the sort values that a client sends back as
			// search_after. The store has this instant in microseconds.
			f.Expr = SQL{Text: "make_timestamp_ms(epoch_ms(j.arrived))"}
		}
		all[name] = f
	}
	for i := range composed {
		all[composed[i].Name] = &composed[i]
	}
	return all
}()

// Names are the fields with columns, in the order of their names.
var Names = func() []string {
	var list []string
	for name := range Fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}()

// Metadata reports whether a field is one of Elasticsearch's own, which patterns do not match.
func (f *Field) Metadata() bool { return f.Name == "_id" || f.Name == "_index" }

func quote(column string) string { return `"` + column + `"` }

// maxName is how many bytes the name of a field may have.
const maxName = 512

// lookup returns the field of a name. A name without a column stands for a member of the document:
// of the member with that very name, or of the path that its dots make.
func lookup(name string) (*Field, error) {
	if f, ok := Fields[name]; ok {
		return f, nil
	}
	base, isKeyword := strings.CutSuffix(name, ".keyword")
	if f, ok := Fields[base]; ok && isKeyword && f.Kind == Keyword {
		return f, nil
	}
	switch {
	case base == "" || len(base) > maxName:
		return nil, Illegal("a field's name has %d bytes (want 1 to %d)", len(base), maxName)
	case strings.ContainsAny(base, "*\x00"):
		return nil, Illegal("field name [%s]: a pattern is not allowed here", base)
	case strings.HasPrefix(base, "_"):
		return nil, Unsupported("the field [%s]", base)
	}
	member := func(pointer string) SQL {
		return Expression("json_extract_string(decode(d.document), %s::VARCHAR)", Value(pointer))
	}
	escaped := strings.ReplaceAll(strings.ReplaceAll(base, "~", "~0"), "/", "~1")
	expr := member("/" + escaped)
	if strings.Contains(base, ".") {
		expr = Expression("coalesce(%s, %s)", expr, member("/"+strings.ReplaceAll(escaped, ".", "/")))
	}
	// A document that is no UTF-8 or no JSON has no members. TRY would be shorter, but DuckDB 1.5 mixes up
	// rows where another condition has removed some.
	expr = Expression("CASE WHEN j.marks IS NULL OR NOT contains(j.marks, 'not_utf8') THEN CASE WHEN json_valid(decode(d.document)) THEN %s END END", expr)
	return &Field{Name: base, Kind: Keyword, Expr: expr, Raw: true, doc: "member of the document"}, nil
}

// Matching returns the fields with columns that match a pattern with asterisks, and for a name
// without one its field.
func Matching(pattern string) ([]*Field, error) {
	if !strings.Contains(pattern, "*") {
		f, err := lookup(pattern)
		return []*Field{f}, err
	}
	var list []*Field
	for _, name := range Names {
		if f := Fields[name]; !f.Metadata() && Matches(pattern, name) {
			list = append(list, f)
		}
	}
	return list, nil
}

// escape makes a pattern of [path.Match] in which no character but the asterisk is special. An asterisk
// matches slashes too.
var escape = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`, "/", "\x00")

// Matches reports whether a name matches a pattern with asterisks.
func Matches(pattern, name string) bool {
	ok, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Number returns an expression of the type DOUBLE for metrics.
func (f *Field) Number() (SQL, error) {
	switch {
	case f.Raw:
		return Expression("TRY_CAST(%s AS DOUBLE)", f.Expr), nil
	case f.Kind == Date:
		return Expression("(epoch_us(%s) / 1000)", f.Expr), nil
	case f.Kind == Keyword:
		return SQL{}, Illegal("Field [%s] of type [%s] is not supported for aggregations of numbers", f.Name, f.Kind)
	}
	return Expression("%s::DOUBLE", f.Expr), nil
}
