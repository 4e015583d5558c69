package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/lines"
)

const (
	// maxWindow is the highest sum of from and size, as in Elasticsearch.
	maxWindow = 10_000
	// maxHitBytes is the highest total size of the documents in one answer, over all searches of an
	// _msearch.
	maxHitBytes = 64 << 20
	maxSorts    = 32
	maxFields   = 256 // maximum number of fields in "fields" and "docvalue_fields"
)

// compiler compiles requests to statements.
type compiler struct {
	query.Compiler
	aggregationsRead, percentsRead int
	costly                         map[string]int // number of costly metrics, by type
}

// request is a search that is ready to run.
type request struct {
	c            compiler
	condition    query.SQL
	indices      query.SQL // condition on the index names
	from, size   int64
	sorts        []sortKey // if empty, hits have a score
	behind       query.SQL // condition for the hits after search_after
	source       sourceFilter
	fields       []shownField
	aggregations *aggregation
	trackTotal   int64 // highest number of counted hits; -1 if the answer has no total
	typedKeys    bool
	left         *int // bytes of documents that the answer may still have; shared by the searches of an _msearch
}

// sortKey is one criterion by which hits are sorted.
type sortKey struct {
	expr         query.SQL
	kind         query.Kind
	descending   bool
	missingFirst bool
}

// shownField is a field that "fields" asks for.
type shownField struct {
	field *query.Field
	dates *query.Dates
}

// searchMembers are the members of a search's body. Grafana requests highlights of log lines, and
// sends an empty script_fields. This server returns no highlights.
var searchMembers = []string{
	"query", "from", "size", "sort", "search_after", "_source", "fields", "docvalue_fields", "aggs", "aggregations",
	"track_total_hits",
	"highlight", "script_fields",
}

// newRequest reads the body of a search.
func newRequest(m map[string]any, now time.Time) (*request, error) {
	r := &request{c: compiler{Compiler: query.Compiler{Now: now}, costly: map[string]int{}}, condition: query.Always,
		behind: query.Always}
	b := r.c.Read("search", m, searchMembers...)
	if scripts, ok := m["script_fields"].(map[string]any); b.Given("script_fields") && (!ok || len(scripts) > 0) {
		b.Fail(query.Unsupported("[script_fields]"))
	}
	if b.Given("query") {
		r.condition = r.c.Query(m["query"])
	}
	r.from, r.size = b.Whole("from", 0, 0, math.MaxInt64/2), b.Whole("size", 10, 0, math.MaxInt64/2)
	if r.from+r.size > maxWindow {
		b.Fail(query.Illegal("Result window is too large, from + size must be less than or equal to: [%d] but was [%d]. "+
			"Use search_after, or an export", maxWindow, r.from+r.size))
	}
	switch v := m["track_total_hits"].(type) {
	case nil:
		r.trackTotal = maxWindow
	case bool:
		r.trackTotal = -1
		if v {
			r.trackTotal = math.MaxInt64
		}
	default:
		r.trackTotal = b.Whole("track_total_hits", 0, -1, math.MaxInt32)
	}
	r.readSort(m["sort"])
	r.readAfter(m["search_after"])
	r.source = newSourceFilter(b)
	r.readFields("fields", m["fields"])
	r.readFields("docvalue_fields", m["docvalue_fields"])
	for _, name := range []string{"aggregations", "aggs"} {
		if b.Given(name) {
			r.aggregations = &aggregation{children: r.c.aggregations(m[name], 1)}
		}
	}
	return r, r.c.Err
}

// readSort reads the order of hits. The default is the order of arrival.
func (r *request) readSort(v any) {
	if v == nil {
		return
	}
	if n := len(query.List(v)); n > maxSorts {
		r.c.Fail(query.Illegal("sort: %d fields (want at most %d)", n, maxSorts))
	}
	for _, e := range query.List(v) {
		if name, ok := e.(string); ok {
			// In a parameter, a sort is written FIELD:desc. Names of members of documents may
			// contain colons, too.
			e = map[string]any{name: "asc"}
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				_, known := query.Fields[name[:i]]
				if order := strings.ToLower(name[i+1:]); known || order == "asc" || order == "desc" {
					e = map[string]any{name[:i]: order}
				}
			}
		}
		name, body := r.c.OnlyMember("sort", e)
		if _, ok := body.(map[string]any); !ok {
			body = map[string]any{"order": body}
		}
		if r.c.Err != nil {
			return
		}
		r.addSort(name, r.c.Read("sort."+name, body, "order", "missing", "unmapped_type"))
	}
}

func (r *request) addSort(name string, b *query.Body) {
	direction, missing := strings.ToLower(b.Text("order", "asc")), b.Text("missing", "_last")
	k := sortKey{expr: query.SQL{Text: "j.seq"}, kind: query.Long, descending: direction == "desc",
		missingFirst: missing == "_first"}
	if !k.descending && direction != "asc" {
		b.Fail(query.Illegal("Unknown sort order [%s]", direction))
	}
	if !k.missingFirst && missing != "_last" {
		b.Fail(query.Unsupported("[sort] with a [missing] of [%s]", missing))
	}
	if name != "_doc" && name != "_shard_doc" {
		f := r.c.Field(name)
		k.expr, k.kind = f.Expr, f.Kind
	}
	r.sorts = append(r.sorts, k)
}

// readAfter reads the sort values of the last hit that the client has received.
func (r *request) readAfter(v any) {
	if v == nil || r.c.Err != nil {
		return
	}
	after, ok := v.([]any)
	switch {
	case !ok:
		r.c.Fail(query.Parsing("[search_after] wants an array, not %s", query.KindOf(v)))
		return
	case len(after) != len(r.sorts) || len(after) == 0:
		r.c.Fail(query.Illegal("search_after has %d value(s) but sort has %d.", len(after), len(r.sorts)))
		return
	case r.from > 0:
		r.c.Fail(query.Illegal("`from` parameter must be set to 0 when `search_after` is used"))
	}
	var alternatives, equal []query.SQL
	for i, k := range r.sorts {
		same, behind := query.Expression("%s IS NULL", k.expr), query.Never
		if k.missingFirst {
			behind = query.Expression("%s IS NOT NULL", k.expr)
		}
		if after[i] != nil {
			at := r.sortValue(k, after[i])
			same = query.Expression("%s = %s", k.expr, at)
			operator := map[bool]string{false: ">", true: "<"}[k.descending]
			behind = query.Expression("%s "+operator+" %s", k.expr, at)
			if !k.missingFirst {
				behind = query.Expression("(%s OR %s IS NULL)", behind, k.expr)
			}
		}
		alternatives = append(alternatives, query.And(append(slices.Clone(equal), behind)))
		equal = append(equal, same)
	}
	r.behind = query.Or(alternatives)
}

// sortValue reads one value of search_after.
func (r *request) sortValue(k sortKey, v any) query.SQL {
	s := r.c.Scalar("search_after", v)
	switch k.kind {
	case query.Keyword:
		return query.Expression("%s::VARCHAR", query.Value(s))
	case query.Date:
		t, err := r.c.Dates("epoch_millis||strict_date_optional_time", time.UTC).Parse(s, false)
		r.c.Fail(err)
		return query.Expression("make_timestamp(%s::BIGINT)", query.Value(t.UnixMicro()))
	}
	return r.c.Numeric(&query.Field{Name: "search_after", Kind: k.kind}, s)
}

func (r *request) readFields(where string, v any) {
	if v == nil {
		return
	}
	for _, e := range query.List(v) {
		if name, ok := e.(string); ok {
			e = map[string]any{"field": name}
		}
		b := r.c.Read(where, e, "field", "format", "include_unmapped")
		name, format := b.Text("field", ""), b.Text("format", "")
		for _, f := range r.c.Matching(name) {
			s := shownField{field: f}
			if f.Kind == query.Date {
				s.dates = r.c.Dates(format, time.UTC)
			} else if format != "" && f.Name == name {
				b.Fail(query.Unsupported("[%s] of [%s] with a format of something else than dates", where, name))
			}
			r.fields = append(r.fields, s)
		}
		if len(r.fields) > maxFields {
			b.Fail(query.Illegal("[%s] names more than %d fields", where, maxFields))
			return
		}
	}
}

// tables returns the FROM clause and the condition of the request's statements.
func (r *request) tables() query.SQL {
	return query.Expression("%s WHERE %s AND %s", r.c.Tables(), r.indices, r.condition)
}

// count returns the number of jobs that match.
func (r *request) count(v *store.Snapshot) (n int64, err error) {
	statement := query.Expression("SELECT count(*) %s", r.tables())
	return n, v.Scan(statement.Text, statement.Args, &n)
}

// search runs a request.
func (s *Server) search(ctx context.Context, r *request) (answer map[string]any, err error) {
	begun := time.Now()
	hits := map[string]any{"max_score": nil, "hits": []any{}}
	answer = map[string]any{"timed_out": false, "_shards": shards(), "hits": hits}
	left := *r.left
	err = s.store.Read(ctx, func(v *store.Snapshot) error {
		*r.left = left // Read may call this function twice, so restore the budget
		if r.size > 0 {
			list, err := r.hits(v)
			if err != nil {
				return err
			}
			hits["hits"] = list
			if len(r.sorts) == 0 && len(list) > 0 {
				hits["max_score"] = 1.0
			}
		}
		count := int64(-1)
		if r.aggregations != nil {
			top, err := r.aggregations.run(v, r.tables())
			if err != nil {
				return err
			}
			count = top.count
			shown := map[string]any{}
			if err := (&results{typed: r.typedKeys}).below(r.aggregations, top, shown); err != nil {
				return err
			}
			answer["aggregations"] = shown
		}
		if r.trackTotal < 0 {
			return nil
		}
		if count < 0 {
			var err error
			if count, err = r.count(v); err != nil {
				return err
			}
		}
		relation := "eq"
		if count > r.trackTotal {
			count, relation = r.trackTotal, "gte"
		}
		hits["total"] = map[string]any{"value": count, "relation": relation}
		return nil
	})
	answer["took"] = time.Since(begun).Milliseconds()
	return answer, err
}

// statement returns the statement of one page. Its columns are the arrival number, _id, index, sort
// values and fields.
func (r *request) statement() query.SQL {
	columns := []query.SQL{{Text: "j.seq"}, {Text: "j.id"}, query.Fields["_index"].Expr}
	var order []string
	for i, k := range r.sorts {
		columns = append(columns, k.expr)
		order = append(order, fmt.Sprintf("%d %s NULLS %s", 4+i, map[bool]string{false: "ASC", true: "DESC"}[k.descending],
			map[bool]string{false: "LAST", true: "FIRST"}[k.missingFirst]))
	}
	order = append(order, "1")
	for _, f := range r.fields {
		columns = append(columns, f.field.Expr)
	}
	statement := query.Expression("SELECT %s %s AND %s", query.Join(columns, ", "), r.tables(), r.behind)
	statement.Text += fmt.Sprintf(" ORDER BY %s LIMIT %d OFFSET %d", strings.Join(order, ", "), r.size, r.from)
	return statement
}

// hits returns the jobs of one page, with their documents.
func (r *request) hits(v *store.Snapshot) (list []any, err error) {
	statement := r.statement()
	rows, err := v.Query(statement.Text, statement.Args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]any, 3+len(r.sorts)+len(r.fields))
	pointers := make([]any, len(values))
	for i := range values {
		pointers[i] = &values[i]
	}
	var seqs []int64
	list = []any{}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return nil, err
		}
		seqs = append(seqs, values[0].(int64))
		list = append(list, r.hit(values))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if r.source.none {
		return list, nil
	}
	return list, r.addSources(v, list, seqs)
}

// hit converts a row to a hit.
func (r *request) hit(values []any) map[string]any {
	hit := map[string]any{"_index": values[2], "_id": values[1], "_score": nil}
	if len(r.sorts) == 0 {
		hit["_score"] = 1.0
		values = values[3:]
	} else {
		sorted := make([]any, len(r.sorts))
		for i := range sorted {
			sorted[i] = finite(values[3+i])
			if t, ok := sorted[i].(time.Time); ok {
				sorted[i] = t.UnixMilli()
			}
		}
		hit["sort"] = sorted
		values = values[3+len(sorted):]
	}
	shown := map[string]any{}
	for i, f := range r.fields {
		x := finite(values[i])
		if t, ok := x.(time.Time); ok {
			x = f.dates.Format(t)
		}
		if x != nil {
			shown[f.field.Name] = []any{x}
		}
	}
	if len(shown) > 0 {
		hit["fields"] = shown
	}
	return hit
}

// addSources adds the documents to hits.
func (r *request) addSources(v *store.Snapshot, list []any, seqs []int64) error {
	documents, err := sources(v, seqs, r.left)
	if err != nil {
		return err
	}
	for i, seq := range seqs {
		source, err := r.source.apply(documents[seq])
		if err != nil {
			return err
		}
		list[i].(map[string]any)["_source"] = source
	}
	return nil
}

// sources returns documents by arrival number, and subtracts their sizes from the budget in the
// parameter left.
func sources(v *store.Snapshot, seqs []int64, left *int) (map[int64][]byte, error) {
	found := make(map[int64][]byte, len(seqs))
	err := v.Documents(seqs, func(seq int64, document []byte) error {
		if len(document) > *left {
			return query.Illegal("the documents of all hits of the request together have more than %d MiB "+
				"(want fewer hits, or \"_source\": false)", maxHitBytes>>20)
		}
		*left -= len(document)
		found[seq] = slices.Clone(document)
		return nil
	})
	return found, err
}

// asJSON returns a document as a JSON object. A document that is not UTF-8 is read as ISO 8859-1. A
// document that is not an object becomes the member "unparsed" of an object.
func asJSON(document []byte) json.RawMessage {
	if !utf8.Valid(document) {
		document = []byte(lines.UTF8(document))
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) == nil && object != nil {
		return document
	}
	text, _ := json.Marshal(map[string]string{"unparsed": string(document)}) // encoding a string never fails
	return text
}

// sourceFilter says which members of a document the document's hit contains.
type sourceFilter struct {
	none               bool
	includes, excludes []string
}

// maxPatterns is the highest number of patterns in a sourceFilter.
const maxPatterns = 256

// newSourceFilter reads the member _source.
func newSourceFilter(b *query.Body) (s sourceFilter) {
	switch v := b.Members["_source"].(type) {
	case nil:
	case bool:
		s.none = !v
	case string, []any:
		s.includes = b.Scalars("_source", v, maxPatterns)
	default:
		filter := b.Read("_source", v, "includes", "excludes")
		for name, to := range map[string]*[]string{"includes": &s.includes, "excludes": &s.excludes} {
			if filter.Given(name) {
				*to = b.Scalars("_source", filter.Members[name], maxPatterns)
			}
		}
	}
	return s
}

// apply returns the members of a document that pass the filter.
func (s *sourceFilter) apply(document []byte) (any, error) {
	text := asJSON(document)
	if len(s.includes)+len(s.excludes) == 0 {
		return text, nil
	}
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	return s.filter("", m, len(s.includes) == 0), nil
}

func (s *sourceFilter) filter(prefix string, m map[string]any, included bool) map[string]any {
	kept := map[string]any{}
	for name, v := range m {
		path := prefix + name
		listed := func(patterns []string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return query.Matches(p, path) })
		}
		if listed(s.excludes) {
			continue
		}
		in := included || listed(s.includes)
		if below, ok := v.(map[string]any); ok {
			if part := s.filter(path+".", below, in); len(part) > 0 || in {
				kept[name] = part
			}
		} else if in {
			kept[name] = v
		}
	}
	return kept
}
