package figure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Series is one line of a figure for a set of runs: the mean over the runs and their range.
// A value is NaN where there is no data.
type Series struct {
	Name            string
	X               []float64
	Mean, Low, High []float64
	Band            bool // the figure shows the range, because the set has several runs
}

// NewSeries returns the mean and the range of several runs' lines over the same points.
func NewSeries(name string, x []float64, lines [][]float64) Series {
	s := Series{Name: name, X: x, Band: len(lines) > 1}
	for i := range x {
		sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
		for _, line := range lines {
			sum += line[i]
			low, high = min(low, line[i]), max(high, line[i])
		}
		s.Mean = append(s.Mean, sum/float64(len(lines)))
		s.Low, s.High = append(s.Low, low), append(s.High, high)
	}
	return s
}

// AddLines draws series with their ranges, and a legend for several series.
func AddLines(p *plot.Plot, lines []Series) error {
	if err := addBands(p, lines); err != nil {
		return err
	}
	for i, s := range lines {
		line, err := addLine(p, i, s)
		if err != nil {
			return err
		}
		if s.Name != "" && len(lines) > 1 {
			p.Legend.Add(s.Name, line)
		}
	}
	return nil
}

// AddNamedLines draws series with their ranges and without a legend, for figures with
// [LineSwatches]. A series without points also has a place in the list; otherwise the other series
// would have wrong colours.
func AddNamedLines(p *plot.Plot, lines []Series) error {
	if err := addBands(p, lines); err != nil {
		return err
	}
	for i, s := range lines {
		if len(s.X) == 0 {
			continue
		}
		if _, err := addLine(p, i, s); err != nil {
			return err
		}
	}
	return nil
}

// addBands draws the ranges of series.
func addBands(p *plot.Plot, lines []Series) error {
	for i, s := range lines {
		if !s.Band {
			continue
		}
		area, err := plotter.NewPolygon(s.Area())
		if err != nil {
			return err
		}
		area.Color, area.Width = Faint(Colour(i)), 0
		p.Add(area)
	}
	return nil
}

// addLine draws the means of a series in the style that belongs to the series' place in the list.
func addLine(p *plot.Plot, place int, s Series) (*plotter.Line, error) {
	points := make(plotter.XYs, len(s.X))
	for k := range s.X {
		points[k] = plotter.XY{X: s.X[k], Y: s.Mean[k]}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.LineStyle = lineStyle(place)
	p.Add(line)
	return line, nil
}

// placeLegend makes room for the legend above the lines. The legend's text is to the right of its
// lines. It then overlaps nothing even if the reader's browser has a wider font.
func placeLegend(p *plot.Plot, entries int) {
	if entries < 2 {
		p.Y.Max += (p.Y.Max - p.Y.Min) * 0.04
		return
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Y.Max += (p.Y.Max - p.Y.Min) * 0.08 * float64(entries)
}

// Area returns the outline of the range of a series.
func (s Series) Area() plotter.XYs {
	outline := make(plotter.XYs, 0, 2*len(s.X))
	for k := range s.X {
		outline = append(outline, plotter.XY{X: s.X[k], Y: s.High[k]})
	}
	for k := len(s.X) - 1; k >= 0; k-- {
		outline = append(outline, plotter.XY{X: s.X[k], Y: s.Low[k]})
	}
	return outline
}

// The size of most figures.
const (
	Wide = 18 * vg.Centimeter
	Flat = 7 * vg.Centimeter
)

// NewTimeline returns a figure of a value over the calendar.
func NewTimeline(name, title, axis, caption string, lines []Series, zone *time.Location) (*Figure, error) {
	p := NewPlot("", zone.String(), axis)
	p.X.Tick.Marker = DateTicks{Zone: zone}
	LightGrid(p)
	if err := AddLines(p, lines); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Y.Min = 0
	step := RoundStep(max(p.Y.Max, 1), 5)
	p.Y.Max = step * math.Ceil(max(p.Y.Max, 1)/step-1e-9)
	placeLegend(p, len(lines))
	return &Figure{
		Name: name, Title: title, Caption: caption, Width: Wide, Height: Flat, Plots: []*plot.Plot{p},
		Data: tabulateLines("time, "+zone.String(), axis, lines, 24, DateOf(zone), quantity.Decimal[float64]),
	}, nil
}

// DateOf returns a function that formats instants in seconds since 1970.
func DateOf(zone *time.Location) func(float64) string {
	return func(seconds float64) string { return quantity.Date(hpc.Time(seconds*1e9), zone) }
}

// NewDistribution returns a figure of cumulative shares over a logarithmic axis.
func NewDistribution(name, title, axis, caption string, ticks plot.Ticker, format func(float64) string,
	lines []Series) (*Figure, error) {
	p := NewPlot("", axis, "share of jobs")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks
	p.Y.Tick.Marker = shareTicks{}
	LightGrid(p)
	if err := AddLines(p, lines); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Left, p.Legend.XOffs = true, Wide/2 // this corner is free in distributions
	return &Figure{
		Name: name, Title: title, Caption: caption, Width: Wide, Height: Flat, Plots: []*plot.Plot{p},
		Data: tabulateLines(axis, "share of jobs", lines, 20, format, quantity.Percent[float64]),
	}, nil
}

// tabulateLines returns a table with the given number of the points.
func tabulateLines(x, value string, lines []Series, rows int, formatX, format func(float64) string) *Table {
	t := &Table{Head: []string{x}, Folded: true}
	for _, s := range lines {
		head := value
		if len(lines) > 1 {
			head = s.Name + ": " + value
		}
		t.Head = append(t.Head, head)
		if s.Band {
			t.Head = append(t.Head, "lowest run", "highest run")
		}
	}
	if len(lines) == 0 {
		return t
	}
	n := len(lines[0].X)
	for i := range min(rows, n) {
		k := i
		if n > rows {
			k = i * (n - 1) / (rows - 1)
		}
		row := []string{formatX(lines[0].X[k])}
		for _, s := range lines {
			row = append(row, format(s.Mean[k]))
			if s.Band {
				row = append(row, format(s.Low[k]), format(s.High[k]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// NewLines returns a figure of lines over a linear axis, or nil without data.
func NewLines(name, title, x, y, caption string, lines []Series) (*Figure, error) {
	lines = slices.DeleteFunc(lines, func(s Series) bool { return len(s.X) < 2 })
	if len(lines) == 0 {
		return nil, nil // nothing to draw
	}
	p := NewPlot("", x, y)
	LightGrid(p)
	if err := AddLines(p, lines); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Y.Min = 0
	placeLegend(p, len(lines))
	return &Figure{
		Name: name, Title: title, Caption: caption, Width: Wide, Height: Flat + vg.Centimeter, Plots: []*plot.Plot{p},
		Data: tabulateLines(x, y, lines, 20, quantity.Decimal[float64], quantity.Decimal[float64]),
	}, nil
}
