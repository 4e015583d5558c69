// Package search answers the part of Elasticsearch's REST API that reads: searches, aggregations,
// counts, documents and mappings, over the store of finished jobs. docs/ACCOUNTING-API.md lists it.
//
// A request becomes statements of SQL. Their texts consist of constants of this package and names
// of columns; what a client sends becomes an argument of a statement, and never a part of its text.
//
// The fields are the keys of Slurm's documents, with the types of the store's columns. Strings are
// keywords: a match is a match of the whole value. A key without a column can be searched too: it
// is looked up in each document, which is slow. There are no scores: every hit has 1.
//
// A request for something that Elasticsearch can do and this package cannot gets an error that names it.
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
	"strings"
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
}

// call is a request to a path of the API.
type call struct {
	*http.Request
	parameters url.Values
	text       []byte // the body
	status     int    // of the answer
}

// handler answers a call with JSON.
type handler struct {
	do func(c *call) (any, error)
	// parameters are what the path accepts besides common; nil if it accepts all.
	parameters []string
	most       int64 // bytes of the body
}

// common are parameters of all paths.
var common = []string{"pretty", "human", "error_trace"}

// Register adds the paths of the API that read to a multiplexer. Every other path that begins with
// a slash gets an error in the form of Elasticsearch's.
func Register(mux *http.ServeMux, s *store.Store, opts Options) *Server {
	server := &Server{store: s, Options: opts, hitBytes: maxHitBytes}
	if server.Now == nil {
		server.Now = time.Now
	}
	handle := func(methods string, h handler, paths ...string) {
		for _, path := range paths {
			for _, method := range strings.Fields(methods) {
				server.routes = append(server.routes, method+" "+path)
				mux.Handle(method+" "+path, h)
			}
		}
	}
	const both = "GET POST"
	handle("GET", handler{do: server.root}, "/{$}")
	handle("GET", handler{do: server.health}, "/_cluster/health", "/_cluster/health/{index}")
	handle(both, handler{do: server.refresh}, "/_refresh", "/{index}/_refresh")
	handle("GET", handler{server.document, slices.Concat(sourceNames, []string{"realtime", "refresh"},
		indexParameters), 0}, "/{index}/_doc/{id}")
	handle(both, handler{server.searchOne, searchParameters, maxBody}, "/_search", "/{index}/_search")
	handle(both, handler{server.countOne, countParameters, maxBody}, "/_count", "/{index}/_count")
	handle(both, handler{server.searchMany, manyParameters, maxManyBody}, "/_msearch", "/{index}/_msearch")
	handle("GET", handler{server.mapping, indexParameters, 0}, "/_mapping", "/{index}/_mapping")
	handle(both, handler{server.fieldCaps, append([]string{"fields"}, indexParameters...), maxBody}, "/_field_caps",
		"/{index}/_field_caps")
	server.routes = append(server.routes, "/")
	mux.Handle("/", handler{do: func(c *call) (any, error) {
		return nil, query.Illegal("no handler found for uri [%s] and method [%s]", c.URL.Path, c.Method)
	}})
	return server
}

// Routes returns the patterns of the paths, as [http.ServeMux] has them. The last one is for all others.
func (s *Server) Routes() []string { return slices.Clone(s.routes) }

// ServeHTTP reads the parameters and the body, and writes the answer.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	c := &call{Request: r, parameters: r.URL.Query(), status: http.StatusOK}
	body, err := h.answer(c)
	if err != nil {
		fault := query.AsError(err)
		c.status, body = fault.Status, fault.Body()
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if flag(c.parameters, "pretty") {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType(r))
	w.WriteHeader(c.status)
	_, _ = w.Write(buffer.Bytes()) // the client may have gone
}

func (h handler) answer(c *call) (body any, err error) {
	for name, list := range c.parameters {
		if h.parameters != nil && !slices.Contains(h.parameters, name) && !slices.Contains(common, name) {
			return nil, query.Illegal("request [%s] contains unrecognized parameter: [%s]", c.URL.Path, name)
		}
		for i := range list {
			list[i] = strings.ToValidUTF8(list[i], "\uFFFD")
		}
	}
	if h.most > 0 {
		if c.text, err = readAll(c.Request, h.most); err != nil {
			return nil, err
		}
	}
	return h.do(c)
}

// index returns the index names of a call. As in Elasticsearch, they may be a parameter instead of a
// part of the path; go-elasticsearch's Msearch sends both.
func (c *call) index() string {
	return strings.ToValidUTF8(cmp.Or(c.PathValue("index"), c.parameters.Get("index")), "\uFFFD")
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

// flag returns the truth value of a parameter: "?x" and "?x=true" are true.
func flag(values url.Values, name string) bool {
	return values.Has(name) && values.Get(name) != "false"
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
		return nil, query.Fault(http.StatusRequestEntityTooLarge, "content_too_long_exception",
			fmt.Sprintf("the body has more than %d bytes", most))
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
	var reader query.Reader
	m := reader.Object("body", v)
	if several, ok := m["sort"].(map[string]any); ok && len(several) > 1 {
		m["sort"] = inOrder(text)
	}
	return m, reader.Err
}

// inOrder returns the members of a body's sort, which is an object, as a list in the order of the text. Grafana
// sends {"sort": {"@end": {"order": "desc"}, "_doc": {"order": "desc"}}}. The text was decoded before.
func inOrder(text []byte) (list []any) {
	var body struct{ Sort json.RawMessage }
	_ = json.Unmarshal(text, &body)
	d := json.NewDecoder(bytes.NewReader(body.Sort))
	d.UseNumber()
	_, _ = d.Token()
	for d.More() {
		name, err := d.Token()
		var v any
		if err != nil || d.Decode(&v) != nil {
			break
		}
		list = append(list, map[string]any{fmt.Sprint(name): v})
	}
	return list
}
