package report

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"rmreplay/internal/compare"
	"rmreplay/internal/explain"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/chart"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// newReasons returns the figure of the reasons for which jobs waited, over time, with a panel for
// the first run of each set. It returns nil if no run has reasons.
func newReasons(sets []compare.Set, c *courses) (*Figure, error) {
	sets = sets[:min(len(sets), chart.MostPanels)]
	names := partNames(sets)
	if len(names) == 0 || slices.Equal(names, []waits.Part{waits.Unknown}) {
		return nil, nil
	}
	f := &Figure{
		Name: "pending-reasons", Title: "Why jobs waited", Width: figure.Wide,
		Caption: "Waiting jobs by the part of their wait, one above the other, in the first run of each set." + precision(sets),
		Data:    &Table{Head: []string{"time, " + c.zone.String()}, Folded: true},
	}
	if len(sets) > 1 {
		f.Data.Head = append(f.Data.Head, "set")
	}
	colour := func(part int) color.RGBA {
		if names[part] == waits.Unknown {
			return figure.Colours[len(figure.Colours)-1]
		}
		return groupColour(part, len(names))
	}
	var entries figure.Swatches
	for i, name := range names {
		f.Data.Head = append(f.Data.Head, name.Words())
		entries = append(entries, figure.Entry{Colour: colour(i), Name: name.Words()})
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
		f.Plots = append(f.Plots, p)
		f.Height += figure.Flat
		c.addRows(f.Data, sets, k, parts)
	}
	f.ShareScale(1)
	f.Plots[len(f.Plots)-1].X.Label.Text = c.zone.String()
	f.Legend = entries
	f.Height += 0.5 * vg.Centimeter // for the legend
	return f, nil
}

// precision returns a sentence about the reasons of replays on Slurm; "" if no set is such a replay.
func precision(sets []compare.Set) string {
	if !slices.ContainsFunc(sets, func(s compare.Set) bool { return s.Runs[0].Manifest.Engine == "slurm" }) {
		return ""
	}
	return " A replay on Slurm asks slurmctld for reasons only every few minutes, so the reasons of short waits are unknown."
}

// eachPart calls a function for each period of the jobs' waits. A period belongs to a single part.
func eachPart(r *compare.Realization, call func(part waits.Part, from, to hpc.Time)) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.State == hpc.Rejected || row.Preset(r.Manifest.WindowStart) {
			continue // a preset job did not wait
		}
		for _, span := range waits.Decompose(row, r.Manifest.VirtualEnd) {
			call(span.Part, span.From, span.To)
		}
	}
}

// partNames returns the parts that occur in the waits of all sets, in descending order of their
// sums. The part "unknown" is last.
func partNames(sets []compare.Set) (names []waits.Part) {
	sums := make(map[waits.Part]float64)
	for k := range sets {
		eachPart(&sets[k].Runs[0], func(part waits.Part, from, to hpc.Time) { sums[part] += to.Sub(from).Seconds() })
	}
	for _, part := range waits.Parts {
		if sums[part] > 0 {
			names = append(names, part)
		}
	}
	slices.SortStableFunc(names, func(a, b waits.Part) int {
		return cmp.Or(strings.Compare(last(a), last(b)), cmp.Compare(sums[b], sums[a]))
	})
	return names
}

// last returns a key for sorting that puts the part "unknown" after all other parts.
func last(part waits.Part) string {
	if part == waits.Unknown {
		return "unknown"
	}
	return ""
}

// reasonParts returns the number of jobs that waited, by the parts of their waits, as means of the bins.
func (c *courses) reasonParts(r *compare.Realization, names []waits.Part) [][]float64 {
	curves := make([]curve, len(names))
	shift, width := c.shift(r), c.width()
	place := func(t hpc.Time) float64 { return t.Add(shift).Sub(c.from).Seconds() / width }
	eachPart(r, func(part waits.Part, from, to hpc.Time) {
		curves[slices.Index(names, part)].add(place(from), place(to), 1)
	})
	var parts [][]float64
	for i := range curves {
		parts = append(parts, curves[i].values())
	}
	return parts
}

// causesOf returns the largest causes of a run's waits, and the groups that held the missing processors.
func causesOf(r *compare.Realization) ([]Block, error) {
	record, err := explain.FromRows(r.Manifest, r.Rows, r.Administration)
	if err != nil {
		return nil, err
	}
	rows := make([]*run.Row, len(r.Rows))
	for i := range r.Rows {
		rows[i] = &r.Rows[i]
	}
	group := record.Groups(rows).Groupings[0].Groups
	if len(group) == 0 || len(group[0].Causes) == 0 {
		return nil, nil
	}
	g := group[0]
	causes := &Table{Head: []string{"cause", "hours", "share", "waited for", "examples"}, Prose: true}
	for _, c := range g.Causes {
		causes.Rows = append(causes.Rows, []string{cmp.Or(string(c.Kind), "not known"), quantity.Decimal(c.Seconds / 3600),
			quantity.Percent(c.Share), c.Text, strings.Join(c.Examples, ", ")})
	}
	rivals := &Table{Head: []string{"who held processors", "mean processors", "share"}}
	for _, v := range g.Rivals {
		rivals.Rows = append(rivals.Rows, []string{v.Name, quantity.Decimal(v.Processors), quantity.Percent(v.Share)})
	}
	return []Block{{Table: causes}, {Table: rivals}}, nil
}
