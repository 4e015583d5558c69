package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/chart"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// notRecorded names the waits of which a run has no reason.
const notRecorded = "not recorded"

// newReasons returns the figure of why jobs waited over time, with a panel for the first run of each
// set. It returns nil if no run records reasons.
func newReasons(sets []compare.Set, c *courses) (*Figure, error) {
	sets = sets[:min(len(sets), chart.MostPanels)]
	names := reasonNames(sets)
	if len(names) == 0 {
		return nil, nil
	}
	f := &Figure{
		Name: "pending-reasons", Title: "Why jobs waited", Width: figure.Wide,
		Caption: "Waiting jobs by the reason that slurmctld gave, one above the other, in the first run of each set. " +
			"A replay looks every few minutes, so it has no reason for the beginning of a wait and for short waits.",
		Data: &Table{Head: []string{"time, " + c.zone.String()}, Folded: true},
	}
	if len(sets) > 1 {
		f.Data.Head = append(f.Data.Head, "set")
	}
	colour := func(part int) color.RGBA {
		if names[part] == notRecorded {
			return figure.Colours[len(figure.Colours)-1]
		}
		return groupColour(part, len(names))
	}
	var entries figure.Swatches
	for i, name := range names {
		f.Data.Head = append(f.Data.Head, name)
		entries = append(entries, figure.Entry{Colour: colour(i), Name: quantity.Name(name)})
	}
	for k := range sets {
		p := figure.NewPlot("", "", "waiting jobs")
		p.X.Tick.Marker = figure.DateTicks{Zone: c.zone}
		figure.LightGrid(p)
		if len(sets) > 1 {
			p.Title.Text = setName(k, sets[k])
		}
		parts := c.reasonParts(&sets[k].Runs[0], names)
		if err := figure.AddAreas(p, c.points(), parts, colour); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		p.Y.Min, p.Y.Max = 0, max(p.Y.Max, 1)
		f.Plots = append(f.Plots, p)
		f.Height += figure.Flat
		c.addRows(f.Data, sets, k, parts)
	}
	f.Plots[len(f.Plots)-1].X.Label.Text = c.zone.String()
	f.Legend = entries
	f.Height += 0.5 * vg.Centimeter // for the legend
	return f, nil
}

// eachReason calls a function for each period for which a job of a run had one reason. The name of a
// reason has no details.
func eachReason(r *compare.Realization, call func(name string, from, to hpc.Time)) {
	if !slices.ContainsFunc(r.Rows, func(row run.Row) bool { return row.Reasons != nil }) {
		return
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.State == hpc.Rejected || row.Start != 0 && row.Start < r.Manifest.WindowStart {
			continue // a preset job did not wait
		}
		for _, span := range waits.Of(row, r.Manifest.VirtualEnd) {
			name, _, _ := strings.Cut(span.Reason, ":")
			if name == "" {
				name = notRecorded
			}
			call(name, span.From, span.To)
		}
	}
}

// reasonNames returns the reasons of all sets, the one with the longest waits first. Those beyond
// the sixth are others, and unknown ones come last.
func reasonNames(sets []compare.Set) []string {
	waits := make(map[string]float64)
	for k := range sets {
		eachReason(&sets[k].Runs[0], func(name string, from, to hpc.Time) { waits[name] += to.Sub(from).Seconds() })
	}
	var names []string
	for name := range waits {
		if name != notRecorded {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	sortBy(names, func(name string) float64 { return -waits[name] })
	if len(names) > listedGroups {
		names = append(names[:listedGroups], "others")
	}
	if waits[notRecorded] > 0 {
		names = append(names, notRecorded)
	}
	return names
}

// reasonParts returns the number of jobs that waited for each reason, as means of the bins.
func (c *courses) reasonParts(r *compare.Realization, names []string) [][]float64 {
	curves := make([]curve, len(names))
	shift, width := c.shift(r), c.width()
	place := func(t hpc.Time) float64 { return t.Add(shift).Sub(c.from).Seconds() / width }
	eachReason(r, func(name string, from, to hpc.Time) {
		at := slices.Index(names, name)
		if at < 0 {
			at = slices.Index(names, "others")
		}
		curves[at].add(place(from), place(to), 1)
	})
	var parts [][]float64
	for i := range curves {
		parts = append(parts, curves[i].values())
	}
	return parts
}
