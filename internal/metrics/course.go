package metrics

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Course is how a run went over time, in columns of equal length.
type Course struct {
	From, To hpc.Time
	// Used are the processors that jobs held, and Queued the jobs that waited, on average over each column.
	// Waits are the mean waits, in seconds, of the jobs submitted in each column; NaN without such
	// jobs.
	Used, Queued, Waits []float64
	// Processors is the number of the machine's processors; 0 if not known.
	Processors int
}

// NewCourse divides the time from the first submission to the last change of the [Timeline] into
// columns, or the part of it that is after [Options.Window] and between From and To. It returns nil if
// columns is less than 1 or there is no such time.
func NewCourse(rows []run.Row, opts Options, columns int) *Course {
	points := Timeline(rows)
	if len(points) < 2 || columns < 1 {
		return nil
	}
	c := &Course{From: max(points[0].At, opts.Window, opts.From), To: points[len(points)-1].At, Processors: opts.Processors}
	if opts.To != 0 {
		c.To = min(c.To, opts.To)
	}
	length := c.To.Sub(c.From) / time.Duration(columns)
	if length <= 0 {
		return nil
	}
	sums := make([]Waits, columns)
	for i := range rows {
		if wait, ok := waitOf(&rows[i], opts); ok && rows[i].Submit >= c.From {
			sums[min(columns-1, int(rows[i].Submit.Sub(c.From)/length))].add(wait)
		}
	}
	next := 0 // the first point that overlaps the column
	for i := range columns {
		from := c.From.Add(time.Duration(i) * length)
		to := from.Add(length)
		for next+1 < len(points) && points[next+1].At <= from {
			next++
		}
		last := next
		for last < len(points) && points[last].At < to {
			last++
		}
		column := points[next:min(last+1, len(points))]
		c.Used = append(c.Used, float64(MeanOver(column, from, to, func(p Point) int { return p.Processors })))
		c.Queued = append(c.Queued, float64(MeanOver(column, from, to, func(p Point) int { return p.Queued })))
		c.Waits = append(c.Waits, float64(sums[i].Mean()))
	}
	return c
}

// bars are the heights of a column, from nothing to full.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// spark draws a series as bars. The largest value, or the parameter maxValue if it is larger, is a full
// bar. Every value above 0 has a bar.
func spark(values []float64, maxValue float64) string {
	for _, v := range values {
		if v > maxValue {
			maxValue = v
		}
	}
	line := make([]rune, len(values))
	for i, v := range values {
		height := 0
		if v > 0 && maxValue > 0 {
			height = max(1, int(math.Round(v/maxValue*float64(len(bars)-1))))
		}
		line[i] = bars[height]
	}
	return string(line)
}

// peak returns the largest value; NaN without values.
func peak(values []float64) Float {
	most := math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) && !(v <= most) {
			most = v
		}
	}
	return Float(most)
}

// render draws the course for a terminal, with dates in a time zone.
func (c *Course) render(b *bytes.Buffer, zone *time.Location) {
	if c == nil {
		return
	}
	column := c.To.Sub(c.From) / time.Duration(len(c.Used))
	fmt.Fprintf(b, "\nover time    %s to %s, %s a column\n",
		c.From.Text(zone), c.To.Text(zone), hpc.FormatDuration(column.Round(time.Second)))
	used := number(peak(c.Used)) + " processors"
	if c.Processors > 0 {
		used = percent(peak(c.Used) / Float(c.Processors))
	}
	fmt.Fprintf(b, "use          %s  at most %s\n", spark(c.Used, float64(c.Processors)), used)
	fmt.Fprintf(b, "queue        %s  at most %s %s\n", spark(c.Queued, 0), number(peak(c.Queued)),
		quantity.Plural(int(math.Ceil(float64(peak(c.Queued)))), "job", "jobs"))
	fmt.Fprintf(b, "mean wait    %s  at most %s\n", spark(c.Waits, 0), clock(peak(c.Waits)))
}
