package service

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/httpjson"
	"rmreplay/internal/inert"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report"
	"rmreplay/internal/slurmspec"
)

//go:embed assets
var assets embed.FS

// pages are the templates. style is the style sheet of the report's page with some more rules. revision is a hash of
// the style sheet.
var (
	pages = sync.OnceValue(func() *template.Template {
		return template.Must(template.ParseFS(assets, "assets/*.html"))
	})
	style    = report.Style + string(must(fs.ReadFile(assets, "assets/page.css")))
	revision = func() string {
		sum := sha256.Sum256([]byte(style))
		return hex.EncodeToString(sum[:6])
	}()
)

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err) // the file is embedded in the program
	}
	return text
}

// policy is the Content-Security-Policy of the pages. It allows style attributes, because the figures use such
// attributes.
const policy = "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src data:; form-action " +
	"'self'; base-uri 'none'; frame-ancestors 'none'"

// frame is the part that all pages share.
type frame struct {
	Title, Revision, At, Age, Engine, Fault string
	Stale                                   bool
	Alarms                                  []string
	Error                                   string
}

// tile is a figure with its name and meaning.
type tile struct{ Label, Value, Meaning string }

// bar shows an interval. Its numbers are in per cent of the bar's length.
type bar struct {
	Label               string
	Shown               bool
	From, Width, Median float64
}

// line is a job in the table.
type line struct {
	ID, Href, Name, User, UserHref, Partition, PartitionHref string
	Nodes, Limit, P10, P50, P90, Within, For                 string
	Bar                                                      bar
}

// maxShown is the largest number of jobs on a page.
const maxShown = 500

// overview is the page of the machine, of a user or of a partition.
type overview struct {
	frame
	Filter, Horizon, More string
	Hidden                bool
	Tiles                 []tile
	Notes                 []string
	Jobs                  []line
	Now                   []map[string]string
	Groups, Lately        []map[string]string
}

// frame returns the shared part of a page with a title. The caller holds the lock.
func (s *Service) frame(title string) frame {
	head := s.head()
	f := frame{Title: title, Revision: revision, Stale: head.Stale, Alarms: head.Alarms}
	if head.Fault != nil {
		f.Fault = head.Fault.Text
	}
	if r := s.known.Round; r != nil {
		f.At, f.Age = s.instant(head.At), quantity.Duration(head.Age)
		f.Engine = fmt.Sprintf("%s, %s", r.Report.Engine, quantity.Regular(r.Report.Realizations, "realization"))
	}
	return f
}

// instant writes an instant; "–" for an instant that is not known.
func (s *Service) instant(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return quantity.Date(hpc.Time(t.UnixNano()), s.opts.Zone)
}

// short writes an instant in a table, without the year.
func (s *Service) short(t *time.Time) string { return t.In(s.opts.Zone).Format("Mon 2 Jan 15:04") }

// quantile writes a quantile of a job's start.
func (s *Service) quantile(w *Wait, name string, t *time.Time) string {
	switch {
	case t != nil:
		return s.short(t)
	case slices.Contains(w.Beyond, name):
		return "later"
	}
	return "never"
}

// place returns the position of an instant on a bar, in per cent. The scale is logarithmic in the minutes from the
// forecast to the instant.
func (s *Service) place(t *time.Time) float64 {
	r := s.known.Round.Report
	end := 24 * time.Hour
	if r.Horizon != nil {
		end = r.Horizon.Sub(r.At)
	}
	if t == nil {
		return 100
	}
	return min(100*math.Log1p(max(t.Sub(r.At).Minutes(), 0))/math.Log1p(end.Minutes()), 100)
}

func (s *Service) bar(w *Wait) bar {
	b := bar{Label: "P10 " + s.quantile(w, "p10", w.P10) + ", P50 " + s.quantile(w, "p50", w.P50) + ", P90 " +
		s.quantile(w, "p90", w.P90)}
	if b.Shown = w.P10 != nil; b.Shown {
		b.From = s.place(w.P10)
		b.Width, b.Median = max(s.place(w.P90)-b.From, 0.5), min(s.place(w.P50), 99)
	}
	return b
}

func limit(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return slurmspec.FormatSpan(time.Duration(seconds * float64(time.Second)))
}

// filtered returns the address of the overview with a filter.
func filtered(name, value string) string { return "/?" + url.Values{name: {value}}.Encode() }

func (s *Service) line(j *Job) line {
	l := line{ID: j.ID, Href: "/jobs/" + url.PathEscape(j.ID), Name: quantity.Name(j.Name), User: quantity.Name(j.User),
		UserHref: filtered("user", j.User), Partition: quantity.Name(j.Partition), PartitionHref: filtered("partition",
			j.Partition),
		Nodes: "–", Limit: limit(j.Limit), P10: s.quantile(j.Wait, "p10", j.P10), P50: s.quantile(j.Wait, "p50", j.P50),
		P90: s.quantile(j.Wait, "p90", j.P90), Within: "–", For: quantity.Name(j.For.Slurm), Bar: s.bar(j.Wait)}
	if j.Nodes > 0 {
		l.Nodes = quantity.Count(j.Nodes)
	}
	if j.Doubtful {
		l.P50 += " (unreliable)"
	}
	for _, w := range j.Within {
		if w.Seconds == (4 * time.Hour).Seconds() {
			l.Within = quantity.Percent(w.Probability)
		}
	}
	return l
}

func percent(share *float64) string {
	if share == nil {
		return "–"
	}
	return quantity.Percent(*share)
}

// overview makes the page of all jobs, or of the jobs of a user or a partition.
func (s *Service) overview(r *http.Request, w who) (string, any, error) {
	user, partition := r.URL.Query().Get("user"), r.URL.Query().Get("partition")
	if err := httpjson.CheckParameters(r.URL.Query(), "user", "partition"); err != nil {
		return "", nil, &statusError{http.StatusBadRequest, err}
	}
	o := overview{frame: s.frame("When will my job start?")}
	if s.known.Round == nil {
		return "", nil, s.errNone()
	}
	for name, value := range map[string]string{"of user ": user, "in partition ": partition} {
		if value != "" {
			o.Filter = strings.TrimSpace(o.Filter + " " + name + quantity.Name(value))
		}
	}
	report := s.known.Round.Report
	o.Notes, o.Hidden, o.Horizon = report.Notes, s.known.Round.Private && !w.all, "the end"
	if report.Horizon != nil {
		o.Horizon = quantity.Duration(report.Horizon.Sub(report.At).Seconds())
	}
	list, all := s.list(user, partition, maxShown, w)
	for i := range list {
		o.Jobs = append(o.Jobs, s.line(&list[i]))
	}
	if all > len(list) {
		o.More = fmt.Sprintf("%s more are not shown: choose a user or a partition, or use /v1/jobs.",
			quantity.Count(all-len(list)))
	}
	a := s.accuracy()
	o.Tiles = []tile{
		{"Pending", quantity.Count(len(report.Jobs)), "jobs and tasks of arrays in the queue"},
		{"Running", quantity.Count(report.Running), "jobs and tasks"},
		{"Age", o.Age, "of this forecast"},
		{"P10 to P90", percent(a.All.Coverage), fmt.Sprintf("of starts, in %s; the target is 80 %%",
			quantity.Counted(a.All.Forecasts, "forecast", "forecasts"))},
		{"Within an hour", percent(a.All.Hour), "of the median"},
	}
	for _, t := range s.submittedNow() {
		o.Now = append(o.Now, s.tryLine(&t))
	}
	for i := range a.Groups {
		o.Groups = append(o.Groups, qualityLine(&a.Groups[i]))
	}
	for i := range a.Lately {
		l := &a.Lately[i]
		o.Lately = append(o.Lately, map[string]string{"Partition": quantity.Name(l.Partition), "Lead": l.Lead,
			"Jobs": quantity.Count(l.Jobs), "Raw": quantity.Percent(l.Raw), "Coverage": quantity.Percent(l.Coverage),
			"Low": quantity.Decimal(l.Low), "High": quantity.Decimal(l.High)})
	}
	return "overview", o, nil
}

// tryLine shows the forecast of a class of jobs that would be submitted now.
func (s *Service) tryLine(t *Try) map[string]string {
	wait := func(seconds *float64) string {
		switch {
		case seconds != nil:
			return quantity.Duration(*seconds)
		case t.Why != "" || t.Beyond == 0:
			return "never"
		}
		return "over " + quantity.Duration(t.Beyond)
	}
	return map[string]string{"Partition": quantity.Name(t.Partition), "Size": t.Size, "Limit": limit(t.Limit),
		"P10": wait(t.P10),
		"P50": wait(t.P50), "P90": wait(t.P90), "At": s.instant(&t.At)}
}

func qualityLine(q *Quality) map[string]string {
	m := map[string]string{"Partition": quantity.Name(q.Partition), "Lead": q.Lead,
		"Forecasts": quantity.Count(q.Forecasts),
		"Coverage":  percent(q.Coverage), "Minute": percent(q.Minute), "Five": percent(q.Five), "Hour": percent(q.Hour),
		"Slurm": "–"}
	if q.Slurm != nil {
		m["Slurm"] = fmt.Sprintf("%s (here %s)", percent(q.Slurm.Hour), percent(q.Slurm.OurHour))
	}
	return m
}

// jobPage is the page of a job, or of the tasks of an array.
type jobPage struct {
	frame
	List []jobView
}

// jobView shows a job.
type jobView struct {
	line
	Running string
	Sooner  string // the address of the page about an earlier start
	Tiles   []tile
	Terms   []struct{ Word, Meaning string }
	Before  []map[string]string
}

func (s *Service) jobPage(r *http.Request, w who) (string, any, error) {
	if s.known.Round == nil {
		return "", nil, s.errNone()
	}
	id := r.PathValue("id")
	list, err := s.jobs(id, w)
	if err != nil {
		return "", nil, err
	}
	p := jobPage{frame: s.frame("Job " + id)}
	for i := range list[:min(len(list), maxShown)] {
		p.List = append(p.List, s.jobView(&list[i]))
	}
	return "job", p, nil
}

func (s *Service) jobView(j *Job) jobView {
	if j.Wait == nil {
		return jobView{line: line{ID: j.ID, User: quantity.Name(j.User), Partition: quantity.Name(j.Partition)},
			Running: s.instant(j.Start)}
	}
	v := jobView{line: s.line(j), Sooner: "/jobs/" + url.PathEscape(j.ID) + "/sooner"}
	v.Tiles = []tile{
		{"P10", v.P10, "in one case of ten it starts earlier"}, {"P50", v.P50, "the median"}, {"P90", v.P90,
			"in one case of ten it starts later"},
	}
	for _, one := range j.Within {
		v.Tiles = append(v.Tiles, tile{"Within " + quantity.Duration(one.Seconds), quantity.Percent(one.Probability),
			"probability to start by then"})
	}
	term := func(word, meaning string) {
		if meaning != "" {
			v.Terms = append(v.Terms, struct{ Word, Meaning string }{word, meaning})
		}
	}
	term("Waits for", j.For.Words)
	term("Slurm's reason", quantity.Name(j.For.Slurm))
	if j.For.Dependency != "" {
		term("Depends on", inert.Line(j.For.Dependency))
	}
	term("Before it", fmt.Sprintf("%s of the partition, %s node hours at most", quantity.Regular(j.Ahead.Jobs, "job"),
		quantity.Decimal(math.Round(j.Ahead.NodeHours))))
	if j.Slurm != nil {
		term("Slurm expects", s.instant(j.Slurm))
	}
	if j.Look != nil {
		term("Look again", s.instant(j.Look))
	}
	term("Submitted", s.instant(&j.Submit)+" by "+v.User+" to "+v.Partition)
	term("Time limit", v.Limit)
	for i := len(j.Before) - 1; i >= 0; i-- {
		b := &j.Before[i]
		v.Before = append(v.Before, map[string]string{"At": s.instant(&b.At), "P10": s.instant(b.P10),
			"P50": s.instant(b.P50), "P90": s.instant(b.P90)})
	}
	return v
}

// soonerPage is the page of changes with which a job would start sooner.
type soonerPage struct {
	frame
	ID, Href, P50, P90 string
	Changes            []map[string]string
	NotTried           string
}

func (s *Service) soonerPage(a *Sooner) soonerPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := soonerPage{frame: s.frame("What would make job " + a.Job + " start sooner?"), ID: a.Job,
		Href: "/jobs/" + url.PathEscape(a.Job), NotTried: strings.Join(a.NotTried, ", ")}
	now := Wait{Beyond: a.Beyond}
	p.P50, p.P90 = s.quantile(&now, "p50", a.P50), s.quantile(&now, "p90", a.P90)
	for i := range a.Changes {
		g := &a.Changes[i]
		then := Wait{Beyond: g.Beyond}
		p.Changes = append(p.Changes, map[string]string{
			"Change": inert.Line(g.Change), "P50": s.quantile(&then, "p50", g.P50), "P90": s.quantile(&then, "p90", g.P90),
			"GainP50": g.Words("p50"), "GainP90": g.Words("p90"), "Condition": g.Condition, "Command": inert.Line(g.Command),
		})
	}
	return p
}

// showSooner shows a [soonerPage], or an error page that says why there are no changes to show.
func (s *Service) showSooner(w http.ResponseWriter, r *http.Request) {
	a, err := s.sooner(r.Context(), r.PathValue("id"), whoAsks(r))
	if err != nil {
		s.mu.Lock()
		status, data := s.failed(err)
		s.mu.Unlock()
		show(w, status, "error", data)
		return
	}
	show(w, http.StatusOK, "sooner", s.soonerPage(a))
}

// failed returns the status and the page of an error. The caller holds the lock.
func (s *Service) failed(err error) (int, frame) {
	f, status := s.frame("When will my job start?"), http.StatusInternalServerError
	f.Error = err.Error()
	var known *statusError
	if errors.As(err, &known) {
		status = known.status
	}
	return status, f
}

// page makes a page. It unlocks the service even if making the page panics.
func (s *Service) page(r *http.Request, content func(*http.Request, who) (string, any, error)) (int, string, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, data, err := content(r, whoAsks(r))
	if err != nil {
		status, failed := s.failed(err)
		return status, "error", failed
	}
	return http.StatusOK, name, data
}

// addPages adds the pages to the handler.
func (s *Service) addPages(mux *http.ServeMux) {
	for pattern, page := range map[string]func(r *http.Request, w who) (string, any, error){
		"GET /{$}": s.overview, "GET /jobs/{id}": s.jobPage, "GET /machine": s.ganttPage,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status, name, data := s.page(r, page)
			show(w, status, name, data)
		})
	}
	mux.HandleFunc("GET /jobs/{id}/sooner", s.showSooner)
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/jobs/"+url.PathEscape(strings.TrimSpace(r.URL.Query().Get("id"))), http.StatusFound)
	})
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		if r.URL.Query().Get("v") == revision {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		_, _ = w.Write([]byte(style)) // the reader has gone
	})
}

// show writes a page. If the template fails, show writes only the error.
func show(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, data); err != nil {
		refuse(w, fmt.Errorf("making the page: %w", err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader has gone
}
