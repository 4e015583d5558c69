package report

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// newHeatMap returns the figure of the distances between runs.
func newHeatMap(c *compare.Comparison) (*Figure, error) {
	d := c.Distances
	p := figure.NewPlot("", "", "")
	grid := matrix{d}
	scale := figure.Cividis{}
	heat := plotter.NewHeatMap(grid, scale)
	if heat.Min == heat.Max {
		heat.Max = heat.Min + 1
	}
	if n := float64(len(d.Rows)); n > 40 {
		p.Add(plotter.NewImage(raster(heat), -0.5, -0.5, n-0.5, n-0.5))
	} else {
		p.Add(heat)
	}
	// Lines between the sets.
	edge := func(x, y, x2, y2 float64) error {
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: y}, {X: x2, Y: y2}})
		if err != nil {
			return err
		}
		line.Color, line.Width = color.White, vg.Points(1.5)
		p.Add(line)
		return nil
	}
	n := float64(len(d.Rows))
	for i := 1; i < len(d.Rows); i++ {
		if d.Rows[i].Set == d.Rows[i-1].Set {
			continue
		}
		at := float64(i) - 0.5
		if err := edge(at, -0.5, at, n-0.5); err != nil {
			return nil, err
		}
		if err := edge(-0.5, n-1-at, n-0.5, n-1-at); err != nil {
			return nil, err
		}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = runTicks{d, false}, runTicks{d, true}
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0
	p.X.Width, p.Y.Width = 0, 0
	if err := addScale(p, scale, heat.Min, heat.Max, n); err != nil {
		return nil, fmt.Errorf("distances: %w", err)
	}
	f := &Figure{
		Name: "distances", Title: "Distances between all runs", Width: 12 * vg.Centimeter, Height: 12.5 * vg.Centimeter,
		Plots: []*plot.Plot{p},
		Caption: "Each cell is the Euclidean distance between the waits of two runs. If all runs came from one " +
			"distribution, " +
			"the blocks within a set and the blocks between sets would look similar.",
	}
	if len(d.Rows) > maxColumns {
		return f, nil // the page's table above has the means of the blocks
	}
	f.Data = &Table{Head: []string{"run"}, Folded: true}
	for _, row := range d.Rows {
		f.Data.Head = append(f.Data.Head, runName(row))
	}
	for i, row := range d.Rows {
		cells := []string{runName(row)}
		for _, v := range d.Matrix[i] {
			cells = append(cells, quantity.Duration(v))
		}
		f.Data.Rows = append(f.Data.Rows, cells)
	}
	return f, nil
}

// maxColumns is the largest number of runs whose distances fit side by side in a table.
const maxColumns = 12

func runName(row compare.DistanceRow) string {
	return fmt.Sprintf("%s%d", compare.Letter(row.Set), row.Run+1)
}

// matrix is a distance matrix for gonum/plot. Its first row is on top.
type matrix struct{ *compare.Distances }

// Dims, Z, X and Y implement [plotter.GridXYZ].
func (m matrix) Dims() (columns, rows int) { return len(m.Rows), len(m.Rows) }

// Z is the value of a cell.
func (m matrix) Z(c, r int) float64 { return float64(m.Matrix[len(m.Rows)-1-r][c]) }

// X is the position of a column.
func (m matrix) X(c int) float64 { return float64(c) }

// Y is the position of a row.
func (m matrix) Y(r int) float64 { return float64(r) }

// runTicks name the runs of a heat map, from the top on a vertical axis. If there are many runs,
// only some of them are named.
type runTicks struct {
	*compare.Distances
	down bool
}

// Ticks implements [plot.Ticker].
func (t runTicks) Ticks(_, _ float64) []plot.Tick {
	n, most := len(t.Rows), 14
	if t.down {
		most = 26
	}
	every := max(1, int(figure.RoundStep(float64(n), most)))
	var ticks []plot.Tick
	for i, row := range t.Rows {
		if row.Run%every != 0 {
			continue
		}
		at := i
		if t.down {
			at = n - 1 - i
		}
		ticks = append(ticks, plot.Tick{Value: float64(at), Label: runName(row)})
	}
	return ticks
}

// raster draws a heat map as a picture. For many runs, a picture needs less space than a figure of
// squares. A cell has many pixels, because viewers smooth pictures.
func raster(heat *plotter.HeatMap) image.Image {
	columns, rows := heat.GridXYZ.Dims()
	cell := max(1, 1000/rows)
	colors := heat.Palette.Colors()
	palette := make(color.Palette, len(colors))
	copy(palette, colors)
	picture := image.NewPaletted(image.Rect(0, 0, columns*cell, rows*cell), palette)
	for y := range rows * cell {
		for x := range columns * cell {
			part := (heat.GridXYZ.Z(x/cell, rows-1-y/cell) - heat.Min) / (heat.Max - heat.Min)
			picture.SetColorIndex(x, y, uint8(math.Round(part*float64(len(palette)-1))))
		}
	}
	return picture
}

// addScale draws the colour scale above a heat map of n rows, with its meaning.
func addScale(p *plot.Plot, scale palette.Palette, low, high, n float64) error {
	colors := scale.Colors()
	bottom, top := n-0.5+0.03*n, n-0.5+0.06*n
	right := -0.5 + 3*n/4
	for i, c := range colors {
		// Each rectangle covers the end of the previous rectangle, so that there are no seams.
		left := right - n/2*float64(len(colors)-i)/float64(len(colors))
		box, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top},
			{X: left, Y: top}})
		if err != nil {
			return err
		}
		box.Color, box.Width = c, 0
		p.Add(box)
	}
	ends := plotter.XYLabels{
		XYs:    plotter.XYs{{X: -0.5 + n/4 - 0.01*n, Y: bottom}, {X: -0.5 + 3*n/4 + 0.01*n, Y: bottom}},
		Labels: []string{quantity.Duration(metrics.Float(low)), quantity.Duration(metrics.Float(high))},
	}
	labels, err := plotter.NewLabels(ends)
	if err != nil {
		return err
	}
	for i, align := range []text.XAlignment{text.XRight, text.XLeft} {
		labels.TextStyle[i].Font = p.X.Tick.Label.Font
		labels.TextStyle[i].XAlign = align
	}
	p.Add(labels)
	p.Y.Max = top
	return nil
}

// newJobDifferences returns the figure of the differences of a pair, modelled on figure 6 of SC'18, with the dates of
// the baseline. The parameter first is the baseline's first submission. The figure has only the panels that have
// differences. newJobDifferences returns nil if there are no differences.
func newJobDifferences(p *compare.Pair, name string, first hpc.Time, zone *time.Location) (*Figure, error) {
	differences := p.Jobs.Differences()
	f := &Figure{
		Name: "jobs-" + compare.Letter(p.Set), Title: "Differences job by job, " + name, Width: figure.Wide,
		Caption: "The median and the range of the differences of jobs that were submitted at about the same time. " +
			"A value above zero is later, or longer, than in the baseline. The axes are logarithmic away from zero, so that " +
			"large differences do not hide small ones.",
		Data: &Table{Head: []string{"submitted, " + zone.String(), "median of start", "earliest", "latest"}, Folded: true},
	}
	for i, panel := range []struct {
		axis string
		of   func(*compare.JobDifference) metrics.Float
	}{
		{"submission", func(d *compare.JobDifference) metrics.Float { return d.Submit }},
		{"start", func(d *compare.JobDifference) metrics.Float { return d.Start }},
		{"run time", func(d *compare.JobDifference) metrics.Float { return d.RunTime }},
	} {
		s := spreadOver(differences, first, panel.of)
		if len(s.X) < 2 || slices.Max(s.High) <= 0 && slices.Min(s.Low) >= 0 {
			continue // too few jobs for a line, or no difference
		}
		plot := figure.NewPlot("", "", panel.axis)
		plot.X.Tick.Marker = figure.DateTicks{Zone: zone}
		ticks := figure.DifferenceTicks()
		plot.Y.Scale, plot.Y.Tick.Marker = ticks, ticks
		figure.LightGrid(plot)
		if err := figure.AddLines(plot, []figure.Series{s}); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		plot.Y.Min, plot.Y.Max = min(plot.Y.Min, -1), max(plot.Y.Max, 1)
		f.Plots = append(f.Plots, plot)
		if i == 1 {
			for k := 0; k < len(s.X); k += max(1, len(s.X)/24) {
				f.Data.Rows = append(f.Data.Rows, []string{figure.DateOf(zone)(s.X[k]),
					quantity.SignedDuration(metrics.Float(s.Mean[k])), quantity.SignedDuration(metrics.Float(s.Low[k])),
					quantity.SignedDuration(metrics.Float(s.High[k]))})
			}
		}
	}
	if len(f.Plots) == 0 {
		return nil, nil
	}
	f.Height = vg.Length(len(f.Plots))*4.2*vg.Centimeter + vg.Centimeter
	f.Plots[len(f.Plots)-1].X.Label.Text = "submission in the baseline, " + zone.String()
	return f, nil
}

// newForest returns the figure of the relative differences of all metrics with their intervals. It
// returns nil if there are no intervals.
func newForest(c *compare.Comparison) (*Figure, error) {
	if !c.Inference || len(c.Sets) < 2 {
		return nil, nil // no intervals to draw
	}
	p := figure.NewPlot("", "relative difference [%]", "")
	ticks := figure.PercentTicks()
	p.X.Scale, p.X.Tick.Marker = ticks, ticks
	figure.LightGrid(p)
	var labels []plot.Tick
	row := 0
	for i := len(c.Metrics) - 1; i >= 0; i-- {
		m := &c.Metrics[i]
		drawn := false
		for k := range m.Differences {
			d := &m.Differences[k]
			if !d.Relative.Known() || !d.RelativeLow.Known() {
				continue
			}
			drawn = true
			y := float64(row) - 0.22*float64(k)
			if err := addWhisker(p, d, y, figure.Colour(k+1)); err != nil {
				return nil, err
			}
		}
		if drawn {
			labels = append(labels, plot.Tick{Value: float64(row), Label: m.Label})
			row++
		}
	}
	if row == 0 {
		return nil, nil
	}
	zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: -0.6}, {X: 0, Y: float64(row) - 0.4}})
	if err != nil {
		return nil, err
	}
	p.Add(zero)
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Width = plot.ConstantTicks(labels), 0, 0
	p.Y.Padding = vg.Points(8)
	p.Y.Min, p.Y.Max = -0.6, float64(row)-0.4
	p.X.Min, p.X.Max = min(-3, 1.2*p.X.Min), max(3, 1.2*p.X.Max) // room between whiskers and labels
	return &Figure{
		Name: "metrics", Title: "Relative differences", Width: figure.Wide, Height: vg.Length(row)*0.62*vg.Centimeter +
			2*vg.Centimeter, Plots: []*plot.Plot{p},
		Caption: fmt.Sprintf(
			"Relative difference between a metric's mean over the runs and the baseline's, with its %.4g %% confidence interval. "+
				"An interval that contains 0 is compatible with no difference. The axis is logarithmic away from zero.",
			100*c.Level),
	}, nil
}

// addWhisker draws an estimate and its interval, in per cent.
func addWhisker(p *plot.Plot, d *compare.MetricDifference, y float64, c color.RGBA) error {
	line, err := plotter.NewLine(plotter.XYs{{X: 100 * float64(d.RelativeLow), Y: y},
		{X: 100 * float64(d.RelativeHigh), Y: y}})
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1.6)
	dot, err := plotter.NewScatter(plotter.XYs{{X: 100 * float64(d.Relative), Y: y}})
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	p.Add(line, dot)
	return nil
}

// newGanttFigure returns the picture of a Gantt chart as a figure. The chart begins at the instant
// from.
func newGanttFigure(g *Gantt, from hpc.Time, zone *time.Location) *Figure {
	p := figure.NewPlot(g.legend(), zone.String(), "nodes")
	p.X.Tick.Marker = figure.DateTicks{Zone: zone}
	left := from.Seconds()
	p.Add(plotter.NewImage(g.image, left, 0, left+g.span, float64(len(g.nodes))))
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = left, left+g.span, 0, float64(len(g.nodes))
	p.Y.Tick.Marker = figure.RowTicks(len(g.nodes))
	return &Figure{Name: g.Name, Title: g.Title, Caption: g.Caption, Width: figure.Wide, Height: 10 * vg.Centimeter,
		Plots: []*plot.Plot{p}, Data: g.Data}
}
