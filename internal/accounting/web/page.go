package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/web/views"
	"rmreplay/internal/quantity"
)

func fieldNames() []string { return slices.Sorted(maps.Keys(question.Fields)) }

// of returns the request for one of two clusters that a page shows beside each other.
func (r *request) of(cluster, suffix string) (*request, error) {
	own := *r
	own.suffix = suffix
	own.width = max(280, r.width/2-12)
	if suffix == "-b" {
		own.from, own.until, own.after = r.from.Add(r.shift), r.until.Add(r.shift), r.after.Add(r.shift)
	} else {
		own.shift = 0
	}
	own.filters = append(slices.DeleteFunc(slices.Clone(r.filters),
		func(t question.Term) bool { return t.Field.Name == "cluster" }),
		question.Term{Field: question.Fields["cluster"], Op: "=", Value: cluster})
	return &own, own.choose()
}

// sides returns the two clusters that the page shows beside each other; nil for any other page.
func (r *request) sides() []string {
	a, b := r.values.Get("a"), r.values.Get("b")
	if a == "" || b == "" {
		return nil
	}
	return []string{a, b}
}

// parts returns the requests for the two clusters that the page shows beside each other; for any
// other page it returns only r.
func (r *request) parts() ([]*request, error) {
	sides := r.sides()
	if sides == nil {
		return []*request{r}, nil
	}
	a, err := r.of(sides[0], "-a")
	if err != nil {
		return nil, err
	}
	b, err := r.of(sides[1], "-b")
	return []*request{a, b}, err
}

// cell is a cell of a table on a page.
type cell struct {
	Text   string
	Href   string
	Number bool
	Share  float64 // length of the cell's bar, as a percentage; 0 for a cell without a bar
	Expand bool    // the link opens the job
	Label  string  // heading of the column, for narrow windows, which show no headings
}

// headCell is the heading of a column on a page.
type headCell struct {
	Label, Title string
	Text         bool
	Href         string // link that sorts by the column
	Sorted       string // ascending, descending or empty
}

// part is the content of a panel for one cluster.
type part struct {
	Name   string // the cluster, if the page shows two
	Chart  *chart
	Tiles  []cell
	Head   []headCell
	Rows   [][]cell
	Folded bool // the table is folded
	Notes  []string
	CSV    string
	By     []cell // links to groupings by other columns
	Newer  string // link to the previous page of the table of jobs
	Older  string
	Range  string
}

// shown is a panel as its template needs it.
type shown struct {
	Name, Title, About string
	Suffix             string
	Wide               bool
	Chart              *chart // one chart for all parts
	Parts              []part
	Milliseconds       string
	Picker             []option // columns that can be chosen for the table of jobs
	Rows               int      // number of jobs on a page of the table
	Hidden             []option // the other parameters, for the form's hidden inputs
}

// option is an entry of a list from which a reader can choose.
type option struct {
	Name, Value string
	Chosen      bool
}

// view asks the questions of a panel and prepares the answers for its template. If the page shows
// two clusters, it does this for both, and their charts share one scale.
func (v *server) view(ctx context.Context, p *panel, r *request, s *sizes) (*shown, error) {
	out := &shown{Name: p.name, Title: p.title, About: p.about, Wide: p.wide}
	var answers []*answer
	r, err := v.fromFirstStart(ctx, p, r)
	if err != nil {
		return nil, err
	}
	requests, err := r.parts()
	if err != nil {
		return nil, bad(err)
	}
	var together scale
	took := time.Duration(0)
	for _, own := range requests {
		a, err := v.ask(ctx, p, own, s)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
		took += a.took
	}
	unite(answers, s)
	for _, a := range answers {
		together.include(a.table)
	}
	draw := p.draw
	if len(answers) > 1 && p.lines != nil {
		drawn := *p
		drawn.about = cmp.Or(p.aboutLines, p.about)
		out.About = drawn.about
		if out.Chart, err = drawTogether(&drawn, r, answers); err != nil {
			return nil, fmt.Errorf("panel %s: %w", p.name, err)
		}
		draw = nil
	}
	for i, a := range answers {
		one, err := a.part(draw, together)
		if err != nil {
			return nil, err
		}
		one.Folded = one.Folded || out.Chart != nil
		if len(answers) > 1 {
			one.Name = r.sides()[i]
		}
		out.Parts = append(out.Parts, *one)
	}
	out.Milliseconds = fmt.Sprintf("%.1f", float64(took.Microseconds())/1000)
	if p.name == "table" {
		out.Picker, out.Hidden = r.picker()
		out.Rows = r.rows
	}
	return out, nil
}

// unite gives the charts of two clusters the same series, so that a name has the same colour in both.
func unite(answers []*answer, s *sizes) {
	if len(answers) < 2 || len(answers[0].table.sums) == 0 || len(answers[1].table.sums) == 0 {
		return
	}
	sums := maps.Clone(answers[0].table.sums)
	for name, sum := range answers[1].table.sums {
		sums[name] += sum
	}
	for _, a := range answers {
		a.request.sums = sums
		a.shape(s)
	}
}

// picker returns the columns that a reader can choose, and the other parameters of the request,
// which the choice does not change.
func (r *request) picker() (picker, hidden []option) {
	for _, name := range append(slices.Clone(question.Columns), "limit_used", "id") {
		picker = append(picker, option{name, r.doc(name), slices.Contains(r.columns, name)})
	}
	return picker, r.hidden("columns", "rows", "page", "width", "format")
}

// hidden returns the request's parameters, except those with the given names.
func (r *request) hidden(but ...string) (list []option) {
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		if slices.Contains(but, name) {
			continue
		}
		for _, v := range r.values[name] {
			list = append(list, option{Name: name, Value: v})
		}
	}
	return list
}

// tiles returns a cell for each column of a table with one row.
func (r *request) tiles(t *table) (list []cell) {
	for i, column := range t.Columns {
		text := cmp.Or(r.write(column.format, t.Rows[0][i]), quantity.Unknown)
		list = append(list, cell{Label: tableLabel(column), Text: text})
	}
	return list
}

// otherGroupings returns links to the panel "groups" grouped by other columns.
func (r *request) otherGroupings() (list []cell) {
	for _, name := range groupings {
		if name != r.by {
			href := r.url(func(v url.Values) { v.Set("by", name) })
			list = append(list, cell{Text: strings.TrimSuffix(name, "_name"), Href: href})
		}
	}
	return list
}

// part prepares an answer for the template. The parameter together is the scale that all charts beside each other
// share. If draw is nil, there is no chart.
func (a *answer) part(draw func(r *request, t *table, s scale) (*chart, error), together scale) (*part, error) {
	r, t := a.request, a.table
	out := &part{Notes: t.notes, CSV: "api/v1/panels/" + a.panel.name + r.url(r.alone)}
	more := a.trim()
	if draw != nil && !t.absent {
		c, err := draw(r, t, together)
		if err != nil {
			return nil, fmt.Errorf("panel %s: %w", a.panel.name, err)
		}
		if c == nil {
			what := map[bool]string{false: "jobs", true: "figures of slurmctld"}
			out.Notes = append(out.Notes, "There is nothing to draw: this view has no "+what[a.panel.health != nil]+
				" for the chart.")
		}
		out.Chart, out.Folded = c, true
	}
	if t.absent {
		return out, nil
	}
	if t.tiles {
		out.Tiles, out.Range = r.tiles(t), r.span()
		return out, nil
	}
	first := 0
	if a.panel.name == "table" {
		first = 1 // column 0, seq, is only for links
		if r.page > 0 {
			out.Newer = r.url(func(v url.Values) { v.Set("page", fmt.Sprint(r.page-1)) })
		}
		if more {
			out.Older = r.url(func(v url.Values) { v.Set("page", fmt.Sprint(r.page+1)) })
		}
	}
	if a.panel.name == groups {
		out.By = r.otherGroupings()
	}
	highest := 0.0
	for _, row := range t.Rows {
		if t.bar > 0 {
			highest = max(highest, known(row[t.bar]))
		}
	}
	for _, column := range t.Columns[first:] {
		head := headCell{Label: tableLabel(column), Text: column.format == word}
		if first > 0 {
			head = r.sortLink(column)
		}
		out.Head = append(out.Head, head)
	}
	for i, row := range t.Rows {
		var line []cell
		for k, column := range t.Columns {
			if k < first {
				continue
			}
			c := cell{Text: r.write(column.format, row[k]), Number: column.format != word, Label: column.Label}
			switch {
			case column.format == word:
				c.Text = quantity.Name(c.Text)
			case row[k] == nil:
				c.Text = quantity.Unknown
			}
			switch {
			case first > 0 && k == first:
				c.Href, c.Expand = "jobs/"+url.PathEscape(fmt.Sprint(row[0]))+r.inZone(), true
			case first > 0 && column.format == word && row[k] != nil:
				c.Href = r.only(column.Name, fmt.Sprint(row[k]))
			case k == 0 && t.links != nil:
				c.Href = t.links[i]
				if column.format == word {
					c.Text = orUnknown(fmt.Sprint(row[k]))
				}
			}
			if t.bar > 0 && k == t.bar && highest > 0 {
				c.Share = 100 * known(row[k]) / highest
			}
			line = append(line, c)
		}
		out.Rows = append(out.Rows, line)
	}
	return out, nil
}

// alone changes the page's parameters v into the parameters of the API's CSV. If the page shows
// two clusters, the parameters select this request's cluster, in this request's range of time.
func (r *request) alone(v url.Values) {
	v.Set("format", "csv")
	v.Del("rows") // the file has the jobs of all pages
	v.Del("page")
	if r.suffix == "" {
		return
	}
	for _, name := range []string{"a", "b", "align", "shift", "f"} {
		v.Del(name)
	}
	for _, t := range r.filters {
		v.Add("f", t.String())
	}
	if !r.whole {
		r.setRange(v, r.from, r.until)
	}
}

// sortLink returns the heading of a column of the table of jobs.
func (r *request) sortLink(c column) headCell {
	h := headCell{Label: c.Label, Title: r.doc(c.Name), Text: c.format == word}
	to := "-" + c.Name
	if r.sort == c.Name {
		h.Sorted = "ascending"
		if r.descending {
			h.Sorted, to = "descending", c.Name
		}
	}
	h.Href = r.url(func(v url.Values) { v.Set("sort", to) })
	return h
}

// chip is a filter of the page, with a link that removes the filter and a link that negates it.
type chip struct{ Text, Remove, Negate string }

// frame has everything of a page except the content of its panels.
type frame struct {
	Title    string
	Revision string
	Request  string // URL parameters for the panels
	Compare  bool
	Live     bool   // true for the page about schedulers
	Jobs     string // link from a page about schedulers to the page about jobs
	Health   string // link from a page about jobs to the page about schedulers
	Sides    []side
	Aligned  []option // ways to align two clusters
	Error    string
	Doubts   []string // which of the shown runs are not valid, and why

	Printed             string // describes the page on paper, where the controls are missing
	Query, From, Until  string
	ExactFrom           string // value of the parameter from
	ExactUntil          string
	Ranges, Zones, Auto []option
	Earlier, Later      string
	Clusters            []option
	More                int    // number of clusters that the list leaves out
	Damaged             string // message about saved views that could not be read
	All                 string // link to the page with all clusters
	Chips               []chip
	Hidden              []option
	Views               []views.View
	Panels              []*shown // without their content, unless Static
	Static              bool
	StaticURL           string
	Other               string // link to the page with a comparison; on that page, link to the page without it
	FieldNames          []string
}

// side is one of two clusters that the page shows beside each other.
type side struct {
	Letter  string
	Chosen  string
	Options []option
	Report  string
}

func (v *server) dashboard(w http.ResponseWriter, q *http.Request) error {
	values := q.URL.Query()
	// Runs are alternatives, and their sum would describe a machine that never existed.
	if s, err := v.known(q.Context()); err == nil && len(values) == 0 && s.onlyRuns() && len(s.list) > 1 {
		http.Redirect(w, q, receive.Pages+"compare", http.StatusFound)
		return nil
	}
	values.Del("a")
	values.Del("b")
	return v.page(w, q, values, &frame{}, panels)
}

// compare answers with a page that shows two clusters or runs beside each other. By default, these
// are the first two that have names.
func (v *server) compare(w http.ResponseWriter, q *http.Request) error {
	values := q.URL.Query()
	s, err := v.known(q.Context())
	if err != nil {
		return err
	}
	if err := s.choosePair(values, "clusters or runs", nil); err != nil {
		return err
	}
	return v.page(w, q, values, &frame{Compare: true}, panels)
}

// choosePair sets each of the request's parameters a and b that is missing to the first name that the request
// does not have. In errors, the argument what names the members of s, for example "clusters or runs". For a
// comparison of schedulers, stored has the names of all clusters with jobs, because a cluster with jobs may
// lack figures of a scheduler.
func (s *sizes) choosePair(values url.Values, what string, stored []string) error {
	named := s.named()
	if len(named) == 0 {
		return missing("a comparison needs two %s with names; the store has none (import them)", what)
	}
	for _, name := range []string{"a", "b"} {
		if given := values.Get(name); given != "" && !slices.Contains(named, given) {
			others := ""
			if n := len(named) - maxShown; n > 0 {
				named, others = named[:maxShown], fmt.Sprintf(" and %d others", n)
			}
			text := "there is no cluster %q (there are %s%s)"
			if slices.Contains(stored, given) {
				text = "%q has no figures of a scheduler (these have: %s%s)"
			}
			return missing(text, given, strings.Join(named, ", "), others)
		} else if given != "" {
			continue
		}
		i := slices.IndexFunc(named, func(c string) bool { return c != values.Get("a") && c != values.Get("b") })
		if len(named) < 2 || i < 0 {
			return missing("a comparison needs two %s with names; the store has %d (import another one)", what, len(named))
		}
		values.Set(name, named[i])
	}
	return nil
}

// page answers with a page of the given panels. The frame f says what kind of page it is.
func (v *server) page(w http.ResponseWriter, q *http.Request, values url.Values, f *frame, panels []*panel) error {
	f.Revision, f.Static, f.FieldNames = revision, values.Get("static") != "", fieldNames()
	known, err := v.known(q.Context())
	if err != nil {
		return err
	}
	switch {
	case hasRange(values):
	case known.onlyRuns():
		values.Set("last", "all")
	case f.Live:
		values.Set("last", "24h")
	}
	r, s, err := v.readAbout(q.Context(), values, f.Live)
	var wrong *statusError
	switch {
	case errors.As(err, &wrong):
		// The page shows the error, and the reader can correct the parameters with the page's controls.
		f.Error = err.Error()
		w.WriteHeader(wrong.status)
		if r, s, err = v.readAbout(q.Context(), v.readable(q.Context(), values, f.Live), f.Live); err != nil {
			return err
		}
		f.Query = values.Get("q")
	case err != nil:
		return err
	default:
		f.Query = r.values.Get("q")
	}
	f.fill(r, s)
	f.Doubts = known.doubts(r) // on the page about schedulers, s has no doubts
	if err := v.linkHealth(q.Context(), f, r, s, known); err != nil {
		return err
	}
	if f.Views, f.Damaged, err = v.views.All(); err != nil {
		return err
	}
	for i := range f.Sides {
		if v.hasReport(f.Sides[i].Chosen) {
			f.Sides[i].Report = "reports/" + url.PathEscape(f.Sides[i].Chosen)
		}
	}
	for _, p := range panels {
		f.Panels = append(f.Panels, &shown{Name: p.name, Title: p.title, About: p.about, Wide: p.wide || f.Compare})
	}
	if f.Static && f.Error == "" {
		g, ctx := errgroup.WithContext(q.Context())
		for i, p := range panels {
			g.Go(func() error {
				one, err := v.view(ctx, p, r, s)
				if err == nil {
					one.Wide = f.Panels[i].Wide
					f.Panels[i] = one
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return render(w, "page", f)
}

// readable returns the parameters that can be read. It checks each filter separately.
func (v *server) readable(ctx context.Context, values url.Values, live bool) url.Values {
	kept := url.Values{}
	for _, name := range []string{"a", "b", "zone", "from", "until", "last", "f", "q", "column", "columns", "sort", "rows",
		"page", "align", "shift", "refresh", "static"} {
		for _, value := range values[name][:min(len(values[name]), maxFilters)] {
			before := kept[name]
			kept[name] = append(slices.Clone(before), value)
			if _, _, err := v.readAbout(ctx, kept, live); err != nil {
				kept[name] = before
			}
		}
	}
	return kept
}

// fillRange sets the controls for the range of time.
func (f *frame) fillRange(r *request) {
	const local = "2006-01-02T15:04:05" // the format of an HTML input for date and time
	if f.ExactFrom = r.values.Get("from"); f.ExactFrom != "" {
		f.From = r.from.In(r.zone).Format(local)
	}
	if f.ExactUntil = r.values.Get("until"); f.ExactUntil != "" {
		f.Until = r.until.In(r.zone).Format(local)
	}
	last := r.values.Get("last")
	if last == "" && f.From == "" && f.Until == "" {
		last = "30d"
	}
	for _, o := range []option{{Name: "1 hour", Value: "1h"}, {Name: "24 hours", Value: "24h"},
		{Name: "7 days", Value: "7d"}, {Name: "30 days", Value: "30d"}, {Name: "90 days", Value: "90d"},
		{Name: "1 year", Value: "1y"}, {Name: "everything", Value: "all"}} {
		o.Chosen = o.Value == last && f.From == ""
		f.Ranges = append(f.Ranges, o)
	}
	if last != "" && !slices.ContainsFunc(f.Ranges, func(o option) bool { return o.Chosen }) && f.From == "" {
		f.Ranges = append(f.Ranges, option{Name: last, Value: last, Chosen: true})
	}
}

// fill sets the page's controls.
func (f *frame) fill(r *request, s *sizes) {
	f.Request = r.url(func(v url.Values) { v.Del("static"); v.Del("refresh"); keepPage(v, r) })
	f.Title, f.Printed = "Finished jobs", r.printed()
	named := map[string]string{"user_name": "User", "account": "Account", "cluster": "Cluster", "partition": "Partition",
		"job_name": "Jobs named"}
	for _, t := range r.filters {
		if name, ok := named[t.Field.Name]; ok && t.Op == "=" {
			f.Title = name + " " + quantity.Name(t.Value)
		}
	}
	f.fillRange(r)
	for _, o := range []option{{Name: "off", Value: ""}, {Name: "10 s", Value: "10"}, {Name: "1 min", Value: "60"},
		{Name: "5 min", Value: "300"}} {
		o.Chosen = o.Value == r.values.Get("refresh")
		f.Auto = append(f.Auto, o)
	}
	f.Zones = []option{{Name: r.zone.String(), Value: r.zone.String(), Chosen: true}}
	span := r.until.Sub(r.from)
	f.Earlier, f.Later = r.during(r.from.Add(-span/2), r.until.Add(-span/2)),
		r.during(r.from.Add(span/2), r.until.Add(span/2))
	chosen := r.clusters()
	without := func(v url.Values) {
		v["f"] = slices.DeleteFunc(v["f"], func(s string) bool { return strings.HasPrefix(s, "cluster=") })
	}
	shown, more := s.largest(maxShown, chosen...)
	for _, c := range shown {
		name := orUnknown(c.Name)
		if c.Kind == kindRun {
			name += " (run)"
		}
		f.Clusters = append(f.Clusters, option{Name: name, Chosen: slices.Contains(chosen, c.Name),
			Value: r.url(func(v url.Values) { without(v); v.Add("f", "cluster="+c.Name) })})
	}
	f.More = more
	f.All = r.url(without)
	for i, t := range r.filters {
		if t.Op == "=" && t.Field.Name == "cluster" && !f.Compare {
			continue // the page has separate controls for clusters
		}
		c := chip{Text: t.Field.Name + " " + t.Op + " " + cmp.Or(quantity.Name(t.Value), "not known")}
		if t.Value == "" {
			c.Text = t.Field.Name + " " + t.Op + " not known"
		}
		c.Remove = r.url(func(v url.Values) { v["f"] = slices.Delete(v["f"], i, i+1) })
		if turned, ok := map[string]string{"=": "!=", "!=": "="}[t.Op]; ok {
			c.Negate = r.url(func(v url.Values) { v["f"][i] = t.Field.Name + turned + t.Value })
		}
		f.Chips = append(f.Chips, c)
	}
	f.Hidden = r.hidden("q", "from", "until", "last", "zone", "refresh", "page", "width", "a", "b", "align", "shift")
	if f.Compare {
		for _, o := range alignments {
			o.Chosen = o.Value == r.alignment
			f.Aligned = append(f.Aligned, o)
		}
		for i, letter := range []string{"a", "b"} {
			one := side{Letter: letter, Chosen: r.sides()[i]}
			shown, _ := s.largest(maxShown, one.Chosen)
			for _, c := range shown {
				if c.Name != "" {
					one.Options = append(one.Options, option{Name: c.Name, Value: c.Name, Chosen: c.Name == one.Chosen})
				}
			}
			f.Sides = append(f.Sides, one)
		}
		f.Title = quantity.Name(f.Sides[0].Chosen) + " and " + quantity.Name(f.Sides[1].Chosen)
		f.Other = "./" + r.url(func(v url.Values) { v.Del("a"); v.Del("b"); v.Del("align"); v.Del("shift") })
	} else if len(s.named()) > 1 {
		f.Other = "compare" + r.url(func(v url.Values) {
			without(v)
			if len(chosen) > 0 {
				v.Set("a", chosen[0])
			}
		})
	}
	f.StaticURL = r.url(func(v url.Values) { v.Set("static", "1") })
}

// span describes the range of time in words.
func (r *request) span() string {
	return r.write(moment, r.from) + " to " + r.write(moment, r.until) + ", " + r.zone.String()
}

// printed describes what the page shows, for paper. The filters are missing because they are printed above the panels.
// On a page that reloads its panels, the range of time moves with the newest job.
func (r *request) printed() string {
	var parts []string
	if names := slices.Clone(r.clusters()); len(names) > 0 {
		for i, name := range names {
			names[i] = orUnknown(name)
		}
		parts = append(parts, "Cluster: "+strings.Join(names, ", "))
	}
	if q := r.values.Get("q"); q != "" {
		parts = append(parts, "Query: "+q)
	}
	span := r.span()
	if r.values.Get("refresh") != "" && r.values.Get("until") == "" {
		span = "last " + cmp.Or(r.values.Get("last"), "30d") + ", " + r.zone.String()
		if r.values.Has("from") {
			span = "since " + r.write(moment, r.from) + ", " + r.zone.String()
		}
	}
	return strings.Join(append(parts, "Time: "+span), "; ")
}

// keepPage adds the page number of the table of jobs to the parameters of the panels.
func keepPage(v url.Values, r *request) {
	if r.page > 0 {
		v.Set("page", fmt.Sprint(r.page))
	}
}
