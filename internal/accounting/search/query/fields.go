package query

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
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
}

// renamed are the names of fields whose columns have other names, because Slurm's documents give
// the names to other fields: exit_code is "3:0" there.
var renamed = map[string]string{
	"exit_code": "exit_status", "exit_signal": "exit_signal", "derived_code": "derived_status",
	"derived_signal": "derived_signal",
}

// NameOf returns the name of the field of a column.
func NameOf(c store.Column) string { return cmp.Or(c.Field, renamed[c.Name], c.Name) }

// composed are fields of documents that several columns have.
var composed = []Field{
	{Name: "exit_code", Kind: Keyword, Expr: SQL{Text: "(j.exit_code || ':' || j.exit_signal)"}},
	{Name: "derived_ec", Kind: Keyword, Expr: SQL{Text: "(j.derived_code || ':' || j.derived_signal)"}},
	{Name: "limit_used", Kind: Double, Expr: SQL{Text: "(100::DOUBLE * j.elapsed_s / nullif(j.limit_s, 0))"}},
	{Name: "_id", Kind: Keyword, Expr: SQL{Text: "j.id"}},
}

// unnamed is the index of documents that came without one, such as imported jobs.
const unnamed = "jobs"

// Fields are the fields with columns, by name: the key in Slurm's documents, or else the column's
// own name.
var Fields = func() map[string]*Field {
	all := make(map[string]*Field)
	for _, c := range store.Columns {
		name := NameOf(c)
		f := &Field{Name: name, Expr: SQL{Text: "j." + quote(c.Name)}}
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

const (
	maxName    = 512 // bytes of a field's name
	maxMembers = 256 // members of documents that one request asks for
	// maxStructure is how many bytes a document may have outside its strings, and maxDocument in all, to be searched
	// for members. The database takes 16 bytes for each number or bracket, and reads 2,048 documents at a time. A
	// document of Slurm's has some 200 bytes outside its strings.
	maxStructure = 8 << 10
	maxDocument  = 1 << 20
)

// members are the places of documents' members that a request asks for, as JSON pointers.
type members struct {
	pointers []SQL
	places   map[string]int
}

// place returns the expression of a member. All members of a document are read at once.
func (m *members) place(pointer string) SQL {
	n, known := m.places[pointer]
	if !known {
		if m.places == nil {
			m.places = map[string]int{}
		}
		m.pointers = append(m.pointers, Expression("%s::VARCHAR", Value(pointer)))
		n = len(m.pointers)
		m.places[pointer] = n
	}
	return SQL{Text: "j.members[" + strconv.Itoa(n) + "]"}
}

// texts are the strings of a JSON document, as a regular expression.
const texts = `"([^"\\]|\\.)*"`

// Tables is what a statement reads, from FROM on.
//
// If fields without a column are asked for, unnest keeps the database from taking the list of their values apart
// into conditions that read the document again, and lets conditions of columns go first. A document that is no
// UTF-8 or no JSON, or that is too large, has no members. (TRY would be shorter, but DuckDB 1.5 mixes
// up rows where another condition has removed some.)
func (c *Compiler) Tables() SQL {
	if len(c.members.pointers) == 0 {
		return SQL{Text: "FROM jobs j"}
	}
	small := fmt.Sprintf("octet_length(j.document) <= %d AND (j.marks IS NULL OR NOT contains(j.marks, 'not_utf8'))",
		maxDocument)
	plain := fmt.Sprintf("octet_length(j.document) <= %[1]d "+
		"OR length(regexp_replace(decode(j.document), '%[2]s', '', 'gs')) <= %[1]d",
		maxStructure, texts)
	value := "CASE WHEN " + small + " THEN CASE WHEN " + plain +
		" THEN CASE WHEN json_valid(decode(j.document)) THEN json_extract_string(decode(j.document), [%s]) END END END"
	return Expression("FROM (SELECT j.*, unnest(["+value+"]) AS members "+
		"FROM jobs j) j",
		Join(c.members.pointers, ", "))
}

// Field returns the field of a name. A name without a column stands for a member of the document:
// of the member with that very name, or of the path that its dots make.
func (c *Compiler) Field(name string) *Field {
	if f, ok := Fields[name]; ok {
		return f
	}
	base, isKeyword := strings.CutSuffix(name, ".keyword")
	if f, ok := Fields[base]; ok && isKeyword && f.Kind == Keyword {
		return f
	}
	switch {
	case base == "" || len(base) > maxName:
		c.Fail(Illegal("a field's name has %d bytes (want 1 to %d)", len(base), maxName))
	case strings.ContainsAny(base, "*\x00"):
		c.Fail(Illegal("field name [%s]: a pattern is not allowed here", base))
	case strings.HasPrefix(base, "_"):
		c.Fail(Unsupported("the field [%s]", base))
	}
	escaped := strings.ReplaceAll(strings.ReplaceAll(base, "~", "~0"), "/", "~1")
	expr := c.members.place("/" + escaped)
	if strings.Contains(base, ".") {
		expr = Expression("coalesce(%s, %s)", expr, c.members.place("/"+strings.ReplaceAll(escaped, ".", "/")))
	}
	if len(c.members.pointers) > maxMembers {
		c.Fail(Illegal("more than %d fields without a column", maxMembers))
	}
	return &Field{Name: base, Kind: Keyword, Expr: expr, Raw: true}
}

// Matching returns the fields with columns that match a pattern with asterisks. For a name without
// an asterisk it returns the field of that name.
func (c *Compiler) Matching(pattern string) (list []*Field) {
	if !strings.Contains(pattern, "*") {
		return []*Field{c.Field(pattern)}
	}
	for _, name := range Names {
		if f := Fields[name]; !f.Metadata() && Matches(pattern, name) {
			list = append(list, f)
		}
	}
	return list
}

// escape makes a pattern of [path.Match] in which no character but the asterisk is special. An asterisk
// matches slashes too.
var escape = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`, "/", "\x00")

// Matches reports whether a name matches a pattern with asterisks.
func Matches(pattern, name string) bool {
	ok, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Number returns a field as an expression of the type DOUBLE for metrics.
func (c *Compiler) Number(f *Field) SQL {
	switch {
	case f.Raw:
		return Expression("TRY_CAST(%s AS DOUBLE)", f.Expr)
	case f.Kind == Date:
		return Expression("(epoch_us(%s) / 1000)", f.Expr)
	case f.Kind == Keyword:
		c.Fail(Illegal("Field [%s] of type [%s] is not supported for aggregations of numbers", f.Name, f.Kind))
	}
	return Expression("%s::DOUBLE", f.Expr)
}
