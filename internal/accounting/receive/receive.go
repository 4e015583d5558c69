// Package receive is the HTTP server for finished jobs. It receives documents from Slurm's
// jobcomp/elasticsearch plugin and from clients of Elasticsearch, and passes other requests to
// further handlers.
//
// The plugin (src/plugins/jobcomp/elasticsearch) posts one document to exactly the URL in
// JobCompLoc, on a new connection. It has no timeout, treats 200 and 201 as success, and after any
// other status repeats the request every 30 s. So the response is an error only if the document
// cannot be stored.
package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/access"
	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/origin"
)

// Pages is the prefix of the paths of web pages. It cannot collide with a path of the API, because
// the name of an index must not begin with an underscore.
const Pages = "/_ui/"

const (
	// MaxBody is the highest number of bytes in a request's body, before and after decompression. A
	// batch script has at most 4 MiB unless the site raised this limit (max_script_size).
	MaxBody = 128 << 20
	// MaxActions is the highest number of actions in a bulk request. In memory, an action takes
	// many times its size in the body.
	MaxActions = 100_000
	// smallBody is the number of bytes of a body that can be read without a permit (a "turn"). Only largeBodies permits
	// exist.
	smallBody = 1 << 20
	// largeBodies is the highest number of larger bodies in memory at a time.
	largeBodies = 4
	// maxReserved is the largest number of bytes that are allocated because of a body's announced
	// length. firstReserved is the number of bytes that are allocated before the first byte arrives.
	maxReserved   = 16 << 20
	firstReserved = 16 << 10
	// refreshTime is the longest time that ?refresh makes a request wait.
	refreshTime = 10 * time.Second
)

// SourceHeader names the source of documents. Only a trusted handler accepts it.
const SourceHeader = "X-Rmreplay-Source"

// The roles. All users who can read slurm.conf know the password in JobCompLoc, so the role of this
// password should not include reading all jobs.
const (
	Ingest access.Role = "ingest" // may send documents
	Read   access.Role = "read"   // may search, and see the pages
	All    access.Role = "all"    // may do both
)

// Handler is the server's handler. API has the handlers of Elasticsearch's API, such as "POST
// /{index}/_search"; Pages has the handlers of the paths below [Pages]. They are separate because
// their patterns would conflict in one multiplexer. Handler checks credentials before calling
// either.
type Handler struct {
	API   *http.ServeMux
	Pages *http.ServeMux
	// Refuses is the reason why the server refuses documents; empty if it accepts them. The trusted
	// handler always accepts them.
	Refuses string

	intake  *intake.Intake
	access  *access.Access
	trusted bool
	ingest  map[string]bool // patterns of paths that receive documents
	large   chan struct{}
	times   times
}

// times limits how long a client may occupy a connection, or one of the permits for large bodies.
type times struct {
	body time.Duration // time limit for the first smallBody bytes of a body
	step time.Duration // time limit for each further smallBody bytes
	turn time.Duration // time limit for waiting until a larger body may be read
}

// New returns a handler that receives documents. If the parameter who is nil, all clients have all
// rights.
func New(in *intake.Intake, who *access.Access) *Handler {
	h := &Handler{
		API: http.NewServeMux(), Pages: http.NewServeMux(), intake: in, access: who, ingest: map[string]bool{},
		large: make(chan struct{}, largeBodies), times: times{body: 20 * time.Second, step: 2 * time.Second,
			turn: 20 * time.Second},
	}
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /{index}/_doc":         h.document,
		"POST /{index}/_doc/{id}":    h.document,
		"PUT /{index}/_doc/{id}":     h.document,
		"POST /{index}/_create/{id}": h.document,
		"PUT /{index}/_create/{id}":  h.document,
		"POST /{index}/{type}":       h.typed, // JobCompLoc of releases to 20.11: /slurm/jobcomp
		"POST /{index}":              h.document,
		"POST /{$}":                  h.document,
		"POST /_bulk":                h.bulk,
		"PUT /_bulk":                 h.bulk,
		"POST /{index}/_bulk":        h.bulk,
		"PUT /{index}/_bulk":         h.bulk,
	} {
		h.API.HandleFunc(pattern, handle)
		h.ingest[pattern] = true
	}
	return h
}

// Routes returns the patterns of the paths that receive documents.
func (h *Handler) Routes() []string { return slices.Collect(maps.Keys(h.ingest)) }

// Trusted returns a handler that does the same as h, but does not check credentials. It is for a
// socket that only the data directory's owner can reach. It accepts [SourceHeader].
func (h *Handler) Trusted() *Handler {
	trusted := *h
	trusted.trusted = true
	return &trusted
}

type trustKey struct{}

// ServeHTTP passes a request to its handler. If a browser requests the root, ServeHTTP redirects
// the browser to the pages, with the query. As in Elasticsearch, it ignores a slash at the end of
// the API's paths.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = h.times.pace(w, r)
	if path := strings.TrimRight(r.URL.Path, "/"); path != r.URL.Path && path != "" &&
		!strings.HasPrefix(r.URL.Path, Pages) {
		r = r.WithContext(r.Context())
		u := *r.URL
		u.Path, u.RawPath = path, strings.TrimRight(u.RawPath, "/")
		r.URL = &u
	}
	if h.trusted {
		r = r.WithContext(context.WithValue(r.Context(), trustKey{}, true))
	} else if !h.admit(w, r) {
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, Pages):
		h.Pages.ServeHTTP(w, r)
	case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, (&url.URL{Path: Pages, RawQuery: r.URL.RawQuery}).String(), http.StatusFound)
	default:
		h.API.ServeHTTP(w, r)
	}
}

// page reports whether a request is for a web page. This includes the root, which redirects
// browsers to the pages.
func page(r *http.Request) bool {
	return r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, Pages) && !strings.HasPrefix(r.URL.Path, Pages+"api")
}

// admit checks whether the client may send the request, and responds with an error if not.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	if err := (origin.Policy{Secret: h.access.Required(), Page: page}).Admit(w, r); err != nil {
		Fail(w, http.StatusForbidden, "security_exception", err.Error())
		return false
	}
	role := Read
	if h.Takes(r) {
		role = Ingest
	}
	grants := h.access.Who(r)
	allowed := !h.access.Required() ||
		slices.ContainsFunc(grants, func(g access.Grant) bool { return g.Role == role || g.Role == All })
	switch {
	case h.access.Required() && len(grants) == 0:
		w.Header().Set("WWW-Authenticate", `Basic realm="rmreplay accounting", charset="UTF-8"`)
		Fail(w, http.StatusUnauthorized, "security_exception", "no valid credentials (want a user and password, or a "+
			"token, of the server's --auth file)")
	case role == Ingest && h.Refuses != "":
		Fail(w, http.StatusForbidden, "security_exception", h.Refuses)
	case !allowed:
		Fail(w, http.StatusForbidden, "security_exception", fmt.Sprintf("the credentials do not have the role %s", role))
	default:
		return true
	}
	return false
}

// Takes reports whether a request sends documents.
func (h *Handler) Takes(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, Pages) {
		return false
	}
	_, pattern := h.API.Handler(r)
	return h.ingest[pattern]
}

// Fail responds with an error in Elasticsearch's format.
func Fail(w http.ResponseWriter, status int, kind, reason string) {
	cause := map[string]any{"type": kind, "reason": reason}
	answer(w, status, map[string]any{
		"error": map[string]any{"type": kind, "reason": reason, "root_cause": []any{cause}}, "status": status,
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Elastic-Product", "Elasticsearch") // the official clients require it
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has disconnected
}

// typed stores a document that was sent to the path of a type, as in Elasticsearch before version
// 7.
func (h *Handler) typed(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.PathValue("type"), "_") {
		Fail(w, http.StatusBadRequest, "illegal_argument_exception",
			fmt.Sprintf("%s %s: not supported", r.Method, r.URL.Path))
		return
	}
	h.document(w, r)
}

// document stores one document.
func (h *Handler) document(w http.ResponseWriter, r *http.Request) {
	index := r.PathValue("index")
	if strings.HasPrefix(index, "_") {
		Fail(w, http.StatusBadRequest, "illegal_argument_exception",
			fmt.Sprintf("%s %s: not supported", r.Method, r.URL.Path))
		return
	}
	body, done, ok := h.body(w, r)
	if !ok {
		return
	}
	defer done()
	if len(bytes.TrimSpace(body)) == 0 {
		Fail(w, http.StatusBadRequest, "parse_exception", "request body is required")
		return
	}
	a := h.arrival(r, index, body)
	last, err := h.intake.Accept(a)
	if err != nil {
		Fail(w, http.StatusServiceUnavailable, "unavailable_exception", err.Error())
		return
	}
	h.refresh(r, last)
	answer(w, http.StatusCreated, h.stored(a, last))
}

// arrival returns the arrival for a document.
func (h *Handler) arrival(r *http.Request, index string, text []byte) intake.Arrival {
	a := intake.Arrival{Source: store.Received, Index: strings.ToValidUTF8(index, "\ufffd"), Document: text}
	if index == "" {
		a.Index = "slurm"
	}
	if source := r.Header.Get(SourceHeader); source != "" && r.Context().Value(trustKey{}) != nil {
		a.Source = store.Source(source)
	}
	return a
}

// stored is Elasticsearch's response to a stored document. The _id is the run's _id in the store.
type stored struct {
	Index       string `json:"_index"`
	ID          string `json:"_id"`
	Version     int    `json:"_version"`
	Result      string `json:"result"`
	SeqNo       int64  `json:"_seq_no"`
	PrimaryTerm int    `json:"_primary_term"`
	Shards      shards `json:"_shards"`
	Status      int    `json:"status,omitempty"` // only in the response to a bulk request
}

type shards struct {
	Total      int `json:"total"`
	Successful int `json:"successful"`
	Failed     int `json:"failed"`
}

func (h *Handler) stored(a intake.Arrival, number int64) stored {
	job := document.Identify(a.Document, h.intake.ClusterOf(a.Index))
	return stored{
		Index: a.Index, ID: store.ID(&job), Version: 1, Result: "created", SeqNo: number - 1, PrimaryTerm: 1,
		Shards: shards{Total: 1, Successful: 1},
	}
}

// refresh waits until searches find a document, if the request has the parameter refresh.
func (h *Handler) refresh(r *http.Request, number int64) {
	query := r.URL.Query()
	if value := query.Get("refresh"); !query.Has("refresh") || value == "false" {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), refreshTime)
	defer cancel()
	_ = h.intake.Wait(ctx, number) // the document is durable even if searches do not find it yet
}

// body reads a request's body, and responds with an error if this fails. The caller must call the
// function done when it no longer needs the body.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (text []byte, done func(), ok bool) {
	text, done, err := h.read(w, r)
	if err == nil {
		return text, done, true
	}
	done()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, errInflated):
		Fail(w, http.StatusRequestEntityTooLarge, "content_too_long_exception",
			fmt.Sprintf("reading the body: more than %d bytes", MaxBody))
	case errors.Is(err, errEncoding):
		Fail(w, http.StatusUnsupportedMediaType, "illegal_argument_exception", err.Error())
	case errors.Is(err, errTurn):
		Fail(w, http.StatusServiceUnavailable, "unavailable_exception", fmt.Sprintf("reading the body: %v", err))
	default:
		Fail(w, http.StatusBadRequest, "parse_exception", fmt.Sprintf("reading the body: %v", err))
	}
	return nil, nil, false
}

var (
	errInflated = errors.New("the inflated body has too many bytes")
	errEncoding = errors.New("reading the body: not a known Content-Encoding (want gzip or identity)")
	errTurn     = fmt.Errorf("%d other requests with more than %d bytes are not read yet (try again)",
		largeBodies, smallBody)
)

// read reads a request's body. The caller must call the function done, which returns the request's permit for a large
// body. done is never nil.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	done = func() {}
	var from io.Reader = http.MaxBytesReader(w, r.Body, MaxBody)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		inflated, err := gzip.NewReader(from)
		if err != nil {
			return nil, done, err
		}
		from = inflated
	default:
		return nil, done, fmt.Errorf("%w: %q", errEncoding, encoding)
	}
	text := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), firstReserved)+bytes.MinRead))
	if n, err := text.ReadFrom(io.LimitReader(from, smallBody)); err != nil || n < smallBody {
		return text.Bytes(), done, err
	}
	wait, cancel := context.WithTimeoutCause(r.Context(), h.times.turn, errTurn)
	defer cancel()
	select {
	case h.large <- struct{}{}:
		done = func() { <-h.large }
	case <-wait.Done():
		return nil, done, context.Cause(wait)
	}
	if length := r.ContentLength - smallBody; length > 0 {
		text.Grow(int(min(length+bytes.MinRead, maxReserved)))
	}
	for text.Len() <= MaxBody {
		if _, err := io.CopyN(text, from, smallBody); errors.Is(err, io.EOF) {
			return text.Bytes(), done, nil
		} else if err != nil {
			return nil, done, err
		}
	}
	return nil, done, errInflated
}
