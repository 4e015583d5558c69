// Package chart draws a workload in the figures of Martinasso et al., "RM-Replay" (SC'18): the
// number of jobs by size and duration (Table I), the submissions over time (Fig. 4), and the used
// share of the requested time (Fig. 9).
package chart

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
	"rmreplay/internal/workload"
)

// Formats are the formats of pictures that [Write] accepts.
var Formats = []string{"svg", "png"}

var blue = color.RGBA{R: 0x30, G: 0x60, B: 0xa0, A: 0xff}

// Write draws the charts of a workload into a directory, which it creates if needed. It returns
// the paths of the files. Hours of the day are in the time zone. Write leaves out charts without
// data. The error names the chart or the directory.
func Write(dir, format string, w *workload.Workload, info *workload.Info, zone *time.Location) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("drawing charts: %w", err)
	}
	var files []string
	for _, c := range []struct {
		name string
		draw func() (*plot.Plot, error)
	}{
		{"size-by-duration", func() (*plot.Plot, error) { return sizes(info.Sizes) }},
		{"submissions-by-hour", func() (*plot.Plot, error) { return window(info.PerHour) }},
		{"submissions-by-hour-of-day", func() (*plot.Plot, error) { return dayHours(workload.HoursOfDay(w, zone), zone) }},
		{"requested-and-used-time", func() (*plot.Plot, error) { return requested(&w.Jobs) }},
	} {
		p, err := c.draw()
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", c.name, err)
		}
		if p == nil {
			continue
		}
		path := filepath.Join(dir, c.name+"."+format)
		drawing, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, format)
		if err == nil {
			_, err = output.File(path, func(w io.Writer) error {
				_, err := drawing.WriteTo(w)
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", c.name, err)
		}
		files = append(files, path)
	}
	return files, nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.BackgroundColor = color.White
	return p
}

// grid is a table of counts in the form of plotter.HeatMap: durations from left to right,
// sizes from the bottom.
type grid workload.SizeTable

func (g grid) Dims() (columns, rows int) { return len(g.Durations), len(g.Sizes) }
func (g grid) Z(column, row int) float64 { return float64(g.Jobs[row][column]) }
func (g grid) X(column int) float64      { return float64(column) }
func (g grid) Y(row int) float64         { return float64(row) }

// sizes draws the table of sizes and durations, with the counts in its cells.
func sizes(t workload.SizeTable) (*plot.Plot, error) {
	if len(t.Sizes) == 0 {
		return nil, nil
	}
	if len(t.Sizes) == 1 { // a heat map needs two rows
		t.Sizes = append(t.Sizes[:1:1], "")
		t.Jobs = append(t.Jobs[:1:1], make([]int, len(t.Durations)))
	}
	p := newPlot("Jobs by size and run time", "run time", t.Unit)
	most := 0
	labels := plotter.XYLabels{}
	for row, counts := range t.Jobs {
		for column, n := range counts {
			most = max(most, n)
			if n > 0 {
				labels.XYs = append(labels.XYs, plotter.XY{X: float64(column), Y: float64(row)})
				labels.Labels = append(labels.Labels, fmt.Sprint(n))
			}
		}
	}
	colors := moreland.ExtendedBlackBody()
	colors.SetMin(0)
	colors.SetMax(1)
	heat := plotter.NewHeatMap(grid(t), colors.Palette(64))
	heat.Min, heat.Max = 0, 1.6*float64(max(most, 1)) // brighter colours would hide the counts
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range text.TextStyle {
		text.TextStyle[i].Color = color.White
		text.TextStyle[i].XAlign, text.TextStyle[i].YAlign = -0.5, -0.5
	}
	p.Add(heat, text)
	p.NominalX(t.Durations...)
	p.NominalY(t.Sizes...)
	return p, nil
}

// window draws the submissions of every hour from the first submission on.
func window(perHour []int) (*plot.Plot, error) {
	if len(perHour) == 0 {
		return nil, nil
	}
	p := newPlot("Submissions", "hours after the first", "jobs an hour")
	points := make(plotter.XYs, len(perHour))
	for i, n := range perHour {
		points[i] = plotter.XY{X: float64(i), Y: float64(n)}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle = plotter.PreStep
	line.Color = blue
	p.Add(line)
	p.Y.Min = 0
	return p, nil
}

// dayHours draws the submissions by the hour of the day in a time zone.
func dayHours(counts [24]int, zone *time.Location) (*plot.Plot, error) {
	values := make(plotter.Values, len(counts))
	names := make([]string, len(counts))
	for i, n := range counts {
		values[i] = float64(n)
		if i%3 == 0 {
			names[i] = fmt.Sprintf("%02d", i)
		}
	}
	p := newPlot("Submissions by the hour of the day", "hour ("+zone.String()+")", "jobs")
	bars, err := plotter.NewBarChart(values, vg.Points(10))
	if err != nil {
		return nil, err
	}
	bars.Color = blue
	p.Add(bars)
	p.NominalX(names...)
	return p, nil
}

// maxPoints is the largest number of points in a scatter chart. Nobody could distinguish more
// points, and the file would be too large for browsers.
const maxPoints = 20000

// requested draws the requested time of each job against the used time.
func requested(jobs *workload.Jobs) (*plot.Plot, error) {
	var points plotter.XYs
	longest := 0.0
	for _, job := range jobs.All() {
		if job.TimeLimit <= 0 || job.TimeLimit == hpc.Unlimited {
			continue
		}
		used := min(job.RunTime, job.TimeLimit)
		points = append(points, plotter.XY{X: hours(used), Y: hours(job.TimeLimit)})
		longest = max(longest, hours(job.TimeLimit))
	}
	if len(points) == 0 {
		return nil, nil
	}
	if step := (len(points) + maxPoints - 1) / maxPoints; step > 1 {
		kept := points[:0]
		for i := 0; i < len(points); i += step {
			kept = append(kept, points[i])
		}
		points = kept
	}
	p := newPlot("Requested and used time", "run time, hours", "time limit, hours")
	scatter, err := plotter.NewScatter(points)
	if err != nil {
		return nil, err
	}
	scatter.Color, scatter.Radius = blue, 1
	exact, err := plotter.NewLine(plotter.XYs{{}, {X: longest, Y: longest}})
	if err != nil {
		return nil, err
	}
	p.Add(scatter, exact)
	p.X.Min, p.Y.Min = 0, 0
	return p, nil
}

func hours(d time.Duration) float64 { return d.Hours() }
