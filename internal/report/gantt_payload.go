package report

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/report/lanes"
	"rmreplay/internal/run"
)

// ganttPayload is the input of gantt.js.
type ganttPayload struct {
	Nodes      []string            `json:"nodes"`
	Span       float64             `json:"span"`              // seconds
	Epoch      int64               `json:"epoch"`             // the chart's beginning, Unix seconds
	Zone       string              `json:"zone"`              // the zone's name at the chart's beginning
	Offsets    []offset            `json:"offsets,omitempty"` // offsets of the zone from UTC
	Jobs       []string            `json:"jobs"`
	Names      category            `json:"names"`
	Submit     []int               `json:"submit"` // seconds
	Processors []int               `json:"processors"`
	By         map[string]category `json:"by"`
	Segments   string              `json:"segments"` // encoded by pack
	Bands      []ganttBand         `json:"bands,omitempty"`
	Colours    []string            `json:"colours"`
}

// ganttBand is a [band].
type ganttBand struct {
	Kind   bandKind `json:"kind"`
	Text   string   `json:"text"`
	Start  float64  `json:"start"`
	End    float64  `json:"end"`
	Ranges [][2]int `json:"ranges"` // first node, and the index after the last node
}

type category struct {
	Names []string `json:"names"`
	Of    []int    `json:"of"`
}

// offset is a time zone's difference from UTC from an instant on.
type offset struct {
	From    float64 `json:"from"` // seconds since the chart's beginning
	Seconds int     `json:"seconds"`
}

// offsets returns the differences of a date's time zone from UTC over a span of seconds; nil for
// UTC.
func offsets(from time.Time, span float64) (list []offset) {
	if from.Location() == time.UTC {
		return nil
	}
	for at := from; ; {
		_, seconds := at.Zone()
		list = append(list, offset{at.Sub(from).Seconds(), seconds})
		_, end := at.ZoneBounds()
		if end.IsZero() || end.Sub(from).Seconds() > span {
			return list
		}
		at = end
	}
}

// properties are the properties of jobs that the script can colour, find and show.
var properties = map[string]func(*run.Row) string{
	"partition":   func(r *run.Row) string { return r.Partition },
	"user":        func(r *run.Row) string { return r.User },
	"account":     func(r *run.Row) string { return r.Account },
	"QOS":         func(r *run.Row) string { return r.QOS },
	"reservation": func(r *run.Row) string { return r.Reservation },
	"state":       func(r *run.Row) string { return string(r.State) },
}

func (g *Gantt) payload() ([]byte, error) {
	p := ganttPayload{
		Nodes: g.nodes, Span: g.span, Epoch: g.from.Unix(), Zone: g.zone(), Offsets: offsets(g.from, g.span),
		By: make(map[string]category), Segments: g.pack(),
	}
	for i := range g.jobs {
		row := g.jobs[i].row
		p.Jobs = append(p.Jobs, compare.Key{Job: row.Job, Task: row.Task}.String())
		p.Submit = append(p.Submit, int(row.Submit.Std().Sub(g.from).Seconds()))
		p.Processors = append(p.Processors, row.Processors)
	}
	p.Names.Names, p.Names.Of = g.categories(func(r *run.Row) string { return r.Name })
	for name, value := range properties {
		names, of := g.categories(value)
		if len(names) > 1 || len(names) == 1 && names[0] != "" {
			p.By[name] = category{names, of}
		}
	}
	for i := range g.bands {
		b := &g.bands[i]
		shown := ganttBand{Kind: b.kind, Text: g.describe(b), Start: b.start, End: b.end, Ranges: [][2]int{}}
		for _, r := range b.ranges {
			shown.Ranges = append(shown.Ranges, [2]int{r.first, r.first + r.count})
		}
		p.Bands = append(p.Bands, shown)
	}
	for i := range listedCategories + 1 {
		c := figure.Colours[i]
		p.Colours = append(p.Colours, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
	}
	return json.Marshal(p)
}

// pack encodes the nodes that jobs held as base64 of unsigned varints with seven bits a byte. For each job it encodes
// the start and the run time in seconds, the number of node ranges, and the ranges. For each range it encodes the
// number of nodes skipped since the previous range, and twice the number of nodes in the range, plus one if the job
// shares these nodes. If the job shares them, the first lane and the number of lanes follow.
func (g *Gantt) pack() string {
	var b []byte
	for i := range g.jobs {
		job := &g.jobs[i]
		b = binary.AppendUvarint(b, uint64(max(0, job.start)))
		b = binary.AppendUvarint(b, uint64(max(0, math.Round(job.end-job.start))))
		b = binary.AppendUvarint(b, uint64(len(job.ranges)))
		next := 0
		for _, r := range job.ranges {
			b = binary.AppendUvarint(b, uint64(r.first-next))
			if r.lanes == (lanes.Part{}) {
				b = binary.AppendUvarint(b, uint64(2*r.count))
			} else {
				b = binary.AppendUvarint(b, uint64(2*r.count+1))
				b = append(b, r.lanes.First, r.lanes.Count) // both are below 128
			}
			next = r.first + r.count
		}
	}
	return base64.StdEncoding.EncodeToString(b)
}
