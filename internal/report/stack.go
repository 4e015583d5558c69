package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"rmreplay/internal/compare"
)

// newStack returns the figure of the processors that each group of jobs held over time, with
// a panel for each set. It returns nil if the jobs have no groups.
func newStack(sets []compare.Set, c *courses) (*Figure, error) {
	if c.by == "" {
		return nil, nil // one group is no stack
	}
	f := &Figure{
		Name: "utilization-" + string(c.by), Title: "Utilization by " + string(c.by), width: wide,
		Caption: fmt.Sprintf("Processors that the jobs of each %s held, one above the other.", c.by),
		Data:    &Table{Head: []string{"time, " + c.zone.String()}, Folded: true},
	}
	axis, top := "processors in use", 0.0
	if capacity(sets) {
		axis, top = "in use [%]", 100
	}
	if len(sets) > 1 {
		f.Data.Head = append(f.Data.Head, "set")
	}
	for _, g := range c.groups {
		f.Data.Head = append(f.Data.Head, name(g))
	}
	x := c.points()
	var entries groupLegend
	for k := range sets[:min(len(sets), mostPanels)] {
		p := newPlot("", "", axis)
		p.X.Tick.Marker = dateTicks{c.zone}
		lightGrid(p)
		if len(sets) > 1 {
			p.Title.Text = setName(k, sets[k])
		}
		below := make([]float64, bins)
		parts := c.meanParts(sets[k], k)
		for g := range c.groups {
			above := make([]float64, bins)
			for b := range above {
				above[b] = below[b] + parts[g][b]
			}
			area, err := plotter.NewPolygon(bandOf(series{x: x, low: below, high: above}))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			area.Color, area.Width = groupColour(g, len(c.groups)), 0
			p.Add(area)
			if k == 0 {
				entries = append(entries, entry{area.Color, name(c.groups[g])})
			}
			below = above
		}
		p.Y.Min, p.Y.Max = 0, max(p.Y.Max, top)
		f.plots = append(f.plots, p)
		f.height += flat
		f.addRows(sets, k, c, parts)
	}
	f.plots[len(f.plots)-1].X.Label.Text = c.zone.String()
	f.legend = entries
	f.height += 0.5 * vg.Centimeter // for the legend
	return f, nil
}

// capacity reports whether the size of every set's machine is known.
func capacity(sets []compare.Set) bool {
	for _, s := range sets {
		if s.Runs[0].Manifest.Cluster.Processors <= 0 {
			return false
		}
	}
	return true
}

// meanParts returns the means over the runs of a set, in per cent of the machine if its size
// is known.
func (c *courses) meanParts(s compare.Set, set int) [][]float64 {
	out := make([][]float64, len(c.groups))
	for g := range out {
		out[g] = make([]float64, bins)
		for i := range s.Runs {
			scale := 1 / float64(len(s.Runs))
			if n := s.Runs[i].Manifest.Cluster.Processors; n > 0 {
				scale *= 100 / float64(n)
			}
			for b, v := range c.sets[set][i].parts[g] {
				out[g][b] += v * scale
			}
		}
	}
	return out
}

// addRows adds some of the bins to the figure's table.
func (f *Figure) addRows(sets []compare.Set, k int, c *courses, parts [][]float64) {
	x := c.points()
	for b := 0; b < bins; b += bins / 25 {
		row := []string{dateOf(c.zone)(x[b])}
		if len(sets) > 1 {
			row = append(row, setName(k, sets[k]))
		}
		for g := range c.groups {
			row = append(row, plainNumber(parts[g][b]))
		}
		f.Data.Rows = append(f.Data.Rows, row)
	}
}

// groupColour is the colour of a group. The last one, which has the others, is grey.
func groupColour(group, groups int) color.RGBA {
	if group == listedGroups && groups == listedGroups+1 {
		return colours[len(colours)-1]
	}
	return colour(group)
}

// entry is an entry of a legend above a figure: a colour and its meaning.
type entry struct {
	colour color.Color
	name   string
}

// groupLegend are entries beside each other, in as many lines as they need.
type groupLegend []entry

// draw implements [legend].
func (entries groupLegend) draw(c draw.Canvas) draw.Canvas {
	style := newPlot("", "", "").Legend.TextStyle
	const box, gap = 8, 14 // points
	line := style.Height("Xg") * 1.35
	x, y := c.Min.X+vg.Points(30), c.Max.Y-line
	for _, e := range entries {
		width := vg.Points(box+4) + style.Width(e.name)
		if x+width > c.Max.X && x > c.Min.X+vg.Points(30) {
			x, y = c.Min.X+vg.Points(30), y-line
		}
		top := y + vg.Points(box)
		c.FillPolygon(e.colour, []vg.Point{{X: x, Y: y}, {X: x + vg.Points(box), Y: y}, {X: x + vg.Points(box), Y: top}, {X: x, Y: top}})
		c.FillText(style, vg.Point{X: x + vg.Points(box+4), Y: y}, e.name)
		x += width + vg.Points(gap)
	}
	return draw.Crop(c, 0, 0, 0, y-c.Max.Y-vg.Points(6))
}
