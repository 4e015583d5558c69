package web

import (
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"rmreplay/internal/figure"
	"rmreplay/internal/quantity"
)

// chart is a figure, the links over its parts, and the axis on which a reader can select a range.
type chart struct {
	Figure *figure.Figure
	SVG    template.HTML
	Spots  []spot
	Axis   *axis
	Legend []legendEntry
}

// spot is a link over a part of a figure. Positions are in thousandths of the figure's width or
// height.
type spot struct {
	X, Y, W, H float64
	Path       string // SVG path, for a part that is not a rectangle; replaces the four numbers
	Href       string
	Title      string
}

// axis is a horizontal axis on which a reader can select a range. Left and Right are the positions
// of its ends, as shares of the figure's width.
type axis struct {
	Field       string // the field that a selected range filters
	Logarithmic bool
	Left, Right float64
	Low, High   float64 // values at Left and Right; instants in seconds since 1970
}

type legendEntry struct {
	Colour string // class in the page's style sheet
	Name   string
	Value  string
	Href   string
}

// newFigure returns a figure for a panel, as wide as the request says. The parameter height is in
// CSS pixels.
func (r *request) newFigure(p *panel, plots *plot.Plot, height float64) *figure.Figure {
	const points = 0.75 // points in a CSS pixel
	return &figure.Figure{
		Name: p.name + r.suffix, Title: p.title, Caption: p.about, Plots: []*plot.Plot{plots},
		Width: vg.Points(points * float64(r.width)), Height: vg.Points(points * height),
	}
}

// finish draws the figure as SVG.
func (c *chart) finish(f *figure.Figure) (*chart, error) {
	var err error
	c.Figure = f
	c.SVG, err = f.SVG()
	return c, err
}

// scale has the ranges that charts beside each other share.
type scale struct {
	top       float64 // highest sum of all series
	low, high float64 // lowest and highest edge of the classes of a distribution
}

// include widens the scale so that it includes the values of a table.
func (s *scale) include(t *table) {
	for i, row := range t.Rows {
		sum := 0.0
		for _, c := range t.series {
			sum += known(row[c])
		}
		s.top = max(s.top, sum)
		if low, high := value(row[0]), value(row[1]); i == 0 && s.high == 0 {
			s.low, s.high = low, high
		} else {
			s.low, s.high = min(s.low, low), max(s.high, high)
		}
	}
}

// scaleTo sets the range of an axis: from 0 to a round number that is at least top.
func scaleTo(a *plot.Axis, top float64) {
	if !(top > 0) {
		top = 1
	}
	step := figure.RoundStep(top, 5)
	a.Min, a.Max = 0, step*math.Ceil(top/step-1e-9)
}

// parts returns the values of the table's series.
func (t *table) parts() [][]float64 {
	parts := make([][]float64, len(t.series))
	for i, c := range t.series {
		for _, row := range t.Rows {
			parts[i] = append(parts[i], known(row[c]))
		}
	}
	return parts
}

func (t *table) colour(i int) color.RGBA { return figure.Colour(t.colours[i]) }

// colourClass returns the class, in the page's style sheet, of the colour with an index.
func colourClass(i int) string {
	return strings.ReplaceAll(figure.ColourNames[i%len(figure.ColourNames)], " ", "-")
}

// drawTimeline returns a function that draws a table's series over time as stacked bars. If label
// is empty, the label of the first series is used.
func drawTimeline(label string) func(r *request, t *table, s scale) (*chart, error) {
	return func(r *request, t *table, s scale) (*chart, error) {
		if len(t.Rows) == 0 || len(t.series) == 0 {
			return nil, nil // there is nothing to draw
		}
		p := figure.NewPlot("", "", cmp.Or(label, unitLabel(t.Columns[t.series[0]])))
		p.X.Tick.Marker = figure.DateTicks{Zone: r.zone, Most: min(10, r.width/75)}
		figure.LightGrid(p)
		edges := []float64{seconds1970(t.Rows[0][0])}
		for _, row := range t.Rows {
			edges = append(edges, seconds1970(row[1]))
		}
		if err := figure.AddBars(p, edges, t.parts(), t.colour); err != nil {
			return nil, err
		}
		p.X.Min, p.X.Max = edges[0], edges[len(edges)-1]
		scaleTo(&p.Y, s.top)
		f := r.newFigure(r.panel, p, 230)
		frame := f.Frame()
		shift := r.shift.Seconds() // a selection filters jobs by the page's range of time, which is not shifted
		c := &chart{Axis: &axis{Field: "end_time", Left: frame.Left, Right: frame.Right, Low: p.X.Min - shift,
			High: p.X.Max - shift}}
		for i, row := range t.Rows {
			c.Spots = append(c.Spots, column0(frame, edges[i], edges[i+1], t.links[i], r.describe(t, row)))
		}
		for i, series := range t.series {
			if t.alone {
				break
			}
			entry := legendEntry{Colour: colourClass(t.colours[i]), Name: orUnknown(t.Columns[series].Label),
				Value: r.total(t, series)}
			if t.names != "" && entry.Name != "others" {
				entry.Href = r.only(t.names, t.Columns[series].Name)
			}
			c.Legend = append(c.Legend, entry)
		}
		return c.finish(f)
	}
}

// total returns the sum of a column over time; "" if its values must not be added up.
func (r *request) total(t *table, column int) string {
	if t.levels {
		return ""
	}
	sum, unknown := 0.0, true
	for _, row := range t.Rows {
		sum, unknown = sum+known(row[column]), unknown && row[column] == nil
	}
	if unknown {
		return quantity.Unknown
	}
	return r.writeUnit(t.Columns[column], sum)
}

// tableLabel returns the heading of a column. Durations and shares have their units beside the
// numbers, so their headings have no unit.
func tableLabel(c column) string {
	if c.format == hours && !strings.Contains(c.Label, "CPU h") && !strings.Contains(c.Label, "hours") {
		return unitLabel(c)
	}
	return c.Label
}

// unitLabel returns a column's label, with the unit in brackets.
func unitLabel(c column) string {
	if c.Unit == "" {
		return c.Label
	}
	return c.Label + " [" + c.Unit + "]"
}

func seconds1970(v any) float64 {
	t, ok := v.(time.Time)
	if !ok {
		return math.NaN()
	}
	return float64(t.Unix())
}

// column0 returns a spot over the whole height of a chart, between two values of its horizontal
// axis.
func column0(frame figure.Frame, from, to float64, href, title string) spot {
	left, right := frame.X(from), frame.X(to)
	return spot{X: 1000 * left, W: 1000 * (right - left), Y: 1000 * frame.Top, H: 1000 * (frame.Bottom - frame.Top),
		Href: href, Title: title}
}

// describe lists the values of a row that are not 0, with their labels, in one line.
func (r *request) describe(t *table, row []any) string {
	var parts []string
	for i, c := range t.Columns {
		if v := row[i]; v != nil && value(v) != 0 {
			parts = append(parts, orUnknown(c.Label)+" "+r.writeUnit(c, v))
		}
	}
	return strings.Join(parts, "; ")
}

// drawDistribution returns a function that draws a bar for each class of a field's values.
func drawDistribution(name string) func(r *request, t *table, s scale) (*chart, error) {
	return func(r *request, t *table, s scale) (*chart, error) {
		if len(t.Rows) == 0 {
			return nil, nil // there is nothing to draw
		}
		logarithmic := name != "limit_used"
		p := figure.NewPlot("", "", "jobs")
		figure.LightGrid(p)
		lowest := 0.0
		if logarithmic {
			lowest = 0.5 // values below 1 have a bar, too
			p.X.Scale = plot.LogScale{}
			switch {
			case strings.HasSuffix(name, "_s"):
				p.X.Tick.Marker = figure.DurationTicks{}
			default:
				p.X.Tick.Marker = figure.LogTicks{}
			}
		} else {
			p.X.Label.Text = "of the time limit [%]"
		}
		edges := []float64{max(lowest, value(t.Rows[0][0]))}
		for _, row := range t.Rows {
			edges = append(edges, value(row[1]))
		}
		if err := figure.AddBars(p, edges, t.parts(), t.colour); err != nil {
			return nil, err
		}
		p.X.Min, p.X.Max = max(lowest, s.low), s.high
		scaleTo(&p.Y, s.top)
		f := r.newFigure(r.panel, p, 210)
		frame := f.Frame()
		c := &chart{Axis: &axis{Field: name, Logarithmic: logarithmic, Left: frame.Left, Right: frame.Right, Low: p.X.Min,
			High: p.X.Max}}
		for i, row := range t.Rows {
			c.Spots = append(c.Spots, column0(frame, edges[i], edges[i+1], t.links[i], r.describe(t, row)))
		}
		return c.finish(f)
	}
}

// drawRings draws a ring of the CPU hours by partition, and around it a ring of the CPU hours by QOS.
func drawRings(r *request, t *table, _ scale) (*chart, error) {
	total := 0.0
	for _, row := range t.Rows {
		total += known(row[2])
	}
	if total <= 0 {
		return nil, nil // there is nothing to draw
	}
	p := figure.NewPlot("", "", "")
	p.HideAxes()
	const inner, middle, outer = 0.45, 0.75, 1.0
	aspect := 1.0
	c := &chart{}
	var wedges []plotter.XYs
	wedge := func(low, high, from, to float64, colour color.Color, href, title string) error {
		if to-from < 1e-6 {
			return nil
		}
		outline := figure.Wedge(low, high, from, to)
		wedges = append(wedges, outline)
		c.Spots = append(c.Spots, spot{Href: href, Title: title})
		return figure.AddWedge(p, outline, colour)
	}
	at, partition := 0.0, 0
	for i := 0; i < len(t.Rows); partition++ {
		name := t.Rows[i][0].(string)
		base := figure.Colour(min(partition, 7))
		from, sum := at, 0.0
		for k := 0; i < len(t.Rows) && t.Rows[i][0].(string) == name; k++ {
			row := t.Rows[i]
			share := known(row[2]) / total
			shade := color.NRGBA{base.R, base.G, base.B, uint8(max(70, 205-45*k))}
			if err := wedge(middle, outer, at, at+share, shade, t.links[i],
				fmt.Sprintf("partition %s, QOS %s: %s CPU hours, %s", orUnknown(name), orUnknown(row[1].(string)),
					r.write(hours, row[2]), quantity.Percent(share))); err != nil {
				return nil, err
			}
			at, sum, i = at+share, sum+known(row[2]), i+1
		}
		href := r.only("partition", name)
		if err := wedge(inner, middle, from, at, base, href,
			fmt.Sprintf("partition %s: %s CPU hours, %s", orUnknown(name), r.write(hours, sum),
				quantity.Percent(at-from))); err != nil {
			return nil, err
		}
		if partition < 8 {
			c.Legend = append(c.Legend, legendEntry{Colour: colourClass(partition), Name: orUnknown(name),
				Value: quantity.Percent(at - from), Href: href})
		}
	}
	const height = 250
	if wide := float64(r.width) / height; wide > 1 {
		aspect = wide
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -1.02*aspect, 1.02*aspect, -1.02, 1.02
	f := r.newFigure(r.panel, p, height)
	frame := f.Frame()
	for i, outline := range wedges {
		var path strings.Builder
		for k, point := range outline {
			fmt.Fprintf(&path, "%c%.1f,%.1f", "ML"[min(k, 1)], 1000*frame.X(point.X), 1000*frame.Y(point.Y))
		}
		c.Spots[i].Path = path.String() + "Z"
	}
	return c.finish(f)
}

// cells is a grid of numbers that are drawn as colours.
type cells struct {
	columns, rows int
	at            func(column, row int) float64 // NaN for an empty cell
}

// Dims, X, Y and Z implement [plotter.GridXYZ].
func (g cells) Dims() (columns, rows int) { return g.columns, g.rows }

// X is the position of a column.
func (g cells) X(c int) float64 { return float64(c) }

// Y is the position of a row.
func (g cells) Y(r int) float64 { return float64(r) }

// Z is the value of a cell.
func (g cells) Z(c, r int) float64 { return g.at(c, r) }

// addCells adds a heat map of numbers of jobs on a logarithmic scale of colours.
func addCells(p *plot.Plot, g cells, top float64) {
	logged := g
	logged.at = func(c, r int) float64 {
		if v := g.at(c, r); v > 0 {
			return math.Log(v)
		}
		return math.NaN()
	}
	heat := plotter.NewHeatMap(logged, figure.Cividis{})
	heat.Min, heat.Max = 0, math.Log(max(top, math.E))
	heat.NaN = color.Transparent
	p.Add(heat)
	p.X.Tick.Length, p.Y.Tick.Length, p.X.Width, p.Y.Width = 0, 0, 0, 0
}

// cellSpot is a spot over a cell of a heat map.
func cellSpot(frame figure.Frame, column, row float64, href, title string) spot {
	left, right, top, bottom := frame.X(column-0.5), frame.X(column+0.5), frame.Y(row+0.5), frame.Y(row-0.5)
	return spot{X: 1000 * left, W: 1000 * (right - left), Y: 1000 * top, H: 1000 * (bottom - top), Href: href,
		Title: title}
}

// drawWeek draws the numbers of submissions by hour and weekday. Monday is the top row.
func drawWeek(r *request, t *table, s scale) (*chart, error) {
	if s.top == 0 {
		return nil, nil // there is nothing to draw
	}
	p := figure.NewPlot("", "hour, "+r.zone.String(), "")
	addCells(p, cells{24, 7, func(c, row int) float64 { return value(t.Rows[24*(6-row)+c][2]) }}, s.top)
	days := make(figure.CellNames, 7)
	for i := range days {
		days[i] = t.Rows[24*(6-i)][0].(string)[:3]
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = figure.HourTicks{}, days
	f := r.newFigure(r.panel, p, 240)
	f.Legend = figure.ColourScale{Low: "1 job", High: quantity.Counted(int(s.top), "job", "jobs")}
	frame := f.Frame()
	c := &chart{}
	for i, row := range t.Rows {
		if value(row[2]) > 0 {
			c.Spots = append(c.Spots, cellSpot(frame, float64(i%24), float64(6-i/24), t.links[i],
				fmt.Sprintf("%s %02d:00: %s; mean wait since eligible %s", row[0], row[1],
					quantity.Counted(int(value(row[2])), "job", "jobs"), r.write(seconds, row[3]))))
		}
	}
	return c.finish(f)
}

// drawLimits draws a heat map of the jobs by time limit and run time.
func drawLimits(r *request, t *table, s scale) (*chart, error) {
	if len(t.Rows) == 0 {
		return nil, nil // there is nothing to draw
	}
	class := func(v any) int {
		if value(v) < 1 {
			return 0
		}
		return 1 + int(math.Round(math.Log2(value(v)))) // the edges are powers of two
	}
	first, last, tall := math.MaxInt, 0, 0
	jobs := make(map[[2]int]float64)
	for _, row := range t.Rows {
		limit, run := class(row[0]), class(row[2])
		first, last, tall = min(first, limit), max(last, limit), max(tall, run)
		jobs[[2]int{limit, run}] += value(row[4])
	}
	p := figure.NewPlot("", "time limit", "run time")
	addCells(p, cells{last - first + 1, tall + 1, func(c, row int) float64 { return jobs[[2]int{first + c, row}] }}, s.top)
	lower := func(class int) string { return quantity.Roughly(math.Floor(math.Exp2(float64(class - 1)))) }
	p.X.Tick.Marker = figure.CellEdges{Cells: last - first + 1, Most: 5,
		Label: func(c int) string { return lower(first + c) }}
	// A label for 0 would overlap the first label of the other axis.
	p.Y.Tick.Marker = figure.CellEdges{First: 1, Cells: tall + 1, Most: 7, Label: lower}
	f := r.newFigure(r.panel, p, 280)
	f.Legend = figure.ColourScale{Low: "1 job", High: quantity.Counted(int(s.top), "job", "jobs")}
	frame := f.Frame()
	c := &chart{}
	for i, row := range t.Rows {
		c.Spots = append(c.Spots, cellSpot(frame, float64(class(row[0])-first), float64(class(row[2])), t.links[i],
			fmt.Sprintf("limit from %s, run time from %s: %s", r.write(seconds, row[0]), r.write(seconds, row[2]),
				quantity.Counted(int(value(row[4])), "job", "jobs"))))
	}
	return c.finish(f)
}

// write formats a value for readers.
func (r *request) write(f format, v any) string {
	if v == nil {
		return ""
	}
	n := value(v)
	switch f {
	case count:
		return quantity.Count(int(math.Round(n)))
	case hours:
		if n >= 100 {
			return quantity.Count(int(math.Round(n)))
		}
		return quantity.Decimal(n)
	case seconds:
		return quantity.Duration(n)
	case percent:
		return quantity.Percent(n / 100)
	case moment:
		if t, ok := v.(time.Time); ok {
			return strings.ReplaceAll(t.In(r.zone).Format("2006-01-02 15:04:05"), " ", quantity.Space)
		}
	case number:
		if n == math.Trunc(n) {
			return fmt.Sprintf("%.0f", n)
		}
		return quantity.Decimal(n)
	}
	return fmt.Sprint(v)
}

// writeUnit formats a value of a column as write does, and adds the unit to an unformatted number.
func (r *request) writeUnit(c column, v any) string {
	if c.format == number && c.Unit != "" {
		return r.write(number, v) + quantity.Space + c.Unit
	}
	return r.write(c.format, v)
}

func orUnknown(name string) string { return quantity.Name(cmp.Or(name, "not known")) }
