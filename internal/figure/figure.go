// Package figure draws the figures of reports with gonum/plot. Each figure also has a table of its
// numbers.
//
// The same description of a figure is drawn as SVG for a page, and as SVG, PDF or PNG for a file.
// A page shows the figure without scripts, and the page's style may replace the colours
// ([Figure.SVG]). Equal figures give equal files.
//
// Colours come from Okabe and Ito ("Color Universal Design", 2008), and people with any kind of
// colour vision can distinguish them. Lines also differ by their dashes. Heat maps use a scale
// whose lightness always increases.
package figure

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"gonum.org/v1/plot/vg/vgimg"
)

// Table is a table of text. The first column has the names of the rows.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Prose says that the cells of the last column are sentences.
	Prose bool
	// Folded hides the table until the reader opens it.
	Folded bool
}

// Label returns the head of a column, and an empty string for a column without a head.
func (t *Table) Label(column int) string {
	if column < len(t.Head) {
		return t.Head[column]
	}
	return ""
}

// Figure is a picture together with a description in words and its data as a table.
type Figure struct {
	Name    string // the name of the figure's file, without the extension
	Title   string
	Caption string // a description of the picture, also for readers who cannot see it
	Data    *Table

	Width, Height vg.Length    // a figure is drawn higher than Height if its plots need it
	Legend        Legend       // drawn above the plots; nil without a legend
	Plots         []*plot.Plot // from top to bottom
}

// ShareScale gives all plots one scale. It reaches from 0 to the largest value of all plots, or to the parameter least
// if that is larger.
func (f *Figure) ShareScale(least float64) {
	for _, p := range f.Plots {
		least = max(least, p.Y.Max)
	}
	for _, p := range f.Plots {
		p.Y.Min, p.Y.Max = 0, least
	}
}

// Legend is drawn at the top of a figure. Draw returns the rest of the canvas.
type Legend interface{ Draw(draw.Canvas) draw.Canvas }

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
	whole.FillPolygon(color.White, []vg.Point{whole.Min, {X: whole.Max.X, Y: whole.Min.Y}, whole.Max,
		{X: whole.Min.X, Y: whole.Max.Y}})
	for i, c := range f.layout(whole) {
		f.Plots[i].Draw(c)
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

// leastData is the smallest height of the data area of a plot. It has room for the label of a tick: gonum returns NaN
// for an area that is lower than its labels.
var leastData = vg.Points(10)

// height returns the height at which the figure is drawn: Height, or more if the legend and the texts of the plots
// leave no room for the data.
func (f *Figure) height() vg.Length {
	height, most := f.Height, f.Height+100*vg.Centimeter
	for ; height < most; height += vg.Millimeter * 2 {
		canvases := f.layout(draw.NewCanvas(&recorder.Canvas{}, f.Width, height))
		fits := true
		for i, c := range canvases {
			data := f.Plots[i].DataCanvas(c)
			fits = fits && data.Max.Y-data.Min.Y >= leastData // false for NaN
		}
		if fits {
			break
		}
	}
	return height
}

// layout draws the legend and returns the canvas of each plot.
func (f *Figure) layout(whole draw.Canvas) []draw.Canvas {
	// Labels may extend beyond their axis.
	area := draw.Crop(whole, vg.Points(4), -vg.Points(10), 0, -vg.Points(3))
	if f.Legend != nil {
		area = f.Legend.Draw(area)
	}
	rows := len(f.Plots)
	if rows == 1 {
		return []draw.Canvas{area}
	}
	tiles := draw.Tiles{Rows: rows, Cols: 1, PadY: vg.Points(6)}
	column := make([][]*plot.Plot, rows)
	for i, p := range f.Plots {
		column[i] = []*plot.Plot{p}
	}
	var canvases []draw.Canvas
	for _, row := range plot.Align(column, tiles, area) {
		canvases = append(canvases, row[0])
	}
	return canvases
}

// pdfDate matches the dates in the description of a PDF file.
var pdfDate = regexp.MustCompile(`/(?:CreationDate|ModDate) ?\([^()]*\)`)

// undated replaces the dates of a PDF file by blanks, so that the same run gives the same bytes. The
// length does not change, so the file's table of offsets stays correct.
func undated(pdf []byte) []byte {
	return pdfDate.ReplaceAllFunc(pdf, func(d []byte) []byte { return bytes.Repeat([]byte{' '}, len(d)) })
}

// printDPI is the resolution of pixel pictures, in dots per inch; it suffices for print.
const printDPI = 200

func (f *Figure) canvas(format string) (vg.CanvasWriterTo, error) {
	height := f.height()
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.Width, height), vgimg.UseDPI(printDPI))}, nil
	}
	return draw.NewFormattedCanvas(f.Width, height, format)
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
		return "", fmt.Errorf("drawing %s: the result has no <svg>", f.Name)
	}
	// The default of SVG is to fill with black, and vgsvg does not write black.
	head := fmt.Sprintf(`<svg role="img" style="fill:var(--ink,#000)" aria-labelledby="figure-%s-title" `+
		`aria-describedby="figure-%s-text"`, f.Name, f.Name)
	return template.HTML(append([]byte(head), themed(text[start+len("<svg"):])...)), nil
}

// themed replaces the colours of a figure by variables of the page's style, which has different
// colours in the dark theme. The printed colour remains if the style has no such variable.
func themed(svg []byte) []byte {
	variables := make(map[string]string)
	return replaceEach(svg, `style="`, `"`, func(to, style []byte) []byte {
		for {
			at := bytes.IndexByte(style, '#')
			if at < 0 || len(style) < at+7 {
				return append(to, style...)
			}
			text := string(style[at : at+7])
			variable, known := variables[text]
			if !known {
				variable = text
				if name := themeName(text); name != "" {
					variable = fmt.Sprintf("var(--%s,%s)", name, text)
				}
				variables[text] = variable
			}
			to = append(append(to, style[:at]...), variable...)
			style = style[at+7:]
		}
	})
}

// replaceEach replaces each part of a text from an occurrence of begin to the next occurrence of end. The function
// replace appends the new text of a part to a slice, and returns the slice.
func replaceEach(text []byte, begin, end string, replace func(to, part []byte) []byte) []byte {
	to := make([]byte, 0, len(text)+len(text)/2)
	for {
		first := bytes.Index(text, []byte(begin))
		if first < 0 {
			return append(to, text...)
		}
		last := bytes.Index(text[first+len(begin):], []byte(end))
		if last < 0 {
			return append(to, text...)
		}
		last += first + len(begin) + len(end)
		to = replace(append(to, text[:first]...), text[first:last])
		text = text[last:]
	}
}

// themeName returns the name of a colour in the page's style. It also accepts nearly equal colours,
// because translucent colours are rounded when they are drawn.
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
	for i, c := range Colours {
		if near(c) {
			return strings.ReplaceAll(ColourNames[i], " ", "-")
		}
	}
	return ""
}

// svgText matches a text of a figure in the output of vgsvg: its attributes, its font size
// in points, and the text.
var svgText = regexp.MustCompile(`^<text ([^>]*font-size:([0-9.]+)px[^>]*)>([^<]*)</text>$`)

// fitText writes the width of each text into the SVG. The layout was computed with the font of this
// package, but a browser uses a different font. Without the width, labels could overlap the lines
// beside them.
func fitText(svg []byte) []byte {
	return replaceEach(svg, "<text ", "</text>", func(to, element []byte) []byte {
		parts := svgText.FindSubmatch(element)
		if parts == nil {
			return append(to, element...)
		}
		size, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil {
			return append(to, element...)
		}
		face := font.DefaultCache.Lookup(font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans"}, font.Length(size))
		width := face.Width(html.UnescapeString(string(parts[3])))
		return fmt.Appendf(to, `<text %s textLength="%.2f" lengthAdjust="spacingAndGlyphs">%s</text>`, parts[1],
			width.Points(), parts[3])
	})
}
