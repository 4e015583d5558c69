// Package report shows runs and their comparison: as one HTML page that needs
// nothing else, and as figures for papers.
//
// The figures of the page are the figures of the papers: [Figure] draws each of them
// once, with gonum/plot, as SVG for the page and as SVG, PDF or PNG for a file. So a
// page needs no script to show them, prints as it looks, and every figure has its
// numbers beside it as a table. Only the Gantt chart is drawn by a script as well,
// because one wants to look into it; without scripts its picture stays.
//
// Colours are those of Okabe and Ito ("Color Universal Design", 2008), which people
// with any kind of colour vision tell apart, and lines differ by their dashes too;
// heat maps use a scale whose lightness rises throughout.
package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	_ "embed" // the page's parts

	"rmreplay/internal/compare"
	"rmreplay/internal/metrics"
)

// Options are what a report depends on besides the runs.
type Options struct {
	Title   string // of the page; made of the sets' names if empty
	Compare compare.Options
	// Created is when the report was made, Command the command line that made it, and
	// Version the program's; empty to leave them out.
	Created time.Time
	Command []string
	Version string
}

// Report is a report that is ready to be written.
type Report struct {
	Title      string
	Sets       []compare.Set
	Comparison *compare.Comparison
	Sections   []Section
	Figures    []*Figure // of all sections, for files

	options Options
}

// Section is a part of the page.
type Section struct {
	ID, Title string
	Blocks    []Block
}

// Block is one of a paragraph, a list, tiles, a table, a figure and a Gantt chart.
type Block struct {
	Text   string
	Kind   string // of a text: "", "warning" or "verdict"
	List   []string
	Tiles  []Tile
	Table  *Table
	Figure *Figure
	Gantt  *Gantt
}

// Tile is one metric at a glance.
type Tile struct {
	Label  string
	Values []TileValue // of each set
}

// TileValue is the value of a set in a [Tile].
type TileValue struct {
	Set    string // its letter; empty where there is one set
	Value  string
	Change string // to the baseline; empty for that itself
	// Kind says what to make of the change: "stands" if it is more than chance explains,
	// and empty if not, or if nobody knows.
	Kind string
}

// Table is a table of text. The first column names the row.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Folded hides the table until the reader asks for it.
	Folded bool
}

// New makes the report of one set of runs or more; the first is the baseline of the
// others. The sets are not changed.
func New(sets []compare.Set, opts Options) (*Report, error) {
	if len(opts.Compare.By) == 0 {
		opts.Compare.By = metrics.Groupings
	}
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
	// A section that has nothing to say has no blocks and is left out.
	for _, section := range []func(*Report) (Section, error){
		(*Report).summary, (*Report).runs, (*Report).metrics, (*Report).machine, (*Report).users, (*Report).feedback,
		(*Report).distances, (*Report).jobs, (*Report).groups, (*Report).nodes, (*Report).methods,
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

// Valid reports whether all runs are.
func (r *Report) Valid() bool {
	for _, s := range r.Sets {
		for _, run := range s.Runs {
			if !run.Manifest.Valid {
				return false
			}
		}
	}
	return true
}

var (
	//go:embed page.html
	pageSource string
	//go:embed style.css
	style string
	//go:embed gantt.js
	script string

	page = template.Must(template.New("page").Parse(pageSource))
)

// WriteHTML writes the page. It returns w's error, or that of drawing a figure.
func (r *Report) WriteHTML(w io.Writer) error {
	view := struct {
		*Report
		Style   template.CSS
		Script  template.JS
		Created string
		Command string
		Version string
		Scripts bool
	}{Report: r, Style: template.CSS(style), Version: r.options.Version, Command: strings.Join(r.options.Command, " ")}
	if !r.options.Created.IsZero() {
		view.Created = r.options.Created.UTC().Format("2006-01-02 15:04 UTC")
	}
	for _, s := range r.Sections {
		for _, b := range s.Blocks {
			if b.Gantt != nil {
				view.Script = template.JS(script)
			}
		}
	}
	if err := page.Execute(w, view); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
