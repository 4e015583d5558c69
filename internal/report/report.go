// Package report shows runs and their comparison, as one self-contained HTML page and as
// figures for papers.
//
// The page shows its figures without scripts, and looks the same when it is printed. Every figure
// has a table of its numbers. Only the Gantt chart also has a script, for zooming. Without scripts
// the page shows a picture of the chart.
package report

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	_ "embed" // the page's parts

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/metrics"
)

// Options are the inputs of a report besides the runs. The zero value is usable.
type Options struct {
	Title   string // title of the page; the sets' names if empty
	Compare compare.Options
	// Created is the time of the report, Command the command line that made it, and Version
	// the version of the program. Empty values do not appear.
	Created time.Time
	// Zone is the time zone of the dates on the page; UTC if nil.
	Zone    *time.Location
	Command []string
	Version string
}

// Report is a report that can be written.
type Report struct {
	Title      string
	Sets       []compare.Set
	Comparison *compare.Comparison
	Sections   []Section
	Figures    []*Figure // the figures of all sections, which can also be written to files

	options   Options
	overviews []*metrics.Overview // for the first run of each set
	courses   *courses
}

// Section is a section of the page.
type Section struct {
	ID, Title string
	Part      string // the title of the part of the page that begins here
	Blocks    []Block
}

// Block is one paragraph, list, row of tiles, table, figure or Gantt chart.
type Block struct {
	Text   string
	Kind   string // the kind of a text: "", "story", "warning" or "verdict"
	List   []string
	Terms  []Term
	States []StateBar
	Tiles  []Tile
	Table  *Table
	Figure *Figure
	Gantt  *Gantt
}

// Tile shows one metric in the page's summary.
type Tile struct {
	Label   string
	Values  []TileValue // a value for each set
	Meaning string
}

// TileValue is the value of a set in a [Tile].
type TileValue struct {
	Set    string // the set's letter; empty for a single set
	Value  string
	Change string // relative to the baseline, or for a share the difference; empty for the baseline
	// Kind is "significant" for a significant change. It is empty for other changes and without
	// a test.
	Kind string
}

// Figure is a picture with its table of numbers.
type Figure = figure.Figure

// Table is a table of text.
type Table = figure.Table

// Formats are the formats in which a figure can be written.
var Formats = figure.Formats

// New makes the report of at least one set of runs. The first set is the baseline. New does
// not change the sets. It returns an error if the sets cannot be compared or a figure
// cannot be drawn.
func New(sets []compare.Set, opts Options) (*Report, error) {
	if len(opts.Compare.By) == 0 {
		opts.Compare.By = metrics.Groupings
	}
	if opts.Zone == nil {
		opts.Zone = time.UTC
	}
	opts.Compare.Zone = opts.Zone
	c, err := compare.Describe(sets, opts.Compare)
	if err != nil {
		return nil, fmt.Errorf("making the report: %w", err)
	}
	r := &Report{Title: opts.Title, Sets: sets, Comparison: c, options: opts}
	if r.Title == "" {
		var names []string
		for _, s := range sets {
			names = append(names, s.Name)
		}
		r.Title = strings.Join(names, " · ")
	}
	for i := range sets {
		first := &sets[i].Runs[0]
		how := metrics.Options{Zone: opts.Zone}.WithManifest(first.Manifest)
		if c.Sets[i].Window {
			how.SubmittedFrom = first.Manifest.WindowStart
		}
		r.overviews = append(r.overviews, metrics.NewOverview(first.Rows, how, ending(first)))
	}
	r.courses = newCourses(sets, r.overviews, opts.Zone)
	// The sections that an administrator reads come first. A section without blocks is left
	// out.
	for _, section := range []func(*Report) (Section, error){
		(*Report).summary, (*Report).machine, (*Report).fileSystems, (*Report).waits, (*Report).users, (*Report).groups,
		(*Report).nodes,
		(*Report).metrics, (*Report).waiting, (*Report).fairness, (*Report).jobs, (*Report).distributions,
		(*Report).distances, (*Report).feedback, (*Report).runs, (*Report).methods,
	} {
		s, err := section(r)
		if err != nil {
			return nil, fmt.Errorf("making the report: %w", err)
		}
		if len(s.Blocks) == 0 {
			continue
		}
		r.Sections = append(r.Sections, s)
		for _, b := range s.Blocks {
			if b.Figure != nil {
				r.Figures = append(r.Figures, b.Figure)
			}
		}
	}
	return r, nil
}

// single reports whether the report is about one run.
func (r *Report) single() bool { return len(r.Sets) == 1 && !several(r.Sets) }

// several reports whether a set has several runs.
func several(sets []compare.Set) bool {
	return slices.ContainsFunc(sets, func(s compare.Set) bool { return len(s.Runs) > 1 })
}

// empty reports whether no run has a job.
func (r *Report) empty() bool {
	return !slices.ContainsFunc(r.overviews, func(o *metrics.Overview) bool { return o.Jobs > 0 })
}

// Valid reports whether all runs are valid.
func (r *Report) Valid() bool { return r.Comparison.Valid }

// Doubt returns a text that names a run that is not valid, and says why. It returns "" if all runs
// are valid.
func (r *Report) Doubt() string { return r.Comparison.Doubt }

var (
	//go:embed page.html
	pageSource string
	// Style is the style sheet of the page. Other pages also use it.
	//go:embed style.css
	Style string
	//go:embed gantt.css
	ganttStyle string
	//go:embed gantt.js
	script string

	page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })
)

// generator is in the head of every page, so that [IsPage] recognizes it.
const generator = `<meta name="generator" content="rmreplay report">`

// IsPage reports whether a file that begins like this is a page of this package.
func IsPage(head []byte) bool {
	// pages of earlier versions have only this title
	return bytes.Contains(head, []byte(generator)) || bytes.Contains(head, []byte(" rmreplay report</title>"))
}

// IsFigure reports whether a file that begins like this may be a figure in one of [Formats].
func IsFigure(head []byte) bool {
	for _, magic := range []string{"\x89PNG", "%PDF", "<?xml", "<svg"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

// WriteHTML writes the page. It returns w's error or the error of drawing a figure.
func (r *Report) WriteHTML(w io.Writer) error {
	view := struct {
		*Report
		Generator template.HTML
		Style     template.CSS
		Script    template.JS
		Created   string
		Command   string
		Version   string
		Scripts   bool
	}{Report: r, Generator: generator, Style: template.CSS(Style + ganttStyle), Version: r.options.Version,
		Command: strings.Join(r.options.Command, " ")}
	if !r.options.Created.IsZero() {
		view.Created = r.options.Created.In(r.options.Zone).Format("2006-01-02 15:04 MST")
	}
	for _, s := range r.Sections {
		for _, b := range s.Blocks {
			if b.Gantt != nil {
				view.Script = template.JS(script)
			}
		}
	}
	if err := page().Execute(w, view); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
