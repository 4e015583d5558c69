package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/rollup"
	"rmreplay/internal/accounting/web/calendar"
	"rmreplay/internal/httpjson"
)

// Limits of a request's parameters.
const (
	maxFilters    = 50
	longestFilter = 1024   // bytes
	maxTableRows  = 1000   // rows of the table of jobs on one page
	maxExported   = 50_000 // rows of the table of jobs in one CSV file
	maxPage       = 10_000_000
)

// utilization is the panel whose buckets also include processors of jobs that started before a bucket or end after it.
const utilization = "utilization"

// defaultColumns are the default columns of the table of jobs.
var defaultColumns = []string{"jobid", "user_name", "account", "partition", "qos", "state", "nodes", "cpus",
	"submit_time", "start_time", "end_time", "elapsed_s"}

// groupings are the columns by which the panel "groups" can group.
var groupings = []string{"partition", "user_name", "account", "qos"}

// request is the state of a page, which a reader can choose. The URL contains all of it:
//
//	from, until  the range of the jobs' ends, as instants; each may be missing
//	last         if from is missing: a duration before until, or before the newest end, or "all"
//	q            the query bar
//	f            a filter, such as partition=gpu; several with = on one field are alternatives
//	zone         a time zone; UTC if it is missing
//	columns, sort, rows, page   of the table of jobs
//	a, b         two clusters to show beside each other
//	align, shift how to align their times, and the resulting shift, which links to other ranges keep
//	by           the column by which the panel "groups" groups jobs
//	width        of charts, in CSS pixels
type request struct {
	values  url.Values
	zone    *time.Location
	now     time.Time
	filters []question.Term
	chosen  question.Filter // combines filters and query, without the range of time

	from, until time.Time
	after       time.Time     // the second after the newest end: no job ends then or later
	back        time.Duration // length of a range that counts back from the newest job; 0 for other ranges
	whole       bool          // everything: jobs that ended at any time

	by         string
	columns    []string
	sort       string
	descending bool
	rows, page int
	width      int

	intervals []time.Duration // the times between two figures of each scheduler on the page
	alignment string          // how the times of two clusters are aligned
	shift     time.Duration   // this cluster's times are later than shown by this duration
	moved     []string        // the shift of the second cluster, for URLs; nil if its times are not known

	panel  *panel // the requested panel
	suffix string // distinguishes the figures of a panel that a page shows twice

	sums map[string]float64 // sum of each name of the panel over both clusters of a comparison; may be nil
}

// parameters are the parameters of a [request] (see there) and of single pages and panels: static,
// refresh, part and format.
var parameters = []string{
	"from", "until", "last", "q", "f", "zone", "columns", "column", "sort", "rows", "page", "a", "b", "align", "shift", "by",
	"width", "static", "refresh", "part", "format",
}

// checkParameters returns an error for an unknown parameter. If the parameter is the name of a
// field of jobs, the error says how to write the filter.
func checkParameters(values url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if f, err := question.LookUp(name); err == nil && !slices.Contains(parameters, name) {
			return fmt.Errorf("%q is not a parameter (want the filter f=%s=VALUE)", name, f.Name)
		}
	}
	return httpjson.CheckParameters(values, parameters...)
}

// parseRequest reads the parameters of a URL. If the range of time depends on the newest job,
// [request.bound] sets it later.
func parseRequest(values url.Values, now time.Time) (*request, error) {
	if err := checkParameters(values); err != nil {
		return nil, err
	}
	r := &request{values: url.Values{}, zone: time.UTC, now: now, by: "partition", columns: defaultColumns,
		sort: "end_time", descending: true, rows: 25, width: 640}
	for name, list := range values {
		for _, v := range list {
			r.values.Add(name, strings.ToValidUTF8(v, "\ufffd"))
		}
	}
	if list := r.values["column"]; len(list) > 0 { // a form sends one parameter for each column
		r.values.Del("column")
		r.values.Set("columns", strings.Join(list, ","))
	}
	most := maxTableRows
	if r.values.Get("format") == "csv" {
		most, r.rows = maxExported, maxExported
	}
	var err error
	if zone := r.values.Get("zone"); zone != "" && zone != "Local" {
		if r.zone, err = time.LoadLocation(zone); err != nil {
			return nil, fmt.Errorf("zone: %q is not a time zone (want, for example, Europe/Zurich)", zone)
		}
	}
	for name, to := range map[string]*time.Time{"from": &r.from, "until": &r.until} {
		if v := r.values.Get(name); v != "" {
			if *to, err = question.ParseInstant(v, r.zone, now); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if !r.from.IsZero() && !r.until.IsZero() && !r.from.Before(r.until) {
		return nil, fmt.Errorf("from %s until %s: the range is empty (want from before until)", r.values.Get("from"),
			r.values.Get("until"))
	}
	for name, number := range map[string]*int{"rows": &r.rows, "page": &r.page, "width": &r.width} {
		if v := r.values.Get(name); v != "" {
			if *number, err = strconv.Atoi(v); err != nil || *number < 0 {
				return nil, fmt.Errorf("%s: %q is not a number (want 0 or more)", name, v)
			}
		}
	}
	if r.rows < 1 || r.rows > most {
		return nil, fmt.Errorf("rows: %d (want 1 to %d)", r.rows, most)
	}
	r.page, r.width = min(r.page, maxPage), min(max(r.width, 280), 1600)
	if v := r.values.Get("columns"); v != "" {
		r.columns = strings.Split(v, ",")
		for i, name := range r.columns {
			f, err := question.LookUp(name)
			if err != nil {
				return nil, fmt.Errorf("columns: %w", err)
			}
			r.columns[i] = f.Name
		}
		slices.Sort(r.columns)
		r.columns = slices.Compact(r.columns)
		slices.SortFunc(r.columns, func(a, b string) int { return place(a) - place(b) })
	}
	if v := r.values.Get("by"); v != "" {
		f, err := question.LookUp(v)
		if err == nil && (f.Type != question.Text || f.Computed) {
			err = fmt.Errorf("%s is not a column of texts (want, for example, %s)", v, strings.Join(groupings, ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("by: %w", err)
		}
		r.by = f.Name
	}
	if v := r.values.Get("sort"); v != "" {
		name, descending := strings.CutPrefix(v, "-")
		f, err := question.LookUp(name)
		if err != nil {
			return nil, fmt.Errorf("sort: %w", err)
		}
		r.sort, r.descending = f.Name, descending
	}
	return r, r.parseFilters()
}

// place is the position of a column: first the default columns, then the others in the store's order.
func place(name string) int {
	if i := slices.Index(defaultColumns, name); i >= 0 {
		return i
	}
	if i := slices.Index(question.Columns, name); i >= 0 {
		return len(defaultColumns) + i
	}
	return len(defaultColumns) + len(question.Columns)
}

func (r *request) parseFilters() error {
	list := r.values["f"]
	if len(list) > maxFilters {
		return fmt.Errorf("%d filters (want at most %d)", len(list), maxFilters)
	}
	for _, s := range list {
		if len(s) > longestFilter {
			return fmt.Errorf("a filter of %d bytes (want at most %d)", len(s), longestFilter)
		}
		t, err := question.ParseTerm(s)
		if err != nil {
			return err
		}
		r.filters = append(r.filters, t)
	}
	return nil
}

// clusters returns the clusters that the filters name. An empty list means all clusters.
func (r *request) clusters() (names []string) {
	for _, t := range r.filters {
		if t.Field.Name == "cluster" && t.Op == "=" {
			names = append(names, t.Value)
		}
	}
	return names
}

// bound sets the range of time, and then the filter. The parameters oldest and newest are the
// instants at which the first and the last of all jobs ended.
func (r *request) bound(oldest, newest time.Time) error {
	r.after = newest.Add(time.Second).Truncate(time.Second) // until itself is outside of the range
	if r.until.IsZero() {
		r.until = r.after
	}
	if r.from.IsZero() {
		switch last := r.values.Get("last"); last {
		case "all":
			r.from = oldest
			r.whole = r.values.Get("until") == ""
		default:
			if last == "" {
				last = "30d"
			}
			d, err := question.ParseDuration(last)
			if err != nil {
				return fmt.Errorf("last: %w", err)
			}
			r.from = r.until.Add(-d)
			if r.values.Get("until") == "" {
				r.back = d
			}
		}
	}
	r.from, r.until = r.from.Truncate(time.Second), r.until.Truncate(time.Second)
	if !r.from.Before(r.until) {
		r.until = r.from.Add(time.Minute)
	}
	return r.choose()
}

// choose combines the filters and the query bar into one filter.
func (r *request) choose() error {
	reader := question.Reader{Zone: r.zone, Now: r.now}
	filters, err := reader.Terms(r.filters)
	if err != nil {
		return err
	}
	query, err := reader.Query(r.values.Get("q"))
	r.chosen = question.All{filters, query}
	return err
}

// view returns the view for the questions of the request's panel.
func (r *request) view() question.View {
	b := r.buckets()
	edges := b.round
	if r.panel.name == utilization {
		edges = b.edges
	}
	return question.View{
		Chosen: r.chosen, From: r.from, Until: r.until, Whole: r.whole, Edges: edges, Zone: r.zone, By: r.by,
	}
}

// url returns a link to the same page with parameters that the function change has modified.
func (r *request) url(change func(v url.Values)) string {
	v := make(url.Values, len(r.values))
	for name, list := range r.values {
		v[name] = slices.Clone(list)
	}
	v.Del("page")
	for _, own := range []string{"width", "part", "format"} { // parameters of panels, whose links lead to pages
		v.Del(own)
	}
	change(v)
	return "?" + v.Encode()
}

// inZone returns the URL parameters for a page about one job that shows times in the request's zone.
func (r *request) inZone() string {
	if zone := r.zone.String(); zone != "UTC" {
		return "?" + url.Values{"zone": {zone}}.Encode()
	}
	return ""
}

// doc describes a field. If the text says that instants are in UTC, doc writes the request's zone
// instead, because pages show instants in this zone.
func (r *request) doc(name string) string {
	return strings.Replace(question.Fields[name].Doc, "(UTC)", "("+r.zone.String()+")", 1)
}

// add returns a link to the page with additional filters.
func (r *request) add(terms ...string) string {
	return r.url(func(v url.Values) {
		for _, t := range terms {
			if !slices.Contains(v["f"], t) {
				v.Add("f", t)
			}
		}
	})
}

// during returns a link to the page with another range of time.
func (r *request) during(from, until time.Time) string {
	return r.url(func(v url.Values) {
		r.setRange(v, from, until)
	})
}

// hasRange reports whether a request's parameters choose a range of time.
func hasRange(v url.Values) bool {
	return v.Get("last") != "" || v.Get("from") != "" || v.Get("until") != ""
}

// setRange sets the parameters of a range of time. The instants include their offset from UTC,
// because a local time is ambiguous when clocks are put back. A page about two clusters keeps their alignment.
func (r *request) setRange(v url.Values, from, until time.Time) {
	v.Del("last")
	v.Set("from", from.In(r.zone).Format(time.RFC3339))
	v.Set("until", until.In(r.zone).Format(time.RFC3339))
	if v.Get("b") != "" && r.alignment != "" {
		v.Set("align", r.alignment)
		v["shift"] = r.moved
	}
}

// only returns a link to the page with additional filters, which are pairs of a field and a value.
// It returns an empty text if a value is too long for a filter.
func (r *request) only(pairs ...string) string {
	var terms []string
	for i := 0; i < len(pairs); i += 2 {
		term := pairs[i] + "=" + pairs[i+1]
		if len(term) > longestFilter {
			return ""
		}
		terms = append(terms, term)
	}
	return r.add(terms...)
}

// buckets divide the range of time at round instants in the request's zone.
type buckets struct {
	step  int64       // seconds
	edges []time.Time // ascending, one more than buckets; the first and the last edge are the ends of the range
	round []time.Time // the edges before the range's ends replaced the first and the last edge
}

// buckets returns the buckets of the range of time. For the utilization, the range is rounded down to
// quarters of an hour if the edges are multiples of a quarter, because rollups store instants in these steps.
func (r *request) buckets() buckets {
	step, round := calendar.Divide(r.from, r.until, r.zone, r.intervals)
	b := buckets{step: step, edges: slices.Clone(round), round: round}
	from, until := r.from, r.until
	if r.panel != nil && r.panel.name == utilization && b.quarters() {
		const quarter = rollup.Quarter * time.Second
		from, until = from.Truncate(quarter), until.Add(quarter-time.Second).Truncate(quarter)
	}
	b.edges[0], b.edges[len(b.edges)-1] = from, until
	return b
}

// quarters reports whether all edges are quarters of an hour in UTC.
func (b buckets) quarters() bool {
	return !slices.ContainsFunc(b.round, func(at time.Time) bool { return at.Unix()%rollup.Quarter != 0 })
}
