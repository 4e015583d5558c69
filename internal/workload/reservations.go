package workload

import (
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
)

// ReservationLinger is how long Slurm may keep a reservation, and its name, after its end.
// Slurm looks for such reservations every 30 seconds (job_resv_check in reservation.c).
const ReservationLinger = 40 * time.Second

// UntilNext returns the time between two occurrences of a recurring reservation, or 0 for any other
// reservation (_advance_resv_time in reservation.c).
func UntilNext(r *hpc.Reservation) time.Duration {
	const day = 24 * time.Hour
	today := r.Start.Std().Weekday()
	switch {
	case !r.Recurring():
		return 0
	case r.HasFlag("HOURLY"):
		return time.Hour
	case r.HasFlag("WEEKDAY") && today == time.Friday:
		return 3 * day
	case r.HasFlag("WEEKDAY") && today == time.Saturday:
		return 2 * day
	case r.HasFlag("WEEKEND") && today != time.Saturday:
		return time.Duration(time.Saturday-today) * day // 6 on a Sunday
	case r.HasFlag("WEEKLY"):
		return 7 * day
	}
	return day
}

// endOf returns when a reservation ends by itself, or 0 if it does not.
func endOf(r *hpc.Reservation) hpc.Time {
	if r.Recurring() || r.HasFlag("TIME_FLOAT") || r.Duration <= 0 || r.Duration == hpc.Unlimited {
		return 0
	}
	return r.Start.Add(r.Duration)
}

// standing has the reservations that exist after the events so far.
type standing struct {
	made   []hpc.ReservationEvent // in their present state, in the order of creation
	gone   []bool                 // for each of made, whether it is gone
	place  map[string]int         // index in made, by name
	lapsed map[string]bool        // names whose last reservation ended by itself
}

func newStanding() *standing {
	return &standing{place: map[string]int{}, lapsed: map[string]bool{}}
}

// find returns the reservation of that name, or nil.
func (s *standing) find(name string) *hpc.Reservation {
	if i, ok := s.place[name]; ok {
		return &s.made[i].Reservation
	}
	return nil
}

func (s *standing) remove(name string, lapsed bool) {
	s.gone[s.place[name]], s.lapsed[name] = true, lapsed
	delete(s.place, name)
}

// apply carries out an event. It ignores an event without effect: an event for a nonexistent
// reservation, or the creation of a reservation under a name in use.
func (s *standing) apply(ev hpc.ReservationEvent) {
	old := s.find(ev.Name)
	if old != nil && hasEnded(old, ev) {
		s.remove(ev.Name, true)
		old = nil
	}
	switch {
	case ev.Action == "create" && old == nil:
		s.place[ev.Name] = len(s.made)
		s.made, s.gone = append(s.made, ev), append(s.gone, false)
		s.lapsed[ev.Name] = false
	case old == nil:
	case ev.Action == "delete":
		s.remove(ev.Name, false)
	case ev.Action == "update":
		*old = updated(*old, ev.Reservation)
	}
}

// hasEnded reports whether a reservation has ended before an event of the same name. At the instant
// of the end, an update is still possible, and so is the creation of another reservation of that
// name. A reservation with PURGE_COMP may have ended earlier.
func hasEnded(r *hpc.Reservation, ev hpc.ReservationEvent) bool {
	end := endOf(r)
	if ev.Action == "create" {
		return end != 0 && end <= ev.At || r.HasFlag("PURGE_COMP")
	}
	return end != 0 && end < ev.At
}

// ReservationsAt divides the events of reservations at an instant. The result open has one event for each reservation
// that exists at the instant. The event creates the reservation in its state at that instant, but has its original time
// of creation. Reservations that had ended or were deleted are left out. The result rest has the later events, except
// updates of reservations that have ended.
func ReservationsAt(events []hpc.ReservationEvent, at hpc.Time) (open, rest []hpc.ReservationEvent) {
	s := newStanding()
	for _, ev := range events {
		if ev.At <= at {
			s.apply(ev)
		}
	}
	for i, ev := range s.made {
		end := endOf(&ev.Reservation)
		switch {
		case s.gone[i]:
		case end != 0 && end <= at:
			s.remove(ev.Name, true)
		default:
			open = append(open, ev)
		}
	}
	for _, ev := range events {
		if ev.Action == "create" {
			s.lapsed[ev.Name] = s.lapsed[ev.Name] && ev.At <= at
		}
		if ev.At > at && !s.lapsed[ev.Name] {
			rest = append(rest, ev)
		}
	}
	return open, rest
}

// PresetsInto returns how many preset jobs still run on nodes of a reservation when it begins. It
// returns 0 for a reservation that is open when the window begins.
func (w *Workload) PresetsInto(r *hpc.Reservation) (n int) {
	names, err := hostlist.Expand(r.Nodes)
	all := strings.EqualFold(r.Nodes, "ALL")
	if r.Start <= w.Start || err != nil && !all {
		return 0
	}
	reserved := map[string]bool{}
	for _, name := range names {
		reserved[name] = true
	}
	for _, job := range w.Jobs.All() {
		if !w.Preset(job) {
			continue
		}
		end := job.EndAt
		if end == 0 {
			ran := job.RunTime
			if job.TimeLimit > 0 {
				ran = min(ran, job.TimeLimit)
			}
			end = max(job.Recorded.Start.Add(ran), job.Recorded.End) // a job that was suspended ends later
		}
		if job.CancelAfter > 0 {
			end = min(end, job.Submit.Add(job.CancelAfter))
		}
		on, _ := hostlist.Expand(job.Recorded.Nodes) // Validate reports an error
		if end > r.Start && (all || slices.ContainsFunc(on, func(node string) bool { return reserved[node] })) {
			n++
		}
	}
	return n
}

// updated returns a reservation after an update.
func updated(r, update hpc.Reservation) hpc.Reservation {
	for _, field := range []struct {
		set bool
		do  func()
	}{
		{update.Start != 0, func() { r.Start = update.Start }},
		{update.Duration != 0, func() { r.Duration = update.Duration }},
		{update.Nodes != "", func() { r.Nodes, r.NodeCount = update.Nodes, 0 }},
		{update.NodeCount != 0, func() { r.NodeCount, r.Nodes = update.NodeCount, "" }},
		{update.Partition != "", func() { r.Partition = update.Partition }},
		{update.Users != nil, func() { r.Users = update.Users }},
		{update.Accounts != nil, func() { r.Accounts = update.Accounts }},
		{update.Flags != nil, func() { r.Flags = updatedFlags(r.Flags, update.Flags) }},
		{update.Licenses != "", func() { r.Licenses = update.Licenses }},
		{update.Features != "", func() { r.Features = update.Features }},
	} {
		if field.set {
			field.do()
		}
	}
	return r
}

// updatedFlags adds flags to a list, and removes flags that are given with a minus, as Slurm does.
func updatedFlags(flags, update []string) []string {
	flags = slices.Clone(flags)
	for _, flag := range update {
		name, removed := strings.CutPrefix(flag, "-")
		flags = slices.DeleteFunc(flags, func(f string) bool { return strings.EqualFold(f, name) })
		if !removed {
			flags = append(flags, flag)
		}
	}
	return flags
}
