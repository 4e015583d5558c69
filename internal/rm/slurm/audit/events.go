package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// eventTolerance is the largest accepted delay between a request and the time that slurmdbd
// records for its effect. slurmdbd's times are whole seconds, and a message takes time.
const eventTolerance = 2 * time.Second

// span is an interval in slurmdbd's records: an outage or a reservation. end is 0 while the span
// lasts.
type span struct {
	start, end hpc.Time
	id         string // of a reservation
	reason     string
	nodes      string
}

func (s span) String() string {
	end := "now"
	if !s.end.IsZero() {
		end = slurmspec.FormatTime(s.end)
	}
	return slurmspec.FormatTime(s.start) + " to " + end
}

func around(got, want hpc.Time) bool {
	if got.IsZero() || want.IsZero() {
		return got == want
	}
	late := got.Sub(hpc.Unix(want.UnixSeconds()))
	return late >= 0 && late <= eventTolerance
}

// Outages compares a workload's node events with slurmdbd's outages. list is the output of
// `sacctmgr -P list event`. The result has one sentence for each difference.
//
// A node that is down or fails must be out of service from its event to the next one, with the
// event's reason. slurmdbd records a drain when the node's last job has ended, so a drain may be
// missing. An outage after begin without an event in the workload is also a difference. If others
// is true, such an outage is not a difference, because other inputs, such as an administrator's
// actions, change nodes. Events before begin count as events at begin. configured lists the nodes
// that slurm.conf takes out of service. Outages of these nodes that began before begin are
// expected until an event ends them.
func Outages(list string, events []hpc.NodeEvent, begin hpc.Time, others bool, configured []string) (
	differences []string, err error) {
	rows, err := parseSpans(list, "NodeName")
	if err != nil {
		return nil, fmt.Errorf("reading sacctmgr's list of events: %w", err)
	}
	got := map[string][]span{}
	for node, list := range rows {
		for _, s := range list { // before begin, nodes are out of service until they have registered
			if node != "" && (s.start >= begin || s.end.IsZero()) {
				got[node] = append(got[node], s)
			}
		}
	}
	want, err := outages(events, begin)
	if err != nil {
		return nil, err
	}
	for _, node := range configured {
		got[node] = slices.DeleteFunc(got[node], func(s span) bool {
			return s.start <= begin && (s.end.IsZero() || endsByEvent(events, node, s)) &&
				!slices.ContainsFunc(want[node], func(w outage) bool { return w.covers(s) })
		})
		if len(got[node]) == 0 {
			delete(got, node)
		}
	}
	for node, list := range want {
		list = slices.Clone(list)
		for _, s := range joined(got[node]) {
			at := slices.IndexFunc(list, func(w outage) bool { return w.covers(s) })
			if at < 0 && !others {
				differences = append(differences, fmt.Sprintf(
					"node %s: out of service in slurmdbd from %v; the workload has no such event", node, s))
			}
			if at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
		}
		for _, w := range list {
			if !w.drain && w.end != w.start {
				differences = append(differences, fmt.Sprintf("node %s: down in the workload from %v; slurmdbd has no such outage",
					node, w.span))
			}
		}
	}
	for node, list := range got {
		if _, ok := want[node]; !ok && !others {
			differences = append(differences, fmt.Sprintf(
				"node %s: out of service in slurmdbd from %v (%s); the workload has no such event",
				node, list[0], list[0].reason))
		}
	}
	slices.Sort(differences)
	return differences, nil
}

// endsByEvent reports whether an event of a node ends a span.
func endsByEvent(events []hpc.NodeEvent, node string, s span) bool {
	return slices.ContainsFunc(events, func(ev hpc.NodeEvent) bool {
		names, err := hostlist.Expand(ev.Nodes)
		return err == nil && around(s.end, ev.At) && slices.Contains(names, node)
	})
}

// outage is an interval in which a node is out of service in the workload.
type outage struct {
	span
	drain bool
}

// covers reports whether s is slurmdbd's record of the outage.
func (o outage) covers(s span) bool {
	starts := around(s.start, o.start)
	if o.drain { // the record begins when the node's last job ends
		starts = s.start >= o.start && (o.end.IsZero() || s.start <= o.end.Add(eventTolerance))
	}
	return starts && around(s.end, o.end) && strings.EqualFold(onRecord(s.reason), onRecord(o.reason))
}

// onRecord returns the part of a reason that slurmdbd certainly stores: its beginning. slurmdbd's column for reasons
// has 255 bytes (tinytext), and the last character may be cut.
func onRecord(reason string) string { return reason[:min(len(reason), 255-utf8.UTFMax+1)] }

// outages returns the outages of each node by name. An outage begins with the event that takes the
// node out of service and ends with the event that returns the node.
func outages(events []hpc.NodeEvent, begin hpc.Time) (map[string][]outage, error) {
	out := map[string][]outage{}
	for _, ev := range events {
		update, err := rpc.NewNodeUpdate(ev) // adds a reason if the event has none
		if err != nil {
			return nil, err
		}
		names, err := hostlist.Expand(ev.Nodes)
		if err != nil {
			return nil, fmt.Errorf("node event: %w", err)
		}
		ev.At = max(ev.At, begin)
		for _, node := range names {
			list := out[node]
			if n := len(list); n > 0 && list[n-1].end.IsZero() {
				if update.State != slurmspec.NodeResume && list[n-1].reason == update.Reason {
					list[n-1].drain = list[n-1].drain && update.State == slurmspec.NodeDrain
					continue
				}
				list[n-1].end = ev.At
			}
			if update.State != slurmspec.NodeResume {
				list = append(list, outage{span{start: ev.At, reason: update.Reason}, update.State == slurmspec.NodeDrain})
			}
			out[node] = list
		}
	}
	return out, nil
}

// joined merges adjacent spans that have the same reason and reservation. slurmdbd begins a new
// span whenever the state changes.
func joined(list []span) []span {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	for _, s := range list {
		if n := len(out); n > 0 && out[n-1].end == s.start && out[n-1].reason == s.reason && out[n-1].id == s.id {
			out[n-1].end = s.end
			continue
		}
		out = append(out, s)
	}
	return out
}

// Reservations compares a workload's reservations with slurmdbd's. list is the output of `sacctmgr
// -P list reservation`. The result has one sentence for each difference.
//
// Reservations compares start and end. It also compares nodes or their number if the workload gives them, because Slurm
// may give a reservation fewer nodes. For a recurring reservation (DAILY and so on) it only checks that slurmdbd has a
// record. slurmctld does not report reservations with TIME_FLOAT to slurmdbd (_post_resv_create in reservation.c).
func Reservations(list string, events []hpc.ReservationEvent) (differences []string, err error) {
	got, err := parseSpans(list, "Name")
	if err != nil {
		return nil, fmt.Errorf("reading sacctmgr's list of reservations: %w", err)
	}
	for _, r := range reservations(events) {
		rows := joined(got[r.name])
		switch {
		case r.floating, r.end <= r.start: // a floating reservation, or one deleted before its begin
		case len(rows) == 0:
			differences = append(differences, fmt.Sprintf("reservation %s: slurmdbd does not have it", r.name))
		case r.moving:
		case !slices.ContainsFunc(rows, func(s span) bool { return around(s.start, r.start) && around(s.end, r.end) }):
			differences = append(differences, fmt.Sprintf("reservation %s: from %v in the workload, from %v in slurmdbd",
				r.name, r.span, rows[len(rows)-1]))
		case r.nodes != "" && !slices.ContainsFunc(rows, func(s span) bool { return sameNodes(s.nodes, r.nodes) }):
			differences = append(differences, fmt.Sprintf("reservation %s: nodes %s in the workload, %s in slurmdbd",
				r.name, r.nodes, rows[len(rows)-1].nodes))
		case r.count > 0 && !slices.ContainsFunc(rows, func(s span) bool {
			n, err := hostlist.Count(s.nodes)
			return err == nil && n == r.count
		}):
			differences = append(differences, fmt.Sprintf("reservation %s: %d nodes in the workload, %s in slurmdbd",
				r.name, r.count, rows[len(rows)-1].nodes))
		}
	}
	return differences, nil
}

// booking is a reservation after all events of the workload so far.
type booking struct {
	name string
	span
	count    int  // number of nodes, if Slurm chooses them
	moving   bool // its times or nodes may change without an event
	floating bool // TIME_FLOAT
	exactEnd bool // the request gives the end, not the duration
}

func reservations(events []hpc.ReservationEvent) []booking {
	var out []booking
	open := map[string]int{}
	for _, ev := range events {
		at, known := open[ev.Name]
		switch ev.Action {
		case "create":
			b := booking{name: ev.Name, span: span{start: ev.Start, end: ev.Start.Add(finite(ev.Duration))},
				exactEnd: rpc.ExactEnd(ev.Reservation)}
			if !strings.EqualFold(ev.Nodes, "ALL") && !changesByItself(ev.Flags) {
				b.nodes = ev.Nodes
			}
			if ev.Nodes == "" {
				b.count = ev.NodeCount
			}
			b.floating = ev.HasFlag(slurmspec.FlagTimeFloat)
			b.moving = ev.Duration == 0 || changesByItself(ev.Flags)
			open[ev.Name] = len(out)
			out = append(out, b)
		case "update":
			if !known {
				continue
			}
			b := &out[at]
			b.move(ev.Start, finite(ev.Duration))
			if ev.Nodes != "" || ev.NodeCount > 0 {
				b.nodes, b.count = "", ev.NodeCount
			}
			b.moving = b.moving || changesByItself(ev.Flags)
		case "delete":
			if known && ev.At < out[at].end {
				out[at].end = ev.At
			}
			delete(open, ev.Name)
		}
	}
	return out
}

// finite returns the duration that Slurm gives a reservation: a year for an unlimited one.
func finite(d time.Duration) time.Duration {
	if d == hpc.Unlimited {
		return 365 * 24 * time.Hour
	}
	return d
}

// move changes the times of a booking as an update does. Slurm rounds a duration up to whole
// minutes, unless the update also sets the start.
func (b *booking) move(start hpc.Time, length time.Duration) {
	switch {
	case length == 0 && b.exactEnd && !start.IsZero(): // the end stays
		length = b.end.Sub(start)
	case length == 0:
		length = b.end.Sub(b.start)
	case start.IsZero():
		length, b.exactEnd = (length + time.Minute - 1).Truncate(time.Minute), false
	default:
		b.exactEnd = length%time.Minute != 0
	}
	if !start.IsZero() {
		b.start = start
	}
	b.end = b.start.Add(length)
}

// changesByItself reports whether one of the flags lets a reservation's times or nodes change
// without an event.
func changesByItself(flags []string) bool {
	return slices.ContainsFunc(flags, func(text string) bool {
		flag, err := slurmspec.ParseReservationFlag(text)
		return err == nil && flag.Changes()
	})
}

func sameNodes(a, b string) bool {
	x, err := hostlist.Expand(a)
	y, err2 := hostlist.Expand(b)
	if err != nil || err2 != nil {
		return false
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// parseSpans reads a list that sacctmgr -P printed. The keys of the result are the values of the
// column key.
func parseSpans(text, key string) (map[string][]span, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	column := map[string]int{}
	for i, name := range strings.Split(lines[0], "|") {
		column[name] = i
	}
	out := map[string][]span{}
	for _, line := range lines[1:] {
		fields := strings.Split(line, "|")
		if len(fields) < len(column) { // the reason is last and may have more separators in it
			return nil, fmt.Errorf("%.100q has %d fields, but the header has %d", line, len(fields), len(column))
		}
		var s span
		var err error
		if s.start, err = parseSacctTime(fields[column["TimeStart"]]); err == nil {
			s.end, err = parseSacctTime(fields[column["TimeEnd"]])
		}
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", line, err)
		}
		if at, ok := column["Reason"]; ok {
			s.reason = strings.Join(fields[at:], "|")
		}
		if key == "Name" {
			s.nodes = fields[column["NodeName"]]
		}
		if at, ok := column["ID"]; ok {
			s.id = fields[at]
		}
		name := fields[column[key]]
		out[name] = append(out[name], s)
	}
	return out, nil
}

// parseSacctTime reads a time that sacct printed. It returns 0 if sacct printed a word for an
// unknown time.
func parseSacctTime(s string) (hpc.Time, error) {
	if slurmspec.Given(s) == "" {
		return 0, nil
	}
	return hpc.ParseTime(s)
}
