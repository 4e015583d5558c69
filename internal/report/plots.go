package report

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"image"
	"image/color"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf" // PDF
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"rmreplay/internal/compare"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
)

// Figure is a picture together with a description in words and its data as a table.
type Figure struct {
	Name    string // of its file, without the extension
	Title   string
	Caption string // what the picture shows, also for readers who cannot see it
	Data    *Table

	width, height vg.Length
	legend        legend       // above the plots; nil for none
	plots         []*plot.Plot // from top to bottom
}

// legend is drawn at the top of a figure. draw returns the rest of the canvas.
type legend interface{ draw(draw.Canvas) draw.Canvas }

// Formats are the formats that [Figure.WriteTo] accepts.
var Formats = []string{"png", "svg", "pdf"}

// WriteTo draws the figure in one of [Formats]. It returns an error for another format, and
// w's error.
func (f *Figure) WriteTo(w io.Writer, format string) error {
	canvas, err := f.canvas(format)
	if err != nil {
		return fmt.Errorf("drawing %s: %w", f.Name, err)
	}
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, []vg.Point{whole.Min, {X: whole.Max.X, Y: whole.Min.Y}, whole.Max, {X: whole.Min.X, Y: whole.Max.Y}})
	// Labels may reach beyond their axis.
	area := draw.Crop(whole, vg.Points(4), -vg.Points(10), 0, -vg.Points(3))
	if f.legend != nil {
		area = f.legend.draw(area)
	}
	rows := len(f.plots)
	if rows == 1 {
		f.plots[0].Draw(area)
	} else {
		tiles := draw.Tiles{Rows: rows, Cols: 1, PadY: vg.Points(6)}
		column := make([][]*plot.Plot, rows)
		for i, p := range f.plots {
			column[i] = []*plot.Plot{p}
		}
		for i, row := range plot.Align(column, tiles, area) {
			f.plots[i].Draw(row[0])
		}
	}
	var b bytes.Buffer
	if _, err = canvas.WriteTo(&b); err == nil {
		drawn := b.Bytes()
		switch format {
		case "svg":
			drawn = fitText(drawn)
		case "pdf":
			drawn = undated(drawn)
		}
		_, err = w.Write(drawn)
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", f.Name, err)
	}
	return nil
}

// pdfDate matches the dates in the description of a PDF file.
var pdfDate = regexp.MustCompile(`/(?:CreationDate|ModDate) ?\([^()]*\)`)

// undated blanks the dates of a PDF file, so that the same run gives the same bytes. The
// file's table of offsets stays true.
func undated(pdf []byte) []byte {
	return pdfDate.ReplaceAllFunc(pdf, func(d []byte) []byte { return bytes.Repeat([]byte{' '}, len(d)) })
}

// printDPI is the resolution of pixel pictures, in dots per inch; it suffices for print.
const printDPI = 200

func (f *Figure) canvas(format string) (vg.CanvasWriterTo, error) {
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.width, f.height), vgimg.UseDPI(printDPI))}, nil
	}
	return draw.NewFormattedCanvas(f.width, f.height, format)
}

// SVG returns the figure as an element of the page.
func (f *Figure) SVG() (template.HTML, error) {
	var b bytes.Buffer
	if err := f.WriteTo(&b, "svg"); err != nil {
		return "", err
	}
	text := b.Bytes()
	start := bytes.Index(text, []byte("<svg"))
	if start < 0 {
		return "", fmt.Errorf("drawing %s: no <svg> in what was drawn", f.Name)
	}
	head := fmt.Sprintf(`<svg role="img" aria-labelledby="figure-%s-title" aria-describedby="figure-%s-text"`, f.Name, f.Name)
	return template.HTML(append([]byte(head), themed(text[start+len("<svg"):])...)), nil
}

// svgStyle matches the style of an element, svgColour a colour in it.
var (
	svgStyle  = regexp.MustCompile(`style="[^"]*"`)
	svgColour = regexp.MustCompile(`#[0-9A-F]{6}`)
)

// themed replaces the colours of a figure by variables of the page's style, which has other
// colours in the dark. The printed colour remains where the style has none.
func themed(svg []byte) []byte {
	return svgStyle.ReplaceAllFunc(svg, func(style []byte) []byte {
		return svgColour.ReplaceAllFunc(style, func(text []byte) []byte {
			if name := themeName(string(text)); name != "" {
				return fmt.Appendf(nil, "var(--%s,%s)", name, text)
			}
			return text
		})
	})
}

// themeName returns the name of a colour in the page's style. Translucent colours are
// rounded when they are drawn.
func themeName(text string) string {
	rgb, err := strconv.ParseUint(text[1:], 16, 32)
	if err != nil {
		return ""
	}
	near := func(c color.RGBA) bool {
		for i, v := range []uint8{c.R, c.G, c.B} {
			if d := int(v) - int(rgb>>(16-8*i)&0xff); d < -2 || d > 2 {
				return false
			}
		}
		return true
	}
	switch {
	case near(color.RGBA{R: 0xff, G: 0xff, B: 0xff}):
		return "page"
	case near(gridColour):
		return "grid"
	case near(color.RGBA{}):
		return "ink"
	}
	for i, c := range colours {
		if near(c) {
			return strings.ReplaceAll(colourNames[i], " ", "-")
		}
	}
	return ""
}

// svgText matches a text of a figure in the output of vgsvg: its attributes, its font size
// in points, and the text.
var svgText = regexp.MustCompile(`<text ([^>]*font-size:([0-9.]+)px[^>]*)>([^<]*)</text>`)

// fitText writes the width of each text into the SVG. The layout used our font, but a
// browser draws with its own. Without the width it would move labels into the lines beside
// them.
func fitText(svg []byte) []byte {
	return svgText.ReplaceAllFunc(svg, func(element []byte) []byte {
		parts := svgText.FindSubmatch(element)
		size, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil {
			return element
		}
		face := font.DefaultCache.Lookup(font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans"}, font.Length(size))
		width := face.Width(html.UnescapeString(string(parts[3])))
		return fmt.Appendf(nil, `<text %s textLength="%.2f" lengthAdjust="spacingAndGlyphs">%s</text>`, parts[1], width.Points(), parts[3])
	})
}

// colours are those of Okabe and Ito. Those with the highest contrast on white come first.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

// colourNames are the names of the colours, in their order.
var colourNames = []string{"blue", "vermilion", "green", "pink", "orange", "sky blue", "black", "grey"}

// gridColour is the colour of the lines behind the data.
var gridColour = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}

// dashes distinguish lines without colour.
var dashes = [][]vg.Length{
	nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(3), vg.Points(2), vg.Points(3)},
}

func colour(i int) color.RGBA { return colours[i%len(colours)] }

// faint returns the colour for areas behind lines.
func faint(c color.RGBA) color.Color { return color.NRGBA{c.R, c.G, c.B, 0x38} }

// newPlot returns an empty plot in the style of all figures.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Padding = vg.Points(4)
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(10), vg.Points(10)
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = vg.Points(9), vg.Points(9)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{8}, roundTicks{5}
	p.Legend.Padding, p.Legend.XOffs = vg.Points(2), vg.Points(6)
	return p
}

// roundTicks draws at most a given number of labelled ticks, at multiples of 1, 2 or 5
// times a power of ten. gonum's own ticks have as few as two labels where eight fit.
type roundTicks struct{ most int }

// Ticks implements [plot.Ticker].
func (t roundTicks) Ticks(low, high float64) []plot.Tick {
	return ticksEvery(roundStep(high-low, t.most), low, high)
}

// roundStep returns the smallest round step that fits into a span at most the given number
// of times; 0 if the span is not above 0.
func roundStep(span float64, most int) float64 {
	if !(span > 0) || math.IsInf(span, 0) {
		return 0
	}
	for power := math.Pow(10, math.Floor(math.Log10(span/float64(most)))); ; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if step := factor * power; span/step <= float64(most) {
				return step
			}
		}
	}
}

// ticksEvery returns labelled ticks at the multiples of a step.
func ticksEvery(step, low, high float64) []plot.Tick {
	if step == 0 {
		return nil
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	var ticks []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9*step; k++ {
		value := k*step + 0 // without the sign of -0
		ticks = append(ticks, plot.Tick{Value: value, Label: tickLabel(value, decimals)})
	}
	return ticks
}

// tickLabel formats the value of a tick. Large numbers have separators.
func tickLabel(value float64, decimals int) string {
	if decimals == 0 && math.Abs(value) < 1e15 {
		return plainMinus(count(int(math.Round(value))))
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

// lightGrid draws thin grey lines at the ticks.
func lightGrid(p *plot.Plot) {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColour, gridColour
	p.Add(grid)
}

// addLines draws series with their ranges, and a legend for several series.
func addLines(p *plot.Plot, lines []series) error {
	for i, s := range lines {
		if s.band {
			area, err := plotter.NewPolygon(bandOf(s))
			if err != nil {
				return err
			}
			area.Color, area.Width = faint(colour(i)), 0
			p.Add(area)
		}
	}
	for i, s := range lines {
		points := make(plotter.XYs, len(s.x))
		for k := range s.x {
			points[k] = plotter.XY{X: s.x[k], Y: s.mean[k]}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = colour(i), vg.Points(1.4), dashes[i%len(dashes)]
		p.Add(line)
		if s.name != "" && len(lines) > 1 {
			p.Legend.Add(s.name, line)
		}
	}
	return nil
}

// placeLegend makes room for the legend above the lines. The legend's text is to the right
// of its lines, so that a wider font in the reader's browser overlaps nothing.
func placeLegend(p *plot.Plot, entries int) {
	if entries < 2 {
		p.Y.Max += (p.Y.Max - p.Y.Min) * 0.04
		return
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Y.Max += (p.Y.Max - p.Y.Min) * 0.08 * float64(entries)
}

// bandOf returns the outline of the range of a series.
func bandOf(s series) plotter.XYs {
	outline := make(plotter.XYs, 0, 2*len(s.x))
	for k := range s.x {
		outline = append(outline, plotter.XY{X: s.x[k], Y: s.high[k]})
	}
	for k := len(s.x) - 1; k >= 0; k-- {
		outline = append(outline, plotter.XY{X: s.x[k], Y: s.low[k]})
	}
	return outline
}

// The size of most figures.
const (
	wide = 18 * vg.Centimeter
	flat = 7 * vg.Centimeter
)

// newTimeline returns a figure of a value over the calendar.
func newTimeline(name, title, axis, caption string, lines []series, zone *time.Location) (*Figure, error) {
	p := newPlot("", zone.String(), axis)
	p.X.Tick.Marker = dateTicks{zone}
	lightGrid(p)
	if err := addLines(p, lines); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Y.Min = 0
	step := roundStep(max(p.Y.Max, 1), 5)
	p.Y.Max = step * math.Ceil(max(p.Y.Max, 1)/step-1e-9)
	placeLegend(p, len(lines))
	return &Figure{
		Name: name, Title: title, Caption: caption, width: wide, height: flat, plots: []*plot.Plot{p},
		Data: tabulateLines("time, "+zone.String(), axis, lines, 24, dateOf(zone), plainNumber),
	}, nil
}

// dateOf returns a function that formats instants in seconds since 1970.
func dateOf(zone *time.Location) func(float64) string {
	return func(seconds float64) string { return date(hpc.Time(seconds*1e9), zone) }
}

// plainNumber and durationOf format the values of a table.
func plainNumber(v float64) string { return decimal(metrics.Float(v)) }

func durationOf(seconds float64) string { return duration(metrics.Float(seconds)) }

func percentOf(share float64) string { return percent(metrics.Float(share)) }

// newDistribution returns a figure of cumulative shares over a logarithmic axis.
func newDistribution(name, title, axis, caption string, ticks plot.Ticker, format func(float64) string, lines []series) (*Figure, error) {
	p := newPlot("", axis, "share of jobs")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks
	p.Y.Tick.Marker = shareTicks{}
	lightGrid(p)
	if err := addLines(p, lines); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Left, p.Legend.XOffs = true, wide/2 // distributions leave this corner free
	return &Figure{
		Name: name, Title: title, Caption: caption, width: wide, height: flat, plots: []*plot.Plot{p},
		Data: tabulateLines(axis, "share of jobs", lines, 20, format, percentOf),
	}, nil
}

// shareTicks are the ticks of an axis of shares.
type shareTicks struct{}

// Ticks implements [plot.Ticker].
func (shareTicks) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for i := range 5 {
		ticks = append(ticks, plot.Tick{Value: float64(i) / 4, Label: fmt.Sprintf("%d %%", 25*i)})
	}
	return ticks
}

// logTicks are powers of ten, with minor ticks between them.
type logTicks struct{}

// Ticks implements [plot.Ticker].
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for k := 1.0; k < 10; k++ {
			v := decade * k
			if v < low*0.999 || v > high*1.001 {
				continue
			}
			label := ""
			if k == 1 {
				label = tickLabel(v, max(0, int(math.Ceil(-math.Log10(v)-1e-9))))
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// tabulateLines returns a table with the given number of the points.
func tabulateLines(x, value string, lines []series, rows int, formatX, format func(float64) string) *Table {
	t := &Table{Head: []string{x}, Folded: true}
	for _, s := range lines {
		head := value
		if len(lines) > 1 {
			head = s.name + ": " + value
		}
		t.Head = append(t.Head, head)
		if s.band {
			t.Head = append(t.Head, "lowest run", "highest run")
		}
	}
	if len(lines) == 0 {
		return t
	}
	n := len(lines[0].x)
	for i := range min(rows, n) {
		k := i
		if n > rows {
			k = i * (n - 1) / (rows - 1)
		}
		row := []string{formatX(lines[0].x[k])}
		for _, s := range lines {
			row = append(row, format(s.mean[k]))
			if s.band {
				row = append(row, format(s.low[k]), format(s.high[k]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// newHeatMap returns the figure of the distances between runs.
func newHeatMap(c *compare.Comparison) (*Figure, error) {
	d := c.Distances
	p := newPlot("", "", "")
	grid := matrix{d}
	scale := cividis{}
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
		Name: "distances", Title: "Distances between all runs", width: 12 * vg.Centimeter, height: 12.5 * vg.Centimeter, plots: []*plot.Plot{p},
		Caption: "Each cell is the Euclidean distance between the waits of two runs. If all runs came from one distribution, " +
			"the blocks within a set and the blocks between sets would look alike.",
	}
	if len(d.Rows) > mostColumns {
		return f, nil // the table above has the means of the blocks
	}
	f.Data = &Table{Head: []string{"run"}, Folded: true}
	for _, row := range d.Rows {
		f.Data.Head = append(f.Data.Head, runName(row))
	}
	for i, row := range d.Rows {
		cells := []string{runName(row)}
		for _, v := range d.Matrix[i] {
			cells = append(cells, duration(v))
		}
		f.Data.Rows = append(f.Data.Rows, cells)
	}
	return f, nil
}

// mostColumns is the number of runs whose distances fit beside each other in a table.
const mostColumns = 12

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

// runTicks name the runs of a heat map, from the top on a vertical axis. With many runs
// they name a few.
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
	every := max(1, int(roundStep(float64(n), most)))
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

// raster draws a heat map as a picture, which is smaller than squares for many runs. A cell
// has many pixels, because viewers smooth pictures.
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
		// Each rectangle covers the end of the previous one, so that there are no seams.
		left := right - n/2*float64(len(colors)-i)/float64(len(colors))
		box, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
		if err != nil {
			return err
		}
		box.Color, box.Width = c, 0
		p.Add(box)
	}
	ends := plotter.XYLabels{
		XYs:    plotter.XYs{{X: -0.5 + n/4 - 0.01*n, Y: bottom}, {X: -0.5 + 3*n/4 + 0.01*n, Y: bottom}},
		Labels: []string{duration(metrics.Float(low)), duration(metrics.Float(high))},
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

// cividis is a colour scale (Nuñez, Anderton and Renslow, PLoS ONE 13(7), 2018), given by
// ten of its colours. Its lightness rises evenly, and it looks alike with and without
// red-green vision.
type cividis struct{}

var cividisStops = []color.RGBA{
	{0x00, 0x22, 0x4e, 0xff}, {0x12, 0x35, 0x70, 0xff}, {0x3b, 0x49, 0x6c, 0xff}, {0x57, 0x5d, 0x6d, 0xff}, {0x70, 0x71, 0x73, 0xff},
	{0x8a, 0x86, 0x78, 0xff}, {0xa5, 0x9c, 0x74, 0xff}, {0xc3, 0xb3, 0x69, 0xff}, {0xe1, 0xcc, 0x55, 0xff}, {0xfe, 0xe8, 0x38, 0xff},
}

// Colors implements [palette.Palette].
func (cividis) Colors() []color.Color {
	const steps = 128
	list := make([]color.Color, steps)
	for i := range list {
		at := float64(i) / (steps - 1) * float64(len(cividisStops)-1)
		k := min(int(at), len(cividisStops)-2)
		part := at - float64(k)
		a, b := cividisStops[k], cividisStops[k+1]
		mix := func(x, y uint8) uint8 { return uint8(math.Round(float64(x) + part*(float64(y)-float64(x)))) }
		list[i] = color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
	}
	return list
}

var _ palette.Palette = cividis{}

// newJobDifferences returns the figure of one pair, after figure 6 of SC'18, with the dates
// of the baseline. first is its first submission. It has
// the panels in which there are differences, and is nil without any.
func newJobDifferences(p *compare.Pair, name string, first hpc.Time, zone *time.Location) (*Figure, error) {
	differences := p.Jobs.Differences()
	f := &Figure{
		Name: "jobs-" + compare.Letter(p.Set), Title: "Differences job by job, " + name, width: wide,
		Caption: "The median difference of the jobs that were submitted at about that time, and their range. " +
			"A value above zero is later, or longer, than in the baseline. The axes are logarithmic away from zero, so that large differences do not hide small ones.",
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
		if len(s.x) < 2 || slices.Max(s.high) <= 0 && slices.Min(s.low) >= 0 {
			continue // too few jobs for a line, or no difference
		}
		plot := newPlot("", "", panel.axis)
		plot.X.Tick.Marker = dateTicks{zone}
		ticks := differenceTicks()
		plot.Y.Scale, plot.Y.Tick.Marker = ticks, ticks
		lightGrid(plot)
		if err := addLines(plot, []series{s}); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		plot.Y.Min, plot.Y.Max = min(plot.Y.Min, -1), max(plot.Y.Max, 1)
		f.plots = append(f.plots, plot)
		if i == 1 {
			for k := 0; k < len(s.x); k += max(1, len(s.x)/24) {
				f.Data.Rows = append(f.Data.Rows, []string{dateOf(zone)(s.x[k]), signedDuration(metrics.Float(s.mean[k])), signedDuration(metrics.Float(s.low[k])), signedDuration(metrics.Float(s.high[k]))})
			}
		}
	}
	if len(f.plots) == 0 {
		return nil, nil
	}
	f.height = vg.Length(len(f.plots))*4.2*vg.Centimeter + vg.Centimeter
	f.plots[len(f.plots)-1].X.Label.Text = "submission in the baseline, " + zone.String()
	return f, nil
}

// newForest returns the figure of the relative differences of all metrics with their
// intervals, or nil without intervals.
func newForest(c *compare.Comparison) (*Figure, error) {
	if !c.Inference || len(c.Sets) < 2 {
		return nil, nil // no intervals to draw
	}
	p := newPlot("", "relative difference [%]", "")
	ticks := percentTicks()
	p.X.Scale, p.X.Tick.Marker = ticks, ticks
	lightGrid(p)
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
			if err := addWhisker(p, d, y, colour(k+1)); err != nil {
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
		Name: "metrics", Title: "Relative differences", width: wide, height: vg.Length(row)*0.62*vg.Centimeter + 2*vg.Centimeter, plots: []*plot.Plot{p},
		Caption: fmt.Sprintf("Difference of each metric's mean over runs to the baseline, with its %.4g %% confidence interval. "+
			"An interval that contains 0 is compatible with no difference. The axis is logarithmic away from zero.", 100*c.Level),
	}, nil
}

// addWhisker draws an estimate and its interval, in per cent.
func addWhisker(p *plot.Plot, d *compare.MetricDifference, y float64, c color.RGBA) error {
	line, err := plotter.NewLine(plotter.XYs{{X: 100 * float64(d.RelativeLow), Y: y}, {X: 100 * float64(d.RelativeHigh), Y: y}})
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

// newGanttFigure returns the picture of a Gantt chart, which begins at an instant, as a
// figure.
func newGanttFigure(g *Gantt, from hpc.Time, zone *time.Location) *Figure {
	p := newPlot(g.legend(), zone.String(), "nodes")
	p.X.Tick.Marker = dateTicks{zone}
	left := from.Seconds()
	p.Add(plotter.NewImage(g.image, left, 0, left+g.span, float64(len(g.nodes))))
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = left, left+g.span, 0, float64(len(g.nodes))
	p.Y.Tick.Marker = nodeTicks{len(g.nodes)}
	return &Figure{Name: g.Name, Title: g.Title, Caption: g.Caption, width: wide, height: 10 * vg.Centimeter, plots: []*plot.Plot{p}, Data: g.Data}
}

// nodeTicks count nodes from the top, where the first node is.
type nodeTicks struct{ nodes int }

// Ticks implements [plot.Ticker].
func (t nodeTicks) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for _, tick := range (plot.DefaultTicks{}).Ticks(0, float64(t.nodes)) {
		if !tick.IsMinor() && tick.Value >= 0 && tick.Value <= float64(t.nodes) {
			ticks = append(ticks, plot.Tick{Value: float64(t.nodes) - tick.Value, Label: fmt.Sprintf("%.0f", tick.Value)})
		}
	}
	return ticks
}
