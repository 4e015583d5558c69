package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/vg"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/chart"
)

// newStack returns the figure of the processors that each group of jobs held over time, with
// a panel for each set. It returns nil if the jobs have no groups.
func newStack(sets []compare.Set, c *courses) (*Figure, error) {
	if c.by == "" {
		return nil, nil // a stack needs at least two groups
	}
	f := &Figure{
		Name: "utilization-" + string(c.by), Title: "Utilization by " + string(c.by), Width: figure.Wide,
		Caption: fmt.Sprintf("Processors that the jobs of each %s held, one above the other.", c.by),
		Data:    &Table{Head: []string{"time, " + c.zone.String()}, Folded: true},
	}
	axis, top, percent := "processors in use", 0.0, capacity(sets)
	if percent {
		axis, top = "in use [%]", 100
	}
	if len(sets) > 1 {
		f.Data.Head = append(f.Data.Head, "set")
	}
	for _, g := range c.groups {
		f.Data.Head = append(f.Data.Head, quantity.Name(g))
	}
	x := c.points()
	var entries figure.Swatches
	for k := range sets[:min(len(sets), chart.MostPanels)] {
		p := figure.NewPlot("", "", axis)
		p.X.Tick.Marker = figure.DateTicks{Zone: c.zone}
		figure.LightGrid(p)
		if len(sets) > 1 {
			p.Title.Text = setName(k, sets[k])
		}
		parts := c.meanParts(sets[k], k, percent)
		colour := func(g int) color.RGBA { return groupColour(g, len(c.groups)) }
		if err := figure.AddAreas(p, x, parts, colour); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if k == 0 {
			for g, name := range c.groups {
				entries = append(entries, figure.Entry{Colour: colour(g), Name: quantity.Name(name)})
			}
		}
		f.Plots = append(f.Plots, p)
		f.Height += figure.Flat
		c.addRows(f.Data, sets, k, parts)
	}
	f.ShareScale(top)
	f.Plots[len(f.Plots)-1].X.Label.Text = c.zone.String()
	f.Legend = entries
	f.Height += 0.5 * vg.Centimeter // for the legend
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

// meanParts returns the means over the runs of a set, in processors or in per cent of the machine. All sets have the
// same unit, because they share an axis.
func (c *courses) meanParts(s compare.Set, set int, percent bool) [][]float64 {
	out := make([][]float64, len(c.groups))
	for g := range out {
		out[g] = make([]float64, bins)
		for i := range s.Runs {
			scale := 1 / float64(len(s.Runs))
			if n := s.Runs[i].Manifest.Cluster.Processors; percent && n > 0 {
				scale *= 100 / float64(n)
			}
			for b, v := range c.sets[set][i].parts[g] {
				out[g][b] += v * scale
			}
		}
	}
	return out
}

// addRows adds some of the bins of a set to the figure's table.
func (c *courses) addRows(t *Table, sets []compare.Set, k int, parts [][]float64) {
	x := c.points()
	for b := 0; b < bins; b += bins / 25 {
		row := []string{figure.DateOf(c.zone)(x[b])}
		if len(sets) > 1 {
			row = append(row, setName(k, sets[k]))
		}
		for g := range parts { // groups, or parts of waits
			row = append(row, quantity.Decimal(parts[g][b]))
		}
		t.Rows = append(t.Rows, row)
	}
}

// groupColour returns the colour of a group. The last group, which has the jobs of all other groups,
// is grey.
func groupColour(group, groups int) color.RGBA {
	if group == listedGroups && groups == listedGroups+1 {
		return figure.Colours[len(figure.Colours)-1]
	}
	return figure.Colour(group)
}
