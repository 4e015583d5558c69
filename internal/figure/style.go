package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours are the colours of Okabe and Ito, which the package comment names. The colours with the
// highest contrast on white come first.
var Colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

// ColourNames are the names of the colours, in their order.
var ColourNames = []string{"blue", "vermilion", "green", "pink", "orange", "sky blue", "black", "grey"}

// gridColour is the colour of the lines behind the data.
var gridColour = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}

// dashes distinguish lines without colour.
var dashes = [][]vg.Length{
	nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)},
	{vg.Points(8), vg.Points(3), vg.Points(2), vg.Points(3)},
}

// Colour returns the colour of a line by its place among the lines.
func Colour(i int) color.RGBA { return Colours[i%len(Colours)] }

// lineStyle returns the style of a line by its place among the lines.
func lineStyle(i int) draw.LineStyle {
	return draw.LineStyle{Color: Colour(i), Width: vg.Points(1.4), Dashes: dashes[i%len(dashes)]}
}

// Faint returns the colour for areas behind lines.
func Faint(c color.RGBA) color.Color { return color.NRGBA{c.R, c.G, c.B, 0x38} }

// NewPlot returns an empty plot in the style of all figures.
func NewPlot(title, x, y string) *plot.Plot {
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

// LightGrid draws thin grey lines at the ticks.
func LightGrid(p *plot.Plot) {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColour, gridColour
	p.Add(grid)
}
