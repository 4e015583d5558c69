package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"rmreplay/internal/figure"
)

// alignments are the ways to align the times of one cluster or scheduler with the times of another.
var alignments = []option{
	{Name: "as they were", Value: "time"}, {Name: "by the time of day", Value: "day"},
	{Name: "at the beginning", Value: "begin"},
}

// align sets the shift of the second of two clusters or schedulers. It also sets the intervals between the figures of
// each scheduler, which decide the buckets. live is true if the range is for figures of schedulers.
//
// With the alignment "day", the second cluster's first day is moved to the first day of the range. This is the default
// alignment if the second cluster has nothing in the range. A run's first day is the first day of its workload. If the
// request gives no beginning and the first cluster is a run, that run's first day replaces the first day of the range.
// If the request is for the whole time, the range begins on the first cluster's first day, even if the first cluster
// is a site. Before the call, the range is the first cluster's range. align calls [request.widen] to add the second
// cluster's jobs.
func (r *request) align(s *sizes, live bool) (err error) {
	names, sides := r.clusters(), r.sides()
	if sides != nil {
		names = sides
	}
	var first, second size
	for _, c := range s.list {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			r.intervals = append(r.intervals, c.every)
		}
		for i, side := range []*size{&first, &second} {
			if sides != nil && c.Name == sides[i] {
				*side = c
			}
		}
	}
	r.alignment = r.values.Get("align")
	if !slices.ContainsFunc(alignments, func(o option) bool { return r.alignment == "" || o.Value == r.alignment }) {
		return fmt.Errorf("align: %q (want time, day or begin)", r.alignment)
	}
	if second.Newest.IsZero() {
		return nil
	}
	if r.alignment == "" && (!second.Oldest.Before(r.until) || second.Newest.Before(r.from)) {
		r.alignment = "day"
	}
	r.alignment = cmp.Or(r.alignment, "time")
	anchor := r.from
	if first.Kind == kindRun && r.values.Get("from") == "" && !first.Newest.IsZero() {
		anchor = first.begins()
	}
	switch moved := r.values.Get("shift"); {
	case r.alignment == "time":
	case moved != "":
		if r.shift, err = time.ParseDuration(moved); err != nil {
			return fmt.Errorf("shift: %q is not a duration (want, for example, -36h)", moved)
		}
	case r.alignment == "day":
		day := func(t time.Time) time.Time {
			year, month, day := t.In(r.zone).Date()
			return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		}
		r.shift = day(second.begins()).Sub(day(anchor))
	default:
		r.shift = second.begins().Sub(anchor)
	}
	r.moved = []string{r.shift.String()}
	r.widen(first, second, r.whole && (!live || r.alignment == "time"))
	return nil
}

// widen extends a range to include the second cluster's jobs. If the request gives no end, it extends the
// end to the last jobs. If the request is for the whole time, it extends the beginning to the first jobs. A
// range that counts back from the newest job keeps its length, so it moves to a later time. The beginning
// stays if the first cluster has no jobs at that time, or if the second cluster's beginning is aligned.
func (r *request) widen(first, second size, whole bool) {
	until := second.Newest.Add(time.Second - r.shift).Truncate(time.Second)
	if until.After(r.after) {
		r.after = until
	}
	if r.values.Get("until") != "" {
		return
	}
	if from := second.Oldest.Add(-r.shift).Truncate(time.Second); whole && from.Before(r.from) {
		r.from = from
	}
	switch later := until.Add(-r.back); {
	case !until.After(r.until):
	case r.back == 0:
		r.until = until
	case r.alignment == "time" && !first.Newest.Before(later):
		r.from, r.until = later, until
	}
}

// lineColours are the colours of a chart's lines, in the order of p.lines.
var lineColours = []int{0, 1}

// drawTogether draws the lines of a panel for two schedulers in one chart. The lines of the second
// are dashed and shifted to the range of time of the first.
func drawTogether(p *panel, r *request, sides []*answer) (*chart, error) {
	plots := figure.NewPlot("", "", p.unit)
	plots.X.Tick.Marker = figure.DateTicks{Zone: r.zone, Most: min(10, r.width/75)}
	figure.LightGrid(plots)
	c := &chart{}
	top := 0.0
	for i, side := range sides {
		for k, name := range p.lines {
			column := slices.IndexFunc(side.table.Columns, func(c column) bool { return c.Name == name })
			for _, points := range side.table.steps(column, r.from.Sub(side.request.from)) {
				for _, point := range points {
					top = max(top, point.Y)
				}
				line, err := plotter.NewLine(points)
				if err != nil {
					return nil, err
				}
				line.Color, line.Width = figure.Colour(lineColours[k]), vg.Points(1.4)
				if i > 0 {
					line.Dashes = []vg.Length{vg.Points(4), vg.Points(2.5)}
				}
				plots.Add(line)
			}
			c.Legend = append(c.Legend, legendEntry{
				Colour: colourClass(lineColours[k]) + []string{" solid", " dashed"}[i], Name: side.table.Columns[column].Label +
					", " + orUnknown(r.sides()[i]), Value: r.total(side.table, column),
			})
		}
	}
	rows := sides[0].table.Rows
	plots.X.Min, plots.X.Max = seconds1970(rows[0][0]), seconds1970(rows[len(rows)-1][1])
	scaleTo(&plots.Y, top)
	own := *r
	own.panel = p
	f := own.newFigure(p, plots, 230)
	frame := f.Frame()
	c.Axis = &axis{Field: "end_time", Left: frame.Left, Right: frame.Right, Low: plots.X.Min, High: plots.X.Max}
	for i, row := range sides[0].table.Rows {
		from, until := row[0].(time.Time), row[1].(time.Time)
		title := r.sides()[0] + ": " + r.describe(sides[0].table, row)
		if other := sides[1].table.rowAt(from.Add(until.Sub(from) / 2).Add(sides[1].request.from.Sub(r.from))); other != nil {
			title += "\n" + r.sides()[1] + ": " + r.describe(sides[1].table, other)
		}
		c.Spots = append(c.Spots, column0(frame, seconds1970(row[0]), seconds1970(row[1]), sides[0].table.links[i], title))
	}
	return c.finish(f)
}

// steps returns a column as step lines, shifted in time by move. Buckets whose value is not known
// interrupt the line.
func (t *table) steps(column int, move time.Duration) (lines []plotter.XYs) {
	var points plotter.XYs
	for _, row := range t.Rows {
		if row[column] == nil {
			if len(points) > 0 {
				lines = append(lines, points)
			}
			points = nil
			continue
		}
		for _, at := range row[:2] {
			points = append(points, plotter.XY{X: seconds1970(at) + move.Seconds(), Y: value(row[column])})
		}
	}
	if len(points) > 0 {
		lines = append(lines, points)
	}
	return lines
}

// rowAt returns the row whose bucket contains an instant, or nil.
func (t *table) rowAt(at time.Time) []any {
	for _, row := range t.Rows {
		if from, until := row[0].(time.Time), row[1].(time.Time); !at.Before(from) && at.Before(until) {
			return row
		}
	}
	return nil
}
