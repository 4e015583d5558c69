package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Entry is an entry of a legend above a figure: a colour and its meaning.
type Entry struct {
	Colour color.Color
	Name   string
}

// Swatches are entries side by side, in as many lines as are needed.
type Swatches []Entry

// Draw implements [Legend].
func (entries Swatches) Draw(c draw.Canvas) draw.Canvas {
	style := NewPlot("", "", "").Legend.TextStyle
	const box, gap = 8, 14 // points
	line := style.Height("Xg") * 1.35
	x, y := c.Min.X+vg.Points(30), c.Max.Y-line
	for _, e := range entries {
		width := vg.Points(box+4) + style.Width(e.Name)
		if x+width > c.Max.X && x > c.Min.X+vg.Points(30) {
			x, y = c.Min.X+vg.Points(30), y-line
		}
		top := y + vg.Points(box)
		c.FillPolygon(e.Colour, []vg.Point{{X: x, Y: y}, {X: x + vg.Points(box), Y: y}, {X: x + vg.Points(box), Y: top},
			{X: x, Y: top}})
		c.FillText(style, vg.Point{X: x + vg.Points(box+4), Y: y}, e.Name)
		x += width + vg.Points(gap)
	}
	return draw.Crop(c, 0, 0, 0, y-c.Max.Y-vg.Points(6))
}

// LineSwatches are the names of lines side by side. Before each name is a piece of its line, with
// the colour and the dashes of [AddNamedLines].
type LineSwatches []string

// Draw implements [Legend].
func (names LineSwatches) Draw(c draw.Canvas) draw.Canvas {
	style := NewPlot("", "", "").Legend.TextStyle
	const piece, gap = 24, 14 // points
	line := style.Height("Xg") * 1.35
	x, y := c.Min.X+vg.Points(30), c.Max.Y-line
	for i, name := range names {
		width := vg.Points(piece+4) + style.Width(name)
		if x+width > c.Max.X && x > c.Min.X+vg.Points(30) {
			x, y = c.Min.X+vg.Points(30), y-line
		}
		middle := y + style.Height("x")/2
		c.StrokeLine2(lineStyle(i), x, middle, x+vg.Points(piece), middle)
		c.FillText(style, vg.Point{X: x + vg.Points(piece+4), Y: y}, name)
		x += width + vg.Points(gap)
	}
	return draw.Crop(c, 0, 0, 0, y-c.Max.Y-vg.Points(6))
}

// ColourScale is a scale of colours with a text at each end.
type ColourScale struct{ Low, High string }

// Draw implements [Legend].
func (s ColourScale) Draw(c draw.Canvas) draw.Canvas {
	style := NewPlot("", "", "").Legend.TextStyle
	colors := Cividis{}.Colors()
	width, height := (c.Max.X-c.Min.X)/2, vg.Points(10)
	left, bottom := c.Min.X+width/2, c.Max.Y-height
	for i, part := range colors {
		// Each rectangle extends under the next rectangle, so that there are no seams.
		from := left + width*vg.Length(i)/vg.Length(len(colors))
		to := min(left+width, from+2*width/vg.Length(len(colors)))
		c.FillPolygon(part, []vg.Point{{X: from, Y: bottom}, {X: to, Y: bottom}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
	}
	style.YAlign = draw.YBottom
	c.FillText(style, vg.Point{X: left + width + vg.Points(5), Y: bottom}, s.High)
	style.XAlign = draw.XRight
	c.FillText(style, vg.Point{X: left - vg.Points(5), Y: bottom}, s.Low)
	return draw.Crop(c, 0, 0, 0, -height-vg.Points(8))
}

// Cividis is a colour scale (Nuñez, Anderton and Renslow, PLoS ONE 13(7), 2018), given by ten of
// its colours. Its lightness increases evenly, and people with and without red-green vision see
// the same scale.
type Cividis struct{}

var cividisStops = []color.RGBA{
	{0x00, 0x22, 0x4e, 0xff}, {0x12, 0x35, 0x70, 0xff}, {0x3b, 0x49, 0x6c, 0xff}, {0x57, 0x5d, 0x6d, 0xff},
	{0x70, 0x71, 0x73, 0xff},
	{0x8a, 0x86, 0x78, 0xff}, {0xa5, 0x9c, 0x74, 0xff}, {0xc3, 0xb3, 0x69, 0xff}, {0xe1, 0xcc, 0x55, 0xff},
	{0xfe, 0xe8, 0x38, 0xff},
}

// Colors implements [palette.Palette].
func (Cividis) Colors() []color.Color {
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

var _ palette.Palette = Cividis{}
