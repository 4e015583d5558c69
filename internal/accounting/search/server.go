// Package search implements the reading part of Elasticsearch's REST API over the store of finished
// jobs: searches, aggregations, counts, documents and mappings. docs/ACCOUNTING-API.md lists the
// supported requests.
//
// A request is compiled to SQL statements. Their texts consist of constants of this package and
// names of columns. What a client sends is always an argument of a statement, and never a part of
// the text.
//
// The fields are the keys of Slurm's documents, with the types of the store's columns. Strings are
// keywords: a match compares the whole value. A key without a column can be searched, too, but
// slowly, because each document must be read. Hits are not scored: each has the score 1.
//
// If a request uses a feature of Elasticsearch that this package lacks, the error names the
// feature.
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

// Version is the release of Elasticsearch whose API this package implements. Clients check the
// first number.
const Version = "9.1.0"

const (
	maxBody     = 1 << 20 // bytes of a search's body
	maxManyBody = 10 << 20
	maxSearches = 1000 // searches in one _msearch
)

// Options configures [Register].
type Options struct {
	// Now returns the time for "now" in requests; nil means time.Now.
	Now func() time.Time
	// Refresh waits until searches find all documents that were accepted before the call; nil
	// means that searches always find them.
	Refresh func(ctx context.Context) error
	// Ready waits until the store has all documents that searches must include. Before that, answers would be about a
	// part of the jobs. nil means that the store always has these documents.
	Ready func(ctx context.Context) error
}

// Server answers searches from a store.
type Server struct {
	store *store.Store
	Options
	routes   []string // patterns for http.ServeMux
	hitBytes int      // maxHitBytes; less in tests
}

// call is a request to a path of the API.
type call struct {
	*http.Request
	parameters url.Values
	text       []byte // the body
	status     int    // HTTP status of the response
}

// handler responds to a call with JSON.
type handler struct {
	do func(c *call) (any, error)
	// parameters are the allowed query parameters in addition to common; nil allows all.
	parameters []string
	maxBytes   int64 // highest number of bytes in the body
}

// common are parameters of all paths.
var common = []string{"pretty", "human", "error_trace"}

// Register adds the API's reading paths to mux. All other paths get an error in Elasticsearch's
// format.
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
	reading := func(do func(c *call) (any, error)) func(c *call) (any, error) {
		return func(c *call) (any, error) {
			if server.Ready != nil {
				if err := server.Ready(c.Context()); err != nil {
					return nil, query.Fault(http.StatusServiceUnavailable, "unavailable_exception", err.Error())
				}
			}
			return do(c)
		}
	}
	handle("GET", handler{do: server.root}, "/{$}")
	handle("GET", handler{do: server.health}, "/_cluster/health", "/_cluster/health/{index}")
	handle(both, handler{do: server.refresh}, "/_refresh", "/{index}/_refresh")
	handle("GET", handler{reading(server.document), slices.Concat(sourceNames, []string{"realtime", "refresh"},
		indexParameters), 0}, "/{index}/_doc/{id}")
	handle(both, handler{reading(server.searchOne), searchParameters, maxBody}, "/_search", "/{index}/_search")
	handle(both, handler{reading(server.countOne), countParameters, maxBody}, "/_count", "/{index}/_count")
	handle(both, handler{reading(server.searchMany), manyParameters, maxManyBody}, "/_msearch", "/{index}/_msearch")
	handle("GET", handler{server.mapping, indexParameters, 0}, "/_mapping", "/{index}/_mapping")
	handle(both, handler{server.fieldCaps, append([]string{"fields"}, indexParameters...), maxBody}, "/_field_caps",
		"/{index}/_field_caps")
	server.routes = append(server.routes, "/")
	mux.Handle("/", handler{do: func(c *call) (any, error) {
		return nil, query.Illegal("no handler found for uri [%s] and method [%s]", c.URL.Path, c.Method)
	}})
	return server
}

// Routes returns the patterns of the paths for [http.ServeMux]. The last one matches all other
// paths.
func (s *Server) Routes() []string { return slices.Clone(s.routes) }

// ServeHTTP reads parameters and body, and writes the response.
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
	_, _ = w.Write(buffer.Bytes()) // an error means that the client has disconnected
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
	if h.maxBytes > 0 {
		if c.text, err = readAll(c.Request, h.maxBytes); err != nil {
			return nil, err
		}
	}
	return h.do(c)
}

// index returns the index names of a call. As in Elasticsearch, they may be a parameter instead of
// a part of the path. go-elasticsearch's Msearch sends both.
func (c *call) index() string {
	return strings.ToValidUTF8(cmp.Or(c.PathValue("index"), c.parameters.Get("index")), "\uFFFD")
}

// contentType returns JSON's type in the version that the client requests, because clients accept
// no other version.
func contentType(r *http.Request) string {
	accept := r.Header.Get("Accept")
	if kind, parameters, err := mime.ParseMediaType(accept); err == nil && kind == "application/vnd.elasticsearch+json" {
		if v := parameters["compatible-with"]; v == "8" || v == "9" {
			return kind + ";compatible-with=" + v
		}
	}
	return "application/json"
}

// flag returns a boolean parameter: both "?x" and "?x=true" are true.
func flag(values url.Values, name string) bool {
	return values.Has(name) && values.Get(name) != "false"
}

func readAll(r *http.Request, maxBytes int64) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	switch {
	case err != nil:
		return nil, query.Parsing("reading the body: %v", err)
	case int64(len(text)) > maxBytes:
		return nil, query.Fault(http.StatusRequestEntityTooLarge, "content_too_long_exception",
			fmt.Sprintf("the body has more than %d bytes", maxBytes))
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
		return nil, query.Parsing("the body is not JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, query.Parsing("the body has more text after its JSON object")
	}
	var reader query.Reader
	m := reader.Object("body", v)
	if several, ok := m["sort"].(map[string]any); ok && len(several) > 1 {
		m["sort"] = inOrder(text)
	}
	return m, reader.Err
}

// inOrder returns a body's sort, if it is an object, as a list in the order of the text. Grafana
// sends {"sort": {"@end": {"order": "desc"}, "_doc": {"order": "desc"}}}. The text is known to be
// valid JSON.
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
