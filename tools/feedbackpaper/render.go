package main

import (
	"bytes"
	"fmt"
	"io"

	"rmreplay/internal/metrics"
)

// Render writes the results of logs as the paper's Table 1 and Table 2. Makespan, waits and
// mean lateness are in days, additional lateness is in seconds, with two decimal places. The
// ranges over jittered realizations follow in brackets. Render returns w's error.
func Render(w io.Writer, results []*Result) error {
	var b bytes.Buffer
	for i, r := range results {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: %d jobs of %d users on %d processors\n", r.Log, r.Jobs, r.Users, r.Processors)
		if n := r.realizations(); n > 0 {
			fmt.Fprintf(&b, "in brackets: the least and the largest of %d realizations with jittered submissions\n", n)
		}
		r.renderWaits(&b)
		r.renderLateness(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Result) realizations() int {
	for _, c := range r.Cells {
		if c.Bands != nil {
			return c.Bands.Realizations
		}
	}
	return 0
}

// renderWaits writes Table 1.
func (r *Result) renderWaits(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%-14s%-14s%s%s%s%s\n", "Table 1", "Replay", r.head("Makespan"), r.head("Mean wait"),
		r.head("Max wait"), fmt.Sprintf("%10s", "Rejected"))
	line := func(system, replay string, o Outcome, bands *Bands) {
		if bands == nil {
			bands = &Bands{}
		}
		fmt.Fprintf(b, "%-14s%-14s%s%s%s%10d\n", system, replay, r.days(o.Makespan, bands.Makespan, bands.Realizations),
			r.days(o.MeanWait, bands.MeanWait, bands.Realizations), r.days(o.MaxWait, bands.MaxWait, bands.Realizations),
			o.Rejected)
	}
	line("Recorded log", "/", r.Recorded, nil)
	for i, c := range r.Cells {
		line(r.system(i), c.Replay, c.Outcome, c.Bands)
	}
}

// renderLateness writes Table 2.
func (r *Result) renderLateness(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%-14s%-14s%s%10s%12s\n", "Table 2", "Replay", r.head("Mean late"), "Relative", "Additional")
	named := ""
	for _, c := range r.Cells {
		if c.Mean == 0 {
			continue // rigid replay has no lateness
		}
		system := c.System
		if system == named {
			system = ""
		}
		named = c.System
		bands := c.Bands
		if bands == nil {
			bands = &Bands{}
		}
		fmt.Fprintf(b, "%-14s%-14s%s%10.2f%12.2f\n", system, c.Replay,
			r.days(c.Mean, bands.MeanLateness, bands.Realizations), float64(c.Relative), float64(c.Additional))
	}
}

// system returns the name of a cell's system on the first line of the system.
func (r *Result) system(cell int) string {
	if cell > 0 && r.Cells[cell-1].System == r.Cells[cell].System {
		return ""
	}
	return r.Cells[cell].System
}

const bandWidth = 20

func (r *Result) head(name string) string {
	if r.realizations() > 0 {
		return fmt.Sprintf("%10s%*s", name, bandWidth, "")
	}
	return fmt.Sprintf("%10s", name)
}

// days formats seconds as days. If there are realizations, it adds the range.
func (r *Result) days(v metrics.Float, band Range, realizations int) string {
	const day = 86400
	text := fmt.Sprintf("%10.2f", float64(v)/day)
	if r.realizations() == 0 {
		return text
	}
	brackets := ""
	if realizations > 0 {
		brackets = fmt.Sprintf(" [%.2f, %.2f]", float64(band.Min)/day, float64(band.Max)/day)
	}
	return text + fmt.Sprintf("%-*s", bandWidth, brackets)
}
