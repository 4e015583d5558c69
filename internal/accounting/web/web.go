// Package web serves the dashboards of finished jobs: HTML pages with charts that the server
// draws. An API returns the contents of the pages in JSON and CSV.
//
// A page is a list of panels. Each panel asks questions ([question.Panels]) of a [Source] and
// shows the answers ([panel]). The page's script loads all panels at once, and cancels requests
// that are obsolete because a filter changed. The URL contains all choices of the reader
// ([request]): a filter is a link, which also works without the script.
//
// The server, and not the browser, draws the charts with package figure, like those of the report. So charts have
// a single implementation, pages print well, screen readers can read them, and tests see the same as readers.
// Links lie over the parts of a chart. With the script, a reader can also select a range of time in a chart.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/embedded"
	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/web/views"
	"rmreplay/internal/httpjson"
	"rmreplay/internal/inert"
	"rmreplay/internal/quantity"
)

//go:embed assets
var assets embed.FS

// pages are the templates, parsed at their first use. revision changes with the page's style sheet and script.
var (
	pages = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("").ParseFS(assets, "assets/*.html"))
	})
	revision = func() string {
		sum := sha256.New()
		for _, name := range []string{"assets/style.css", "assets/app.js"} {
			text, err := assets.ReadFile(name)
			if err != nil {
				panic(err) // the file is embedded in the program
			}
			sum.Write(text)
		}
		return hex.EncodeToString(sum.Sum(nil)[:6])
	}()
)

// policy is the Content-Security-Policy of the pages. It allows style attributes, for the charts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src " +
	"'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Source answers the questions of the pages.
type Source interface {
	// Ask answers questions. For a column that no job has, the error is a [question.AbsentError].
	Ask(ctx context.Context, questions ...question.Question) ([]question.Answer, error)
	// Jobs returns jobs for a list, at most as many as p requests.
	Jobs(ctx context.Context, p question.Page) ([]question.Job, error)
	// Job returns the job with an ID, with all columns of the store; nil if there is no such job.
	Job(ctx context.Context, id string) (*question.Job, error)
}

// server serves the pages of one store.
type server struct {
	store     *store.Store
	jobs      Source
	elsewhere bool // another source than the store has the jobs
	sizes     sizesCache
	views     *views.List
	now       func() time.Time
}

// newServer returns the server of a store. If the parameter jobs is not nil, it replaces the store as the source.
func newServer(s *store.Store, jobs Source) *server {
	v := &server{store: s, jobs: jobs, elsewhere: jobs != nil, views: views.New(filepath.Join(s.Dir(), "views.json")),
		now: time.Now}
	if jobs == nil {
		v.jobs = embedded.New(s)
	}
	return v
}

// Register adds the pages of a store to mux, below [receive.Pages], and returns the patterns of
// their paths. If jobs is not nil, it replaces the store as the source of jobs. The caller must
// authenticate readers and refuse cross-site requests.
func Register(mux *http.ServeMux, s *store.Store, jobs Source) (routes []string) {
	v := newServer(s, jobs)
	handle := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		method, at, _ := strings.Cut(pattern, " ")
		pattern = method + " " + strings.TrimSuffix(receive.Pages, "/") + at
		routes = append(routes, strings.Replace(pattern, "...}", "}", 1)) // in the syntax of OpenAPI
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			for name, value := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
				"Cache-Control": "no-store",
			} {
				w.Header().Set(name, value)
			}
			if err := h(w, r); err != nil && r.Context().Err() == nil {
				fail(w, r, err)
			}
		})
	}
	alone := func(h func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := httpjson.CheckParameters(r.URL.Query()); err != nil {
				return bad(err)
			}
			return h(w, r)
		}
	}
	handle("GET /{$}", v.dashboard)
	handle("GET /compare", v.compare)
	handle("GET /health", v.health)
	handle("GET /users/{name...}", redirect("user_name"))
	handle("GET /accounts/{name...}", redirect("account"))
	handle("GET /jobs/{seq}", v.jobPage)
	handle("GET /assets/{name}", asset)
	handle("GET /reports/{name}", v.report)
	handle("GET /api/v1/{$}", alone(v.index))
	handle("GET /api/v1/clusters", alone(v.clusters))
	handle("GET /api/v1/panels/{name}", v.panel)
	handle("GET /api/v1/jobs/{seq}", v.jobJSON)
	handle("GET /api/v1/views", alone(v.listViews))
	handle("PUT /api/v1/views/{name}", alone(v.saveView))
	handle("DELETE /api/v1/views/{name}", alone(v.deleteView))
	return routes
}

// statusError is an error with the HTTP status of the response.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func bad(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{http.StatusBadRequest, err}
}

func missing(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// fail responds with an error in the requested format.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var known *statusError
	var absent *question.AbsentError
	var remote *question.RemoteError
	switch {
	case errors.As(err, &known):
		status = known.status
	case errors.As(err, &absent):
		status = http.StatusBadRequest
	case errors.As(err, &remote):
		status = http.StatusBadGateway
	case errors.Is(err, engine.ErrMemory), errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrLarge):
		status = http.StatusTooManyRequests
	case errors.Is(err, engine.ErrAbsent), errors.Is(err, engine.ErrClosed):
		status = http.StatusServiceUnavailable
	case errors.Is(err, engine.ErrTime):
		status = http.StatusServiceUnavailable
		err = fmt.Errorf("%w (want a shorter range of time, or more filters)", err)
	}
	if strings.Contains(r.URL.Path, "/api/") && r.URL.Query().Get("format") != "html" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // an error means a lost connection
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	name := "error"
	if strings.Contains(r.URL.Path, "/api/") {
		name = "warning"
	}
	_ = pages().ExecuteTemplate(w, name, map[string]any{"Error": err.Error(), "Revision": revision}) // lost connection
}

// redirect redirects from a path with a name to the page with the filter for this name.
func redirect(name string) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		values := r.URL.Query()
		values.Add("f", name+"="+r.PathValue("name"))
		http.Redirect(w, r, receive.Pages+"?"+values.Encode(), http.StatusFound)
		return nil
	}
}

func asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	text, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || strings.HasSuffix(name, ".html") {
		return missing("there is no asset %q", name)
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if r.URL.Query().Get("v") == revision {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	_, err = w.Write(text)
	return err
}

// read parses a request's parameters and sets its range of time, for a page about jobs.
func (v *server) read(ctx context.Context, values url.Values) (*request, *sizes, error) {
	return v.readAbout(ctx, values, false)
}

// readAbout does the same as [server.read]. The page is about schedulers if live is true, and otherwise about jobs.
func (v *server) readAbout(ctx context.Context, values url.Values, live bool) (*request, *sizes, error) {
	r, err := parseRequest(values, v.now())
	if err != nil {
		return nil, nil, bad(err)
	}
	var s *sizes
	if live {
		s, err = v.schedulers(ctx, r)
	} else {
		s, err = v.known(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	names := r.clusters()
	if sides := r.sides(); sides != nil {
		names = sides[:1] // align then adds the second cluster
	}
	oldest, newest := s.extent(names, v.now())
	if err := r.bound(oldest, newest); err != nil {
		return r, s, bad(err)
	}
	if r.values.Get("columns") == "" && r.sides() == nil && len(s.matching(r.chosen)) > 1 {
		r.columns = slices.Concat(r.columns[:1], []string{"cluster"}, r.columns[1:])
	}
	err = r.align(s, live)
	r.whole = r.whole && !live // all figures of schedulers have an instant
	return r, s, bad(err)
}

// answer is the content of a panel.
type answer struct {
	panel   *panel
	request *request
	raw     [][]any
	notes   []string
	table   *table
	took    time.Duration // time that the query took
}

// ask gets the answers to the questions of a panel, and makes a table from the answers.
func (v *server) ask(ctx context.Context, p *panel, r *request, s *sizes) (*answer, error) {
	own := *r
	own.panel = p
	a := &answer{panel: p, request: &own}
	var apart []string
	if p.times {
		apart = own.leaveOutFrozen(s)
	}
	begin := time.Now()
	raw, notes, err := v.rows(ctx, &own)
	a.took = time.Since(begin)
	var absent *question.AbsentError
	switch {
	case errors.As(err, &absent) && p.name != "table":
		a.table = &table{Columns: []column{{"none", "not available", "", word}}, absent: true,
			notes: []string{"This cannot be shown. " + absent.Error() + "."}}
		return a, nil
	case err != nil:
		return nil, fmt.Errorf("panel %s: %w", p.name, err)
	}
	a.raw, a.notes = raw, slices.Concat(apart, notes)
	a.shape(s)
	if p.name == "week" && v.elsewhere {
		for i := range a.table.links {
			a.table.links[i] = r.url(func(url.Values) {}) // an Elasticsearch cluster cannot filter by the hour of the week
		}
	}
	return a, nil
}

// shape makes the table from the rows.
func (a *answer) shape(s *sizes) {
	p, t := a.panel, a.panel.shape(a.request, s, a.raw)
	a.table = t
	t.round()
	if p.health != nil {
		t.noteGaps(a.request, s)
		p.explainBlank(t, a.request)
		p.noteRuns(t, a.request, s)
	}
	t.notes = append(t.notes, a.notes...)
}

// fromFirstStart returns a request for the utilization of all time, which begins when the first of
// the jobs started. It returns r for all other requests.
func (v *server) fromFirstStart(ctx context.Context, p *panel, r *request) (*request, error) {
	if p.name != utilization || !r.whole {
		return r, nil
	}
	whole := *r
	parts, err := r.parts()
	if err != nil {
		return nil, bad(err)
	}
	for _, part := range parts {
		own := *part
		own.panel = p
		answers, err := v.jobs.Ask(ctx, question.Question{
			Where:    question.All{own.view().Ended(), sane("start_time", v.now()), question.Ran{}},
			Measures: []question.Measure{{Kind: question.Least, Column: "start_time"}},
		})
		var absent *question.AbsentError
		switch {
		case errors.As(err, &absent):
			return r, nil // the panel shows the reason
		case err != nil:
			return nil, fmt.Errorf("panel %s: %w", p.name, err)
		}
		first, ok := answers[0].Rows[0][0].(float64)
		at := time.UnixMilli(int64(first)).Add(r.from.Sub(own.from)).Truncate(time.Second)
		if ok && at.Before(whole.from) {
			whole.from = at
		}
	}
	return &whole, nil
}

// round rounds the numbers of a table to six decimals, because sums of binary fractions are
// inexact: 6.999999999999999e-06 s becomes 0.000007 s.
func (t *table) round() {
	const micro = 1e6
	for _, row := range t.Rows {
		for i, v := range row {
			if f, ok := v.(float64); ok && math.Abs(f) < 1<<53/micro {
				row[i] = math.Round(f*micro) / micro
			}
		}
	}
}

// rows returns the rows for a request's panel, and notes for the reader.
func (v *server) rows(ctx context.Context, r *request) (raw [][]any, notes []string, err error) {
	p := r.panel
	switch {
	case p.health != nil:
		raw, err = v.queryHealth(ctx, p.health(embedded.Bars{Edges: r.bars().edges, Clusters: r.clusters()}))
		return raw, nil, err
	case p.name == "table":
		view := r.view()
		jobs, err := v.jobs.Jobs(ctx, question.Page{
			Where: view.Ended(), Columns: r.columns, Sort: r.sort, Descending: r.descending,
			From: r.page * r.rows, Most: r.rows + 1, Clock: view.Clock(),
		})
		for _, job := range jobs {
			id := any(job.ID)
			if seq, err := strconv.ParseInt(job.ID, 10, 64); err == nil {
				id = seq
			}
			raw = append(raw, append([]any{id}, job.Values...))
		}
		return raw, nil, err
	}
	asked, view := question.Panels[p.name], r.view()
	questions := asked.Questions(view)
	if len(asked.Lacking) > 0 {
		questions = append(questions, view.Lacks())
	}
	answers, err := v.jobs.Ask(ctx, questions...)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range asked.Lacking {
		n, all := l.Jobs(answers[len(answers)-1])
		if n > 0 {
			notes = append(notes, quantity.Counted(int(n), l.One, l.More))
		}
		if all && l.Sum > 0 && len(answers[0].Rows) > 0 {
			answers[0].Rows[0][l.Sum] = nil
		}
	}
	if len(asked.Lacking) > 0 {
		answers = answers[:len(answers)-1] // notes of the last answer concern numbers that no panel shows
	}
	for _, a := range answers {
		notes = append(notes, a.Notes...)
		if a.Outside > 0 {
			notes = append(notes, quantity.Counted(int(a.Outside), "job has an end outside of the chart.",
				"jobs have an end outside of the chart."))
		}
	}
	slices.Sort(notes)
	raw = answers[0].Rows
	if asked.Rows != nil {
		raw = asked.Rows(answers)
	}
	return raw, slices.Compact(notes), nil
}

// panel responds with one panel as JSON, as CSV or as a part of a page.
func (v *server) panel(w http.ResponseWriter, q *http.Request) error {
	p := panelOf(q.PathValue("name"))
	if p == nil {
		return missing("there is no panel %q (GET %sapi/v1/ lists them)", q.PathValue("name"), receive.Pages)
	}
	r, s, err := v.readAbout(q.Context(), q.URL.Query(), p.health != nil)
	if err != nil {
		return err
	}
	format := q.URL.Query().Get("format")
	if format != "html" && (r.values.Get("a") != "" || r.values.Get("b") != "") {
		return bad(errors.New("a and b: JSON and CSV are about one cluster (want f=cluster=NAME, once for each of the two, " +
			"or format=html)"))
	}
	if format != "html" { // for HTML, v.view calls fromFirstStart
		if r, err = v.fromFirstStart(q.Context(), p, r); err != nil {
			return err
		}
	}
	switch format {
	case "", "json":
		a, err := v.ask(q.Context(), p, r, s)
		if err != nil {
			return err
		}
		a.trim()
		return writeJSON(w, a)
	case "csv":
		a, err := v.ask(q.Context(), p, r, s)
		if err != nil {
			return err
		}
		return a.writeCSV(w)
	case "html":
		shown, err := v.view(q.Context(), p, r, s)
		if err != nil {
			return err
		}
		return render(w, "panel", shown)
	default:
		return bad(fmt.Errorf("format: %q (want json, csv or html)", format))
	}
}

// trim removes the last row if it was only requested to find out whether there are more jobs.
func (a *answer) trim() (more bool) {
	if a.panel.name == "table" && len(a.table.Rows) > a.request.rows {
		a.table.Rows, a.table.more = a.table.Rows[:a.request.rows], true
	}
	return a.table.more
}

// MarshalJSON implements [json.Marshaler].
func (a *answer) MarshalJSON() ([]byte, error) {
	rows := make([][]any, 0, len(a.table.Rows))
	for _, row := range a.table.Rows {
		row = slices.Clone(row)
		for i, v := range row {
			if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
				row[i] = nil
			}
		}
		rows = append(rows, row)
	}
	return json.Marshal(map[string]any{
		"panel": a.panel.name, "title": a.panel.title, "description": a.panel.about, "notes": a.table.notes,
		"from": a.request.from.UTC(), "until": a.request.until.UTC(), "columns": a.table.Columns, "rows": rows,
		"milliseconds": float64(a.took.Microseconds()) / 1000,
	})
}

func writeJSON(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(text, '\n'))
	return err
}

// writeCSV writes the table with a header line. Instants are in the request's zone. NULL is an empty field.
func (a *answer) writeCSV(w http.ResponseWriter) error {
	name := a.panel.name
	if a.trim() {
		name += "-first-" + strconv.Itoa(a.request.rows)
	}
	var b bytes.Buffer
	c := inert.NewWriter(&b)
	var line []string
	for _, column := range a.table.Columns {
		line = append(line, column.Name)
	}
	if err := c.Write(line); err != nil {
		return err
	}
	for _, row := range a.table.Rows {
		line = line[:0]
		for _, v := range row {
			switch v := v.(type) {
			case nil:
				line = append(line, "")
			case float64:
				line = append(line, strconv.FormatFloat(v, 'f', -1, 64))
			case time.Time:
				line = append(line, v.In(a.request.zone).Format(time.RFC3339))
			case string:
				line = append(line, v)
			default:
				line = append(line, fmt.Sprint(v))
			}
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	if c.Flush(); c.Error() != nil {
		return c.Error()
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	_, err := w.Write(b.Bytes())
	return err
}

// render responds with a template. If the template fails, nothing has been sent.
func render(w http.ResponseWriter, name string, data any) error {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err := w.Write(b.Bytes())
	return err
}

// index responds with a description of the API.
func (v *server) index(w http.ResponseWriter, _ *http.Request) error {
	type named struct {
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Type        string `json:"type,omitempty"`
		Description string `json:"description"`
	}
	var lists struct {
		Panels []named `json:"panels"`
		Fields []named `json:"fields"`
	}
	for _, p := range slices.Concat(panels, healthPanels) {
		lists.Panels = append(lists.Panels, named{p.name, p.title, "", p.about})
	}
	for _, name := range fieldNames() {
		f := question.Fields[name]
		lists.Fields = append(lists.Fields, named{name, "", []string{"text", "integer", "number", "instant"}[f.Type], f.Doc})
	}
	return writeJSON(w, lists)
}

func (v *server) clusters(w http.ResponseWriter, q *http.Request) error {
	s, err := v.known(q.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, s.list)
}

// report responds with the report of a run, which the run's import has written into the store's
// directory reports. The report's page contains its script and its own Content-Security-Policy.
func (v *server) report(w http.ResponseWriter, q *http.Request) (err error) {
	name := q.PathValue("name")
	if v.store.Dir() == "" {
		return missing("there is no report of %q", name)
	}
	root, err := os.OpenRoot(filepath.Join(v.store.Dir(), "reports"))
	if err != nil {
		return missing("there is no report of %q", name)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	text, err := root.ReadFile(url.PathEscape(name) + ".html")
	if err != nil {
		return missing("there is no report of %q", name)
	}
	w.Header().Set("Content-Security-Policy", "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "+
		"script-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = w.Write(text)
	return err
}

// hasReport reports whether there is a report for a cluster.
func (v *server) hasReport(name string) bool {
	if v.store.Dir() == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(v.store.Dir(), "reports", url.PathEscape(name)+".html"))
	return err == nil
}
