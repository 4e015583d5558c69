package slurmdb

import (
	"cmp"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// booking is a row of resv_table: the state of a reservation between two changes. All rows of a
// reservation have the same number. Each occurrence of a recurring reservation has another number.
// Slurm writes the row of the next occurrence in advance.
type booking struct {
	id int64
	hpc.Reservation
	end hpc.Time
}

// readReservations reads the reservations that overlap the window. The parameter until is the end of the period for
// which the reader requests jobs from the database.
func (r *reader) readReservations(until hpc.Time) ([]hpc.ReservationEvent, error) {
	condition, args := r.window("time_start", "time_end")
	var bookings []booking
	query := "SELECT id_resv, assoclist, flags, nodelist, resv_name, time_start, time_end FROM " + r.table("resv_table") +
		" WHERE deleted = 0 AND " + condition + " ORDER BY time_start, id_resv"
	err := r.each(query, func(rows *sql.Rows) error {
		var b booking
		var flags uint64
		var assocs string
		var start, end sql.NullInt64
		if err := rows.Scan(&b.id, &assocs, &flags, &b.Nodes, &b.Name, &start, &end); err != nil {
			return err
		}
		if start.Int64 == 0 || end.Int64 == 0 {
			return nil
		}
		b.Start, b.end = instant(start), instant(end)
		b.Duration = b.end.Sub(b.Start)
		b.Flags = slurmspec.RecordedFlags(flags)
		r.addAssociations(&b.Reservation, assocs)
		bookings = append(bookings, b)
		return nil
	}, args...)
	return reservationEvents(bookings, r.opts.ReadOptions, until), err
}

// reservationEvents converts bookings, sorted by start, to events. The first booking of a number
// creates the reservation, and later bookings update it. Slurm itself makes the next occurrence
// of a recurring reservation. If this occurrence is not recorded although it should come before
// the instant until, the reservation was deleted. A reservation with the name of another
// reservation is created when the other no longer exists.
func reservationEvents(bookings []booking, opts workload.ReadOptions, until hpc.Time) []hpc.ReservationEvent {
	var events []hpc.ReservationEvent
	last := make(map[string]*booking) // by name, in the present state; Start is the original one
	remove := func(b *booking) {
		if b.Recurring() {
			events = append(events, hpc.ReservationEvent{At: b.gone(), Action: "delete",
				Reservation: hpc.Reservation{Name: b.Name}})
		}
	}
	for i := range bookings {
		b := bookings[i]
		old := last[b.Name]
		last[b.Name] = &b
		switch {
		case old != nil && old.id == b.id && old.end == b.Start:
			// Slurm does not change the start of a reservation that has begun. The duration of such a reservation counts from
			// its start.
			update := b.Reservation
			b.Start, b.Duration = old.Start, b.end.Sub(old.Start)
			update.Start, update.Duration = 0, b.Duration
			events = append(events, hpc.ReservationEvent{At: max(old.end, opts.Start), Action: "update", Reservation: update})
		case old != nil && old.comesAgainAs(&b):
		default:
			event := workload.ReservationOfWindow(b.Reservation, b.end, opts)
			if event == nil {
				last[b.Name] = old
				continue
			}
			if old != nil {
				remove(old)
				if old.Recurring() || event.At < old.gone() {
					event.At = old.gone()
				}
			}
			events = append(events, *event)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if b := last[name]; b != nil && b.Start.Add(workload.UntilNext(&b.Reservation)) < until {
			remove(b)
		}
	}
	slices.SortStableFunc(events, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
	return events
}

// gone returns the instant at which Slurm removes the reservation.
func (b *booking) gone() hpc.Time { return b.end.Add(workload.ReservationLinger) }

// comesAgainAs reports whether next is the next occurrence of this reservation.
func (b *booking) comesAgainAs(next *booking) bool {
	return b.Recurring() && next.Start == b.Start.Add(workload.UntilNext(&b.Reservation)) && next.Duration == b.Duration &&
		next.Nodes == b.Nodes && slices.Equal(next.Flags, b.Flags) && slices.Equal(next.Users, b.Users) &&
		slices.Equal(next.Accounts, b.Accounts)
}

// addAssociations adds the users and accounts that may use a reservation. list contains numbers of
// associations, such as ",3,-7"; a minus excludes the association.
func (r *reader) addAssociations(res *hpc.Reservation, list string) {
	for id := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimPrefix(id, "-"))
		a := r.assocs[n]
		if err != nil || a == nil {
			continue
		}
		names, name := &res.Accounts, a.account
		if a.user != "" {
			names, name = &res.Users, a.user
		}
		if strings.HasPrefix(id, "-") {
			name = "-" + name
		}
		if !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
}

type outage struct {
	node, reason, state string
	start, end          hpc.Time
}

// readEvents reads node events. Changes of the same kind and reason at the same instant become one
// event.
func (r *reader) readEvents() ([]hpc.NodeEvent, error) {
	condition, args := r.window("time_start", "time_end")
	var outages []outage
	query := "SELECT node_name, reason, state, time_start, time_end FROM " + r.table("event_table") +
		" WHERE node_name != '' AND " + condition + " ORDER BY time_start, node_name"
	err := r.each(query, func(rows *sql.Rows) error {
		var o outage
		var state int64
		var start, end sql.NullInt64
		if err := rows.Scan(&o.node, &o.reason, &state, &start, &end); err != nil {
			return err
		}
		o.start, o.end, o.state = max(instant(start), r.begin()), instant(end), slurmspec.OutageOfNumber(state)
		outages = append(outages, o)
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	return nodeEvents(outages), nil
}

func nodeEvents(outages []outage) []hpc.NodeEvent {
	type moment struct {
		at            hpc.Time
		state, reason string
	}
	type place struct {
		at   hpc.Time
		node string
	}
	starts := make(map[place]bool, len(outages))
	for _, o := range outages {
		starts[place{o.start, o.node}] = true
	}
	nodes := make(map[moment][]string)
	for _, o := range outages {
		m := moment{o.start, o.state, o.reason}
		nodes[m] = append(nodes[m], o.node)
		// If another outage follows immediately, the node did not return to service in between.
		if o.end != 0 && !starts[place{o.end, o.node}] {
			m := moment{at: o.end, state: "resume"}
			nodes[m] = append(nodes[m], o.node)
		}
	}
	events := make([]hpc.NodeEvent, 0, len(nodes))
	for m, names := range nodes {
		slices.Sort(names)
		events = append(events, hpc.NodeEvent{At: m.at, Nodes: hostlist.Compress(slices.Compact(names)), State: m.state,
			Reason: m.reason})
	}
	slices.SortFunc(events, func(a, b hpc.NodeEvent) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.Nodes, b.Nodes))
	})
	return events
}

// readUsage computes the usage of every association at the window's start, in processor seconds, or in billing ×
// seconds if the database has these. Usage is halved for every half-life that has passed, and counts from the last
// reset (Slurm's src/plugins/priority/multifactor, decay thread). For recent usage, readUsage adds up hourly sums, as
// far back as slurmdbd keeps them. For older usage it adds up daily sums, and for the oldest usage monthly sums.
func (r *reader) readUsage() ([]hpc.Usage, error) {
	if r.opts.Start == 0 {
		return nil, nil
	}
	used := make(map[int]float64)
	until := r.opts.Start.UnixSeconds()
	for _, t := range []struct {
		table  string
		length time.Duration
	}{{"assoc_usage_hour_table", time.Hour}, {"assoc_usage_day_table", 24 * time.Hour},
		{"assoc_usage_month_table", 30 * 24 * time.Hour}} {
		earliest := until
		query := "SELECT id, id_tres, time_start, alloc_secs FROM " + r.table(t.table) +
			" WHERE deleted = 0 AND time_start < ?" +
			" AND id_tres = (SELECT IF(EXISTS(SELECT 1 FROM " + r.table(t.table) +
			" WHERE id_tres = 5 AND alloc_secs > 0), 5, 1))"
		err := r.each(query, func(rows *sql.Rows) error {
			var id, tres int
			var at int64
			var seconds float64
			if err := rows.Scan(&id, &tres, &at, &seconds); err != nil {
				return err
			}
			earliest = min(earliest, at)
			used[id] += seconds * r.opts.usageLeft(hpc.Unix(at), t.length)
			return nil
		}, until)
		if err != nil {
			return nil, err
		}
		until = earliest
	}
	var usage []hpc.Usage
	for _, a := range r.order {
		if raw := used[a.id]; raw > 0 {
			usage = append(usage, hpc.Usage{Account: a.account, User: a.user, Raw: math.Round(raw)})
		}
	}
	if len(usage) > 0 && r.opts.UsageHalfLife <= 0 && r.opts.UsageSince == 0 {
		r.leftOut = append(r.leftOut, "fair-share usage does not decay, so it is the sum over all the time that the "+
			"database covers (--usage-since gives the instant of its last reset)")
	}
	return usage, nil
}

// usageLeft returns the share of a period's usage that remains at the window's start, if the usage
// was spread evenly over the period.
func (o *Options) usageLeft(from hpc.Time, length time.Duration) float64 {
	part := 1.0
	if late := o.UsageSince.Sub(from); o.UsageSince != 0 && late > 0 {
		part = max(0, 1-late.Seconds()/length.Seconds())
		from, length = o.UsageSince, length-late
	}
	return part * decay(max(0, o.Start.Sub(from)-length/2), o.UsageHalfLife)
}

func decay(age, halfLife time.Duration) float64 {
	if halfLife <= 0 {
		return 1
	}
	return math.Exp2(-age.Seconds() / halfLife.Seconds())
}
