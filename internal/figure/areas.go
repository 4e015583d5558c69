package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// AddAreas adds the parts of a sum to a panel, one above the other. Each part has a value for each
// point of x. AddAreas returns the plotter's error.
func AddAreas(p *plot.Plot, x []float64, parts [][]float64, colour func(part int) color.RGBA) error {
	below := make([]float64, len(x))
	for i, part := range parts {
		above := make([]float64, len(x))
		for b := range above {
			above[b] = below[b] + part[b]
		}
		area, err := plotter.NewPolygon(Series{X: x, Low: below, High: above}.Area())
		if err != nil {
			return err
		}
		area.Color, area.Width = colour(i), 0
		p.Add(area)
		below = above
	}
	return nil
}
