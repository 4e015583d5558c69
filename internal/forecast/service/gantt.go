package service

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"rmreplay/internal/figure"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// maxLines is how many partitions a figure shows: the partitions with the most node hours.
const maxLines = 6

// ganttPage is the page that shows the machine's next hours.
type ganttPage struct {
	frame
	Repeats  bool // the forecast repeats recent submissions
	Out      string
	Figures  []picture
	Reserved []map[string]string
	Rows     []map[string]string
}

// picture is a figure of a page.
type picture struct {
	Name, Title, Caption string
	SVG                  template.HTML
}

// ganttPage makes the page of the nodes that are expected to be occupied.
func (s *Service) ganttPage(*http.Request, who) (string, any, error) {
	p := ganttPage{frame: s.frame("The machine's next hours")}
	if s.known.Round == nil {
		return "", nil, s.errNone()
	}
	o := s.known.Round.Report.Occupancy
	if o == nil { // a forecast that an earlier release made
		return "", nil, &statusError{http.StatusServiceUnavailable,
			fmt.Errorf("the last forecast has no figures of nodes (ask again after the next forecast)")}
	}
	at, step := s.known.Round.Report.At, time.Duration(o.Step*float64(time.Second))
	var all, parts []figure.Series
	for i := range o.Partitions {
		one := &o.Partitions[i]
		x := make([]float64, len(one.P50))
		for k := range x {
			x[k] = float64(at.Add(time.Duration(k) * step).Unix())
		}
		line := figure.Series{Name: quantity.Name(one.Partition), X: x, Mean: one.P50, Low: one.P10, High: one.P90,
			Band: true}
		if one.Partition == "" {
			line.Name = "all"
			all = append(all, line)
			p.Rows = s.hours(x, one.P10, one.P50, one.P90, step)
			continue
		}
		parts = append(parts, line)
	}
	slices.SortStableFunc(parts, func(a, b figure.Series) int { return cmp.Compare(sum(b.Mean), sum(a.Mean)) })
	for _, lines := range []struct {
		name, title, caption string
		list                 []figure.Series
	}{
		{"occupied", "Nodes that jobs occupy", "The median over the realizations; in eight cases of ten the " +
			"number lies in the band. A reservation of all nodes is drawn as high as the band.",
			append(all, s.reservedLine(all)...)},
		{"partitions", "By partition", "The median and the band of each of the partitions with the most node hours.",
			parts[:min(len(parts), maxLines)]},
	} {
		if len(lines.list) == 0 || len(lines.list[0].X) < 2 {
			continue
		}
		f, err := figure.NewTimeline(lines.name, lines.title, "nodes", lines.caption, lines.list, s.opts.Zone)
		if err != nil {
			return "", nil, fmt.Errorf("drawing the next hours: %w", err)
		}
		svg, err := f.SVG()
		if err != nil {
			return "", nil, fmt.Errorf("drawing the next hours: %w", err)
		}
		p.Figures = append(p.Figures, picture{f.Name, f.Title, f.Caption, svg})
	}
	p.Repeats = s.known.Round.Report.Arrivals == forecast.Recent
	p.Out = quantity.Regular(o.Out, "node")
	for i := range o.Reservations {
		r := &o.Reservations[i]
		nodes := "all"
		if r.Nodes > 0 {
			nodes = quantity.Count(r.Nodes)
		}
		p.Reserved = append(p.Reserved, map[string]string{"Name": quantity.Name(r.Name), "Start": s.instant(&r.Start),
			"End": s.instant(r.End), "Nodes": nodes})
	}
	return "gantt", p, nil
}

func sum(list []float64) (all float64) {
	for _, v := range list {
		all += v
	}
	return all
}

// reservedLine returns a line with the number of reserved nodes at the instants of like[0]. A
// reservation of all nodes counts as the largest number of occupied nodes.
func (s *Service) reservedLine(like []figure.Series) []figure.Series {
	o := s.known.Round.Report.Occupancy
	if len(like) == 0 || len(o.Reservations) == 0 {
		return nil
	}
	line := figure.Series{Name: "reserved", X: like[0].X, Mean: make([]float64, len(like[0].X))}
	for i, x := range line.X {
		for k := range o.Reservations {
			r := &o.Reservations[k]
			if at := time.Unix(int64(x), 0); !at.Before(r.Start) && (r.End == nil || at.Before(*r.End)) {
				nodes := float64(r.Nodes)
				if r.Nodes == 0 {
					nodes = slices.Max(like[0].High)
				}
				line.Mean[i] += nodes
			}
		}
	}
	line.Low, line.High = line.Mean, line.Mean
	return []figure.Series{line}
}

// hours returns the rows of a table, at most one for each hour.
func (s *Service) hours(x, p10, p50, p90 []float64, step time.Duration) (rows []map[string]string) {
	every := max(int(time.Hour/step), 1)
	for i := 0; i < len(x); i += every {
		rows = append(rows, map[string]string{"At": quantity.Date(hpc.Unix(int64(x[i])), s.opts.Zone),
			"P10": quantity.Decimal(p10[i]), "P50": quantity.Decimal(p50[i]), "P90": quantity.Decimal(p90[i])})
	}
	return rows
}
