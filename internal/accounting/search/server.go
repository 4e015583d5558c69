// Package search answers the part of Elasticsearch's REST API that reads: searches, aggregations,
// counts, documents and mappings, over the store of finished jobs. docs/ACCOUNTING-API.md lists it.
//
// A request becomes statements of SQL. Their texts consist of constants of this package and names
// of columns; what a client sends becomes an argument of a statement, and never a part of its text.
//
// The fields are the keys of Slurm's documents, with the types of the store's columns. Strings are
// keywords: a match is one of the whole value. A key without a column can be searched too: it is
// looked up in each document, which is slow. There are no scores: every hit has 1.
//
// What Elasticsearch can do and this package cannot is an error that names it.
package search

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
)

// Version is the release of Elasticsearch whose API this is. Clients look at its first number.
const Version = "9.1.0"

const (
	maxBody     = 1 << 20 // of a search
	maxManyBody = 10 << 20
	maxSearches = 1000 // in one _msearch
)

// Options configures [Register].
type Options struct {
	// Now returns the time that "now" means; nil means time.Now.
	Now func() time.Time
	// Refresh returns when searches find every document that was accepted before; nil means that they
	// always do.
	Refresh func(ctx context.Context) error
}

// Server answers searches in a store.
type Server struct {
	store *store.Store
	Options
	routes   []string // patterns of the multiplexer
	hitBytes int      // maxHitBytes; less in tests

	mu      sync.Mutex
	indices map[string]bool // names that were seen
}

// Register adds the paths of the API that read to a multiplexer. Every other path that begins with
// a slash gets an error in the form of Elasticsearch's.
func Register(mux *http.ServeMux, s *store.Store, opts Options) *Server {
	server := &Server{store: s, Options: opts, hitBytes: maxHitBytes, indices: map[string]bool{}}
	if server.Now == nil {
		server.Now = time.Now
	}
	handle := func(do func(w *answer, r *http.Request) error, patterns ...string) {
		server.routes = append(server.routes, patterns...)
		for _, p := range patterns {
			mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) { serve(do, w, r) })
		}
	}
	both := func(paths ...string) (patterns []string) {
		for _, p := range paths {
			patterns = append(patterns, "GET "+p, "POST "+p)
		}
		return patterns
	}
	handle(server.root, "GET /{$}")
	handle(server.health, "GET /_cluster/health", "GET /_cluster/health/{index}")
	handle(server.catIndices, "GET /_cat/indices", "GET /_cat/indices/{index}")
	handle(server.getDocument, "GET /{index}/_doc/{id}")
	handle(server.getSource, "GET /{index}/_source/{id}")
	handle(server.searchOne, both("/_search", "/{index}/_search")...)
	handle(server.countOne, both("/_count", "/{index}/_count")...)
	handle(server.searchMany, both("/_msearch", "/{index}/_msearch")...)
	handle(server.mapping, "GET /_mapping", "GET /{index}/_mapping")
	handle(server.fieldCaps, both("/_field_caps", "/{index}/_field_caps")...)
	handle(server.refresh, both("/_refresh", "/{index}/_refresh")...)
	handle(server.index, "GET /{index}")
	handle(func(_ *answer, r *http.Request) error {
		return query.Fault(http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf("no handler found for uri [%s] and method [%s]", r.URL.Path, r.Method))
	}, "/")
	return server
}

// Routes returns the patterns of the paths, as [http.ServeMux] has them. The last one is for all others.
func (s *Server) Routes() []string { return slices.Clone(s.routes) }

// answer is what a handler answers.
type answer struct {
	status int
	body   any    // JSON
	text   string // instead of body
}

// common are parameters of all paths.
var common = []string{"pretty", "human", "error_trace", "filter_path", "format"}

// serve calls a handler and writes its answer.
func serve(do func(w *answer, r *http.Request) error, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	a := &answer{status: http.StatusOK}
	filter, err := newPathFilter(r.URL.Query().Get("filter_path"))
	if err == nil {
		err = do(a, r)
	}
	if err != nil {
		fault := query.AsError(err)
		a = &answer{status: fault.Status, body: fault.Body()}
	}
	if a.text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.text) // the client may have gone
		return
	}
	body := a.body
	query := r.URL.Query()
	if a.status < 300 {
		body = filter.apply(body)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if query.Has("pretty") && query.Get("pretty") != "false" {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType(r))
	w.WriteHeader(a.status)
	_, _ = w.Write(buffer.Bytes()) // the client may have gone
}

// contentType is JSON in the version that the client asks for: a client accepts no other.
func contentType(r *http.Request) string {
	accept := r.Header.Get("Accept")
	if kind, parameters, err := mime.ParseMediaType(accept); err == nil && kind == "application/vnd.elasticsearch+json" {
		if v := parameters["compatible-with"]; v == "8" || v == "9" {
			return kind + ";compatible-with=" + v
		}
	}
	return "application/json"
}

// changes reports whether a parameter has a value that would change an answer in a way that this server does
// not support. Parameters with other values that do are on no list.
func changes(name, value string) bool {
	switch name {
	case "format":
		return value != "json" && value != "text"
	case "expand_wildcards": // all indices are open
		list := strings.Split(value, ",")
		return slices.Contains(list, "none") || !slices.Contains(list, "open") && !slices.Contains(list, "all")
	case "include_empty_fields":
		return value == "false"
	case "flat_settings", "include_defaults":
		return value != "false"
	case "health":
		return value != "green"
	case "s": // how _cat/indices is sorted
		return value != "index" && value != "index:asc"
	}
	return false
}

// parameters returns the parameters of a request. Those that it does not name are an error.
func parameters(r *http.Request, names ...string) (url.Values, error) {
	values := r.URL.Query()
	for name, list := range values {
		if !slices.Contains(names, name) && !slices.Contains(common, name) {
			return nil, query.Illegal("request [%s] contains unrecognized parameter: [%s]", r.URL.Path, name)
		}
		for i := range list {
			list[i] = strings.ToValidUTF8(list[i], "\uFFFD")
			if changes(name, list[i]) {
				return nil, query.Unsupported("the parameter [%s] with [%s]", name, list[i])
			}
		}
	}
	return values, nil
}

// flag returns the truth value of a parameter: "?x" and "?x=true" are true.
func flag(values url.Values, name string) bool {
	return values.Has(name) && values.Get(name) != "false"
}

// readBody reads a JSON object. An empty body is an empty object.
func readBody(r *http.Request, most int64) (map[string]any, error) {
	text, err := readAll(r, most)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func readAll(r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	var from io.Reader = r.Body
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		inflated, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, query.Parsing("reading the body: %v", err)
		}
		from = inflated
	default:
		return nil, query.Unsupported("the Content-Encoding [%s]", encoding)
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, query.Parsing("reading the body: %v", err)
	case int64(len(text)) > most:
		return nil, query.Fault(http.StatusRequestEntityTooLarge, "content_too_long_exception", fmt.Sprintf("the body has more than %d bytes", most))
	}
	return text, nil
}

func decode(text []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(text) {
		return nil, query.Parsing("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, query.Parsing("the body is no JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, query.Parsing("the body has something behind its JSON object")
	}
	return query.Object("body", v)
}

func (s *Server) root(a *answer, r *http.Request) error {
	a.body = map[string]any{
		"name": "rmreplay", "cluster_name": "rmreplay", "cluster_uuid": "rmreplay-accounting",
		"version": map[string]any{
			"number": Version, "build_flavor": "default", "build_type": "rmreplay", "build_hash": "unknown", "build_date": "2025-01-01T00:00:00.000Z",
			"build_snapshot": false, "lucene_version": "10.0.0", "minimum_wire_compatibility_version": "8.18.0", "minimum_index_compatibility_version": "8.0.0",
		},
		"tagline": "You Know, for Search",
	}
	return nil
}

func (s *Server) health(a *answer, r *http.Request) error {
	a.body = map[string]any{
		"cluster_name": "rmreplay", "status": "green", "timed_out": false, "number_of_nodes": 1, "number_of_data_nodes": 1,
		"active_primary_shards": 1, "active_shards": 1, "relocating_shards": 0, "initializing_shards": 0, "unassigned_shards": 0,
		"delayed_unassigned_shards": 0, "number_of_pending_tasks": 0, "number_of_in_flight_fetch": 0, "task_max_waiting_in_queue_millis": 0,
		"active_shards_percent_as_number": 100.0,
	}
	return nil
}

// refreshTime bounds how long a refresh waits.
const refreshTime = 30 * time.Second

// wait waits until searches find what was accepted before.
func (s *Server) wait(r *http.Request) error {
	if s.Refresh == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), refreshTime)
	defer cancel()
	if err := s.Refresh(ctx); err != nil {
		return query.Fault(http.StatusServiceUnavailable, "unavailable_exception", fmt.Sprintf("waiting for accepted documents: %v", err))
	}
	return nil
}

func (s *Server) refresh(a *answer, r *http.Request) error {
	a.body = map[string]any{"_shards": map[string]any{"total": 1, "successful": 1, "failed": 0}}
	return s.wait(r)
}

// target makes the condition of the index names of a path: names and patterns separated by commas, with
// a minus sign for those that are left out. Names without a job are an error unless p has
// ignore_unavailable, and patterns if p has allow_no_indices=false.
func (s *Server) target(r *http.Request, path string, p url.Values) (query.SQL, error) {
	mayMatchNone := p.Get("allow_no_indices") != "false"
	if path = cmp.Or(path, "_all"); mayMatchNone && (path == "_all" || path == "*") {
		return query.Always, nil
	}
	if len(path) > 4096 {
		return query.SQL{}, query.Illegal("index names of %d bytes (want at most 4096)", len(path))
	}
	path = strings.ToValidUTF8(path, "\uFFFD")
	index := query.Fields["_index"].Expr
	var names, excluded []query.SQL
	for _, name := range strings.Split(path, ",") {
		pattern, out := strings.CutPrefix(name, "-")
		if !out {
			pattern = name
		}
		condition, mayLack := query.Expression("%s = %s", index, query.Value(pattern)), flag(p, "ignore_unavailable")
		if strings.Contains(pattern, "*") || pattern == "_all" {
			mayLack = mayMatchNone
			if pattern == "_all" {
				pattern = "*"
			}
			like := query.LikePattern(strings.NewReplacer(`\`, `\\`, `?`, `\?`).Replace(pattern))
			condition = query.Expression(`%s LIKE %s ESCAPE '\'`, index, query.Value(like))
		}
		if out {
			excluded = append(excluded, query.Not(condition))
			continue
		}
		if !mayLack {
			if err := s.exists(r, pattern, condition); err != nil {
				return query.SQL{}, err
			}
		}
		names = append(names, condition)
	}
	if len(names) == 0 && len(excluded) > 0 {
		return query.And(excluded), nil
	}
	return query.And(append(excluded, query.Or(names))), nil
}

// exists fails for the name of an index, or for a pattern, that no job came to.
func (s *Server) exists(r *http.Request, name string, condition query.SQL) error {
	s.mu.Lock()
	seen := s.indices[name]
	s.mu.Unlock()
	if seen {
		return nil
	}
	var n int64
	err := s.store.Read(r.Context(), func(v *store.Snapshot) error {
		return v.One("SELECT count(*) FROM (SELECT 1 FROM jobs j WHERE "+condition.Text+" LIMIT 1)", condition.Args, &n)
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return query.Fault(http.StatusNotFound, "index_not_found_exception", "no such index ["+name+"]")
	}
	if !strings.Contains(name, "*") { // there are as many names as indices, but any number of patterns
		s.mu.Lock()
		s.indices[name] = true
		s.mu.Unlock()
	}
	return nil
}

// indexParameters are those of paths with index names.
var indexParameters = []string{"index", "ignore_unavailable", "allow_no_indices", "expand_wildcards", "ignore_throttled", "preference", "routing", "local", "master_timeout", "timeout"}

// indexOf returns the index names of a request. As in Elasticsearch, they may be a parameter instead of a
// part of the path; go-elasticsearch's Msearch sends both.
func indexOf(r *http.Request) string {
	return strings.ToValidUTF8(cmp.Or(r.PathValue("index"), r.URL.Query().Get("index")), "\uFFFD")
}

// searchParameters are those of a search.
var searchParameters = append([]string{
	"q", "df", "default_operator", "analyze_wildcard", "lenient", "sort", "from", "size", "_source", "_source_includes", "_source_excludes", "track_total_hits",
	"rest_total_hits_as_int", "typed_keys", "request_cache", "search_type", "batched_reduce_size", "max_concurrent_shard_requests", "ccs_minimize_roundtrips",
	"pre_filter_shard_size", "allow_partial_search_results",
}, indexParameters...)

// fromParameters puts the parameters of a search into its body, in which they win.
func fromParameters(m map[string]any, p url.Values) error {
	if q := p.Get("q"); q != "" {
		query := map[string]any{"query": q}
		for from, to := range map[string]string{"df": "default_field", "default_operator": "default_operator", "lenient": "lenient"} {
			if p.Has(from) {
				query[to] = p.Get(from)
			}
		}
		m["query"] = map[string]any{"query_string": query}
	}
	for _, name := range []string{"from", "size"} {
		if p.Has(name) {
			m[name] = json.Number(p.Get(name))
		}
	}
	if p.Has("timeout") {
		m["timeout"] = p.Get("timeout")
	}
	if p.Has("sort") {
		var list []any
		for _, e := range strings.Split(p.Get("sort"), ",") {
			list = append(list, e)
		}
		m["sort"] = list
	}
	switch t := p.Get("track_total_hits"); t {
	case "":
	case "true", "false":
		m["track_total_hits"] = t == "true"
	default:
		m["track_total_hits"] = json.Number(t)
	}
	return sourceParameters(m, p)
}

// sourceParameters puts the parameters about _source into a body.
func sourceParameters(m map[string]any, p url.Values) error {
	split := func(text string) (list []any) {
		for _, e := range strings.Split(text, ",") {
			list = append(list, e)
		}
		return list
	}
	switch v := p.Get("_source"); v {
	case "":
	case "true", "false":
		m["_source"] = v == "true"
	default:
		m["_source"] = split(v)
	}
	if p.Has("_source_includes") || p.Has("_source_excludes") {
		filter := map[string]any{}
		for _, side := range []string{"includes", "excludes"} {
			if p.Has("_source_" + side) {
				filter[side] = split(p.Get("_source_" + side))
			}
		}
		m["_source"] = filter
	}
	return nil
}

// prepare makes a request of a body and parameters.
func (s *Server) prepare(r *http.Request, body map[string]any, p url.Values, index string) (*request, error) {
	if err := fromParameters(body, p); err != nil {
		return nil, err
	}
	q, err := newRequest(body, s.Now())
	if err != nil {
		return nil, err
	}
	if q.indices, err = s.target(r, index, p); err != nil {
		return nil, err
	}
	left := s.hitBytes
	q.left, q.typedKeys = &left, flag(p, "typed_keys")
	if flag(p, "rest_total_hits_as_int") {
		return q, q.asInt(body)
	}
	return q, nil
}

func (s *Server) searchOne(a *answer, r *http.Request) error {
	p, err := parameters(r, searchParameters...)
	if err != nil {
		return err
	}
	body, err := readBody(r, maxBody)
	if err != nil {
		return err
	}
	q, err := s.prepare(r, body, p, indexOf(r))
	if err != nil {
		return err
	}
	a.body, err = s.search(r.Context(), q)
	return err
}

func (s *Server) countOne(a *answer, r *http.Request) error {
	p, err := parameters(r, append([]string{"q", "df", "default_operator", "analyze_wildcard", "lenient"}, indexParameters...)...)
	if err != nil {
		return err
	}
	body, err := readBody(r, maxBody)
	if err != nil {
		return err
	}
	if err := query.Known("count", body, "query"); err != nil {
		return err
	}
	q, err := s.prepare(r, body, p, indexOf(r))
	if err != nil {
		return err
	}
	var n int64
	err = s.store.Read(r.Context(), func(v *store.Snapshot) (err error) {
		n, err = q.count(v)
		return err
	})
	a.body = map[string]any{"count": n, "_shards": map[string]any{"total": 1, "successful": 1, "skipped": 0, "failed": 0}}
	return err
}

// listed returns the values of a member of a header as a parameter has them, with commas.
func listed(name string, v any) (string, error) {
	var list []string
	for _, e := range query.List(v) {
		text, err := query.Scalar(name, e)
		if err != nil {
			return "", err
		}
		list = append(list, text)
	}
	return strings.Join(list, ","), nil
}

func (s *Server) searchMany(a *answer, r *http.Request) error {
	p, err := parameters(r, append([]string{"max_concurrent_searches", "rest_total_hits_as_int", "typed_keys", "search_type", "max_concurrent_shard_requests", "ccs_minimize_roundtrips", "pre_filter_shard_size"}, indexParameters...)...)
	if err != nil {
		return err
	}
	text, err := readAll(r, maxManyBody)
	if err != nil {
		return err
	}
	begun := time.Now()
	rows := bytes.Split(bytes.TrimRight(text, "\r\n"), []byte("\n"))
	if len(rows)%2 != 0 || len(text) == 0 {
		return query.Illegal("The msearch request must be terminated by a newline [\\n], and have a header and a body for each search")
	}
	if len(rows)/2 > maxSearches {
		return query.Illegal("%d searches (want at most %d)", len(rows)/2, maxSearches)
	}
	left := s.hitBytes
	one := func(header, body []byte) (map[string]any, error) {
		h, err := decode(header)
		if err != nil {
			return nil, err
		}
		if err := query.Known("msearch", h, "index", "search_type", "preference", "request_cache", "ignore_unavailable", "allow_no_indices", "expand_wildcards", "routing"); err != nil {
			return nil, err
		}
		index := indexOf(r)
		if v, given := h["index"]; given && v != nil {
			if index, err = listed("index", v); err != nil {
				return nil, err
			}
		}
		m, err := decode(body)
		if err != nil {
			return nil, err
		}
		own := url.Values{}
		for _, name := range []string{"rest_total_hits_as_int", "typed_keys"} {
			if p.Has(name) {
				own.Set(name, p.Get(name))
			}
		}
		for _, name := range []string{"ignore_unavailable", "allow_no_indices", "expand_wildcards"} {
			if v, given := h[name]; given {
				text, err := listed(name, v)
				if err != nil {
					return nil, err
				}
				if changes(name, text) {
					return nil, query.Unsupported("[msearch] with a [%s] of [%s]", name, text)
				}
				own.Set(name, text)
			}
		}
		q, err := s.prepare(r, m, own, index)
		if err != nil {
			return nil, err
		}
		q.left = &left
		return s.search(r.Context(), q)
	}
	responses := []any{}
	for i := 0; i+1 < len(rows); i += 2 {
		result, err := one(rows[i], rows[i+1])
		if err != nil {
			if r.Context().Err() != nil {
				return err
			}
			result = query.AsError(err).Body()
		} else {
			result["status"] = http.StatusOK
		}
		responses = append(responses, result)
	}
	a.body = map[string]any{"took": time.Since(begun).Milliseconds(), "responses": responses}
	return nil
}

// find returns a job's document by its _id.
func (s *Server) find(r *http.Request) (index string, seq int64, document []byte, found bool, err error) {
	cluster, job, run, ok := store.ParseID(strings.ToValidUTF8(r.PathValue("id"), "\uFFFD"))
	if !ok {
		return "", 0, nil, false, nil
	}
	target, err := s.target(r, indexOf(r), nil)
	if err != nil {
		return "", 0, nil, false, err
	}
	err = s.store.Read(r.Context(), func(v *store.Snapshot) error {
		statement := query.Expression("SELECT j.seq, "+query.Fields["_index"].Expr.Text+" FROM jobs j WHERE j.jobid = %s AND j.run = %s AND j.cluster = %s AND %s", query.Value(job), query.Value(run), query.Value(cluster), target)
		rows, err := v.Query(statement.Text, statement.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return rows.Err()
		}
		if err := rows.Scan(&seq, &index); err != nil {
			return err
		}
		if err := rows.Close(); err != nil {
			return err
		}
		document, found, err = v.Document(seq)
		return err
	})
	return index, seq, document, found, err
}

var documentParameters = append([]string{"_source", "_source_includes", "_source_excludes", "realtime", "refresh"}, indexParameters...)

// askedDocument reads the parameters of a document's paths and returns what they want of it. refresh waits
// until searches find every document that was accepted.
func (s *Server) askedDocument(r *http.Request) (filter sourceFilter, err error) {
	p, err := parameters(r, documentParameters...)
	if err != nil {
		return filter, err
	}
	m := map[string]any{}
	if err := sourceParameters(m, p); err != nil {
		return filter, err
	}
	if filter, err = newSourceFilter(m["_source"]); err == nil && flag(p, "refresh") {
		err = s.wait(r)
	}
	return filter, err
}

func (s *Server) getDocument(a *answer, r *http.Request) error {
	filter, err := s.askedDocument(r)
	if err != nil {
		return err
	}
	index, seq, document, found, err := s.find(r)
	if err != nil {
		return err
	}
	if !found {
		a.status = http.StatusNotFound
		a.body = map[string]any{"_index": indexOf(r), "_id": r.PathValue("id"), "found": false}
		return nil
	}
	body := map[string]any{"_index": index, "_id": r.PathValue("id"), "_version": 1, "_seq_no": seq, "_primary_term": 1, "found": true}
	if !filter.none {
		if body["_source"], err = filter.apply(document); err != nil {
			return err
		}
	}
	a.body = body
	return nil
}

func (s *Server) getSource(a *answer, r *http.Request) error {
	filter, err := s.askedDocument(r)
	if err != nil {
		return err
	}
	if filter.none {
		return query.Illegal("fetching source can not be disabled: [_source] of this path wants true or names")
	}
	_, _, document, found, err := s.find(r)
	if err != nil {
		return err
	}
	if !found {
		return query.Fault(http.StatusNotFound, "resource_not_found_exception", "Document not found ["+indexOf(r)+"]/["+r.PathValue("id")+"]")
	}
	a.body, err = filter.apply(document)
	return err
}

// properties are the mapping of all fields with columns.
func properties() map[string]any {
	all := map[string]any{}
	for _, name := range query.Names {
		f := query.Fields[name]
		if f.Metadata() {
			continue
		}
		p := map[string]any{"type": string(f.Kind)}
		if f.Kind == query.Keyword {
			p["fields"] = map[string]any{"keyword": map[string]any{"type": "keyword"}}
		}
		all[name] = p
	}
	return all
}

// known indices are those that jobs came to.
func (s *Server) list(r *http.Request, path string) (list []indexInfo, err error) {
	target, err := s.target(r, path, r.URL.Query())
	if err != nil {
		return nil, err
	}
	index := query.Fields["_index"].Expr.Text
	err = s.store.Read(r.Context(), func(v *store.Snapshot) error {
		rows, err := v.Query("SELECT "+index+", count(*) FROM jobs j WHERE "+target.Text+" GROUP BY 1 ORDER BY 1 LIMIT 10000", target.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i indexInfo
			if err := rows.Scan(&i.name, &i.jobs); err != nil {
				return err
			}
			list = append(list, i)
		}
		return rows.Err()
	})
	return list, err
}

type indexInfo struct {
	name string
	jobs int64
}

func (s *Server) mapping(a *answer, r *http.Request) error {
	if _, err := parameters(r, indexParameters...); err != nil {
		return err
	}
	list, err := s.list(r, indexOf(r))
	body := map[string]any{}
	for _, i := range list {
		body[i.name] = map[string]any{"mappings": map[string]any{"properties": properties()}}
	}
	a.body = body
	return err
}

func (s *Server) index(a *answer, r *http.Request) error {
	if _, err := parameters(r, append([]string{"flat_settings", "include_defaults"}, indexParameters...)...); err != nil {
		return err
	}
	list, err := s.list(r, indexOf(r))
	body := map[string]any{}
	for _, i := range list {
		body[i.name] = map[string]any{
			"aliases": map[string]any{}, "mappings": map[string]any{"properties": properties()},
			"settings": map[string]any{"index": map[string]any{"number_of_shards": "1", "number_of_replicas": "0", "provided_name": i.name}},
		}
	}
	a.body = body
	return err
}

func (s *Server) catIndices(a *answer, r *http.Request) error {
	p, err := parameters(r, append([]string{"h", "v", "s", "bytes", "time", "health", "include_unloaded_segments"}, indexParameters...)...)
	if err != nil {
		return err
	}
	list, err := s.list(r, indexOf(r))
	if err != nil {
		return err
	}
	columns := []string{"health", "status", "index", "pri", "rep", "docs.count"}
	if h := p.Get("h"); h != "" {
		for _, c := range strings.Split(h, ",") {
			if !slices.Contains(columns, c) {
				return query.Unsupported("the column [%s] of _cat/indices", c)
			}
		}
		columns = strings.Split(h, ",")
	}
	rows := []any{}
	var text strings.Builder
	if flag(p, "v") {
		text.WriteString(strings.Join(columns, " ") + "\n")
	}
	for _, i := range list {
		all := map[string]string{"health": "green", "status": "open", "index": i.name, "pri": "1", "rep": "0", "docs.count": strconv.FormatInt(i.jobs, 10)}
		row, values := map[string]any{}, []string{}
		for _, c := range columns {
			row[c] = all[c]
			values = append(values, all[c])
		}
		rows = append(rows, row)
		text.WriteString(strings.Join(values, " ") + "\n")
	}
	a.body = rows
	if p.Get("format") != "json" && !strings.Contains(r.Header.Get("Accept"), "json") {
		a.text = text.String() + "\n"
	}
	return nil
}

func (s *Server) fieldCaps(a *answer, r *http.Request) error {
	p, err := parameters(r, append([]string{"fields", "include_unmapped", "include_empty_fields"}, indexParameters...)...)
	if err != nil {
		return err
	}
	body, err := readBody(r, maxBody)
	if err != nil {
		return err
	}
	if err := query.Known("field_caps", body, "fields"); err != nil {
		return err
	}
	var patterns []string
	for _, e := range query.List(body["fields"]) {
		if e != nil {
			name, err := query.Scalar("fields", e)
			if err != nil {
				return err
			}
			patterns = append(patterns, name)
		}
	}
	if f := p.Get("fields"); f != "" {
		patterns = append(patterns, strings.Split(f, ",")...)
	}
	if len(patterns) == 0 || len(patterns) > maxPatterns {
		return query.Illegal("field_caps wants 1 to %d fields", maxPatterns)
	}
	indices, err := s.list(r, indexOf(r))
	if err != nil {
		return err
	}
	found := map[string]any{}
	add := func(name string, k query.Kind) {
		if slices.ContainsFunc(patterns, func(p string) bool { return query.Matches(p, name) }) {
			found[name] = map[string]any{string(k): map[string]any{"type": string(k), "metadata_field": false, "searchable": true, "aggregatable": true}}
		}
	}
	for _, name := range query.Names {
		f := query.Fields[name]
		if f.Metadata() {
			continue
		}
		add(name, f.Kind)
		if f.Kind == query.Keyword {
			add(name+".keyword", query.Keyword)
		}
	}
	all := []string{}
	for _, i := range indices {
		all = append(all, i.name)
	}
	a.body = map[string]any{"indices": all, "fields": found}
	return nil
}
