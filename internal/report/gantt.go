package report

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// Gantt is a chart of one run: which job held which node at which time.
type Gantt struct {
	Name, Title, Caption string
	Data                 *Table
	// Payload is the JSON from which the page's script draws. It is empty if it would make
	// the page too large; the picture is there in any case.
	Payload template.JS
	// Picture is the chart as a PNG in a data URI, for readers without scripts.
	Picture template.URL

	image image.Image
	nodes []string // sorted by name, numbers by their value
	span  float64  // seconds
	jobs  []occupation
}

// occupation is what a job held.
type occupation struct {
	row        *run.Row
	start, end float64 // seconds since the first submission
	ranges     []nodeRange
}

// nodeRange is a range of consecutive nodes, by index.
type nodeRange struct{ first, count int }

// payloadLimit is the size in bytes above which a chart is a picture only.
const payloadLimit = 6 << 20

// The size of the picture, in pixels.
const pictureWidth, pictureHeight = 1400, 700

// newGantt lays out the chart of a run, with dates in a time zone. It returns nil if the run record has no node names.
func newGantt(name, title string, r *compare.Realization, zone *time.Location) (*Gantt, error) {
	g := &Gantt{Name: name, Title: title}
	index := g.collectNodes(r.Rows)
	if len(g.nodes) == 0 {
		return nil, nil // a run without a chart is no error
	}
	from, last := origin(r), ending(r)
	g.span = max(1, last.Sub(from).Seconds())
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Start == 0 || row.Nodes == "" || row.State == hpc.Rejected {
			continue
		}
		end := row.End
		if end == 0 {
			end = last
		}
		names, err := hostlist.Expand(row.Nodes)
		if err != nil {
			continue
		}
		g.jobs = append(g.jobs, occupation{
			row: row, start: max(0, row.Start.Sub(from).Seconds()), end: max(0, max(row.Start, end).Sub(from).Seconds()), ranges: consecutive(names, index),
		})
	}
	g.Caption = fmt.Sprintf("Each row is one of the %d nodes that jobs had, each column a time; colours are partitions, unless another property is chosen. "+
		"A requeued job is shown where it ran last.", len(g.nodes))
	g.Data = g.table()
	g.image = g.picture(pictureWidth, pictureHeight)
	var b bytes.Buffer
	if err := png.Encode(&b, g.image); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", name, err)
	}
	g.Picture = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
	payload, err := g.payload(from, zone)
	if err != nil {
		return nil, fmt.Errorf("drawing %s: %w", name, err)
	}
	if len(payload) <= payloadLimit {
		g.Payload = template.JS(payload)
	}
	return g, nil
}

// collectNodes finds all nodes that jobs held. It returns their indices by name.
func (g *Gantt) collectNodes(rows []run.Row) map[string]int {
	index := make(map[string]int)
	for i := range rows {
		names, err := hostlist.Expand(rows[i].Nodes)
		if err != nil {
			continue // a host list that cannot be read is not shown
		}
		for _, name := range names {
			if _, ok := index[name]; !ok {
				index[name] = 0
				g.nodes = append(g.nodes, name)
			}
		}
	}
	slices.SortFunc(g.nodes, natural)
	for i, name := range g.nodes {
		index[name] = i
	}
	return index
}

// natural compares names with numbers by their value: n2 comes before n10.
func natural(a, b string) int {
	for a != "" && b != "" {
		wordA, numberA, restA := cutNumber(a)
		wordB, numberB, restB := cutNumber(b)
		if c := cmp.Compare(wordA, wordB); c != 0 {
			return c
		}
		// Of two numbers without leading zeros, the longer one is larger. Numbers of equal
		// length compare as text.
		x, y := strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(len(numberA), len(numberB))); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// cutNumber splits a name around its first number.
func cutNumber(s string) (word, number, rest string) {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	i := strings.IndexFunc(s, digit)
	if i < 0 {
		return s, "", ""
	}
	n := strings.IndexFunc(s[i:], func(r rune) bool { return !digit(r) })
	if n < 0 {
		return s[:i], s[i:], ""
	}
	return s[:i], s[i : i+n], s[i+n:]
}

// consecutive joins nodes into ranges.
func consecutive(names []string, index map[string]int) []nodeRange {
	places := make([]int, 0, len(names))
	for _, name := range names {
		places = append(places, index[name])
	}
	slices.Sort(places)
	places = slices.Compact(places)
	var list []nodeRange
	for _, p := range places {
		if n := len(list); n > 0 && list[n-1].first+list[n-1].count == p {
			list[n-1].count++
			continue
		}
		list = append(list, nodeRange{p, 1})
	}
	return list
}

// cells is a grid over nodes and time. Each cell has the share of it that jobs held, and
// their colour.
type cells struct {
	width, height int
	held          []float32    // 1 for a cell that jobs held completely
	colour        [][3]float32 // weighted by held
}

// fill draws the chart on a grid. Each cell has the share of its area that jobs cover, so
// that no job disappears where thousands of nodes share a row.
func (g *Gantt) fill(width, height int, colourOf func(*run.Row) color.RGBA) *cells {
	c := &cells{width: width, height: height, held: make([]float32, width*height), colour: make([][3]float32, width*height)}
	perSecond, perNode := float64(width)/g.span, float64(height)/float64(len(g.nodes))
	for i := range g.jobs {
		job := &g.jobs[i]
		paint := colourOf(job.row)
		for _, r := range job.ranges {
			c.add(job.start*perSecond, job.end*perSecond, float64(r.first)*perNode, float64(r.first+r.count)*perNode, paint)
		}
	}
	return c
}

// add covers a rectangle. It covers cells at the edges in part.
func (c *cells) add(x0, x1, y0, y1 float64, paint color.RGBA) {
	x0, x1 = max(0, x0), min(float64(c.width), x1)
	y0, y1 = max(0, y0), min(float64(c.height), y1)
	for y := int(y0); y < c.height && float64(y) < y1; y++ {
		tall := min(y1, float64(y+1)) - max(y0, float64(y))
		for x := int(x0); x < c.width && float64(x) < x1; x++ {
			area := float32(tall * (min(x1, float64(x+1)) - max(x0, float64(x))))
			k := y*c.width + x
			c.held[k] += area
			c.colour[k][0] += area * float32(paint.R)
			c.colour[k][1] += area * float32(paint.G)
			c.colour[k][2] += area * float32(paint.B)
		}
	}
}

// picture draws the chart. What no job held is white.
func (g *Gantt) picture(width, height int) image.Image {
	_, of := g.categories(func(r *run.Row) string { return r.Partition })
	paint := make(map[*run.Row]color.RGBA, len(g.jobs))
	for i := range g.jobs {
		paint[g.jobs[i].row] = categoryColour(of[i])
	}
	c := g.fill(width, height, func(r *run.Row) color.RGBA { return paint[r] })
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for k, held := range c.held {
		white := max(0, 1-held)
		scale := 1 / max(1, held) // several jobs may share a node
		mix := func(v float32) uint8 { return uint8(math.Round(float64(255*white + v*scale))) }
		v := c.colour[k]
		img.SetRGBA(k%width, k/width, color.RGBA{mix(v[0]), mix(v[1]), mix(v[2]), 0xff})
	}
	return img
}

// listedCategories is the number of categories with a colour of their own. All others are
// grey.
const listedCategories = 7

// legend names the partitions and their colours in the picture.
func (g *Gantt) legend() string {
	names, _ := g.categories(func(r *run.Row) string { return r.Partition })
	var list []string
	for i, name := range names[:min(len(names), listedCategories)] {
		list = append(list, dash(name)+": "+colourNames[i])
	}
	if len(names) > listedCategories {
		list = append(list, "others: "+colourNames[listedCategories])
	}
	return strings.Join(list, " · ")
}

func categoryColour(i int) color.RGBA {
	return colours[min(i, listedCategories)]
}

// categories numbers the values of a property of the jobs, the most frequent value first.
func (g *Gantt) categories(value func(*run.Row) string) (names []string, of []int) {
	counts := make(map[string]int)
	for i := range g.jobs {
		counts[value(g.jobs[i].row)]++
	}
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	for i := range g.jobs {
		of = append(of, index[value(g.jobs[i].row)])
	}
	return names, of
}

// table returns the chart in numbers: how busy groups of nodes were over time.
func (g *Gantt) table() *Table {
	const columns = 12
	bands := min(20, len(g.nodes))
	c := g.fill(columns, bands, func(*run.Row) color.RGBA { return color.RGBA{} })
	t := &Table{Caption: "Share of the nodes' time that jobs held", Head: []string{"nodes"}, Folded: true}
	for k := range columns {
		t.Head = append(t.Head, fmt.Sprintf("to hour %.1f", g.span/3600*float64(k+1)/columns))
	}
	for b := range bands {
		first, last := b*len(g.nodes)/bands, (b+1)*len(g.nodes)/bands-1
		name := g.nodes[first]
		if last > first {
			name += " to " + g.nodes[last]
		}
		row := []string{name}
		for k := range columns {
			row = append(row, fmt.Sprintf("%.0f%%", 100*c.held[b*columns+k]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// ganttPayload is the input of gantt.js.
type ganttPayload struct {
	Nodes    []string            `json:"nodes"`
	Span     float64             `json:"span"`              // seconds
	Epoch    int64               `json:"epoch"`             // of the first submission, Unix seconds
	Offsets  []offset            `json:"offsets,omitempty"` // of dates from UTC
	Jobs     []string            `json:"jobs"`
	Submit   []int               `json:"submit"` // seconds
	By       map[string]category `json:"by"`
	Segments string              `json:"segments"` // see pack
	Colours  []string            `json:"colours"`
}

type category struct {
	Names []string `json:"names"`
	Of    []int    `json:"of"`
}

// offset is a difference from UTC that holds from an instant on.
type offset struct {
	From    float64 `json:"from"` // seconds since the first submission
	Seconds int     `json:"seconds"`
}

// offsets returns the differences of a time zone from UTC over a span of seconds; none for UTC.
func offsets(from hpc.Time, span float64, zone *time.Location) (list []offset) {
	if zone == time.UTC {
		return nil
	}
	date := from.Std().In(zone)
	for at := date; ; {
		_, seconds := at.Zone()
		list = append(list, offset{at.Sub(date).Seconds(), seconds})
		_, end := at.ZoneBounds()
		if end.IsZero() || end.Sub(date).Seconds() > span {
			return list
		}
		at = end
	}
}

func (g *Gantt) payload(from hpc.Time, zone *time.Location) ([]byte, error) {
	p := ganttPayload{Nodes: g.nodes, Span: g.span, Epoch: from.UnixSeconds(), Offsets: offsets(from, g.span, zone), By: make(map[string]category), Segments: g.pack()}
	for i := range g.jobs {
		row := g.jobs[i].row
		p.Jobs = append(p.Jobs, compare.Key{Job: row.Job, Task: row.Task}.String())
		p.Submit = append(p.Submit, int(row.Submit.Sub(from).Seconds()))
	}
	for name, value := range map[string]func(*run.Row) string{
		"partition": func(r *run.Row) string { return r.Partition },
		"user":      func(r *run.Row) string { return r.User },
		"account":   func(r *run.Row) string { return r.Account },
		"state":     func(r *run.Row) string { return string(r.State) },
	} {
		names, of := g.categories(value)
		p.By[name] = category{names, of}
	}
	for i := range listedCategories + 1 {
		c := colours[i]
		p.Colours = append(p.Colours, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
	}
	return json.Marshal(p)
}

// pack encodes what the jobs held as base64 of unsigned varints with seven bits a byte. A
// job has its start and its run time in seconds, its number of node ranges, and for each
// range the number of nodes skipped since the previous range and the number of nodes in it.
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
			b = binary.AppendUvarint(b, uint64(r.count))
			next = r.first + r.count
		}
	}
	return base64.StdEncoding.EncodeToString(b)
}
