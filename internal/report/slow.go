package report

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/waits"
)

// slowJobs are the jobs of a set with a high slowdown.
type slowJobs struct {
	name      string
	slowdowns []float64 // slowdowns of these jobs in all runs, ascending
	counts    []float64 // the number of these jobs in each run
	shares    []float64 // share of these jobs among the jobs that have a slowdown
}

// plainSlowdown returns turnaround / run time. The result known is false for a job without a turnaround or a run time,
// and for a preset job, because the scheduler did not decide its wait.
func plainSlowdown(r *run.Row, m *run.Manifest) (s float64, known bool) {
	if !(waits.Seconds(r) >= 0) || r.End <= r.Start || r.Start < m.WindowStart {
		return 0, false
	}
	return r.End.Sub(r.Submit).Seconds() / r.End.Sub(r.Start).Seconds(), true
}

func slowJobsOf(name string, s compare.Set) slowJobs {
	out := slowJobs{name: name}
	for i := range s.Runs {
		slow, all := 0, 0
		for n := range s.Runs[i].Rows {
			if v, known := plainSlowdown(&s.Runs[i].Rows[n], s.Runs[i].Manifest); known {
				all++
				if v > metrics.HighSlowdown {
					slow++
					out.slowdowns = append(out.slowdowns, v)
				}
			}
		}
		if all > 0 {
			out.counts, out.shares = append(out.counts, float64(slow)), append(out.shares, float64(slow)/float64(all))
		}
	}
	slices.Sort(out.slowdowns)
	return out
}

// newSlowJobs returns the figure of the jobs with a high slowdown, modelled on figure 10 of SC'18. The figure shows the
// number of these jobs in each set, and the distribution of their slowdowns. newSlowJobs returns nil if no set has such
// jobs.
func newSlowJobs(sets []compare.Set) (*Figure, error) {
	var slow []slowJobs
	for i, s := range sets {
		label := setName(i, s)
		if len(sets) == 1 {
			label = quantity.Name(s.Name)
		}
		if j := slowJobsOf(label, s); len(j.slowdowns) > 0 {
			slow = append(slow, j)
		}
	}
	if len(slow) == 0 {
		return nil, nil
	}
	f := &Figure{
		Name: "high-slowdowns", Title: fmt.Sprintf("Jobs with a slowdown above %d", metrics.HighSlowdown),
		Caption: "Below: the number of jobs with a slowdown (turnaround / run time) above this value" + spread(sets) +
			". Above: their slowdowns " +
			"(median and quartiles; whiskers reach 1.5 times the interquartile distance, circles are jobs beyond them). " +
			"Preset jobs do not count.",
		Width: figure.Wide, Height: 11 * vg.Centimeter,
		Data: &Table{Head: []string{"set", "jobs", "share", "median slowdown", "p90 slowdown"}, Folded: true},
	}
	if several(sets) {
		f.Data.Head = append(f.Data.Head, "runs", "lowest run", "highest run")
	}
	boxes := figure.NewPlot("", "", "slowdown")
	boxes.Y.Scale, boxes.Y.Tick.Marker = plot.LogScale{}, figure.LogTicks{}
	counts := figure.NewPlot("", "", "jobs")
	figure.LightGrid(boxes)
	figure.LightGrid(counts)
	width := min(2*vg.Centimeter, 10*vg.Centimeter/vg.Length(len(slow)))
	var labels []string
	for i, j := range slow {
		box, err := plotter.NewBoxPlot(width, float64(i), plotter.Values(j.slowdowns))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		box.FillColor = figure.Faint(figure.Colour(i))
		box.GlyphStyle.Radius = vg.Points(1)
		boxes.Add(box)
		mean := stats.Mean(j.counts)
		bar, err := plotter.NewBarChart(plotter.Values{mean}, width)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		bar.XMin, bar.Color = float64(i), figure.Faint(figure.Colour(i))
		low, high := slices.Min(j.counts), slices.Max(j.counts)
		spread, err := plotter.NewYErrorBars(countRange{float64(i), mean, low, high})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		counts.Add(bar, spread)
		labels = append(labels, j.name)
		row := []string{
			j.name, quantity.Decimal(mean), quantity.Percent(stats.Mean(j.shares)),
			quantity.Decimal(metrics.Quantile(j.slowdowns, 0.5)), quantity.Decimal(metrics.Quantile(j.slowdowns, 0.9)),
		}
		if several(sets) {
			row = append(row, quantity.Count(len(j.counts)), quantity.Decimal(low), quantity.Decimal(high))
		}
		f.Data.Rows = append(f.Data.Rows, row)
	}
	counts.Y.Min = 0
	for _, p := range []*plot.Plot{boxes, counts} {
		p.NominalX(labels...)
		p.X.Min, p.X.Max = -0.6, float64(len(slow))-0.4
	}
	boxes.X.Tick.Label.Font.Size = 0
	counts.X.Tick.Label.Rotation = slant
	counts.X.Tick.Label.XAlign, counts.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	f.Plots = []*plot.Plot{boxes, counts}
	return f, nil
}

// spread returns a text about how the figure shows the range of several runs.
func spread(sets []compare.Set) string {
	if !several(sets) {
		return ""
	}
	return ", with the mean and the range of the runs"
}

// slant is the angle of long labels below an axis, in radians.
const slant = 0.4

// countRange is one point with the range of the runs.
type countRange struct{ x, mean, low, high float64 }

// Len implements [plotter.XYer].
func (countRange) Len() int { return 1 }

// XY implements [plotter.XYer].
func (c countRange) XY(int) (x, y float64) { return c.x, c.mean }

// YError implements [plotter.YErrorer].
func (c countRange) YError(int) (below, above float64) { return c.mean - c.low, c.high - c.mean }
