package chart

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"rmreplay/internal/figure"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// IORun is the use of file systems by the jobs of a run.
type IORun struct {
	Name    string
	Courses []metrics.FileSystemCourse // courses of equal lengths in all runs
}

// of returns the course of a file system, or nil if the run does not have it.
func (r *IORun) of(name string) *metrics.FileSystemCourse {
	for i := range r.Courses {
		if r.Courses[i].Name == name {
			return &r.Courses[i]
		}
	}
	return nil
}

// IO returns the figures of each file system: its bandwidth over time, and its licenses if running
// jobs held some. The first [MostPanels] runs with the file system have a panel each. The
// parameter x has the middles of the courses' parts, in seconds since 1970.
func IO(runs []IORun, x []float64, zone *time.Location) ([]*figure.Figure, error) {
	var names []string
	for i := range runs {
		for k := range runs[i].Courses {
			if name := runs[i].Courses[k].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var list []*figure.Figure
	for n, name := range names {
		var shown []IORun // the runs with the file system
		for i := range runs {
			if runs[i].of(name) != nil && len(shown) < MostPanels {
				shown = append(shown, runs[i])
			}
		}
		for _, make := range []func(*figure.Figure, string, []IORun) []panel{rates, licenses} {
			f := &figure.Figure{Width: figure.Wide}
			panels := make(f, name, shown)
			if panels == nil {
				continue
			}
			if f.Name += "-" + fmt.Sprint(n+1); len(names) == 1 {
				f.Name = f.Name[:len(f.Name)-2]
			}
			if err := draw(f, panels, x, zone); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			list = append(list, f)
		}
	}
	return list, nil
}

// panel is the panel of a run.
type panel struct {
	title, axis string
	lines       []line
}

// line is a line of a panel: a value for each point, or one value for all points.
type line struct {
	name   string
	values []float64
	level  float64
}

// rates returns the panels of the bandwidth.
func rates(f *figure.Figure, name string, runs []IORun) (panels []panel) {
	f.Name, f.Title = "bandwidth", "Bandwidth of "+quantity.Name(name)
	f.Caption = "The rates that running jobs requested from the file system, and the rates that they got, as means of the time between two " +
		"points. " +
		"Above the bandwidth jobs slow each other down. The limit is the bandwidth that the scheduler uses for planning. " +
		"Rates are not recorded: the model of the replay computes them from the times at which the jobs ran."
	unit, size := "MiB/s", float64(1<<20)
	if runs[0].of(name).Bandwidth >= 10<<30 {
		unit, size = "GiB/s", 1<<30
	}
	scaled := func(values []float64) []float64 {
		out := make([]float64, len(values))
		for i, v := range values {
			out[i] = v / size
		}
		return out
	}
	for i := range runs {
		c := runs[i].of(name)
		p := panel{title: runs[i].Name, axis: unit, lines: []line{
			{name: "granted", values: scaled(c.Granted)}, {name: "asked for", values: scaled(c.Asked)},
			{name: "bandwidth", level: float64(c.Bandwidth) / size},
		}}
		if c.Limit != c.Bandwidth {
			p.lines = append(p.lines, line{name: "limit", level: float64(c.Limit) / size})
		}
		panels = append(panels, p)
	}
	return panels
}

// licenses returns the panels of the licenses, or nil if no job held licenses.
func licenses(f *figure.Figure, name string, runs []IORun) (panels []panel) {
	f.Name, f.Title = "io-licenses", "Licenses of "+quantity.Name(name)
	f.Caption = "Licenses of the running jobs, as means of the time between two points: the requested licenses, and the " +
		"requested licenses plus those that the scheduler expected for jobs without a request. The total represents the " +
		"limit of the bandwidth. The used licenses are the granted bandwidth, converted to licenses."
	held := false
	for i := range runs {
		c := runs[i].of(name)
		p := panel{title: runs[i].Name, axis: "licenses"}
		if slices.Max(c.Requested) > 0 {
			held = true
			p.lines = append(p.lines, line{name: "requested", values: c.Requested})
		}
		if c.Expected != nil && slices.Max(c.Expected) > 0 {
			held = true
			p.lines = append(p.lines, line{name: "with estimates", values: c.Expected})
		}
		used := make([]float64, len(c.Granted))
		for b, v := range c.Granted {
			used[b] = v / float64(c.Limit) * float64(c.Licenses)
		}
		p.lines = append(p.lines, line{name: "total", level: float64(c.Licenses)}, line{name: "used", values: used})
		panels = append(panels, p)
	}
	if !held {
		return nil
	}
	return panels
}

// draw draws the panels with one scale, and writes their table.
func draw(f *figure.Figure, panels []panel, x []float64, zone *time.Location) error {
	f.Data = &figure.Table{Head: []string{"time, " + zone.String()}, Folded: true}
	if len(panels) > 1 {
		f.Data.Head = append(f.Data.Head, "set")
	}
	names := lineNames(panels)
	for _, name := range names {
		f.Data.Head = append(f.Data.Head, fmt.Sprintf("%s [%s]", name, panels[0].axis))
	}
	top := 0.0
	for i := range panels {
		p := figure.NewPlot("", "", panels[i].axis)
		p.X.Tick.Marker = figure.DateTicks{Zone: zone}
		figure.LightGrid(p)
		if len(panels) > 1 {
			p.Title.Text = panels[i].title
		}
		if err := figure.AddNamedLines(p, panels[i].series(names, x)); err != nil {
			return err
		}
		top = max(top, p.Y.Max)
		f.Plots = append(f.Plots, p)
		f.Height += 6.2 * vg.Centimeter
		panels[i].addRows(f.Data, names, x, zone, len(panels) > 1)
	}
	for _, p := range f.Plots {
		p.Y.Min, p.Y.Max = 0, top*1.04
	}
	f.Plots[len(f.Plots)-1].X.Label.Text = zone.String()
	f.Legend = figure.LineSwatches(names)
	f.Height += 0.8 * vg.Centimeter
	return nil
}

// order is the order of the lines, which decides their colours.
var order = []string{"granted", "asked for", "bandwidth", "used", "requested", "with estimates", "total", "limit"}

// lineNames returns the names of the lines of all panels.
func lineNames(panels []panel) (names []string) {
	for _, name := range order {
		if slices.ContainsFunc(panels, func(p panel) bool { return p.find(name) != nil }) {
			names = append(names, name)
		}
	}
	return names
}

// find returns the line of a name, or nil.
func (p *panel) find(name string) *line {
	for i := range p.lines {
		if p.lines[i].name == name {
			return &p.lines[i]
		}
	}
	return nil
}

// at returns the value of a line at a point.
func (l *line) at(point int) float64 {
	if l.values == nil {
		return l.level
	}
	return l.values[point]
}

// series returns the panel's lines in the order of names. The first line is also drawn as an area.
func (p *panel) series(names []string, x []float64) []figure.Series {
	list := make([]figure.Series, len(names))
	for i, name := range names {
		l := p.find(name)
		if l == nil {
			continue
		}
		s := figure.Series{Name: name, X: x, Low: make([]float64, len(x)), Band: i == 0}
		for point := range x {
			s.Mean = append(s.Mean, l.at(point))
		}
		s.High = s.Mean
		list[i] = s
	}
	return list
}

// tableRows is the largest number of points of a panel in the table.
const tableRows = 25

// addRows adds some points of a panel to the table.
func (p *panel) addRows(t *figure.Table, names []string, x []float64, zone *time.Location, several bool) {
	for i := range min(tableRows, len(x)) {
		point := i * len(x) / min(tableRows, len(x))
		row := []string{figure.DateOf(zone)(x[point])}
		if several {
			row = append(row, p.title)
		}
		for _, name := range names {
			cell := quantity.Unknown
			if l := p.find(name); l != nil {
				cell = quantity.Decimal(l.at(point))
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
}
