package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
)

// indexParameters are the parameters of paths with index names. Only the first two affect this
// server's answers.
var indexParameters = []string{"index", "ignore_unavailable", "ignore_throttled", "preference", "routing"}

// distribution are parameters that say how a cluster distributes a search. They do not affect
// answers.
var distribution = []string{
	"analyze_wildcard", "request_cache", "search_type", "batched_reduce_size", "max_concurrent_searches",
	"max_concurrent_shard_requests",
	"ccs_minimize_roundtrips", "pre_filter_shard_size", "allow_partial_search_results",
}

var (
	sourceNames     = []string{"_source", "_source_includes", "_source_excludes"}
	manyParameters  = slices.Concat([]string{"typed_keys"}, distribution, indexParameters)
	countParameters = slices.Concat([]string{"q"}, distribution[:1], indexParameters)
	// searchParameters are the parameters of a search.
	searchParameters = slices.Concat([]string{"q", "sort", "from", "size", "track_total_hits"}, sourceNames,
		manyParameters)
)

// fromParameters copies the parameters of a search into the body. They replace members of the body.
func fromParameters(m map[string]any, p url.Values) {
	if q := p.Get("q"); q != "" {
		m["query"] = map[string]any{"query_string": map[string]any{"query": q}}
	}
	for _, name := range []string{"from", "size"} {
		if p.Has(name) {
			m[name] = json.Number(p.Get(name))
		}
	}
	if p.Has("sort") {
		m["sort"] = split(p.Get("sort"))
	}
	switch t := p.Get("track_total_hits"); t {
	case "":
	case "true", "false":
		m["track_total_hits"] = t == "true"
	default:
		m["track_total_hits"] = json.Number(t)
	}
	sourceParameters(m, p)
}

func split(text string) (list []any) {
	for _, e := range strings.Split(text, ",") {
		list = append(list, e)
	}
	return list
}

// sourceParameters copies the parameters about _source into the body.
func sourceParameters(m map[string]any, p url.Values) {
	switch v := p.Get("_source"); v {
	case "":
	case "true", "false":
		m["_source"] = v == "true"
	default:
		m["_source"] = split(v)
	}
	filter := map[string]any{}
	for _, side := range []string{"includes", "excludes"} {
		if p.Has("_source_" + side) {
			filter[side] = split(p.Get("_source_" + side))
			m["_source"] = filter
		}
	}
}

func (s *Server) root(*call) (any, error) {
	return map[string]any{
		"name": "rmreplay", "cluster_name": "rmreplay", "cluster_uuid": "rmreplay-accounting",
		"version": map[string]any{
			"number": Version, "build_flavor": "default", "build_type": "rmreplay", "build_hash": "unknown",
			"build_date":     "2025-01-01T00:00:00.000Z",
			"build_snapshot": false, "lucene_version": "10.0.0", "minimum_wire_compatibility_version": "8.18.0",
			"minimum_index_compatibility_version": "8.0.0",
		},
		"tagline": "You Know, for Search",
	}, nil
}

func (s *Server) health(*call) (any, error) {
	return map[string]any{
		"cluster_name": "rmreplay", "status": "green", "timed_out": false, "number_of_nodes": 1, "number_of_data_nodes": 1,
		"active_primary_shards": 1, "active_shards": 1, "relocating_shards": 0, "initializing_shards": 0,
		"unassigned_shards":         0,
		"delayed_unassigned_shards": 0, "number_of_pending_tasks": 0, "number_of_in_flight_fetch": 0,
		"task_max_waiting_in_queue_millis": 0,
		"active_shards_percent_as_number":  100.0,
	}, nil
}

// refreshTime is the longest time that a refresh waits.
const refreshTime = 30 * time.Second

// refresh waits until searches find all documents that were accepted before the call.
func (s *Server) refresh(c *call) (any, error) {
	if s.Refresh != nil {
		ctx, cancel := context.WithTimeout(c.Context(), refreshTime)
		defer cancel()
		if err := s.Refresh(ctx); err != nil {
			return nil, query.Fault(http.StatusServiceUnavailable, "unavailable_exception",
				fmt.Sprintf("waiting for accepted documents: %v", err))
		}
	}
	return map[string]any{"_shards": map[string]any{"total": 1, "successful": 1, "failed": 0}}, nil
}

// target returns the condition for the index names in a path: names and patterns, separated by
// commas. A name without jobs is an error, unless the parameter mayLack is true.
func (s *Server) target(ctx context.Context, path string, mayLack bool) (query.SQL, error) {
	if path == "" || path == "_all" || path == "*" {
		return query.Always, nil
	}
	if len(path) > 4096 {
		return query.SQL{}, query.Illegal("index names of %d bytes (want at most 4096)", len(path))
	}
	index := query.Fields["_index"]
	var compiler query.Compiler
	var names []query.SQL
	for _, name := range strings.Split(path, ",") {
		if strings.HasPrefix(name, "-") {
			return query.SQL{}, query.Unsupported("the index name [%s], which leaves an index out,", name)
		}
		pattern := strings.NewReplacer(`\`, `\\`, `?`, `\?`).Replace(name)
		condition := compiler.Wildcard(index, pattern, false)
		if !strings.Contains(name, "*") && !mayLack && compiler.Err == nil {
			compiler.Fail(s.exists(ctx, name, condition))
		}
		names = append(names, condition)
	}
	return query.Or(names), compiler.Err
}

// exists returns an error if no document was sent to the index of a name.
func (s *Server) exists(ctx context.Context, name string, condition query.SQL) error {
	var n int64
	err := s.store.Read(ctx, func(v *store.Snapshot) error {
		return v.Scan("SELECT count(*) FROM (SELECT 1 FROM jobs j WHERE "+condition.Text+" LIMIT 1)", condition.Args, &n)
	})
	if err == nil && n == 0 {
		err = query.Fault(http.StatusNotFound, "index_not_found_exception", "no such index ["+name+"]")
	}
	return err
}

// prepare makes a request from a body and parameters.
func (s *Server) prepare(ctx context.Context, body map[string]any, p url.Values, index string) (*request, error) {
	fromParameters(body, p)
	q, err := newRequest(body, s.Now())
	if err != nil {
		return nil, err
	}
	left := s.hitBytes
	q.left, q.typedKeys = &left, flag(p, "typed_keys")
	q.indices, err = s.target(ctx, index, flag(p, "ignore_unavailable"))
	return q, err
}

func (s *Server) searchOne(c *call) (any, error) {
	body, err := decode(c.text)
	if err != nil {
		return nil, err
	}
	q, err := s.prepare(c.Context(), body, c.parameters, c.index())
	if err != nil {
		return nil, err
	}
	return s.search(c.Context(), q)
}

func (s *Server) countOne(c *call) (any, error) {
	body, err := decode(c.text)
	if err != nil {
		return nil, err
	}
	if b := new(query.Reader).Read("count", body, "query"); b.Err != nil {
		return nil, b.Err
	}
	q, err := s.prepare(c.Context(), body, c.parameters, c.index())
	if err != nil {
		return nil, err
	}
	var n int64
	err = s.store.Read(c.Context(), func(v *store.Snapshot) (err error) {
		n, err = q.count(v)
		return err
	})
	return map[string]any{"count": n, "_shards": shards()}, err
}

// shards describes the only shard of this server, for an answer.
func shards() map[string]any {
	return map[string]any{"total": 1, "successful": 1, "skipped": 0, "failed": 0}
}

// headerMembers are the members of a search's header in _msearch.
var headerMembers = []string{"index", "ignore_unavailable", "search_type", "preference", "request_cache", "routing"}

func (s *Server) searchMany(c *call) (any, error) {
	begun := time.Now()
	rows := bytes.Split(bytes.TrimRight(c.text, "\r\n"), []byte("\n"))
	if len(rows)%2 != 0 || len(c.text) == 0 {
		return nil, query.Illegal("The msearch request must be terminated by a newline [\\n], " +
			"and have a header and a body for each search")
	}
	if len(rows)/2 > maxSearches {
		return nil, query.Illegal("%d searches (want at most %d)", len(rows)/2, maxSearches)
	}
	left := s.hitBytes
	responses := []any{}
	for i := 0; i+1 < len(rows); i += 2 {
		result, err := s.searchRows(c, rows[i], rows[i+1], &left)
		if err != nil {
			if c.Context().Err() != nil {
				return nil, err
			}
			result = query.AsError(err).Body()
		} else {
			result["status"] = http.StatusOK
		}
		responses = append(responses, result)
	}
	return map[string]any{"took": time.Since(begun).Milliseconds(), "responses": responses}, nil
}

// searchRows runs one search of an _msearch, given as a header and a body.
func (s *Server) searchRows(c *call, header, body []byte, left *int) (map[string]any, error) {
	m, err := decode(header)
	if err != nil {
		return nil, err
	}
	h := new(query.Reader).Read("msearch", m, headerMembers...)
	index := c.index()
	if h.Given("index") {
		index = strings.Join(h.Scalars("index", m["index"], query.MaxTerms), ",")
	}
	own := url.Values{}
	for name, set := range map[string]bool{
		"typed_keys": flag(c.parameters, "typed_keys"), "ignore_unavailable": h.Boolean("ignore_unavailable",
			flag(c.parameters, "ignore_unavailable")),
	} {
		if set {
			own.Set(name, "")
		}
	}
	if h.Err != nil {
		return nil, h.Err
	}
	if m, err = decode(body); err != nil {
		return nil, err
	}
	q, err := s.prepare(c.Context(), m, own, index)
	if err != nil {
		return nil, err
	}
	q.left = left
	return s.search(c.Context(), q)
}

// document answers with one document. With the parameter refresh, it first waits until searches
// find all accepted documents.
func (s *Server) document(c *call) (any, error) {
	if flag(c.parameters, "refresh") {
		if _, err := s.refresh(c); err != nil {
			return nil, err
		}
	}
	id := strings.ToValidUTF8(c.PathValue("id"), "\uFFFD")
	// With the sort _doc a hit's sort value is its arrival number. The answer has it as _seq_no.
	body := map[string]any{"query": map[string]any{"ids": map[string]any{"values": id}}, "sort": "_doc",
		"track_total_hits": false}
	q, err := s.prepare(c.Context(), body, c.parameters, c.index())
	if err != nil {
		return nil, err
	}
	found, err := s.search(c.Context(), q)
	if err != nil {
		return nil, err
	}
	hits := found["hits"].(map[string]any)["hits"].([]any)
	if len(hits) == 0 {
		c.status = http.StatusNotFound
		return map[string]any{"_index": c.index(), "_id": id, "found": false}, nil
	}
	hit := hits[0].(map[string]any)
	answer := map[string]any{"_index": hit["_index"], "_id": id, "_version": 1, "_seq_no": hit["sort"].([]any)[0],
		"_primary_term": 1, "found": true}
	if source, ok := hit["_source"]; ok {
		answer["_source"] = source
	}
	return answer, nil
}

// properties returns the mapping of all fields with columns.
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

// list returns the names of the indices to which documents were sent.
func (s *Server) list(c *call) (list []string, err error) {
	target, err := s.target(c.Context(), c.index(), flag(c.parameters, "ignore_unavailable"))
	if err != nil {
		return nil, err
	}
	statement := query.Expression("SELECT DISTINCT %s FROM jobs j WHERE %s ORDER BY 1 LIMIT 10000",
		query.Fields["_index"].Expr, target)
	err = s.store.Read(c.Context(), func(v *store.Snapshot) error {
		list = []string{}
		rows, err := v.Query(statement.Text, statement.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			list = append(list, name)
		}
		return rows.Err()
	})
	return list, err
}

func (s *Server) mapping(c *call) (any, error) {
	list, err := s.list(c)
	body := map[string]any{}
	for _, name := range list {
		body[name] = map[string]any{"mappings": map[string]any{"properties": properties()}}
	}
	return body, err
}

func (s *Server) fieldCaps(c *call) (any, error) {
	body, err := decode(c.text)
	if err != nil {
		return nil, err
	}
	b := new(query.Reader).Read("field_caps", body, "fields")
	var patterns []string
	if b.Given("fields") {
		patterns = b.Scalars("fields", body["fields"], maxPatterns)
	}
	if f := c.parameters.Get("fields"); f != "" {
		patterns = append(patterns, strings.Split(f, ",")...)
	}
	if len(patterns) == 0 || len(patterns) > maxPatterns {
		b.Fail(query.Illegal("field_caps wants 1 to %d fields", maxPatterns))
	}
	if b.Err != nil {
		return nil, b.Err
	}
	found := map[string]any{}
	add := func(name, kind string) {
		if slices.ContainsFunc(patterns, func(p string) bool { return query.Matches(p, name) }) {
			found[name] = map[string]any{kind: map[string]any{"type": kind, "metadata_field": false, "searchable": true,
				"aggregatable": true}}
		}
	}
	for _, name := range query.Names {
		f := query.Fields[name]
		if f.Metadata() {
			continue
		}
		add(name, string(f.Kind))
		if f.Kind == query.Keyword {
			add(name+".keyword", string(f.Kind))
		}
	}
	indices, err := s.list(c)
	return map[string]any{"indices": indices, "fields": found}, err
}
