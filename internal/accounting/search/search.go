package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/lines"
)

const (
	// maxWindow is how far from and size reach, as in Elasticsearch.
	maxWindow = 10_000
	// maxHitBytes bounds the documents of one answer: of all searches of a _msearch together.
	maxHitBytes = 64 << 20
	maxSorts    = 32
	maxFields   = 256 // of "fields" and "docvalue_fields"
)

// compiler makes statements of requests.
type compiler struct{ query.Compiler }

// request is a search, ready to run.
type request struct {
	c            compiler
	condition    query.SQL
	indices      query.SQL // condition of the index names
	from, size   int64
	sorts        []sortKey
	scored       bool      // hits have a score: there is no sort, or the request wants both
	behind       query.SQL // condition of hits behind search_after
	source       sourceFilter
	fields       []shownField
	aggregations *aggregation
	trackTotal   int64 // how many hits are counted at most; -1 means that the answer has no total
	totalAsInt   bool
	typedKeys    bool
	timeout      time.Duration
	left         *int // bytes of documents that the answer may still have; searches of a _msearch share it
}

// sortKey is something that hits are sorted by.
type sortKey struct {
	expr         query.SQL
	kind         query.Kind
	descending   bool
	missingFirst bool
	score        bool // all hits have the same
	dates        *query.Dates
}

// shownField is a field of "fields".
type shownField struct {
	field *query.Field
	dates *query.Dates
}

// searchMembers are the members of a search's body.
var searchMembers = []string{
	"query", "from", "size", "sort", "search_after", "_source", "fields", "docvalue_fields", "aggs", "aggregations", "track_total_hits",
	"timeout", "track_scores", "version", "explain", "profile", "stored_fields", "min_score", "terminate_after", "highlight", "post_filter", "script_fields", "runtime_mappings",
}

// refuse refuses members that are not supported.
func refuse(m map[string]any) error {
	// What would not change the answer is accepted: {"explain": false, "script_fields": {}}.
	for _, name := range []string{"version", "explain", "profile", "stored_fields", "min_score", "terminate_after", "highlight", "post_filter", "script_fields", "runtime_mappings"} {
		switch v := m[name].(type) {
		case nil:
			continue
		case bool:
			if !v {
				continue
			}
		case json.Number:
			if v == "0" {
				continue
			}
		case map[string]any:
			if len(v) == 0 {
				continue
			}
		case []any:
			if len(v) == 0 || name == "stored_fields" && len(v) == 1 && v[0] == "*" {
				continue
			}
		}
		return query.Unsupported("[%s]", name)
	}
	return nil
}

// newRequest reads the body of a search.
func newRequest(m map[string]any, now time.Time) (r *request, err error) {
	r = &request{c: compiler{query.Compiler{Now: now}}, condition: query.Always, indices: query.Always, behind: query.Always}
	if err := query.Known("search", m, searchMembers...); err != nil {
		return nil, err
	}
	if err := refuse(m); err != nil {
		return nil, err
	}
	if q := m["query"]; q != nil {
		if r.condition, err = r.c.Query(q); err != nil {
			return nil, err
		}
	}
	if r.from, err = query.Whole("search", m, "from", 0, 0, math.MaxInt64/2); err != nil {
		return nil, err
	}
	if r.size, err = query.Whole("search", m, "size", 10, 0, math.MaxInt64/2); err != nil {
		return nil, err
	}
	if r.from+r.size > maxWindow {
		return nil, query.Illegal("Result window is too large, from + size must be less than or equal to: [%d] but was [%d]. Use search_after, or an export", maxWindow, r.from+r.size)
	}
	if r.scored, err = query.Boolean("search", m, "track_scores", false); err != nil {
		return nil, err
	}
	if err := r.readSort(m["sort"]); err != nil {
		return nil, err
	}
	if err := r.readAfter(m["search_after"]); err != nil {
		return nil, err
	}
	if r.source, err = newSourceFilter(m["_source"]); err != nil {
		return nil, err
	}
	for _, name := range []string{"fields", "docvalue_fields"} {
		if err := r.readFields(name, m[name]); err != nil {
			return nil, err
		}
	}
	aggs := m["aggs"]
	if aggs == nil {
		aggs = m["aggregations"]
	}
	if aggs != nil {
		total := 0
		children, err := r.c.aggregations(aggs, 1, &total)
		if err != nil {
			return nil, err
		}
		r.aggregations = &aggregation{children: children}
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
		if r.trackTotal, err = query.Whole("search", m, "track_total_hits", 0, -1, math.MaxInt32); err != nil {
			return nil, err
		}
	}
	timeout, err := query.Text("search", m, "timeout", "")
	if err != nil || timeout == "" {
		return r, err
	}
	ms, err := millis(timeout)
	if err != nil {
		return nil, query.Illegal("failed to parse setting [timeout] with value [%s] as a time value", timeout)
	}
	r.timeout = time.Duration(ms) * time.Millisecond
	return r, nil
}

// asInt makes the total a number, as rest_total_hits_as_int asks. A number cannot say that there are more
// hits, so all are counted.
func (r *request) asInt(m map[string]any) error {
	r.totalAsInt = true
	switch v := m["track_total_hits"].(type) {
	case nil:
		r.trackTotal = math.MaxInt64
	case json.Number:
		if r.trackTotal >= 0 {
			return query.Illegal("[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got %s (want true, false or nothing)", v)
		}
	}
	return nil
}

// readSort reads what hits are sorted by. Without it they come in the order of their arrival.
func (r *request) readSort(v any) error {
	if v == nil {
		r.scored = true
		return nil
	}
	if len(query.List(v)) > maxSorts {
		return query.Illegal("sort: %d fields (want at most %d)", len(query.List(v)), maxSorts)
	}
	for _, e := range query.List(v) {
		var name string
		options := map[string]any{}
		switch e := e.(type) {
		case string:
			// From a parameter: "FIELD:desc". Names of members of documents may have colons themselves.
			name = e
			if i := strings.LastIndexByte(e, ':'); i >= 0 {
				_, known := query.Fields[e[:i]]
				if order := strings.ToLower(e[i+1:]); known || order == "asc" || order == "desc" {
					name, options["order"] = e[:i], e[i+1:]
				}
			}
		default:
			n, body, err := query.Only("sort", e)
			if err != nil {
				return err
			}
			name = n
			if m, ok := body.(map[string]any); ok {
				options = m
			} else {
				options["order"] = body
			}
		}
		if err := r.addSort(name, options); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) addSort(name string, m map[string]any) error {
	if err := query.Known("sort."+name, m, "order", "missing", "unmapped_type", "format"); err != nil {
		return err
	}
	byDefault := "asc"
	if name == "_score" {
		byDefault = "desc"
	}
	direction, err := query.Text("sort", m, "order", byDefault)
	if err != nil {
		return err
	}
	k := sortKey{kind: query.Long}
	switch strings.ToLower(direction) {
	case "asc":
	case "desc":
		k.descending = true
	default:
		return query.Illegal("Unknown sort order [%s]", direction)
	}
	missing, err := query.Text("sort", m, "missing", "_last")
	if err != nil {
		return err
	}
	switch missing {
	case "_last":
	case "_first":
		k.missingFirst = true
	default:
		return query.Unsupported("[sort] with a [missing] of [%s]", missing)
	}
	format, err := query.Text("sort", m, "format", "")
	if err != nil {
		return err
	}
	switch name {
	case "_score":
		k.score = true
		r.scored = true
	case "_doc", "_shard_doc":
		k.expr = query.SQL{Text: "j.seq"}
	default:
		f, err := r.c.Field(name)
		if err != nil {
			return err
		}
		k.expr, k.kind = f.Expr, f.Kind
	}
	switch {
	case format == "":
	case k.kind != query.Date:
		return query.Unsupported("[sort.%s] with a format of something else than dates", name)
	default:
		if k.dates, err = query.NewDates(format, time.UTC, r.c.Now); err != nil {
			return err
		}
	}
	r.sorts = append(r.sorts, k)
	return nil
}

// readAfter reads the values of the last hit that the client has.
func (r *request) readAfter(v any) error {
	if v == nil {
		return nil
	}
	after, ok := v.([]any)
	if !ok {
		return query.Parsing("[search_after] wants an array, not %s", query.KindOf(v))
	}
	if len(after) != len(r.sorts) || len(after) == 0 {
		return query.Illegal("search_after has %d value(s) but sort has %d.", len(after), len(r.sorts))
	}
	if r.from > 0 {
		return query.Illegal("`from` parameter must be set to 0 when `search_after` is used")
	}
	var alternatives []query.SQL
	var equal []query.SQL
	for i, k := range r.sorts {
		if k.score {
			continue // all are equal
		}
		var same, behind query.SQL
		if after[i] == nil {
			same = query.Expression("%s IS NULL", k.expr)
			behind = query.Never
			if k.missingFirst {
				behind = query.Expression("%s IS NOT NULL", k.expr)
			}
		} else {
			at, err := r.sortValue(k, after[i])
			if err != nil {
				return err
			}
			same = query.Expression("%s = %s", k.expr, at)
			operator := " > "
			if k.descending {
				operator = " < "
			}
			behind = query.Expression("%s"+operator+"%s", k.expr, at)
			if !k.missingFirst {
				behind = query.Expression("(%s OR %s IS NULL)", behind, k.expr)
			}
		}
		alternatives = append(alternatives, query.And(append(slices.Clone(equal), behind)))
		equal = append(equal, same)
	}
	r.behind = query.Or(alternatives)
	return nil
}

// sortValue reads a value of search_after.
func (r *request) sortValue(k sortKey, v any) (query.SQL, error) {
	s, err := query.Scalar("search_after", v)
	if err != nil {
		return query.SQL{}, err
	}
	switch k.kind {
	case query.Keyword:
		return query.Expression("%s::VARCHAR", query.Value(s)), nil
	case query.Date:
		d := k.dates
		if d == nil || !strings.ContainsAny(s, "-/: T") {
			if d, err = query.NewDates("epoch_millis||strict_date_optional_time", time.UTC, r.c.Now); err != nil {
				return query.SQL{}, err
			}
		}
		t, err := d.Parse(s, false)
		return query.Expression("make_timestamp(%s::BIGINT)", query.Value(t.UnixMicro())), err
	}
	return query.Numeric(&query.Field{Name: "search_after", Kind: k.kind}, s)
}

func (r *request) readFields(where string, v any) error {
	if v == nil {
		return nil
	}
	for _, e := range query.List(v) {
		format := ""
		if m, ok := e.(map[string]any); ok {
			if err := query.Known(where, m, "field", "format", "include_unmapped"); err != nil {
				return err
			}
			var err error
			if format, err = query.Text(where, m, "format", ""); err != nil {
				return err
			}
			e = m["field"]
		}
		name, err := query.Scalar(where, e)
		if err != nil {
			return err
		}
		found, err := query.Matching(name)
		if err != nil {
			return err
		}
		for _, f := range found {
			s := shownField{field: f}
			r.c.Raw = r.c.Raw || f.Raw
			if f.Kind == query.Date {
				if s.dates, err = query.NewDates(format, time.UTC, r.c.Now); err != nil {
					return err
				}
			} else if format != "" && f.Name == name {
				return query.Unsupported("[%s] of [%s] with a format of something else than dates", where, name)
			}
			r.fields = append(r.fields, s)
		}
	}
	if len(r.fields) > maxFields {
		return query.Illegal("[%s] names %d fields (want at most %d)", where, len(r.fields), maxFields)
	}
	return nil
}

// tables is the part of a statement from FROM on.
func (r *request) tables() query.SQL {
	tables := "FROM jobs j"
	if r.c.Raw {
		tables += " LEFT JOIN documents d ON d.seq = j.seq"
	}
	return query.Expression(tables+" WHERE %s AND %s", r.indices, r.condition)
}

// count counts the jobs that match.
func (r *request) count(v *store.Snapshot) (n int64, err error) {
	statement := query.Expression("SELECT count(*) %s", r.tables())
	return n, v.One(statement.Text, statement.Args, &n)
}

// search runs a request.
func (s *Server) search(ctx context.Context, r *request) (answer map[string]any, err error) {
	begun := time.Now()
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("%w (the request's timeout: %v)", store.ErrReadTime, r.timeout))
		defer cancel()
	}
	answer = map[string]any{
		"timed_out": false,
		"_shards":   map[string]any{"total": 1, "successful": 1, "skipped": 0, "failed": 0},
	}
	err = s.store.Read(ctx, func(v *store.Snapshot) error {
		hits := map[string]any{"max_score": nil, "hits": []any{}}
		answer["hits"] = hits
		if r.size > 0 {
			list, err := r.hits(v)
			if err != nil {
				return err
			}
			hits["hits"] = list
			if r.scored && len(list) > 0 {
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
			if r.totalAsInt {
				hits["total"] = -1
			}
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
		if r.totalAsInt {
			hits["total"] = count
		}
		return nil
	})
	answer["took"] = time.Since(begun).Milliseconds()
	return answer, err
}

// hits finds the jobs of one page, and then their documents.
func (r *request) hits(v *store.Snapshot) (list []any, err error) {
	columns := []query.SQL{{Text: "j.seq"}, {Text: "j.id"}, query.Fields["_index"].Expr}
	var order []string
	for i, k := range r.sorts {
		if k.score {
			columns = append(columns, query.SQL{Text: "1"})
			continue
		}
		columns = append(columns, k.expr)
		direction := " ASC"
		if k.descending {
			direction = " DESC"
		}
		nulls := " NULLS LAST"
		if k.missingFirst {
			nulls = " NULLS FIRST"
		}
		order = append(order, strconv.Itoa(4+i)+direction+nulls)
	}
	order = append(order, "1")
	for _, f := range r.fields {
		columns = append(columns, f.field.Expr)
	}
	statement := query.Expression("SELECT %s %s AND %s", query.Join(columns, ", "), r.tables(), r.behind)
	statement.Text += " ORDER BY " + strings.Join(order, ", ") + fmt.Sprintf(" LIMIT %d OFFSET %d", r.size, r.from)
	rows, err := v.Query(statement.Text, statement.Args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]any, len(columns))
	pointers := make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	var seqs []int64
	list = []any{}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return nil, err
		}
		hit := map[string]any{"_index": values[2], "_id": values[1], "_score": nil}
		if r.scored {
			hit["_score"] = 1.0
		}
		if len(r.sorts) > 0 {
			sorted := make([]any, len(r.sorts))
			for i, k := range r.sorts {
				sorted[i] = k.show(values[3+i])
			}
			hit["sort"] = sorted
		}
		shown := map[string]any{}
		for i, f := range r.fields {
			if x := f.show(values[3+len(r.sorts)+i]); x != nil {
				shown[f.field.Name] = []any{x}
			}
		}
		if len(shown) > 0 {
			hit["fields"] = shown
		}
		seqs = append(seqs, values[0].(int64))
		list = append(list, hit)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if r.source.none {
		return list, nil
	}
	return list, r.addSources(v, list, seqs)
}

// addSources adds the documents of hits.
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

// show returns a sort value as an answer has it: dates in milliseconds since 1970.
func (k *sortKey) show(v any) any {
	t, ok := v.(time.Time)
	switch {
	case k.score:
		return 1.0
	case ok && k.dates != nil:
		return k.dates.Format(t)
	case ok:
		return t.UnixMilli()
	}
	return finite(v)
}

func (f *shownField) show(v any) any {
	if t, ok := v.(time.Time); ok {
		return f.dates.Format(t)
	}
	return finite(v)
}

// sources returns the documents of arrivals, and takes their bytes from those that are left.
func sources(v *store.Snapshot, seqs []int64, left *int) (map[int64][]byte, error) {
	found := make(map[int64][]byte, len(seqs))
	sorted := slices.Clone(seqs)
	slices.Sort(sorted)
	for part := range slices.Chunk(sorted, 1000) {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(part)), ", ")
		args := []any{part[0], part[len(part)-1]}
		for _, seq := range part {
			args = append(args, seq)
		}
		// The bounds let the database skip parts of the table by their least and greatest numbers.
		rows, err := v.Query("SELECT seq, document FROM documents WHERE seq BETWEEN ? AND ? AND seq IN ("+marks+")", args...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var seq int64
			var document []byte
			if err := rows.Scan(&seq, &document); err != nil {
				_ = rows.Close()
				return nil, err
			}
			if len(document) > *left {
				_ = rows.Close()
				return nil, query.Illegal("the documents of the hits, of all searches of a request together, have more than %d MiB: ask for fewer, or for \"_source\": false", maxHitBytes>>20)
			}
			*left -= len(document)
			found[seq] = document
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// asJSON returns a document as a JSON object. Bytes that are not UTF-8 are read as ISO 8859-1. A
// document that is no object becomes the member "unparsed" of one.
func asJSON(document []byte) json.RawMessage {
	if !utf8.Valid(document) {
		document = []byte(lines.UTF8(document))
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) == nil && object != nil {
		return document
	}
	text, _ := json.Marshal(map[string]string{"unparsed": string(document)}) // a string never fails
	return text
}

// sourceFilter says which members of documents hits have.
type sourceFilter struct {
	none               bool
	includes, excludes []string
}

// maxPatterns is how many patterns a filter of members may have.
const maxPatterns = 256

func newSourceFilter(v any) (s sourceFilter, err error) {
	patterns := func(v any) (list []string, err error) {
		elements, ok := v.([]any)
		if !ok && v != nil {
			elements = []any{v}
		}
		for _, e := range elements {
			p, err := query.Scalar("_source", e)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
		if len(list) > maxPatterns {
			return nil, query.Illegal("_source: %d patterns (want at most %d)", len(list), maxPatterns)
		}
		return list, nil
	}
	switch v := v.(type) {
	case nil:
	case bool:
		s.none = !v
	case string, []any:
		s.includes, err = patterns(v)
	case map[string]any:
		if err := query.Known("_source", v, "includes", "include", "excludes", "exclude"); err != nil {
			return s, err
		}
		for name, to := range map[string]*[]string{"includes": &s.includes, "include": &s.includes, "excludes": &s.excludes, "exclude": &s.excludes} {
			more, err := patterns(v[name])
			if err != nil {
				return s, err
			}
			*to = append(*to, more...)
		}
	default:
		err = query.Parsing("Expected one of [VALUE_BOOLEAN, VALUE_STRING, START_ARRAY, START_OBJECT] for [_source] but found [%s]", query.KindOf(v))
	}
	return s, err
}

// apply returns the members of a document that the filter lets through.
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
