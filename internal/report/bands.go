package report

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/lanes"
	"rmreplay/internal/run"
)

// band is a period in which nodes were reserved or out of service.
type band struct {
	kind       bandKind
	name       string  // the name of a reservation
	detail     string  // the users of a reservation, or the administrator's reason
	nodes      string  // a host list, or the number of nodes
	start, end float64 // seconds since the chart's beginning
	ranges     []nodeRange
}

type bandKind string

// The kinds of bands.
const (
	reserved bandKind = "reservation"
	down     bandKind = "down"
	drained  bandKind = "drain"
)

var bandKinds = []bandKind{reserved, down, drained}

// hatching describes the pattern of each kind.
var hatching = map[bandKind]string{reserved: "rising lines", down: "grid of lines", drained: "falling lines"}

// allNodes is the value of a reservation's nodes that means all nodes.
const allNodes = "ALL"

// newBands returns the bands of a run, sorted by their start.
func newBands(a *run.Administration, from hpc.Time, span float64, index map[string]int) []band {
	list := append(reservationBands(a.Reservations, from, span, index), outageBands(a.NodeEvents, from, span, index)...)
	slices.SortStableFunc(list, func(a, b band) int { return cmp.Compare(a.start, b.start) })
	return list
}

// outageBands returns the periods in which nodes were down or drained. Nodes with the same state, reason and times
// share a band.
func outageBands(events []hpc.NodeEvent, from hpc.Time, span float64, index map[string]int) []band {
	type outage struct {
		kind       bandKind
		reason     string
		start, end float64
	}
	open := make(map[int]outage) // the present outage of each node that is out of service
	nodes := make(map[outage][]int)
	var order []outage
	end := func(node int, at float64) {
		o, out := open[node]
		delete(open, node)
		o.start, o.end = max(0, o.start), min(span, at)
		if !out || o.start >= o.end {
			return
		}
		if nodes[o] == nil {
			order = append(order, o)
		}
		nodes[o] = append(nodes[o], node)
	}
	for i := range events {
		ev := &events[i]
		names, err := hostlist.Expand(ev.Nodes)
		if err != nil {
			continue
		}
		at, kind := ev.At.Sub(from).Seconds(), bandKind("")
		switch strings.ToLower(ev.State) {
		case "down", "fail":
			kind = down
		case "drain":
			kind = drained
		}
		for _, node := range indices(names, index) {
			if before, out := open[node]; out && before.kind == kind {
				continue
			}
			end(node, at)
			if kind != "" {
				open[node] = outage{kind: kind, reason: ev.Reason, start: at}
			}
		}
	}
	for node := range len(index) {
		end(node, span)
	}
	names := namesOf(index)
	var list []band
	for _, o := range order {
		list = append(list, newBand(band{kind: o.kind, detail: o.reason, start: o.start, end: o.end}, nodes[o], names))
	}
	return list
}

// namesOf returns the names of the nodes in the order of their indices.
func namesOf(index map[string]int) []string {
	names := make([]string, len(index))
	for name, i := range index {
		names[i] = name
	}
	return names
}

// newBand returns the band with its nodes.
func newBand(b band, nodes []int, names []string) band {
	slices.Sort(nodes)
	var list []string
	for _, n := range nodes {
		b.ranges = appendNode(b.ranges, n, lanes.Part{})
		list = append(list, names[n])
	}
	b.nodes = hostlist.Compress(list)
	return b
}

// reservationBands returns the periods of reservations, from the events that created, updated and
// deleted them.
func reservationBands(events []hpc.ReservationEvent, from hpc.Time, span float64, index map[string]int) []band {
	type version struct {
		hpc.Reservation
		since float64
	}
	now := make(map[string]version)
	var list []band
	over := func(name string, at float64) {
		if v, known := now[name]; known {
			list = append(list, periods(&v.Reservation, v.since, at, from, index)...)
		}
		delete(now, name)
	}
	var names []string
	for i := range events {
		ev := &events[i]
		at := ev.At.Sub(from).Seconds()
		before, known := now[ev.Name]
		over(ev.Name, at)
		switch {
		case ev.Action == "delete":
			continue
		case known && ev.Action == "update":
			now[ev.Name] = version{updated(before.Reservation, ev.Reservation), at}
		default:
			now[ev.Name] = version{ev.Reservation, at}
		}
		names = append(names, ev.Name)
	}
	for _, name := range names {
		over(name, span)
	}
	return list
}

// updated returns the reservation r with the values that are set in by, its update.
func updated(r, by hpc.Reservation) hpc.Reservation {
	r.Start, r.Duration = cmp.Or(by.Start, r.Start), cmp.Or(by.Duration, r.Duration)
	if by.Nodes != "" || by.NodeCount != 0 {
		r.Nodes, r.NodeCount = by.Nodes, by.NodeCount
	}
	if by.Users != nil || by.Accounts != nil {
		r.Users, r.Accounts = by.Users, by.Accounts
	}
	if by.Flags != nil {
		r.Flags = by.Flags
	}
	return r
}

// periods returns the periods of one version of a reservation between two instants. A recurring
// reservation has a period for each repetition.
func periods(r *hpc.Reservation, since, until float64, from hpc.Time, index map[string]int) (list []band) {
	b := band{kind: reserved, name: r.Name, detail: strings.Join(slices.Concat(r.Users, r.Accounts), ", ")}
	switch names, err := hostlist.Expand(r.Nodes); {
	case r.Nodes == allNodes:
		b = newBand(b, indices(namesOf(index), index), namesOf(index))
	case r.Nodes != "" && err == nil:
		b = newBand(b, indices(names, index), namesOf(index))
	case r.NodeCount > 0:
		b.nodes = fmt.Sprintf("%d, chosen by the resource manager", r.NodeCount)
	default:
		b.nodes = "chosen by the resource manager"
	}
	start, length := r.Start.Sub(from).Seconds(), r.Duration.Seconds()
	if r.Start == 0 {
		start = since
	}
	if r.Duration <= 0 {
		length = math.Inf(1)
	}
	step := repeats(r)
	for at := start; at < until && len(list) < 10_000; at += step { // more than a year of an hourly reservation
		b.start, b.end = max(0, since, at), min(until, at+length)
		weekday := from.Std().Add(time.Duration(at * float64(time.Second))).Weekday()
		skipped := r.HasFlag("WEEKDAY") && (weekday == 0 || weekday == 6) || r.HasFlag("WEEKEND") && weekday > 0 &&
			weekday < 6
		if b.start < b.end && !skipped {
			list = append(list, b)
		}
	}
	return list
}

// repeats returns the seconds from one repetition of a reservation to the next.
func repeats(r *hpc.Reservation) float64 {
	switch {
	case r.HasFlag("HOURLY"):
		return 3600
	case r.HasFlag("WEEKLY"):
		return 7 * 86400
	case r.Recurring():
		return 86400
	}
	return math.Inf(1)
}

// describe returns a text about a band without its time.
func (g *Gantt) describe(b *band) string {
	text := map[bandKind]string{reserved: "Reservation " + b.name, down: "Down", drained: "Drain"}[b.kind]
	if b.detail != "" {
		text += " (" + b.detail + ")"
	}
	return text + ": nodes " + b.nodes
}

// bandTable lists the bands.
func (g *Gantt) bandTable() *Table {
	const most = 500
	if len(g.bands) == 0 {
		return nil
	}
	t := &Table{
		Caption: "Reservations and outages", Folded: true,
		Head: []string{"what", "nodes", "from", "until", "reason, users or accounts"},
	}
	for i := range g.bands[:min(most, len(g.bands))] {
		b := &g.bands[i]
		t.Rows = append(t.Rows, []string{strings.TrimSpace(string(b.kind) + " " + b.name), b.nodes, g.date(b.start),
			g.date(b.end), quantity.OrUnknown(b.detail)})
	}
	if left := len(g.bands) - most; left > 0 {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%d more", left), "", "", "", ""})
	}
	return t
}

// hatch draws a band over the picture.
func (g *Gantt) hatch(img *image.RGBA, b *band) {
	const apart = 8
	size := img.Bounds().Size()
	perSecond, perNode := float64(size.X)/g.span, float64(size.Y)/float64(len(g.nodes))
	ink := color.RGBA{0x16, 0x19, 0x1d, 0xff}
	for _, r := range b.ranges {
		x0, x1 := int(b.start*perSecond), int(math.Ceil(b.end*perSecond))
		y0, y1 := int(float64(r.first)*perNode), int(math.Ceil(float64(r.first+r.count)*perNode))
		for y := y0; y < min(size.Y, y1); y++ {
			for x := x0; x < min(size.X, x1); x++ {
				rising, falling := (x+y)%apart == 0, (x-y+size.Y*apart)%apart == 0
				if b.kind != drained && rising || b.kind != reserved && falling {
					img.SetRGBA(x, y, ink)
				}
			}
		}
	}
}
