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

// SQL is a part of a statement, with the values of its question marks. The text consists of
// constants of this package and names of columns. Values in a request are always arguments.
type SQL struct {
	Text string
	Args []any
}

// Expression returns a part of a statement. Each %s in format is replaced by the next of parts.
func Expression(format string, parts ...SQL) SQL {
	texts := make([]any, len(parts))
	var args []any
	for i, p := range parts {
		texts[i] = p.Text
		args = append(args, p.Args...)
	}
	return SQL{fmt.Sprintf(format, texts...), args}
}

// Value returns a question mark with its value.
func Value(v any) SQL { return SQL{"?", []any{v}} }

// Join joins parts. The separator must not contain a question mark.
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
	Name string // name without .keyword
	Kind Kind
	Expr SQL // SQL of the value; NULL for jobs without a value
	// Raw is true for a field without a column. Its value is read from each document, which is
	// slow.
	Raw bool
}

// renamed maps the name of a column to the name of its field, if these two differ. They differ where Slurm's documents
// use the column's name for another field. For example, exit_code in a document is a text such as "3:0".
var renamed = map[string]string{
	"exit_code": "exit_status", "exit_signal": "exit_signal", "derived_code": "derived_status",
	"derived_signal": "derived_signal",
}

// NameOf returns the name of a column's field.
func NameOf(c store.Column) string { return cmp.Or(c.Field, renamed[c.Name], c.Name) }

// composed are fields whose value is computed from several columns.
var composed = []Field{
	{Name: "exit_code", Kind: Keyword, Expr: SQL{Text: "(j.exit_code || ':' || j.exit_signal)"}},
	{Name: "derived_ec", Kind: Keyword, Expr: SQL{Text: "(j.derived_code || ':' || j.derived_signal)"}},
	{Name: "limit_used", Kind: Double, Expr: SQL{Text: "(CASE WHEN j.start_time IS NOT NULL " +
		"THEN 100::DOUBLE * j.elapsed_s / nullif(j.limit_s, 0) END)"}},
	{Name: "_id", Kind: Keyword, Expr: SQL{Text: "j.id"}},
}

// unnamed is the index name of documents that came without an index name, such as imported jobs.
const unnamed = "jobs"

// Fields maps names to the fields with columns. A name is the key in Slurm's documents or, for a
// column without a key, the column's name.
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
			// Elasticsearch's dates have milliseconds, and so do the sort values that a client
			// returns in search_after. The store's instants have microseconds.
			f.Expr = SQL{Text: "make_timestamp_ms(epoch_ms(j.arrived))"}
		}
		all[name] = f
	}
	for i := range composed {
		all[composed[i].Name] = &composed[i]
	}
	return all
}()

// Names are the names of the fields with columns, sorted.
var Names = func() []string {
	var list []string
	for name := range Fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}()

// Metadata reports whether a field is a metadata field of Elasticsearch. Patterns do not match
// these fields.
func (f *Field) Metadata() bool { return f.Name == "_id" || f.Name == "_index" }

func quote(column string) string { return `"` + column + `"` }

const (
	maxName    = 512 // bytes in a field's name
	maxMembers = 256 // members of documents in one request
	// The members of a document can be searched only if the document has at most maxStructure bytes
	// outside of strings, and at most maxDocument bytes in total. The database needs 16 bytes for
	// each number or bracket, and reads 2,048 documents at a time. A document of Slurm has about 200
	// bytes outside of strings.
	maxStructure = 8 << 10
	maxDocument  = 1 << 20
)

// members are the members of documents that a request uses, as JSON pointers.
type members struct {
	pointers []SQL
	places   map[string]int
}

// place returns the SQL of a member. A statement reads all members of a document at once.
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

// texts is a regular expression for the strings of a JSON document.
const texts = `"([^"\\]|\\.)*"`

// Tables returns a statement's FROM clause.
//
// If the request uses fields without a column, unnest has two effects: the database reads the
// document only once for all conditions, and only after it has applied the conditions on columns.
// A document that is not UTF-8, not JSON, or too large counts as a document without members. (TRY
// would be shorter, but DuckDB 1.5 then mixes up rows if another condition removed some.)
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

// Field returns the field of a name. A name without a column is a member of the document: the
// member with exactly this name or, with dots, the member at this path.
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

// Matching returns the fields with columns whose names match a pattern with asterisks. For a name
// without asterisks, it returns the field of this name.
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

// escape converts a pattern to a pattern of [path.Match] in which only the asterisk is special. An
// asterisk also matches slashes.
var escape = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`, "/", "\x00")

// Matches reports whether a name matches a pattern with asterisks.
func Matches(pattern, name string) bool {
	ok, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Number returns the SQL of a field as a DOUBLE, for metrics.
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
