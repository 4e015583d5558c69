// Package forward sends a store's documents to an Elasticsearch or OpenSearch cluster.
//
// The store is the queue: a small file contains the number of the last arrival that the cluster has. All later
// documents are sent, however many there are. The store's _id of a run is also the _id of its document in the cluster.
// If a response is lost, the document is sent again and replaces its first copy. So the cluster has each run exactly
// once.
//
// Each item of a response is checked: a _bulk request with the status 200 may have stored nothing.
// Documents that the cluster temporarily cannot accept, for example because of an index's state,
// are sent again after growing pauses. If the position after a batch cannot be written, for
// example on a full disk, the batch is sent again, too. A document that the cluster refuses, for
// example because it contradicts the mapping, is listed in a file and not sent again.
package forward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"rmreplay/internal/access"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/lines"
	"rmreplay/internal/quantity"
)

const (
	positionFile = "forward.json"
	refusedFile  = "forward-refused.jsonl"
	// DefaultIndex is the index for documents that arrived without an index name.
	DefaultIndex = "jobs"

	maxDocuments = 5000
	maxBytes     = 8 << 20 // maximum for a request, unless a single document is larger
	maxAnswer    = 64 << 20
	// growAfter is the number of requests in a row that must succeed before larger requests are
	// tried.
	growAfter = 64
)

// Options configures [New].
type Options struct {
	// URL is the address of the cluster: http(s)://HOST:PORT, or http(s)://HOST:PORT/INDEX to send
	// all documents to one index. Without INDEX, a document goes to the index to which it was
	// originally sent.
	URL string
	// Credentials is a file with one line: USER:PASSWORD, "ApiKey KEY" or "Bearer TOKEN". Only the
	// file's owner may have access. Without it, requests have no credentials.
	Credentials string
	// Dir is the directory of the file with the position.
	Dir string
	// Derived adds to each document the member [Member], with the store's additional values. It
	// also makes the forwarder create indices with a mapping of all fields.
	Derived bool
	// Client sends the requests; nil means a client with a timeout of one minute.
	Client *http.Client
	// Idle is the pause when everything has been sent, and the first pause after an error; 0 means
	// a second. Pauses after errors double up to Longest; 0 means a minute.
	Idle, Longest time.Duration
	// Report is called when attempts begin to fail, and for documents that the cluster refuses. It
	// may be nil.
	Report func(err error)
}

// Status describes the progress of a forwarder.
type Status struct {
	Position int64  // number of the last arrival that the cluster has stored or refused
	Sent     int64  // documents since the start
	Refused  int64  // documents that the cluster refused, since the position was 0
	Retries  int64  // attempts since the start that must be repeated, completely or in part
	Error    string // why the last attempt must be repeated; empty if it succeeded
}

// Forwarder sends documents to a cluster.
type Forwarder struct {
	store         *store.Store
	opts          Options
	target        string // URL of _bulk requests
	index         string // empty to use the documents' own indices
	authorization string
	prepared      map[string]bool // indices; used only by Run
	maxDocuments  int             // highest number of documents in a request; used only by Run
	fine          int             // number of consecutive requests for which the cluster had room; used only by Run

	mu     sync.Mutex
	status Status
}

// position is the content of the file positionFile.
type position struct {
	Target   string `json:"target"` // URL and index to which the position belongs; the position for any other target is 0
	Position int64  `json:"position"`
	Refused  int64  `json:"refused"`
}

// New returns a forwarder. [Forwarder.Run] sends the documents.
func New(s *store.Store, opts Options) (*Forwarder, error) {
	if opts.Idle == 0 {
		opts.Idle = time.Second
	}
	if opts.Longest == 0 {
		opts.Longest = time.Minute
	}
	if opts.Client == nil {
		opts.Client = &http.Client{
			Timeout: time.Minute,
			// Go's client would turn a redirected POST into a GET, and a GET stores no documents.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if opts.Report == nil {
		opts.Report = func(error) {}
	}
	f := &Forwarder{store: s, opts: opts, prepared: map[string]bool{}, maxDocuments: maxDocuments}
	target, index, err := Target(opts.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("forwarding: %w", err)
	case strings.ContainsAny(index, "*,"):
		return nil, fmt.Errorf("forwarding: %s: %q names several indices (want one index)", opts.URL, index)
	}
	f.index, f.target = index, target+"/_bulk"
	if f.authorization, err = access.Authorization(opts.Credentials); err != nil {
		return nil, fmt.Errorf("forwarding: %w", err)
	}
	return f, f.load()
}

// Target splits a cluster's URL into the server's address and an index. The index is a name or a
// pattern of names, or "" if the URL has none. Its errors do not contain the password.
func Target(text string) (server, index string, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", "", errors.New("the URL cannot be parsed (want http://HOST:PORT or http://HOST:PORT/INDEX)")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", "", fmt.Errorf("%s: not the URL of a cluster (want http://HOST:PORT or http://HOST:PORT/INDEX)",
			u.Redacted())
	case u.User != nil:
		return "", "", fmt.Errorf("%s: credentials in the URL (want them in a file)", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return "", "", fmt.Errorf("%s: the URL has a query or a fragment (want a URL without ? and #)", u.Redacted())
	}
	index = strings.Trim(u.Path, "/")
	if strings.ContainsAny(index, "/\\?\"<>| #:") || strings.HasPrefix(index, "_") {
		return "", "", fmt.Errorf("%s: %q is not the name of an index (want, for example, jobs)", u.Redacted(), index)
	}
	u.Path, u.RawPath = "", ""
	return u.String(), index, nil
}

// identity identifies the cluster and index to which the position belongs.
func (f *Forwarder) identity() string { return f.target + " " + f.index }

// load reads the position from its file.
func (f *Forwarder) load() error {
	text, err := os.ReadFile(filepath.Join(f.opts.Dir, positionFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var p position
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return fmt.Errorf("forwarding: reading the position in %s: %w", filepath.Join(f.opts.Dir, positionFile), err)
	}
	if p.Target == f.identity() {
		f.status.Position, f.status.Refused = p.Position, p.Refused
	}
	return nil
}

// save writes the position to disk before the next documents are sent. An older position does no
// harm: documents that are sent again replace their first copies.
func (f *Forwarder) save(p position) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := filepath.Join(f.opts.Dir, positionFile)
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Status returns the forwarder's progress.
func (f *Forwarder) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Run sends documents until ctx ends. After any error, of the cluster, the disk or the store, it
// tries again after growing pauses.
func (f *Forwarder) Run(ctx context.Context) {
	pause := f.opts.Idle
	var batch []item // the unsent documents up to the arrival with the number last
	var last int64
	for {
		var err error
		if len(batch) == 0 {
			batch, err = f.next(ctx)
		}
		sends := len(batch) > 0
		if sends {
			last = max(last, batch[len(batch)-1].seq)
			batch, err = f.deliver(ctx, batch, last)
		}
		switch {
		case err == nil:
			f.succeed()
			pause = f.opts.Idle
			if sends {
				continue // without a pause: there may be more documents
			}
		case ctx.Err() != nil:
			return
		default:
			f.note(err)
		}
		// The pause is up to 50 % longer, so that several forwarders do not send at the same
		// instant.
		timer := time.NewTimer(pause + rand.N(pause/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err != nil {
			pause = min(2*pause, f.opts.Longest)
		}
	}
}

// note records that an attempt failed, and reports the first failure after a success.
func (f *Forwarder) note(fault error) {
	f.mu.Lock()
	first := f.status.Error == ""
	f.status.Error = fault.Error()
	f.status.Retries++
	f.mu.Unlock()
	if first {
		f.opts.Report(fmt.Errorf("forwarding: %w (the server tries again until it succeeds)", fault))
	}
}

// succeed ends a series of failures.
func (f *Forwarder) succeed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Error = ""
}

// item is a document to be sent.
type item struct {
	seq       int64
	id, index string
	document  []byte // on one line; empty if the document is not a JSON object
	text      []byte // unchanged, as received
}

// errEnough stops reading when a batch is full.
var errEnough = errors.New("the batch is full")

// next reads the documents after the position.
func (f *Forwarder) next(ctx context.Context) (batch []item, err error) {
	v := f.store.View()
	defer v.Close()
	size := 0
	err = v.Each(ctx, store.Filter{After: f.Status().Position}, func(d *store.Stored) error {
		if size >= maxBytes || len(batch) == maxDocuments {
			return errEnough
		}
		e := d.Entry()
		i := item{seq: e.Seq, id: store.ID(&e.Job), index: cmp.Or(f.index, e.Index, DefaultIndex), text: e.Document,
			document: oneLine(e.Document)}
		if f.opts.Derived && i.document != nil {
			own, err := member(&e)
			if err != nil {
				return err
			}
			i.document = extend(i.document, own, &e)
		}
		size += len(i.document) + len(i.id) + 64
		batch = append(batch, i)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return batch, nil
}

// oneLine returns a JSON object without line breaks, and nil for any other text. A text that is not
// UTF-8 is read as ISO 8859-1.
func oneLine(text []byte) []byte {
	if !utf8.Valid(text) {
		text = []byte(lines.UTF8(text))
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil || b.Len() == 0 || b.Bytes()[0] != '{' {
		return nil
	}
	return b.Bytes()
}

// deliver sends the part of a batch that fits into one request. It returns the documents that are
// left to send, and an error if some must be sent again. The position advances to the first of
// these documents. If all were sent, it advances to upTo, the end of the batch. If the outcome
// cannot be written to disk, deliver returns the whole batch; the cluster then replaces its copies.
func (f *Forwarder) deliver(ctx context.Context, batch []item, upTo int64) (left []item, err error) {
	part := batch[:min(len(batch), f.maxDocuments)]
	waiting := make([]item, 0, len(part))
	var refused []refusal
	for _, i := range part {
		if i.document == nil {
			refused = append(refused, refusal{Seq: i.seq, ID: i.id, Index: i.index, Reason: "the document is not a JSON object"})
		} else {
			waiting = append(waiting, i)
		}
	}
	sent := len(waiting)
	again, more, fault := f.send(ctx, waiting)
	f.fit(len(waiting), fault)
	sent -= len(again) + len(more)
	refused = append(refused, more...)
	if err := f.refuse(refused); err != nil {
		return batch, err
	}
	left = slices.Concat(again, batch[len(part):])
	if len(left) > 0 {
		upTo = left[0].seq - 1
	}
	f.mu.Lock()
	p := position{f.identity(), upTo, f.status.Refused + int64(len(refused))}
	f.mu.Unlock()
	if err := f.save(p); err != nil {
		return batch, fmt.Errorf("writing the position: %w", err)
	}
	f.mu.Lock()
	f.status.Position, f.status.Refused = p.Position, p.Refused
	f.status.Sent += int64(sent)
	f.mu.Unlock()
	if len(refused) > 0 {
		f.opts.Report(fmt.Errorf("forwarding: the Elasticsearch cluster refuses %d %s, listed in %s: %s", len(refused),
			quantity.Plural(len(refused), "document", "documents"),
			filepath.Join(f.opts.Dir, refusedFile), refused[0].Reason))
	}
	return left, fault
}

// fit halves the size of requests when the cluster has no room for a request of n documents, because a small node
// never has room for large requests. After growAfter successes, it doubles the size again.
func (f *Forwarder) fit(n int, fault error) {
	switch {
	case errors.Is(fault, errBusy):
		f.maxDocuments, f.fine = max(n/2, 1), 0
	case fault == nil:
		if f.fine++; f.fine >= growAfter {
			f.maxDocuments, f.fine = min(2*f.maxDocuments, maxDocuments), 0
		}
	}
}

// refusal describes a document that the cluster refused.
type refusal struct {
	Seq    int64  `json:"seq"`
	ID     string `json:"_id"`
	Index  string `json:"_index"`
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason"`
}

// refuse appends documents to the list of refused documents. A document can occur in the list
// twice: the position is written after the list, and this write may fail.
func (f *Forwarder) refuse(list []refusal) error {
	if len(list) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, r := range list {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(text, '\n'))
	}
	file, err := os.OpenFile(filepath.Join(f.opts.Dir, refusedFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("noting a refused document: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		if _, err = file.Write(b.Bytes()); err != nil { // an incomplete line would corrupt the next line
			err = errors.Join(err, file.Truncate(info.Size()))
		}
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("noting a refused document: %w", err)
	}
	return nil
}

// errTooLarge means that the cluster refuses a request as a whole.
var errTooLarge = errors.New("the Elasticsearch cluster refuses the request as a whole")

// errBusy means that the cluster has no room for a request at present.
var errBusy = errors.New("the Elasticsearch cluster has no room for the request")

// send sends documents. It returns the documents to send again, with the reason, and the refused
// documents. If the cluster refuses a request as a whole, send sends it in halves, so that one
// document does not block the others.
func (f *Forwarder) send(ctx context.Context, batch []item) (again []item, refused []refusal, fault error) {
	if len(batch) == 0 {
		return nil, nil, nil
	}
	again, refused, fault = f.post(ctx, batch)
	if !errors.Is(fault, errTooLarge) {
		return again, refused, fault
	}
	if len(batch) == 1 {
		i := batch[0]
		return nil, []refusal{{Seq: i.seq, ID: i.id, Index: i.index, Reason: fault.Error()}}, nil
	}
	half := len(batch) / 2
	again, refused, fault = f.send(ctx, batch[:half])
	if len(again) > 0 {
		return append(again, batch[half:]...), refused, fault
	}
	again, more, fault := f.send(ctx, batch[half:])
	return again, append(refused, more...), fault
}

// bulkAnswer is the cluster's response to _bulk.
type bulkAnswer struct {
	Items []map[string]struct {
		ID     string          `json:"_id"`
		Status int             `json:"status"`
		Error  json.RawMessage `json:"error"`
	} `json:"items"`
}

// mendable reports whether a fault is a fault of the index or of the cluster, although its status blames the request.
// When the index or the cluster has been repaired, the cluster accepts the unchanged document.
func mendable(text json.RawMessage) bool {
	var fault struct{ Type, Reason string }
	if json.Unmarshal(text, &fault) != nil {
		return false
	}
	switch fault.Type {
	case "validation_exception": // the cluster has its highest number of shards
	case "index_closed_exception", "cluster_block_exception":
	case "illegal_argument_exception":
		return strings.HasPrefix(fault.Reason, "pipeline with id [") && strings.HasSuffix(fault.Reason, "] does not exist") ||
			strings.HasPrefix(fault.Reason, "no write index is defined for alias [") ||
			strings.HasPrefix(fault.Reason, "only write ops with an op_type of create are allowed in data streams")
	default:
		return false
	}
	return true
}

// post sends one request.
func (f *Forwarder) post(ctx context.Context, batch []item) (again []item, refused []refusal, fault error) {
	var body bytes.Buffer
	for _, i := range batch {
		if f.opts.Derived {
			if err := f.prepare(ctx, i.index); err != nil {
				return batch, nil, err
			}
		}
		action, err := json.Marshal(map[string]any{"index": map[string]string{"_index": i.index, "_id": i.id}})
		if err != nil {
			return batch, nil, err
		}
		body.Write(append(action, '\n'))
		body.Write(append(i.document, '\n'))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target, &body)
	if err != nil {
		return batch, nil, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Accept", "application/json")
	if f.authorization != "" {
		request.Header.Set("Authorization", f.authorization)
	}
	response, err := f.opts.Client.Do(request)
	if err != nil {
		return batch, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode == http.StatusRequestEntityTooLarge, response.StatusCode == http.StatusBadRequest &&
		len(faultOf(text)) > 0 && !mendable(faultOf(text)):
		return batch, nil, fmt.Errorf("%w: %s: %s", errTooLarge, response.Status, excerpt(text))
	case response.StatusCode == http.StatusTooManyRequests:
		return batch, nil, fmt.Errorf("%w: %s: %s", errBusy, response.Status, excerpt(text))
	case response.StatusCode != http.StatusOK:
		return batch, nil, fmt.Errorf("the Elasticsearch cluster answers %s: %s", response.Status, excerpt(text))
	case err != nil:
		return batch, nil, fmt.Errorf("reading the answer of the Elasticsearch cluster: %w", err)
	}
	var answer bulkAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return batch, nil, fmt.Errorf("this is not a _bulk response: %s", excerpt(text))
	}
	if len(answer.Items) != len(batch) {
		return batch, nil, fmt.Errorf("the answer is about %d %s, but %d were sent: %s", len(answer.Items),
			quantity.Plural(len(answer.Items), "document", "documents"), len(batch),
			excerpt(text))
	}
	for n, i := range batch {
		result, ok := answer.Items[n]["index"]
		switch {
		case !ok || result.ID != i.id:
			again = append(again, i)
			fault = fmt.Errorf("the answer's item %d is not about the document %s", n, i.id)
		case result.Status == http.StatusOK || result.Status == http.StatusCreated:
		case result.Status >= 400 && result.Status < 500 && !mendable(result.Error) &&
			result.Status != http.StatusTooManyRequests && result.Status != http.StatusUnauthorized &&
			result.Status != http.StatusForbidden && result.Status != http.StatusNotFound &&
			result.Status != http.StatusRequestTimeout:
			refused = append(refused, refusal{i.seq, i.id, i.index, result.Status, excerpt(result.Error)})
		default:
			again = append(again, i)
			fault = fmt.Errorf("the Elasticsearch cluster answers %d for the document %s: "+
				"%s", result.Status, i.id, excerpt(result.Error))
		}
	}
	return again, refused, fault
}

// faultOf returns the error in Elasticsearch's response, or nil if the response comes from a proxy
// and not from Elasticsearch.
func faultOf(text []byte) json.RawMessage {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return nil
	}
	return answer.Error
}

// excerpt returns the beginning of a response, for error messages.
func excerpt(text []byte) string {
	const most = 300
	s := lines.OneLine(strings.ToValidUTF8(string(text[:min(len(text), most)]), "?"))
	if s == "" {
		return "(empty)"
	}
	return s
}
