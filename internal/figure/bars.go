package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// AddBars adds the parts of a sum to a panel as bars, one above the other. Each part has a value
// for each gap between two edges, which ascend. AddBars returns the plotter's error.
func AddBars(p *plot.Plot, edges []float64, parts [][]float64, colour func(part int) color.RGBA) error {
	var x []float64
	for i := 1; i < len(edges); i++ {
		x = append(x, edges[i-1], edges[i])
	}
	steps := make([][]float64, len(parts))
	for i, part := range parts {
		for _, v := range part {
			steps[i] = append(steps[i], v, v)
		}
	}
	return AddAreas(p, x, steps, colour)
}

// Wedge returns the outline of a part of a ring around the origin between two radii. The
// parameters from and to are shares of a turn, clockwise from the top.
func Wedge(inner, outer, from, to float64) plotter.XYs {
	const arc = 1.0 / 180 // the distance of two points of an arc, as a share of a turn
	steps := max(2, int(math.Ceil((to-from)/arc)))
	at := func(radius float64, step int) plotter.XY {
		sin, cos := math.Sincos(2 * math.Pi * (from + (to-from)*float64(step)/float64(steps)))
		return plotter.XY{X: radius * sin, Y: radius * cos}
	}
	var outline plotter.XYs
	for i := range steps + 1 {
		outline = append(outline, at(outer, i))
	}
	for i := steps; i >= 0; i-- {
		outline = append(outline, at(inner, i))
	}
	return outline
}

// AddWedge adds a [Wedge] to a panel, with a line of the page's colour around it.
func AddWedge(p *plot.Plot, outline plotter.XYs, colour color.Color) error {
	wedge, err := plotter.NewPolygon(outline)
	if err != nil {
		return err
	}
	wedge.Color = colour
	wedge.Width = vg.Points(0.8)
	wedge.LineStyle.Color = color.White
	p.Add(wedge)
	return nil
}
