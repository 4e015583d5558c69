// Package chart makes those figures of reports that need only metrics.
package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"rmreplay/internal/figure"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// MostPanels is the largest number of sets in a figure with a panel for each set.
const MostPanels = 4

// Week returns the figure of the mean waits by the hour and the weekday of the
// submission, with a panel for each set. It returns nil if no job waited.
func Week(names []string, overviews []*metrics.Overview, zone *time.Location) *figure.Figure {
	shown := min(len(overviews), MostPanels)
	names, overviews = names[:shown], overviews[:shown]
	days, low, high := weekRange(overviews)
	if len(days) == 0 {
		return nil // no wait to show
	}
	f := &figure.Figure{
		Name: "wait-week", Title: "Waits by hour and weekday",
		Caption: fmt.Sprintf("Each cell is the mean wait of the jobs that were submitted in that hour of that weekday "+
			"(%s). Hours without submissions are empty.", zone),
		Width: figure.Wide,
	}
	cell := vg.Length(0.62) * vg.Centimeter
	scale := figure.Cividis{}
	for i, o := range overviews {
		p := figure.NewPlot("", "", "")
		heat := plotter.NewHeatMap(weekGrid{o, days, low, high}, scale)
		heat.Min, heat.Max = math.Log(low), math.Log(high)
		heat.NaN = color.Transparent
		p.Add(heat)
		p.X.Tick.Marker, p.Y.Tick.Marker = figure.HourTicks{}, namedDays(days)
		p.X.Tick.Length, p.Y.Tick.Length, p.X.Width, p.Y.Width = 0, 0, 0, 0
		if len(overviews) > 1 {
			p.Title.Text = names[i]
		}
		f.Plots = append(f.Plots, p)
		f.Height += cell*vg.Length(len(days)) + 1*vg.Centimeter
	}
	f.Plots[len(f.Plots)-1].X.Label.Text = "hour of submission, " + zone.String()
	f.Legend = figure.ColourScale{Low: "up to " + quantity.Duration(metrics.Float(low)),
		High: quantity.Duration(metrics.Float(high)) + " or more"}
	f.Height += 1.2 * vg.Centimeter
	f.Data = weekTable(names, overviews, days)
	return f
}

// weekRange returns the weekdays with submissions, and the range of the mean waits from the 5 % to
// the 98 % quantile. The range begins no lower than a second, and it is not empty.
func weekRange(overviews []*metrics.Overview) (days []int, low, high float64) {
	var means []float64
	for day := range 7 {
		before := len(means)
		for _, o := range overviews {
			for h := range 24 {
				if w := &o.Hours[24*day+h]; w.Jobs > 0 {
					means = append(means, float64(w.Mean()))
				}
			}
		}
		if len(means) > before {
			days = append(days, day)
		}
	}
	if len(means) == 0 || slices.Max(means) == 0 {
		return nil, 0, 0
	}
	slices.Sort(means)
	low = max(1, metrics.Quantile(means, 0.05))
	return days, low, max(metrics.Quantile(means, 0.98), 2*low)
}

// weekGrid is the heat map of a week. Monday is on top.
type weekGrid struct {
	*metrics.Overview
	days []int

	low, high float64 // means outside this range get the colours of the range's ends
}

// Dims, X, Y and Z implement [plotter.GridXYZ].
func (g weekGrid) Dims() (columns, rows int) { return 24, len(g.days) }

// X is the position of an hour.
func (g weekGrid) X(c int) float64 { return float64(c) }

// Y is the position of a weekday.
func (g weekGrid) Y(r int) float64 { return float64(r) }

// Z is the logarithm of the mean wait, NaN without jobs.
func (g weekGrid) Z(c, r int) float64 {
	w := &g.Hours[24*g.days[len(g.days)-1-r]+c]
	if w.Jobs == 0 {
		return math.NaN()
	}
	return math.Log(min(max(g.low, float64(w.Mean())), g.high))
}

// weekdays has the weekdays from Monday on, in the order of [metrics.Overview.Hours].
var weekdays = []time.Weekday{1, 2, 3, 4, 5, 6, 0}

// namedDays are the ticks of weekdays, from the top.
type namedDays []int

// Ticks implements [plot.Ticker].
func (days namedDays) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for i, day := range days {
		ticks = append(ticks, plot.Tick{Value: float64(len(days) - 1 - i), Label: weekdays[day].String()[:3]})
	}
	return ticks
}

// weekTable has the mean waits and the numbers of jobs of each hour.
func weekTable(names []string, overviews []*metrics.Overview, days []int) *figure.Table {
	t := &figure.Table{Head: []string{"hour"}, Folded: true}
	if len(overviews) > 1 {
		t.Head = append(t.Head, "set")
	}
	for _, day := range days {
		t.Head = append(t.Head, weekdays[day].String())
	}
	for h := range 24 {
		for i, o := range overviews {
			row := []string{fmt.Sprintf("%02d:00", h)}
			if len(overviews) > 1 {
				row = append(row, names[i])
			}
			for _, day := range days {
				w := &o.Hours[24*day+h]
				cell := quantity.Unknown
				if w.Jobs > 0 {
					cell = fmt.Sprintf("%s (%s)", quantity.Duration(w.Mean()), quantity.Count(w.Jobs))
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Caption = "The mean waits as a table, with the number of jobs"
	return t
}
