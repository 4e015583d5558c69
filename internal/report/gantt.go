package report

import (
	"cmp"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/compare/clusters"
	"rmreplay/internal/figure"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/lanes"
	"rmreplay/internal/run"
)

// Gantt is a chart of one run: which job held which node at which time, and when nodes were reserved or out of service.
type Gantt struct {
	Name, Title, Caption string
	// Picture is the chart with its axes as SVG, for readers without scripts.
	Picture template.HTML
	Data    *Table
	Bands   *Table // nil if nothing was reserved or out of service
	// Payload is the JSON from which the page's script draws. It is empty if the JSON would make the
	// page too large; the page has the picture in any case.
	Payload template.JS

	image image.Image
	nodes []string // sorted by name; numbers in names are sorted by their value
	begin hpc.Time
	from  time.Time // begin in the report's time zone
	span  float64   // seconds
	jobs  []occupation
	bands []band
	// capacity is the number of processors of each node.
	capacity []float64
}

// occupation says which nodes a job held, and when.
type occupation struct {
	row        *run.Row
	start, end float64 // seconds since the chart's beginning
	ranges     []nodeRange
	level      float64 // processors on each node; infinity for all of them
}

// nodeRange is a range of consecutive nodes, by index, with the lanes that a job has in their rows. The zero value of
// lanes means the whole row.
type nodeRange struct {
	first, count int
	lanes        lanes.Part
}

// payloadLimit is the size in bytes above which a chart has only its picture.
const payloadLimit = 6 << 20

// The size of the picture, in pixels.
const pictureWidth, pictureHeight = 1400, 700

// newGantt lays out the chart of a run. Its time axis is the period of all runs, on the run's dates. It returns nil if
// the run record has no node names.
func newGantt(name, title string, r *compare.Realization, f *frame) (*Gantt, error) {
	g := &Gantt{Name: name, Title: title}
	index := g.collectNodes(r)
	if len(g.nodes) == 0 {
		return nil, nil // a run without a chart is no error
	}
	g.begin = f.from.Add(-f.shift(r))
	g.from, g.span = g.begin.Std().In(f.zone), max(1, f.to.Sub(f.from).Seconds())
	g.placeJobs(r, index)
	g.shareNodes(&r.Manifest.Cluster, clusters.Processors(r.Cluster))
	g.bands = newBands(&r.Administration, g.begin, g.span, index)
	g.Caption = fmt.Sprintf(
		"Each row is one of %d %s, each column a time (%s). Colours show partitions, unless another property is chosen. "+
			"Jobs that share a node share its row. A requeued job is shown only on the nodes of its last run.",
		len(g.nodes), quantity.Plural(len(g.nodes), "node", "nodes"), g.zone())
	g.Data, g.Bands = g.table(), g.bandTable()
	g.image = g.picture(pictureWidth, pictureHeight)
	var err error
	if g.Picture, err = newGanttFigure(g, g.begin, f.zone).SVG(); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", name, err)
	}
	payload, err := g.payload()
	if err != nil {
		return nil, fmt.Errorf("drawing %s: %w", name, err)
	}
	if len(payload) <= payloadLimit {
		g.Payload = template.JS(payload)
	}
	return g, nil
}

// zone is the name of the time zone at the beginning of the chart.
func (g *Gantt) zone() string { return g.from.Format("MST") }

// date writes the date at a number of seconds after the chart's beginning.
func (g *Gantt) date(seconds float64) string {
	return g.from.Add(time.Duration(seconds * float64(time.Second))).Format("2006-01-02 15:04")
}

// placeJobs finds out which nodes each job held, and when.
func (g *Gantt) placeJobs(r *compare.Realization, index map[string]int) {
	from, last := g.begin, ending(r)
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
			row: row, start: max(0, row.Start.Sub(from).Seconds()), end: max(0, max(row.Start, end).Sub(from).Seconds()),
			ranges: consecutive(names, index),
		})
	}
}

// collectNodes finds all nodes that jobs held, that were reserved by name, or that were out of
// service. It returns their indices by name.
func (g *Gantt) collectNodes(r *compare.Realization) map[string]int {
	index := make(map[string]int)
	collect := func(hosts string) {
		names, err := hostlist.Expand(hosts)
		if err != nil {
			return // the chart leaves out nodes of a host list that cannot be read
		}
		for _, name := range names {
			if _, ok := index[name]; !ok {
				index[name] = 0
				g.nodes = append(g.nodes, name)
			}
		}
	}
	for i := range r.Rows {
		collect(r.Rows[i].Nodes)
	}
	for i := range r.Administration.NodeEvents {
		collect(r.Administration.NodeEvents[i].Nodes)
	}
	for i := range r.Administration.Reservations {
		if nodes := r.Administration.Reservations[i].Nodes; nodes != allNodes {
			collect(nodes)
		}
	}
	slices.SortFunc(g.nodes, hostlist.Natural)
	for i, name := range g.nodes {
		index[name] = i
	}
	return index
}

// indices returns the sorted indices of nodes. It leaves out nodes that the chart does not have.
func indices(names []string, index map[string]int) []int {
	places := make([]int, 0, len(names))
	for _, name := range names {
		if i, ok := index[name]; ok {
			places = append(places, i)
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// consecutive joins nodes into ranges.
func consecutive(names []string, index map[string]int) []nodeRange {
	var list []nodeRange
	for _, p := range indices(names, index) {
		list = appendNode(list, p, lanes.Part{})
	}
	return list
}

// appendNode adds a node to the last range if the node follows that range; otherwise it begins a new range.
func appendNode(list []nodeRange, node int, l lanes.Part) []nodeRange {
	if n := len(list); n > 0 && list[n-1].first+list[n-1].count == node && list[n-1].lanes == l {
		list[n-1].count++
		return list
	}
	return append(list, nodeRange{node, 1, l})
}

// cells is a grid over nodes and time. Each cell has the share of its area that jobs held, and the jobs' colour.
type cells struct {
	width, height int
	held          []float32    // 1 for a cell that jobs held completely
	colour        [][3]float32 // the jobs' colours, multiplied by held
}

// fill draws the chart on a grid. Each cell has the share of its area that jobs cover, so
// that no job disappears where thousands of nodes share a row.
func (g *Gantt) fill(width, height int, colourOf func(*run.Row) color.RGBA) *cells {
	c := &cells{width: width, height: height, held: make([]float32, width*height),
		colour: make([][3]float32, width*height)}
	perSecond, perNode := float64(width)/g.span, float64(height)/float64(len(g.nodes))
	for i := range g.jobs {
		job := &g.jobs[i]
		paint := colourOf(job.row)
		for _, r := range job.ranges {
			if r.lanes == (lanes.Part{}) {
				c.add(job.start*perSecond, job.end*perSecond, float64(r.first)*perNode, float64(r.first+r.count)*perNode, paint)
				continue
			}
			low, high := r.lanes.Share()
			for n := r.first; n < r.first+r.count; n++ {
				c.add(job.start*perSecond, job.end*perSecond, (float64(n)+low)*perNode, (float64(n)+high)*perNode, paint)
			}
		}
	}
	return c
}

// add covers a rectangle. A cell at an edge of the rectangle is covered in part.
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

// picture draws the chart. Areas that no job held are white.
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
	for i := range g.bands {
		g.hatch(img, &g.bands[i])
	}
	return img
}

// listedCategories is the largest number of categories with separate colours. All other categories are grey.
const listedCategories = 7

// legend names the partitions and their colours in the picture.
func (g *Gantt) legend() string {
	names, _ := g.categories(func(r *run.Row) string { return r.Partition })
	var list []string
	for i, name := range names[:min(len(names), listedCategories)] {
		list = append(list, quantity.OrUnknown(name)+": "+figure.ColourNames[i])
	}
	if len(names) > listedCategories {
		list = append(list, "others: "+figure.ColourNames[listedCategories])
	}
	for _, kind := range bandKinds {
		if slices.ContainsFunc(g.bands, func(b band) bool { return b.kind == kind && len(b.ranges) > 0 }) {
			list = append(list, string(kind)+": "+hatching[kind])
		}
	}
	return strings.Join(list, " · ")
}

func categoryColour(i int) color.RGBA {
	return figure.Colours[min(i, listedCategories)]
}

// categories numbers the values of a property of the jobs, in descending order of their frequency.
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

// table returns the numbers of the chart: how busy groups of nodes were over time.
func (g *Gantt) table() *Table {
	const columns = 12
	held := make([][columns]float64, len(g.nodes)) // processor seconds
	t := &Table{Folded: true, Head: []string{"nodes"}, Caption: "Share of the nodes' processors that jobs held. A node's " +
		"processors are those in the cluster's files, or else the most that its jobs held at the same time. A job counts " +
		"with equal parts on its nodes, at most with all their processors; on shared nodes a share can then exceed 100 %"}
	for k := range columns {
		from, to := g.span*float64(k)/columns, g.span*float64(k+1)/columns
		t.Head = append(t.Head, "until "+g.date(to))
		for i := range g.jobs {
			job := &g.jobs[i]
			if seconds := min(job.end, to) - max(job.start, from); seconds > 0 {
				for node := range job.nodes() {
					held[node][k] += seconds * min(job.level, g.capacity[node])
				}
			}
		}
	}
	bands := min(20, len(g.nodes))
	for b := range bands {
		first, end := b*len(g.nodes)/bands, (b+1)*len(g.nodes)/bands
		row := []string{g.nodes[first]}
		if end > first+1 {
			row[0] += " to " + g.nodes[end-1]
		}
		for k := range columns {
			used, all := 0.0, 0.0
			for node := first; node < end; node++ {
				used, all = used+held[node][k], all+g.capacity[node]*g.span/columns
			}
			row = append(row, fmt.Sprintf("%.0f%%", 100*used/all))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
